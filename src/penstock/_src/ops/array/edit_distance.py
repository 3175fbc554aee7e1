"""The Levenshtein distance of sequences kept in sparse tensors."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import rank_is
from penstock._src.graph.node import Tensor
from penstock._src.kernels import arrays
from penstock._src.ops.array.array import is_sparse
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import op

edit_distance_op = op("EditDistance", "hypothesis_indices: int64, hypothesis_values: T, hypothesis_shape: int64, "
                                      "truth_indices: int64, truth_values: T, truth_shape: int64 -> output: float32",
                      "normalize: bool = True, T: type").no_gradient()


@edit_distance_op.shape
def _edit_distance_shape(hypothesis_indices, hypothesis_values, hypothesis_shape, truth_indices, truth_values, truth_shape, *,
                         c):
    for d in (hypothesis_indices, truth_indices):
        rank_is(d, 2)
    (n,), (m,) = rank_is(hypothesis_shape, 1), rank_is(truth_shape, 1)
    for name, size in (("hypothesis", n), ("truth", m)):
        if size is not None and size < 2:
            raise ValueError(f"Input {name.capitalize()} SparseTensors must have rank at least 2, but {name}_shape rank is: "
                             f"{size}")
    if None not in (n, m) and n != m:
        raise ValueError(f"Dimensions must be equal, but are {n} and {m}: the ranks of hypothesis and truth")
    a, b = c.const("hypothesis_shape"), c.const("truth_shape")
    if a is not None and b is not None:
        return tuple(int(d) for d in np.maximum(a, b)[:-1])
    rank = n if n is not None else m
    return None if rank is None else (None,) * (rank - 1)


@edit_distance_op.kernel
def _edit_distance_kernel(hypothesis_indices, hypothesis_values, hypothesis_shape, truth_indices, truth_values, truth_shape,
                          *, normalize):
    shapes = arrays.ints(hypothesis_shape), arrays.ints(truth_shape)
    rank = len(shapes[0])
    for name, shape in zip(("hypothesis", "truth"), shapes, strict=True):
        if len(shape) < 2:
            raise errors.invalid(f"Input SparseTensors must have rank at least 2, but {name}_shape rank is: {len(shape)}")
    if rank != len(shapes[1]):
        raise errors.invalid(f"truth_shape and hypothesis_shape must have one length, but have {len(shapes[1])} and "
                             f"{rank}")
    _check("hypothesis", hypothesis_indices, hypothesis_values, shapes[0])
    _check("truth", truth_indices, truth_values, shapes[1])
    dims = [max(pair) for pair in zip(*shapes, strict=True)][:-1]
    arrays.checked_dims(torch.tensor(dims, dtype=torch.int64))
    mine, theirs = _codes(hypothesis_values, truth_values)
    (a, a_len), (b, b_len) = _sequences(hypothesis_indices, dims), _sequences(truth_indices, dims)
    distance = (a_len + b_len).float()                       # of sequences one of which is empty
    both = torch.nonzero((a_len > 0) & (b_len > 0)).squeeze(1)
    distance[both] = levenshtein(_padded(a, mine, both, a_len[both]), a_len[both],
                                 _padded(b, theirs, both, b_len[both]), b_len[both]).float()
    if normalize:
        exact = torch.where(distance == 0, 0.0, math.inf)
        distance = torch.where(b_len > 0, distance / b_len.clamp(min=1), exact)
    return distance.reshape(dims)


def _check(name: str, indices: torch.Tensor, values: Any, shape: list[int]) -> None:
    if indices.dim() != 2 or indices.shape[1] != len(shape) or indices.shape[0] != arrays.dims_of(values)[0]:
        raise errors.invalid(f"{name}_indices should be a matrix with {len(shape)} columns and one row per value, but "
                             f"has shape {arrays.show(indices.shape)}")
    if any(d < 0 for d in shape):
        raise errors.invalid(f"{name}_shape has a negative size: {shape}")
    which = indices[:, :-1]                     # of which sequence; the last column only tells that there is one more element
    limit = torch.tensor(shape[:-1], dtype=torch.int64, device=indices.device)
    if which.numel() and bool(((which < 0) | (which >= limit)).any()):
        raise errors.invalid(f"{name}_indices are outside of {name}_shape {arrays.show(shape)}")


def _codes(a: Any, b: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Both vectors of values as integers that are equal where the values are."""
    n = arrays.dims_of(a)[0]
    both = arrays.cat([a, b], 0)
    if isinstance(both, torch.Tensor):
        codes = torch.unique(arrays.signed(both), return_inverse=True)[1] if both.numel() else \
            torch.zeros(0, dtype=torch.int64, device=both.device)
    else:
        codes = torch.from_numpy(np.unique(both, return_inverse=True)[1].reshape(-1).astype(np.int64))
    return codes[:n], codes[n:]


def _sequences(indices: torch.Tensor, dims: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Which sequence each value belongs to, and the lengths of all sequences."""
    steps = torch.tensor([math.prod(dims[i + 1:]) for i in range(len(dims))], dtype=torch.int64, device=indices.device)
    sequence = (indices[:, :-1] * steps).sum(1)
    return sequence, torch.bincount(sequence, minlength=math.prod(dims))


def _padded(sequence: torch.Tensor, codes: torch.Tensor, chosen: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """The chosen sequences (sorted) as rows of a matrix, padded with -1."""
    inside = torch.isin(sequence, chosen)
    row = torch.searchsorted(chosen, sequence[inside])
    order = torch.argsort(row, stable=True)
    row, codes = row[order], codes[inside][order]
    place = torch.arange(row.numel(), device=row.device) - (length.cumsum(0) - length)[row]
    out = torch.full((chosen.numel(), int(length.max()) if chosen.numel() else 0), -1, dtype=torch.int64, device=row.device)
    out[row, place] = codes
    return out


def levenshtein(a: torch.Tensor, a_len: torch.Tensor, b: torch.Tensor, b_len: torch.Tensor) -> torch.Tensor:
    """The distance between rows of two padded matrices; one step per column of `a`, all rows and `b` at once."""
    place = torch.arange(b.shape[1] + 1, device=b.device)
    row = place.expand(b.shape[0], -1)
    for i in range(a.shape[1]):
        change = row[:, :-1] + (b != a[:, i:i + 1])
        best = torch.minimum(row[:, 1:] + 1, change)
        best = torch.cat([row[:, :1] + 1, best], 1)
        # an insertion costs 1 per place: the least of best[k] + (j - k) over k <= j
        new = torch.cummin(best - place, 1).values + place
        row = torch.where((i < a_len).unsqueeze(1), new, row)
    return row.gather(1, b_len.unsqueeze(1)).squeeze(1)


@export("edit_distance")
@dispatched
def edit_distance(hypothesis: Any, truth: Any, normalize: bool = True, name: str | None = "edit_distance") -> Tensor:
    """The number of insertions, deletions and substitutions from `hypothesis` to `truth`, per sequence (last axis).

    With `normalize`, divided by the length of the truth.

    Args:
        hypothesis: SparseTensor of symbols.
        truth: SparseTensor of the same type and rank.
        normalize: Whether to divide by the length of `truth`.
        name: Name of the operation.

    Returns:
        A tensor of rank one less, with the distance of each pair of sequences.

    >>> hypothesis = tf.SparseTensor([[0, 0], [0, 1]], ["a", "b"], [1, 2])
    >>> truth = tf.SparseTensor([[0, 0], [0, 1]], ["a", "c"], [1, 2])
    >>> tf.edit_distance(hypothesis, truth).numpy()
    array([0.5], dtype=float32)
    """
    if not is_sparse(hypothesis):
        raise TypeError("Hypothesis must be a SparseTensor.")
    if not is_sparse(truth):
        raise TypeError("Truth must be a SparseTensor.")
    return edit_distance_op(hypothesis.indices, hypothesis.values, hypothesis.dense_shape, truth.indices, truth.values,
                            truth.dense_shape, normalize=normalize, name=name)
