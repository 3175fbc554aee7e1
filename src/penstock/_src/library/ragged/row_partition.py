"""RowPartition: how a list of values is divided into rows.

The canonical encoding is `row_splits`; row lengths, row numbers, counts and a uniform length are cached if they were
given. A RaggedTensor is a RowPartition with values.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.type_registry import register
from penstock._src.graph.type_spec import TensorSpec, TypeSpec
from penstock._src.library.ragged.segments import row_splits_to_segment_ids
from penstock.compat import v1 as tf

_DIFFERENT = "Inputs must have identical ragged splits: partitions have incompatible"
INDEX = (dtypes.int32, dtypes.int64)


def static_int(value: Any) -> int | None:
    """The integer that a scalar tensor is known to hold, or None."""
    found = None if value is None else constant_value(value)
    return None if found is None or np.ndim(found) else int(found)


def _static_length(t: Any) -> int | None:
    return None if t is None or t.static_dims is None else t.static_dims[0]


def checked(tensor: Any, checks: list) -> Any:
    """`tensor` after the given assertions."""
    with tf.control_dependencies([c for c in checks if c is not None]):
        return tf.identity(tensor)


def _increasing(t: Any, message: str) -> Any:
    return tf.debugging.assert_non_negative(t[1:] - t[:-1], message=message)


def _validate_flag(validate: Any) -> None:
    if not isinstance(validate, bool):
        raise TypeError(f"`validate` must be a bool, got {validate}.")


def _index(values: Any, name: str, dtype: Any, hint: Any, rank: int = 1) -> Any:
    """A row-partitioning argument as a tensor of integers."""
    dtype = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(values, np.ndarray) and values.dtype == np.int32 and dtype is None:
        out = convert(values, name=name)
    else:
        out = convert(values, None if isinstance(values, Tensor) else dtype, name,
                      preferred_dtype=dtypes.int64 if hint is None else dtypes.as_dtype(hint))
    if out.dtype not in INDEX:
        raise ValueError(f"Argument `{name}` must have dtype int32 or int64. Received {out.dtype.name}.")
    out.shape.assert_has_rank(rank)
    return tf.cast(out, dtype) if dtype is not None and out.dtype != dtype else out


@export("experimental.RowPartition")
class RowPartition(CompositeTensor):
    """A partition of values into rows. Created by the `from_...` methods.

    >>> p = tf.experimental.RowPartition.from_row_lengths([4, 0, 3])
    >>> p.row_splits()          # [0, 4, 4, 7]
    """

    def __init__(self, row_splits: Any, row_lengths: Any = None, value_rowids: Any = None, nrows: Any = None,
                 uniform_row_length: Any = None, nvals: Any = None, internal: Any = None):
        if internal is not _KEY:
            raise ValueError("RowPartition constructor is private; please use one of the factory methods instead (e.g., "
                             "RowPartition.from_row_lengths())")
        if not isinstance(row_splits, Tensor):
            raise TypeError(f"Row-partitioning argument must be a Tensor. Received {row_splits!r}.")
        if row_splits.dtype not in INDEX:
            raise ValueError(f"Row-partitioning argument must be int32 or int64. Received {row_splits.dtype.name}.")
        row_splits.shape.assert_has_rank(1)
        if not hasattr(row_splits, "_value"):
            row_splits.set_shape([None])
        self._row_splits, self._row_lengths, self._value_rowids = row_splits, row_lengths, value_rowids
        self._nrows, self._uniform_row_length, self._nvals = nrows, uniform_row_length, nvals

    # -- factories ------------------------------------------------------------------------------------------------
    @classmethod
    def from_row_splits(cls, row_splits: Any, validate: bool = True, dtype: Any = None, dtype_hint: Any = None) -> RowPartition:
        """From where each row begins, and the end of the last."""
        _validate_flag(validate)
        if isinstance(row_splits, (list, tuple)) and not row_splits:
            raise ValueError("row_splits tensor may not be empty")
        with tf.name_scope(None, "RowPartitionFromRowSplits", [row_splits]):
            row_splits = _index(row_splits, "row_splits", dtype, dtype_hint)
            if validate:
                if row_splits.static_dims == (0,):
                    raise ValueError("row_splits tensor may not be empty")
                m = "Arguments to from_row_splits do not form a valid RowPartition"
                row_splits = checked(row_splits, [
                    tf.debugging.assert_rank(row_splits, 1, message=m),
                    tf.debugging.assert_equal(row_splits[0], tf.constant(0, row_splits.dtype), message=m),
                    _increasing(row_splits, m)])
            return cls(row_splits, internal=_KEY)

    @classmethod
    def from_row_lengths(cls, row_lengths: Any, validate: bool = True, dtype: Any = None,
                         dtype_hint: Any = None) -> RowPartition:
        """From the length of each row."""
        _validate_flag(validate)
        with tf.name_scope(None, "RowPartitionFromRowLengths", [row_lengths]):
            row_lengths = _index(row_lengths, "row_lengths", dtype, dtype_hint)
            if validate:
                m = "Arguments to from_row_lengths do not form a valid RowPartition"
                row_lengths = checked(row_lengths, [tf.debugging.assert_rank(row_lengths, 1, message=m),
                                                    tf.debugging.assert_non_negative(row_lengths, message=m)])
            splits = tf.concat([tf.zeros([1], row_lengths.dtype), tf.cumsum(row_lengths)], 0)
            return cls(splits, row_lengths=row_lengths, internal=_KEY)

    @classmethod
    def from_row_starts(cls, row_starts: Any, nvals: Any, validate: bool = True, dtype: Any = None,
                        dtype_hint: Any = None) -> RowPartition:
        """From where each row begins, and the number of values."""
        _validate_flag(validate)
        with tf.name_scope(None, "RowPartitionFromRowStarts", [row_starts]):
            row_starts = _index(row_starts, "row_starts", dtype, dtype_hint)
            nvals = tf.cast(convert(nvals, name="nvals"), row_starts.dtype)
            if validate:
                m = "Arguments to from_row_starts do not form a valid RaggedTensor"
                row_starts = checked(row_starts, [
                    tf.debugging.assert_rank(row_starts, 1, message=m),
                    tf.debugging.assert_equal(row_starts[:1], tf.constant(0, row_starts.dtype), message=m),
                    _increasing(row_starts, m),
                    tf.debugging.assert_less_equal(row_starts[-1:], nvals, message=m)])
            return cls(tf.concat([row_starts, tf.expand_dims(nvals, 0)], 0), nvals=nvals, internal=_KEY)

    @classmethod
    def from_row_limits(cls, row_limits: Any, validate: bool = True, dtype: Any = None, dtype_hint: Any = None) -> RowPartition:
        """From where each row ends."""
        _validate_flag(validate)
        with tf.name_scope(None, "RowPartitionFromRowLimits", [row_limits]):
            row_limits = _index(row_limits, "row_limits", dtype, dtype_hint)
            if validate:
                m = "Arguments to from_row_limits do not form a valid RaggedTensor"
                row_limits = checked(row_limits, [
                    tf.debugging.assert_rank(row_limits, 1, message=m),
                    tf.debugging.assert_non_negative(row_limits[:1], message=m), _increasing(row_limits, m)])
            return cls(tf.concat([tf.zeros([1], row_limits.dtype), row_limits], 0), internal=_KEY)

    @classmethod
    def from_value_rowids(cls, value_rowids: Any, nrows: Any = None, validate: bool = True, dtype: Any = None,
                          dtype_hint: Any = None) -> RowPartition:
        """From the number of the row that each value belongs to."""
        _validate_flag(validate)
        with tf.name_scope(None, "RowPartitionFromValueRowIds", [value_rowids, nrows]):
            value_rowids = _index(value_rowids, "value_rowids", dtype, dtype_hint)
            nrows, known = _row_count(value_rowids, nrows)
            nrows.shape.assert_has_rank(0)
            if validate:
                m = "Arguments to from_value_rowids do not form a valid RowPartition"
                value_rowids = checked(value_rowids, [
                    tf.debugging.assert_rank(value_rowids, 1, message=m), tf.debugging.assert_rank(nrows, 0, message=m),
                    tf.debugging.assert_non_negative(value_rowids[:1], message=m), _increasing(value_rowids, m),
                    tf.debugging.assert_less(value_rowids[-1:], nrows, message=m)])
            kind = value_rowids.dtype
            rows = tf.range(tf.constant(1, kind), tf.cast(nrows, kind) + 1)
            ends = tf.searchsorted(value_rowids, rows, out_type=kind)              # row numbers are sorted
            splits = tf.concat([tf.zeros([1], kind), ends], 0)
            lengths = splits[1:] - splits[:-1]
            if known is not None:
                lengths.set_shape([known])
                splits.set_shape([known + 1])
            return cls(splits, lengths, value_rowids, nrows, internal=_KEY)

    @classmethod
    def from_uniform_row_length(cls, uniform_row_length: Any, nvals: Any = None, nrows: Any = None, validate: bool = True,
                                dtype: Any = None, dtype_hint: Any = None) -> RowPartition:
        """Rows of one length; `nrows` must be given if that is zero, else `nvals` is enough."""
        _validate_flag(validate)
        if nrows is None and nvals is None:
            raise ValueError("At least one of (nvals, nrows) must be specified")
        with tf.name_scope(None, "RowPartitionFromUniformRowLength", [uniform_row_length, nrows]):
            kinds = {x.dtype for x in (uniform_row_length, nvals, nrows) if isinstance(x, Tensor)}
            dtype = dtype or (next(iter(kinds)) if len(kinds) == 1 else dtypes.int64 if kinds else dtype_hint)
            length = _index(uniform_row_length, "uniform_row_length", dtype, dtype_hint, rank=0)
            dtype = length.dtype
            nvals = None if nvals is None else _index(nvals, "nvals", dtype, None, rank=0)
            nrows = None if nrows is None else _index(nrows, "nrows", dtype, None, rank=0)
            length, nvals, nrows = _uniform_counts(length, nvals, nrows, validate)
            count = static_int(nrows)
            splits = tf.range(nrows + 1) * length
            if count is not None:
                splits.set_shape([count + 1])
            return cls(splits, nrows=nrows, uniform_row_length=length, nvals=nvals, internal=_KEY)

    # -- what is known ----------------------------------------------------------------------------------------------
    dtype = property(lambda self: self._row_splits.dtype, doc="int32 or int64.")

    @property
    def static_nrows(self) -> int | None:
        """The number of rows, if it is known when the graph is built."""
        for n in (self._row_splits, self._row_lengths):
            found = _static_length(n)
            if found is not None:
                return found - (n is self._row_splits)
        return static_int(self._nrows)

    @property
    def static_nvals(self) -> int | None:
        """The number of values, if it is known when the graph is built."""
        known = static_int(self._nvals)
        if known is not None:
            return known
        known = _static_length(self._value_rowids)
        if known is not None:
            return known
        rows, length = self.static_nrows, self.static_uniform_row_length
        return None if rows is None or length is None else rows * length

    @property
    def static_uniform_row_length(self) -> int | None:
        """The length of every row, if any that is known when the graph is built."""
        return static_int(self._uniform_row_length)

    def is_uniform(self) -> bool:
        """Whether it is known that all rows have one length."""
        return self._uniform_row_length is not None

    def uniform_row_length(self) -> Any:
        """The length of every row as a tensor, or None."""
        return self._uniform_row_length

    def row_splits(self) -> Tensor:
        """Where the rows begin, and the end of the last."""
        return self._row_splits

    def value_rowids(self) -> Tensor:
        """The row number of each value."""
        return self._value_rowids if self._value_rowids is not None else row_splits_to_segment_ids(self._row_splits)

    def nvals(self) -> Tensor:
        """The number of values."""
        return self._nvals if self._nvals is not None else self._row_splits[-1]

    def nrows(self) -> Tensor:
        """The number of rows."""
        if self._nrows is not None:
            return self._nrows
        known = self.static_nrows
        return tf.constant(known, self.dtype) if known is not None else \
            tf.shape(self._row_splits, out_type=self.dtype)[0] - 1

    def row_starts(self) -> Tensor:
        """Where the rows begin."""
        return self._row_splits[:-1]

    def row_limits(self) -> Tensor:
        """Where the rows end."""
        return self._row_splits[1:]

    def row_lengths(self) -> Tensor:
        """The length of each row."""
        return self._row_lengths if self._row_lengths is not None else self._row_splits[1:] - self._row_splits[:-1]

    def offsets_in_rows(self) -> Tensor:
        """The position of each value within its row."""
        return tf.range(tf.cast(self.nvals(), self.dtype)) - tf.gather(self.row_starts(), self.value_rowids())

    # -- changed copies -----------------------------------------------------------------------------------------------
    def with_dtype(self, dtype: Any) -> RowPartition:
        """The same partition with integers of another dtype."""
        dtype = dtypes.as_dtype(dtype)
        if dtype not in INDEX:
            raise ValueError(f"Argument `dtype` must be int32 or int64. Received {dtype.name}.")
        if dtype == self.dtype:
            return self
        return self._of(None if t is None else tf.cast(t, dtype) for t in self._encodings())

    def _encodings(self) -> tuple:
        return (self._row_splits, self._row_lengths, self._value_rowids, self._nrows, self._uniform_row_length, self._nvals)

    def _with_dependencies(self, dependencies: list) -> RowPartition:
        """The same partition, whose splits wait for assertions."""
        return self._with(row_splits=checked(self._row_splits, dependencies))

    def _with(self, **encodings: Any) -> RowPartition:
        return RowPartition(**{**dict(zip(_ENCODINGS, self._encodings(), strict=True)), **encodings}, internal=_KEY)

    @staticmethod
    def _of(encodings: Iterable) -> RowPartition:
        return RowPartition(**dict(zip(_ENCODINGS, encodings, strict=True)), internal=_KEY)

    def _with_precomputed_row_splits(self) -> RowPartition:
        return self

    def _with_precomputed_row_lengths(self) -> RowPartition:
        return self._with(row_lengths=self.row_lengths())

    def _with_precomputed_value_rowids(self) -> RowPartition:
        return self._with(value_rowids=self.value_rowids())

    def _with_precomputed_nrows(self) -> RowPartition:
        return self._with(nrows=self.nrows())

    def _with_precomputed_nvals(self) -> RowPartition:
        return self._with(nvals=self.nvals())

    def _has_precomputed_row_splits(self) -> bool:
        return self._row_splits is not None

    def _has_precomputed_row_lengths(self) -> bool:
        return self._row_lengths is not None

    def _has_precomputed_value_rowids(self) -> bool:
        return self._value_rowids is not None

    def _has_precomputed_nrows(self) -> bool:
        return self._nrows is not None

    def _has_precomputed_nvals(self) -> bool:
        return self._nvals is not None

    def _merge_precomputed_encodings(self, other: RowPartition, validate: bool = True) -> RowPartition:
        """This partition with the encodings that only an equal one has."""
        if self is other or self._row_splits is other._row_splits and all(e is None for e in other._encodings()[1:]):
            return self
        checks = []
        if self.dtype != other.dtype:
            raise ValueError(f"Argument `other` has dtype {other.dtype}; expected {self.dtype}.")
        for mine, its, what in zip((self.static_nrows, self.static_nvals), (other.static_nrows, other.static_nvals),
                                   ("static_nrows", "static_nvals"), strict=True):
            if mine is not None and its is not None and mine != its:
                raise ValueError(f"{_DIFFERENT} {what}: {mine} and {its}")
        a, b = constant_value(self._row_splits), constant_value(other._row_splits)
        if a is not None and b is not None:
            if not np.array_equal(a, b):
                raise errors.InvalidArgumentError(None, None, f"{_DIFFERENT} row_splits: {a} and {b}")
        elif validate and self._row_splits is not other._row_splits:
            checks.append(tf.debugging.assert_equal(self._row_splits, other._row_splits, message=f"{_DIFFERENT} row_splits"))
        merged = self._of(its if mine is None else mine
                          for mine, its in zip(self._encodings(), other._encodings(), strict=True))
        return merged._with_dependencies(checks) if checks else merged

    def _merge_with_spec(self, b: RowPartitionSpec) -> RowPartition:
        """This partition with what a spec knows of it."""
        merged = self._type_spec.with_dtype(b.dtype)._merge_with(b)
        nrows, nvals, uniform = (None if v is None else tf.constant(v, b.dtype)
                                 for v in (merged.nrows, merged.nvals, merged.uniform_row_length))
        cast = self.with_dtype(b.dtype)
        splits = cast._row_splits
        if merged.nrows is not None and not hasattr(splits, "_value"):
            splits.set_shape([merged.nrows + 1])
        return cast._with(row_splits=splits, nrows=cast._nrows if nrows is None else nrows,
                          nvals=cast._nvals if nvals is None else nvals,
                          uniform_row_length=cast._uniform_row_length if uniform is None else uniform)

    @property
    def _type_spec(self) -> RowPartitionSpec:
        return RowPartitionSpec(self.static_nrows, self.static_nvals, self.static_uniform_row_length, self.dtype)

    def __repr__(self) -> str:
        if self._uniform_row_length is not None:
            return f"tf.RowPartition(nrows={self._nrows}, uniform_row_length={self._uniform_row_length})"
        return f"tf.RowPartition(row_splits={self._row_splits})"


_KEY = object()
_ENCODINGS = ("row_splits", "row_lengths", "value_rowids", "nrows", "uniform_row_length", "nvals")


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


def _uniform_counts(length: Any, nvals: Any, nrows: Any, validate: bool) -> tuple[Any, Any, Any]:
    """Consistent row length, number of values and number of rows."""
    m = "Arguments to from_uniform_row_length do not form a valid RowPartition"
    size, values, rows = static_int(length), static_int(nvals), static_int(nrows)
    if size is not None and size < 0:
        raise ValueError(f"uniform_row_length must be greater than or equal to 0; got {size}.")
    if nrows is None:
        if nvals is None:
            raise ValueError("nvals is required if nrows is None")
        if size == 0:
            nrows = tf.constant(0, length.dtype)
        elif size is not None and values is not None:
            if values % size and validate:
                raise ValueError(f"{m}: {values} values cannot be divided into rows of {size}.")
            nrows = tf.constant(values // size, length.dtype)
        else:
            nrows = tf.math.floordiv(nvals, tf.maximum(length, tf.constant(1, length.dtype)))
    checks = []
    if nvals is None:
        nvals = nrows * length
    elif validate:
        rows = static_int(nrows)
        if None not in (size, values, rows):
            if size * rows != values:                      # type: ignore[operator]
                raise ValueError(f"{m}: nvals={values}, nrows={rows}, uniform_row_length={size}")
        else:
            checks.append(tf.debugging.assert_equal(nrows * length, nvals, message=m))
    if validate and size is None:
        checks.append(tf.debugging.assert_non_negative(length, message=m))
    return (checked(length, checks) if checks else length), nvals, nrows


@register("tf.RowPartitionSpec")
class RowPartitionSpec(TypeSpec):
    """The type of a RowPartition: what is known of its numbers of rows and values."""

    __slots__ = ("_nrows", "_nvals", "_uniform_row_length", "_dtype")

    def __init__(self, nrows: Any = None, nvals: Any = None, uniform_row_length: Any = None, dtype: Any = dtypes.int64):
        nrows, nvals, length = (TensorShape([n]).static_dims[0] for n in (nrows, nvals, uniform_row_length))
        if length is not None and nrows is not None:
            if nvals is None:
                nvals = nrows * length
            elif nvals != nrows * length:
                raise ValueError("Arguments to RowPartitionSpec are not compatible with each other: "
                                 f"nrows={nrows}, nvals={nvals}, uniform_row_length={length}")
        elif length and nvals is not None:
            if nvals % length:
                raise ValueError("Arguments to RowPartitionSpec are not compatible with each other: "
                                 f"nvals={nvals}, uniform_row_length={length}")
            nrows = nvals // length
        elif length is None and nrows and nvals is not None and nrows == 0 and nvals:
            raise ValueError("A partition without rows has no values.")
        if nrows == 0 and nvals is None:
            nvals = 0
        if length == 0 and nvals is None:
            nvals = 0
        if nrows == 0 and nvals or length == 0 and nvals:
            raise ValueError(f"nvals={nvals} does not match nrows={nrows}, uniform_row_length={length}")
        self._nrows, self._nvals, self._uniform_row_length = nrows, nvals, length
        self._dtype = dtypes.as_dtype(dtype)
        if self._dtype not in INDEX:
            raise ValueError("dtype must be tf.int32 or tf.int64")

    value_type = property(lambda self: RowPartition, doc="The class of the values.")
    nrows = property(lambda self: self._nrows, doc="The number of rows, or None.")
    nvals = property(lambda self: self._nvals, doc="The number of values, or None.")
    uniform_row_length = property(lambda self: self._uniform_row_length, doc="The length of every row, or None.")
    dtype = property(lambda self: self._dtype, doc="int32 or int64.")

    @classmethod
    def from_value(cls, value: Any) -> RowPartitionSpec:
        """The spec of a partition."""
        if not isinstance(value, RowPartition):
            raise TypeError("Expected a RowPartition")
        return value._type_spec

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a partition could be of this type."""
        other = other._type_spec if isinstance(other, RowPartition) else other
        if not isinstance(other, RowPartitionSpec):
            return False
        mine, its = self._numbers(), other._numbers()
        return self._dtype == other.dtype and all(a is None or b is None or a == b for a, b in zip(mine, its, strict=True))

    def _numbers(self) -> tuple[int | None, int | None, int | None]:
        return self._nrows, self._nvals, self._uniform_row_length

    def _serialize(self) -> tuple:
        return (*(TensorShape([n]) for n in self._numbers()), self._dtype)

    @classmethod
    def _deserialize(cls, serialization: Any) -> RowPartitionSpec:
        *numbers, dtype = serialization
        nrows, nvals, length = (n.static_dims[0] for n in numbers)
        return cls(nrows, nvals, length, dtype)

    def _merge_with(self, other: RowPartitionSpec) -> RowPartitionSpec:
        """The spec that knows what either does; ValueError if they contradict each other."""
        if self._dtype != other.dtype:
            raise ValueError(f"Unable to merge {self} and {other}: dtypes differ")
        nrows, nvals, length = (a if b is None else b for a, b in zip(self._numbers(), other._numbers(), strict=True))
        if not self.is_compatible_with(other):
            raise ValueError(f"Unable to merge {self} and {other}: not compatible")
        return RowPartitionSpec(nrows, nvals, length, self._dtype)

    def with_dtype(self, dtype: Any) -> RowPartitionSpec:
        """The same spec for integers of another dtype."""
        return RowPartitionSpec(*self._numbers(), dtype)

    @property
    def _component_specs(self) -> Any:
        return TensorSpec([None if self._nrows is None else self._nrows + 1], self._dtype)

    def _to_components(self, value: Any) -> Any:
        return value.row_splits()

    def _from_components(self, tensor: Any) -> RowPartition:
        tensor = convert(tensor)
        fixed = tensor if self._uniform_row_length is None else tf.constant(self._uniform_row_length, self._dtype)
        return RowPartition(tensor, uniform_row_length=None if self._uniform_row_length is None else fixed,
                            nrows=None if self._nrows is None else tf.constant(self._nrows, self._dtype),
                            nvals=None if self._nvals is None else tf.constant(self._nvals, self._dtype), internal=_KEY)

    def __repr__(self) -> str:
        return (f"RowPartitionSpec(nrows={self._nrows}, nvals={self._nvals}, "
                f"uniform_row_length={self._uniform_row_length}, dtype={self._dtype!r})")
