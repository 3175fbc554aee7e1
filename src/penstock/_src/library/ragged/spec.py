"""RaggedTensorSpec: the type of a ragged tensor."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.graph.type_registry import register
from penstock._src.graph.type_spec import BatchableTypeSpec, TensorSpec, TypeSpec, register_type_spec_from_value_converter
from penstock._src.library.ragged.tensor import RaggedTensor
from penstock._src.library.ragged.value import RaggedTensorValue
from penstock._src.ops.sparse.ragged import to_variant_op


@register("tf.RaggedTensorSpec")
@export("RaggedTensorSpec")
class RaggedTensorSpec(BatchableTypeSpec):
    """Shape, dtype and number of ragged dimensions."""

    __slots__ = ("_shape", "_dtype", "_ragged_rank", "_row_splits_dtype", "_flat_values_spec")

    def __init__(self, shape: Any = None, dtype: Any = dtypes.float32, ragged_rank: int | None = None,
                 row_splits_dtype: Any = dtypes.int64, flat_values_spec: Any = None):
        self._row_splits_dtype = dtypes.as_dtype(row_splits_dtype)
        if flat_values_spec is not None:
            if not isinstance(flat_values_spec, TypeSpec) and not hasattr(flat_values_spec, "shape"):
                raise TypeError(f"Invalid type for flat_values_spec: {flat_values_spec!r}")
            if dtype is not None and dtypes.as_dtype(dtype) != flat_values_spec.dtype:
                raise ValueError("dtype must be the same as flat_values_spec.dtype")
            dtype = flat_values_spec.dtype
        elif dtype is None:
            raise ValueError("At least one of dtype or flat_values_spec must be provided")
        self._shape, self._dtype, self._flat_values_spec = TensorShape(shape), dtypes.as_dtype(dtype), flat_values_spec
        rank = self._shape.ndims
        if ragged_rank is None:
            if rank is None:
                raise ValueError("Must specify ragged_rank or a shape with a known rank.")
            ragged_rank = rank - 1
        if not isinstance(ragged_rank, int):
            raise TypeError(f"Argument `ragged_rank` must be an int. Received {ragged_rank}.")
        if rank is not None and ragged_rank >= rank:
            raise ValueError(f"Argument `ragged_rank` ({ragged_rank}) must be less than rank ({rank}).")
        self._ragged_rank = ragged_rank

    shape = property(lambda self: self._shape, doc="The TensorShape.")
    dtype = property(lambda self: self._dtype, doc="The DType.")
    ragged_rank = property(lambda self: self._ragged_rank, doc="The number of ragged dimensions.")
    row_splits_dtype = property(lambda self: self._row_splits_dtype, doc="The DType of row splits.")
    flat_values_spec = property(lambda self: self._flat_values_spec, doc="The TypeSpec of the innermost values, or None.")

    @property
    def value_type(self) -> Any:
        """The class of the values."""
        return RaggedTensor if self._ragged_rank > 0 else Tensor

    @classmethod
    def from_value(cls, value: Any) -> RaggedTensorSpec:
        """The spec of a ragged tensor, or of the value of one."""
        if isinstance(value, RaggedTensorValue) or isinstance(value.flat_values, np.ndarray):
            return cls(value.shape, value.values.dtype, value.ragged_rank, value.row_splits.dtype)
        return cls(value.shape, value.dtype, value.ragged_rank, value.row_splits.dtype)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether shape, dtype and ragged rank fit."""
        if self._ragged_rank == 0:
            if isinstance(spec_or_value, (Tensor, TensorSpec)):
                return self._shape.is_compatible_with(spec_or_value.shape) and self._dtype == spec_or_value.dtype
            return isinstance(spec_or_value, RaggedTensorSpec) and super().is_compatible_with(spec_or_value)
        return super().is_compatible_with(spec_or_value)

    @property
    def declared_shape(self) -> tuple | None:
        """The dimensions that are known, as of a RaggedTensor. The spec of a dense tensor has none to declare."""
        if self._ragged_rank == 0:
            raise AttributeError("declared_shape")
        return self._shape.static_dims

    def _undeclared(self) -> RaggedTensorSpec:
        return RaggedTensorSpec(None, self._dtype, self._ragged_rank, self._row_splits_dtype)

    def _serialize(self) -> tuple:
        plain = self._shape, self._dtype, self._ragged_rank, self._row_splits_dtype
        return plain if self._flat_values_spec is None else (*plain, self._flat_values_spec)

    @property
    def _component_specs(self) -> list:
        if self._ragged_rank == 0:
            return [TensorSpec(self._shape, self._dtype)]
        inner = TensorShape([None]).concatenate(self._shape[self._ragged_rank + 1:])
        outer = self._shape.static_dims[0] if self._shape.static_dims is not None else None
        first = None if outer is None else outer + 1
        splits = [TensorSpec([first], self._row_splits_dtype)]
        splits += [TensorSpec([None], self._row_splits_dtype) for _ in range(self._ragged_rank - 1)]
        return [self._flat_values_spec or TensorSpec(inner, self._dtype), *splits]

    def _to_components(self, value: Any) -> list:
        return [value.flat_values, *value.nested_row_splits] if isinstance(value, (RaggedTensor, RaggedTensorValue)) \
            else [value]

    def _from_components(self, tensor_list: Any) -> Any:
        out = tensor_list[0]
        if all(isinstance(t, np.ndarray) for t in tensor_list):
            for splits in reversed(tensor_list[1:]):
                out = RaggedTensorValue(out, splits)
            return out
        for splits in reversed(tensor_list[1:]):
            out = RaggedTensor.from_row_splits(out, splits, validate=False)
        return self._shaped(out)

    def _shaped(self, out: Any) -> Any:
        """`out` with the static shape of this spec."""
        if isinstance(out, RaggedTensor):
            out._set_shape(self._shape)
            if self._flat_values_spec is not None:
                out.flat_values.set_shape(self._flat_values_spec.shape)
        elif isinstance(out, Tensor):
            out.set_shape(self._shape)
        return out

    @property
    def _flat_tensor_specs(self) -> list:
        return [TensorSpec(None, dtypes.variant)]

    def _to_tensor_list(self, value: Any) -> list:
        if isinstance(value, RaggedTensor):
            return [value._to_variant(batched_input=False)]
        return [to_variant_op([], value, batched_input=False)]

    def _to_batched_tensor_list(self, value: Any) -> list:
        return [value._to_variant(batched_input=True)]

    def _from_compatible_tensor_list(self, tensor_list: list) -> Any:
        out = RaggedTensor._from_variant(tensor_list[0], self._dtype, self._ragged_rank,
                                         row_splits_dtype=self._row_splits_dtype)
        return self._shaped(out)

    def _batch(self, batch_size: Any) -> RaggedTensorSpec:
        return RaggedTensorSpec(TensorShape([batch_size]).concatenate(self._shape), self._dtype, self._ragged_rank + 1,
                                self._row_splits_dtype)

    def _unbatch(self) -> RaggedTensorSpec:
        return RaggedTensorSpec(self._shape[1:], self._dtype, self._ragged_rank - 1, self._row_splits_dtype)

    def _to_legacy_output_types(self) -> Any:
        return self._dtype

    def _to_legacy_output_shapes(self) -> Any:
        return self._shape

    def _to_legacy_output_classes(self) -> Any:
        return self


register_type_spec_from_value_converter(RaggedTensorValue, RaggedTensorSpec.from_value)
