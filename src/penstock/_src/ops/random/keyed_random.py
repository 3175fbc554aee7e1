"""Stateless random ops of version 2: they take a key and a counter, which StatelessRandomGetKeyCounter computes from a seed.

The numbers are those of the ops that take the seed itself (`stateless_random.py`).
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import rank_is
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import draws, philox
from penstock._src.ops.composite import dispatched
from penstock._src.ops.random.random import draw_gamma, gamma_gradient, sizes, swapped
from penstock._src.ops.random.stateful_random import AUTO_SELECT, PHILOX
from penstock._src.ops.random.stateless_random import _samples, integers_between, stream_of
from penstock._src.ops.registry import op

_KEYED = "key: uint64, counter: uint64, alg: int32"
_HOST = "alg shape"
_SEED = "Tseed: type in {index} = int64"

get_key_counter = op("StatelessRandomGetKeyCounter", "seed: Tseed -> key: uint64, counter: uint64", _SEED).no_gradient()
get_key_counter_alg = op("StatelessRandomGetKeyCounterAlg", "seed: Tseed -> key: uint64, counter: uint64, alg: int32",
                         _SEED).no_gradient()
get_alg = op("StatelessRandomGetAlg", "-> alg: int32", stateful=True).no_gradient()
get_key_counter.shape(lambda seed: [(1,), (2,)])
get_key_counter_alg.shape(lambda seed: [(1,), (2,), ()])
get_alg.shape(lambda: ())
get_alg.kernel(lambda: torch.tensor(PHILOX, dtype=torch.int32))


@get_key_counter.kernel
def _get_key_counter_kernel(seed):
    gen = stream_of(seed)
    if isinstance(gen, draws.OnDevice):
        key, high, low = gen.place
        return key.reshape(1).view(torch.uint64), torch.stack([low, high]).view(torch.uint64)
    words = np.array([gen.key, gen.counter & (1 << 64) - 1, gen.counter >> 64], np.uint64)
    return torch.from_numpy(words[:1]), torch.from_numpy(words[1:])


@get_key_counter_alg.kernel
def _get_key_counter_alg_kernel(seed):
    return *_get_key_counter_kernel(seed), torch.tensor(PHILOX, dtype=torch.int32)


def _stream(key: torch.Tensor, counter: torch.Tensor, alg: torch.Tensor, read: bool = False) -> Any:
    """The position of a key and a counter. The host does not wait for those on a GPU, unless it has to `read` them."""
    if tuple(key.shape) != (1,) or tuple(counter.shape) != (2,):
        raise errors.invalid(f"key must have shape [1] and counter shape [2], not {list(key.shape)} and {list(counter.shape)}")
    if alg.dim() or int(alg) not in (PHILOX, AUTO_SELECT):
        raise errors.invalid(f"Unsupported algorithm id: {alg.tolist()}")
    if not read and (not key.is_cpu or isinstance(key, torch._subclasses.FakeTensor)):
        lower, upper = counter.view(torch.int64).to(key.device).unbind()
        return draws.OnDevice(key.view(torch.int64)[0], upper, lower)
    low, high = (int(v) for v in counter.cpu().numpy())
    return philox.Philox(int(key.cpu().numpy()[0]), high << 64 | low)


def _shape(shape: Any, key: Any, counter: Any, alg: Any, *parameters: Any, c: Any) -> Any:
    rank_is(shape, 1), rank_is(key, 1), rank_is(counter, 1), rank_is(alg, 0)
    return c.dims("shape")


def _filler(name: str, draw: Any, types: str) -> None:
    made = op(name, f"shape: Tshape, {_KEYED} -> output: dtype", f"dtype: type in {types}, Tshape: type in {{index}} = int32",
              host=_HOST).no_gradient()
    made.shape(_shape)

    @made.kernel
    def _made_kernel(shape, key, counter, alg, *, dtype):
        dims, gen = sizes(shape), _stream(key, counter, alg)
        return draw(gen, math.prod(dims), dtype.torch, draws.device_of(gen, shape.device)).reshape(dims)


_filler("StatelessRandomUniformV2", philox.uniform, "{float} = float32")
_filler("StatelessRandomNormalV2", philox.normal, "{float} = float32")
_filler("StatelessTruncatedNormalV2", philox.truncated_normal, "{float} = float32")
_filler("StatelessRandomUniformFullIntV2", philox.full_int, "{int32 int64 uint32 uint64} = uint64")

uniform_int = op("StatelessRandomUniformIntV2", f"shape: Tshape, {_KEYED}, minval: dtype, maxval: dtype -> output: dtype",
                 "dtype: type in {index}, Tshape: type in {index} = int32", host=_HOST).no_gradient()
uniform_int.shape(_shape)


@uniform_int.kernel
def _uniform_int_kernel(shape, key, counter, alg, minval, maxval, *, dtype):
    return integers_between(shape, _stream(key, counter, alg), minval, maxval, dtype)


gamma = op("StatelessRandomGammaV3", f"shape: shape_dtype, {_KEYED}, alpha: dtype -> output: dtype",
           "dtype: type in {half float32 float64}, shape_dtype: type in {index} = int32", host=_HOST)
gamma.shape(_shape)


@gamma.kernel
def _gamma_kernel(shape, key, counter, alg, alpha):
    dims, gen = sizes(shape), _stream(key, counter, alg)
    if not math.prod(dims):
        return alpha.new_empty(dims)
    return draw_gamma(gen, alpha, _samples(dims, alpha)).reshape(dims)


@gamma.gradient
def _gamma_gradient(op, grad):
    return None, None, None, None, gamma_gradient(op.inputs[4], op.outputs[0], grad)


# -- order -------------------------------------------------------------------------------------------------------------
shuffle = op("StatelessShuffle", f"value: T, {_KEYED} -> output: T", "T: type", host=_HOST).no_gradient()
shuffle.shape(lambda value, key, counter, alg: value)


@shuffle.kernel
def _shuffle_kernel(value, key, counter, alg):
    gen = _stream(key, counter, alg, read=True)
    if not len(value.shape) or value.shape[0] < 2:
        return value
    order = torch.tensor(swapped(gen, value.shape[0]))
    return value[order.to(value.device)] if isinstance(value, torch.Tensor) else value[order.numpy()]


@export("random.experimental.stateless_shuffle")
@dispatched
def stateless_shuffle(value: Any, seed: Any, alg: Any = "auto_select", name: str | None = None) -> Tensor:
    """`value` with its first dimension in an order determined by the seed (two integers)."""
    with name_scope(name, "stateless_shuffle", [value, seed]) as scope:
        if alg not in ("auto_select", "philox", PHILOX, AUTO_SELECT):
            raise ValueError(f"Unsupported algorithm: {alg!r}; it is 'philox' or 'auto_select'")
        key, counter = get_key_counter(seed)
        return shuffle(value, key, counter, get_alg(), name=scope)
