"""Drawing candidate classes for sampled losses: the distributions, and batches of distinct draws.

A distribution turns a stretch of Philox words into values, in order, in the way TensorFlow does, so that the same seeds
return the same candidates. Distinct values are found by drawing more and keeping first occurrences; how many draws that
took decides the expected counts.
"""
from __future__ import annotations

import math
import threading

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.kernels import philox
from penstock._src.kernels.distinct import first_places

_MOST_WORDS = 1 << 26


class Distribution:
    """A distribution over [0, range)."""

    words_per_draw = 2

    def __init__(self, size: int):
        self.range = size
        self.possible = size                   # how many of the values have a positive probability

    def draw(self, words: np.ndarray) -> np.ndarray:
        """The values that a stretch of 32-bit words (as uint64) returns."""
        raise NotImplementedError

    def probability(self, values: np.ndarray) -> np.ndarray:
        """The probability of each value, float32."""
        raise NotImplementedError

    def learn(self, values: np.ndarray) -> None:
        """Counts the true classes of a batch."""


def _even(numbers: np.ndarray, size: int, bits: int) -> np.ndarray:
    """Random words as values in [0, size), with rejection of words that would favour low values."""
    if size & (size - 1) == 0:
        return (numbers & np.uint64(size - 1)).astype(np.int64)
    rejected = ((1 << bits) - 1) % size + 1
    return (numbers[numbers >= np.uint64(rejected)] % np.uint64(size)).astype(np.int64)


def _doubles(words: np.ndarray) -> np.ndarray:
    bits = (words[0::2] & np.uint64(0xFFFFF)) << np.uint64(32) | words[1::2] | np.uint64(1023 << 52)
    return bits.view(np.float64) - 1.0


class Uniform(Distribution):
    """The uniform distribution."""

    def draw(self, words: np.ndarray) -> np.ndarray:
        return _even(words[0::2] | words[1::2] << np.uint64(32), self.range, 64)

    def probability(self, values: np.ndarray) -> np.ndarray:
        return np.full(values.shape, 1.0 / self.range, np.float32)


class LogUniform(Distribution):
    """P(k) = log((k + 2) / (k + 1)) / log(range + 1): Zipf's law for classes sorted by frequency."""

    def draw(self, words: np.ndarray) -> np.ndarray:
        values = np.exp(_doubles(words) * math.log1p(self.range)).astype(np.int64) - 1
        return values % self.range

    def probability(self, values: np.ndarray) -> np.ndarray:
        v = values.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            return (np.log((v + 2.0) / (v + 1.0)) / math.log1p(self.range)).astype(np.float32)


class Learned(Distribution):
    """Probabilities by observed counts; every class starts with a count of one."""

    words_per_draw = 1

    def __init__(self, size: int):
        super().__init__(size)
        if size >= 2**31 - 1:
            raise errors.invalid(f"range_max must be below 2**31 - 1, got {size}")
        self.lock = threading.Lock()
        self.counts = np.ones(size, np.int64)

    def draw(self, words: np.ndarray) -> np.ndarray:
        ends = np.cumsum(self.counts)
        return np.searchsorted(ends, _even(words, int(ends[-1]), 32), side="right")

    def probability(self, values: np.ndarray) -> np.ndarray:
        return (self.counts[values].astype(np.float32) / np.float32(self.counts.sum())).astype(np.float32)

    def learn(self, values: np.ndarray) -> None:
        room = max(0, 2**31 - 1 - int(self.counts.sum()))
        np.add.at(self.counts, values[:room], 1)


class Fixed(Distribution):
    """Fixed weights, sampled by Walker's alias method."""

    def __init__(self, weights: np.ndarray):
        super().__init__(len(weights))
        self.weights = weights.astype(np.float32)
        self.total = np.float32(sum(self.weights.tolist()))
        if not self.total > 0 or not np.isfinite(self.total) or (self.weights < 0).any():
            raise errors.invalid("the unigram weights must not be negative, and have a positive, finite sum")
        self.possible = int(np.count_nonzero(self.weights))
        self.keep, self.other = _alias_table(self.weights)

    def draw(self, words: np.ndarray) -> np.ndarray:
        rejected = 0 if self.range & (self.range - 1) == 0 else (2**32 - 1) % self.range + 1
        words = words[:len(words) // 2 * 2]
        while (bad := np.flatnonzero(words[1::2] < np.uint64(rejected))).size:
            words = np.delete(words, 2 * int(bad[0]) + 1)[:(len(words) - 1) // 2 * 2]
        r = philox.unit_float32(torch.from_numpy(words[0::2].astype(np.int64))).numpy()
        at = _even(words[1::2], self.range, 32)
        return np.where(r < self.keep[at], at, self.other[at])

    def probability(self, values: np.ndarray) -> np.ndarray:
        inside = (values >= 0) & (values < self.range)
        return np.where(inside, self.weights[np.where(inside, values, 0)] / self.total, 0).astype(np.float32)


def _alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each class: the probability that it keeps a draw, and the class that gets the draw otherwise (Walker's alias
    table)."""
    share = (weights * np.float32(len(weights))).astype(np.float64) / float(np.cumsum(weights, dtype=np.float64)[-1])
    p, other = share.tolist(), [-1] * len(weights)
    low, high = np.flatnonzero(share < 1).tolist(), np.flatnonzero(share >= 1).tolist()
    while low and high:
        poor, rich = low.pop(), high.pop()
        other[poor] = rich
        p[rich] -= 1.0 - p[poor]
        (low if p[rich] < 1 else high).append(rich)
    for i in (*low, *high):                                # left over by rounding
        p[i], other[i] = 1.0, i
    return np.array(p, np.float32), np.array(other, np.int64)


def sample(distribution: Distribution, source: philox.Stream, count: int, unique: bool) -> tuple[np.ndarray, int]:
    """`count` values, and the number of draws that it took to get them."""
    words = distribution.words_per_draw * count * (2 if unique else 1) + 8         # distinct values take more draws
    gen, drawn = source.reserve_words(512 * count, -(-min(words, _MOST_WORDS) // 4))
    while words <= _MOST_WORDS and (count <= distribution.possible or not unique):
        counters = -(-words // 4)
        if len(drawn) < 4 * counters:
            drawn = gen.words(counters).reshape(-1).numpy().view(np.uint64)
        values = distribution.draw(drawn[:4 * counters])
        if not unique:
            if len(values) >= count:
                return values[:count], count
        else:
            first = first_places(values)
            if len(first) >= count:
                return values[first[:count]], int(first[count - 1]) + 1 if count else 0
        words *= 2
    raise errors.ResourceExhaustedError(None, None, f"Could not draw {count} distinct values: too few of the "
                                                    f"{distribution.range} classes are likely enough.")


def expected_counts(distribution: Distribution, values: np.ndarray, count: int, tries: int) -> np.ndarray:
    """How often each value is expected in a batch of `count` that took `tries` draws, float32."""
    p = distribution.probability(values)
    if tries == count:
        return (p * np.float32(count)).astype(np.float32)
    with np.errstate(divide="ignore"):
        return (-np.expm1(tries * np.log1p(-p.astype(np.float64)))).astype(np.float32)
