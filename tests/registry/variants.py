"""A sample in other dtypes: where a type attribute allows it, the inputs that share it are cast together."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from penstock._src.base import dtypes
from tests.registry.sample import Sample

OTHERS = {
    np.dtype(np.float32): (np.float64, np.float16, ml_dtypes.bfloat16, np.complex64, np.int32, np.uint8),
    np.dtype(np.float64): (np.float32,),
    np.dtype(np.complex64): (np.complex128,),
    np.dtype(np.int32): (np.int64, np.int16, np.uint8, np.float32),
    np.dtype(np.int64): (np.int32,),
}
TOGETHER = {"SparseAdd"}             # TensorFlow reads the threshold in the type of the values, whatever its own is


def variants(sample: Sample, opdef: Any) -> Iterator[tuple[str, Sample]]:
    """(label, sample): the sample itself, then others in dtypes that its type attributes allow."""
    yield "as sampled", sample
    for name, attr in opdef.attrs.items():
        if attr.kind != "type" or name in sample.attrs or opdef.name in TOGETHER:
            continue
        for d in OTHERS.get(_dtype(sample, opdef, name), ()):
            if attr.allowed is None or dtypes.as_dtype(d) in attr.allowed:
                yield f"{name}={np.dtype(d).name}", cast(sample, opdef, name, d)


def _dtype(sample: Sample, opdef: Any, name: str) -> Any:
    for arg, v in zip(opdef.inputs, sample.inputs, strict=True):
        if arg.type_attr == name:
            first = v[0] if isinstance(v, list) and v else v
            return np.asarray(first).dtype
    return None


def _as(array: Any, dtype: Any) -> np.ndarray:
    """A cast that keeps the order of values: what is negative becomes zero where there is no sign."""
    array = np.asarray(array)
    return (np.maximum(array, 0) if np.dtype(dtype).kind == "u" else array).astype(dtype)


def cast(sample: Sample, opdef: Any, name: str, dtype: Any) -> Sample:
    def cast(arg: Any, v: Any) -> Any:
        if arg.type_attr != name and not (arg.type == dtypes.resource and name in ("T", "dtype")):
            return v
        return [_as(a, dtype) for a in v] if isinstance(v, list) else _as(v, dtype)
    inputs = tuple(cast(a, v) for a, v in zip(opdef.inputs, sample.inputs, strict=True))
    return dataclasses.replace(sample, inputs=inputs)
