"""Shared by ops on matrices: the innermost two dimensions in shape rules, checks in kernels, products in gradients."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import errors, tracing
from penstock._src.base.static_shape import rank_at_least
from penstock._src.graph.node import Tensor
from penstock._src.ops.array.array import matrix_transpose
from penstock._src.ops.registry import get

TYPES = "T: type in {float64 float32 half complex64 complex128}"
REAL = "T: type in {half float32 float64}"


# -- what shape rules share -------------------------------------------------------------------------------------------
def equal_size(a: int | None, b: int | None) -> int | None:
    """The size that two dimensions have in common; ValueError if they differ."""
    if a is not None and b is not None and a != b:
        raise ValueError(f"Dimensions must be equal, but are {a} and {b}")
    return b if a is None else a


def matrix_dims(dims: Any) -> tuple[Any, int | None, int | None]:
    """Batch dims, rows and columns of a matrix shape."""
    rank_at_least(dims, 2)
    return (None, None, None) if dims is None else (dims[:-2], dims[-2], dims[-1])


def square_dims(dims: Any) -> tuple[Any, int | None]:
    """Batch dims and size of a square matrix shape."""
    batch, rows, cols = matrix_dims(dims)
    return batch, equal_size(rows, cols)


def with_batch(batch: Any, *sizes: int | None) -> Any:
    """The shape of batches of arrays of these sizes."""
    return None if batch is None else (*batch, *sizes)


def square_shape(input: Any) -> Any:
    """Shape rule of ops that map a square matrix to one of the same size."""
    batch, n = square_dims(input)
    return with_batch(batch, n, n)


def smaller(m: int | None, n: int | None) -> int | None:
    """The smaller of two sizes; None if it is unknown."""
    if m == 0 or n == 0:
        return 0
    return None if m is None or n is None else min(m, n)


# -- what kernels share -----------------------------------------------------------------------------------------------
def in_float32(kernel: Callable) -> Callable:
    """The kernel computed in float32 for half inputs, with outputs as half again."""
    @functools.wraps(kernel)
    def wrapped(*args: torch.Tensor, **attrs: Any) -> Any:
        if args[0].dtype is not torch.float16:
            return kernel(*args, **attrs)
        out = kernel(*(a.float() if a.dtype is torch.float16 else a for a in args), **attrs)
        if isinstance(out, tuple):
            return tuple(o.half() if o.dtype is torch.float32 else o for o in out)
        return out.half()
    return wrapped


def check_matrix(x: torch.Tensor, square: bool = True) -> None:
    """InvalidArgumentError unless `x` is a (batch of) matrices."""
    if x.dim() < 2:
        raise errors.invalid(f"Input tensor must have rank >= 2, got shape {list(x.shape)}")
    if square and x.shape[-1] != x.shape[-2]:
        raise errors.invalid(f"Input matrix must be square, got shape {list(x.shape)}")


def check_info(info: torch.Tensor, message: str) -> None:
    """InvalidArgumentError with `message` if LAPACK reported a failure for any matrix."""
    if info.numel() and not tracing.holds((info == 0).all()):
        raise errors.invalid(message)


# -- what gradients share ---------------------------------------------------------------------------------------------
def matmul(a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    """Product of (batches of) matrices; batch dimensions broadcast."""
    return get("BatchMatMulV2")(a, b, adj_x=adjoint_a, adj_y=adjoint_b)


def adjoint_of(x: Any) -> Tensor:
    """The conjugate transposes of matrices."""
    return matrix_transpose(x, conjugate=True)


def lower_part(x: Tensor) -> Tensor:
    """The lower triangles, with the diagonals; zeros above."""
    return get("MatrixBandPart")(x, -1, 0)


def diag_part(x: Tensor) -> Tensor:
    """The diagonals."""
    return get("MatrixDiagPart")(x)


def with_diag(x: Tensor, diagonal: Tensor) -> Tensor:
    """Matrices with other diagonals."""
    return get("MatrixSetDiag")(x, diagonal)


def half_diagonal(x: Tensor) -> Tensor:
    """Matrices with their diagonals halved."""
    return with_diag(x, diag_part(x) * 0.5)


def as_matrix(x: Tensor) -> Tensor:
    """[...] as [..., 1, 1]."""
    expand = get("ExpandDims")
    return expand(expand(x, -1), -1)


def sum_to(grad: Tensor, x: Tensor) -> Tensor:
    """A gradient summed over the batch dimensions along which `x` was broadcast."""
    if grad.static_dims is not None and grad.static_dims == x.static_dims and None not in grad.static_dims:
        return grad
    shape = get("Shape")
    wanted = shape(x)
    axes, _ = get("BroadcastGradientArgs")(wanted, shape(grad))
    return get("Reshape")(get("Sum")(grad, axes), wanted)
