"""Ops for k-means: the first centers, and the nearest center of each point.

Random choices come from the words of a Philox stream, in sequence, so a seed reproduces TensorFlow's choices.
"""
from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.static_shape import rank_is
from penstock._src.kernels import philox
from penstock._src.ops.registry import op

_TRIES = 10_000                        # draws of a point that is not taken yet, before the next free one is taken

kmeans_plus_plus = op("KmeansPlusPlusInitialization", "points: float32, num_to_sample: int64, seed: int64, "
                      "num_retries_per_sample: int64 -> samples: float32").no_gradient()
chain = op("KMC2ChainInitialization", "distances: float32, seed: int64 -> index: int64").no_gradient()
nearest = op("NearestNeighbors", "points: float32, centers: float32, k: int64 -> nearest_center_indices: int64, "
             "nearest_center_distances: float32").no_gradient()


@kmeans_plus_plus.shape
def _kmeans_plus_plus_shape(points, num_to_sample, seed, num_retries_per_sample, *, c):
    for d in (num_to_sample, seed, num_retries_per_sample):
        rank_is(d, 0)
    count = c.const("num_to_sample")
    return (None if count is None or count < 0 else int(count), rank_is(points, 2)[1])


@chain.shape
def _chain_shape(distances, seed):
    rank_is(distances, 1)
    rank_is(seed, 0)
    return ()


@nearest.shape
def _nearest_shape(points, centers, k):
    rank_is(centers, 2)
    rank_is(k, 0)
    return [(rank_is(points, 2)[0], None)] * 2


def _scalar(x: torch.Tensor, name: str) -> int:
    if x.ndim:
        raise errors.invalid(f"Input {name} should be a scalar.")
    return int(x)


def _matrix(x: torch.Tensor, name: str) -> torch.Tensor:
    if x.ndim != 2:
        raise errors.invalid(f"Input {name} should be a matrix.")
    return x


def _words(seed: int) -> Iterator[int]:
    """An infinite iterator over the words of a stream."""
    here = philox.Philox.seeded(seed, 0)
    while True:
        yield from here.words(256).reshape(-1).tolist()
        here = here.skip(256)


def _unit(word: int) -> float:
    return float(philox.unit_float32(torch.tensor([word]))[0])


def _below(words: Iterator[int], size: int) -> int:
    """A uniform random number in [0, size)."""
    rejected = 0 if size & (size - 1) == 0 else ((1 << 64) - 1) % size + 1
    while True:
        drawn = next(words) | next(words) << 32
        if drawn >= rejected:
            return drawn % size


@kmeans_plus_plus.kernel(device="cpu")
def _kmeans_plus_plus_kernel(points, num_to_sample, seed, num_retries_per_sample):
    _matrix(points, "points")
    count, total = _scalar(num_to_sample, "num_to_sample"), points.shape[0]
    retries, words = _scalar(num_retries_per_sample, "num_retries_per_sample"), _words(_scalar(seed, "seed"))
    if not total:
        raise errors.invalid("Expected points.rows() > 0.")
    if not 0 < count <= total:
        raise errors.invalid("Expected num_to_sample > 0." if count <= 0 else
                             f"Expected num_to_sample <= points.rows(). {count} vs {total}.")
    if retries > 1000:
        raise errors.invalid(f"num_retries_per_sample must be at most 1000, got {retries}")
    retries = 2 + int(math.log(count)) if retries < 0 else retries
    half_norms = points.square().sum(1) * 0.5
    closest = torch.full((total,), float("inf"))
    taken: list[int] = []
    for _ in range(count):
        sums = np.cumsum(closest.numpy(), dtype=np.float32) if taken else None
        best: tuple = (math.inf, 0, closest)
        for _ in range(1 + retries):
            place = _draw(words, sums, taken, total)
            distances = torch.minimum(closest, half_norms - points @ points[place] + half_norms[place])
            potential = float(distances.sum())
            if potential < best[0] or not retries:
                best = potential, place, distances
        taken.append(best[1])
        closest = best[2]
    return points[torch.tensor(taken)]


def _draw(words: Iterator[int], sums: np.ndarray | None, taken: list[int], total: int) -> int:
    """A point that is not taken yet, by the distance to those that are."""
    if sums is None:
        return _below(words, total)
    for _ in range(_TRIES):
        place = int(np.searchsorted(sums, np.float32(_unit(next(words))) * sums[-1], side="right"))
        if place not in taken:
            return min(place, total - 1)
    return next(i for i in range(total) if i not in taken)


@chain.kernel(device="cpu")
def _chain_kernel(distances, seed):
    if distances.ndim != 1 or not distances.numel():
        raise errors.invalid("Input distances should be a vector." if distances.ndim != 1 else
                             "Expected distances_tensor.size() > 0.")
    here = philox.Philox.seeded(_scalar(seed, "seed"), 0)
    draws = philox.unit_float32(here.words(-(-distances.numel() // 4)).reshape(-1)).tolist()
    at, values = 0, distances.tolist()
    for i, value in enumerate(values[1:], 1):              # each step of the chain depends on the one before
        if value > np.float32(draws[i - 1]) * np.float32(values[at]):
            at = i
    return torch.tensor(at)


@nearest.kernel
def _nearest_kernel(points, centers, k):
    _matrix(points, "points")
    _matrix(centers, "centers")
    if not points.shape[0]:
        raise errors.invalid("Expected points.rows() > 0.")
    if points.shape[1] != centers.shape[1]:
        raise errors.invalid(f"Expected point_dimensions == center_dimensions: {points.shape[1]} vs {centers.shape[1]}.")
    count = min(_scalar(k, "k"), centers.shape[0])
    if count < 0:
        raise errors.invalid(f"Expected k >= 0, got {count}.")
    half = centers.square().sum(1) * 0.5 - points @ centers.t()
    near, index = torch.sort(half, dim=1, stable=True)
    norms = points.square().sum(1, keepdim=True) * 0.5
    return index[:, :count], 2.0 * (norms + near[:, :count])
