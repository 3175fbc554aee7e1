"""Random numbers that depend only on a seed given with the call: the same seed produces the same numbers.

They are those that TensorFlow returns. The seed, a pair of integers, is scrambled into a Philox stream.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import rank_is
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import draws, philox
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.random.random import (
    draw_classes,
    draw_gamma,
    draw_poisson,
    gamma_gradient,
    int_range,
    multinomial_shape,
    shape_tensor,
    sizes,
)
from penstock._src.ops.registry import get, op

_FLOATS = "dtype: type in {float} = float32, T: type in {index} = int32, Tseed: type in {index} = int64"


def _check_seed(seed: Any) -> None:
    size, = rank_is(seed, 1)
    if size not in (None, 2):
        raise ValueError(f"seed must have shape [2], not [{size}]")


def stream_of(seed: torch.Tensor, read: bool = False) -> Any:
    """The stream that a seed [2] begins. The host does not wait for a seed on a GPU, unless it has to `read` it."""
    if tuple(seed.shape) != (2,):
        raise errors.invalid(f"seed must have shape [2], not {list(seed.shape)}")
    if not read and (not seed.is_cpu or isinstance(seed, torch._subclasses.FakeTensor)):
        return draws.OnDevice.scrambled(seed)
    return philox.Philox.scrambled(*seed.tolist())


def _shape(shape: Any, seed: Any, *parameters: Any, c: Any) -> Any:
    rank_is(shape, 1)
    _check_seed(seed)
    return c.dims("shape")


def _filler(name: str, draw: Any, attrs: str = _FLOATS) -> Any:
    made = op(name, "shape: T, seed: Tseed -> output: dtype", attrs).no_gradient()
    made.shape(_shape)

    @made.kernel
    def _made_kernel(shape, seed, *, dtype):
        dims, gen = sizes(shape), stream_of(seed)
        return draw(gen, math.prod(dims), dtype.torch, draws.device_of(gen, shape.device)).reshape(dims)
    if draw is not philox.truncated_normal:                              # which takes a varying number of words
        rules.regions.lower[made] = lambda op, r: _lowered(op, r, draw)
    return made


def _lowered(op: Any, r: Any, draw: Any, *bounds: int) -> list:
    """Writes an op into a region."""
    few = philox.Few(draw, list(op.outputs[0].static_dims), op.attrs["dtype"].torch, bounds)
    if list(r.constant(op.inputs[0])) != few.dims:
        raise r.Unfit("another shape")
    return [r.drawn_of_seed(few, r.view(op.inputs[1]))]


stateless_random_uniform_op = _filler("StatelessRandomUniform", philox.uniform)
stateless_random_normal_op = _filler("StatelessRandomNormal", philox.normal)
stateless_truncated_normal_op = _filler("StatelessTruncatedNormal", philox.truncated_normal)
stateless_full_int = _filler("StatelessRandomUniformFullInt", philox.full_int,
                             "dtype: type in {int32 int64 uint32 uint64} = uint64, T: type in {index} = int32, "
                             "Tseed: type in {int32 int64 uint32 uint64} = int64")

stateless_uniform_int = op("StatelessRandomUniformInt", "shape: T, seed: Tseed, minval: dtype, maxval: dtype -> output: dtype",
                           "dtype: type in {index}, T: type in {index}, Tseed: type in {index} = int64").no_gradient()


@stateless_uniform_int.shape
def _stateless_uniform_int_shape(shape, seed, minval, maxval, *, c):
    rank_is(shape, 1), rank_is(minval, 0), rank_is(maxval, 0)
    _check_seed(seed)
    return c.dims("shape")


@stateless_uniform_int.kernel
def _stateless_uniform_int_kernel(shape, seed, minval, maxval, *, dtype):
    return integers_between(shape, stream_of(seed), minval, maxval, dtype)


@rules.regions.lower(stateless_uniform_int)
def _lower_uniform_int(op, r):
    low, high = (r.constant(t) for t in op.inputs[2:])
    if low.ndim or high.ndim or not low < high:
        raise r.Unfit("other bounds")
    return _lowered(op, r, philox.uniform_int, int(low), int(high))


def integers_between(shape: torch.Tensor, gen: Any, minval: torch.Tensor, maxval: torch.Tensor, dtype: Any) -> torch.Tensor:
    """Integers of a stream, uniform in [minval, maxval)."""
    dims = sizes(shape)
    low, high = int_range(minval, maxval)
    device = draws.device_of(gen, shape.device)
    if not math.prod(dims):
        return torch.empty(dims, dtype=dtype.torch, device=device)
    if low >= high:
        raise errors.invalid(f"Need minval < maxval, got {low} >= {high}")
    return philox.uniform_int(gen, math.prod(dims), dtype.torch, device, low, high).reshape(dims)


stateless_multinomial_op = op("StatelessMultinomial", "logits: T, num_samples: int32, seed: Tseed -> output: output_dtype",
                              "T: type in {real}, Tseed: type in {index} = int64, "
                              "output_dtype: type in {index} = int64").no_gradient()


@stateless_multinomial_op.shape
def _stateless_multinomial_shape(logits, num_samples, seed, *, c):
    _check_seed(seed)
    return multinomial_shape(logits, num_samples, c)


@stateless_multinomial_op.kernel
def _stateless_multinomial_kernel(logits, num_samples, seed, *, output_dtype):
    gen = stream_of(seed)
    return draw_classes(logits, num_samples, output_dtype.torch, lambda rows, count: philox.uniform(
        gen, rows * count, torch.float64, logits.device).reshape(rows, count))


def _samples(dims: list[int], parameter: torch.Tensor) -> int:
    """The number of samples per parameter in an output whose last dimensions are those of the parameters."""
    rank = parameter.dim()
    if rank > len(dims) or dims[len(dims) - rank:] != list(parameter.shape):
        raise errors.invalid(f"Shape passed in must end with broadcasted shape. Got {dims} for parameters of shape "
                             f"{list(parameter.shape)}")
    return math.prod(dims[:len(dims) - rank])


stateless_gamma_op = op("StatelessRandomGammaV2", "shape: T, seed: Tseed, alpha: dtype -> output: dtype",
                        "dtype: type in {half float32 float64}, T: type in {index}, Tseed: type in {index} = int64")
stateless_gamma_op.shape(_shape)


@stateless_gamma_op.kernel
def _stateless_gamma_kernel(shape, seed, alpha):
    dims, gen = sizes(shape), stream_of(seed)
    if not math.prod(dims):
        return alpha.new_empty(dims)
    return draw_gamma(gen, alpha, _samples(dims, alpha)).reshape(dims)


@stateless_gamma_op.gradient
def _stateless_gamma_gradient(op, grad):
    return None, None, gamma_gradient(op.inputs[2], op.outputs[0], grad)


stateless_poisson_op = op("StatelessRandomPoisson", "shape: T, seed: Tseed, lam: Rtype -> output: dtype",
                          "Rtype: type in {half float32 float64 int32 int64}, "
                          "dtype: type in {half float32 float64 int32 int64}, T: type in {index}, "
                          "Tseed: type in {index} = int64").no_gradient()
stateless_poisson_op.shape(_shape)


@stateless_poisson_op.kernel
def _stateless_poisson_kernel(shape, seed, lam, *, dtype):
    dims, gen = sizes(shape), stream_of(seed)
    if not math.prod(dims):
        return torch.empty(dims, dtype=dtype.torch, device=lam.device)
    return draw_poisson(gen, lam, _samples(dims, lam), dtype.torch).reshape(dims)


# -- public functions -------------------------------------------------------------------------------------------------
def seed_tensor(seed: Any) -> Any:
    """A seed as the caller gave it; unsigned numpy ones as the signed numbers of the same bits."""
    if isinstance(seed, np.ndarray) and seed.dtype.kind == "u":
        return seed.view(f"i{seed.dtype.itemsize}")
    return seed


@export("random.stateless_uniform")
@dispatched
def stateless_random_uniform(shape: Any, seed: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32,
                             name: str | None = None, alg: str = "auto_select") -> Tensor:
    """Uniform numbers in [minval, maxval), which `seed` determines.

    Args:
        shape: The shape of the result.
        seed: Two integers.
        minval: The smallest value.
        maxval: The limit, which is excluded; 1 for floats by default. Integers have no default; with both bounds None
            they cover the whole range of the type.
        dtype: The type of the numbers.
        name: A name for the op.
        alg: The generator: `"philox"`, `"threefry"` or `"auto_select"`.

    Returns:
        A tensor.

    >>> a = tf.random.stateless_uniform([3], seed=[1, 2])
    >>> print(bool(tf.reduce_all(a == tf.random.stateless_uniform([3], seed=[1, 2]))))
    True
    """
    dtype = dtypes.as_dtype(dtype)
    full = dtype.is_integer and minval is None and maxval is None
    if not (dtype.is_floating or dtype in (dtypes.int32, dtypes.int64)
            or full and dtype in (dtypes.uint32, dtypes.uint64)):
        raise ValueError(f"Invalid dtype {dtype!r}")
    if maxval is None and not full:
        if dtype.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
        maxval = 1
    with name_scope(name, "stateless_random_uniform", [shape, seed, minval, maxval]) as name:
        shape, seed = shape_tensor(shape), seed_tensor(seed)
        if full:
            return stateless_full_int(shape, seed, dtype=dtype, name=name)
        minval, maxval = convert(minval, dtype, name="min"), convert(maxval, dtype, name="max")
        if dtype.is_integer:
            for bound, value in (("minval", minval), ("maxval", maxval)):
                if value.shape.rank not in (None, 0):
                    raise ValueError(f"{bound} must be a scalar; got a tensor of shape {value.shape}")
            return stateless_uniform_int(shape, seed, minval, maxval, name=name)
        drawn = stateless_random_uniform_op(shape, seed, dtype=dtype)
        return get("AddV2")(drawn * (maxval - minval), minval, name=name)


def _scaled(opdef: Any, scope: str, shape: Any, seed: Any, mean: Any, stddev: Any, dtype: Any,
            name: str | None) -> Tensor:
    with name_scope(name, scope, [shape, seed, mean, stddev]) as name:
        mean, stddev = convert(mean, dtype, name="mean"), convert(stddev, dtype, name="stddev")
        return get("AddV2")(opdef(shape_tensor(shape), seed_tensor(seed), dtype=dtype) * stddev, mean, name=name)


@export("random.stateless_normal")
@dispatched
def stateless_random_normal(shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32,
                            name: str | None = None, alg: str = "auto_select") -> Tensor:
    """Normally distributed numbers, which `seed` determines.

    Args:
        shape: The shape of the result.
        seed: Two integers.
        mean: Their mean.
        stddev: Their standard deviation.
        dtype: The type of the numbers.
        name: A name for the op.
        alg: The generator: `"philox"`, `"threefry"` or `"auto_select"`.

    Returns:
        A tensor.

    >>> tf.random.stateless_normal([2], seed=[1, 2], mean=5.0, stddev=0.0).numpy()
    array([5., 5.], dtype=float32)
    """
    return _scaled(stateless_random_normal_op, "stateless_random_normal", shape, seed, mean, stddev, dtype, name)


@export("random.stateless_truncated_normal")
@dispatched
def stateless_truncated_normal(shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32,
                               name: str | None = None, alg: str = "auto_select") -> Tensor:
    """Normally distributed numbers within two standard deviations of the mean, which `seed` determines.

    Args:
        shape: The shape of the result.
        seed: Two integers.
        mean: Their mean.
        stddev: Their standard deviation before the truncation.
        dtype: The type of the numbers.
        name: A name for the op.
        alg: The generator: `"philox"`, `"threefry"` or `"auto_select"`.

    Returns:
        A tensor.

    >>> print(bool(tf.reduce_all(tf.abs(tf.random.stateless_truncated_normal([100], seed=[1, 2])) <= 2.0)))
    True
    """
    return _scaled(stateless_truncated_normal_op, "stateless_truncated_normal", shape, seed, mean, stddev, dtype, name)


@export(v1=["random.stateless_multinomial"])
@dispatched
def stateless_multinomial(logits: Any, num_samples: Any, seed: Any, output_dtype: Any = dtypes.int64,
                          name: str | None = None) -> Tensor:
    """`num_samples` classes per row of `logits`, determined by a seed [2]."""
    with name_scope(name, "stateless_multinomial", [logits, seed]):
        return stateless_multinomial_op(convert(logits, name="logits"), num_samples, seed_tensor(seed),
                                        output_dtype=output_dtype)


@export("random.stateless_categorical")
@dispatched
def stateless_categorical(logits: Any, num_samples: Any, seed: Any, dtype: Any = dtypes.int64,
                          name: str | None = None) -> Tensor:
    """`num_samples` classes per row of `logits`, determined by a seed [2]."""
    with name_scope(name, "stateless_categorical", [logits, seed]):
        return stateless_multinomial_op(convert(logits, name="logits"), num_samples, seed_tensor(seed), output_dtype=dtype)


@export("random.stateless_gamma")
@dispatched
def stateless_random_gamma(shape: Any, seed: Any, alpha: Any, beta: Any = None, dtype: Any = dtypes.float32,
                           name: str | None = None) -> Tensor:
    """Gamma(alpha, rate beta) samples, determined by a seed [2]; `shape` ends with the shape of alpha and beta together."""
    with name_scope(name, "stateless_random_gamma", [shape, seed, alpha, beta]):
        alpha = convert(alpha, dtype, name="alpha")
        beta = convert(1 if beta is None else beta, dtype, name="beta")
        alpha = alpha + get("ZerosLike")(beta)
        drawn = stateless_gamma_op(shape_tensor(shape), seed_tensor(seed), alpha)
        return get("Maximum")(np.finfo(alpha.dtype.as_numpy_dtype).tiny, drawn / beta)


@export("random.stateless_poisson")
@dispatched
def stateless_random_poisson(shape: Any, seed: Any, lam: Any, dtype: Any = dtypes.int32,
                             name: str | None = None) -> Tensor:
    """Poisson(lam) samples, determined by a seed [2]; `shape` ends with the shape of lam."""
    with name_scope(name, "stateless_random_poisson", [shape, seed, lam]):
        return stateless_poisson_op(shape_tensor(shape), seed_tensor(seed), lam, dtype=dtype)


@export("random.split", "random.experimental.stateless_split")
@dispatched
def stateless_split(seed: Any, num: int = 2, alg: str = "auto_select") -> Tensor:
    """New seeds from one.

    Args:
        seed: Two integers.
        num: How many seeds.
        alg: The generator: `"philox"`, `"threefry"` or `"auto_select"`.

    Returns:
        [num, 2] integers.

    >>> tf.random.split([1, 2], num=3).shape
    TensorShape([3, 2])
    """
    seed = convert(seed_tensor(seed))
    return stateless_random_uniform([num, 2], seed, minval=None, maxval=None, dtype=seed.dtype)


@export("random.fold_in", "random.experimental.stateless_fold_in")
@dispatched
def stateless_fold_in(seed: Any, data: Any, alg: str = "auto_select") -> Tensor:
    """A new seed from a seed and a number, such as that of a replica.

    Args:
        seed: Two integers.
        data: An integer.
        alg: The generator: `"philox"`, `"threefry"` or `"auto_select"`.

    Returns:
        Two integers.

    >>> tf.random.fold_in([1, 2], 7).shape
    TensorShape([2])
    """
    data = convert(data)
    first = stateless_random_uniform([], seed, minval=None, maxval=None, dtype=data.dtype)
    return get("Pack")([first, data])
