"""Whether two values are equal, within what their dtype can tell."""
from __future__ import annotations

from typing import Any

import numpy as np

TOLERANCE = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 2e-4, "float64": 1e-6, "complex64": 2e-4, "complex128": 1e-6}


def differs(ours: Any, theirs: Any, tolerance: float = 0) -> str:
    """In what two values differ; empty if they are equal within the tolerance of their dtype, or within `tolerance`."""
    # As an array of numpy's own strings, a string would lose the zeros at its end.
    a, b = (np.array(v, object) if isinstance(v, bytes) else np.asarray(v) for v in (ours, theirs))
    if a.shape != b.shape:
        return f"shape {a.shape} here, {b.shape} there"
    if a.dtype == object or b.dtype == object or a.dtype.kind in "SUb":
        return "" if a.tolist() == b.tolist() else "values differ"
    if a.dtype.fields is not None:
        a, b = a[a.dtype.names[0]], b[b.dtype.names[0]] if b.dtype.fields is not None else b
    if a.dtype.kind in "iu" and np.array_equal(a, b):
        return ""
    tol = max(tolerance, TOLERANCE.get(a.dtype.name, 0)) if a.dtype.name in TOLERANCE else 0
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    if tol and np.allclose(a, b, rtol=tol, atol=tol, equal_nan=True):
        return ""
    return f"values differ by up to {np.nanmax(np.abs(a - b)):.3g}"
