"""Shared by functions that run a cell over a sequence: sizes, types, initial states, and steps past the end."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock._src.models.keras.engine.base_layer import Layer as KerasLayer
from penstock._src.models.rnn.cell import RNNCell
from penstock.compat import v1 as tf


def transpose_batch_time(x: Tensor) -> Tensor:
    """Swaps the first two dimensions; tensors with fewer stay unchanged."""
    static = x.shape
    if static.ndims is not None and static.ndims < 2:
        return x
    if static.ndims is not None:
        return tf.transpose(x, [1, 0, *range(2, static.ndims)])
    swapped = tf.transpose(x, tf.concat(([1, 0], tf.range(2, tf.rank(x))), axis=0))
    return swapped


def batch_size_of(flat_input: Any) -> Any:
    """The batch size of inputs with time first, as a number if any static shape has it."""
    for each in flat_input:
        if each.shape.ndims is None:
            continue
        if each.shape.ndims < 2:
            raise ValueError(f"Expected input tensor {each} to have rank at least 2")
        size = each.shape.dims[1].value
        if size is not None:
            return size
    return tf.shape(flat_input[0])[1]


def state_dtype(dtype: Any, state: Any) -> Any:
    """The type of outputs: what was requested, else that of the state."""
    if dtype is not None:
        return dtype
    if not nest.is_nested(state):
        return state.dtype
    found = [s.dtype for s in nest.flatten(state)]
    if not found:
        raise ValueError("The dtype cannot be inferred from an empty state.")
    if any(t != found[0] for t in found):
        raise ValueError("The tensors of the state have different types: pass dtype.")
    return found[0]


def first_state(cell: Any, given: Any, batch_size: Any, dtype: Any) -> Any:
    """The state that a cell begins with: the given one, or the cell's initial state of a dtype."""
    if given is not None:
        return given
    if not dtype:
        raise ValueError("If there is no initial_state, dtype is required.")
    if getattr(cell, "get_initial_state", None) is not None:
        return cell.get_initial_state(inputs=None, batch_size=batch_size, dtype=dtype)
    return cell.zero_state(batch_size, dtype)


def is_keras_cell(cell: Any) -> bool:
    """Whether this is a Keras cell: its state is a list."""
    return not isinstance(cell, RNNCell) and isinstance(cell, KerasLayer) and getattr(cell, "zero_state", None) is None


def cache_variables(scope: Any) -> None:
    """Makes variables be read once before a loop instead of in each step."""
    if not context.executing_eagerly() and scope.caching_device is None:
        graph = context.current_graph()
        inside = graph._get_control_flow_context()
        while inside is not None and not inside.IsWhileContext():
            inside = inside.outer_context
        if inside is None:
            scope.set_caching_device(lambda op: op.device)


def keep_finished(finished: Tensor, old: Any, new: Any) -> Any:
    """`old` in the rows that are finished, else `new`; arrays of tensors and scalars are always new."""

    def one(before: Any, after: Any) -> Any:
        if isinstance(before, tf.TensorArray) or before.shape.ndims == 0:
            return after
        return tf.where(finished, before, after)

    return nest.map_structure(one, old, new)


def step_until(time: Any, sequence_length: Tensor, zero_output: Any, state: Any, call_cell: Any,
               longest: Tensor | None = None) -> tuple[Any, Any]:
    """One step for rows of different lengths: those that have ended put out zeros and keep their state.

    With `longest`, the cell is not called at all after the end of the longest row.
    """

    def stepped() -> list:
        output, new_state = call_cell()
        nest.assert_same_structure(zero_output, output)
        nest.assert_same_structure(state, new_state)
        ended = time >= sequence_length
        return nest.flatten(keep_finished(ended, zero_output, output)) + nest.flatten(keep_finished(ended, state, new_state))

    unchanged = nest.flatten(zero_output) + nest.flatten(state)
    flat = stepped() if longest is None else tf.cond(time >= longest, lambda: list(unchanged), stepped)
    for after, before in zip(flat, unchanged, strict=True):
        if not isinstance(after, tf.TensorArray):
            after.set_shape(before.shape)
    count = len(nest.flatten(zero_output))
    return nest.pack_sequence_as(zero_output, flat[:count]), nest.pack_sequence_as(state, flat[count:])


def element_shape(batch_size: int | None, size: Any) -> TensorShape:
    """The static shape of one output."""
    static = tf.get_static_value(size) if tf.is_tensor(size) else size
    return TensorShape([batch_size]).concatenate(TensorShape(static) if not isinstance(static, int) else TensorShape([static]))
