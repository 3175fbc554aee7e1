"""A sample in other dtypes: where a type attribute allows it, the inputs that share it are cast together."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from penstock import dtypes
from tests.registry.sample import Sample

FLOATS = (np.float64, np.float16, ml_dtypes.bfloat16)
INTS = (np.int64,)


def variants(sample: Sample, opdef: Any) -> Iterator[tuple[str, Sample]]:
    """(label, sample): the sample itself, then others in dtypes that its type attributes allow."""
    yield "as sampled", sample
    for name, attr in opdef.attrs.items():
        if attr.kind != "type" or name in sample.attrs:
            continue
        found = _dtype(sample, opdef, name)
        if found == np.float32:
            wanted: tuple = FLOATS
        elif found == np.int32:
            wanted = INTS
        else:
            continue
        for d in wanted:
            if attr.allowed is None or dtypes.as_dtype(d) in attr.allowed:
                yield f"{name}={np.dtype(d).name}", _cast(sample, opdef, name, d)


def _dtype(sample: Sample, opdef: Any, name: str) -> Any:
    for arg, v in zip(opdef.inputs, sample.inputs, strict=True):
        if arg.type_attr == name:
            first = v[0] if isinstance(v, list) and v else v
            return np.asarray(first).dtype
    return None


def _cast(sample: Sample, opdef: Any, name: str, dtype: Any) -> Sample:
    def cast(arg: Any, v: Any) -> Any:
        if arg.type_attr != name and not (arg.type == dtypes.resource and name in ("T", "dtype")):
            return v
        return [np.asarray(a).astype(dtype) for a in v] if isinstance(v, list) else np.asarray(v).astype(dtype)
    inputs = tuple(cast(a, v) for a, v in zip(opdef.inputs, sample.inputs, strict=True))
    return dataclasses.replace(sample, inputs=inputs)
