"""Layers of bidirectional networks, and networks over whole sequences behind one interface."""
from __future__ import annotations

import abc
from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


def _check_layers(cells_fw: Any, cells_bw: Any, initial_states_fw: Any, initial_states_bw: Any) -> None:
    for name, cells, states in (("fw", cells_fw, initial_states_fw), ("bw", cells_bw, initial_states_bw)):
        if not cells:
            raise ValueError(f"Must specify at least one {name} cell for BidirectionalRNN.")
        if not isinstance(cells, list):
            raise ValueError(f"cells_{name} must be a list of RNNCells (one per layer).")
        if states is not None and (not isinstance(states, list) or len(states) != len(cells)):
            raise ValueError(f"initial_states_{name} must be a list of state tensors (one per layer).")
    if len(cells_fw) != len(cells_bw):
        raise ValueError("Forward and Backward cells must have the same depth.")


@export(v1=["contrib.rnn.stack_bidirectional_rnn"])
def stack_bidirectional_rnn(cells_fw: Any, cells_bw: Any, inputs: Any, initial_states_fw: Any = None,
                            initial_states_bw: Any = None, dtype: Any = None, sequence_length: Any = None,
                            scope: Any = None) -> tuple[Any, tuple, tuple]:
    """Layers of static bidirectional networks: the joined outputs of one are the inputs of the next."""
    _check_layers(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw = [], []
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (fw, bw) in enumerate(zip(cells_fw, cells_bw, strict=True)):
            with tf.variable_scope(f"cell_{i}") as inner:
                inputs, state_fw, state_bw = tf.nn.static_bidirectional_rnn(
                    fw, bw, inputs, initial_state_fw=initial_states_fw[i] if initial_states_fw else None,
                    initial_state_bw=initial_states_bw[i] if initial_states_bw else None, sequence_length=sequence_length,
                    dtype=dtype, scope=inner)
            states_fw.append(state_fw)
            states_bw.append(state_bw)
    return inputs, tuple(states_fw), tuple(states_bw)


@export(v1=["contrib.rnn.stack_bidirectional_dynamic_rnn"])
def stack_bidirectional_dynamic_rnn(cells_fw: Any, cells_bw: Any, inputs: Any, initial_states_fw: Any = None,
                                    initial_states_bw: Any = None, dtype: Any = None, sequence_length: Any = None,
                                    parallel_iterations: int | None = None, time_major: bool = False, scope: Any = None,
                                    swap_memory: bool = False) -> tuple[Any, tuple, tuple]:
    """Layers of bidirectional networks in loops: the joined outputs of one are the inputs of the next."""
    _check_layers(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw = [], []
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (fw, bw) in enumerate(zip(cells_fw, cells_bw, strict=True)):
            with tf.variable_scope(f"cell_{i}"):
                outputs, (state_fw, state_bw) = tf.nn.bidirectional_dynamic_rnn(
                    fw, bw, inputs, initial_state_fw=initial_states_fw[i] if initial_states_fw else None,
                    initial_state_bw=initial_states_bw[i] if initial_states_bw else None, sequence_length=sequence_length,
                    parallel_iterations=parallel_iterations, dtype=dtype, swap_memory=swap_memory, time_major=time_major)
                inputs = tf.concat(outputs, 2)
            states_fw.append(state_fw)
            states_bw.append(state_bw)
    return inputs, tuple(states_fw), tuple(states_bw)


@export(v1=["contrib.rnn.FusedRNNCell"])
class FusedRNNCell(metaclass=abc.ABCMeta):
    """A network over a whole sequence, with time first, in one call."""

    @abc.abstractmethod
    def __call__(self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
                 scope: Any = None) -> Any:
        """All outputs and the last state."""


@export(v1=["contrib.rnn.FusedRNNCellAdaptor"])
class FusedRNNCellAdaptor(FusedRNNCell):
    """A cell behind the interface of whole sequences."""

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False):
        self._cell, self._use_dynamic_rnn = cell, use_dynamic_rnn

    def __call__(self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
                 scope: Any = None) -> Any:
        is_list = isinstance(inputs, list)
        if self._use_dynamic_rnn:
            outputs, state = tf.nn.dynamic_rnn(self._cell, tf.stack(inputs) if is_list else inputs,
                                               sequence_length=sequence_length, initial_state=initial_state, dtype=dtype,
                                               time_major=True, scope=scope)
            return tf.unstack(outputs) if is_list else outputs, state
        outputs, state = tf.nn.static_rnn(self._cell, inputs if is_list else tf.unstack(inputs), initial_state=initial_state,
                                          dtype=dtype, sequence_length=sequence_length, scope=scope)
        return outputs if is_list else tf.stack(outputs), state


@export(v1=["contrib.rnn.TimeReversedFusedRNN"])
class TimeReversedFusedRNN(FusedRNNCell):
    """Runs another one backwards in time."""

    def __init__(self, cell: Any):
        self._cell = cell

    @staticmethod
    def _reversed(x: Any, lengths: Any) -> Any:
        if isinstance(x, list):
            return list(reversed(x))
        return tf.reverse(x, [0]) if lengths is None else tf.reverse_sequence(x, lengths, 0, 1)

    def __call__(self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
                 scope: Any = None) -> Any:
        outputs, state = self._cell(self._reversed(inputs, sequence_length), initial_state=initial_state, dtype=dtype,
                                    sequence_length=sequence_length, scope=scope)
        return self._reversed(outputs, sequence_length), state
