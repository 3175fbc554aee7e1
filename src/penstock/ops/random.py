"""Random numbers that depend on state: every execution of the op gives others.

With a seed (see `penstock.graph.random_seed`) an op draws from its own Philox stream, which lives with the session
that runs it, and gives the numbers that TensorFlow gives for the same seeds. Without one it draws from a torch
generator, which is faster.
"""
from __future__ import annotations

import math
from typing import Any

import torch

from penstock import dtypes, errors
from penstock.api import export
from penstock.graph import random_seed
from penstock.graph.convert import convert
from penstock.graph.node import Tensor
from penstock.graph.scopes import name_scope
from penstock.kernels import philox
from penstock.ops.registry import get, op
from penstock.shape import TensorShape, rank_is

_FLOATS = "seed: int = 0, seed2: int = 0, dtype: type in {float}, T: type in {index}"


# -- what the kernels share -------------------------------------------------------------------------------------------
def stream(ctx: Any, node: Any, kind: str, seed: int, seed2: int, detail: Any = "") -> philox.Stream | None:
    """The Philox stream of an op in this session; None for an op without seeds."""
    if seed == 0 and seed2 == 0:
        return None
    if node is None or node.graph is None:     # eager: one stream for each way of calling, begun anew by set_seed
        key = f"{kind}/{seed}/{seed2}/{detail}/{random_seed.generation()}"
    else:
        key = f"{getattr(node.graph, 'name', '')}/{node.name}/{seed}/{seed2}"
    return ctx.resources.get_or_create("", key, philox.Stream, lambda: philox.Stream(seed, seed2))


_generators: dict[str, torch.Generator] = {}


def generator(device: torch.device | str) -> torch.Generator:
    """The torch generator for ops without seeds; its own seed is not predictable."""
    key = str(device)
    made = _generators.get(key)
    if made is None:
        made = torch.Generator(device)
        made.seed()
        made = _generators.setdefault(key, made)
    return made


def sizes(shape: torch.Tensor) -> list[int]:
    """The sizes in a shape tensor; InvalidArgumentError if it is no shape."""
    if shape.dim() != 1:
        raise errors.invalid(f"shape must be a vector, got one of shape {list(shape.shape)}")
    out = shape.tolist()
    for d in out:
        if d < 0:
            raise errors.invalid(f"Dimension {d} must be >= 0")
    if math.prod(out) >= 1 << 40:
        raise errors.ResourceExhaustedError(None, None, f"OOM when allocating tensor with shape {out}")
    return out


def shape_tensor(shape: Any) -> Any:
    """A shape argument as an int32 or int64 tensor."""
    if isinstance(shape, (list, tuple, TensorShape)):
        if not any(isinstance(d, Tensor) or hasattr(d, "dtype") for d in shape):
            return convert(shape, dtypes.int32, name="shape")
    return convert(shape, name="shape")


def vector_shape(shape: Any, *, c: Any) -> Any:
    """Shape rule of ops whose output has the shape that the input `shape` says."""
    rank_is(shape, 1)
    return c.dims("shape")


def _filler(name: str, draw: Any, quick: Any) -> Any:
    """An op that fills a shape: `draw` from Philox, `quick` from a torch generator."""
    made = op(name, "shape: T -> output: dtype", _FLOATS, stateful=True).no_gradient()
    made.shape(vector_shape)

    @made.kernel
    def _(shape, *, seed, seed2, dtype, node, ctx):
        dims = sizes(shape)
        source = stream(ctx, node, name, seed, seed2, dtype.name)
        if source is None:
            return quick(dims, dtype.torch, shape.device)
        count = math.prod(dims)
        return draw(source.reserve(count * philox.RESERVED), count, dtype.torch, shape.device).reshape(dims)
    return made


def _quick_truncated(dims: list[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    out = torch.empty(dims, dtype=torch.float64 if dtype is torch.float64 else torch.float32, device=device)
    return torch.nn.init.trunc_normal_(out, generator=generator(device)).to(dtype)


random_uniform_op = _filler(
    "RandomUniform", philox.uniform,
    lambda dims, dtype, device: torch.rand(dims, dtype=dtype, device=device, generator=generator(device)))
random_standard_normal = _filler(
    "RandomStandardNormal", philox.normal,
    lambda dims, dtype, device: torch.randn(dims, dtype=dtype, device=device, generator=generator(device)))
truncated_normal_op = _filler("TruncatedNormal", philox.truncated_normal, _quick_truncated)


random_uniform_int = op("RandomUniformInt", "shape: T, minval: Tout, maxval: Tout -> output: Tout",
                        "seed: int = 0, seed2: int = 0, Tout: type in {index}, T: type in {index}",
                        stateful=True).no_gradient()


@random_uniform_int.shape
def _(shape, minval, maxval, *, c):
    rank_is(shape, 1), rank_is(minval, 0), rank_is(maxval, 0)
    return c.dims("shape")


@random_uniform_int.kernel
def _(shape, minval, maxval, *, seed, seed2, Tout, node, ctx):
    dims = sizes(shape)
    low, high = int_range(minval, maxval)
    count = math.prod(dims)
    if count and low >= high:
        raise errors.invalid(f"Need minval < maxval, got {low} >= {high}")
    source = stream(ctx, node, "RandomUniformInt", seed, seed2, Tout.name)
    if source is not None:
        if not count:
            return torch.empty(dims, dtype=Tout.torch, device=shape.device)
        return philox.uniform_int(source.reserve(count * philox.RESERVED), count, low, high, Tout.torch,
                                  shape.device).reshape(dims)
    out = torch.empty(dims, dtype=Tout.torch, device=shape.device)
    if not count:
        return out
    if high - low < 1 << 63:
        return out.random_(low, high, generator=generator(shape.device))
    bits = out.random_(-1 << 63, None, generator=generator(shape.device))
    return philox.unsigned_remainder(bits, high - low) + low


def int_range(minval: torch.Tensor, maxval: torch.Tensor) -> tuple[int, int]:
    """The bounds of a uniform draw of integers, each of which has to be a scalar."""
    for name, bound in (("minval", minval), ("maxval", maxval)):
        if bound.dim():
            raise errors.invalid(f"{name} must be 0-D, got shape {list(bound.shape)}")
    return int(minval), int(maxval)


# -- public functions -------------------------------------------------------------------------------------------------
@export("random.uniform", v1=["random_uniform"])
def random_uniform(shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32,
                   seed: int | None = None, name: str | None = None) -> Tensor:
    """Uniform random numbers in [minval, maxval); for integer types `maxval` has to be given.

    >>> tf.random.uniform([2, 3], maxval=10, dtype=tf.int32)
    """
    dtype = dtypes.as_dtype(dtype)
    if not (dtype.is_floating or dtype in (dtypes.int32, dtypes.int64)):
        raise ValueError(f"Invalid dtype {dtype!r}")
    if maxval is None:
        if dtype.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
        maxval = 1
    with name_scope(name, "random_uniform", [shape, minval, maxval]) as name:
        shape = shape_tensor(shape)
        minval, maxval = convert(minval, dtype, name="min"), convert(maxval, dtype, name="max")
        seed1, seed2 = random_seed.get_seed(seed)
        if dtype.is_integer:
            return random_uniform_int(shape, minval, maxval, seed=seed1, seed2=seed2, name=name)
        drawn = random_uniform_op(shape, dtype=dtype, seed=seed1, seed2=seed2)
        return get("AddV2")(drawn * (maxval - minval), minval, name=name)


def _scaled_normal(opdef: Any, scope: str, shape: Any, mean: Any, stddev: Any, dtype: Any, seed: int | None,
                   name: str | None) -> Tensor:
    with name_scope(name, scope, [shape, mean, stddev]) as name:
        shape = shape_tensor(shape)
        mean, stddev = convert(mean, dtype, name="mean"), convert(stddev, dtype, name="stddev")
        seed1, seed2 = random_seed.get_seed(seed)
        return get("AddV2")(opdef(shape, dtype=dtype, seed=seed1, seed2=seed2) * stddev, mean, name=name)


@export("random.normal", v1=["random_normal"])
def random_normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, seed: int | None = None,
                  name: str | None = None) -> Tensor:
    """Normal random numbers.

    >>> tf.random.normal([4], mean=1., stddev=2., seed=1)
    """
    return _scaled_normal(random_standard_normal, "random_normal", shape, mean, stddev, dtype, seed, name)


@export("random.truncated_normal", v1=["truncated_normal"])
def truncated_normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32,
                     seed: int | None = None, name: str | None = None) -> Tensor:
    """Normal random numbers within two standard deviations of the mean; the others are drawn again."""
    return _scaled_normal(truncated_normal_op, "truncated_normal", shape, mean, stddev, dtype, seed, name)
