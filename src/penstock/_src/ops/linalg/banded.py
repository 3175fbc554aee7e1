"""Triangular systems whose matrix has few diagonals.

The matrix is given by its diagonals, [..., K, M]. For a lower triangle the first row is the diagonal, and row b the one b
places below it, whose first b elements are not read; for an upper triangle the last row is the diagonal, and the first row the
one furthest above it, whose last elements are not read.
"""
from __future__ import annotations

from typing import Any

import torch

import penstock as tf
from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import broadcast, rank_at_least
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.linalg.matrices import equal_size
from penstock._src.ops.registry import get, op

solve_op = op("BandedTriangularSolve", "matrix: T, rhs: T -> output: T",
              "lower: bool = True, adjoint: bool = False, T: type in {float64 float32 half complex64 complex128}")
rules.batching.leading[solve_op] = (0, 1)


@solve_op.shape
def _solve_shape(matrix, rhs):
    matrix, rhs = rank_at_least(matrix, 2), rank_at_least(rhs, 2)
    if matrix is None or rhs is None:
        return None
    bands, size = matrix[-2:]
    if bands is not None and bands <= 0:
        raise ValueError(f"Number of bands must be positive, but is {bands}")
    if bands is not None and size is not None and bands > size:
        raise ValueError(f"Number of bands {bands} cannot exceed the size of the matrix {size}")
    return (*broadcast(matrix[:-2], rhs[:-2]), equal_size(size, rhs[-2]), rhs[-1])


@solve_op.kernel
def _solve_kernel(matrix, rhs, *, lower, adjoint):
    for i, t in enumerate((matrix, rhs)):
        if t.dim() < 2:
            raise errors.invalid(f"In[{i}] ndims must be >= 2: {t.dim()}")
        if not t.numel():
            raise errors.invalid(f"In[{i}] must not be an empty tensor: shape {list(t.shape)}")
    if matrix.shape[-1] != rhs.shape[-2]:
        raise errors.invalid(f"In[0] mismatch In[1] shape: {matrix.shape[-1]} vs. {rhs.shape[-2]}: {list(matrix.shape)} "
                             f"{list(rhs.shape)}")
    if matrix.shape[-2] > matrix.shape[-1]:
        raise errors.invalid(f"Number of bands {matrix.shape[-2]} cannot exceed the size of the matrix {matrix.shape[-1]}")
    try:
        batch = torch.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    except RuntimeError:
        raise errors.invalid(f"In[0] and In[1] must have compatible batch dimensions: {list(matrix.shape)} vs. "
                             f"{list(rhs.shape)}") from None
    rows = list(matrix.unbind(-2) if lower else matrix.flip(-2).unbind(-2))      # the diagonal first
    if bool((rows[0] == 0).any()):
        raise errors.invalid("Input matrix is not invertible.")
    if adjoint:            # the element b places off the diagonal is stored where the transposed matrix has another row
        rows = [torch.roll(row, -b if lower else b, -1).conj() for b, row in enumerate(rows)]
    rhs = rhs.expand(*batch, *rhs.shape[-2:])
    if lower != adjoint:
        return _forward(rows, rhs)
    return _forward([row.flip(-1) for row in rows], rhs.flip(-2)).flip(-2)


def _forward(rows: list[torch.Tensor], rhs: torch.Tensor) -> torch.Tensor:
    """Substitution, row after row for the whole batch: each row needs those before it."""
    below = torch.stack(rows[1:], -1) if len(rows) > 1 else None              # [..., M, K - 1], the nearest first
    found: list[torch.Tensor] = []
    for i in range(rhs.shape[-2]):
        left = rhs[..., i, :]
        near = min(i, len(rows) - 1)
        if below is not None and near:
            known = torch.stack(found[:-near - 1:-1], -2)
            left = left - (below[..., i, :near].unsqueeze(-2) @ known).squeeze(-2)
        found.append(left / rows[0][..., i].unsqueeze(-1))
    return torch.stack(found, -2).resolve_conj()


@solve_op.gradient
def _solve_gradient(op, grad):
    matrix, rhs = op.inputs
    lower, adjoint, bands = op.attrs["lower"], op.attrs["adjoint"], tf.shape(op.inputs[0])[-2]
    grad_rhs = solve_op(matrix, grad, lower=lower, adjoint=not adjoint)
    left, right = (op.outputs[0], grad_rhs) if adjoint else (grad_rhs, op.outputs[0])
    dense = -tf.linalg.matmul(left, right, adjoint_b=True)
    k = (1 - bands, 0) if lower else (0, bands - 1)
    of_matrix = tf.linalg.diag_part(dense, k=k, align="LEFT_RIGHT")
    return _summed(of_matrix, matrix, rhs, 0), _summed(grad_rhs, matrix, rhs, 1)


def _summed(grad: Tensor, matrix: Tensor, rhs: Tensor, which: int) -> Tensor:
    """A gradient without the batch dimensions that its input was repeated along."""
    shapes = [tf.shape(matrix), tf.shape(rhs)]
    axes = get("BroadcastGradientArgs")(shapes[0][:-2], shapes[1][:-2])[which]
    return tf.reshape(tf.reduce_sum(grad, axis=axes), shapes[which])


@export("linalg.banded_triangular_solve")
@dispatched
def banded_triangular_solve(bands: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Solves triangular systems whose matrix has K diagonals: `bands` is [..., K, M], `rhs` [..., M, N].

    >>> tf.linalg.banded_triangular_solve([[2., 4.], [0., 1.]], [[2.], [9.]])      # [[2, 0], [1, 4]]
    """
    with name_scope(name, "banded_triangular_solve", [bands, rhs]) as scope:
        return solve_op(bands, rhs, lower=lower, adjoint=adjoint, name=scope)
