"""In what the answers of the two sides to one call differ."""

from __future__ import annotations

import base64
from typing import Any

import ml_dtypes
import numpy as np

from tests.oracle.calls.values import as_numpy
from tests.registry.compare import TOLERANCE, differs

# Exceptions that mean the same: which of them is raised depends on when the shapes are known.
ARGUMENT = {"ValueError", "InvalidArgumentError", "TypeError"}


def decoded(spec: list) -> np.ndarray:
    """An array of an answer."""
    dtype, shape, data = spec
    if dtype == "string":
        out = np.empty(len(data), object)
        out[:] = [base64.b64decode(v) for v in data]
        return out.reshape(shape)
    kind = as_numpy(dtype) if not hasattr(ml_dtypes, dtype) else np.dtype(getattr(ml_dtypes, dtype))
    return np.frombuffer(base64.b64decode(data), kind).reshape(shape)


def tolerance(case: Any) -> float:
    """A result is as exact as the least exact tensor of the call."""
    text = repr(case)
    return max((t for name, t in TOLERANCE.items() if f"'{name}'" in text), default=0)


def difference(case: dict, ours: dict, theirs: dict) -> tuple[str, str]:
    """(kind of the difference, what it is); empty if there is none."""
    if "error" in ours or "error" in theirs:
        if "error" in ours and "error" in theirs:
            same = ours["error"] == theirs["error"] or theirs["error"] in ours["bases"] or ours["error"] in theirs["bases"]
            return ("", "") if same else ("exception", f"{ours['error']} here, {theirs['error']} there: {theirs['text']}")
        if "error" in ours:
            return "raises here", f"{ours['error']}: {ours['text']}"
        return "raises there", f"{theirs['error']}: {theirs['text']}"
    a, b = ours["leaves"], theirs["leaves"]
    if [x[0] for x in a] != [x[0] for x in b]:
        texts = [{str(x[1]) for x in side if x[0] in ("config", "weight", "key")} for side in (a, b)]
        if texts[0] != texts[1]:
            return "structure", f"{sorted(texts[0] - texts[1])} here, {sorted(texts[1] - texts[0])} there"
        return "structure", f"{[x[0] for x in a][:12]} here, {[x[0] for x in b][:12]} there"
    for x, y in zip(a, b, strict=True):
        if x == y:
            continue
        if isinstance(x[1], list) and isinstance(y[1], list):
            if x[1][0] != y[1][0]:
                return "dtype", f"{x[1][0]} here, {y[1][0]} there"
            why = differs(decoded(x[1]), decoded(y[1]), max(tolerance(case), TOLERANCE.get(x[1][0], 0)))
            if why:
                return "value", f"{x[0]}: {why}"
        elif x[0] == "static":
            return "static shape", f"{x[1:]} here, {y[1:]} there"
        elif x[0] == "float":
            if differs(float(x[1]), float(y[1]), 1e-5):
                return "value", f"{x[1]} here, {y[1]} there"
        else:
            return "text", f"{x[1]} here, {y[1]} there"
    return "", ""
