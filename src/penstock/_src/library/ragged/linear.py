"""tf.matmul of ragged matrices."""
from __future__ import annotations

from typing import Any

from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor
from penstock.compat import v1 as tf


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, adjoint_a: bool = False,
           adjoint_b: bool = False, a_is_sparse: bool = False, b_is_sparse: bool = False, output_type: Any = None,
           name: str | None = None) -> Any:
    """Products of matrices some of whose dimensions are ragged.

    Each pair of matrices is multiplied as if padded; rows and columns of padding are removed from the result.
    """
    if transpose_a and adjoint_a:
        raise ValueError("Only one of transpose_a and adjoint_a can be True.")
    if transpose_b and adjoint_b:
        raise ValueError("Only one of transpose_b and adjoint_b can be True.")
    kinds = dict(transpose_a=transpose_a, transpose_b=transpose_b, adjoint_a=adjoint_a, adjoint_b=adjoint_b,
                 a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse)
    if output_type is not None:
        kinds["output_type"] = output_type
    with tf.name_scope(name, "RaggedMatMul", []):
        a = convert_to_tensor_or_ragged_tensor(a, name="a", preferred_dtype=getattr(b, "dtype", None))
        b = convert_to_tensor_or_ragged_tensor(b, name="b", preferred_dtype=a.dtype)
        if not isinstance(a, RaggedTensor) and not isinstance(b, RaggedTensor):
            return tf.matmul(a, b, **kinds)
        if a.dtype != b.dtype:
            raise ValueError("`a` and `b` must have the same dtype.")
        if a.shape.rank is None and b.shape.rank is None:
            raise ValueError("matmul requires at least one input to have known rank if either input is ragged.")
        if None not in (a.shape.rank, b.shape.rank) and a.shape.rank != b.shape.rank:
            raise ValueError("`a` and `b` must have the same rank.")
        rank = a.shape.rank or b.shape.rank
        if rank < 2:
            raise ValueError(f"`a` and `b` must have at least rank 2; got rank {rank}.")
        return _folded(a, b, rank, kinds) if rank > 3 else _product(a, b, rank, kinds)


def _folded(a: Any, b: Any, rank: int, kinds: dict) -> Any:
    """Several batch dimensions: one product over all of them, then the batch rows again."""
    like = next(x for x in (a, b) if isinstance(x, RaggedTensor))
    a, b = (x if isinstance(x, RaggedTensor) else
            RaggedTensor.from_tensor(x, ragged_rank=rank - 3, row_splits_dtype=like.row_splits.dtype) for x in (a, b))
    check = tf.debugging.assert_equal(a.row_splits, b.row_splits,
                                      message="Batch dimensions of `a` and `b` do not have the same size")
    with tf.control_dependencies([c for c in [check] if c is not None]):
        return a.with_values(matmul(a.values, b.values, **kinds))


def _ragged_axes(x: Any) -> int:
    return x.ragged_rank if isinstance(x, RaggedTensor) else 0


def _product(a: Any, b: Any, rank: int, kinds: dict) -> Any:
    """One matrix product, or a batch of them."""
    a_turned, b_turned = (kinds["transpose_a"] or kinds["adjoint_a"]), (kinds["transpose_b"] or kinds["adjoint_b"])
    checks = []
    if rank == 2:
        for x in (a, b):
            if isinstance(x, RaggedTensor):
                longest = x.row_lengths()
                checks.append(tf.debugging.assert_equal(
                    longest, tf.zeros_like(longest) + tf.reduce_max(longest),
                    message="The matrices in `a` and `b` may not be ragged in their innermost dimension."))
    elif isinstance(a, RaggedTensor) or isinstance(b, RaggedTensor):
        checks += _inner_checks(a, b, a_turned, b_turned)
    with tf.control_dependencies([c for c in checks if c is not None]):
        dense = [x.to_tensor() if isinstance(x, RaggedTensor) else x for x in (a, b)]
        product = tf.matmul(*dense, **kinds)
    if rank == 2:
        return RaggedTensor.from_tensor(product, row_splits_dtype=_splits_dtype(a, b))
    rows, columns = _extent(a, 1 if not a_turned else 2), _extent(b, 2 if not b_turned else 1)
    return _trimmed(product, rows, columns, _splits_dtype(a, b))


def _inner_checks(a: Any, b: Any, a_turned: bool, b_turned: bool) -> list:
    """The dimension that is summed over has the same size on both sides, matrix by matrix."""
    inner_a, inner_b = _extent(a, 1 if a_turned else 2), _extent(b, 2 if b_turned else 1)
    if inner_a is None and inner_b is None:
        return []
    count = tf.shape(inner_a if inner_a is not None else inner_b)
    sizes = [tf.fill(count, tf.cast(tf.shape(x)[axis], (inner_a if inner_a is not None else inner_b).dtype))
             if inner is None else inner
             for x, inner, axis in ((a, inner_a, -2 if a_turned else -1), (b, inner_b, -1 if b_turned else -2))]
    return [tf.debugging.assert_equal(*sizes, message="Inner dimensions of `a` and `b` do not match.")]


def _splits_dtype(a: Any, b: Any) -> Any:
    return next(x for x in (a, b) if isinstance(x, RaggedTensor)).row_splits.dtype


def _extent(x: Any, axis: int) -> Any:
    """The size of one dimension of each matrix of a batch, or None where all have the same."""
    if not isinstance(x, RaggedTensor):
        return None
    if axis == 1:
        return x.row_lengths() if x.uniform_row_length is None else None
    if isinstance(x.values, RaggedTensor):
        lengths = x.with_values(x.values.row_lengths())
        longest = tf.reduce_max(lengths, axis=1)
        check = tf.debugging.assert_equal(
            lengths.values, tf.gather(longest, x.value_rowids()),
            message="The matrices in `a` and `b` may not be ragged in their innermost dimension.")
        with tf.control_dependencies([c for c in [check] if c is not None]):
            return tf.maximum(tf.identity(longest), 0)
    return None


def _trimmed(product: Any, rows: Any, columns: Any, splits_dtype: Any) -> Any:
    """The products without padding."""
    if rows is None and columns is None:
        return product
    if columns is None:
        return RaggedTensor.from_tensor(product, lengths=rows, row_splits_dtype=splits_dtype)
    count = tf.shape(product)[0]
    rows = tf.fill([count], tf.cast(tf.shape(product)[1], columns.dtype)) if rows is None else rows
    return RaggedTensor.from_tensor(product, lengths=(rows, tf.repeat(columns, rows)), ragged_rank=2,
                                    row_splits_dtype=splits_dtype)
