"""Running a cell over sequences in a loop: dynamic_rnn, bidirectional_dynamic_rnn, raw_rnn."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock._src.models.rnn import steps
from penstock._src.models.rnn.cell import assert_like_rnncell, joined_static_shape, zeros_of
from penstock.compat import v1 as tf


@export(v1=["nn.dynamic_rnn"])
def dynamic_rnn(cell: Any, inputs: Any, sequence_length: Any = None, initial_state: Any = None, dtype: Any = None,
                parallel_iterations: int | None = None, swap_memory: bool = False, time_major: bool = False,
                scope: Any = None) -> tuple[Any, Any]:
    """Runs `cell` over the steps of `inputs`, [batch, time, ...]: returns all outputs and the last state.

    Rows end at `sequence_length`: outputs after it are zero, and the state stays.

    Args:
        cell: Cell to run or wrap.
        inputs: Tensor [batch, time, ...], or nest of them.
        sequence_length: Number of steps per example; outputs after it are 0 and the state stays.
        initial_state: State to start from, zeros by default.
        dtype: Type of the zero state; needed without `initial_state`.
        parallel_iterations: How many iterations may run at the same time.
        swap_memory: Accepted for compatibility and unused: memory is not swapped to the host.
        time_major: Whether `inputs` and outputs are [time, batch, ...], which saves a transpose.
        scope: Variable scope, `"rnn"` by default.

    Returns:
        Outputs [batch, time, ...] and the last state.

    Raises:
        ValueError: if neither `initial_state` nor `dtype` is given.

    >>> with tf.Graph().as_default():
    ...     cell = tf.nn.rnn_cell.GRUCell(4)
    ...     outputs, state = tf.nn.dynamic_rnn(cell, tf.ones([2, 5, 3]), dtype=tf.float32)
    >>> outputs.shape, state.shape
    (TensorShape([2, 5, 4]), TensorShape([2, 4]))
    """
    assert_like_rnncell("cell", cell)
    with tf.variable_scope(scope or "rnn") as varscope:
        steps.cache_variables(varscope)
        flat = nest.flatten(inputs)
        if not time_major:
            flat = [steps.transpose_batch_time(tf.convert_to_tensor(x)) for x in flat]
        batch_size = steps.batch_size_of(flat)
        if sequence_length is not None:
            sequence_length = _checked_length(sequence_length, batch_size)
        state = steps.first_state(cell, initial_state, batch_size, dtype)
        outputs, state = _loop(cell, nest.pack_sequence_as(inputs, flat), state, parallel_iterations or 32, swap_memory,
                               sequence_length, dtype)
        if not time_major:
            outputs = nest.map_structure(steps.transpose_batch_time, outputs)
        return outputs, state


def _checked_length(sequence_length: Any, batch_size: Any) -> Tensor:
    length = tf.cast(sequence_length, tf.int32)
    if length.shape.ndims not in (None, 1):
        raise ValueError(f"sequence_length must be a vector of length batch_size, but saw shape: {length.shape}")
    length = tf.identity(length, name="sequence_length")
    if context.executing_eagerly():
        return length
    if isinstance(batch_size, int) and length.shape.ndims == 1 and length.shape.dims[0].value == batch_size:
        return length
    shape, expected = tf.shape(length), tf.stack([batch_size])
    fits = tf.Assert(tf.reduce_all(tf.equal(shape, expected)),
                     [f"Expected shape for Tensor {length.name} is ", expected, " but saw shape: ", shape])
    with tf.control_dependencies([fits]):
        return tf.identity(length, name="CheckSeqLen")


def _static_sizes(flat: list) -> tuple[list, int | None, int | None]:
    """The static shapes of the inputs, and the time and batch that all of them have."""
    shapes = [x.shape.with_rank_at_least(3) for x in flat]
    time, batch = shapes[0].as_list()[:2]
    for shape in shapes:
        if not shape[2:].is_fully_defined():
            raise ValueError("Input size (depth of inputs) must be accessible via shape inference, but saw value None.")
        if shape.dims[0].value != time:
            raise ValueError("Time steps is not the same for all the elements in the input in a batch.")
        if shape.dims[1].value != batch:
            raise ValueError("Batch_size is not the same for all the elements in the input.")
    return shapes, time, batch


def _loop(cell: Any, inputs: Any, state: Any, parallel_iterations: int, swap_memory: bool, sequence_length: Tensor | None,
          dtype: Any) -> tuple[Any, Any]:
    """The loop itself, on inputs with time first."""
    flat, sizes = nest.flatten(inputs), nest.flatten(cell.output_size)
    batch_size = steps.batch_size_of(flat)
    shapes, static_time, static_batch = _static_sizes(flat)
    time_steps = tf.shape(flat[0])[0]
    out_dtype = steps.state_dtype(dtype, state)
    zero_output = None
    if sequence_length is not None:
        zero_output = nest.pack_sequence_as(cell.output_size, [zeros_of(batch_size, s, out_dtype) for s in sizes])

    def advance(time: Any, input_t: list, state: Any) -> tuple[Any, Any]:
        keras_cell = steps.is_keras_cell(cell)
        if keras_cell and not nest.is_nested(state):
            state = [state]
        packed = nest.pack_sequence_as(inputs, input_t)
        if sequence_length is None:
            output, state = cell(packed, state)
        else:
            output, state = steps.step_until(time, sequence_length, zero_output, state, lambda: cell(packed, state))
        return output, state[0] if keras_cell and len(state) == 1 else state

    if context.executing_eagerly():
        return _eager_loop(cell, flat, state, advance)
    with tf.name_scope("dynamic_rnn") as base:
        pass
    arrays = [tf.TensorArray(x.dtype, size=time_steps, element_shape=x.shape[1:], tensor_array_name=f"{base}input_{i}")
              .unstack(x) for i, x in enumerate(flat)]
    results = tuple(tf.TensorArray(out_dtype, size=time_steps, element_shape=steps.element_shape(static_batch, size),
                                   tensor_array_name=f"{base}output_{i}") for i, size in enumerate(sizes))

    def body(time: Tensor, results: tuple, state: Any) -> tuple:
        input_t = [array.read(time) for array in arrays]
        for read, shape in zip(input_t, shapes, strict=True):
            read.set_shape(shape[1:])
        output, state = advance(time, input_t, state)
        written = tuple(array.write(time, out) for array, out in zip(results, nest.flatten(output), strict=True))
        return time + 1, written, state

    bound = time_steps if sequence_length is None else tf.minimum(time_steps, tf.maximum(1, tf.reduce_max(sequence_length)))
    first = tf.constant(0, tf.int32, name="time")
    _, results, state = tf.while_loop(lambda time, *_: time < bound, body, (first, results, state),
                                      parallel_iterations=parallel_iterations, maximum_iterations=time_steps,
                                      swap_memory=swap_memory)
    outputs = [array.stack() for array in results]
    for output, size in zip(outputs, sizes, strict=True):
        output.set_shape(joined_static_shape([static_time, static_batch], size))
    return nest.pack_sequence_as(cell.output_size, outputs), state


def _eager_loop(cell: Any, flat: list, state: Any, advance: Any) -> tuple[Any, Any]:
    outputs: list[list] = [[] for _ in nest.flatten(cell.output_size)]
    for time, input_t in enumerate(zip(*(tf.unstack(x) for x in flat), strict=True)):
        output, state = advance(time, list(input_t), state)
        for column, out in zip(outputs, nest.flatten(output), strict=True):
            column.append(out)
    return nest.pack_sequence_as(cell.output_size, [tf.stack(column) for column in outputs]), state


@export(v1=["nn.bidirectional_dynamic_rnn"])
def bidirectional_dynamic_rnn(cell_fw: Any, cell_bw: Any, inputs: Any, sequence_length: Any = None,
                              initial_state_fw: Any = None, initial_state_bw: Any = None, dtype: Any = None,
                              parallel_iterations: int | None = None, swap_memory: bool = False, time_major: bool = False,
                              scope: Any = None) -> tuple[Any, Any]:
    """Runs one cell forwards and another backwards: returns `(outputs of both), (states of both)`.

    Args:
        cell_fw: Cell that runs forward.
        cell_bw: Cell that runs backward.
        inputs: Tensor [batch, time, ...].
        sequence_length: Number of steps per example.
        initial_state_fw: First state of the forward cell, zeros by default.
        initial_state_bw: First state of the backward cell, zeros by default.
        dtype: Type of the zero states.
        parallel_iterations: How many iterations may run at the same time.
        swap_memory: Accepted for compatibility and unused: memory is not swapped to the host.
        time_major: Whether inputs and outputs are [time, batch, ...].
        scope: Variable scope, `"bidirectional_rnn"` by default.

    Returns:
        A pair of outputs (forward, backward) and a pair of last states.

    >>> with tf.Graph().as_default():
    ...     cells = tf.nn.rnn_cell.GRUCell(4), tf.nn.rnn_cell.GRUCell(4)
    ...     (forward, backward), states = tf.nn.bidirectional_dynamic_rnn(*cells, tf.ones([2, 5, 3]), dtype=tf.float32)
    >>> forward.shape, backward.shape
    (TensorShape([2, 5, 4]), TensorShape([2, 5, 4]))
    """
    assert_like_rnncell("cell_fw", cell_fw)
    assert_like_rnncell("cell_bw", cell_bw)
    common = {"sequence_length": sequence_length, "dtype": dtype, "parallel_iterations": parallel_iterations,
              "swap_memory": swap_memory, "time_major": time_major}
    time_axis, batch_axis = (0, 1) if time_major else (1, 0)

    def reverse(x: Tensor) -> Tensor:
        if sequence_length is None:
            return tf.reverse(x, axis=[time_axis])
        return tf.reverse_sequence(x, seq_lengths=sequence_length, seq_axis=time_axis, batch_axis=batch_axis)

    with tf.variable_scope(scope or "bidirectional_rnn"):
        with tf.variable_scope("fw") as forward:
            output_fw, state_fw = dynamic_rnn(cell_fw, inputs, initial_state=initial_state_fw, scope=forward, **common)
        with tf.variable_scope("bw") as backward:
            output_bw, state_bw = dynamic_rnn(cell_bw, nest.map_structure(reverse, inputs), initial_state=initial_state_bw,
                                              scope=backward, **common)
    return (output_fw, nest.map_structure(reverse, output_bw)), (state_fw, state_bw)


@export(v1=["nn.raw_rnn"])
def raw_rnn(cell: Any, loop_fn: Any, parallel_iterations: int | None = None, swap_memory: bool = False,
            scope: Any = None) -> tuple[Any, Any, Any]:
    """Runs a cell in a loop that `loop_fn(time, output, state, loop_state)` controls.

    `loop_fn` returns `(finished, next_input, next_state, emit_output, next_loop_state)`; it is first called with None for
    output and state. The result is the array of what was emitted, the last state and the last loop state.

    >>> emitted, state, _ = tf.nn.raw_rnn(cell, loop_fn)
    >>> outputs = emitted.stack()
    """
    assert_like_rnncell("cell", cell)
    if not callable(loop_fn):
        raise TypeError("loop_fn must be a callable")
    with tf.variable_scope(scope or "rnn") as varscope:
        steps.cache_variables(varscope)
        time = tf.constant(0, tf.int32)
        finished, next_input, state, emit, first_loop_state = loop_fn(time, None, None, None)
        loop_state = tf.constant(0, tf.int32) if first_loop_state is None else first_loop_state
        nest.assert_same_structure(state, cell.state_size)
        state = nest.map_structure(tf.convert_to_tensor, state)
        emit_arrays, zero_emit = _emitted(cell, emit, next_input, state)

        def body(time: Tensor, finished: Tensor, current: Any, arrays: Any, state: Any, loop_state: Any) -> tuple:
            output, cell_state = cell(current, state)
            nest.assert_same_structure(state, cell_state)
            nest.assert_same_structure(cell.output_size, output)
            now_finished, following, next_state, emitted, next_loop_state = loop_fn(time + 1, output, cell_state, loop_state)
            nest.assert_same_structure(state, next_state)
            nest.assert_same_structure(current, following)
            nest.assert_same_structure(arrays, emitted)
            emitted = steps.keep_finished(finished, zero_emit, emitted)
            next_state = steps.keep_finished(finished, state, next_state)
            arrays = nest.map_structure(lambda array, value: array.write(time, value), arrays, emitted)
            return (time + 1, tf.logical_or(finished, now_finished), following, arrays, next_state,
                    loop_state if next_loop_state is None else next_loop_state)

        *_, arrays, state, loop_state = tf.while_loop(
            lambda time, finished, *_: tf.logical_not(tf.reduce_all(finished)), body,
            [time, finished, next_input, emit_arrays, state, loop_state], parallel_iterations=parallel_iterations or 32,
            swap_memory=swap_memory)
        return arrays, state, None if first_loop_state is None else loop_state


def _emitted(cell: Any, emit: Any, next_input: Any, state: Any) -> tuple[Any, Any]:
    """Arrays for what is emitted, and zeros of its shape: like `emit` if the first call gave any, else like outputs."""
    flat_input = nest.flatten(next_input)
    static = next((x.shape.dims[0].value for x in flat_input if x.shape.ndims and x.shape.dims[0].value is not None), None)
    batch_size = static if static is not None else tf.shape(flat_input[0])[0]
    if emit is not None:
        structure = emit
        sizes = [e.shape if e.shape.is_fully_defined() else tf.shape(e) for e in nest.flatten(emit)]
        dtypes = [e.dtype for e in nest.flatten(emit)]
    else:
        structure = cell.output_size
        sizes = nest.flatten(structure)
        dtypes = [nest.flatten(state)[0].dtype] * len(sizes)
    arrays = [tf.TensorArray(dtype, dynamic_size=True, element_shape=steps.element_shape(static, size), size=0,
                             name=f"rnn_output_{i}") for i, (dtype, size) in enumerate(zip(dtypes, sizes, strict=True))]
    zeros = [zeros_of(batch_size, size, dtype) for size, dtype in zip(sizes, dtypes, strict=True)]
    return nest.pack_sequence_as(structure, arrays), nest.pack_sequence_as(structure, zeros)
