"""Binomial random numbers, determined by a seed or by the state of a generator.

They come from a torch generator, seeded by the position in the Philox stream: the same state produces the same numbers, but not
TensorFlow's.
"""
from __future__ import annotations

import math
from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import rank_is
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import philox
from penstock._src.ops.composite import dispatched
from penstock._src.ops.random.random import shape_tensor, sizes, vector_shape
from penstock._src.ops.random.stateful_random import advance
from penstock._src.ops.random.stateless_random import seed_tensor, stream_of
from penstock._src.ops.registry import op

_NUMBERS = "{half float32 float64 int32 int64}"


def _draw(gen: philox.Philox, dims: list[int], counts: torch.Tensor, probs: torch.Tensor, dtype: Any) -> torch.Tensor:
    """Binomial(counts, probs) samples. Probabilities outside of 0 to 1 count as the nearer of both; NaN stays NaN."""
    try:
        counts, probs = (x.double().broadcast_to(dims) for x in (counts, probs))
    except RuntimeError:
        raise errors.invalid(f"Shape passed in must end with broadcasted shape. Got {dims} for counts of shape "
                             f"{list(counts.shape)} and probs of shape {list(probs.shape)}") from None
    source = torch.Generator(counts.device)
    source.manual_seed((gen.key ^ gen.counter ^ gen.counter >> 64) & ((1 << 63) - 1))
    good = ~(counts.isnan() | probs.isnan())
    most = torch.where(good, counts, 0.0).clamp_(0, torch.finfo(torch.float64).max)
    drawn = torch.binomial(most, torch.where(good, probs, 0.0).clamp_(0, 1), generator=source)
    return torch.where(good, drawn, math.nan).to(dtype.torch)


stateful_binomial = op(
    "StatefulRandomBinomial", "resource: resource, algorithm: int64, shape: S, counts: T, probs: T -> output: dtype",
    f"S: type in {{index}}, T: type in {_NUMBERS} = float64, dtype: type in {_NUMBERS} = int64", stateful=True).no_gradient()


@stateful_binomial.shape
def _stateful_binomial_shape(resource, algorithm, shape, counts, probs, *, c):
    rank_is(resource, 0), rank_is(algorithm, 0), rank_is(shape, 1)
    return c.dims("shape")


@stateful_binomial.kernel
def _stateful_binomial_kernel(resource, algorithm, shape, counts, probs, *, dtype):
    dims = sizes(shape)
    gen, _ = advance(resource, algorithm, math.prod(dims), read=True)
    return _draw(gen, dims, counts, probs, dtype)


stateless_binomial_op = op(
    "StatelessRandomBinomial", "shape: S, seed: Tseed, counts: T, probs: T -> output: dtype",
    f"S: type in {{index}}, Tseed: type in {{index}} = int64, T: type in {_NUMBERS} = float64, "
    f"dtype: type in {_NUMBERS} = int64").no_gradient()
stateless_binomial_op.shape(lambda shape, seed, counts, probs, *, c: vector_shape(shape, c=c))
stateless_binomial_op.kernel(lambda shape, seed, counts, probs, *, dtype: _draw(
    stream_of(seed, read=True), sizes(shape), counts, probs, dtype))


@export("random.stateless_binomial")
@dispatched
def stateless_random_binomial(shape: Any, seed: Any, counts: Any, probs: Any, output_dtype: Any = dtypes.int32,
                              name: str | None = None) -> Tensor:
    """Binomial(counts, probs) samples, fixed by a seed [2]; `shape` ends with the shape of counts and probs together.

    >>> tf.random.stateless_binomial([3], seed=[1, 2], counts=10.0, probs=0.5)
    """
    with name_scope(name, "stateless_random_binomial", [shape, seed, counts, probs]):
        probs = convert(probs, preferred_dtype=dtypes.float32, name="probs")
        counts = convert(counts, probs.dtype, name="counts")
        return stateless_binomial_op(shape_tensor(shape), seed_tensor(seed), counts, probs, dtype=output_dtype)
