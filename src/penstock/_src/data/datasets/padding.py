"""padded_batch: shapes and values of the padding, checked and completed before the op is built."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.static_shape import Dimension, TensorShape
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.arguments import int64, static_size
from penstock._src.data.datasets.dataset import DatasetV2
from penstock._src.graph.constant import constant_dims
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.ops.registry import get


def padded_batch(dataset: DatasetV2, batch_size: Any, padded_shapes: Any, padding_values: Any, drop_remainder: Any) -> Any:
    """See `Dataset.padded_batch`."""
    spec = dataset.element_spec
    for s in structure.flatten(spec):
        if not isinstance(s, TensorSpec):
            raise TypeError("`padded_batch` is only supported for datasets that produce tensor elements but type spec of "
                            f"elements in the input dataset is not a subclass of TensorSpec: `{s}`.")
    if padded_shapes is None:
        padded_shapes = structure.map_structure(lambda s: s.shape, spec)
        for s in structure.flatten(padded_shapes):
            if s.rank is None:
                raise ValueError("You must provide `padded_shapes` argument because component has unknown rank.")
    size, drop = int64(batch_size, "batch_size"), convert(drop_remainder, dtypes.bool, "drop_remainder")
    flat = structure.flatten(spec)
    shapes = [_shape(s, f.shape) for s, f in zip(structure.flatten_up_to(spec, padded_shapes), flat, strict=True)]
    values = [_value(v, f.dtype) for v, f in zip(_values(spec, padding_values), flat, strict=True)]
    known = [constant_dims(s) for s in shapes]
    rows = [TensorShape(None if dims is None else [None if d is None or d < 0 else d for d in dims]) for dims in known]
    first = static_size(size, drop)
    out = structure.pack(spec, [TensorSpec(r, f.dtype)._batch(first) for r, f in zip(rows, flat, strict=True)])
    variant = get("PaddedBatchDatasetV2")(dataset._variant_tensor, size, shapes, values, drop,
                                          output_shapes=structure.flat_shapes(out))
    return dataset._made(variant, out, (dataset,))


def _values(spec: Any, values: Any) -> list:
    """One padding value, or None, for every component; None may also be given for a structure of them."""
    if values is None or not structure.is_nested(values):
        return [values] * len(structure.flatten(spec))
    if isinstance(spec, (tuple, list)) and isinstance(values, (tuple, list)) and len(spec) == len(values) and any(
            v is None and structure.is_nested(s) for s, v in zip(spec, values, strict=True)):
        return [each for s, v in zip(spec, values, strict=True) for each in _values(s, v)]
    if isinstance(spec, dict) and isinstance(values, dict) and spec.keys() == values.keys():
        return [each for key in sorted(spec) for each in _values(spec[key], values[key])]
    return structure.flatten_up_to(spec, values)


def _shape(value: Any, shape: TensorShape) -> Any:
    """The shape to pad to as a vector, -1 for the largest size in the batch."""
    if isinstance(value, Tensor):
        if value.shape.ndims is not None and value.shape.ndims != 1:
            raise ValueError(f"Padded shape {value} must be a `tf.int64` vector tensor, but its shape was {value.shape}.")
        if value.dtype != dtypes.int64:
            raise TypeError(f"Padded shape {value} must be a `tf.int64` vector tensor, but its element type was "
                            f"{value.dtype.name}.")
        tensor = value
    else:
        try:
            dims = value if isinstance(value, TensorShape) else TensorShape(
                [None if d is None or isinstance(d, int) and d == -1 else d for d in _list(value)])
            tensor = convert(np.array([-1 if d is None else d for d in dims.as_list()], np.int64), dtypes.int64)
        except (TypeError, ValueError):
            tensor = convert(value)
            if tensor.shape.ndims != 1:
                raise ValueError(f"Padded shape {value} must be a `tf.int64` vector tensor, but its shape was "
                                 f"{tensor.shape}.") from None
            if tensor.dtype != dtypes.int64:
                raise TypeError(f"Padded shape {value} must be a `tf.int64` vector tensor, but its element type was "
                                f"{tensor.dtype.name}.") from None
    known = TensorShape.of(constant_dims(tensor))
    if not _fits(known, shape):
        raise ValueError(f"The padded shape {known} is not compatible with the shape {shape} of the corresponding input "
                         "component.")
    return tensor


def _list(value: Any) -> list:
    if isinstance(value, np.ndarray):
        if value.ndim != 1 or value.dtype.kind != "i":
            raise TypeError("not a shape")
        return value.tolist()
    return [d.value if isinstance(d, Dimension) else d for d in value]


def _fits(padded: TensorShape, shape: TensorShape) -> bool:
    if padded.static_dims is None or shape.static_dims is None:
        return True
    return len(padded.static_dims) == len(shape.static_dims) and all(
        a is None or a < 0 or b is None or b <= a for a, b in zip(padded.static_dims, shape.static_dims, strict=True))


def _value(value: Any, dtype: Any) -> Any:
    """The scalar to pad with; zero, or the empty string."""
    if value is None:
        if dtype == dtypes.variant:
            raise TypeError("Unable to create padding for field of type 'variant'")
        value = "" if dtype == dtypes.string else np.zeros((), dtype.as_numpy_dtype)
    tensor = value if isinstance(value, Tensor) else convert(value)
    if tensor.shape.ndims not in (None, 0):
        raise ValueError(f"Padding value should be a scalar, but is not: {value}")
    if tensor.dtype != dtype:
        if isinstance(value, (int, float, bool, str, bytes)):
            tensor = convert(value, dtype)
        else:
            raise TypeError(f"Padding value tensor ({tensor}) does not match output type: {dtype.name}")
    return tensor
