"""Where random changes of images take their numbers from: an op's own stream, or a seed that fixes them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.compat import v1 as tf

Draw = Callable[..., Any]               # (shape, low, high, dtype) -> uniform numbers


def seeded(seed: Any) -> Draw:
    """Numbers of a stream, others in every step."""
    return lambda shape, low=0., high=1., dtype=tf.float32: tf.random_uniform(shape, low, high, dtype, seed=seed)


def stateless(seed: Any) -> Draw:
    """The numbers that a seed [2] represents, always the same."""
    return lambda shape, low=0., high=1., dtype=tf.float32: tf.random.stateless_uniform(shape, seed, low, high, dtype)
