"""Sequential: a stack of layers, with one input and one output each."""
from __future__ import annotations

import contextlib
import copy
from typing import Any

import penstock as tf
from penstock._src.base import nest
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import init_scope, name_scope
from penstock._src.graph.trackable import no_automatic_dependency_tracking
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.models.keras.backend.state import symbolic_graph
from penstock._src.models.keras.engine.base_layer import Layer, default
from penstock._src.models.keras.engine.call_context import current
from penstock._src.models.keras.engine.input_layer import Input, InputLayer
from penstock._src.models.keras.engine.module_wrapper import ModuleWrapper
from penstock._src.models.keras.engine.network import Network, assert_no_legacy_layers
from penstock._src.models.keras.engine.training import Functional
from penstock._src.models.keras.saving.saved_model import any_batch, call_spec
from penstock._src.models.keras.utils.generic_utils import uses_earlier_configs
from penstock._src.models.keras.utils.object_config import serialize_keras_object
from penstock._src.state.module import Module

_ONE_OUTPUT = ("All layers in a Sequential model should have a single output tensor. For multi-output layers, use the "
               "functional API.")


@export("keras.Sequential", "keras.models.Sequential")
class Sequential(Functional):
    """A stack of layers. Without the shape of its input, it is built by its first input.

    Args:
        layers: List of layers.
        trainable: Whether the variables are trained.
        name: Name of the model.

    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu", input_shape=(4,)), tf.keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> history = model.fit(tf.ones([16, 4]), tf.zeros([16, 1]), epochs=3, verbose=0)
    >>> len(history.history["loss"]), model.predict(tf.ones([2, 4]), verbose=0).shape
    (3, (2, 1))
    """

    inputs: Any
    outputs: Any

    def _track_layers(self, layers: Any) -> None:
        """TensorFlow 1 counts the input layer among the dependencies of checkpoints; TensorFlow 2 does not."""
        eager = context.eager_outside_functions()
        super()._track_layers(layers[1:] if eager and layers and isinstance(layers[0], InputLayer) else layers)

    @no_automatic_dependency_tracking
    def __init__(self, layers: Any = None, trainable: bool = True, name: str | None = None):
        if isinstance(trainable, str):
            trainable, name = True, trainable
        super().__init__(name=name, trainable=trainable)
        self.supports_masking = True
        self._compute_output_and_mask_jointly = True
        if layers:
            layers = list(layers) if isinstance(layers, (list, tuple)) else [layers]
            assert_no_legacy_layers(layers)
            for layer in layers:
                self.add(layer)

    def _tracks_layers(self) -> bool:
        return False

    @property
    def layers(self) -> list:
        """The layers, in order, without the input."""
        found = super().layers
        return found[1:] if found and isinstance(found[0], InputLayer) else found

    @no_automatic_dependency_tracking
    def add(self, layer: Any, rebuild: bool = True) -> None:
        """Puts a layer on top.

        >>> model.add(tf.keras.layers.Dense(3))
        """
        origin = getattr(layer, "_keras_history", (None,))[0]
        if isinstance(origin, InputLayer):
            layer = origin
        if context.eager_outside_functions() and isinstance(layer, Module) and not isinstance(layer, Layer):
            layer = ModuleWrapper(layer)
        if not isinstance(layer, Layer):
            raise TypeError(f"The added layer must be an instance of class Layer. Received: layer={layer} of "
                            f"type {type(layer)}.")
        assert_no_legacy_layers([layer])
        if context.eager_outside_functions() and any(layer.name == other.name and layer is not other for other in self._layers):
            raise ValueError("All layers added to a Sequential model should have unique names. Name "
                             f"\"{layer.name}\" is already the name of a layer in this model. Update the `name` argument "
                             "to pass a unique name.")
        self.built = False
        first = not self._layers
        set_inputs = first and self._begin(layer)
        if not first and self.outputs:
            last = self.outputs[0]
            if isinstance(last, TensorSpec):                    # the stack has run, and has no symbolic tensors
                last = Input(batch_shape=tuple(last.shape.as_list()), dtype=last.dtype.name)
            output = layer(last)
            if len(nest.flatten(output)) != 1:
                raise (ValueError if context.eager_outside_functions() else TypeError)(_ONE_OUTPUT)
            self.__dict__["outputs"] = [any_batch(call_spec(output))] if isinstance(self.outputs[0], TensorSpec) else [output]
            self.__dict__.update(_steps={}, _compiled=self._new_compiled() if self._is_compiled else self._compiled)
        self.built = bool(self.outputs)
        if set_inputs or self._is_graph_network:
            self._init_graph_network(self.inputs, self.outputs, name=self.name)
        else:
            self._layers.append(layer)
        if self._layers:
            self._track_layers(self._layers)

    def _begin(self, layer: Any) -> bool:
        """Starts with a first layer; whether it defines the input."""
        if not isinstance(layer, InputLayer):
            shape, dtype = _input_of(layer)
            if not shape:
                return False
            layer(Input(batch_shape=shape, dtype=dtype, name=layer.name + "_input"))
        outputs = nest.flatten(layer._inbound_nodes[-1].output_tensors)
        if len(outputs) != 1:
            raise ValueError(_ONE_OUTPUT)
        self.__dict__["outputs"] = outputs
        self.__dict__["inputs"] = source_inputs(outputs[0])
        return True

    @no_automatic_dependency_tracking
    def pop(self) -> None:
        """Removes the last layer."""
        if not self.layers:
            raise TypeError("There are no layers in the model.")
        self._layers.pop()
        if not self.layers:
            self.__dict__.update(outputs=None, inputs=None)
            self.built = False
            self._is_graph_network = False
        elif self._is_graph_network:
            self.layers[-1]._outbound_nodes = []
            self.__dict__["outputs"] = [self.layers[-1].output]
            self._init_graph_network(self.inputs, self.outputs, name=self.name)

    def save_spec(self, dynamic_batch: bool = True) -> Any:
        """As for other networks; the number of examples that a network was inferred from is left open."""
        specs = super().save_spec(dynamic_batch)
        return any_batch(specs) if dynamic_batch and "_inferred_dims" in self.__dict__ else specs

    @default
    def build(self, input_shape: Any = None) -> None:
        """Creates the variables for inputs of some shape, if the first layer has no input shape."""
        if self._is_graph_network:
            self._init_graph_network(self.inputs, self.outputs, name=self.name)
        else:
            if input_shape is None:
                raise ValueError("The model has no input shape: pass `input_shape`.")
            if not self._layers:
                raise ValueError(f"Sequential model {self.name} cannot be built because it has no layers. Call "
                                 "`model.add(layer)`.")
            if isinstance(input_shape, str):
                raise ValueError(f"The input shape must be a tuple of sizes. Received: {input_shape!r}")
            shape = input_shape if isinstance(input_shape, TensorShape) else TensorShape(input_shape)
            if not self._becomes_network(shape):
                super().build(shape)
            self.__dict__["_build_input_shape"] = tuple(shape.as_list()) if shape.rank is not None else None
        self.built = True

    def _expect(self, x: Any) -> None:
        """Batches may have any size: connects the layers for that before a step is traced with the size of the first one."""
        if not self._is_graph_network and isinstance(x, Tensor) and x.static_dims:
            self._infer_network(TensorSpec([None, *x.static_dims[1:]], x.dtype))

    def _infer_network(self, inputs: Any) -> None:
        """Connects the layers for the inputs of a call, if the first layer declares none, so that layers and model have
        symbolic inputs and outputs. Inputs of another shape connect them anew, with the dimensions that differ open."""
        own = self.__dict__
        if own.get("_deferred") or not context.eager_outside_functions() or not self.layers:
            return
        seen = own.get("_inferred_dims")
        known = isinstance(inputs, (Tensor, TensorSpec))
        dims = inputs.shape.static_dims if known else None
        if dims is not None and seen is not None:
            dims = _relaxed(seen, dims)
        if dims is None:
            own["_deferred"] = seen is None and not known
        elif dims != seen:
            with symbolic_graph().as_default(), name_scope(""), init_scope(), current.outside():
                own["_deferred"] = not self._becomes_network(TensorShape(dims), inputs.dtype)
            own["_inferred_dims"] = dims

    def _becomes_network(self, shape: TensorShape, dtype: Any = None) -> bool:
        """Connects the layers for inputs of a shape, as if the first one had declared it. False in 1.x, and for layers that
        do not take the outputs of the layer before them as symbolic tensors."""
        if not context.eager_outside_functions() or shape.rank is None or type(self).call is not Sequential.call:
            return False
        self._disconnect()
        first = Input(batch_shape=tuple(shape.as_list()), dtype=dtype, name=self.layers[0].name + "_input")
        last, calls = first, []
        try:
            for layer in self.layers:
                last = layer(last)
                if len(nest.flatten(last)) != 1:
                    break
                calls.append(layer._inbound_nodes[-1])
        except Exception:                                       # noqa: BLE001 the caller calls layer by layer, and reports it
            return False
        if len(nest.flatten(last)) != 1:
            raise ValueError(_ONE_OUTPUT)
        self.__dict__.update(inputs=[first], outputs=[last], _inferred_input=True, _inferred_calls=calls)
        Network._init_graph_network(self, self.inputs, self.outputs, name=self.name)   # what `compile` made may be in use
        return True

    def _disconnect(self) -> None:
        """Removes the calls of the layers that an earlier inference made."""
        for node in self.__dict__.get("_inferred_calls", ()):
            for layer in (node.outbound_layer, *nest.flatten(node.inbound_layers)):
                for nodes in (layer._inbound_nodes, layer._outbound_nodes):
                    if node in nodes:
                        nodes.remove(node)

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Calls the layers in sequence."""
        if not self._is_graph_network or "_inferred_dims" in self.__dict__:
            self._infer_network(inputs)
        if self._is_graph_network:
            return super().call(inputs, training=training, mask=mask)
        single = not context.eager_outside_functions()     # 2.x lets structures pass on if the model is given one
        if single and isinstance(inputs, dict) and not _takes_dict(self.layers):
            raise ValueError("A Sequential model takes one tensor as its input. Passing a dictionary input to a "
                             "Sequential Model "
                             "which doesn't have FeatureLayer as the first layer is an error: use the functional API.")
        with contextlib.nullcontext() if single or all(v.built for v in self.layers) else name_scope(""):
            return self._through(inputs, training, mask, single)

    def _through(self, inputs: Any, training: Any, mask: Any, single: bool) -> Any:
        """The output of the last layer. Layers that are not built yet are called outside of the names of what is around the
        model, because 2.x builds them as a graph of their own."""
        outputs = inputs
        for layer in self.layers:
            kwargs: dict[str, Any] = {}
            if "mask" in layer._call_fn_args:
                kwargs["mask"] = mask
            if "training" in layer._call_fn_args:
                kwargs["training"] = training
            outputs = layer(outputs, **kwargs)
            if (single or not nest.is_nested(inputs)) and len(nest.flatten(outputs)) != 1:
                raise (TypeError if single else ValueError)(_ONE_OUTPUT)
            mask = getattr(outputs, "_keras_mask", None)
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the output for an input of some shape."""
        shape = input_shape
        for layer in self.layers:
            shape = layer.compute_output_shape(shape)
        return shape

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask of the output."""
        return getattr(self.call(inputs, mask=mask), "_keras_mask", None)

    compute_mask._is_default = True              # type: ignore[attr-defined]

    def predict_proba(self, x: Any, batch_size: int = 32, verbose: int = 0) -> Any:
        """Probabilities for the classes."""
        found = self.predict(x, batch_size, verbose)
        if found.min() < 0.0 or found.max() > 1.0:
            logging.warning("Predictions are outside [0, 1], so they are not probabilities. The last layer may lack a softmax "
                            "or a sigmoid.")
        return found

    def predict_classes(self, x: Any, batch_size: int = 32, verbose: int = 0) -> Any:
        """The most probable class of each example."""
        found = self.predict(x, batch_size=batch_size, verbose=verbose)
        return found.argmax(axis=-1) if found.shape[-1] > 1 else (found > 0.5).astype("int32")

    def get_config(self) -> dict[str, Any]:
        """The layers, as plain data."""
        layers = [serialize_keras_object(v) for v in (self.layers if uses_earlier_configs() else self._layers)]
        if self._is_graph_network and layers and isinstance(self._layers[0], InputLayer):
            layers[0]["config"].setdefault("batch_input_shape", self._layers[0]._batch_input_shape)
        config = {"name": self.name, "layers": copy.deepcopy(layers)}
        shape = self.__dict__.get("_build_input_shape")
        if isinstance(shape, (TensorShape, list, tuple)) and not self._is_graph_network:       # of a dict: left to the layers
            config["build_input_shape"] = tuple(shape.static_dims if isinstance(shape, TensorShape) else shape)
        return config

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        """A stack of layers from its config."""
        whole = config if "name" in config else {"name": None, "layers": config}
        model = cls(name=whole["name"])
        for data in whole["layers"]:
            model.add(tf.keras.layers.deserialize(data, custom_objects=custom_objects))
        shape = whole.get("build_input_shape")
        if not model.inputs and shape:
            model.build(tuple(shape))
        return model

    @property
    def _declares_inputs(self) -> bool:                                     # type: ignore[override]
        return "_inferred_input" not in self.__dict__

    def _first_input_spec(self) -> Any:
        return getattr(self.layers[0], "input_spec", None) if self.layers else None      # read once: stacks begin with stacks

    _object_identifier = property(lambda self: "_tf_keras_sequential")


def _relaxed(seen: tuple, dims: tuple) -> tuple | None:
    """The dimensions of both shapes, open where they differ; None for other ranks."""
    return tuple(a if a == b else None for a, b in zip(seen, dims, strict=True)) if len(seen) == len(dims) else None


def _takes_dict(layers: list) -> bool:
    return bool(layers) and type(layers[0]).__name__ == "DenseFeatures"


def _input_of(layer: Any) -> tuple[Any, Any]:
    """Shape and dtype of the input that a first layer (or the first layer of a first model) was given."""
    while True:
        if hasattr(layer, "_batch_input_shape"):
            return layer._batch_input_shape, layer.dtype
        if isinstance(layer, InputLayer) or not getattr(layer, "layers", None):
            return None, None
        layer = layer._layers[0] if isinstance(layer, Sequential) else layer.layers[0]


def source_inputs(tensor: Any) -> list:
    """The inputs of models that a tensor depends on."""
    layer, index, _ = tensor._keras_history
    found: list = []
    waiting, seen = [layer._inbound_nodes[index]], set()
    while waiting:
        node = waiting.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        if not node.inbound_layers:
            found.extend(t for t in nest.flatten(node.input_tensors) if not any(t is f for f in found))
        waiting.extend(node.parents)
    return found
