"""Running a cell over a list of inputs, unrolled: static_rnn and related functions."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.models.rnn import steps
from penstock._src.models.rnn.cell import assert_like_rnncell, zeros_of
from penstock.compat import v1 as tf


@export(v1=["nn.static_rnn"])
def static_rnn(cell: Any, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
               scope: Any = None) -> tuple[list, Any]:
    """Runs `cell` on each of a list of inputs: returns the list of outputs, and the last state.

    Args:
        cell: Cell to run or wrap.
        inputs: List of tensors [batch, features], one per step.
        initial_state: State to start from, zeros by default.
        dtype: Type of the zero state; needed without `initial_state`.
        sequence_length: Number of steps per example.
        scope: Variable scope, `"rnn"` by default.

    Returns:
        The list of outputs and the last state.

    >>> with tf.Graph().as_default():
    ...     cell = tf.nn.rnn_cell.GRUCell(4)
    ...     outputs, state = tf.nn.static_rnn(cell, [tf.ones([2, 3])] * 5, dtype=tf.float32)
    >>> len(outputs), state.shape
    (5, TensorShape([2, 4]))
    """
    assert_like_rnncell("cell", cell)
    _check_list(inputs)
    outputs = []
    with tf.variable_scope(scope or "rnn") as varscope:
        steps.cache_variables(varscope)
        batch_size = _batch_size(inputs)
        state = steps.first_state(cell, initial_state, batch_size, dtype)
        if sequence_length is not None:
            length = tf.convert_to_tensor(sequence_length, name="sequence_length")
            if length.shape.ndims not in (None, 1):
                raise ValueError("sequence_length must be a vector of length batch_size")
            length = tf.cast(length, tf.int32)
            longest = tf.reduce_max(length)
            out_dtype = steps.state_dtype(dtype, state)
            zero_output = nest.map_structure(lambda size: zeros_of(batch_size, size, out_dtype), cell.output_size)
        keras_cell = steps.is_keras_cell(cell)
        if keras_cell and not nest.is_nested(state):
            state = [state]
        for time, each in enumerate(inputs):
            if time > 0:
                varscope.reuse_variables()
            if sequence_length is None:
                output, state = cell(each, state)
            else:
                output, state = steps.step_until(time, length, zero_output, state,
                                                 lambda each=each, state=state: cell(each, state), longest)
            outputs.append(output)
        return outputs, state[0] if keras_cell and len(state) == 1 else state


def _check_list(inputs: Any) -> None:
    if not nest.is_nested(inputs):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")


def _batch_size(inputs: Any) -> Any:
    """The batch size, as a number if it is known; the other dimensions must be."""
    flat = nest.flatten(inputs)
    first = flat[0]
    if first.shape.ndims == 1:
        return first.shape.dims[0].value or tf.shape(first)[0]
    batch = first.shape.with_rank_at_least(2).dims[0]
    for each in flat:
        shape = each.shape.with_rank_at_least(2)
        batch = batch.merge_with(shape.dims[0])
        for i, size in enumerate(shape.as_list()[1:]):
            if size is None:
                raise ValueError(f"Input size (dimension {i} of inputs) must be accessible via shape inference, but saw value "
                                 "None.")
    return batch.value or tf.shape(first)[0]


@export(v1=["nn.static_state_saving_rnn"])
def static_state_saving_rnn(cell: Any, inputs: Any, state_saver: Any, state_name: Any, sequence_length: Any = None,
                            scope: Any = None) -> tuple[list, Any]:
    """As `static_rnn`, with a state that is read from and written to `state_saver` under `state_name`.

    >>> outputs, state = tf.nn.static_state_saving_rnn(cell, inputs, saver, "lstm")
    """
    size = cell.state_size
    if nest.is_nested(size) != nest.is_nested(state_name):
        raise ValueError(f"state_name should be the same type as cell.state_size.  state_name: {state_name}, cell.state_size: "
                         f"{size}")
    names = nest.flatten(state_name)
    if len(names) != len(nest.flatten(size)):
        raise ValueError(f"#elems(state_name) != #elems(state_size): {len(names)} vs. {len(nest.flatten(size))}")
    initial = nest.pack_sequence_as(size, [state_saver.state(name) for name in names])
    outputs, state = static_rnn(cell, inputs, initial_state=initial, sequence_length=sequence_length, scope=scope)
    saves = [state_saver.save_state(name, part) for name, part in zip(names, nest.flatten(state), strict=True)]
    with tf.control_dependencies(saves):
        outputs[-1] = nest.map_structure(tf.identity, outputs[-1])
        return outputs, nest.map_structure(tf.identity, state)


def _reversed(sequence: Any, lengths: Any) -> list:
    """A list of inputs backwards; with lengths, each row within its own."""
    if lengths is None:
        return list(reversed(sequence))
    columns = zip(*(nest.flatten(x) for x in sequence), strict=True)
    turned = []
    for column in columns:
        shape = column[0].shape
        for each in column[1:]:
            shape = shape.merge_with(each.shape)
        parts = tf.unstack(tf.reverse_sequence(tf.stack(column), lengths, 0, 1), num=len(sequence))
        for part in parts:
            part.set_shape(shape)
        turned.append(parts)
    return [nest.pack_sequence_as(like, list(parts)) for like, parts in zip(sequence, zip(*turned, strict=True), strict=True)]


@export(v1=["nn.static_bidirectional_rnn"])
def static_bidirectional_rnn(cell_fw: Any, cell_bw: Any, inputs: Any, initial_state_fw: Any = None,
                             initial_state_bw: Any = None, dtype: Any = None, sequence_length: Any = None,
                             scope: Any = None) -> tuple[Any, Any, Any]:
    """Runs one cell forwards and another backwards over a list: returns joined outputs and both last states.

    Args:
        cell_fw: Cell that runs forwards.
        cell_bw: Cell that runs backwards.
        inputs: List of tensors [batch, size], one per step.
        initial_state_fw: First state of `cell_fw`; zeros by default.
        initial_state_bw: First state of `cell_bw`; zeros by default.
        dtype: Type of the states, if there is no initial state.
        sequence_length: Length of each sequence; outputs beyond it are zero.
        scope: Prefix of the names of the layer's variables and operations.

    Returns:
        The outputs, joined, as a list, and both last states.

    >>> with tf.Graph().as_default():
    ...     cells = tf.nn.rnn_cell.GRUCell(4), tf.nn.rnn_cell.GRUCell(4)
    ...     inputs = [tf.ones([2, 3])] * 5
    ...     outputs, forward, backward = tf.nn.static_bidirectional_rnn(*cells, inputs, dtype=tf.float32)
    >>> len(outputs), outputs[0].shape
    (5, TensorShape([2, 8]))
    """
    assert_like_rnncell("cell_fw", cell_fw)
    assert_like_rnncell("cell_bw", cell_bw)
    _check_list(inputs)
    with tf.variable_scope(scope or "bidirectional_rnn"):
        with tf.variable_scope("fw") as forward:
            output_fw, state_fw = static_rnn(cell_fw, inputs, initial_state_fw, dtype, sequence_length, scope=forward)
        with tf.variable_scope("bw") as backward:
            turned = _reversed(inputs, sequence_length)
            output_bw, state_bw = static_rnn(cell_bw, turned, initial_state_bw, dtype, sequence_length, scope=backward)
    output_bw = _reversed(output_bw, sequence_length)
    joined = [tf.concat([f, b], 1) for f, b in zip(nest.flatten(output_fw), nest.flatten(output_bw), strict=True)]
    return nest.pack_sequence_as(output_fw, joined), state_fw, state_bw
