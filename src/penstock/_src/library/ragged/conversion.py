"""Ragged tensors to and from dense, sparse and variant tensors."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes, errors
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.library.ragged.segments import int_tensor, lengths_to_splits
from penstock._src.library.ragged.tensor import RaggedTensor
from penstock._src.ops.registry import get
from penstock._src.ops.sparse.ragged import from_variant_op, ragged_to_sparse, to_variant_op
from penstock.compat import v1 as tf


def from_tensor(tensor: Any, lengths: Any, padding: Any, ragged_rank: int, name: Any, row_splits_dtype: Any) -> Any:
    """See RaggedTensor.from_tensor."""
    splits_dtype = dtypes.as_dtype(row_splits_dtype)
    if lengths is not None and padding is not None:
        raise ValueError("Specify argument `lengths` or `padding`, but not both.")
    if not isinstance(ragged_rank, int):
        raise TypeError(f"Argument `ragged_rank` must be an int. Received {ragged_rank}.")
    if ragged_rank <= 0:
        raise ValueError(f"Argument `ragged_rank` must be greater than 0. Received {ragged_rank}.")
    nested = isinstance(lengths, (list, tuple)) and lengths and not isinstance(lengths[0], (int, float))
    if nested and ragged_rank not in (1, len(lengths)):
        raise ValueError(f"If Argument `lengths` is a tuple of row_lengths, argument `ragged_rank` must be len(lengths): "
                         f"{len(lengths)}. Received ragged_rank: {ragged_rank}.")
    with tf.name_scope(name, "RaggedFromTensor", [tensor, lengths, padding]):
        tensor = convert(tensor, name="tensor")
        tensor.shape.with_rank_at_least(ragged_rank + 1)
        shape = tf.shape(tensor, out_type=splits_dtype)
        if ragged_rank > 1:
            return _from_deep_tensor(tensor, shape, lengths, padding, ragged_rank, splits_dtype)
        if padding is not None:
            lengths = _lengths_without(tensor, padding, shape[1], splits_dtype)
        if lengths is None:
            values = tf.reshape(tensor, tf.concat([[shape[0] * shape[1]], shape[2:]], 0))
            return RaggedTensor.from_uniform_row_length(values, uniform_row_length=shape[1], nrows=shape[0], validate=False)
        if nested:
            return _from_nested_lengths(tensor, lengths)
        lengths = int_tensor(lengths, "lengths", splits_dtype)
        lengths.shape.assert_has_rank(1)
        lengths = tf.maximum(tf.minimum(lengths, shape[1]), 0)
        values = tf.boolean_mask(tensor, tf.sequence_mask(lengths, maxlen=shape[1]))
        return RaggedTensor.from_row_splits(values, lengths_to_splits(lengths), validate=False)


def _from_deep_tensor(tensor: Any, shape: Any, lengths: Any, padding: Any, ragged_rank: int, splits_dtype: Any) -> Any:
    """Several dimensions at once: the outer ones are full, the innermost takes lengths or padding."""
    if isinstance(lengths, (list, tuple)) and lengths and not isinstance(lengths[0], (int, float)):
        return _from_nested_lengths(tensor, lengths)
    folded = tf.reshape(tensor, tf.concat([[tf.reduce_prod(shape[:ragged_rank])], shape[ragged_rank:]], 0))
    rank = tensor.shape.ndims
    if rank is not None:
        folded.set_shape([None, *tensor.shape.as_list()[ragged_rank:]])
    out = from_tensor(folded, lengths, padding, 1, None, splits_dtype)
    for axis in reversed(range(1, ragged_rank)):
        rows = tf.reduce_prod(shape[:axis])
        out = RaggedTensor.from_uniform_row_length(out, uniform_row_length=shape[axis], nrows=rows, validate=False)
    return out


def _from_nested_lengths(tensor: Any, lengths: Any) -> Any:
    tensor.shape.with_rank_at_least(len(lengths) + 1)
    ones = tf.ones([tf.reduce_sum(lengths[-1])], dtypes.bool)
    mask = RaggedTensor.from_nested_row_lengths(ones, lengths, validate=False).to_tensor(default_value=False)
    return RaggedTensor.from_nested_row_lengths(tf.boolean_mask(tensor, mask), lengths, validate=False)


def _lengths_without(tensor: Any, padding: Any, ncols: Any, splits_dtype: Any) -> Any:
    """The length of each row up to its last element that is not padding."""
    padding = convert(padding, tensor.dtype, "padding")
    padding.shape.assert_is_compatible_with(tensor.shape[2:])
    same = tf.equal(padding, tensor)
    rank = tensor.shape.ndims
    if rank is None or rank > 2:
        same = tf.reduce_all(same, axis=tf.range(2, tf.rank(tensor)))
    same.set_shape(tensor.shape[:2])
    positions = tf.cast(tf.logical_not(same), splits_dtype) * tf.expand_dims(tf.range(1, ncols + 1), 0)
    return tf.maximum(tf.reduce_max(positions, axis=1), 0)


def to_tensor(rt: RaggedTensor, default_value: Any, name: Any, shape: Any = None) -> Any:
    """See RaggedTensor.to_tensor."""
    with tf.name_scope(name, "RaggedToTensor", [rt.flat_values, default_value]):
        default = tf.zeros([], rt.dtype) if default_value is None else convert(default_value, rt.dtype, "default_value")
        splits = rt.nested_row_splits
        if isinstance(shape, (list, tuple)) and any(isinstance(d, Tensor) for d in shape):
            shape = tf.stack([tf.cast(-1 if d is None else d, splits[0].dtype) for d in shape])
        known = None if isinstance(shape, Tensor) else _known_shape(rt, shape)
        wanted = shape if isinstance(shape, Tensor) else convert(
            -1 if known is None else [-1 if d is None else d for d in known])
        out = get("RaggedTensorToTensor")(wanted, rt.flat_values, default, list(splits),
                                          row_partition_types=["ROW_SPLITS"] * len(splits))
        if known is not None:
            out.set_shape(known)
        return out


def _known_shape(rt: RaggedTensor, shape: Any) -> list | None:
    """The dimensions of the dense tensor that are known: those asked for, else those of the ragged one."""
    own = rt.shape.static_dims
    asked = TensorShape(shape).static_dims
    if own is None or asked is None:
        return list(own or asked or ()) or None
    if len(own) != len(asked):
        shown = ",".join("?" if a is None else str(a) for a in asked)
        message = (f"rt_input.shape and shape=[{shown}] are incompatible: rt_input.rank = {len(own)} but shape.rank = "
                   f"{len(asked)}")
        raise errors.InvalidArgumentError(None, None, message) if context.executing_eagerly() else ValueError(message)
    return [o if a is None else a for o, a in zip(own, asked, strict=True)]


def from_sparse(st_input: Any, name: Any, row_splits_dtype: Any) -> Any:
    """See RaggedTensor.from_sparse."""
    splits_dtype = dtypes.as_dtype(row_splits_dtype)
    if not isinstance(st_input, SparseTensor):
        raise TypeError(f"Expected SparseTensor, got {type(st_input).__name__}")
    with tf.name_scope(name, "RaggedFromSparse", [st_input.values]):
        rank = st_input.shape.ndims
        if rank is None and st_input.indices.shape.ndims == 2:
            rank = st_input.indices.shape.as_list()[1]
        if rank != 2:
            raise ValueError("rank(st_input) must be 2")
        ids = tf.cast(st_input.indices, splits_dtype)
        rows, cols = ids[:, 0], ids[:, 1]
        first = tf.concat([[True], tf.not_equal(rows[1:], rows[:-1])], 0)[:tf.shape(rows)[0]]
        follows = tf.concat([tf.constant([0], splits_dtype), cols[:-1] + 1], 0)[:tf.shape(rows)[0]]
        want = tf.where(first, tf.zeros_like(cols), follows)
        ordered = tf.debugging.assert_non_negative(rows[1:] - rows[:-1], message="SparseTensor is not right-ragged")
        check = tf.Assert(tf.reduce_all(tf.equal(cols, want)), ["SparseTensor is not right-ragged", "SparseTensor.indices =",
                                                                 st_input.indices])
        with tf.control_dependencies([c for c in (ordered, check) if c is not None]):
            values = tf.identity(st_input.values)
        return RaggedTensor.from_value_rowids(values, rows, tf.cast(st_input.dense_shape[0], splits_dtype), validate=False)


def to_sparse(rt: RaggedTensor, name: Any) -> SparseTensor:
    """See RaggedTensor.to_sparse."""
    with tf.name_scope(name, "RaggedToSparse", [rt.flat_values]):
        return SparseTensor(*ragged_to_sparse(list(rt.nested_row_splits), rt.flat_values))


# -- variants: a ragged tensor as one value, or its rows as a vector of values -------------------------------------------


def to_variant(rt: RaggedTensor, batched_input: bool, name: Any) -> Any:
    """A ragged tensor as a variant; its rows as a vector of variants when `batched_input`."""
    with tf.name_scope(name, "RaggedToVariant", [rt.flat_values]):
        return to_variant_op(list(rt.nested_row_splits), rt.flat_values, batched_input=batched_input)


def from_variant(variant: Any, dtype: Any, output_ragged_rank: int, input_ragged_rank: int | None, row_splits_dtype: Any,
                 name: Any) -> Any:
    """The ragged tensor in a variant, or made of a vector of variants."""
    variant = convert(variant, name="variant", dtype=dtypes.variant)
    rank = variant.shape.ndims
    if rank is not None and input_ragged_rank is not None and output_ragged_rank != input_ragged_rank + rank:
        raise ValueError(f"output_ragged_rank must be equal to input_ragged_rank + variant.shape.ndims, found "
                         f"variant.shape.ndims: {rank}, input_ragged_rank: {input_ragged_rank}, output_ragged_rank: "
                         f"{output_ragged_rank}")
    with tf.name_scope(name, "RaggedFromVariant", [variant]):
        splits, values = from_variant_op(variant, input_ragged_rank=-1 if input_ragged_rank is None else input_ragged_rank,
                                         output_ragged_rank=output_ragged_rank, Tvalues=dtype, Tsplits=row_splits_dtype)
        return RaggedTensor.from_nested_row_splits(values, splits, validate=False)
