"""`K.rnn`: a step function over the time axis, unrolled or as a loop."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _swapped(x: Any) -> Any:
    """Batch and time exchanged."""
    return tf.transpose(x, [1, 0, *range(2, len(x.shape))])


def _choose(mask: Any, yes: Any, no: Any) -> Any:
    """`yes` where the mask, which has fewer axes, is true."""
    while len(mask.shape) < len(yes.shape):
        mask = tf.expand_dims(mask, -1)
    return tf.where_v2(mask, yes, no)


def _time_major_mask(mask: Any, time_major: bool) -> Any:
    if mask.dtype.base_dtype != tf.bool:
        mask = tf.cast(mask, tf.bool)
    if len(mask.shape) == 2:
        mask = tf.expand_dims(mask, -1)
    return mask if time_major else _swapped(mask)


@export("keras.backend.rnn")
def rnn(step_function: Any, inputs: Any, initial_states: Any, go_backwards: bool = False, mask: Any = None,
        constants: Any = None, unroll: bool = False, input_length: Any = None, time_major: bool = False,
        zero_output_for_mask: bool = False) -> tuple:
    """Calls `step_function(input at t, states + constants) -> (output, new states)` for every time step.

    Where the mask is false, states stay and the output is that of the step before (or zeros). Returns the last output,
    all outputs and the last states.

    >>> last, outputs, states = tf.keras.backend.rnn(lambda x, s: (x + s[0], [x + s[0]]), x, [tf.zeros([8, 3])])
    """
    if not time_major:
        inputs = nest.map_structure(_swapped, inputs)
    first = nest.flatten(inputs)[0]
    for x in nest.flatten(inputs):
        x.shape.with_rank_at_least(3)
    steps, batch = first.shape.as_list()[:2]
    if mask is not None:
        mask = _time_major_mask(mask, time_major)
    constants = tuple(constants or ())
    run = _unrolled if unroll else _looped
    last, outputs, states = run(step_function, inputs, tuple(initial_states), go_backwards, mask, constants, steps,
                                input_length, zero_output_for_mask)

    def known(x: Any) -> Any:
        if not hasattr(x, "_value"):
            dims = x.shape.as_list()
            x.set_shape([steps, batch, *dims[2:]])
        return x if time_major else _swapped(x)
    return last, nest.map_structure(known, outputs), states


def _unrolled(step_function: Any, inputs: Any, states: tuple, go_backwards: bool, mask: Any, constants: tuple, steps: Any,
              input_length: Any, zero_output_for_mask: bool) -> tuple:
    if not steps:
        raise ValueError("The number of time steps must be known for unroll=True.")
    rows = [tf.unstack(x) for x in nest.flatten(inputs)]
    masks = None if mask is None else tf.unstack(mask)
    order = range(steps - 1, -1, -1) if go_backwards else range(steps)
    outputs: list = []
    for t in order:
        output, new_states = step_function(nest.pack_sequence_as(inputs, [r[t] for r in rows]), states + constants)
        new_states = tuple(new_states)
        if masks is not None:
            before = outputs[-1] if outputs else nest.map_structure(tf.zeros_like, output)
            output = nest.map_structure(lambda o, b, m=masks[t]: _choose(m, o, b), output, before)
            new_states = nest.map_structure(lambda n, s, m=masks[t]: _choose(m, n, s), new_states, states)
        outputs.append(output)
        states = new_states
    last = outputs[-1]
    together = nest.map_structure(lambda *o: tf.stack(o), *outputs)
    if masks is not None and zero_output_for_mask:
        seen = tf.reverse(mask, [0]) if go_backwards else mask
        last = nest.map_structure(lambda o: _choose(masks[order[-1]], o, tf.zeros_like(o)), last)
        together = nest.map_structure(lambda o: _choose(seen, o, tf.zeros_like(o)), together)
    return last, together, states


def _arrays(xs: Any, go_backwards: bool, name: str) -> list:
    return [tf.TensorArray(x.dtype, tf.shape(x)[0], tensor_array_name=f"{name}_{i}").unstack(
        tf.reverse(x, [0]) if go_backwards else x) for i, x in enumerate(xs)]


def _looped(step_function: Any, inputs: Any, states: tuple, go_backwards: bool, mask: Any, constants: tuple, steps: Any,
            input_length: Any, zero_output_for_mask: bool) -> tuple:
    if mask is not None and not states:
        raise ValueError("Masking requires initial states; the first state that the step function returns must be its "
                         "output.")
    flat = nest.flatten(inputs)
    n = tf.shape(flat[0])[0]
    feeds = _arrays(flat, go_backwards, "input_ta")
    masks = [] if mask is None else _arrays([mask], go_backwards, "mask_ta")
    example, _ = step_function(nest.pack_sequence_as(inputs, [x[0] for x in flat]), states + constants)
    examples = nest.flatten(example)
    results = tuple(tf.TensorArray(o.dtype, n, element_shape=o.shape, tensor_array_name=f"output_ta_{i}")
                    for i, o in enumerate(examples))
    zeros = tuple(tf.zeros_like(o) for o in examples)
    flat_states = nest.flatten(states)

    def step(t: Any, results: tuple, before: tuple, now: list) -> tuple:
        output, new_states = step_function(nest.pack_sequence_as(inputs, [f.read(t) for f in feeds]),
                                           tuple(nest.pack_sequence_as(states, now)) + constants)
        outs, news = nest.flatten(output), nest.flatten(new_states)
        for old, new in zip(now, news):
            if isinstance(new, Tensor) and not hasattr(new, "_value"):
                new.set_shape(old.shape)
        if masks:
            m = masks[0].read(t)
            outs = [_choose(m, o, b) for o, b in zip(outs, zeros if zero_output_for_mask else before)]
            news = [_choose(m, new, old) for new, old in zip(news, now)]
        written = tuple(r.write(t, o) for r, o in zip(results, outs))
        return t + 1, written, tuple(outs) if masks else before, news

    start = (tf.constant(0, name="time"), results, zeros if masks else (), flat_states)
    _, results, _, last_states = tf.while_loop(lambda t, *_: t < n, step, start, parallel_iterations=32, swap_memory=True,
                                               maximum_iterations=input_length)
    stacked = [r.stack() for r in results]
    return (nest.pack_sequence_as(example, [o[-1] for o in stacked]), nest.pack_sequence_as(example, stacked),
            nest.pack_sequence_as(states, last_states))
