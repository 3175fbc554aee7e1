"""Random numbers whose state is a variable (tf.random.Generator, in state/random_generator.py, owns one).

The state is an int64 vector: the low and the high half of a Philox counter, and the key. Every op draws from it and advances
the counter by 256 per output, so that saving the variable saves the generator.
"""
from __future__ import annotations

import math
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base.static_shape import rank_is
from penstock._src.kernels import draws, philox
from penstock._src.ops.random.random import generator as torch_generator
from penstock._src.ops.random.random import int_range, sizes
from penstock._src.ops.registry import op
from penstock._src.ops.state.state import variable_of

PHILOX = 1
AUTO_SELECT = 3
_MASK = (1 << 64) - 1
_SIGN = -1 << 63
_HOST = "algorithm shape"            # inputs that the host reads


# -- kernels ----------------------------------------------------------------------------------------------------------
def advance(resource: Any, algorithm: torch.Tensor | None, count: int, read: bool = False) -> tuple[Any, torch.Tensor]:
    """Reserves the numbers of `count` outputs: returns the position in the stream, and a copy of the previous state.

    The host does not wait for a state on a GPU, unless it has to `read` it. Old ops have no algorithm as an argument: the state
    begins with it.
    """
    first = [] if algorithm is not None else [PHILOX]
    if algorithm is not None and (algorithm.dim() or int(algorithm) not in (PHILOX, AUTO_SELECT)):
        raise errors.invalid(f"Unsupported algorithm id: {algorithm.tolist()}")
    if count < 0:
        raise errors.invalid(f"The counter cannot go back: {count}")
    with variable_of(resource).lock:
        state = resource.read().clone()                          # a state that nothing refers to is replaced in place
        size = 3 + len(first)
        if state.dtype is not torch.int64 or tuple(state.shape) != (size,):
            raise errors.invalid(f"The state of a Philox generator is an int64 vector of {size}, got {state.dtype} of "
                                 f"shape {list(state.shape)}")
        if not read and (not state.is_cpu or isinstance(state, torch._subclasses.FakeTensor)):
            return _advance_on_device(resource, state, count), state
        if state[:len(first)].tolist() != first:
            raise errors.invalid(f"Unsupported algorithm id: {int(state[0])}")
        low, high, key = (v & _MASK for v in state[-3:].tolist())
        here = philox.Philox(key, low | high << 64)
        after = here.skip(count * philox.RESERVED).counter
        halves = [h - (1 << 64) if h >= 1 << 63 else h for h in (after & _MASK, after >> 64)]
        resource.assign(torch.tensor([*first, *halves, state[-1].item()], dtype=torch.int64, device=state.device))
    return here, state


def _advance_on_device(resource: Any, state: torch.Tensor, count: int) -> draws.OnDevice:
    """The same by arithmetic on the device of the state."""
    low, high, key = state[-3:].unbind()
    after = low + count * philox.RESERVED                        # wraps; then its unsigned value is below the one before
    carry = (after ^ _SIGN) < (low ^ _SIGN)
    resource.assign(torch.cat([state[:-3], torch.stack([after, high + carry, key])]))
    return draws.OnDevice(key, high, low)


def _shape(resource: Any, algorithm: Any, shape: Any, *bounds: Any, c: Any) -> Any:
    rank_is(resource, 0), rank_is(algorithm, 0), rank_is(shape, 1)
    for bound in bounds:
        rank_is(bound, 0)
    return c.dims("shape")


def _filler(name: str, draw: Any, default: str = "float32") -> Any:
    made = op(name, "resource: resource, algorithm: int64, shape: shape_dtype -> output: dtype",
              f"dtype: type = {default}, shape_dtype: type = int64", stateful=True, host=_HOST).no_gradient()
    made.shape(_shape)

    @made.kernel
    def _made_kernel(resource, algorithm, shape, *, dtype):
        if dtype.torch is None:
            raise errors.UnimplementedError(None, None, f"{name} has no values of type {dtype.name}")
        dims = sizes(shape)
        count = math.prod(dims)
        gen, _ = advance(resource, algorithm, count)
        return draw(gen, count, dtype.torch, draws.device_of(gen, shape.device)).reshape(dims)
    return made


stateful_uniform = _filler("StatefulUniform", philox.uniform)
stateful_standard_normal = _filler("StatefulStandardNormalV2", philox.normal)
old_standard_normal = op("StatefulStandardNormal", "resource: resource, shape: shape_dtype -> output: dtype",
                         "dtype: type = float32, shape_dtype: type = int64", stateful=True, host=_HOST).no_gradient()


@old_standard_normal.shape
def _old_standard_normal_shape(resource, shape, *, c):
    rank_is(resource, 0), rank_is(shape, 1)
    return c.dims("shape")


@old_standard_normal.kernel
def _old_standard_normal_kernel(resource, shape, *, dtype):
    return stateful_standard_normal.kernels["any"].fn(resource, None, shape, dtype=dtype)


stateful_truncated_normal = _filler("StatefulTruncatedNormal", philox.truncated_normal)
stateful_uniform_full_int = _filler("StatefulUniformFullInt", philox.full_int, "uint64")

stateful_uniform_int = op(
    "StatefulUniformInt",
    "resource: resource, algorithm: int64, shape: shape_dtype, minval: dtype, maxval: dtype -> output: dtype",
    "dtype: type = int64, shape_dtype: type = int64", stateful=True, host=f"{_HOST} minval maxval").no_gradient()
stateful_uniform_int.shape(_shape)


@stateful_uniform_int.kernel
def _stateful_uniform_int_kernel(resource, algorithm, shape, minval, maxval, *, dtype):
    dims, (low, high) = sizes(shape), int_range(minval, maxval)
    count = math.prod(dims)
    if count and low >= high:
        raise errors.invalid(f"Need minval < maxval, got {low} >= {high}")
    gen, _ = advance(resource, algorithm, count)
    device = draws.device_of(gen, shape.device)
    if not count:
        return torch.empty(dims, dtype=dtype.torch, device=device)
    return philox.uniform_int(gen, count, dtype.torch, device, low, high).reshape(dims)


rng_skip = op("RngSkip", "resource: resource, algorithm: int64, delta: int64 ->", stateful=True,
              host="algorithm delta").no_gradient()
rng_skip.kernel(lambda resource, algorithm, delta: advance(resource, algorithm, int(delta)) and None)

rng_read_and_skip = op("RngReadAndSkip", "resource: resource, alg: int32, delta: uint64 -> value: int64", stateful=True,
                       host="alg delta").no_gradient()
rng_read_and_skip.shape(lambda resource, alg, delta: (3,))
rng_read_and_skip.kernel(lambda resource, alg, delta: advance(resource, alg, int(delta))[1])

non_deterministic_ints = op("NonDeterministicInts", "shape: shape_dtype -> output: dtype",
                            "dtype: type = int64, shape_dtype: type = int64", stateful=True).no_gradient()


@non_deterministic_ints.shape
def _non_deterministic_ints_shape(shape, *, c):
    rank_is(shape, 1)
    return c.dims("shape")


@non_deterministic_ints.kernel
def _non_deterministic_ints_kernel(shape, *, dtype):
    wide = torch.empty(sizes(shape), dtype=torch.int64).random_(-1 << 63, None, generator=torch_generator("cpu"))
    return wide.to(dtype.torch)
