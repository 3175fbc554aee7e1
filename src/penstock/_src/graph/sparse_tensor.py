"""SparseTensor: a tensor given by the positions and values of its non-zero elements. Its ops are in ops/sparse_*.py."""
from __future__ import annotations

import collections
import reprlib
from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.constant import constant_dims, constant_value
from penstock._src.graph.convert import convert, register_tensor_conversion_function
from penstock._src.graph.node import Tensor, _session
from penstock._src.graph.scopes import name_scope
from penstock._src.graph.type_spec import BatchableTypeSpec, TensorSpec, register_type_spec_from_value_converter
from penstock._src.ops.registry import get
from penstock._src.session.fetches import register_session_run_conversion_functions

SparseTensorValue = collections.namedtuple("SparseTensorValue", ["indices", "values", "dense_shape"])
export.value(SparseTensorValue, v1=["SparseTensorValue"])


_ON_VALUES = {"abs", "negative", "sign", "square", "sqrt", "tanh", "erf", "cast", "bessel_i0e", "bessel_i1e", "asin", "asinh",
              "atan", "atanh", "sin", "tan"}


@export("SparseTensor", "sparse.SparseTensor")
class SparseTensor(CompositeTensor):
    """values[i] at position indices[i] of a tensor of shape dense_shape.

    Args:
        indices: Coordinates [n, rank], int64.
        values: Values [n].
        dense_shape: Shape [rank], int64.

    >>> x = tf.SparseTensor(indices=[[0, 0], [1, 2]], values=[1, 2], dense_shape=[2, 3])
    >>> tf.compat.v1.sparse_tensor_to_dense(x).numpy()
    array([[1, 0, 0],
           [0, 0, 2]], dtype=int32)
    """

    _is_tensor_like = True

    def __init__(self, indices: Any, values: Any, dense_shape: Any):
        with name_scope(None, "SparseTensor", [v for v in (indices, values, dense_shape) if isinstance(v, Tensor)]):
            self._indices: Any = convert(indices, dtypes.int64, "indices")
            self._values: Any = convert(values, name="values")
            self._dense_shape: Any = convert(dense_shape, dtypes.int64, "dense_shape")
        self._shape_default: Any = None
        rank = self._indices.shape.with_rank(2).static_dims
        nnz = self._values.shape.with_rank(1).static_dims
        shape = self._dense_shape.shape.with_rank(1).static_dims
        if rank is not None and nnz is not None:
            TensorShape([rank[0]]).merge_with(TensorShape([nnz[0]]))
        if rank is not None and shape is not None:
            TensorShape([rank[1]]).merge_with(TensorShape([shape[0]]))

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> SparseTensor:
        """A SparseTensor from one, or from a SparseTensorValue."""
        if not isinstance(sparse_tensor_value, (SparseTensor, SparseTensorValue)):
            raise TypeError(f"Neither a SparseTensor nor SparseTensorValue: {sparse_tensor_value}.")
        return cls(*(getattr(sparse_tensor_value, n) for n in ("indices", "values", "dense_shape")))

    indices = property(lambda self: self._indices, doc="int64 positions, [n, rank].")
    values = property(lambda self: self._values, doc="The values, [n].")
    dense_shape = property(lambda self: self._dense_shape, doc="int64 shape, [rank].")
    dtype = property(lambda self: self._values.dtype, doc="The DType of the values.")
    op = property(lambda self: self._values.op, doc="The operation that produces the values.")
    graph = property(lambda self: self._values.graph, doc="The graph.")
    name = property(lambda self: self._values.name, doc="The name of the values.")

    @property
    def shape(self) -> TensorShape:
        """The static shape, as far as it is known."""
        known = TensorShape.of(constant_dims(self._dense_shape))
        return known if self._shape_default is None else self._shape_default.merge_with(known)

    def get_shape(self) -> TensorShape:
        """Alias of `shape`."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Adds to what is known of the static shape."""
        if not self.shape.is_compatible_with(shape):
            raise ValueError(f"Shapes {self.shape} and {TensorShape(shape)} are not compatible")
        self._shape_default = self.shape.merge_with(shape)

    @property
    def declared_shape(self) -> tuple | None:
        """The known dimensions. They are kept in traces of functions, whose placeholders do not carry them."""
        return self.shape.static_dims

    _declare_shape = set_shape

    def with_values(self, new_values: Any) -> SparseTensor:
        """The same positions with other values."""
        made = SparseTensor(self._indices, new_values, self._dense_shape)
        made._shape_default = self._shape_default
        return made

    @staticmethod
    def _dispatch(fn: Any, args: tuple, kwargs: dict) -> Any:
        """Functions of one tensor that leave zeros zero act on the values (see penstock.ops.composite)."""
        if fn.__name__ not in _ON_VALUES:
            return NotImplemented
        if args and isinstance(args[0], SparseTensor):
            return args[0].with_values(fn(args[0].values, *args[1:], **kwargs))
        name = next((k for k, v in kwargs.items() if isinstance(v, SparseTensor)), None)
        if args or name is None:
            return NotImplemented
        return kwargs[name].with_values(fn(**{**kwargs, name: kwargs[name].values}))

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Runs the graph up to this tensor; returns a SparseTensorValue."""
        return _session(session, self.graph, "eval").run(self, feed_dict)

    def consumers(self) -> list:
        """The operations that use a part of it."""
        seen: dict = {}
        for t in (self._indices, self._values, self._dense_shape):
            for op in t.consumers():
                seen[op] = None
        return list(seen)

    def _numpy(self) -> np.ndarray:
        """The tensor with its zeros, as elements of datasets are given to numpy."""
        values = self._values.numpy()
        empty = b"" if values.dtype == object else 0
        dense = np.full(tuple(self._dense_shape.numpy()), empty, values.dtype)
        dense[tuple(self._indices.numpy().T)] = values
        return dense

    @property
    def _type_spec(self) -> SparseTensorSpec:
        return SparseTensorSpec(self.shape, self.dtype)

    def _shape_invariant_to_type_spec(self, shape: Any) -> SparseTensorSpec:
        shape = TensorShape(shape)
        if shape.ndims is None:
            shape = TensorShape([None])
        if shape.ndims != 1:
            raise ValueError("Expected a shape with 1 dimension")
        rank = shape.static_dims[0]
        return SparseTensorSpec(TensorShape([None] * rank) if rank is not None else None, self.dtype)

    @staticmethod
    def _override_operator(operator: str, func: Any) -> None:
        setattr(SparseTensor, operator, func)

    def __str__(self) -> str:
        return f"SparseTensor(indices={self._indices!s}, values={self._values!s}, dense_shape={self._dense_shape!s})"

    __repr__ = __str__


@export("SparseTensorSpec")
class SparseTensorSpec(BatchableTypeSpec):
    """The type of a SparseTensor."""

    __slots__ = ("_shape", "_dtype")

    def __init__(self, shape: Any = None, dtype: Any = dtypes.float32):
        self._shape, self._dtype = TensorShape(shape), dtypes.as_dtype(dtype)

    value_type = property(lambda self: SparseTensor, doc="The class of the values.")
    shape = property(lambda self: self._shape, doc="The TensorShape.")
    dtype = property(lambda self: self._dtype, doc="The DType.")
    declared_shape = property(lambda self: self._shape.static_dims, doc="The dimensions that are known, as of a SparseTensor.")

    def _undeclared(self) -> SparseTensorSpec:
        return SparseTensorSpec(None, self._dtype)

    @classmethod
    def from_value(cls, value: Any) -> SparseTensorSpec:
        """The spec of a SparseTensor or SparseTensorValue."""
        if isinstance(value, SparseTensor):
            return cls(value.shape, value.dtype)
        if isinstance(value, SparseTensorValue):
            return cls(TensorShape(value.dense_shape), getattr(value.values, "dtype", None) or convert(value.values).dtype)
        raise TypeError("Expected SparseTensor or SparseTensorValue")

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether shape and dtype fit."""
        if isinstance(spec_or_value, SparseTensorValue):
            spec_or_value = SparseTensorSpec.from_value(spec_or_value)
        return super().is_compatible_with(spec_or_value)

    def _serialize(self) -> tuple:
        return self._shape, self._dtype

    @property
    def _component_specs(self) -> list:
        rank = self._shape.ndims
        return [TensorSpec([None, rank], dtypes.int64), TensorSpec([None], self._dtype), TensorSpec([rank], dtypes.int64)]

    def _to_components(self, value: Any) -> list:
        return [value.indices, value.values, value.dense_shape]

    def _from_components(self, tensor_list: Any) -> Any:
        if all(isinstance(t, np.ndarray) for t in tensor_list):
            return SparseTensorValue(*tensor_list)
        return SparseTensor(*tensor_list)

    @property
    def _flat_tensor_specs(self) -> list:
        return [TensorSpec(None, dtypes.variant)]

    def _to_tensor_list(self, value: Any) -> list:
        value = SparseTensor.from_value(value)
        return [get("SerializeSparse")(value.indices, value.values, value.dense_shape, out_type=dtypes.variant)]

    def _to_batched_tensor_list(self, value: Any) -> list:
        if value.shape.ndims == 0:
            raise ValueError("Unbatching a sparse tensor is only supported for rank >= 1")
        return [get("SerializeManySparse")(value.indices, value.values, value.dense_shape, out_type=dtypes.variant)]

    def _from_compatible_tensor_list(self, tensor_list: list) -> Any:
        indices, values, shape = get("DeserializeSparse")(tensor_list[0], dtype=self._dtype)
        rank = self._shape.ndims
        indices.set_shape([None, rank])
        shape.set_shape([rank])
        made = SparseTensor(indices, values, shape)
        made.set_shape(self._shape)
        return made

    def _batch(self, batch_size: Any) -> SparseTensorSpec:
        return SparseTensorSpec(TensorShape([batch_size]).concatenate(self._shape), self._dtype)

    def _unbatch(self) -> SparseTensorSpec:
        if self._shape.ndims == 0:
            raise ValueError("Unbatching a tensor is only supported for rank >= 1")
        return SparseTensorSpec(self._shape[1:], self._dtype)

    def _to_legacy_output_types(self) -> Any:
        return self._dtype

    def _to_legacy_output_shapes(self) -> Any:
        return self._shape

    def _to_legacy_output_classes(self) -> Any:
        return SparseTensor


def _no_dense(value: Any, dtype: Any = None, name: Any = None, as_ref: bool = False) -> Any:
    kind = ValueError if context.executing_eagerly() else TypeError
    raise kind(f"Failed to convert object of type {type(value)} to Tensor: a sparse tensor is not converted "
               "implicitly. Use tf.sparse.to_dense(x).")


register_tensor_conversion_function(SparseTensor, _no_dense, 10)


def _fed(sp: SparseTensor, value: Any) -> list[tuple[Any, Any]]:
    """The parts of a sparse placeholder with the values that are fed for them."""
    parts: tuple = (sp.indices, sp.values, sp.dense_shape)
    if isinstance(value, (tuple, list)) and len(value) == 2 and constant_value(sp.dense_shape) is not None:
        parts = parts[:2]                                   # the shape of the placeholder is fixed
    elif not isinstance(value, (tuple, list)) or len(value) != 3:
        raise ValueError(f"Cannot feed {reprlib.repr(value)} for the sparse tensor {sp}: feed a "
                         "tf.compat.v1.SparseTensorValue, or a tuple (indices, values, dense_shape).")
    return list(zip(parts, value, strict=True))


register_session_run_conversion_functions(
    SparseTensor,
    lambda sp: ([sp.indices, sp.values, sp.dense_shape], lambda v: SparseTensorValue(*v)),
    _fed,
    lambda sp: [sp.indices, sp.values, sp.dense_shape])


@export(v1=["convert_to_tensor_or_sparse_tensor"])
def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A SparseTensor stays one; anything else becomes a Tensor."""
    dtype = dtypes.as_dtype(dtype) if dtype is not None else None
    if isinstance(value, SparseTensorValue):
        value = SparseTensor.from_value(value)
    if isinstance(value, SparseTensor):
        if dtype and not dtype.is_compatible_with(value.dtype):
            raise RuntimeError(f"Sparse dtype: requested = {dtype.name}, actual = {value.dtype.name}")
        return value
    return convert(value, dtype, name)


register_type_spec_from_value_converter(SparseTensorValue, SparseTensorSpec.from_value)
