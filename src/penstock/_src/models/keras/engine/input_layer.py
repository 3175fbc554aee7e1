"""Input and InputLayer: where symbolic tensors enter a model."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import LazyModule, export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.sparse_tensor import SparseTensorSpec
from penstock._src.graph.trackable import no_automatic_dependency_tracking
from penstock._src.library.ragged.spec import RaggedTensorSpec
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.call_context import in_function, is_symbolic
from penstock._src.models.keras.engine.node import KerasHistory, Node, int_shape, remember
from penstock._src.models.keras.utils import type_config

backend = LazyModule("penstock._src.models.keras.backend")


@export("keras.layers.InputLayer")
class InputLayer(Layer):
    """The layer that a model's input comes from: a placeholder, or a given tensor.

    Args:
        input_shape: The shape of one sample.
        batch_size: The size of the batches, if it is fixed.
        dtype: The type; float32 by default.
        input_tensor: A tensor to use instead of a placeholder.
        sparse: Whether the input is a sparse tensor.
        name: The layer's name.
        ragged: Whether the input is a ragged tensor.
        type_spec: The type of the input, instead of shape and dtype.
        **kwargs: `batch_input_shape`, the shape with the batch.

    >>> model = tf.keras.Sequential([tf.keras.layers.InputLayer(input_shape=(4,)), tf.keras.layers.Dense(2)])
    >>> model.output_shape
    (None, 2)
    """

    _given_type: Any = None              # the argument `type_spec`

    @no_automatic_dependency_tracking
    def __init__(self, input_shape: Any = None, batch_size: int | None = None, dtype: Any = None, input_tensor: Any = None,
                 sparse: bool = False, name: str | None = None, ragged: bool = False, type_spec: Any = None, **kwargs: Any):
        if "batch_input_shape" in kwargs or "batch_shape" in kwargs:
            whole = kwargs.pop("batch_input_shape", None) or kwargs.pop("batch_shape", None)
            if input_shape and whole:
                raise ValueError("Only provide the input_shape OR batch_input_shape argument to InputLayer, not both at the "
                                 "same time.")
            batch_size, input_shape = (whole[0], whole[1:]) if whole else (batch_size, input_shape)
        optional = kwargs.pop("optional", False)                # of later versions: None may be passed for the input
        if kwargs:
            raise ValueError(f"Unrecognized keyword arguments: {list(kwargs)}")
        if sparse and ragged:
            raise ValueError("An Input cannot be both sparse and ragged.")
        name = name or f"input_{backend.get_uid('input')}"
        if type_spec is not None:
            _only_type(shape=input_shape, batch_size=batch_size, dtype=dtype, tensor=input_tensor, sparse=sparse or None,
                       ragged=ragged or None)
            type_spec = type_config.type_of(type_spec) if isinstance(type_spec, dict) else type_spec
            dtype = getattr(type_spec, "dtype", None) and type_spec.dtype.name
            sparse, ragged = isinstance(type_spec, SparseTensorSpec), isinstance(type_spec, RaggedTensorSpec)
        if not dtype:
            dtype = backend.floatx() if input_tensor is None else input_tensor.dtype.base_dtype.name
        elif input_tensor is not None and input_tensor.dtype != dtype:
            raise ValueError(f"`input_tensor.dtype` differs from `dtype`: {input_tensor.dtype} vs. {dtype}")
        super().__init__(dtype=dtype, name=name)
        self.__dict__["_given_type"] = type_spec
        self.built, self.supports_masking = True, True
        self.sparse, self.ragged, self.batch_size, self.optional = sparse, ragged, batch_size, optional
        if isinstance(input_shape, TensorShape):
            input_shape = tuple(input_shape.as_list()) if input_shape.rank is not None else None
        elif isinstance(input_shape, int):
            input_shape = (input_shape,)
        self.is_placeholder = input_tensor is None
        graph = backend.state.symbolic_graph() if in_function() else backend.get_graph()
        if type_spec is not None:
            with graph.as_default():
                input_tensor = _placeholder_of(type_spec, self.name)
            self._batch_input_shape = int_shape(input_tensor)
        elif input_tensor is None:
            self._batch_input_shape = None if input_shape is None else (batch_size, *input_shape)
            with graph.as_default():
                input_tensor = backend.placeholder(shape=self._batch_input_shape, dtype=dtype, name=self.name, sparse=sparse,
                                                   ragged=ragged)
        else:
            if not is_symbolic(input_tensor):
                raise ValueError("You should not pass an EagerTensor to `Input`. For example, instead of creating an "
                                 "InputLayer, you should instantiate your model and directly call it on your input.")
            self._batch_input_shape = tuple(input_tensor.shape.as_list())
        remember(input_tensor, KerasHistory(self, 0, 0))
        input_tensor._keras_mask = None
        Node(self, inbound_layers=[], node_indices=[], tensor_indices=[], input_tensors=[input_tensor],
             output_tensors=[input_tensor])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        if self._given_type is not None:
            return {"name": self.name, "type_spec": type_config.describe(self._given_type)}
        newer = {"optional": self.optional} if context.process.eager else {}
        return {"batch_input_shape": self._batch_input_shape, "dtype": self.dtype, "sparse": self.sparse,
                "ragged": self.ragged, "name": self.name, **newer}


def _only_type(**others: Any) -> None:
    """ValueError if there are arguments that `type_spec` contains."""
    for name, value in others.items():
        if value is not None:
            raise ValueError("When `type_spec` is not None, all other args except `name` must be None, "
                             f"but {name} is not None.")
    if not context.eager_outside_functions():
        raise ValueError("Creating Keras inputs from a type_spec is only supported when eager execution is enabled.")


def _placeholder_of(spec: Any, name: str) -> Any:
    """A symbolic tensor of a type, made of placeholders for its components."""
    flat = nest.flatten(spec, expand_composites=True)
    names = [name] if len(flat) == 1 else [f"{name}/{i}" for i in range(len(flat))]
    made = [backend.placeholder(shape=s.shape, dtype=s.dtype, name=n) for s, n in zip(flat, names)]
    return nest.pack_sequence_as(spec, made, expand_composites=True)


@export("keras.layers.Input", "keras.Input")
def Input(shape: Any = None, batch_size: int | None = None, name: str | None = None, dtype: Any = None, sparse: bool = False,
          tensor: Any = None, ragged: bool = False, type_spec: Any = None, **kwargs: Any) -> Any:
    """A symbolic tensor to build a functional model from. `shape` is that of one example.

    Args:
        shape: Shape of one example; sizes may be None.
        batch_size: Size of the batch axis, if it is constant.
        name: Name of the input, by which `fit` finds it in a dictionary.
        dtype: Element type, float32 by default.
        sparse: Whether inputs are SparseTensors.
        tensor: Existing tensor to use as the input.
        ragged: Whether inputs are RaggedTensors.
        type_spec: The type of the inputs (`tf.RaggedTensorSpec` …), in place of all arguments but `name`.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    Returns:
        A symbolic tensor.

    >>> x = tf.keras.layers.Input(shape=(3,))
    >>> model = tf.keras.Model(x, tf.keras.layers.Dense(2)(x))
    >>> model.output_shape
    (None, 2)
    """
    if sparse and ragged:
        raise ValueError("An Input cannot be both sparse and ragged.")
    whole = kwargs.pop("batch_input_shape", kwargs.pop("batch_shape", None))
    if kwargs:
        raise ValueError(f"Unrecognized keyword arguments: {list(kwargs)}")
    if shape and whole:
        raise ValueError("Only provide the `shape` OR `batch_input_shape` argument to Input, not both at the same time.")
    if shape is None and tensor is None and whole is None and type_spec is None:
        raise ValueError("Please provide to Input either a `shape` or a `tensor` or a `type_spec` argument. Note that `shape` "
                         "does not include the batch dimension.")
    sizes = {"batch_input_shape": whole} if whole else {"batch_size": batch_size, "input_shape": shape}
    if type_spec is not None:
        sizes["type_spec"] = type_spec
        name = name or getattr(type_spec, "name", None)
    layer = InputLayer(name=name, dtype=dtype, sparse=sparse, ragged=ragged, input_tensor=tensor, **sizes)
    outputs = layer._inbound_nodes[0].output_tensors
    return outputs[0] if len(outputs) == 1 else outputs
