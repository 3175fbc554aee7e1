"""The position of an index in a random permutation, without computing the whole permutation.

A block cipher is a permutation of the numbers of its block. The smallest block that holds `max_index` is applied until the
result is in range, which permutes the range itself. The cipher is Simon, with few rounds and words of any size.
"""
from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

import penstock as tf
from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import merge
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import op

_SMALLEST_BLOCK = 16
_CONSTANT, _SEQUENCE = 0xfffffffc, 0x7369f885192c0ef5      # of Simon's key schedule
_PADDING = 498247692                                       # the first of three words of a key that users give two of

index_shuffle_op = op("RandomIndexShuffle", "index: dtype, seed: Tseed, max_index: dtype -> output: dtype",
                      "rounds: int = 4, dtype: type in {int32 uint32 int64 uint64}, "
                      "Tseed: type in {int32 uint32 int64 uint64}", export_as="random_index_shuffle", gpu=False).no_gradient()


@index_shuffle_op.shape
def _index_shuffle_shape(index, seed, max_index):
    if index is None or seed is None or max_index is None:
        return None
    for dims, rank, name in ((index, 0, "index"), (seed, 1, "seed"), (max_index, 0, "max_index")):
        if len(dims) not in (rank, rank + 1):
            raise ValueError(f"{name} must have rank {rank} or {rank + 1}, not {len(dims)}")
    if seed[-1] not in (None, 3):
        raise ValueError(f"seed must have a last dimension of 3, not {seed[-1]}")
    out: tuple = ()
    for dims in (index, seed[:-1], max_index):
        out = merge(out, dims) if out and dims else out or dims
    return out


def _numbers(value: torch.Tensor) -> np.ndarray:
    """As unsigned 64-bit numbers; negative ones wrap around."""
    return value.cpu().numpy().astype(np.uint64)


_MOST_ROUNDS = 1024                    # the cipher needs tens; more would only take time


@index_shuffle_op.kernel
def _index_shuffle_kernel(index, seed, max_index, *, rounds, dtype):
    shape = _checked_shape(index, seed, max_index)
    if rounds % 2 or not 4 <= rounds <= _MOST_ROUNDS:
        raise errors.invalid(f"rounds must be even, at least 4 and at most {_MOST_ROUNDS}, got {rounds}")
    at, top = (np.array(np.broadcast_to(_numbers(t), shape)).reshape(-1) for t in (index, max_index))
    for name, value in (("index", index), ("max_index", max_index)):
        low = value.cpu().numpy()
        if (low < 0).any():
            raise errors.invalid(f"{name} must be >= 0 but was {low.min()}")
    if (at > top).any():
        bad = int(np.argmax(at > top))
        raise errors.invalid(f"max_index must be >= index, but {top[bad]} < {at[bad]}")
    key = np.broadcast_to(_numbers(seed) & np.uint64(0xffffffff), (*shape, 3)).reshape(-1, 3)
    found = _walked(at, key, top, rounds)
    return torch.from_numpy(found.reshape(shape).astype(index.cpu().numpy().dtype))


def _checked_shape(index: torch.Tensor, seed: torch.Tensor, max_index: torch.Tensor) -> tuple:
    sizes = {tuple(t.shape) for t in (index, max_index) if t.dim()} | ({tuple(seed.shape[:-1])} if seed.dim() > 1 else set())
    if seed.dim() not in (1, 2) or seed.shape[-1] != 3:
        raise errors.invalid(f"Seed must be a vector of size [3] or a matrix of size [n, 3] but got {list(seed.shape)}.")
    if max(index.dim(), max_index.dim()) > 1 or len(sizes) > 1:
        raise errors.invalid("index and max_index must be scalars or vectors of one size: shapes "
                             f"{list(index.shape)}, {list(max_index.shape)}, seed {list(seed.shape)}")
    return sizes.pop() if sizes else ()


def _walked(index: np.ndarray, key: np.ndarray, top: np.ndarray, rounds: int) -> np.ndarray:
    """Encrypts each index until it is in range."""
    bits = np.ceil(np.log2(np.maximum(top, 1).astype(np.float64))).astype(np.uint64)
    width = np.maximum(bits + bits % np.uint64(2), np.uint64(_SMALLEST_BLOCK)) // np.uint64(2)
    out = np.where(top > 0, index, 0).astype(np.uint64)
    left = np.flatnonzero(top)
    if len(left) and (key == key[0]).all() and (width == _SMALLEST_BLOCK // 2).all():
        table = _table(tuple(key[0].tolist()), rounds)       # small ranges take hundreds of turns
        def encrypted(at: np.ndarray) -> np.ndarray:
            return table[out[at]]
    else:
        keys = _round_keys(key, width, rounds)

        def encrypted(at: np.ndarray) -> np.ndarray:
            return _encrypted(out[at], keys[:, at], width[at])
    while len(left):
        out[left] = encrypted(left)
        left = left[out[left] > top[left]]
    return out


@functools.lru_cache(maxsize=64)
def _table(key: tuple[int, ...], rounds: int) -> np.ndarray:
    """All numbers of the smallest block, encrypted."""
    numbers = np.arange(1 << _SMALLEST_BLOCK, dtype=np.uint64)
    width = np.full(1, _SMALLEST_BLOCK // 2, np.uint64)
    return _encrypted(numbers, _round_keys(np.array([key], np.uint64), width, rounds), width)


def _mask(width: np.ndarray) -> np.ndarray:
    return (np.uint64(1) << width) - np.uint64(1)


def _rotated(x: np.ndarray, by: int, width: np.ndarray) -> np.ndarray:
    """Words of `width` bits, rotated to the left (to the right by a negative number)."""
    left = np.uint64(by) if by > 0 else width - np.uint64(-by)
    return (x << left | x >> width - left) & _mask(width)


def _round_keys(key: np.ndarray, width: np.ndarray, rounds: int) -> np.ndarray:
    mask, found = _mask(width), [k for k in (key.T & _mask(width))]
    for i in range(3, rounds):
        bit = np.uint64(_SEQUENCE) & mask
        bit = bit >> np.uint64(min(i - 3, 63)) & np.uint64(1)
        last = found[-1]
        found.append(np.uint64(_CONSTANT) & mask ^ bit ^ found[i - 3] ^ _rotated(last, -3, width) ^ _rotated(last, -4, width))
    return np.stack(found)


def _encrypted(value: np.ndarray, keys: np.ndarray, width: np.ndarray) -> np.ndarray:
    def mixed(x: np.ndarray) -> np.ndarray:
        return _rotated(x, 1, width) & _rotated(x, 8, width) ^ _rotated(x, 2, width)

    left, right = value >> width & _mask(width), value & _mask(width)
    for first, second in zip(keys[::2], keys[1::2], strict=True):
        left = left ^ mixed(right) ^ first
        right = right ^ mixed(left) ^ second
    return left << width | right


@export("random.experimental.index_shuffle")
@dispatched
def index_shuffle(index: Any, seed: Any, max_index: Any) -> Tensor:
    """The place of `index` in a permutation of 0 ... max_index determined by the seed (two integers).

    >>> tf.random.experimental.index_shuffle(tf.range(4), [5, 9], 3)

    Each argument may have a leading dimension; those that have none are repeated.
    """
    seed = convert(seed, name="seed")
    rank = seed.shape.rank
    before = [[1, 0]] if rank in (None, 1) else [[0, 0]] * (rank - 1) + [[1, 0]]
    return index_shuffle_op(index, tf.pad(seed, before, constant_values=_PADDING), max_index, rounds=4)
