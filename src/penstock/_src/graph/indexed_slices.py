"""IndexedSlices: a tensor given by some of its rows, the form of gradients of gathers."""
from __future__ import annotations

import collections
import warnings
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.constant import constant_dims
from penstock._src.graph.convert import convert, register_tensor_conversion_function
from penstock._src.graph.node import Tensor
from penstock._src.graph.type_spec import IndexedSlicesSpec
from penstock._src.ops.registry import get

IndexedSlicesValue = collections.namedtuple("IndexedSlicesValue", ["values", "indices", "dense_shape"])
export.value(IndexedSlicesValue, v1=["IndexedSlicesValue"])


@export("IndexedSlices")
class IndexedSlices(CompositeTensor):
    """Rows `values[i]` at positions `indices[i]` of a larger tensor of shape `dense_shape`.

    Args:
        values: Rows.
        indices: Row numbers; a number may occur several times, and its rows are then added.
        dense_shape: Shape of the larger tensor.

    >>> rows = tf.IndexedSlices(values=tf.constant([[1., 2.]]), indices=tf.constant([3]), dense_shape=tf.constant([5, 2]))
    >>> tf.convert_to_tensor(rows).numpy()
    array([[0., 0.],
           [0., 0.],
           [0., 0.],
           [1., 2.],
           [0., 0.]], dtype=float32)
    """

    _is_tensor_like = True

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None):
        self._values, self._indices, self._dense_shape = values, indices, dense_shape

    values = property(lambda self: self._values, doc="The rows.")
    indices = property(lambda self: self._indices, doc="The positions of the rows.")
    dense_shape = property(lambda self: self._dense_shape, doc="The shape of the whole tensor, or None.")
    dtype = property(lambda self: self._values.dtype, doc="The DType of the rows.")
    name = property(lambda self: self._values.name, doc="The name of the values.")
    device = property(lambda self: self._values.device, doc="The device of the values.")
    op = property(lambda self: self._values.op, doc="The operation that produces the values.")
    graph = property(lambda self: self._values.graph, doc="The graph of the values.")

    @property
    def shape(self) -> Any:
        """The static shape of the whole tensor."""
        return TensorShape.of(None if self._dense_shape is None else constant_dims(self._dense_shape))

    get_shape = lambda self: self.shape  # noqa: E731

    def consumers(self) -> list:
        """The operations that use a part of it."""
        return self._values.consumers() + self._indices.consumers()

    @property
    def _type_spec(self) -> Any:
        return IndexedSlicesSpec.from_value(self)

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __str__(self) -> str:
        shape = f", dense_shape={self._dense_shape!s}" if self._dense_shape is not None else ""
        return f"IndexedSlices(indices={self._indices!s}, values={self._values!s}{shape})"


_WARN_ELEMENTS = 100_000_000


def to_dense(value: IndexedSlices, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    """The whole tensor, duplicate rows added up."""
    if dtype is not None and not dtype.is_compatible_with(value.dtype):
        raise ValueError(f"Tensor conversion requested dtype {dtype.name} for IndexedSlices with dtype "
                         f"{value.dtype.name}")
    if value.dense_shape is None:
        raise ValueError(f"Tensor conversion requested for IndexedSlices without dense_shape: {value!s}")
    dims = value.shape.static_dims
    if not context.executing_eagerly() and dims is not None and all(d is not None for d in dims):
        n = 1
        for d in dims:
            n *= d
        if n >= _WARN_ELEMENTS:
            warnings.warn(f"Converting sparse IndexedSlices to a dense Tensor with {n} elements. This may consume a "
                          "large amount of memory.", stacklevel=3)
    return get("UnsortedSegmentSum")(value.values, value.indices, value.dense_shape[0], name=name)


register_tensor_conversion_function(IndexedSlices, to_dense)


def no_rows(like: IndexedSlices) -> IndexedSlices:
    """Slices of the same types and width, without rows: zero, for gradients of keyed tables, which have no dense form."""
    width = [0 if d is None else d for d in (like.values.static_dims or (None,))[1:]]
    nothing = "" if like.indices.dtype.base_dtype == dtypes.string else 0
    return IndexedSlices(get("Fill")([0, *width], convert(0, like.values.dtype.base_dtype)),
                         get("Fill")([0], convert(nothing, like.indices.dtype.base_dtype)))


@export(v1=["convert_to_tensor_or_indexed_slices"])
def convert_to_tensor_or_indexed_slices(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """`value` itself if it is a tensor or IndexedSlices, else convert_to_tensor(value)."""
    if isinstance(value, IndexedSlices):
        if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
            raise ValueError(f"Tensor conversion requested dtype {dtypes.as_dtype(dtype).name} for Tensor with dtype "
                             f"{value.dtype.name}: {value!s}")
        return value
    return convert(value, dtype, name)


def add_gradients(grads: list) -> Any:
    """The sum of gradients: sparse while all of them are."""
    if len(grads) == 1:
        return grads[0]
    if all(isinstance(g, Tensor) for g in grads):
        return get("AddN")(grads)
    if not all(isinstance(g, IndexedSlices) for g in grads):
        return get("AddN")([convert(g) for g in grads])
    concat = get("ConcatV2")
    indices = [g.indices for g in grads]
    if len({i.dtype.base_dtype for i in indices}) > 1:
        indices = [i if i.dtype == dtypes.int64 else get("Cast")(i, DstT=dtypes.int64) for i in indices]
    return IndexedSlices(concat([g.values for g in grads], 0), concat(indices, 0), grads[0].dense_shape)
