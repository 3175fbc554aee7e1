"""The shape of a ragged tensor as a value: row partitions, and the dense shape of what they partition."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.constant import constant_dims
from penstock._src.graph.type_registry import register
from penstock._src.graph.type_spec import TensorSpec, TypeSpec
from penstock._src.library.ragged.broadcasting import aligned, with_partitions
from penstock._src.library.ragged.row_partition import RowPartition, RowPartitionSpec
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor
from penstock.compat import v1 as tf


@export("experimental.DynamicRaggedShape")
class DynamicRaggedShape(CompositeTensor):
    """The shape of a ragged or dense tensor.

    >>> tf.experimental.DynamicRaggedShape.from_lengths([2, (3, 1), 4])      # two rows, of 3 and 1 vectors of length 4

    Its row partitions split the first dimension of `inner_shape` into rows, and these into rows of rows.
    """

    def __init__(self, row_partitions: Any, inner_shape: Any, dtype: Any = None, validate: bool = False,
                 static_inner_shape: Any = None):
        partitions = [*row_partitions]
        if any(not isinstance(p, RowPartition) for p in partitions):
            raise TypeError("row_partitions must be a list of RowPartitions")
        if dtype is None:
            dtype = partitions[0].dtype if partitions else getattr(inner_shape, "dtype", dtypes.int64)
        dtype = dtypes.as_dtype(dtype)
        if dtype not in (dtypes.int32, dtypes.int64):
            raise ValueError("dtype must be int32 or int64")
        self._row_partitions = tuple(p.with_dtype(dtype) for p in partitions)
        known = TensorShape(constant_dims(inner_shape) if isinstance(inner_shape, tf.Tensor) else inner_shape)
        self._inner_shape = tf.cast(tf.convert_to_tensor(inner_shape, dtype_hint=dtype), dtype)
        self._static_inner_shape = known if static_inner_shape is None else known.merge_with(static_inner_shape)
        if self._row_partitions and self._static_inner_shape.rank == 0:
            raise ValueError("A shape with row partitions has an inner shape of rank 1 at least")
        if validate and self._row_partitions:
            check = tf.debugging.assert_equal(self._row_partitions[-1].nvals(), self._inner_shape[0],
                                              message="The last row partition does not match the inner_shape.")
            with tf.control_dependencies([c for c in [check] if c is not None]):
                self._inner_shape = tf.identity(self._inner_shape)

    # -- making ---------------------------------------------------------------------------------------------------------
    @classmethod
    def from_lengths(cls, lengths: Any, num_row_partitions: int | None = None, dtype: Any = dtypes.int64) -> DynamicRaggedShape:
        """From one entry per dimension: a size, or a tuple with the length of each row."""
        if any(not isinstance(n, int) and not (isinstance(n, (list, tuple)) and all(isinstance(i, int) for i in n))
               for n in lengths):
            raise ValueError("lengths must be a list of integers and of sequences of integers")
        ragged = max((i for i, n in enumerate(lengths) if not isinstance(n, int)), default=0)
        if num_row_partitions is None:
            num_row_partitions = ragged
        if lengths and not isinstance(lengths[0], int):
            raise ValueError("The outermost dimension is a single number")
        if not ragged <= num_row_partitions < max(len(lengths), 1):
            raise ValueError(f"num_row_partitions should not be {num_row_partitions}: the last ragged dimension is {ragged}, "
                             f"of {len(lengths)}")
        partitions, count = [], lengths[0] if lengths else 0
        for n in lengths[1:num_row_partitions + 1]:
            if isinstance(n, int):
                partitions.append(RowPartition.from_uniform_row_length(n, nvals=n * count, nrows=count, dtype=dtype))
                count = n * count
            else:
                if len(n) != count:
                    raise ValueError(f"{count} rows have {len(n)} lengths")
                partitions.append(RowPartition.from_row_lengths(list(n), dtype=dtype))
                count = sum(n)
        inner = [count, *lengths[num_row_partitions + 1:]] if lengths else []
        return cls(partitions, tf.constant(inner, dtype), dtype)

    @classmethod
    def from_row_partitions(cls, row_partitions: Any, dtype: Any = None) -> DynamicRaggedShape:
        """The shape of a ragged tensor of scalars with these row partitions."""
        partitions = list(row_partitions)
        if not partitions:
            raise ValueError("row_partitions cannot be empty")
        return cls(partitions, tf.stack([partitions[-1].nvals()]), dtype, static_inner_shape=[partitions[-1].static_nvals])

    @classmethod
    def _from_inner_shape(cls, inner_shape: Any, dtype: Any = None) -> DynamicRaggedShape:
        return cls([], inner_shape, dtype)

    @classmethod
    def from_tensor(cls, t: Any, dtype: Any = None) -> DynamicRaggedShape:
        """The shape of a tensor, ragged or dense."""
        if not isinstance(t, RaggedTensor) and hasattr(t, "_ragged_shape"):
            return t._ragged_shape if dtype is None else t._ragged_shape.with_dtype(dtype)
        t, partitions = convert_to_tensor_or_ragged_tensor(t), []
        while isinstance(t, RaggedTensor):
            partitions.append(t._row_partition)
            t = t.values
        kind = dtype or (partitions[0].dtype if partitions else dtypes.int64)
        return cls(partitions, tf.shape(t, out_type=kind), kind, static_inner_shape=t.shape)

    # -- properties -------------------------------------------------------------------------------------------------------
    row_partitions = property(lambda self: self._row_partitions, doc="The partitions of the outer dimensions.")
    inner_shape = property(lambda self: self._inner_shape, doc="The dense shape that is partitioned, as a tensor.")
    static_inner_shape = property(lambda self: self._static_inner_shape, doc="What is known of it when the graph is built.")
    num_row_partitions = property(lambda self: len(self._row_partitions), doc="How many partitions there are.")
    dtype = property(lambda self: self._inner_shape.dtype, doc="The dtype of sizes and row splits.")
    inner_rank = property(lambda self: self._static_inner_shape.rank, doc="The rank of the inner shape, if known.")

    @property
    def rank(self) -> int | None:
        """The number of dimensions, if known."""
        return None if self.inner_rank is None else self.inner_rank + self.num_row_partitions

    def static_lengths(self, ragged_lengths: bool = True) -> list:
        """One entry per dimension: a number, None, or the lengths of the rows if they are known and requested."""
        inner = self._static_inner_shape
        if self._row_partitions and inner.rank is None or inner.rank is None:
            return [..., ]
        if not self._row_partitions:
            return inner.as_list()
        found: list = [self._row_partitions[0].static_nrows]
        for p in self._row_partitions:
            known = p.static_uniform_row_length
            lengths = tf.get_static_value(p.row_lengths()) if known is None and ragged_lengths else None
            found.append(known if lengths is None else tuple(lengths.tolist()))
        return found + inner.as_list()[1:]

    def _to_tensor_shape(self) -> TensorShape:
        inner = self._static_inner_shape
        if not self._row_partitions or inner.rank is None:
            return inner if not self._row_partitions else TensorShape(None)
        first = [self._row_partitions[0].static_nrows, *(p.static_uniform_row_length for p in self._row_partitions)]
        return TensorShape(first + inner.as_list()[1:])

    def is_uniform(self, axis: int) -> bool:
        """Whether all rows of a dimension are known to have the same length."""
        if not isinstance(axis, int) or axis < 0 or self.rank is not None and axis >= self.rank:
            raise IndexError(f"{axis} is not a dimension of a shape of rank {self.rank}")
        return not 0 < axis <= self.num_row_partitions or self._row_partitions[axis - 1].is_uniform()

    def _size(self, axis: int) -> Any:
        if not self.is_uniform(axis):
            raise ValueError(f"Index {axis} is not uniform")
        if self._row_partitions and axis <= self.num_row_partitions:
            return self._row_partitions[0].nrows() if not axis else self._row_partitions[axis - 1].uniform_row_length()
        return self._inner_shape[axis - self.num_row_partitions]

    def __getitem__(self, index: Any) -> Any:
        """A size, or the shape of some leading dimensions (all of them uniform for other slices)."""
        rank = self.rank
        if isinstance(index, slice):
            if rank is None:
                raise ValueError("Rank must be known to use __getitem__ with a slice.")
            start, stop, step = index.indices(rank)
            if step != 1:
                raise IndexError("Cannot stride through a shape")
            return self.truncated(stop) if start == 0 else DynamicRaggedShape(
                [], tf.stack([tf.cast(self._size(i), self.dtype) for i in range(start, stop)]) if start < stop else
                tf.constant([], self.dtype), self.dtype)
        if not isinstance(index, int):
            raise TypeError("index is not an int or a slice")
        if index < 0:
            if rank is None:
                raise ValueError("Rank must be known to use __getitem__ with a negative index.")
            index += rank
        return self._size(index)

    def truncated(self, rank: int) -> DynamicRaggedShape:
        """The shape of the first `rank` dimensions."""
        if self.rank is not None and rank > self.rank:
            raise ValueError(f"A shape of rank {self.rank} has no {rank} dimensions")
        count = self.num_row_partitions
        if rank > count:
            return DynamicRaggedShape(self._row_partitions, self._inner_shape[:rank - count], self.dtype,
                                      static_inner_shape=self._static_inner_shape[:rank - count])
        if not rank:
            return DynamicRaggedShape([], tf.constant([], self.dtype), self.dtype)
        if rank == 1:
            first = self._row_partitions[0]
            return DynamicRaggedShape([], tf.stack([first.nrows()]), self.dtype, static_inner_shape=[first.static_nrows])
        return DynamicRaggedShape.from_row_partitions(self._row_partitions[:rank - 1], self.dtype)

    def with_dtype(self, dtype: Any) -> DynamicRaggedShape:
        """The shape with sizes of another dtype."""
        return DynamicRaggedShape(self._row_partitions, self._inner_shape, dtype, static_inner_shape=self._static_inner_shape)

    def _merge_with(self, other: DynamicRaggedShape) -> DynamicRaggedShape:
        """The same shape, with what is known of either; row splits must be equal where both are known."""
        self._to_tensor_shape().assert_is_compatible_with(other._to_tensor_shape())
        dtype = dtypes.int64 if dtypes.int64 in (self.dtype, other.dtype) else dtypes.int32
        more, less = (self, other) if self.num_row_partitions >= other.num_row_partitions else (other, self)
        partitions = []
        for mine, its in zip(more._row_partitions, less._as_row_partitions(), strict=False):
            known = [tf.get_static_value(p.row_splits()) for p in (mine, its)]
            if all(k is not None for k in known) and known[0].tolist() != known[1].tolist():
                raise ValueError(f"Row splits differ: {known[0].tolist()} and {known[1].tolist()}")
            partitions.append(mine if its.static_uniform_row_length is None else its)
        return DynamicRaggedShape([p.with_dtype(dtype) for p in partitions], more._inner_shape, dtype,
                                  static_inner_shape=more._static_inner_shape)

    def _add_row_partitions(self, flat_values: Any, validate: bool = False) -> Any:
        return with_partitions(flat_values, list(self._row_partitions))

    def _as_row_partitions(self, rank: int | None = None) -> list[RowPartition]:
        """Partitions of all dimensions but the first (of the first `rank`): those that are dense are uniform."""
        rank, found, n = rank or self.rank, list(self._row_partitions), self._inner_shape
        if rank is None:
            raise ValueError("The row partitions of a shape of unknown rank are not known.")
        count = n[0] if self.inner_rank else None
        for i in range(1, rank - self.num_row_partitions):
            found.append(RowPartition.from_uniform_row_length(n[i], nvals=count * n[i], nrows=count, dtype=self.dtype))
            count = count * n[i]
        return found[:max(rank - 1, 0)]

    def __repr__(self) -> str:
        return f"<DynamicRaggedShape lengths={self.static_lengths()} num_row_partitions={self.num_row_partitions}>"

    def __eq__(self, other: Any) -> Any:
        return self is other or isinstance(other, DynamicRaggedShape) and self._same(other)

    def _same(self, other: DynamicRaggedShape) -> Any:
        if self.num_row_partitions != other.num_row_partitions or self.dtype != other.dtype:
            return False
        same = [tf.reduce_all(tf.equal(self.inner_shape, other.inner_shape))]
        same += [tf.reduce_all(tf.equal(a.row_splits(), b.row_splits()))
                 for a, b in zip(self.row_partitions, other.row_partitions, strict=True)]
        return tf.reduce_all(tf.stack(same))

    __hash__ = object.__hash__

    @property
    def _type_spec(self) -> DynamicRaggedShapeSpec:
        return DynamicRaggedShapeSpec([p._type_spec for p in self._row_partitions], self._static_inner_shape, self.dtype)

    @staticmethod
    def _dispatch(fn: Any, args: tuple, kwargs: dict) -> Any:
        handler = FUNCTIONS.get(fn.__name__.removesuffix("_v2"))
        return NotImplemented if handler is None else handler(*args, **kwargs)


@register("tf.DynamicRaggedShapeSpec")
class DynamicRaggedShapeSpec(TypeSpec):
    """The type of a DynamicRaggedShape."""

    __slots__ = ("_row_partitions", "_static_inner_shape", "_dtype")
    value_type = DynamicRaggedShape

    def __init__(self, row_partitions: Any, static_inner_shape: Any, dtype: Any = dtypes.int64):
        partitions = tuple(row_partitions)
        if any(not isinstance(p, RowPartitionSpec) for p in partitions):
            raise TypeError("row_partitions should be a list of RowPartitionSpecs")
        self._dtype = dtypes.as_dtype(dtype)
        self._row_partitions = tuple(p.with_dtype(self._dtype) for p in partitions)
        self._static_inner_shape = TensorShape(static_inner_shape)

    dtype = property(lambda self: self._dtype)
    num_row_partitions = property(lambda self: len(self._row_partitions))
    inner_rank = property(lambda self: self._static_inner_shape.rank)

    @property
    def rank(self) -> int | None:
        """The number of dimensions, if known."""
        return None if self.inner_rank is None else self.inner_rank + len(self._row_partitions)

    def _to_tensor_shape(self) -> TensorShape:
        if not self._row_partitions or self.inner_rank is None:
            return self._static_inner_shape if not self._row_partitions else TensorShape(None)
        first = [self._row_partitions[0].nrows, *(p.uniform_row_length for p in self._row_partitions)]
        return TensorShape(first + self._static_inner_shape.as_list()[1:])

    def _serialize(self) -> tuple:
        return self._row_partitions, self._static_inner_shape, self._dtype

    @property
    def _component_specs(self) -> Any:
        return self._row_partitions, TensorSpec([self.inner_rank], self._dtype)

    def _to_components(self, value: DynamicRaggedShape) -> Any:
        return value.row_partitions, value.inner_shape

    def _from_components(self, components: Any) -> DynamicRaggedShape:
        return DynamicRaggedShape(components[0], components[1], self._dtype, static_inner_shape=self._static_inner_shape)


DynamicRaggedShape.Spec = DynamicRaggedShapeSpec       # type: ignore[attr-defined]


# -- functions of shapes -----------------------------------------------------------------------------------------------------
def _as_shape(shape: Any) -> DynamicRaggedShape:
    return shape if isinstance(shape, DynamicRaggedShape) else DynamicRaggedShape._from_inner_shape(shape)


def filled(shape: Any, value: Any, name: str | None = None) -> Any:
    """A tensor of that shape with one value everywhere."""
    shape = _as_shape(shape)
    return shape._add_row_partitions(tf.fill(shape.inner_shape, value))


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Any:
    """`input` repeated along dimensions of size one, to a ragged shape."""
    partitions, (flat, target) = aligned(input, filled(shape, 0))
    return with_partitions(tf.broadcast_to(flat, tf.shape(target)), partitions)


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> DynamicRaggedShape:
    """The shape that two tensors have together."""
    dtype = _as_shape(shape_x).dtype
    partitions, (x, y) = aligned(filled(shape_x, 0), filled(shape_y, 0))
    return DynamicRaggedShape.from_tensor(with_partitions(x + y, partitions), dtype)


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Any:
    """The elements of a tensor, ragged or dense, in another shape, ragged or dense."""
    tensor = convert_to_tensor_or_ragged_tensor(tensor)
    flat = tensor.flat_values if isinstance(tensor, RaggedTensor) else tensor
    if not isinstance(shape, DynamicRaggedShape):
        return tf.reshape(flat, shape)
    return shape._add_row_partitions(tf.reshape(flat, shape.inner_shape))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "reshape": reshape, "broadcast_to": broadcast_to, "broadcast_dynamic_shape": broadcast_dynamic_shape,
    "fill": lambda dims, value, name=None, **unused: filled(dims, value),
    "ones": lambda shape, dtype=dtypes.float32, name=None, **unused: filled(shape, tf.ones([], dtype)),
    "zeros": lambda shape, dtype=dtypes.float32, name=None, **unused: filled(shape, tf.zeros([], dtype))}
