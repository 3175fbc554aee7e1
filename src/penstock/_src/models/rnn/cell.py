"""RNNCell: the base of recurrent cells, their zero states, and the sizes of states."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape, as_shape
from penstock._src.graph import context
from penstock._src.graph.convert import is_tensor
from penstock._src.graph.node import Tensor
from penstock._src.models.layers import base
from penstock._src.state.variables.partitioned import PartitionedVariable
from penstock.compat import v1 as tf


def assert_like_rnncell(cell_name: str, cell: Any) -> None:
    """Raises a TypeError that names the attributes that `cell` lacks."""
    missing = []
    if not _has(cell, "output_size"):
        missing.append("'output_size' property is missing")
    if not _has(cell, "state_size"):
        missing.append("'state_size' property is missing")
    if not (_has(cell, "zero_state") or _has(cell, "get_initial_state")):
        missing.append("either 'zero_state' or 'get_initial_state' method is required")
    if not callable(cell):
        missing.append("is not callable")
    if missing:
        raise TypeError(f"The argument {cell_name!r} ({cell}) is not an RNNCell: {', '.join(missing)}.")


def _has(cell: Any, name: str) -> bool:
    try:
        getattr(cell, name)
    except AttributeError:
        return False
    return True


def _part(size: Any, which: str) -> tuple[Any, Any]:
    """A part of a shape as a tensor (None if unknown) and as a static shape."""
    if is_tensor(size):
        if size.shape.ndims not in (0, 1):
            raise ValueError(f"{which} tensor must be either a scalar or vector, but saw tensor: {size}")
        static = tf.get_static_value(size)
        vector = tf.expand_dims(size, 0) if size.shape.ndims == 0 else size
        if static is not None:
            return vector, TensorShape(static)
        return vector, TensorShape([None] if size.shape.ndims == 0 else [None] * size.shape.as_list()[0]
                                   if size.shape.is_fully_defined() else None)
    static = as_shape(size)
    return tf.constant(static.as_list(), tf.int32) if static.is_fully_defined() else None, static


def joined_shape(prefix: Any, suffix: Any) -> Tensor:
    """One shape from two parts: numbers, shapes or tensors."""
    front, back = _part(prefix, "prefix")[0], _part(suffix, "suffix")[0]
    if front is None or back is None:
        raise ValueError(f"Prefix and suffix must not be None: {prefix} and {suffix}")
    return tf.concat([front, back], 0)


def joined_static_shape(prefix: Any, suffix: Any) -> TensorShape:
    """The same, as far as it is known when the graph is built."""
    return _part(prefix, "prefix")[1].concatenate(_part(suffix, "suffix")[1])


def zeros_of(batch_size: Any, size: Any, dtype: Any) -> Tensor:
    """Zeros of shape [batch_size, size]."""
    static = joined_static_shape(batch_size, size)
    if static.is_fully_defined():
        return tf.zeros(static.as_list(), dtype)
    made = tf.zeros(joined_shape(batch_size, size), dtype)
    if not context.executing_eagerly():
        made.set_shape(static)
    return made


@export(v1=["nn.rnn_cell.RNNCell"])
class RNNCell(base.Layer):
    """The base of recurrent cells: `(output, next_state) = call(inputs, state)`, with sizes that say what they are.

    >>> class Sum(tf.nn.rnn_cell.RNNCell):
    ...     state_size = output_size = property(lambda self: 3)
    ...     def call(self, inputs, state): return inputs + state, inputs + state
    """

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any):
        super().__init__(trainable=trainable, name=name, dtype=dtype, **kwargs)
        self._is_tf_rnn_cell = True

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:    # type: ignore[override]
        if scope is not None:
            with tf.variable_scope(scope, custom_getter=self._rnn_get_variable) as scope:
                return super().__call__(inputs, state, scope=scope)
        opened = self.__dict__.get("rnncell_scope")
        if opened is None:
            opened = tf.variable_scope(tf.get_variable_scope(), custom_getter=self._rnn_get_variable)
            self.rnncell_scope = opened
        with opened:
            return super().__call__(inputs, state)

    def _rnn_get_variable(self, getter: Any, *args: Any, **kwargs: Any) -> Any:
        """Lists variables that `call` gets from the scope among the cell's own."""
        variable = getter(*args, **kwargs)
        if context.executing_eagerly():
            trainable = variable.trainable
        else:
            first = list(variable)[0] if isinstance(variable, PartitionedVariable) else variable
            trainable = any(first is v for v in tf.trainable_variables())
        mine = self._trainable_weights if trainable else self._non_trainable_weights
        if all(variable is not v for v in mine):
            mine.append(variable)
        return variable

    def get_config(self) -> dict[str, Any]:
        """The arguments that all layers have: unlike a Keras layer, a cell may leave out its own."""
        return super().get_config()

    @property
    def state_size(self) -> Any:
        """The size of the state: a number, a shape, or a nest of them."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self) -> Any:
        """The size of the output."""
        raise NotImplementedError("Abstract method")

    def build(self, _: Any) -> None:
        """Does nothing: `call` may create variables."""

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """The initial state, for a batch like `inputs`."""
        if inputs is not None:
            inputs = tf.convert_to_tensor(inputs, name="inputs")
            static = inputs.shape.dims[0].value
            if batch_size is not None:
                given = tf.get_static_value(batch_size) if is_tensor(batch_size) else batch_size
                if static != given:
                    raise ValueError(f"batch size from input tensor is different from the input param. Input tensor batch: "
                                     f"{static}, batch_size: {batch_size}")
            if dtype is not None and inputs.dtype != dtype:
                raise ValueError(f"dtype from input tensor is different from the input param. Input tensor dtype: "
                                 f"{inputs.dtype}, dtype: {dtype}")
            batch_size, dtype = static or tf.shape(inputs)[0], inputs.dtype
        if batch_size is None or dtype is None:
            raise ValueError(f"batch_size and dtype cannot be None while constructing initial state: batch_size={batch_size}, "
                             f"dtype={dtype}")
        return self.zero_state(batch_size, dtype)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """A state of zeros, cached in eager execution."""
        size, eager = self.state_size, context.executing_eagerly()
        key = (batch_size, dtype, size)
        last = self.__dict__.get("_last_zero_state") if eager and not is_tensor(batch_size) else None
        if last is not None and last[0] == key:
            return last[1]
        with tf.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            state = nest.map_structure(lambda s: zeros_of(batch_size, s, dtype), size)
        if eager and not is_tensor(batch_size):
            self._last_zero_state = (key, state)
        return state


class LayerRNNCell(RNNCell):
    """A cell that makes its variables in `build`, as other layers do."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None,            # type: ignore[override]
                 *args: Any, **kwargs: Any) -> Any:
        return base.Layer.__call__(self, inputs, state, *args, scope=scope, **kwargs)


def check_floating(*dtypes: Any) -> None:
    """Raises a ValueError for a type that the activations of cells do not support."""
    for dtype in dtypes:
        if dtype is not None and not (tf.as_dtype(dtype).is_floating or tf.as_dtype(dtype).is_complex):
            raise ValueError(f"RNN cell only supports floating point inputs, but saw dtype: {dtype}")


def check_inputs(*tensors: Any) -> None:
    """The same for the types of all tensors in nests."""
    check_floating(*(t.dtype for t in nest.flatten(list(tensors))))


def input_depth(shape: Any) -> int:
    """The last dimension, which must be known before variables can be made."""
    depth = as_shape(shape).as_list()[-1]
    if depth is None:
        raise ValueError(f"The last dimension of the inputs must be known, got shape {shape}")
    return depth
