"""Network: a graph of layers as one layer; a model without training.

A network is either *functional*, made from symbolic inputs and outputs, or *subclassed*, with its own `call`. A
functional network runs by calling its layers again in order (`_run_internal_graph`).
"""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base import nest, tf_logging
from penstock._src.base.api import LazyModule
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.convert import convert, is_tensor
from penstock._src.graph.func_graph import FuncGraph
from penstock._src.graph.node import Tensor
from penstock._src.graph.trackable import no_automatic_dependency_tracking
from penstock._src.models.keras.engine import network_config
from penstock._src.models.keras.engine.base_layer import Layer, _as_shapes, default
from penstock._src.models.keras.engine.call_context import in_eager_or_function
from penstock._src.models.keras.engine.input_spec import assert_input_compatibility, check_dimensions, counted, quoted
from penstock._src.models.keras.engine.intermediate import from_inputs
from penstock._src.models.keras.engine.layer_weights import has_weights, unique
from penstock._src.models.keras.engine.node import Node
from penstock._src.models.keras.engine.op_layer import AddLoss, AddMetric, create_keras_history
from penstock._src.models.keras.engine.summary import html_summary, print_summary
from penstock._src.models.keras.engine.topology import map_network, node_key
from penstock._src.models.keras.saving.saved_model import any_batch, call_spec, call_specs, input_specs
from penstock._src.state.containers import TrackableDataStructure

backend = LazyModule("penstock._src.models.keras.backend")


def is_functional(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether a network with these arguments is made from symbolic inputs and outputs."""
    return len(args) == 2 or len(args) == 1 and "outputs" in kwargs or "inputs" in kwargs and "outputs" in kwargs


class Network(Layer):
    """A directed graph of layers, or a layer with layers as attributes."""

    _nested_inputs: Any
    _nested_outputs: Any
    input_names: Any
    inputs: Any
    output_names: Any
    outputs: Any

    _TF_MODULE_IGNORED_PROPERTIES = frozenset((
        "_nodes_by_depth", "_network_nodes", "_nested_inputs", "_nested_outputs", "inputs", "outputs", "_input_coordinates",
        "_output_coordinates", "_input_layers", "_output_layers", "_feed_inputs",
        *Layer._TF_MODULE_IGNORED_PROPERTIES)) - {"_layers"}       # its layers are its submodules

    def __init__(self, *args: Any, **kwargs: Any):
        if is_functional(args, kwargs):
            self._init_graph_network(*args, **kwargs)
        else:
            self._init_subclassed(*args, **kwargs)
        assert_no_legacy_layers(self.layers)

    # -- functional networks -----------------------------------------------------------------------------------------
    @no_automatic_dependency_tracking
    def _init_graph_network(self, inputs: Any, outputs: Any, name: str | None = None, **kwargs: Any) -> None:
        for k in kwargs:
            if k != "trainable":
                raise TypeError("Functional models may only specify `name` and `trainable` keyword arguments during "
                                "initialization. Got an unexpected argument:", k)
        if isinstance(inputs, list) and len(nest.flatten(inputs)) == 1:
            inputs = inputs[0]
        if isinstance(outputs, list) and len(nest.flatten(outputs)) == 1:
            outputs = outputs[0]
        if any(not hasattr(t, "_keras_history") for t in nest.flatten(outputs)):
            create_keras_history(outputs)
        if context.eager_outside_functions():
            inputs, outputs = from_inputs(inputs, outputs)
        own = self.__dict__
        own.update(_nested_inputs=inputs, _nested_outputs=outputs, inputs=nest.flatten(inputs), outputs=nest.flatten(outputs))
        if "_is_graph_network" not in own:
            Layer.__init__(self, name=name, trainable=kwargs.get("trainable", True))
        _check_inputs_and_outputs(self.inputs, self.outputs)
        self.built = True
        self._compute_output_and_mask_jointly = True
        self._is_graph_network = True
        self._expects_training_arg = self._expects_mask_arg = True
        self._autocast = False
        topology = map_network(self.inputs, self.outputs)
        self._network_nodes, self._nodes_by_depth, self._layers = topology.nodes, topology.nodes_by_depth, topology.layers
        self._output_coordinates = [tuple(x._keras_history) for x in self.outputs]
        self._input_coordinates = [tuple(x._keras_history) for x in self.inputs]
        self._output_layers = [c[0] for c in self._output_coordinates]
        self._input_layers = [c[0] for c in self._input_coordinates]
        self._track_layers(self._layers)
        self._inbound_nodes = []
        Node(self, inbound_layers=[], node_indices=[], tensor_indices=[], input_tensors=inputs, output_tensors=outputs)
        self._feed_inputs = list(self.inputs)
        self.input_names = self._feed_input_names = [layer.name for layer in self._input_layers]
        self.output_names = _unique_names([layer.name for layer in self._output_layers])

    def _insert_layers(self, layers: Any, nodes: Any = None) -> None:
        """Adds layers that the outputs do not depend on (losses, metrics) to a functional network, at the end."""
        assert_no_legacy_layers(nest.flatten(layers))
        if nodes is None:
            nodes = [n for layer in nest.flatten(layers) for n in layer._inbound_nodes]
        known = {id(v) for v in self._layers}
        self._layers.extend(v for v in nest.flatten(layers) if id(v) not in known)
        lowest = min(self._nodes_by_depth, default=0)
        waiting = [n for n in nodes if self._key(n) not in self._network_nodes]
        present = {id(t) for d in self._nodes_by_depth.values() for n in d for t in nest.flatten(n.output_tensors)}
        while waiting:
            ready = [n for n in waiting if all(id(t) in present for t in nest.flatten(n.input_tensors))]
            if not ready:
                break
            lowest -= 1
            self._nodes_by_depth[lowest] = ready
            for n in ready:
                self._network_nodes.add(self._key(n))
                present.update(id(t) for t in nest.flatten(n.output_tensors))
            waiting = [n for n in waiting if not any(n is r for r in ready)]
        self._track_layers(self._layers)

    @staticmethod
    def _key(node: Any) -> str:
        return node_key(node.outbound_layer.name, node.outbound_layer._inbound_nodes.index(node))

    def _graph_network_add_loss(self, loss: Any) -> None:
        """Keeps a loss that was computed from this network's tensors: ops on the way become layers."""
        create_keras_history(loss)
        self._insert_result(AddLoss(unconditional=False, dtype=loss.dtype.base_dtype.name)(loss))

    def _insert_result(self, tensor: Any) -> None:
        """Adds the layers between the inputs and a tensor."""
        topology = map_network(self.inputs, [tensor])
        self._insert_layers(topology.layers, [n for level in topology.nodes_by_depth.values() for n in level])

    def _graph_network_add_metric(self, value: Any, aggregation: Any, name: Any) -> None:
        create_keras_history(value)
        self._insert_result(AddMetric(aggregation, name, dtype=value.dtype.base_dtype.name)(value))

    # -- subclassed networks -----------------------------------------------------------------------------------------
    @no_automatic_dependency_tracking
    def _init_subclassed(self, name: str | None = None, **kwargs: Any) -> None:
        # Only a string is a name: programs write `super().__init__(self)`, and TensorFlow lets them.
        Layer.__init__(self, name=name if isinstance(name, str) else None, **kwargs)
        self._is_graph_network = False
        self.__dict__.update(inputs=[], outputs=[])
        self._compute_output_and_mask_jointly = False
        self.input_names = self.output_names = None

    def __setattr__(self, name: str, value: Any) -> None:
        if "_is_graph_network" not in self.__dict__ and "_trainable_weights" not in self.__dict__ and \
                not name.startswith("_") and any(isinstance(v, (Layer, TrackableDataStructure)) or has_weights(v)
                                                 for v in nest.flatten(value)):
            raise RuntimeError("It looks like you are subclassing `Model` and you forgot to call "
                               "`super(YourClass, self).__init__()`. Always start with this line.")
        super().__setattr__(name, value)
        if self.__dict__.get("_is_graph_network") and self.__dict__.get("_self_setattr_tracking", True):
            self._track_metrics(value)

    @default
    def build(self, input_shape: Any) -> None:
        """Makes the variables of a subclassed network, by calling it on placeholders of the given shapes.

        >>> model.build((None, 28, 28))
        """
        if self._is_graph_network:
            self.built = True
            return
        if input_shape is None:
            raise ValueError("Input shape must be defined when calling build on a model subclass network.")
        if not isinstance(input_shape, (tuple, list, dict, TensorShape)):
            raise ValueError("Specified input shape is not one of the valid types. Please specify a batch input shape of type "
                             f"tuple or list of input shapes. User provided input type: {type(input_shape)}")
        shapes = _as_shapes(input_shape)
        if not self.inputs:
            self._call_on_placeholders(shapes)
        self.__dict__["_build_input_shape"] = shapes
        self._track_layers(self._nested())
        self.built = True

    def _expect(self, x: Any) -> None:
        """Is told of the first batch that `fit`, `evaluate` or `predict` will run on."""

    def _call_on_placeholders(self, shapes: Any) -> None:
        graph = FuncGraph("build_graph") if context.executing_eagerly() else backend.get_graph()
        required = self._required_call_arguments()
        with graph.as_default():
            dtype = self._compute_dtype or backend.floatx()
            x = nest.map_structure(lambda s: backend.placeholder(shape=s, dtype=dtype), shapes)
            try:
                self.call(x, **required)
            except (TypeError, ValueError) as e:
                if "NotImplemented" in type(e).__name__:
                    raise
                raise ValueError(
                    "You cannot build your model by calling `build` if your layers do not support float type inputs. "
                    "Instead, in "
                    "order to instantiate and build your model, `call` your model on real tensor data (of the correct dtype). "
                    f"The error was: {e}") from e

    def _required_call_arguments(self) -> dict[str, Any]:
        import inspect
        found = {}
        parameters = list(inspect.signature(self.call).parameters.values())
        if not parameters:
            raise ValueError("`build` needs a model whose `call` takes `inputs`.")
        for p in parameters[1:]:
            if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
                if p.name != "training":
                    raise ValueError(
                        "Currently, you cannot build your model if it has positional or keyword arguments that are not inputs "
                        "to the model, but are required for its `call` method. Instead, in order to instantiate and build your "
                        "model, `call` your model on real tensor data with all expected call arguments.")
                found["training"] = False
        return found

    @no_automatic_dependency_tracking
    def _set_inputs(self, inputs: Any, outputs: Any = None, args: Any = (), kwargs: Any = None) -> None:
        """Records the tensors of the first symbolic call of a subclassed network; for calls that run, only their specs."""
        if outputs is None and not self.built:                # requested by hand: call it, which comes back here
            self(nest.map_structure(lambda x: convert(x, backend.floatx()) if not is_tensor(x) else x, inputs))
            return
        if in_eager_or_function():
            if "_call_specs" not in self.__dict__ and not self._is_graph_network:
                self._set_save_spec(self._maybe_cast_inputs(inputs), args, kwargs)
            if context.executing_eagerly() or self.__dict__.get("_call_specs") is None:
                return
            inputs, outputs = input_specs(self), any_batch(call_spec(outputs))     # the tensors of a function stay in it
        if outputs is None:
            raise ValueError("The outputs of a subclassed model are known after it was called on its inputs.")
        flat, flat_out = nest.flatten(inputs), nest.flatten(outputs)
        own = self.__dict__
        own.update(inputs=flat, outputs=flat_out, _nested_inputs=inputs, _nested_outputs=outputs)
        if isinstance(inputs, dict):
            self.input_names = sorted(inputs)
        else:
            self.input_names = [f"input_{i + 1}" for i in range(len(flat))]
        if isinstance(outputs, dict):
            self.output_names = sorted(outputs)
        else:
            self.output_names = [f"output_{i + 1}" for i in range(len(flat_out))]

    def _set_save_spec(self, inputs: Any, args: Any = None, kwargs: Any = None) -> None:
        """Records the specs of what the network is called with, once; libraries give them before the first call."""
        if self.__dict__.get("_call_specs") is None and not self._is_graph_network:
            self.__dict__["_call_specs"] = call_specs(inputs, args or (), kwargs or {})

    def save_spec(self, dynamic_batch: bool = True) -> tuple[list[Any], dict[str, Any]] | None:
        """The specs of the arguments of `call`, positional and by keyword, to trace a function that serves the model with.

        They are known after the first call, and None before. With `dynamic_batch`, the number of examples is left open.

        >>> args, kwargs = model.save_spec()
        >>> model.save(path, signatures=tf.function(model).get_concrete_function(*args, **kwargs))
        """
        if self._is_graph_network:
            return [input_specs(self)], {}
        specs = self.__dict__.get("_call_specs")
        return any_batch(specs) if dynamic_batch else specs

    # -- running -----------------------------------------------------------------------------------------------------
    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Runs the layers on other inputs."""
        if not self._is_graph_network:
            raise NotImplementedError("A subclass of `Model` must define `call`.")
        return self._run_internal_graph(inputs, training, mask)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The masks of the outputs."""
        if not self._is_graph_network:
            return None
        return nest.map_structure(lambda t: getattr(t, "_keras_mask", None), self._run_internal_graph(inputs, mask=mask))

    compute_mask._is_default = True              # type: ignore[attr-defined]

    def _run_internal_graph(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        values = dict(zip(map(id, self.inputs), self._conform(inputs), strict=True))
        masks = [None] * len(self.inputs) if mask is None else nest.flatten(mask)
        for x, m in zip(values.values(), masks):
            if m is not None:
                x._keras_mask = m
        for nodes in self._nodes_by_depth.values():
            for node in nodes:
                layer = node.outbound_layer
                if not node.inbound_layers and id(nest.flatten(node.output_tensors)[0]) in values:
                    continue
                if not all(id(t) in values for t in nest.flatten(node.input_tensors)):
                    continue
                given = nest.map_structure(lambda t: values[id(t)], node.input_tensors)
                if isinstance(given, list) and len(given) == 1 and not context.eager_outside_functions():
                    given = given[0]
                arguments = nest.map_structure(lambda t: values.get(id(t), t), node.arguments) if node.arguments else {}
                if training is not None and "training" in layer._call_fn_args and arguments.get("training") is None:
                    arguments["training"] = training
                outputs = layer(given, **arguments)
                for reference, value in zip(nest.flatten(node.output_tensors), nest.flatten(outputs)):
                    values[id(reference)] = value
        missing = [t for t in self.outputs if id(t) not in values]
        if missing:
            raise ValueError(f"Could not compute output {missing[0]}")
        return nest.pack_sequence_as(self._nested_outputs, [values[id(t)] for t in self.outputs])

    def _check_inputs(self, inputs: Any, symbolic: bool = False) -> None:
        """ValueError, before a layer is called, if the inputs differ from the network's own in their number or shape."""
        if not (self._is_graph_network and context.eager_outside_functions() and self._declares_inputs):
            super()._check_inputs(inputs, symbolic)
            return
        if "_set_input_spec" in self.__dict__:
            assert_input_compatibility(self.input_spec, inputs, self.name)
            return
        for i, (x, reference) in enumerate(zip(self._in_order(inputs), self.inputs, strict=True)):
            shape = getattr(x, "shape", None)
            if shape is not None and shape.rank is not None and reference.shape.rank is not None:
                check_dimensions(i, shape.as_list(), reference.shape.as_list(), self.name)

    _declares_inputs = True                  # not inferred from data

    def _conform(self, inputs: Any) -> list:
        """The inputs as a flat list in the order of the network's own, in their dtypes."""
        return [_as_input(x, reference) for x, reference in zip(self._in_order(inputs), self.inputs)]

    def _in_order(self, inputs: Any) -> list:
        """The inputs as a flat list in the order of the network's own; ValueError if there are too few or too many."""
        if isinstance(inputs, dict):
            by_key = isinstance(self._nested_inputs, dict)
            names = sorted(self._nested_inputs) if by_key else self.input_names
            missing = [n for n in names if n not in inputs]
            if missing and (by_key or len(names) > 1):
                raise ValueError(f"Missing data for input \"{missing[0]}\". You passed a data dictionary with keys "
                                 f"{list(inputs)}. Expected the following keys: {names}")
            flat = [inputs[n] for n in names] if not missing else nest.flatten(inputs)
        else:
            flat = nest.flatten(inputs)
        if len(flat) != len(self.inputs):
            raise ValueError(f"Layer {quoted(self.name)} expects {counted(len(self.inputs))}, but it received {len(flat)} "
                             f"input tensors. Inputs received: {flat}")
        return flat

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shapes of the outputs for inputs of some shapes."""
        if not self._is_graph_network:
            return super().compute_output_shape(input_shape)
        shapes = nest.flatten(_as_shapes(input_shape))
        if len(shapes) != len(self.inputs):
            raise ValueError(f"Invalid input_shape argument {input_shape}: model has {len(self._input_layers)} tensor inputs.")
        known = dict(zip(map(id, self.inputs), shapes))
        for nodes in self._nodes_by_depth.values():
            for node in nodes:
                if id(nest.flatten(node.output_tensors)[0]) in known:
                    continue
                given = nest.map_structure(lambda t: tuple(known[id(t)].as_list()) if known[id(t)].rank is not None else None,
                                           node.input_tensors)
                if isinstance(given, list) and len(given) == 1:
                    given = given[0]
                found = nest.flatten(_as_shapes(node.outbound_layer.compute_output_shape(given)))
                known.update(zip((id(t) for t in nest.flatten(node.output_tensors)), found))
        return nest.pack_sequence_as(self._nested_outputs, [known[id(t)] for t in self.outputs])

    # -- parts -------------------------------------------------------------------------------------------------------
    @property
    def layers(self) -> list:
        """The layers, in order."""
        return self._nested()

    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        """The layer of a name, or at a place."""
        if index is not None:
            if len(self.layers) <= index:
                raise ValueError(f"Was asked to retrieve layer at index {index} but model only has {len(self.layers)} layers.")
            return self.layers[index]
        if not name:
            raise ValueError("Pass the name or the index of a layer.")
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ValueError(f"No such layer: {name}. Existing layers are: {[layer.name for layer in self.layers]}.")

    def _track_layers(self, layers: Any) -> None:
        """Dependencies of checkpoints: `layer-3`, and `layer_with_weights-1` for those that have some."""
        weighted = 0
        for i, layer in enumerate(layers):
            try:
                if layer.weights:
                    self._track_trackable(layer, name=f"layer_with_weights-{weighted}", overwrite=True)
                    weighted += 1
            except ValueError:                  # a model without variables yet
                pass
            self._track_trackable(layer, name=f"layer-{i}", overwrite=True)

    def _assert_weights_created(self) -> None:
        if self.dynamic:
            return
        if "build" in type(self).__dict__ and not self.built and not self._is_graph_network:
            raise ValueError(f"Weights for model {self.name!r} have not yet been created. Weights are created when the model "
                             "is first called on inputs or `build()` is called with an `input_shape`.")

    @property
    def trainable_weights(self) -> list:
        """The variables that training changes."""
        self._assert_weights_created()
        if not self.trainable:
            return []
        return unique([*self._gather("trainable_weights"), *self._trainable_weights])

    @property
    def non_trainable_weights(self) -> list:
        """The variables that training does not change."""
        self._assert_weights_created()
        if self.trainable:
            return unique([*self._gather("non_trainable_weights", metrics=True), *self._non_trainable_weights])
        return unique([*self._gather("trainable_weights"), *self._trainable_weights,
                       *self._gather("non_trainable_weights", metrics=True), *self._non_trainable_weights])

    @property
    def weights(self) -> list:
        """All variables, layer by layer, with those of metrics that are attributes."""
        self._assert_weights_created()
        return unique([*self._gather("weights", metrics=True), *self._trainable_weights,
                       *self._non_trainable_weights])

    @property
    def stateful(self) -> bool:
        """Whether a layer keeps state from batch to batch."""
        return any(getattr(layer, "stateful", False) for layer in self.layers)

    @stateful.setter
    def stateful(self, value: bool) -> None:
        """Layers decide."""

    def reset_states(self) -> None:
        """Resets the state of stateful layers."""
        for layer in self.layers:
            if hasattr(layer, "reset_states") and getattr(layer, "stateful", False):
                layer.reset_states()

    @property
    def state_updates(self) -> list:
        """The updates of stateful layers, which run when predicting, too."""
        return [u for layer in self.layers if getattr(layer, "stateful", False) for u in getattr(layer, "updates", ())]

    @property
    def input_spec(self) -> Any:
        """The inputs that the first layers accept, unless it was set."""
        return self.__dict__["_set_input_spec"] if "_set_input_spec" in self.__dict__ else self._first_input_spec()

    @input_spec.setter
    def input_spec(self, value: Any) -> None:
        self.__dict__["_set_input_spec"] = value

    def _first_input_spec(self) -> Any:
        if "_input_layers" not in self.__dict__:
            return None
        specs: list = []
        for layer in self._input_layers:
            specs += layer.input_spec if isinstance(layer.input_spec, list) else [layer.input_spec]
        return None if all(s is None for s in specs) else specs[0] if len(specs) == 1 else specs

    # -- description -------------------------------------------------------------------------------------------------
    def get_build_config(self) -> dict[str, Any]:
        """The input shapes; a network of layers has those of its inputs."""
        if not self._is_graph_network:
            return super().get_build_config()
        return {"input_shape": nest.map_structure(lambda t: tuple(t.shape.as_list()), self._nested_inputs)}

    def get_config(self) -> dict[str, Any]:
        """Layers and how they are connected, as plain data."""
        if not self._is_graph_network:
            if not hasattr(self.get_config, "_is_default") or self._init_arguments is not None and context.process.eager:
                return Layer.get_config(self)
            raise NotImplementedError(f"Model {self.name} is a subclass of Model: define `get_config` to save its description.")
        return network_config.describe(self)

    get_config._is_default = True                # type: ignore[attr-defined]

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """A network from its config."""
        if "layers" not in config:
            return cls(**config)
        return network_config.rebuild(cls, config, custom_objects)

    def summary(self, line_length: int | None = None, positions: Any = None, print_fn: Any = None, expand_nested: bool = False,
                show_trainable: bool = False, layer_range: Any = None) -> None:
        """Prints the layers, the shapes of their outputs and the number of their parameters."""
        if not self.built:
            raise ValueError("This model has not yet been built. Build the model first by calling `build()` or by calling the "
                             "model on a batch of data.")
        print_summary(self, line_length, positions, print_fn, expand_nested, show_trainable, layer_range)

    def _repr_html_(self) -> str:
        return html_summary(self)

    _object_identifier = property(lambda self: "_tf_keras_network")


def _as_input(x: Any, reference: Any) -> Any:
    """An input in the dtype of the network's own, with a dimension of one added or removed if that is the only difference."""
    if not isinstance(x, Tensor) or not hasattr(reference, "dtype"):
        return x
    mask = getattr(x, "_keras_mask", None)
    made = x
    rank, wanted = x.shape.rank, reference.shape.rank
    if rank is not None and wanted is not None and (hasattr(x, "_value") or context.eager_outside_functions()):
        if rank == wanted - 1 and reference.shape.as_list()[-1] == 1:
            made = tf.expand_dims(made, -1)
        elif rank == wanted + 1 and x.shape.as_list()[-1] == 1:
            made = tf.squeeze(made, -1)
    if made.dtype.base_dtype != reference.dtype.base_dtype and made.dtype.is_numpy_compatible \
            and "string" not in (made.dtype.name, reference.dtype.name) and context.eager_outside_functions():
        made = tf.cast(made, reference.dtype.base_dtype)
    if made is not x and mask is not None:
        made._keras_mask = mask
    return made


def _check_inputs_and_outputs(inputs: list, outputs: list) -> None:
    if len({id(t) for t in inputs}) != len(inputs):
        raise ValueError("Each input of a model may be listed once, got "
                         f"{inputs}")
    for x in inputs:
        if not hasattr(x, "_keras_history"):
            raise ValueError("Input tensors to a Model must come from `tf.keras.Input`. Received: "
                             f"{x} (missing previous layer metadata).")
        layer = x._keras_history.layer
        if len(layer._inbound_nodes) > 1 or layer._inbound_nodes and layer._inbound_nodes[0].inbound_layers:
            tf_logging.warning("Model inputs must come from `keras.layers.Input` (thus holding past layer metadata), they "
                               "cannot "
                               "be the output of a previous non-Input layer. Here, a tensor specified as input to your "
                               "model was "
                               "not an Input tensor, it was generated by layer %s. The tensor that caused the issue was: %s",
                               layer.name, x.name)
    for x in outputs:
        if not hasattr(x, "_keras_history"):
            raise ValueError("Output tensors to a Model must be the output of a TensorFlow `Layer` (thus holding past layer "
                             f"metadata). Found: {x}")


def _unique_names(names: list[str]) -> list[str]:
    found: list[str] = []
    counts: dict[str, int] = {}
    for name in names:
        proposal = name
        while proposal in found:
            n = counts.get(name, 1)
            proposal = f"{name}_{n}"
            counts[name] = n + 1
        found.append(proposal)
    return found


def assert_no_legacy_layers(layers: Any) -> None:
    """TypeError if there are layers of tf.layers: their variables belong to scopes, not to models."""
    legacy = [layer for layer in layers if getattr(layer, "_is_legacy_layer", False) and not layer._keras_style]
    if legacy:
        names = "\n".join(f"  {layer}" for layer in legacy)
        raise TypeError(f"The following are legacy tf.layers.Layers:\n{names}\nTo use keras as a framework (for instance using "
                        "the Network, Model, or Sequential classes), please use the tf.keras.layers implementation instead. "
                        "(Or, if writing custom layers, subclass from tf.keras.layers rather than tf.layers)")
