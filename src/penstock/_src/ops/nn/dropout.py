"""Dropout: elements set to zero at random, the others scaled up so that the expected sum stays the same."""
from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.array.array import shape_of
from penstock._src.ops.composite import dispatched
from penstock._src.ops.core import static
from penstock._src.ops.random.random import random_uniform
from penstock._src.ops.random.stateless_random import stateless_random_uniform
from penstock._src.ops.registry import get


def _noise_shape(x: Tensor, noise_shape: Any) -> Any:
    """The shape of the random numbers: unknown sizes of a static shape are those of `x`."""
    if noise_shape is None:
        return shape_of(x)
    if isinstance(noise_shape, Tensor):
        return noise_shape
    try:
        dims = TensorShape(noise_shape).static_dims
    except (TypeError, ValueError):
        return noise_shape
    own = x.static_dims
    if dims is None or own is None or len(dims) != len(own):
        return noise_shape
    return [x if d is None else d for d, x in zip(dims, own, strict=True)]


def _dropout(x: Any, rate: Any, noise_shape: Any, draw: Callable, name: str | None) -> Tensor:
    """Dropout by the numbers in [0, 1) that `draw(shape, dtype)` returns."""
    with name_scope(name, "dropout", [x]):
        x = convert(x, name="x")
        if not x.dtype.is_floating:
            raise ValueError("x has to be a floating point tensor since it's going to be scaled. Got a "
                             f"{x.dtype.name} tensor instead.")
        if isinstance(rate, numbers.Real):
            if not 0 <= float(rate) < 1:
                raise ValueError(f"rate must be a scalar tensor or a float in the range [0, 1), got {rate:g}")
        elif static(convert(rate, x.dtype.base_dtype)) is None:
            rate = convert(rate, x.dtype.base_dtype, name="rate")
        else:
            rate = static(convert(rate, x.dtype.base_dtype)).item()
        if isinstance(rate, Tensor):
            if rate.static_dims not in (None, ()):
                raise ValueError(f"rate must be a scalar tensor or a float in the range [0, 1), got {rate}")
        elif rate == 0:
            return x
        drawn = draw(_noise_shape(x, noise_shape), x.dtype.base_dtype)
        keep = get("Cast")(get("GreaterEqual")(drawn, rate), DstT=x.dtype.base_dtype)
        out = x * (1 / (1 - rate)) * keep
        if not hasattr(out, "_value"):
            out.set_shape(x.shape)
        return out


@export(v1=["nn.dropout"])
@dispatched
def dropout(x: Any, keep_prob: Any = None, noise_shape: Any = None, seed: Any = None, name: str | None = None,
            rate: Any = None) -> Tensor:
    """Sets elements to zero with probability `rate` (1 - keep_prob) and scales the others by 1 / (1 - rate).

    Args:
        x: Tensor of floating-point numbers.
        keep_prob: Probability that an element is kept. Old form of `1 - rate`.
        noise_shape: Shape of the mask, which broadcasts to `x`.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        name: Name of the operation.
        rate: Probability that an element becomes 0.

    Returns:
        A tensor of the type and shape of `x`.

    Raises:
        ValueError: if `rate` is not in [0, 1).

    >>> y = tf.nn.dropout(tf.ones([4, 3]), rate=0.5, noise_shape=[4, 1])    # whole rows together
    >>> y.shape
    TensorShape([4, 3])
    """
    if keep_prob is not None:
        if rate is not None:
            raise ValueError("Cannot specify both 'keep_prob' and 'rate'")
        try:
            rate = 1.0 - keep_prob
        except TypeError:
            raise ValueError(f"keep_prob must be a floating point number or Tensor (got {keep_prob!r})") from None
    if rate is None:
        raise ValueError("dropout needs a rate.")
    return _dropout(x, rate, noise_shape, _seeded(seed), name)


def _seeded(seed: Any) -> Callable:
    return lambda shape, dtype: random_uniform(shape, dtype=dtype, seed=seed)


@export(v2=["nn.dropout"])
@dispatched
def dropout_v2(x: Any, rate: Any, noise_shape: Any = None, seed: Any = None, name: str | None = None) -> Tensor:
    """Sets elements to zero with probability `rate` and scales the others by 1 / (1 - rate).

    Args:
        x: Tensor of floats.
        rate: Probability of a zero, in [0, 1).
        noise_shape: Shape of the random choices, broadcast to that of `x`: 1 where elements share one.
        seed: Seed of the random choices.
        name: Name of the operation.

    Returns:
        Tensor of the shape of `x`.

    >>> tf.nn.dropout(tf.ones([2]), rate=0.0).numpy().tolist()
    [1.0, 1.0]
    """
    return _dropout(x, rate, noise_shape, _seeded(seed), name)


@export("nn.experimental.stateless_dropout")
@dispatched
def stateless_dropout(x: Any, rate: Any, seed: Any, rng_alg: Any = None, noise_shape: Any = None,
                      name: str | None = None) -> Tensor:
    """Dropout with stateless random numbers, determined by the seed.

    >>> tf.nn.experimental.stateless_dropout(tf.ones([4]), rate=0.5, seed=[1, 0])
    """
    def draw(shape: Any, dtype: Any) -> Tensor:
        return stateless_random_uniform(shape, seed, dtype=dtype, alg=rng_alg or "auto_select")
    return _dropout(x, rate, noise_shape, draw, name)


@export("nn.experimental.general_dropout")
@dispatched
def general_dropout(x: Any, rate: Any, uniform_sampler: Callable, noise_shape: Any = None, name: str | None = None) -> Tensor:
    """Dropout by the numbers in [0, 1) that `uniform_sampler(shape, dtype)` returns."""
    return _dropout(x, rate, noise_shape, lambda shape, dtype: uniform_sampler(shape=shape, dtype=dtype), name)
