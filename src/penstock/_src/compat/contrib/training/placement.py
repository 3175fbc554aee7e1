"""Which parameter server a variable goes to: device setters for tf.train.replica_device_setter."""
from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


@export(v1=["contrib.training.RandomStrategy"])
class RandomStrategy:
    """Assigns each variable to a random task."""

    def __init__(self, num_ps: int, seed: int = 0):
        self._num_tasks, self._random = num_ps, random.Random(seed)

    def __call__(self, op: Any) -> int:
        return self._random.randint(0, self._num_tasks - 1)


@export(v1=["contrib.training.GreedyLoadBalancingStrategy"])
class GreedyLoadBalancingStrategy:
    """Assigns each variable to the task with the smallest load so far.

    Args:
        num_tasks: Number of parameter servers.
        load_fn: Function of an op that returns its load, such as `byte_size_load_fn`.

    >>> strategy = tf.contrib.training.GreedyLoadBalancingStrategy(2, tf.contrib.training.byte_size_load_fn)
    >>> with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(2, ps_strategy=strategy)):
    ...     large, small, other = tf.get_variable("a", [100]), tf.get_variable("b", [10]), tf.get_variable("c", [10])
    >>> large.device, small.device, other.device
    ('/job:ps/task:0', '/job:ps/task:1', '/job:ps/task:1')
    """

    def __init__(self, num_tasks: int, load_fn: Callable):
        self._load_fn, self._loads = load_fn, [0.0] * num_tasks

    def __call__(self, op: Any) -> int:
        task = self._loads.index(min(self._loads))
        self._loads[task] += self._load_fn(op)
        return task


@export(v1=["contrib.training.byte_size_load_fn"])
def byte_size_load_fn(op: Any) -> int:
    """The bytes of a variable's value.

    Args:
        op: Operation that makes a variable.

    Returns:
        A number of bytes.

    >>> with tf.Graph().as_default():
    ...     w = tf.get_variable("w", [100])
    ...     print(tf.contrib.training.byte_size_load_fn(w.op))
    400
    """
    if len(op.outputs) != 1:
        raise ValueError(f"Op {op} must have a single output")
    shape = op.outputs[0].shape
    dtype = op.outputs[0].dtype
    if op.type == "VarHandleOp":
        shape, dtype = op.get_attr("shape"), op.get_attr("dtype")
        shape, dtype = tf.TensorShape(shape), tf.as_dtype(dtype)
    shape.assert_is_fully_defined()
    return shape.num_elements() * dtype.size
