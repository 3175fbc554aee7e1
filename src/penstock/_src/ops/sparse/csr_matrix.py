"""Sparse matrices as values (dtype variant): one matrix, or a batch of them, stored row by row.

At run time a matrix is a `CSRMatrix`: the places and values of its elements in row-major order. Row pointers are computed on
request. The dense shape is not a part of the static type of a variant; `matrix_dims` finds it through the ops that created a
matrix.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

import penstock as tf
from penstock._src.base import errors
from penstock._src.base.static_shape import merge, rank_is
from penstock._src.graph.constant import constant_dims
from penstock._src.graph.node import Tensor
from penstock._src.kernels import sparse
from penstock._src.ops.registry import internal, op
from penstock._src.ops.sparse.sparse_math import product

_TYPES = "type in {float32 float64 complex64 complex128}"
_INT32_MAX = 2 ** 31 - 1


class CSRMatrix:
    """The run-time value. `rows` counts through the batch (b * R + r) and is sorted, as `cols` is within a row."""

    __slots__ = ("shape", "rows", "cols", "values")

    def __init__(self, shape: tuple[int, ...], rows: torch.Tensor, cols: torch.Tensor, values: torch.Tensor):
        self.shape, self.rows, self.cols, self.values = shape, rows, cols, values

    batch = property(lambda self: self.shape[0] if len(self.shape) == 3 else 1)

    def map(self, fn: Callable) -> CSRMatrix:
        """The matrix with other values at the same places."""
        return CSRMatrix(self.shape, self.rows, self.cols, fn(self.values))

    def zeros_like(self) -> CSRMatrix:
        """Zeros at the same places."""
        return self.map(torch.zeros_like)

    def add(self, other: CSRMatrix) -> CSRMatrix:
        """The sum."""
        _same_shape(self, other)
        return from_places(self.shape, torch.cat([self.rows, other.rows]), torch.cat([self.cols, other.cols]),
                           torch.cat([self.values, other.values]))

    def places(self) -> torch.Tensor:
        """One number per element, in the order in which they are stored."""
        return self.rows * self.shape[-1] + self.cols

    def indices(self) -> torch.Tensor:
        """The places of the elements, a row per element."""
        height = self.shape[-2]
        lead = [self.rows // height, self.rows % height] if len(self.shape) == 3 else [self.rows]
        return torch.stack([*lead, self.cols], 1)

    def transposed(self, conjugate: bool = False) -> CSRMatrix:
        """The transpose of each matrix."""
        height, width = self.shape[-2:]
        rows = torch.div(self.rows, max(height, 1), rounding_mode="floor") * width + self.cols
        cols = self.rows % max(height, 1)
        order = torch.argsort(rows * height + cols)
        values = self.values.conj().resolve_conj() if conjugate else self.values
        return CSRMatrix((*self.shape[:-2], width, height), rows[order], cols[order], values[order])


def from_places(shape: tuple[int, ...], rows: torch.Tensor, cols: torch.Tensor, values: torch.Tensor) -> CSRMatrix:
    """A matrix of elements in any order; those at the same place are added."""
    keys, group = torch.unique(rows * shape[-1] + cols, return_inverse=True)
    total = values.new_zeros(len(keys)).index_add_(0, group, values)
    return CSRMatrix(shape, torch.div(keys, max(shape[-1], 1), rounding_mode="floor"), keys % max(shape[-1], 1), total)


def _matrix(value: Any, dtype: Any = None) -> CSRMatrix:
    value = value.item() if hasattr(value, "item") and getattr(value, "size", None) == 1 else value
    if not isinstance(value, CSRMatrix):
        raise errors.invalid("Variant is not a CSRSparseMatrix.")
    if dtype is not None and value.values.dtype != dtype.torch:
        raise errors.invalid(f"dtype of input is not equal to 'type': {value.values.dtype} vs. {dtype.name}")
    return value


def _same_shape(a: CSRMatrix, b: CSRMatrix) -> None:
    if a.shape != b.shape:
        raise errors.invalid(f"a and b must have the same shape: {list(a.shape)} vs. {list(b.shape)}")


def _checked_shape(dense_shape: torch.Tensor) -> tuple[int, ...]:
    if dense_shape.dim() != 1:
        raise errors.invalid(f"dense_shape must be rank 1, got shape {list(dense_shape.shape)}")
    shape = tuple(dense_shape.tolist())
    if len(shape) not in (2, 3):
        raise errors.invalid(f"SparseTensor must have rank 2 or 3; but got rank: {len(shape)}")
    if min(shape) < 0:
        raise errors.invalid(f"dense_shape must not be negative: {list(shape)}")
    if len(shape) == 3 and shape[0] >= _INT32_MAX:
        raise errors.invalid(f"batch_size must be < Int32Max, but the dense shape has batch_size {shape[0]}")
    if math.prod(shape[:-2]) * (shape[-2] + 1) > _INT32_MAX:
        raise errors.invalid(f"csr row index size ({math.prod(shape[:-2])} * {shape[-2] + 1}) must be <= Int32Max")
    if math.prod(shape) >= 2 ** 63:
        raise errors.invalid(f"A matrix of shape {list(shape)} has too many elements")
    return shape


def _checked_indices(indices: torch.Tensor, shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows that count through the batch, and columns."""
    if indices.dim() != 2:
        raise errors.invalid(f"indices must be rank 2, got shape {list(indices.shape)}")
    if indices.shape[1] != len(shape):
        raise errors.invalid(f"Index rank {indices.shape[1]} and shape rank {len(shape)} do not match")
    sparse.check_bounds(indices, shape)
    rows = indices[:, -2]
    return (rows + indices[:, 0] * shape[-2] if len(shape) == 3 else rows), indices[:, -1]


# -- static shapes -----------------------------------------------------------------------------------------------------
_DIMS: dict[str, Callable] = {}       # by the op that made a matrix: its dense shape


def matrix_dims(t: Tensor) -> tuple | None:
    """The dense shape of a matrix as far as it is known when the graph is built."""
    op_of = getattr(t, "op", None) if not tf.executing_eagerly() else None
    rule = _DIMS.get(op_of.type) if op_of is not None else None
    return None if rule is None else rule(op_of)


def _swapped(dims: tuple | None, swap: bool) -> tuple | None:
    return dims if dims is None or not swap else (*dims[:-2], dims[-1], dims[-2])


def _product_dims(a: tuple | None, b: tuple | None, swap_a: bool, swap_b: bool) -> tuple | None:
    a, b = _swapped(a, swap_a), _swapped(b, swap_b)
    if a is None or b is None:
        return None
    if len(a) != len(b) or None not in (a[-1], b[-2]) and a[-1] != b[-2]:
        raise ValueError(f"Shapes of the factors do not match: {a} and {b}")
    return (*merge(a[:-2], b[:-2]), a[-2], b[-1])


for _name in ("Conj", "Identity", "ZerosLike", "StopGradient", "SparseMatrixMul", "SparseMatrixAdd", "SparseMatrixSoftmax",
              "SparseMatrixSparseCholesky", "_SparseMatrixPruned"):
    _DIMS[_name] = lambda op: matrix_dims(op.inputs[0])
_DIMS["DenseToCSRSparseMatrix"] = lambda op: op.inputs[0].static_dims
_DIMS["SparseTensorToCSRSparseMatrix"] = lambda op: constant_dims(op.inputs[2])
_DIMS["SparseMatrixTranspose"] = lambda op: _swapped(matrix_dims(op.inputs[0]), True)
_DIMS["SparseMatrixSparseMatMul"] = lambda op: _product_dims(
    matrix_dims(op.inputs[0]), matrix_dims(op.inputs[1]), op.attrs["transpose_a"] or op.attrs["adjoint_a"],
    op.attrs["transpose_b"] or op.attrs["adjoint_b"])

# -- conversions -------------------------------------------------------------------------------------------------------
from_dense = op("DenseToCSRSparseMatrix", "dense_input: T, indices: int64 -> sparse_output: variant", f"T: {_TYPES}")
from_sparse = op("SparseTensorToCSRSparseMatrix", "indices: int64, values: T, dense_shape: int64 -> sparse_matrix: variant",
                 f"T: {_TYPES}")
to_dense = op("CSRSparseMatrixToDense", "sparse_input: variant -> dense_output: type", f"type: {_TYPES}")
to_sparse = op("CSRSparseMatrixToSparseTensor", "sparse_matrix: variant -> indices: int64, values: type, dense_shape: int64",
               f"type: {_TYPES}")
components = op("CSRSparseMatrixComponents", "csr_sparse_matrix: variant, index: int32 -> row_ptrs: int32, col_inds: int32, "
                "values: type", f"type: {_TYPES}")
nnz = op("SparseMatrixNNZ", "sparse_matrix: variant -> nnz: int32").no_gradient()


@from_dense.shape
def _from_dense_shape(dense_input, indices):
    if dense_input is not None and len(dense_input) not in (2, 3):
        raise ValueError(f"Matrices have rank 2 or 3, not {len(dense_input)}")
    rank_is(indices, 2)
    return ()


@from_dense.kernel
def _from_dense_kernel(dense_input, indices):
    shape = tuple(dense_input.shape)
    if len(shape) not in (2, 3):
        raise errors.invalid(f"Matrices have rank 2 or 3, not {len(shape)}")
    rows, cols = _checked_indices(indices, shape)
    return from_places(shape, rows, cols, dense_input.reshape(-1)[rows * shape[-1] + cols])


@from_dense.gradient
def _from_dense_gradient(op, grad):
    return to_dense(grad, type=op.attrs["T"]), None


@from_sparse.shape
def _from_sparse_shape(indices, values, dense_shape):
    for dims, rank, what in ((indices, 2, "indices"), (values, 1, "values"), (dense_shape, 1, "dense_shape")):
        if dims is not None and len(dims) != rank:
            raise ValueError(f"{what} must be rank {rank} but is rank {len(dims)}")
    if indices and dense_shape and None not in (indices[1], dense_shape[0]) and indices[1] != dense_shape[0]:
        raise ValueError(f"Index rank {indices[1]} and shape rank {dense_shape[0]} do not match")
    return ()


@from_sparse.kernel
def _from_sparse_kernel(indices, values, dense_shape):
    shape = _checked_shape(dense_shape)
    rows, cols = _checked_indices(indices, shape)
    if tuple(values.shape) != (len(indices),):
        raise errors.invalid(f"values must have one element per index: shapes {list(values.shape)}, {list(indices.shape)}")
    return from_places(shape, rows, cols, values)


@from_sparse.gradient
def _from_sparse_gradient(op, grad):
    return None, tf.gather_nd(to_dense(grad, type=op.attrs["T"]), op.inputs[0]), None


to_dense.shape(lambda sparse_input, *, c: matrix_dims(c.op.inputs[0]))


@to_dense.kernel
def _to_dense_kernel(sparse_input, *, type):
    m = _matrix(sparse_input, type)
    dense = m.values.new_zeros(math.prod(m.shape))
    dense[m.places()] = m.values
    return dense.reshape(m.shape)


@to_dense.gradient
def _to_dense_gradient(op, grad):
    return from_dense(grad, to_sparse(op.inputs[0], type=grad.dtype)[0])


@to_sparse.shape
def _to_sparse_shape(sparse_matrix, *, c):
    dims = matrix_dims(c.op.inputs[0])
    rank = None if dims is None else len(dims)
    return [(None, rank), (None,), (rank,)]


@to_sparse.kernel
def _to_sparse_kernel(sparse_matrix, *, type):
    m = _matrix(sparse_matrix, type)
    return m.indices(), m.values, torch.tensor(m.shape)


@to_sparse.gradient
def _to_sparse_gradient(op, indices_grad, grad, shape_grad):
    return from_sparse(op.outputs[0], grad, op.outputs[2])


components.shape(lambda csr_sparse_matrix, index: [(None,), (None,), (None,)])


@components.kernel
def _components_kernel(csr_sparse_matrix, index, *, type):
    m, at = _matrix(csr_sparse_matrix, type), index.item() if index.dim() == 0 else None
    if at is None or not 0 <= at < m.batch:
        raise errors.invalid(f"index must be a scalar in [0, {m.batch}), got {index.tolist()}")
    first = at * m.shape[-2]
    bounds = torch.searchsorted(m.rows, torch.arange(first, first + m.shape[-2] + 1))
    inside = slice(int(bounds[0]), int(bounds[-1]))
    return (bounds - bounds[0]).to(torch.int32), m.cols[inside].to(torch.int32), m.values[inside]


@nnz.shape
def _nnz_shape(sparse_matrix, *, c):
    dims = matrix_dims(c.op.inputs[0])
    return None if dims is None else dims[:-2]


@nnz.kernel
def _nnz_kernel(sparse_matrix):
    m = _matrix(sparse_matrix)
    per_batch = torch.bincount(torch.div(m.rows, max(m.shape[-2], 1), rounding_mode="floor"), minlength=m.batch)
    return per_batch.to(torch.int32).reshape(m.shape[:-2])


# -- transposition, pruning ----------------------------------------------------------------------------------------
transpose = op("SparseMatrixTranspose", "input: variant -> output: variant", f"conjugate: bool = False, type: {_TYPES}")
transpose.shape(lambda input: ())
transpose.kernel(lambda input, *, conjugate, type: _matrix(input, type).transposed(conjugate))


@transpose.gradient
def _transpose_gradient(op, grad):
    return transpose(grad, conjugate=op.attrs["conjugate"], type=op.attrs["type"])


pruned = internal("_SparseMatrixPruned", "input: variant, pattern: variant -> output: variant").no_gradient()
pruned.shape(lambda input, pattern: ())


@pruned.kernel
def _pruned_kernel(input, pattern):
    """The elements of `input` at the places of `pattern`; zero where it has none."""
    m, p = _matrix(input), _matrix(pattern)
    _same_shape(m, p)
    own, wanted = m.places(), p.places()
    at = torch.searchsorted(own, wanted).clamp_(max=max(len(own) - 1, 0))
    if not len(own):
        return p.zeros_like()
    return p.map(lambda _: torch.where(own[at] == wanted, m.values[at], m.values.new_zeros(())))


# -- products ------------------------------------------------------------------------------------------------------
_FLAGS = "transpose_a: bool = False, transpose_b: bool = False, adjoint_a: bool = False, adjoint_b: bool = False"
mat_mul = op("SparseMatrixMatMul", "a: variant, b: T -> output: T",
             f"T: type, {_FLAGS}, transpose_output: bool = False, conjugate_output: bool = False")
sparse_mat_mul = op("SparseMatrixSparseMatMul", "a: variant, b: variant -> c: variant", f"type: {_TYPES}, {_FLAGS}")


def _turned(m: CSRMatrix, transposed: bool, adjoint: bool, which: str) -> CSRMatrix:
    if transposed and adjoint:
        raise errors.invalid(f"Only one of adjoint_{which} and transpose_{which} may be true.")
    return m.transposed(adjoint) if transposed or adjoint else m


@mat_mul.shape
def _mat_mul_shape(a, b, *, c, transpose_a, transpose_b, adjoint_a, adjoint_b, transpose_output):
    if b is not None and len(b) not in (2, 3):
        raise ValueError(f"b must have rank 2 or 3, not {len(b)}")
    out = _product_dims(matrix_dims(c.op.inputs[0]), b, transpose_a or adjoint_a, transpose_b or adjoint_b)
    return _swapped(out, transpose_output)


@mat_mul.kernel
def _mat_mul_kernel(a, b, *, transpose_a, transpose_b, adjoint_a, adjoint_b, transpose_output, conjugate_output):
    if transpose_b and adjoint_b:
        raise errors.invalid("Only one of adjoint_b and transpose_b may be true.")
    m = _turned(_matrix(a), transpose_a, adjoint_a, "a")
    if m.values.dtype != b.dtype:
        raise errors.invalid(f"dtypes of a and b must match: {m.values.dtype} and {b.dtype}")
    b = b.mH if adjoint_b else b.mT if transpose_b else b
    if b.dim() != len(m.shape) or b.shape[:-2] != m.shape[:-2] or b.shape[-2] != m.shape[-1]:
        raise errors.invalid(f"Shapes of the factors do not match: {list(m.shape)} and {list(b.shape)}")
    height, width = m.shape[-2:]
    columns = torch.div(m.rows, max(height, 1), rounding_mode="floor") * width + m.cols     # of one matrix with all blocks
    out = product(m.rows, columns, m.values, m.batch * height, b.reshape(-1, b.shape[-1])).reshape(*m.shape[:-1], b.shape[-1])
    out = out.mT if transpose_output else out
    return (out.conj() if conjugate_output else out).resolve_conj()


def _values_at(a: Tensor, left: Tensor, right: Tensor, turned: bool, conjugate: bool, dtype: Any) -> Tensor:
    """The matrix `left right^T` at the places of `a` only (`turned`: of a's transpose)."""
    indices, _, shape = to_sparse(a, type=dtype)
    rows, cols = (indices[:, -1:], indices[:, -2:-1]) if turned else (indices[:, -2:-1], indices[:, -1:])
    lead = indices[:, :-2]
    values = tf.reduce_sum(tf.gather_nd(left, tf.concat([lead, rows], 1)) * tf.gather_nd(right, tf.concat([lead, cols], 1)), -1)
    return from_sparse(indices, tf.math.conj(values) if conjugate else values, shape)


@mat_mul.gradient
def _mat_mul_gradient(op, grad):
    """For C = A' B' (A', B': transposed as the flags say): A' has grad B'^H at its places, B' has A'^H grad."""
    (a, b), flag = op.inputs, op.attrs
    grad = tf.math.conj(grad) if flag["conjugate_output"] else grad
    grad = tf.linalg.matrix_transpose(grad) if flag["transpose_output"] else grad
    right = tf.linalg.adjoint(b) if flag["adjoint_b"] else tf.linalg.matrix_transpose(b) if flag["transpose_b"] else b
    grad_a = _values_at(a, grad, tf.math.conj(right), flag["transpose_a"] or flag["adjoint_a"], flag["adjoint_a"], b.dtype)
    left = tf.math.conj(a) if flag["transpose_a"] else a
    grad_b = mat_mul(left, grad, adjoint_a=not (flag["transpose_a"] or flag["adjoint_a"]),
                     transpose_output=flag["transpose_b"] or flag["adjoint_b"], conjugate_output=flag["adjoint_b"])
    return grad_a, grad_b


@sparse_mat_mul.shape
def _sparse_mat_mul_shape(a, b, *, c):
    _DIMS["SparseMatrixSparseMatMul"](c.op)
    return ()


@sparse_mat_mul.kernel
def _sparse_mat_mul_kernel(a, b, *, type, transpose_a, transpose_b, adjoint_a, adjoint_b):
    left = _turned(_matrix(a, type), transpose_a, adjoint_a, "a")
    right = _turned(_matrix(b, type), transpose_b, adjoint_b, "b")
    if left.shape[:-2] != right.shape[:-2] or left.shape[-1] != right.shape[-2]:
        raise errors.invalid(f"Shapes of the factors do not match: {list(left.shape)} and {list(right.shape)}")
    inner = torch.div(left.rows, max(left.shape[-2], 1), rounding_mode="floor") * left.shape[-1] + left.cols
    begin, end = torch.searchsorted(right.rows, inner), torch.searchsorted(right.rows, inner, right=True)
    counts = end - begin                                # elements of the right row that each left element meets
    which = torch.repeat_interleave(torch.arange(len(counts)), counts)
    at = torch.arange(len(which)) - (torch.cumsum(counts, 0) - counts)[which] + begin[which]
    return from_places((*left.shape[:-1], right.shape[-1]), left.rows[which], right.cols[at],
                       left.values[which] * right.values[at])


@sparse_mat_mul.gradient
def _sparse_mat_mul_gradient(op, grad):
    (a, b), flag, kind = op.inputs, op.attrs, op.attrs["type"]

    def turned(m: Tensor, which: str) -> Tensor:
        if not (flag[f"transpose_{which}"] or flag[f"adjoint_{which}"]):
            return m
        return transpose(m, conjugate=flag[f"adjoint_{which}"], type=kind)

    grad_a = turned(sparse_mat_mul(grad, turned(b, "b"), adjoint_b=True, type=kind), "a")
    grad_b = turned(sparse_mat_mul(turned(a, "a"), grad, adjoint_a=True, type=kind), "b")
    return pruned(grad_a, a), pruned(grad_b, b)


# -- arithmetic by element ---------------------------------------------------------------------------------------------
zeros = op("SparseMatrixZeros", "dense_shape: int64 -> sparse_matrix: variant", f"type: {_TYPES}").no_gradient()
scaled_add = op("SparseMatrixAdd", "a: variant, b: variant, alpha: T, beta: T -> c: variant", f"T: {_TYPES}")
scale = op("SparseMatrixMul", "a: variant, b: T -> output: variant", "T: type")
softmax = op("SparseMatrixSoftmax", "logits: variant -> softmax: variant", "type: type in {float32 float64}")
softmax_grad = op("SparseMatrixSoftmaxGrad", "softmax: variant, grad_softmax: variant -> gradient: variant",
                  "type: type in {float32 float64}").no_gradient()
_DIMS["SparseMatrixZeros"] = lambda op: constant_dims(op.inputs[0])
zeros.shape(lambda dense_shape: ())
scaled_add.shape(lambda a, b, alpha, beta: ())
scale.shape(lambda a, b: ())
softmax.shape(lambda logits: ())
softmax_grad.shape(lambda softmax, grad_softmax: ())


@zeros.kernel
def _zeros_kernel(dense_shape, *, type):
    empty = torch.empty(0, dtype=torch.int64)
    return CSRMatrix(_checked_shape(dense_shape), empty, empty, torch.empty(0, dtype=type.torch))


@scaled_add.kernel
def _scaled_add_kernel(a, b, alpha, beta):
    if alpha.dim() or beta.dim():
        raise errors.invalid("alpha and beta must be scalars")
    return _matrix(a).map(lambda v: v * alpha).add(_matrix(b).map(lambda v: v * beta))


@scaled_add.gradient
def _scaled_add_gradient(op, grad):
    a, b, alpha, beta = op.inputs
    return scale(pruned(grad, a), tf.math.conj(alpha)), scale(pruned(grad, b), tf.math.conj(beta)), None, None


@scale.kernel
def _scale_kernel(a, b):
    m = _matrix(a)
    if b.dim() and (b.dim() != 3 or len(m.shape) != 3 or tuple(b.shape) != (m.batch, 1, 1)):
        raise errors.invalid(f"b must be a scalar, or have shape [{m.batch}, 1, 1], got {list(b.shape)}")
    by = b.reshape(-1)[torch.div(m.rows, max(m.shape[-2], 1), rounding_mode="floor")] if b.dim() else b
    return m.map(lambda v: v * by)


def _row_sums(m: CSRMatrix, values: torch.Tensor) -> torch.Tensor:
    """For each element, the sum of the values in its row."""
    return values.new_zeros(m.batch * m.shape[-2]).index_add_(0, m.rows, values)[m.rows]


@softmax.kernel
def _softmax_kernel(logits, *, type):
    m = _matrix(logits, type)
    top = m.values.new_full((m.batch * m.shape[-2],), -math.inf).scatter_reduce_(0, m.rows, m.values, "amax")[m.rows]
    weights = torch.exp(m.values - top)
    return m.map(lambda _: weights / _row_sums(m, weights))


@softmax_grad.kernel
def _softmax_grad_kernel(softmax, grad_softmax, *, type):
    m, grad = _matrix(softmax, type), _pruned_kernel(grad_softmax, softmax)
    return m.map(lambda v: v * (grad.values - _row_sums(m, v * grad.values)))


@softmax.gradient
def _softmax_gradient(op, grad):
    return softmax_grad(op.outputs[0], grad, type=op.attrs["type"])


# -- factors -----------------------------------------------------------------------------------------------------------
ordering = op("SparseMatrixOrderingAMD", "input: variant -> output: int32").no_gradient()
cholesky = op("SparseMatrixSparseCholesky", "input: variant, permutation: int32 -> output: variant", f"type: {_TYPES}")


@ordering.shape
def _ordering_shape(input, *, c):
    dims = matrix_dims(c.op.inputs[0])
    return None if dims is None else dims[:-1]


def _square(value: Any, dtype: Any = None) -> CSRMatrix:
    m = _matrix(value, dtype)
    if m.shape[-2] != m.shape[-1]:
        raise errors.invalid(f"sparse matrices must be square; got: {m.shape[-2]} != {m.shape[-1]}")
    return m


@ordering.kernel
def _ordering_kernel(input):
    m = _square(input)
    size = m.shape[-1]
    edges: list[list[set[int]]] = [[set() for _ in range(size)] for _ in range(m.batch)]
    for row, col in zip(m.rows.tolist(), m.cols.tolist(), strict=True):
        matrix, row = divmod(row, size)
        if row != col:
            edges[matrix][row].add(col)
            edges[matrix][col].add(row)
    return torch.tensor([_minimum_degree(of) for of in edges], dtype=torch.int32).reshape(m.shape[:-1])


def _minimum_degree(edges: list[set[int]]) -> list[int]:
    """Minimum-degree ordering: repeatedly eliminates a node with the fewest neighbours, and connects those, for little
    fill-in."""
    left, found = set(range(len(edges))), []
    while left:
        node = min(left, key=lambda n: (len(edges[n]), n))
        left.remove(node)
        found.append(node)
        for other in edges[node]:
            edges[other] |= edges[node]
            edges[other] -= {other, node}
    return found


cholesky.shape(lambda input, permutation: ())


@cholesky.kernel
def _cholesky_kernel(input, permutation, *, type):
    m = _square(input, type)
    if tuple(permutation.shape) != m.shape[:-1]:
        raise errors.invalid(f"permutation must have shape {list(m.shape[:-1])}, got {list(permutation.shape)}")
    order = permutation.long().reshape(m.batch, -1)
    if not torch.equal(order.sort(-1).values, torch.arange(m.shape[-1]).expand_as(order)):
        raise errors.invalid("permutation must have every row once")
    dense = _to_dense_kernel(m, type=type).reshape(m.batch, *m.shape[-2:])
    batch = torch.arange(m.batch)[:, None, None]
    factor, failed = torch.linalg.cholesky_ex(dense[batch, order[:, :, None], order[:, None, :]])
    if bool(failed.any()):
        raise errors.invalid("Sparse Cholesky factorization failed: the matrix is not positive definite")
    factor = factor.reshape(m.shape)
    rows, cols = _checked_indices(torch.nonzero(factor), m.shape)
    return from_places(m.shape, rows, cols, factor[factor != 0])
