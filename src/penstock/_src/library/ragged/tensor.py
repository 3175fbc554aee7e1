"""RaggedTensor: a tensor some of whose dimensions have rows of different lengths.

Row i holds values[row_splits[i]:row_splits[i+1]]; values may be ragged again. Everything else (lengths, starts, row ids)
follows from row_splits and is kept when it was given.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.library.ragged.value import RaggedTensorValue
from penstock._src.session.fetches import register_session_run_conversion_functions
from penstock.compat import v1 as tf

INDEX = (dtypes.int32, dtypes.int64)


def is_ragged(value: Any) -> bool:
    """Whether `value` is a ragged tensor or the value of one."""
    return isinstance(value, (RaggedTensor, RaggedTensorValue))


def convert_to_tensor_or_ragged_tensor(value: Any, dtype: Any = None, preferred_dtype: Any = None,
                                       name: str | None = None) -> Any:
    """Ragged tensors stay ragged; anything else becomes a Tensor."""
    if isinstance(value, RaggedTensor):
        if dtype and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
            raise ValueError(f"Tensor conversion requested dtype {dtypes.as_dtype(dtype).name} for RaggedTensor with dtype "
                             f"{value.dtype.name}: {value}")
        return value
    if isinstance(value, RaggedTensorValue):
        with tf.name_scope(name, "ConvertToTensorOrRaggedTensor", []):
            flat = convert(value.flat_values, dtype, "flat_values", preferred_dtype=preferred_dtype)
            return RaggedTensor.from_nested_row_splits(flat, value.nested_row_splits, validate=False)
    return convert(value, dtype, name, preferred_dtype=preferred_dtype)


export.value(convert_to_tensor_or_ragged_tensor, v1=["ragged.convert_to_tensor_or_ragged_tensor"])


def match_row_splits_dtypes(*tensors: Any, **kwargs: Any) -> Any:
    """The tensors with one dtype of row splits: int64 as soon as any has it."""
    return_dtype = kwargs.pop("return_dtype", False)
    kinds = {t.row_splits.dtype for t in tensors if isinstance(t, RaggedTensor)}
    wanted = dtypes.int32 if kinds == {dtypes.int32} else dtypes.int64
    if len(kinds) > 1:
        tensors = tuple(t.with_row_splits_dtype(wanted) if isinstance(t, RaggedTensor) else t for t in tensors)
    return (wanted, tensors) if return_dtype else tensors


def _partition(values: Any, partition: Any, name: str) -> tuple[Any, Any]:
    """Values and a row partition as tensors with one index dtype."""
    values = convert_to_tensor_or_ragged_tensor(values, name="values")
    if isinstance(values, RaggedTensor):
        if not isinstance(partition, Tensor):
            return values, convert(partition, values.row_splits.dtype, name)
        if partition.dtype not in INDEX:
            raise ValueError(f"{name} must have dtype int32 or int64")
        if partition.dtype != values.row_splits.dtype:
            return values.with_row_splits_dtype(dtypes.int64), tf.cast(partition, dtypes.int64)
        return values, partition
    keep = isinstance(partition, np.ndarray) and partition.dtype == np.int32
    partition = convert(partition, name=name, preferred_dtype=None if keep else dtypes.int64)
    if partition.dtype not in INDEX:
        raise ValueError(f"{name} must have dtype int32 or int64")
    return values, partition


def _nvals(values: Any, out_type: Any) -> Any:
    return values.nrows(out_type=out_type) if isinstance(values, RaggedTensor) else tf.shape(values, out_type=out_type)[0]


def _checked(tensor: Any, checks: list) -> Any:
    """`tensor` after the given assertions."""
    with tf.control_dependencies([c for c in checks if c is not None]):
        return tf.identity(tensor)


def _increasing(t: Any, message: str) -> Any:
    return tf.debugging.assert_non_negative(t[1:] - t[:-1], message=message)


def _validate_flag(validate: Any) -> None:
    if not isinstance(validate, bool):
        raise TypeError("validate must have type bool")


@export("RaggedTensor")
class RaggedTensor(CompositeTensor):
    """A tensor with ragged dimensions. Made by the `from_...` methods, tf.ragged.constant, and ragged ops.

    >>> tf.RaggedTensor.from_row_splits([3, 1, 4, 1, 5], [0, 2, 2, 5])
    <tf.RaggedTensor [[3, 1], [], [4, 1, 5]]>
    """

    _is_tensor_like = True

    def __init__(self, values: Any, row_splits: Any, cached_row_lengths: Any = None, cached_value_rowids: Any = None,
                 cached_nrows: Any = None, internal: bool = False):
        if not internal:
            raise ValueError("RaggedTensor constructor is private; please use one of the factory methods instead (e.g., "
                             "RaggedTensor.from_row_lengths())")
        if not isinstance(row_splits, Tensor):
            raise TypeError(f"Row-partitioning argument must be a Tensor, got {row_splits!r}")
        if not isinstance(values, (RaggedTensor, Tensor)):
            raise TypeError(f"values must be a Tensor or RaggedTensor, got {values!r}")
        if row_splits.dtype not in INDEX:
            raise ValueError("Row-partitioning argument must be int32 or int64")
        row_splits.shape.assert_has_rank(1)
        values.shape.with_rank_at_least(1)
        if not hasattr(row_splits, "_value"):
            row_splits.set_shape([None])
        for t in (cached_row_lengths, cached_value_rowids, cached_nrows):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError("Cached value must be a Tensor or None.")
        self._values, self._row_splits = values, row_splits
        self._cached_row_lengths, self._cached_value_rowids = cached_row_lengths, cached_value_rowids
        self._cached_nrows = cached_nrows

    # -- factories ------------------------------------------------------------------------------------------------
    @classmethod
    def from_row_splits(cls, values: Any, row_splits: Any, name: str | None = None, validate: bool = True) -> RaggedTensor:
        """From where each row begins, and the end of the last."""
        _validate_flag(validate)
        if isinstance(row_splits, (list, tuple)) and not row_splits:
            raise ValueError("row_splits tensor may not be empty.")
        with tf.name_scope(name, "RaggedFromRowSplits", [values, row_splits]):
            values, row_splits = _partition(values, row_splits, "row_splits")
            row_splits.shape.assert_has_rank(1)
            if validate and row_splits._dims == (0,):
                raise ValueError("row_splits tensor may not be empty.")
            if validate:
                m = "Arguments to from_row_splits do not form a valid RaggedTensor"
                row_splits = _checked(row_splits, [
                    tf.debugging.assert_rank(row_splits, 1, message=m),
                    tf.debugging.assert_equal(row_splits[0], tf.constant(0, row_splits.dtype), message=m),
                    _increasing(row_splits, m),
                    tf.debugging.assert_equal(row_splits[-1], _nvals(values, row_splits.dtype), message=m)])
            return cls(values, row_splits, internal=True)

    @classmethod
    def from_row_lengths(cls, values: Any, row_lengths: Any, name: str | None = None,
                         validate: bool = True) -> RaggedTensor:
        """From the length of each row."""
        _validate_flag(validate)
        with tf.name_scope(name, "RaggedFromRowLengths", [values, row_lengths]):
            values, row_lengths = _partition(values, row_lengths, "row_lengths")
            row_lengths.shape.assert_has_rank(1)
            if validate:
                m = "Arguments to from_row_lengths do not form a valid RaggedTensor"
                row_lengths = _checked(row_lengths, [
                    tf.debugging.assert_rank(row_lengths, 1, message=m),
                    tf.debugging.assert_non_negative(row_lengths, message=m),
                    tf.debugging.assert_equal(tf.reduce_sum(row_lengths), _nvals(values, row_lengths.dtype), message=m)])
            splits = tf.concat([tf.zeros([1], row_lengths.dtype), tf.cumsum(row_lengths)], 0)
            return cls(values, splits, cached_row_lengths=row_lengths, internal=True)

    @classmethod
    def from_row_starts(cls, values: Any, row_starts: Any, name: str | None = None, validate: bool = True) -> RaggedTensor:
        """From where each row begins."""
        _validate_flag(validate)
        with tf.name_scope(name, "RaggedFromRowStarts", [values, row_starts]):
            values, row_starts = _partition(values, row_starts, "row_starts")
            row_starts.shape.assert_has_rank(1)
            n = _nvals(values, row_starts.dtype)
            if validate:
                m = "Arguments to from_row_starts do not form a valid RaggedTensor"
                row_starts = _checked(row_starts, [
                    tf.debugging.assert_rank(row_starts, 1, message=m),
                    tf.debugging.assert_equal(row_starts[:1], tf.constant(0, row_starts.dtype), message=m),
                    _increasing(row_starts, m),
                    tf.debugging.assert_less_equal(row_starts[-1:], n, message=m)])
            return cls(values, tf.concat([row_starts, tf.expand_dims(n, 0)], 0), internal=True)

    @classmethod
    def from_row_limits(cls, values: Any, row_limits: Any, name: str | None = None, validate: bool = True) -> RaggedTensor:
        """From where each row ends."""
        _validate_flag(validate)
        with tf.name_scope(name, "RaggedFromRowLimits", [values, row_limits]):
            values, row_limits = _partition(values, row_limits, "row_limits")
            row_limits.shape.assert_has_rank(1)
            if validate:
                m = "Arguments to from_row_limits do not form a valid RaggedTensor"
                row_limits = _checked(row_limits, [
                    tf.debugging.assert_rank(row_limits, 1, message=m),
                    tf.debugging.assert_non_negative(row_limits[:1], message=m),
                    _increasing(row_limits, m),
                    tf.debugging.assert_equal(row_limits[-1:], _nvals(values, row_limits.dtype), message=m)])
            return cls(values, tf.concat([tf.zeros([1], row_limits.dtype), row_limits], 0), internal=True)

    @classmethod
    def from_value_rowids(cls, values: Any, value_rowids: Any, nrows: Any = None, name: str | None = None,
                          validate: bool = True) -> RaggedTensor:
        """From the number of the row that each value belongs to."""
        _validate_flag(validate)
        with tf.name_scope(name, "RaggedFromValueRowIds", [values, value_rowids, nrows]):
            values, value_rowids = _partition(values, value_rowids, "value_rowids")
            nrows, known = _row_count(value_rowids, nrows)
            value_rowids.shape.assert_has_rank(1)
            nrows.shape.assert_has_rank(0)
            values.shape[:1].assert_is_compatible_with(value_rowids.shape)
            if validate:
                m = "Arguments to from_value_rowids do not form a valid RaggedTensor"
                value_rowids = _checked(value_rowids, [
                    tf.debugging.assert_rank(value_rowids, 1, message=m),
                    tf.debugging.assert_rank(nrows, 0, message=m),
                    tf.debugging.assert_equal(_nvals(values, dtypes.int64), _nvals(value_rowids, dtypes.int64), message=m),
                    tf.debugging.assert_non_negative(value_rowids[:1], message=m),
                    _increasing(value_rowids, m),
                    tf.debugging.assert_less(value_rowids[-1:], nrows, message=m)])
            rows32 = tf.cast(nrows, dtypes.int32)
            lengths = tf.bincount(tf.cast(value_rowids, dtypes.int32), minlength=rows32, maxlength=rows32,
                                  dtype=value_rowids.dtype)
            splits = tf.concat([tf.zeros([1], lengths.dtype), tf.cumsum(lengths)], 0)
            if known is not None:
                lengths.set_shape([known])
                splits.set_shape([known + 1])
            return cls(values, splits, lengths, value_rowids, nrows, internal=True)

    @classmethod
    def from_uniform_row_length(cls, values: Any, uniform_row_length: Any, nrows: Any = None, validate: bool = True,
                                name: str | None = None) -> RaggedTensor:
        """Rows of one length."""
        with tf.name_scope(name, "RaggedFromUniformRowLength", [values]):
            values = convert_to_tensor_or_ragged_tensor(values)
            length = convert(uniform_row_length, dtypes.int64)
            count = _nvals(values, dtypes.int64) // tf.maximum(length, 1) if nrows is None else convert(nrows, dtypes.int64)
            return cls.from_row_splits(values, tf.range(count + 1) * length, validate=validate)

    @classmethod
    def _nested(cls, factory: Any, flat_values: Any, nested: Any, what: str, name: str | None, validate: bool) -> Any:
        if isinstance(nested, Tensor):
            raise TypeError(f"{what} must be a list of Tensors")
        with tf.name_scope(name, "RaggedFromNested", [flat_values, *nested]):
            out = flat_values
            for part in reversed(list(nested)):
                out = factory(out, part, validate=validate)
            return out

    @classmethod
    def from_nested_row_splits(cls, flat_values: Any, nested_row_splits: Any, name: str | None = None,
                               validate: bool = True) -> Any:
        """From row splits of several dimensions, outermost first."""
        return cls._nested(cls.from_row_splits, flat_values, nested_row_splits, "nested_row_splits", name, validate)

    @classmethod
    def from_nested_row_lengths(cls, flat_values: Any, nested_row_lengths: Any, name: str | None = None,
                                validate: bool = True) -> Any:
        """From row lengths of several dimensions, outermost first."""
        return cls._nested(cls.from_row_lengths, flat_values, nested_row_lengths, "nested_row_lengths", name, validate)

    @classmethod
    def from_nested_value_rowids(cls, flat_values: Any, nested_value_rowids: Any, nested_nrows: Any = None,
                                 name: str | None = None, validate: bool = True) -> Any:
        """From row ids of several dimensions, outermost first."""
        if isinstance(nested_value_rowids, Tensor):
            raise TypeError("nested_value_rowids must be a list of Tensors")
        if nested_nrows is None:
            nested_nrows = [None] * len(nested_value_rowids)
        elif isinstance(nested_nrows, Tensor):
            raise TypeError("nested_nrows must be a list of Tensors")
        elif len(nested_nrows) != len(nested_value_rowids):
            raise ValueError("nested_nrows must have the same length as nested_value_rowids")
        with tf.name_scope(name, "RaggedFromNestedValueRowIds", [flat_values, *nested_value_rowids, *nested_nrows]):
            out = flat_values
            for ids, n in reversed(list(zip(nested_value_rowids, nested_nrows, strict=True))):
                out = cls.from_value_rowids(out, ids, n, validate=validate)
            return out

    # -- what is known -----------------------------------------------------------------------------------------------
    values = property(lambda self: self._values, doc="The concatenated rows.")
    row_splits = property(lambda self: self._row_splits, doc="Where the rows begin, and the end of the last.")
    dtype = property(lambda self: self._values.dtype, doc="The DType of the values.")

    @property
    def shape(self) -> TensorShape:
        """The static shape; ragged dimensions are unknown."""
        splits = self._row_splits.shape._dims
        n = None if splits is None or splits[0] is None else splits[0] - 1
        return TensorShape([n, None]).concatenate(self._values.shape[1:])

    def get_shape(self) -> TensorShape:
        """Alias of `shape`."""
        return self.shape

    @property
    def ragged_rank(self) -> int:
        """The number of ragged dimensions."""
        return self._values.ragged_rank + 1 if isinstance(self._values, RaggedTensor) else 1

    @property
    def flat_values(self) -> Tensor:
        """The innermost values."""
        v = self._values
        while isinstance(v, RaggedTensor):
            v = v.values
        return v

    @property
    def nested_row_splits(self) -> tuple:
        """The row splits of all ragged dimensions, outermost first."""
        out, v = [self._row_splits], self._values
        while isinstance(v, RaggedTensor):
            out.append(v.row_splits)
            v = v.values
        return tuple(out)

    def value_rowids(self, name: str | None = None) -> Tensor:
        """The row number of each value."""
        from penstock._src.library.ragged.segments import row_splits_to_segment_ids
        if self._cached_value_rowids is not None:
            return self._cached_value_rowids
        with tf.name_scope(name, "RaggedValueRowIds", [self._row_splits]):
            return row_splits_to_segment_ids(self._row_splits)

    def nested_value_rowids(self, name: str | None = None) -> tuple:
        """The row numbers of all ragged dimensions, outermost first."""
        with tf.name_scope(name, "RaggedNestedValueRowIds", []):
            out, v = [self.value_rowids()], self._values
            while isinstance(v, RaggedTensor):
                out.append(v.value_rowids())
                v = v.values
            return tuple(out)

    def nrows(self, out_type: Any = None, name: str | None = None) -> Tensor:
        """The number of rows."""
        out_type = self._row_splits.dtype if out_type is None else dtypes.as_dtype(out_type)
        if self._cached_nrows is not None:
            return tf.cast(self._cached_nrows, out_type)
        with tf.name_scope(name, "RaggedNRows", [self._row_splits]):
            return tf.shape(self._row_splits, out_type=out_type)[0] - 1

    def row_starts(self, name: str | None = None) -> Tensor:
        """Where the rows begin."""
        with tf.name_scope(name, "RaggedRowStarts", [self._row_splits]):
            return self._row_splits[:-1]

    def row_limits(self, name: str | None = None) -> Tensor:
        """Where the rows end."""
        with tf.name_scope(name, "RaggedRowLimits", [self._row_splits]):
            return self._row_splits[1:]

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """The lengths of the rows of dimension `axis`; ragged for axis > 1."""
        from penstock._src.library.ragged.segments import get_positive_axis
        if self._cached_row_lengths is not None and axis == 1:
            return self._cached_row_lengths
        with tf.name_scope(name, "RaggedRowLengths", [self._row_splits]):
            axis = get_positive_axis(axis, self.shape.ndims)
            if axis == 0:
                return self.nrows()
            if axis == 1:
                return self._row_splits[1:] - self._row_splits[:-1]
            if isinstance(self._values, RaggedTensor):
                return self.with_values(self._values.row_lengths(axis - 1))
            shape = tf.shape(self._values, out_type=self._row_splits.dtype)
            return self.with_values(tf.ones(shape[:axis - 1], shape.dtype) * shape[axis - 1])

    def nested_row_lengths(self, name: str | None = None) -> tuple:
        """The row lengths of all ragged dimensions, outermost first."""
        with tf.name_scope(name, "RaggedNestedRowLengths", []):
            out, v = [], self
            while isinstance(v, RaggedTensor):
                out.append(v.row_lengths())
                v = v.values
            return tuple(out)

    def bounding_shape(self, axis: Any = None, name: str | None = None, out_type: Any = None) -> Tensor:
        """The shape of the smallest dense tensor that holds this one."""
        out_type = self._row_splits.dtype if out_type is None else dtypes.as_dtype(out_type)
        with tf.name_scope(name, "RaggedBoundingBox", [self._row_splits]):
            if axis is not None and isinstance(axis, int) and axis in (0, 1):
                size = self.nrows() if axis == 0 else tf.maximum(tf.reduce_max(self.row_lengths()), 0)
                return tf.cast(size, out_type)
            splits = self.nested_row_splits
            longest = [tf.maximum(tf.reduce_max(s[1:] - s[:-1]), 0) for s in splits]
            inner = tf.shape(self.flat_values, out_type=self._row_splits.dtype)[1:]
            box = tf.concat([tf.stack([self.nrows(), *longest]), inner], 0)
            box = tf.cast(box, out_type)
            return box if axis is None else tf.gather(box, axis)

    # -- changed copies ------------------------------------------------------------------------------------------------
    def with_values(self, new_values: Any) -> RaggedTensor:
        """The same rows over other values."""
        new_values = convert_to_tensor_or_ragged_tensor(new_values)
        new_values.shape.with_rank_at_least(1)
        self._values.shape[:1].assert_is_compatible_with(new_values.shape[:1])
        if isinstance(new_values, RaggedTensor) and self._row_splits.dtype != new_values.row_splits.dtype:
            return self.with_row_splits_dtype(dtypes.int64).with_values(new_values.with_row_splits_dtype(dtypes.int64))
        return RaggedTensor(new_values, self._row_splits, self._cached_row_lengths, self._cached_value_rowids,
                            self._cached_nrows, internal=True)

    def with_flat_values(self, new_values: Any) -> RaggedTensor:
        """The same rows, at all levels, over other innermost values."""
        if isinstance(self._values, RaggedTensor):
            return self.with_values(self._values.with_flat_values(new_values))
        return self.with_values(convert_to_tensor_or_ragged_tensor(new_values))

    def merge_dims(self, outer_axis: int, inner_axis: int) -> Any:
        """The same values with the dimensions from `outer_axis` to `inner_axis` merged into one.

        >>> tf.ragged.constant([[[1, 2], [3]], [[4]]]).merge_dims(1, 2)
        <tf.RaggedTensor [[1, 2, 3], [4]]>
        """
        from penstock._src.library.ragged.merging import merge_dims
        return merge_dims(self, outer_axis, inner_axis)

    def with_row_splits_dtype(self, dtype: Any) -> RaggedTensor:
        """The same tensor with row splits of another dtype."""
        dtype = dtypes.as_dtype(dtype)
        if dtype not in INDEX:
            raise ValueError("dtype must be int32 or int64")
        if self._row_splits.dtype == dtype:
            return self
        values = self._values.with_row_splits_dtype(dtype) if isinstance(self._values, RaggedTensor) else self._values

        def cast(t: Any) -> Any:
            return None if t is None else tf.cast(t, dtype)
        return RaggedTensor(values, cast(self._row_splits), cast(self._cached_row_lengths),
                            cast(self._cached_value_rowids), cast(self._cached_nrows), internal=True)

    # -- as Python, numpy, graph ------------------------------------------------------------------------------------------
    def _is_eager(self) -> bool:
        return all(hasattr(t, "_value") for t in (*self.nested_row_splits, self.flat_values))

    def _eager_value(self) -> RaggedTensorValue:
        value = np.asarray(self.flat_values.numpy())
        for splits in reversed(self.nested_row_splits):
            value = RaggedTensorValue(value, splits.numpy())
        return value

    def to_list(self) -> list:
        """Nested Python lists (eager execution)."""
        if not self._is_eager():
            raise ValueError("RaggedTensor.to_list() is only supported in eager mode; in graph mode, evaluate the "
                             "RaggedTensor first and then use RaggedTensorValue.to_list().")
        return self._eager_value().to_list()

    def numpy(self) -> np.ndarray:
        """A numpy array of rows (eager execution)."""
        rows = self.to_list()
        out = np.empty(len(rows), dtype=object)
        for i, r in enumerate(rows):
            out[i] = np.array(r)
        return out

    def __repr__(self) -> str:
        if self._is_eager():
            return f"<tf.RaggedTensor {self.to_list()}>"
        return f"tf.RaggedTensor(values={self._values}, row_splits={self._row_splits})"

    def __len__(self) -> int:
        if self._is_eager():
            return int(self.nrows())
        raise TypeError("len of a ragged tensor is known in eager execution only; use nrows()")

    def __iter__(self) -> Any:
        if not self._is_eager():
            raise TypeError("Ragged tensors can be iterated in eager execution only; use tf.map_fn")
        return (self[i] for i in range(len(self)))

    def __hash__(self) -> int:
        return id(self)

    def consumers(self) -> list:
        """The operations that use a part of it."""
        seen: dict = {}
        for t in (self.flat_values, *reversed(self.nested_row_splits)):
            for op in t.consumers():
                seen[op] = None
        return list(seen)

    @property
    def op(self) -> Any:
        """The operation of the innermost values."""
        return self.flat_values.op

    @property
    def graph(self) -> Any:
        """The graph of the innermost values."""
        return self.flat_values.graph

    def _as_graph_element(self) -> Any:
        """Fetched and fed through the conversion functions below."""
        return self

    @property
    def _type_spec(self) -> Any:
        from penstock._src.library.ragged.spec import RaggedTensorSpec
        return RaggedTensorSpec.from_value(self)

    def _shape_invariant_to_type_spec(self, shape: Any) -> Any:
        from penstock._src.library.ragged.spec import RaggedTensorSpec
        return RaggedTensorSpec(shape, self.dtype, self.ragged_rank, self._row_splits.dtype)

    def _gradient_components(self) -> list:
        return [self.flat_values]

    def _with_gradient_components(self, parts: list) -> Any:
        return None if parts[0] is None else self.with_flat_values(parts[0])

    @staticmethod
    def _override_operator(operator: str, func: Any) -> None:
        setattr(RaggedTensor, operator, func)

    # -- conversions ----------------------------------------------------------------------------------------------------
    @classmethod
    def from_tensor(cls, tensor: Any, lengths: Any = None, padding: Any = None, ragged_rank: int = 1,
                    name: str | None = None, row_splits_dtype: Any = dtypes.int64) -> Any:
        """A dense tensor as ragged; padding at the ends of rows, or what is beyond `lengths`, is left out."""
        from penstock._src.library.ragged.conversion import from_tensor
        return from_tensor(tensor, lengths, padding, ragged_rank, name, row_splits_dtype)

    def to_tensor(self, default_value: Any = None, name: str | None = None, shape: Any = None) -> Tensor:
        """A dense tensor, short rows filled up with `default_value`."""
        from penstock._src.library.ragged.conversion import to_tensor
        return to_tensor(self, default_value, name, shape)

    @classmethod
    def from_sparse(cls, st_input: Any, name: str | None = None, row_splits_dtype: Any = dtypes.int64) -> Any:
        """A sparse matrix whose rows are filled from the left, as ragged."""
        from penstock._src.library.ragged.conversion import from_sparse
        return from_sparse(st_input, name, row_splits_dtype)

    def to_sparse(self, name: str | None = None) -> SparseTensor:
        """A sparse tensor."""
        from penstock._src.library.ragged.conversion import to_sparse
        return to_sparse(self, name)

    @classmethod
    def _from_variant(cls, variant: Any, dtype: Any, output_ragged_rank: int, input_ragged_rank: int | None = None,
                      name: str | None = None) -> Any:
        from penstock._src.library.ragged.conversion import from_variant
        return from_variant(variant, dtype, output_ragged_rank, input_ragged_rank, name)

    def _to_variant(self, batched_input: bool = False, name: str | None = None) -> Tensor:
        from penstock._src.library.ragged.conversion import to_variant
        return to_variant(self, batched_input, name)

    def __getitem__(self, key: Any) -> Any:
        from penstock._src.library.ragged.getitem import ragged_getitem
        return ragged_getitem(self, key)

    @staticmethod
    def _dispatch(fn: Any, args: tuple, kwargs: dict) -> Any:
        from penstock._src.library.ragged.dispatch import dispatch
        return dispatch(fn, args, kwargs)


def _row_count(value_rowids: Any, nrows: Any) -> tuple[Any, int | None]:
    """The number of rows as a tensor, and as an int if it is known at build time."""
    ids = constant_value(value_rowids)
    if nrows is None:
        if ids is None:
            return tf.concat([value_rowids[-1:], tf.constant([-1], value_rowids.dtype)], 0)[0] + 1, None
        known = int(ids[-1]) + 1 if ids.size else 0
        return convert(known, value_rowids.dtype, "nrows"), known
    nrows = convert(nrows, value_rowids.dtype, "nrows")
    count = constant_value(nrows)
    if count is None or np.ndim(count):
        return nrows, None
    if count < 0:
        raise ValueError(f"Expected nrows >= 0; got {count}")
    if ids is not None and ids.size and count < ids[-1] + 1:
        raise ValueError(f"Expected nrows >= value_rowids[-1] + 1; got nrows={count}, value_rowids[-1]={ids[-1]}")
    return nrows, int(count)


def _fetch(rt: RaggedTensor) -> tuple:
    def join(parts: list) -> RaggedTensorValue:
        value = np.asarray(parts[0])
        for splits in parts[1:]:
            value = RaggedTensorValue(value, splits)
        return value
    return [rt.flat_values, *reversed(rt.nested_row_splits)], join


def _feed(rt: RaggedTensor, value: Any) -> list:
    return list(zip([rt.flat_values, *rt.nested_row_splits], [value.flat_values, *value.nested_row_splits], strict=True))


register_session_run_conversion_functions(RaggedTensor, _fetch, _feed,
                                          lambda rt: [rt.flat_values, *rt.nested_row_splits])
