"""RaggedTensor: a tensor some of whose dimensions have rows of different lengths.

Row i holds values[row_splits[i]:row_splits[i+1]]; values may be ragged again. Everything else (lengths, starts, row ids)
follows from row_splits and is kept when it was given.
"""
from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.dispatch import dispatched
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.library.ragged.row_partition import INDEX, RowPartition
from penstock._src.library.ragged.segments import get_positive_axis
from penstock._src.library.ragged.value import RaggedTensorValue
from penstock._src.session.fetches import register_session_run_conversion_functions
from penstock.compat import v1 as tf


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


def _matched(values: Any, make: Any, name: str) -> tuple[Any, RowPartition]:
    """Values, and the partition that `make(dtype, hint)` returns, with one dtype of indices: int64 where they differ."""
    values = convert_to_tensor_or_ragged_tensor(values, name="values")
    values.shape.with_rank_at_least(1)
    partition = make(values.row_splits.dtype if isinstance(values, RaggedTensor) else None)
    if isinstance(values, RaggedTensor) and partition.dtype != values.row_splits.dtype:
        return values.with_row_splits_dtype(dtypes.int64), partition.with_dtype(dtypes.int64)
    return values, partition


def _nvals(values: Any, out_type: Any) -> Any:
    return values.nrows(out_type=out_type) if isinstance(values, RaggedTensor) else tf.shape(values, out_type=out_type)[0]


def methods() -> Any:
    """The functions that methods call, imported late because their modules import this one."""
    from penstock._src.library.ragged import methods as functions
    return functions


@export("RaggedTensor")
class RaggedTensor(CompositeTensor):
    """A tensor with ragged dimensions. Created by the `from_...` methods, tf.ragged.constant, and ragged ops.

    >>> tf.RaggedTensor.from_row_splits([3, 1, 4, 1, 5], [0, 2, 2, 5])
    <tf.RaggedTensor [[3, 1], [], [4, 1, 5]]>
    """

    _is_tensor_like = True
    _values: Any                        # a Tensor, a RaggedTensor, or another composite tensor that has a shape

    def __init__(self, values: Any, internal: bool = False, row_partition: Any = None):
        if not internal:
            raise ValueError("RaggedTensor constructor is private; please use one of the factory methods instead (e.g., "
                             "RaggedTensor.from_row_lengths())")
        if not isinstance(row_partition, RowPartition):
            raise TypeError(f"Argument `row_partition` must be a RowPartition. Received {row_partition!r}.")
        if not isinstance(values, (RaggedTensor, Tensor)) and not isinstance(values, CompositeTensor):
            raise TypeError(f"Argument `values` must be a Tensor or RaggedTensor. Received {values!r}.")
        self._values, self._row_partition = values, row_partition
        self._values.shape.with_rank_at_least(1)
        if isinstance(values, RaggedTensor) and values.row_splits.dtype != row_partition.dtype:
            raise ValueError("The dtypes of values.row_splits and row_partition differ.")

    # -- factories ------------------------------------------------------------------------------------------------
    @classmethod
    def _from_row_partition(cls, values: Any, row_partition: RowPartition, validate: bool = True) -> RaggedTensor:
        """From values and their row partition."""
        if not isinstance(row_partition, RowPartition):
            raise TypeError(f"Argument `row_partition` must be a RowPartition. Received {row_partition!r}.")
        if not isinstance(validate, bool):
            raise TypeError(f"`validate` must be a bool, got {validate}.")
        values, row_partition = _matched(values, lambda dtype: row_partition, "row_partition")
        known, rows = row_partition.static_nvals, values.shape.static_dims
        if known is not None and rows is not None and rows[0] is not None and known != rows[0]:
            raise ValueError(f"Dimensions {known} and {rows[0]} are not compatible: the partition has {known} values.")
        if validate:
            message = "Arguments to _from_row_partition do not form a valid RaggedTensor"
            row_partition = row_partition._with_dependencies([
                tf.debugging.assert_equal(row_partition.nvals(), _nvals(values, row_partition.dtype), message=message)])
        return cls(values, internal=True, row_partition=row_partition)

    @classmethod
    def _factory(cls, values: Any, scope: str, name: str | None, make: Any, validate: Any) -> RaggedTensor:
        """A ragged tensor of `values` and the partition that `make(hint)` returns."""
        if not isinstance(validate, bool):
            raise TypeError(f"`validate` must be a bool, got {validate}.")
        with tf.name_scope(name, scope, [values]):
            values, partition = _matched(values, lambda hint: make(hint), scope)
            return cls._from_row_partition(values, partition, validate=validate)

    @classmethod
    @dispatched
    def from_row_splits(cls, values: Any, row_splits: Any, name: str | None = None, validate: bool = True) -> RaggedTensor:
        """From where each row begins, and the end of the last."""
        return cls._factory(values, "RaggedFromRowSplits", name, lambda hint: RowPartition.from_row_splits(
            row_splits, validate=validate, dtype_hint=hint), validate)

    @classmethod
    @dispatched
    def from_row_lengths(cls, values: Any, row_lengths: Any, name: str | None = None,
                         validate: bool = True) -> RaggedTensor:
        """From the length of each row."""
        return cls._factory(values, "RaggedFromRowLengths", name, lambda hint: RowPartition.from_row_lengths(
            row_lengths, validate=validate, dtype_hint=hint), validate)

    @classmethod
    @dispatched
    def from_row_starts(cls, values: Any, row_starts: Any, name: str | None = None, validate: bool = True) -> RaggedTensor:
        """From where each row begins."""
        with tf.name_scope(name, "RaggedFromRowStarts", [values, row_starts]):
            values = convert_to_tensor_or_ragged_tensor(values, name="values")
            return cls._factory(values, "RaggedFromRowStarts", name, lambda hint: RowPartition.from_row_starts(
                row_starts, _nvals(values, dtypes.int64), validate=validate, dtype_hint=hint), validate)

    @classmethod
    @dispatched
    def from_row_limits(cls, values: Any, row_limits: Any, name: str | None = None, validate: bool = True) -> RaggedTensor:
        """From where each row ends."""
        return cls._factory(values, "RaggedFromRowLimits", name, lambda hint: RowPartition.from_row_limits(
            row_limits, validate=validate, dtype_hint=hint), validate)

    @classmethod
    @dispatched
    def from_value_rowids(cls, values: Any, value_rowids: Any, nrows: Any = None, name: str | None = None,
                          validate: bool = True) -> RaggedTensor:
        """From the number of the row that each value belongs to."""
        return cls._factory(values, "RaggedFromValueRowIds", name, lambda hint: RowPartition.from_value_rowids(
            value_rowids, nrows, validate=validate, dtype_hint=hint), validate)

    @classmethod
    @dispatched
    def from_uniform_row_length(cls, values: Any, uniform_row_length: Any, nrows: Any = None, validate: bool = True,
                                name: str | None = None) -> RaggedTensor:
        """Rows of one length; `nrows` is needed where that is zero."""
        with tf.name_scope(name, "RaggedFromUniformRowLength", [values]):
            values = convert_to_tensor_or_ragged_tensor(values, name="values")
            outer = values.shape.static_dims[0] if values.shape.static_dims is not None else None
            return cls._factory(values, "RaggedFromUniformRowLength", name, lambda hint: RowPartition.from_uniform_row_length(
                uniform_row_length, _nvals(values, hint or dtypes.int64) if outer is None else outer, nrows,
                validate=validate, dtype_hint=hint), validate)

    @classmethod
    def _nested(cls, factory: Any, flat_values: Any, nested: Any, what: str, name: str | None, validate: bool) -> Any:
        if isinstance(nested, Tensor):
            raise TypeError(f"Argument `{what}` must be a list of Tensors. Received {nested}.")
        with tf.name_scope(name, "RaggedFromNested", [flat_values, *nested]):
            out = flat_values
            for part in reversed(list(nested)):
                out = factory(out, part, validate=validate)
            return out

    @classmethod
    @dispatched
    def from_nested_row_splits(cls, flat_values: Any, nested_row_splits: Any, name: str | None = None,
                               validate: bool = True) -> Any:
        """From row splits of several dimensions, outermost first."""
        return cls._nested(cls.from_row_splits, flat_values, nested_row_splits, "nested_row_splits", name, validate)

    @classmethod
    @dispatched
    def from_nested_row_lengths(cls, flat_values: Any, nested_row_lengths: Any, name: str | None = None,
                                validate: bool = True) -> Any:
        """From row lengths of several dimensions, outermost first."""
        return cls._nested(cls.from_row_lengths, flat_values, nested_row_lengths, "nested_row_lengths", name, validate)

    @classmethod
    @dispatched
    def from_nested_value_rowids(cls, flat_values: Any, nested_value_rowids: Any, nested_nrows: Any = None,
                                 name: str | None = None, validate: bool = True) -> Any:
        """From row ids of several dimensions, outermost first."""
        if isinstance(nested_value_rowids, Tensor):
            raise TypeError(f"Argument `nested_value_rowids` must be a list of Tensors. Received {nested_value_rowids}.")
        if nested_nrows is None:
            nested_nrows = [None] * len(nested_value_rowids)
        elif isinstance(nested_nrows, Tensor):
            raise TypeError(f"Argument `nested_nrows` must be a list of Tensors. Received {nested_nrows}.")
        elif len(nested_nrows) != len(nested_value_rowids):
            raise ValueError("nested_nrows must have the same length as nested_value_rowids")
        with tf.name_scope(name, "RaggedFromNestedValueRowIds", [flat_values, *nested_value_rowids, *nested_nrows]):
            out = flat_values
            for ids, n in reversed(list(zip(nested_value_rowids, nested_nrows, strict=True))):
                out = cls.from_value_rowids(out, ids, n, validate=validate)
            return out

    # -- what is known -----------------------------------------------------------------------------------------------
    values = property(lambda self: self._values, doc="The concatenated rows.")
    row_splits = property(lambda self: self._row_partition.row_splits(), doc="Where the rows begin, and the end of the last.")
    uniform_row_length = property(lambda self: self._row_partition.uniform_row_length(),
                                  doc="The length of every row as a tensor, or None if rows may differ.")
    dtype = property(lambda self: self._values.dtype, doc="The DType of the values.")

    @property
    def shape(self) -> TensorShape:
        """The static shape; ragged dimensions are unknown."""
        partition = self._row_partition
        outer = TensorShape([partition.static_nrows, partition.static_uniform_row_length])
        return outer.concatenate(self._values.shape[1:])

    def get_shape(self) -> TensorShape:
        """Alias of `shape`."""
        return self.shape

    @property
    def ragged_rank(self) -> int:
        """The number of ragged dimensions."""
        return self._values.ragged_rank + 1 if isinstance(self._values, RaggedTensor) else 1

    @property
    def declared_shape(self) -> tuple | None:
        """The dimensions that are known, which a trace of a function knows as well though its placeholders do not tell."""
        return self.shape.static_dims

    def _declare_shape(self, shape: TensorShape) -> None:
        self._set_shape(shape)

    def _set_shape(self, shape: Any) -> None:
        """Merges `shape` into the static shape."""
        shape = TensorShape(shape)
        if shape.ndims is None:
            return
        merged = self.shape.merge_with(shape)
        rows, length = merged.static_dims[:2]
        values = self._values.shape.static_dims
        nvals = rows * length if rows is not None and length is not None else None if values is None else values[0]
        partition = self._row_partition
        if (rows, length) != (partition.static_nrows, partition.static_uniform_row_length):
            spec = type(partition._type_spec)(rows, None if length is None else nvals, length, partition.dtype)
            self._row_partition = partition._merge_with_spec(spec)
        if isinstance(self._values, RaggedTensor):
            self._values._set_shape(TensorShape([None, *merged.static_dims[2:]]))
        elif not hasattr(self._values, "_value") and isinstance(self._values, Tensor):
            self._values.set_shape(TensorShape([nvals if length is not None else None, *merged.static_dims[2:]]))

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
        out, v = [self.row_splits], self._values
        while isinstance(v, RaggedTensor):
            out.append(v.row_splits)
            v = v.values
        return tuple(out)

    def value_rowids(self, name: str | None = None) -> Tensor:
        """The row number of each value."""
        with tf.name_scope(name, "RaggedValueRowIds", [self.row_splits]):
            return self._row_partition.value_rowids()

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
        with tf.name_scope(name, "RaggedNRows", [self.row_splits]):
            rows = self._row_partition.nrows()
            return rows if out_type is None else tf.cast(rows, dtypes.as_dtype(out_type))

    def row_starts(self, name: str | None = None) -> Tensor:
        """Where the rows begin."""
        with tf.name_scope(name, "RaggedRowStarts", [self.row_splits]):
            return self.row_splits[:-1]

    def row_limits(self, name: str | None = None) -> Tensor:
        """Where the rows end."""
        with tf.name_scope(name, "RaggedRowLimits", [self.row_splits]):
            return self.row_splits[1:]

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """The lengths of the rows of dimension `axis`; ragged for axis > 1."""
        with tf.name_scope(name, "RaggedRowLengths", [self.row_splits]):
            axis = get_positive_axis(axis, self.shape.ndims)
            if axis == 0:
                return self.nrows()
            if axis == 1:
                return self._row_partition.row_lengths()
            if isinstance(self._values, RaggedTensor):
                return self.with_values(self._values.row_lengths(axis - 1))
            shape = tf.shape(self._values, out_type=self.row_splits.dtype)
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
        out_type = self.row_splits.dtype if out_type is None else dtypes.as_dtype(out_type)
        with tf.name_scope(name, "RaggedBoundingBox", [self.row_splits]):
            if axis is not None and isinstance(axis, int) and axis in (0, 1):
                size = self.nrows() if axis == 0 else tf.maximum(tf.reduce_max(self.row_lengths()), 0)
                return tf.cast(size, out_type)
            splits = self.nested_row_splits
            longest = [tf.maximum(tf.reduce_max(s[1:] - s[:-1]), 0) for s in splits]
            inner = tf.shape(self.flat_values, out_type=self.row_splits.dtype)[1:]
            box = tf.concat([tf.stack([self.nrows(), *longest]), inner], 0)
            box = tf.cast(box, out_type)
            return box if axis is None else tf.gather(box, axis)

    # -- changed copies ------------------------------------------------------------------------------------------------
    def with_values(self, new_values: Any) -> RaggedTensor:
        """The same rows over other values."""
        new_values = convert_to_tensor_or_ragged_tensor(new_values)
        new_values.shape.with_rank_at_least(1)
        self._values.shape[:1].assert_is_compatible_with(new_values.shape[:1])
        if isinstance(new_values, RaggedTensor) and self.row_splits.dtype != new_values.row_splits.dtype:
            return self.with_row_splits_dtype(dtypes.int64).with_values(new_values.with_row_splits_dtype(dtypes.int64))
        return RaggedTensor(new_values, internal=True, row_partition=self._row_partition)

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
        return methods().merge_dims(self, outer_axis, inner_axis)

    def with_row_splits_dtype(self, dtype: Any) -> RaggedTensor:
        """The same tensor with row splits of another dtype."""
        dtype = dtypes.as_dtype(dtype)
        if dtype not in INDEX:
            raise ValueError("dtype must be int32 or int64")
        if self.row_splits.dtype == dtype:
            return self
        values = self._values.with_row_splits_dtype(dtype) if isinstance(self._values, RaggedTensor) else self._values
        return RaggedTensor(values, internal=True, row_partition=self._row_partition.with_dtype(dtype))

    # -- as Python, numpy, graph ------------------------------------------------------------------------------------------
    def _is_eager(self) -> bool:
        return all(hasattr(t, "_value") for t in (*self.nested_row_splits, self.flat_values))

    def _eager_value(self) -> RaggedTensorValue:
        return _nested(self.flat_values.numpy(), [s.numpy() for s in reversed(self.nested_row_splits)])

    def to_list(self) -> list:
        """Nested Python lists (eager execution)."""
        if not self._is_eager():
            raise ValueError("RaggedTensor.to_list() is only supported in eager mode; in graph mode, evaluate the "
                             "RaggedTensor first and then use RaggedTensorValue.to_list().")
        return self._eager_value().to_list()

    def numpy(self) -> np.ndarray:
        """A numpy array (eager execution): of objects, one array per row, or a dense one if all rows have the same length."""
        value = self.flat_values.numpy()
        for splits in reversed(self.nested_row_splits):
            value = _rows(value, splits.numpy())
        return value

    def __repr__(self) -> str:
        if self._is_eager():
            with np.printoptions(formatter={"all": _text}):
                return f"<tf.RaggedTensor {_text(self.numpy())}>"
        return f"tf.RaggedTensor(values={self._values}, row_splits={self.row_splits})"

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
        return methods().RaggedTensorSpec.from_value(self)

    def _shape_invariant_to_type_spec(self, shape: Any) -> Any:
        return methods().RaggedTensorSpec(shape, self.dtype, self.ragged_rank, self.row_splits.dtype)

    def _gradient_components(self) -> list:
        return [self.flat_values]

    def _with_gradient_components(self, parts: list) -> Any:
        return None if parts[0] is None else self.with_flat_values(parts[0])

    @staticmethod
    def _override_operator(operator: str, func: Any) -> None:
        setattr(RaggedTensor, operator, func)

    # -- conversions ----------------------------------------------------------------------------------------------------
    @classmethod
    @dispatched
    def from_tensor(cls, tensor: Any, lengths: Any = None, padding: Any = None, ragged_rank: int = 1,
                    name: str | None = None, row_splits_dtype: Any = dtypes.int64) -> Any:
        """A dense tensor as ragged; padding at the ends of rows, or what is beyond `lengths`, is left out."""
        return methods().from_tensor(tensor, lengths, padding, ragged_rank, name, row_splits_dtype)

    def to_tensor(self, default_value: Any = None, name: str | None = None, shape: Any = None) -> Tensor:
        """A dense tensor, short rows filled up with `default_value`."""
        return methods().to_tensor(self, default_value, name, shape)

    @classmethod
    @dispatched
    def from_sparse(cls, st_input: Any, name: str | None = None, row_splits_dtype: Any = dtypes.int64) -> Any:
        """A sparse matrix whose rows are filled from the left, as ragged."""
        return methods().from_sparse(st_input, name, row_splits_dtype)

    def to_sparse(self, name: str | None = None) -> SparseTensor:
        """A sparse tensor."""
        return methods().to_sparse(self, name)

    @classmethod
    def _from_variant(cls, variant: Any, dtype: Any, output_ragged_rank: int, input_ragged_rank: int | None = None,
                      row_splits_dtype: Any = dtypes.int64, name: str | None = None) -> Any:
        return methods().from_variant(variant, dtype, output_ragged_rank, input_ragged_rank, row_splits_dtype, name)

    def _to_variant(self, batched_input: bool = False, name: str | None = None) -> Tensor:
        return methods().to_variant(self, batched_input, name)

    def _text(self, summarize: int | None) -> Tensor:
        """How tf.print shows it."""
        return methods().ragged_text(self, summarize)

    def __getitem__(self, key: Any) -> Any:
        return methods().ragged_getitem(self, key)

    @staticmethod
    def _dispatch(fn: Any, args: tuple, kwargs: dict) -> Any:
        return methods().dispatch(fn, args, kwargs)


def _text(value: Any) -> str:
    """An array, or an element of one, in the text of a ragged tensor: numpy calls it for the arrays in an array of objects."""
    if not isinstance(value, np.ndarray):
        return str(value)
    return np.array2string(value, separator=", ") if value.size else str(value.tolist())


def _rows(values: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """The rows of an array: a dense array if they have the same length, else an array of objects."""
    lengths = np.diff(splits)
    if not len(lengths) or (lengths == lengths[0]).all():
        length = int(lengths[0]) if len(lengths) else 0
        return values.reshape(len(lengths), length, *values.shape[1:])
    rows = np.empty(len(lengths), dtype=object)
    for i, (start, end) in enumerate(zip(splits[:-1], splits[1:], strict=True)):
        rows[i] = values[start:end]
    return rows


def _nested(flat: Any, row_splits: list) -> RaggedTensorValue:
    """A value from its innermost values and its row splits, innermost first."""
    value: Any = np.asarray(flat)
    for splits in row_splits:
        value = RaggedTensorValue(value, splits)
    return value


def _fetch(rt: RaggedTensor) -> tuple:
    return [rt.flat_values, *reversed(rt.nested_row_splits)], lambda parts: _nested(parts[0], parts[1:])


def _feed(rt: RaggedTensor, value: Any) -> list:
    if not hasattr(value, "nested_row_splits"):
        raise TypeError(f"Cannot feed {reprlib.repr(value)} for the ragged tensor {rt}: feed a RaggedTensorValue, as "
                        "tf.compat.v1.ragged.constant_value returns.")
    return list(zip([rt.flat_values, *rt.nested_row_splits], [value.flat_values, *value.nested_row_splits], strict=True))


register_session_run_conversion_functions(RaggedTensor, _fetch, _feed,
                                          lambda rt: [rt.flat_values, *rt.nested_row_splits])
