"""Arithmetic of sparse tensors: with each other, with dense tensors, softmax, and Python's operators."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base.api import export
from penstock._src.base.static_shape import merge, rank_is
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.graph.sparse_tensor import SparseTensor, SparseTensorValue
from penstock._src.kernels import arrays, sparse, unsigned
from penstock._src.ops.arguments import renamed
from penstock._src.ops.array.array import is_sparse
from penstock._src.ops.math.division import TRUEDIV
from penstock._src.ops.registry import OpDef, get, op
from penstock._src.ops.sparse.sparse_layout import as_sparse, check_ranks, parts_of
from penstock.compat import v1 as tf

_NUMBERS = "T: type in {numeric quantized}"
_TWO = "a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, b_shape: int64"

# -- SparseAdd ---------------------------------------------------------------------------------------------------------
add_op = op("SparseAdd", f"{_TWO}, thresh: Treal -> sum_indices: int64, sum_values: T, sum_shape: int64",
            f"{_NUMBERS}, Treal: type in {{real}}")
add_grad_op = op("SparseAddGrad", "backprop_val_grad: T, a_indices: int64, b_indices: int64, sum_indices: int64 -> "
                                  "a_val_grad: T, b_val_grad: T", _NUMBERS).no_gradient()


@add_op.shape
def _add_shape(a_indices, a_values, a_shape, *others):
    shape = rank_is(a_shape, 1)
    return [(None, shape[0]), (None,), shape]


@add_op.kernel
def _add_kernel(a_indices, a_values, a_shape, b_indices, b_values, b_shape, thresh):
    both = _matched(a_indices, a_values, a_shape, b_indices, b_values, b_shape)
    if thresh.dim():
        raise errors.invalid(f"The magnitude threshold must be a scalar: got shape {arrays.show(thresh.shape)}")
    if unsigned.is_wide(a_values):
        total = unsigned.wrapping(torch.add)(both.spread(a_values, both.a), both.spread(b_values, both.b))
    else:
        total = both.spread(a_values, both.a) + both.spread(b_values, both.b)
    met = both.present(both.a) & both.present(both.b)
    keep = ~met | (_magnitude(total) >= _magnitude(thresh))
    return both.indices[keep], sparse.chosen(total, keep), a_shape


def _matched(a_indices: Any, a_values: Any, a_shape: Any, b_indices: Any, b_values: Any, b_shape: Any) -> sparse.Union:
    """The rows of both operands together, after all checks."""
    for name, i, v in (("a", a_indices, a_values), ("b", b_indices, b_values)):
        if i.dim() != 2:
            raise errors.invalid(f"Input {name}_indices should be a matrix but received shape {arrays.show(i.shape)}")
        if tuple(v.shape) != (i.shape[0],):
            raise errors.invalid(f"Expected {i.shape[0]} non-empty input values, got shape {arrays.show(v.shape)}")
    for name, s in (("a", a_shape), ("b", b_shape)):
        sparse.sizes(s, f"{name}_shape")
    sparse.same_shape(a_shape, b_shape)
    for name, i, s in (("a", a_indices, a_shape), ("b", b_indices, b_shape)):
        if i.shape[1] != s.numel():
            raise errors.invalid(f"Second dimension of {name}_indices and length of {name}_shape must match, got "
                                 f"{i.shape[1]} and {s.numel()}")
    return sparse.Union(a_indices, b_indices)


def _magnitude(x: torch.Tensor) -> torch.Tensor:
    return x.double() if unsigned.is_wide(x) else x.abs()


@add_grad_op.shape
def _add_grad_shape(backprop_val_grad, a_indices, b_indices, sum_indices):
    return [(rank_is(a_indices, 2)[0],), (rank_is(b_indices, 2)[0],)]


@add_grad_op.kernel
def _add_grad_kernel(backprop_val_grad, a_indices, b_indices, sum_indices):
    rows = (a_indices, b_indices, sum_indices)
    if any(r.dim() != 2 for r in rows):
        raise errors.invalid("Input indices should be matrices but received shapes: "
                             + " and ".join(arrays.show(r.shape) for r in rows))
    if len({r.shape[1] for r in rows}) > 1:
        raise errors.invalid("The densified operands should have the same ndims; for A, B, sum got: "
                             + ", ".join(str(r.shape[1]) for r in rows))
    if tuple(backprop_val_grad.shape) != (sum_indices.shape[0],):
        raise errors.invalid("# elements of backprop_val_grad and # rows of sum_indices should match (#nnz of sum): got "
                             f"{backprop_val_grad.numel()} and {sum_indices.shape[0]}")
    both = sparse.Union(torch.cat([a_indices, b_indices]), sum_indices)
    out = sparse.take(both.spread(backprop_val_grad, both.b), both.a)
    return out[:a_indices.shape[0]], out[a_indices.shape[0]:]


@add_op.gradient
def _add_gradient(op, _, grad, __):
    a, b = add_grad_op(grad, op.inputs[0], op.inputs[3], op.outputs[0])
    return None, a, None, None, b, None, None


# -- sparse and dense ----------------------------------------------------------------------------------------------
dense_add_op = op("SparseTensorDenseAdd", "a_indices: Tindices, a_values: T, a_shape: Tindices, b: T -> output: T",
                  f"{_NUMBERS}, Tindices: type in {{index}}")
dense_add_op.shape(lambda a_indices, a_values, a_shape, b: b)


@dense_add_op.kernel
def _dense_add_kernel(a_indices, a_values, a_shape, b):
    dims = sparse.check(a_indices, a_values, a_shape, "a_")
    if len(dims) != b.dim():
        raise errors.invalid(f"Two operands have different ranks; received: {len(dims)} and {b.dim()}")
    for i, (x, y) in enumerate(zip(dims, b.shape, strict=True)):
        if x != y:
            raise errors.invalid(f"Dimension {i} does not equal (no broadcasting is supported): sparse side {x} vs dense "
                                 f"side {y}")
    bad = sparse.first_outside(a_indices, dims)
    if bad is not None:
        raise errors.invalid(f"Sparse tensor has some invalid index on dimension {bad[1]}; dense tensor shape: "
                             f"{arrays.show(b.shape)}")
    out = b.clone(memory_format=torch.contiguous_format)
    arrays.add_at(out.view(-1), (sparse.positions(a_indices, dims),), a_values)
    return out


@dense_add_op.gradient
def _dense_add_gradient(op, grad):
    return None, get("GatherNd")(grad, op.inputs[0]), None, grad


@export(v1=["sparse.add", "sparse_add"])
def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """a + b, of which at least one is sparse; two sparse ones return a sparse one.

    Where both have an element, the sum is left out if its magnitude is below `threshold`.
    """
    threshold = renamed("threshold", threshold, "thresh", thresh)
    return sparse_add_v2(a, b, 0 if threshold is None else threshold)


@export(v2=["sparse.add"])
def sparse_add_v2(a: Any, b: Any, threshold: Any = 0) -> Any:
    """a + b, of which at least one is sparse; two sparse ones return a sparse one.

    >>> tf.sparse.add(tf.sparse.eye(2), tf.sparse.eye(2)).values       # [2., 2.]
    """
    kinds = (SparseTensor, SparseTensorValue)
    if not isinstance(a, kinds) and not isinstance(b, kinds):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if not (isinstance(a, kinds) and isinstance(b, kinds)):
        sp, dense = (a, b) if isinstance(a, kinds) else (b, a)
        return dense_add_op(*parts_of(as_sparse(sp)), dense)
    a, b = as_sparse(a), as_sparse(b)
    threshold = convert(threshold, a.values.dtype.real_dtype.base_dtype, "threshold")
    out = add_op(*parts_of(a), *parts_of(b), threshold)
    a.shape.assert_is_compatible_with(b.shape)
    static = merge(a.shape.static_dims, b.shape.static_dims)
    if static is not None and None not in static:
        return SparseTensor(out.sum_indices, out.sum_values, list(static))
    return SparseTensor(*out)


def _cwise(name: str, elementwise: str) -> OpDef:
    """values[i] op dense[indices[i]], the dense tensor broadcast to the sparse one's shape."""
    made = op(name, "sp_indices: int64, sp_values: T, sp_shape: int64, dense: T -> output: T", _NUMBERS)
    made.shape(lambda sp_indices, sp_values, sp_shape, dense: (rank_is(sp_indices, 2)[0],))

    @made.kernel
    def _made_kernel(sp_indices, sp_values, sp_shape, dense, *, T):
        dims = sparse.check(sp_indices, sp_values, sp_shape, "sp_")
        if not dims:
            raise errors.invalid("The shape argument requires at least one element.")
        if not arrays.expands(tuple(dense.shape), dims):
            raise errors.invalid("SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: "
                                 f"{arrays.show(dims)} vs. {arrays.show(dense.shape)}")
        sparse.check_bounds(sp_indices, dims)
        there = arrays.unsigned_as(arrays.signed(dense).expand(dims)[tuple(sp_indices.unbind(1))], dense)
        return get(elementwise).kernel_for("cpu").bind({"T": T})(sp_values, there)
    return made


cwise_add_op = _cwise("SparseDenseCwiseAdd", "AddV2")
cwise_mul_op = _cwise("SparseDenseCwiseMul", "Mul")
cwise_div_op = _cwise("SparseDenseCwiseDiv", "Div")


def _dense_part(op: Any) -> tuple[Tensor, Tensor]:
    """For each element of the sparse operand, its position in the dense one (which is broadcast), and what is there."""
    indices, _, shape, dense = op.inputs
    dense_shape = get("Cast")(get("Shape")(dense), DstT=dtypes.int64)
    lead = get("ExpandDims")(get("Size")(shape) - get("Size")(dense_shape), 0)
    sizes = get("ConcatV2")([tf.ones(lead, dtypes.int64), dense_shape], 0)
    own = get("FloorMod")(indices, sizes)              # along an axis of size 1, all positions fall on 0
    own = get("Slice")(own, get("ConcatV2")([[0], lead], 0), [-1, -1])
    return own, get("GatherNd")(dense, own)


def _dense_gradient(op: Any, where: Tensor, grad: Tensor) -> Tensor:
    dense = op.inputs[3]
    return get("ScatterNd")(where, grad, get("Cast")(get("Shape")(dense), DstT=dtypes.int64))


@cwise_add_op.gradient
def _cwise_add_gradient(op, grad):
    where, _ = _dense_part(op)
    return None, grad, None, _dense_gradient(op, where, grad)


@cwise_mul_op.gradient
def _cwise_mul_gradient(op, grad):
    where, there = _dense_part(op)
    return None, grad * tf.math.conj(there), None, _dense_gradient(op, where, grad * tf.math.conj(op.inputs[1]))


@cwise_div_op.gradient
def _cwise_div_gradient(op, grad):
    where, there = _dense_part(op)
    x, y = tf.math.conj(op.inputs[1]), tf.math.conj(there)
    return None, grad / y, None, _dense_gradient(op, where, grad * (-x / tf.square(y)))


# -- the larger and the smaller --------------------------------------------------------------------------------------
def _binary(name: str, choose: Callable, types: str) -> OpDef:
    made = op(name, f"{_TWO} -> output_indices: int64, output_values: T", f"T: type in {{{types}}}")

    @made.shape
    def _made_shape(a_indices, a_values, a_shape, b_indices, b_values, b_shape):
        check_ranks(a_indices, a_values, a_shape)
        check_ranks(b_indices, b_values, b_shape)
        return [(None, rank_is(a_shape, 1)[0]), (None,)]

    @made.kernel
    def _made_kernel_2(a_indices, a_values, a_shape, b_indices, b_values, b_shape):
        both = _matched(a_indices, a_values, a_shape, b_indices, b_values, b_shape)
        pair = both.spread(a_values, both.a), both.spread(b_values, both.b)
        return both.indices, unsigned.ordered(choose)(*pair) if unsigned.is_wide(a_values) else choose(*pair)
    return made


maximum_op = _binary("SparseSparseMaximum", torch.maximum, "real")
minimum_op = _binary("SparseSparseMinimum", torch.minimum, "numeric quantized")


@export("sparse.maximum", v1=["sparse_maximum"])
def sparse_maximum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """The larger of the elements of two sparse tensors at each position where either has one."""
    return _chosen(maximum_op, sp_a, sp_b, name)


@export("sparse.minimum", v1=["sparse_minimum"])
def sparse_minimum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """The smaller of the elements of two sparse tensors at each position where either has one."""
    return _chosen(minimum_op, sp_a, sp_b, name)


def _chosen(definition: OpDef, sp_a: Any, sp_b: Any, name: str | None) -> SparseTensor:
    a, b = as_sparse(sp_a), as_sparse(sp_b)
    with tf.name_scope(name, definition.name, [*parts_of(a), *parts_of(b)]) as scope:
        indices, values = definition(*parts_of(a), *parts_of(b), name=scope)
        return SparseTensor(indices, values, a.dense_shape)


# -- SparseTensorDenseMatMul ---------------------------------------------------------------------------------------
matmul_op = op("SparseTensorDenseMatMul", "a_indices: Tindices, a_values: T, a_shape: int64, b: T -> product: T",
               "T: type, Tindices: type in {index} = int64, adjoint_a: bool = False, adjoint_b: bool = False")


@matmul_op.shape
def _matmul_shape(a_indices, a_values, a_shape, b, *, adjoint_a, adjoint_b, c):
    rank_is(a_indices, 2)
    rank_is(a_values, 1)
    a, b = rank_is(c.dims("a_shape"), 2), rank_is(b, 2)
    a, b = a[::-1] if adjoint_a else a, b[::-1] if adjoint_b else b
    if None not in (a[1], b[0]) and a[1] != b[0]:
        raise ValueError(f"Dimensions must be equal, but are {a[1]} and {b[0]}")
    return a[0], b[1]


@matmul_op.kernel
def _matmul_kernel(a_indices, a_values, a_shape, b, *, adjoint_a, adjoint_b):
    if b.dim() != 2:
        raise errors.invalid(f"Tensor 'b' is not a matrix: {arrays.show(b.shape)}")
    if a_shape.numel() != 2:
        raise errors.invalid(f"Tensor 'a_shape' must have 2 elements, but has {a_shape.numel()}")
    dims = sparse.check(a_indices, a_values, a_shape, "a_")
    row, column = (1, 0) if adjoint_a else (0, 1)
    if not adjoint_b and dims[column] == b.shape[0]:
        found = sparse.short_product(a_indices, a_values, row, dims[row], b)
        if found is not None:
            return found
    values, b = a_values.conj() if adjoint_a else a_values, b.mH if adjoint_b else b
    if dims[column] != b.shape[0]:
        raise errors.invalid(f"Cannot multiply A and B because inner dimension does not match: {dims[column]} vs. "
                             f"{b.shape[0]}.  Did you forget a transpose?  Dimensions of A: {arrays.show(dims)}, "
                             f"of B: {arrays.show(b.shape)}")
    bad = sparse.first_outside(a_indices, dims)
    if bad is not None:
        name = "mk"[bad[1] == column]
        raise errors.invalid(f"{name} ({int(a_indices[bad])}) from index[{bad[0]},{bad[1]}] out of bounds "
                             f"(>={dims[bad[1]]})")
    arrays.checked_dims(sparse.vector([dims[row], b.shape[1]], a_shape))
    return product(a_indices[:, row].long(), a_indices[:, column].long(), values, dims[row], b)


@functools.cache
def _keep_checks_off() -> None:
    """Disables torch's check of indices explicitly, because torch warns about its default."""
    if not torch.sparse.check_sparse_tensor_invariants.is_enabled():
        torch.sparse.check_sparse_tensor_invariants.disable()


def product(rows: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, height: int, b: torch.Tensor) -> torch.Tensor:
    """The sum over elements of values[i] * b[columns[i]] into row rows[i]."""
    wide = {torch.float16: torch.float32, torch.bfloat16: torch.float32}.get(b.dtype)
    if wide is not None:
        return product(rows, columns, values.to(wide), height, b.to(wide)).to(b.dtype)
    if not rows.numel() or not b.numel() or not height:
        return torch.zeros((height, b.shape[1]), dtype=b.dtype, device=b.device)
    if (b.dtype.is_floating_point or b.dtype.is_complex) and not tracing.lowering():
        _keep_checks_off()
        a = torch.sparse_coo_tensor(torch.stack([rows, columns]), values.resolve_conj(), (height, b.shape[0]),
                                    check_invariants=False)
        return torch.sparse.mm(a, b.resolve_conj())
    out = torch.zeros((height, b.shape[1]), dtype=b.dtype, device=b.device)
    return out.index_add_(0, rows, b[columns] * values.unsqueeze(1))


@matmul_op.gradient
def _matmul_gradient(op, grad):
    indices, values, shape, b = op.inputs
    adjoint_a, adjoint_b = op.attrs["adjoint_a"], op.attrs["adjoint_b"]
    of_b = matmul_op(indices, values, shape, grad, adjoint_a=not adjoint_a)
    of_b = tf.linalg.adjoint(of_b) if adjoint_b else of_b
    rows, columns = indices[:, 0], indices[:, 1]
    right = tf.linalg.adjoint(b) if adjoint_b else b
    if adjoint_a:
        of_a = tf.math.conj(tf.gather(grad, columns)) * tf.gather(right, rows)
    else:
        of_a = tf.gather(grad, rows) * tf.math.conj(tf.gather(right, columns))
    return None, tf.reduce_sum(of_a, 1), None, of_b


@export("sparse.sparse_dense_matmul", v1=["sparse.matmul", "sparse_tensor_dense_matmul"])
def sparse_tensor_dense_matmul(sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False,
                               name: str | None = None) -> Tensor:
    """A sparse matrix times a dense one.

    Args:
        sp_a: SparseTensor of rank 2; or a matrix, if `b` is sparse.
        b: Matrix; or a SparseTensor of rank 2, if `sp_a` is not.
        adjoint_a: Whether to transpose and conjugate `sp_a`.
        adjoint_b: Whether to transpose and conjugate `b`.
        name: Name of the operation.

    Returns:
        A matrix.

    >>> tf.sparse.sparse_dense_matmul(tf.sparse.eye(2), [[1., 2.], [3., 4.]]).numpy()
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    if is_sparse(b) and not is_sparse(sp_a):                # (a b)' = b' a'
        turned = sparse_tensor_dense_matmul(b, sp_a, not adjoint_b, not adjoint_a, name)
        return tf.linalg.adjoint(turned)
    sp = as_sparse(sp_a)
    with tf.name_scope(name, "SparseTensorDenseMatMul", [sp.indices, sp.values, b]) as scope:
        b = convert(b, name="b")
        return matmul_op(*parts_of(sp), b, adjoint_a=adjoint_a, adjoint_b=adjoint_b, name=scope)


# -- SparseSoftmax -------------------------------------------------------------------------------------------------
softmax_op = op("SparseSoftmax", "sp_indices: int64, sp_values: T, sp_shape: int64 -> output: T",
                "T: type in {half float32 float64}")


@softmax_op.shape
def _softmax_shape(sp_indices, sp_values, sp_shape):
    check_ranks(sp_indices, sp_values, sp_shape)
    return sp_values


@softmax_op.kernel
def _softmax_kernel(sp_indices, sp_values, sp_shape):
    dims = sparse.check(sp_indices, sp_values, sp_shape, "sp_")
    if len(dims) < 2:
        raise errors.invalid(f"Input should have rank >= 2, but received shape: {arrays.show(dims)}")
    sparse.check_bounds(sp_indices, dims)
    row = torch.unique(sparse.keys(sp_indices[:, :-1])[0], return_inverse=True)[1]
    count = int(row.max()) + 1 if row.numel() else 0
    top = torch.full((count,), -torch.inf, dtype=sp_values.dtype, device=sp_values.device)
    top.scatter_reduce_(0, row, sp_values, "amax")
    exp = (sp_values - top[row]).exp()
    total = torch.zeros_like(top).index_add_(0, row, exp)
    return exp / total[row]


@softmax_op.gradient
def _softmax_gradient(op, grad):
    indices, _, shape = op.inputs
    out = op.outputs[0]
    along = -get("SparseReduceSum")(indices, out * grad, shape, [-1], keep_dims=True)
    return None, cwise_add_op(indices, grad, shape, along) * out, None


@export("sparse.softmax", v1=["sparse_softmax"])
def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Softmax along the last axis over the stored elements."""
    sp = as_sparse(sp_input)
    with tf.name_scope(name, "SparseSoftmax", [sp.indices, sp.values]) as scope:
        return sp.with_values(softmax_op(*parts_of(sp), name=scope))


# -- operators -----------------------------------------------------------------------------------------------------
def _operator(name: str, call: Callable) -> None:
    """Defines sparse.__name__(dense)."""
    def method(x: SparseTensor, y: Any) -> SparseTensor:
        with name_scope(None, name, [*parts_of(x)]) as scope:
            y = convert(y, x.dtype.base_dtype, "y")
            return x.with_values(call(*parts_of(x), y, name=scope))
    method.__name__ = method.__qualname__ = f"__{name}__"
    SparseTensor._override_operator(f"__{name}__", method)


def _true_divided(indices: Tensor, values: Tensor, shape: Tensor, y: Tensor, name: str) -> Tensor:
    kind = values.dtype.base_dtype
    if kind not in TRUEDIV:
        raise TypeError(f"Invalid dtype {kind!r} in __truediv__")
    wider = TRUEDIV[kind]
    if wider is not None:
        values, y = tf.cast(values, wider), tf.cast(y, wider)
    return cwise_div_op(indices, values, shape, y, name=name)


_operator("mul", cwise_mul_op)
_operator("div", cwise_div_op)
_operator("truediv", _true_divided)


@export("sparse.sampled_addmm")
def sampled_addmm(indices: Any, values: Any, dense_shape: Any, mat1: Any, mat2: Any, beta: float = 1.0, alpha: float = 1.0,
                  output_type: Any = dtypes.float32) -> tuple[Tensor, Tensor, Tensor]:
    """`beta` times a sparse tensor plus `alpha` times the product of two matrices, at the places of the sparse tensor only.

    >>> tf.sparse.sampled_addmm([[0, 1]], [2.0], [2, 2], tf.ones([2, 3]), tf.ones([3, 2]))[1]     # [5.0]

    Args:
      indices: The rows and columns, [..., n, 2].
      values: The values there, [..., n].
      dense_shape: The shape of the sparse tensor.
      mat1: Matrices [..., M, K].
      mat2: Matrices [..., K, N].
      beta: The factor of the values.
      alpha: The factor of the product.
      output_type: The dtype of the result.

    Returns:
      Indices, values and dense shape of the result.
    """
    indices, dense_shape = tf.cast(indices, dtypes.int64), tf.cast(dense_shape, dtypes.int32)
    values, mat1, mat2 = (tf.cast(x, output_type) for x in (values, mat1, mat2))
    if not mat1.shape[:-2].is_compatible_with(mat2.shape[:-2]) or not mat1.shape[-1:].is_compatible_with(mat2.shape[-2:-1]):
        raise ValueError(f"Shapes of mat1 and mat2 do not match: {mat1.shape} and {mat2.shape}")
    known, wanted = tf.get_static_value(dense_shape), mat1.shape[-2:-1].concatenate(mat2.shape[-1:])
    if known is not None and not wanted.is_compatible_with(known.tolist()):
        raise ValueError(f"Dense shape: {known.tolist()} does not match output shape: {wanted}")
    batch = mat1.shape.rank - 2
    left = tf.gather(mat1, indices[..., 0], batch_dims=batch)
    right = tf.gather(tf.linalg.matrix_transpose(mat2), indices[..., 1], batch_dims=batch)
    return indices, beta * values + alpha * tf.reduce_sum(left * right, -1), dense_shape
