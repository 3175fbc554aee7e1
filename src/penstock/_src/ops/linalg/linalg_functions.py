"""Linear algebra composed of other ops: norms, ranks, pseudo-inverses, logarithms of determinants."""
from __future__ import annotations

from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.arguments import renamed
from penstock._src.ops.composite import dispatched
from penstock._src.ops.linalg.decompositions import svd

_AXIS = "'axis' must be None, an integer, or a tuple of 2 unique integers"
_MATRIX_NORMS = ["euclidean", "fro", 1, 2, np.inf]


def _checked_axis(ord: Any, axis: Any) -> tuple[int, ...] | None:
    """The axes of a norm, after checking that `ord` is defined on them; None for all of them as a vector."""
    if isinstance(axis, (tuple, list)) and len(axis) == 2:
        axis = tuple(axis)
        if not all(isinstance(a, (int, np.integer)) for a in axis) or axis[0] == axis[1]:
            raise ValueError(_AXIS)
        if ord not in _MATRIX_NORMS:
            raise ValueError(f"'ord' must be a supported matrix norm in {_MATRIX_NORMS}, got {ord}")
        return axis
    if not (axis is None or isinstance(axis, (int, np.integer))):
        raise ValueError(_AXIS)
    if isinstance(ord, str) and ord != "euclidean" or not isinstance(ord, str) and not (np.isreal(ord) and ord > 0):
        raise ValueError(f"'ord' must be a supported vector norm, got {ord}")
    return None if axis is None else (int(axis),)


def _spectral(tensor: Tensor, axis: tuple[int, int], keepdims: bool) -> Tensor:
    """The largest singular value of the matrices in two axes."""
    rank = tensor.shape.rank
    if rank is None:
        rank = tf.rank(tensor)
        last = tf.math.floormod(tf.constant(axis), rank)
        others, _ = tf.raw_ops.ListDiff(x=tf.range(rank), y=last)
        order = tf.concat([others, last], 0)
    else:
        last = [a % rank for a in axis]
        order = [i for i in range(rank) if i not in last] + last
    values = svd(tf.transpose(tensor, order), compute_uv=False)
    largest = tf.reduce_max(values, axis=-1)
    if not keepdims:
        return largest
    ones = tf.reduce_sum(tf.one_hot(last, rank, dtype=dtypes.int32), 0)
    return tf.reshape(largest, tf.where(ones > 0, tf.ones_like(ones), tf.shape(tensor)))


def _norm(tensor: Any, ord: Any, axis: Any, keepdims: bool, name: str | None) -> Tensor:
    axis = _checked_axis(ord, axis)
    matrix = axis is not None and len(axis) == 2
    with name_scope(name, "norm", [tensor]):
        tensor = convert(tensor)
        if ord in ("fro", "euclidean") or ord == 2 and not matrix:
            return tf.sqrt(tf.reduce_sum(tensor * tf.math.conj(tensor), axis, keepdims=keepdims))
        if ord == 2:
            return _spectral(tensor, axis, keepdims)
        size = tf.abs(tensor)
        if matrix:                      # the largest sum over columns (1) or rows (inf)
            summed, largest = axis if ord == 1 else axis[::-1]
            result = tf.reduce_max(tf.reduce_sum(size, summed, keepdims=True), largest, keepdims=True)
            return result if keepdims else tf.squeeze(result, axis)
        if ord == 1:
            return tf.reduce_sum(size, axis, keepdims=keepdims)
        if ord == np.inf:
            return tf.reduce_max(size, axis, keepdims=keepdims)
        return tf.pow(tf.reduce_sum(tf.pow(size, ord), axis, keepdims=keepdims), 1.0 / ord)


@export(v2=["norm", "linalg.norm"])
@dispatched
def norm_v2(tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: bool | None = None,
            name: str | None = None) -> Tensor:
    """The norm of vectors (an integer `axis`, or all elements) or of matrices (a pair of axes).

    Orders are "euclidean", "fro", 1, 2, inf, and for vectors any positive number.

    Args:
        tensor: Tensor of floating point or complex numbers.
        ord: `"euclidean"`, `"fro"`, 1, 2, another positive number, or `np.inf`.
        axis: One axis for norms of vectors, two for those of matrices; by default all elements are one vector.
        keepdims: Whether the reduced axes stay, with size 1.
        name: Name of the operation.

    Returns:
        The norms.

    Raises:
        ValueError: for an order that such norms do not have.

    >>> float(tf.norm([3., 4.]))
    5.0
    """
    return _norm(tensor, ord, axis, bool(keepdims), name)


@export(v1=["norm", "linalg.norm"])
@dispatched
def norm(tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: bool | None = None, name: str | None = None,
         keep_dims: bool | None = None) -> Tensor:
    """Like v2's `norm`; `keep_dims` is an older name of `keepdims`.

    Args:
        tensor: Tensor.
        ord: `"euclidean"`, `"fro"`, 1, 2, `np.inf`, or another positive number.
        axis: An axis for norms of vectors, two for those of matrices; all elements by default.
        keepdims: Whether the result keeps the reduced dimensions, of size 1.
        name: Name of the operation.
        keep_dims: Old name of `keepdims`.

    Returns:
        A tensor.

    >>> tf.norm([3., 4.]).numpy()
    np.float32(5.0)
    >>> tf.norm([[3., 4.], [6., 8.]], axis=1).numpy()
    array([ 5., 10.], dtype=float32)
    """
    return _norm(tensor, ord, axis, bool(renamed("keepdims", keepdims, "keep_dims", keep_dims)), name)


@export("linalg.logdet")
@dispatched
def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """The logarithm of the determinant of self-adjoint positive definite matrices, from their Cholesky factors.

    Args:
        matrix: Self-adjoint positive definite matrices [..., n, n].
        name: Name of the operation.

    Returns:
        Tensor without the two last dimensions.

    >>> tf.linalg.logdet([[1., 0.], [0., 1.]]).numpy().item()
    0.0
    """
    with name_scope(name, "logdet", [matrix]):
        diagonal = tf.linalg.diag_part(tf.linalg.cholesky(matrix))
        return 2.0 * tf.reduce_sum(tf.math.log(tf.math.real(diagonal)), axis=-1)


@export("linalg.adjoint")
@dispatched
def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """The conjugate transpose of the last two dimensions.

    Args:
        matrix: Matrices [..., m, n].
        name: Name of the operation.

    Returns:
        Matrices [..., n, m].

    >>> tf.linalg.adjoint([[1, 2], [3, 4]]).numpy().tolist()
    [[1, 3], [2, 4]]
    """
    with name_scope(name, "adjoint", [matrix]):
        return tf.linalg.matrix_transpose(convert(matrix, name="matrix"), conjugate=True)


def _float_matrix(a: Tensor, validate_args: bool) -> Tensor:
    """`a`, checked to be a real matrix; at run time if its rank is unknown and `validate_args`."""
    if not a.dtype.is_floating:
        raise TypeError(f"Input `a` must have `float`-like `dtype` (saw {a.dtype.name}).")
    if a.shape.rank is not None:
        if a.shape.rank < 2:
            raise ValueError(f"Input `a` must have at least 2 dimensions (saw: {a.shape.rank}).")
    elif validate_args:
        check = tf.debugging.assert_rank_at_least(a, 2, message="Input `a` must have at least 2 dimensions.")
        with tf.control_dependencies([check]):
            a = tf.identity(a)
    return a


def _longest_side(a: Tensor) -> Any:
    if a.shape.rank is not None and None not in a.shape[-2:].as_list():
        return float(max(a.shape[-2:].as_list()))
    return tf.cast(tf.reduce_max(tf.shape(a)[-2:]), a.dtype)


@export("linalg.matrix_rank")
@dispatched
def matrix_rank(a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """How many singular values of a matrix are above `tol` (default: eps * longest side * largest value).

    Args:
        a: Matrices [..., m, n].
        tol: Smallest singular value that counts.
        validate_args: Whether to check that `a` has at least two dimensions.
        name: Name of the operation.

    Returns:
        Integers [...].

    >>> tf.linalg.matrix_rank([[1., 2.], [2., 4.]]).numpy().item()
    1
    """
    with name_scope(name, "matrix_rank", [a, tol]):
        a = _float_matrix(convert(a, name="a", preferred_dtype=dtypes.float32), validate_args)
        s = svd(a, compute_uv=False)
        if tol is None:
            tol = np.finfo(a.dtype.as_numpy_dtype).eps * _longest_side(a) * tf.reduce_max(s, axis=-1, keepdims=True)
        return tf.reduce_sum(tf.cast(s > tol, dtypes.int32), axis=-1)


@export("linalg.pinv")
@dispatched
def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The Moore-Penrose inverse: singular values below `rcond` times the largest count as zero.

    Args:
        a: Matrices [..., m, n].
        rcond: Share of the largest singular value below which others are zero.
        validate_args: Whether to check the arguments.
        name: Name of the operation.

    Returns:
        Matrices [..., n, m].

    >>> tf.linalg.pinv([[2., 0.], [0., 4.]]).numpy().round(4).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    with name_scope(name, "pinv", [a, rcond]):
        a = _float_matrix(convert(a, name="a"), validate_args)
        if rcond is None:
            rcond = 10.0 * np.finfo(a.dtype.as_numpy_dtype).eps * _longest_side(a)
        rcond = convert(rcond, a.dtype, name="rcond")
        s, u, v = svd(a)
        cutoff = tf.expand_dims(rcond * tf.reduce_max(s, axis=-1), -1)
        s = tf.where(s > cutoff, s, tf.constant(np.inf, a.dtype))          # 1 / inf is 0, also in gradients
        inverse = tf.matmul(v / tf.expand_dims(s, -2), u, adjoint_b=True)
        if a.shape.rank is not None:
            inverse.set_shape(a.shape[:-2].concatenate([a.shape[-1], a.shape[-2]]))
        return inverse


# -- with LU factors --------------------------------------------------------------------------------------------------
def _checked_factors(lower_upper: Any, perm: Any) -> tuple[Tensor, Tensor]:
    """LU factors and their permutation as tensors whose shapes fit."""
    lower_upper = convert(lower_upper, name="lower_upper", preferred_dtype=dtypes.float32)
    perm = convert(perm, name="perm", preferred_dtype=dtypes.int32)
    rank, perm_rank = lower_upper.shape.rank, perm.shape.rank
    if rank is not None:
        if rank < 2:
            raise ValueError("Input `lower_upper` must have at least 2 dimensions.")
        if perm_rank is not None and rank != perm_rank + 1:
            raise ValueError("`rank(lower_upper)` must equal `rank(perm) + 1`")
        rows, columns = lower_upper.shape.as_list()[-2:]
        if rows is not None and columns is not None and rows != columns:
            raise ValueError("`lower_upper` must be square.")
    return lower_upper, perm


def _unit_lower(lower_upper: Tensor) -> Tensor:
    lower = tf.linalg.band_part(lower_upper, -1, 0)
    return tf.linalg.set_diag(lower, tf.ones(tf.shape(lower_upper)[:-1], lower_upper.dtype))


def _rows(perm: Tensor, dtype: Any) -> Any:
    return tf.linalg.LinearOperatorPermutation(perm, dtype=dtype)


@export("linalg.lu_solve")
@dispatched
def lu_solve(lower_upper: Any, perm: Any, rhs: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Solves `A X = rhs` where `lower_upper, perm = tf.linalg.lu(A)`.

    >>> x = tf.linalg.lu_solve(*tf.linalg.lu(a), rhs=b)
    """
    with name_scope(name, "lu_solve", [lower_upper, perm, rhs]):
        lower_upper, perm = _checked_factors(lower_upper, perm)
        rhs = convert(rhs, name="rhs", preferred_dtype=lower_upper.dtype)
        if rhs.shape.rank is not None and rhs.shape.rank < 2:
            raise ValueError("Input `rhs` must have at least 2 dimensions.")
        forward = tf.linalg.triangular_solve(_unit_lower(lower_upper), _rows(perm, rhs.dtype).matmul(rhs))
        return tf.linalg.triangular_solve(lower_upper, forward, lower=False)


@export("linalg.lu_reconstruct")
@dispatched
def lu_reconstruct(lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The matrix of which `lower_upper` and `perm` are the LU factors."""
    with name_scope(name, "lu_reconstruct", [lower_upper, perm]):
        lower_upper, perm = _checked_factors(lower_upper, perm)
        product = tf.matmul(_unit_lower(lower_upper), tf.linalg.band_part(lower_upper, 0, -1))
        matrix = _rows(perm, product.dtype).solve(product)
        matrix.set_shape(lower_upper.shape)
        return matrix


@export("linalg.lu_matrix_inverse")
@dispatched
def lu_matrix_inverse(lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The inverse of the matrix of which `lower_upper` and `perm` are the LU factors."""
    with name_scope(name, "lu_matrix_inverse", [lower_upper, perm]):
        lower_upper, perm = _checked_factors(lower_upper, perm)
        return lu_solve(lower_upper, perm, tf.eye(tf.shape(lower_upper)[-1], dtype=lower_upper.dtype))
