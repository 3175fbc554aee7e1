"""Of `ops.rnn_cell_impl`: what programs' own cells are made with."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import penstock.compat.v1 as tf

_WEIGHTS_VARIABLE_NAME, _BIAS_VARIABLE_NAME = "kernel", "bias"


def _linear(args: Any, output_size: int, bias: bool, bias_initializer: Any = None, kernel_initializer: Any = None) -> Any:
    """The sum of products of each of `args` with weights of its own, plus a bias, in the open variable scope."""
    tensors: Sequence[Any] = args if isinstance(args, (list, tuple)) else [args]
    total = sum(int(t.shape[1]) for t in tensors)
    dtype = tensors[0].dtype
    weights = tf.get_variable(_WEIGHTS_VARIABLE_NAME, [total, output_size], dtype=dtype, initializer=kernel_initializer)
    result = tf.matmul(tensors[0] if len(tensors) == 1 else tf.concat(list(tensors), 1), weights)
    if not bias:
        return result
    start = tf.constant_initializer(0.0, dtype=dtype) if bias_initializer is None else bias_initializer
    return tf.nn.bias_add(result, tf.get_variable(_BIAS_VARIABLE_NAME, [output_size], dtype=dtype, initializer=start))


def assert_like_rnncell(cell_name: str, cell: Any) -> None:
    """TypeError if something is no RNN cell."""
    lacks = [n for n in ("output_size", "state_size") if not hasattr(cell, n)]
    if lacks or not (hasattr(cell, "zero_state") or hasattr(cell, "get_initial_state")) or not callable(cell):
        raise TypeError(f"The argument {cell_name!r} ({cell}) is not an RNNCell: it lacks {lacks or 'zero_state or __call__'}.")
