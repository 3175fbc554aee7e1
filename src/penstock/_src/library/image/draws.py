"""Sources of random numbers for image functions: the stream of an op, or a stateless seed."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.compat import v1 as tf

Draw = Callable[..., Any]               # (shape, low, high, dtype) -> uniform numbers


def seeded(seed: Any) -> Draw:
    """Numbers of a stream, which differ in every step."""
    return lambda shape, low=0., high=1., dtype=tf.float32: tf.random_uniform(shape, low, high, dtype, seed=seed)


def stateless(seed: Any) -> Draw:
    """The numbers of a stateless seed [2], always the same."""
    return lambda shape, low=0., high=1., dtype=tf.float32: tf.random.stateless_uniform(shape, seed, low, high, dtype)
