"""An op written as several others, for fuse rules. On GPUs these are joined with their neighbours, which the op itself cannot
be (`step/optimize/on_device.py`)."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes


class Parts:
    """Makes the ops that replace `op`; `f` is the Fusing of its rule."""

    def __init__(self, op: Any, f: Any):
        self.op, self.f = op, f

    def make(self, name: str, inputs: list, dims: tuple, kind: Any = dtypes.float32, /, **attrs: Any) -> Any:
        """An op with one result."""
        made = self.f.make(name, inputs, attrs, self.op, outputs=[self.f.result(kind, dims)])
        return self.f.add(made)[0]

    def cast(self, t: Any, kind: Any = dtypes.float32) -> Any:
        """A tensor in another type."""
        return t if t.dtype == kind else self.make("Cast", [t], t.static_dims, kind, SrcT=t.dtype, DstT=kind)

    def each(self, name: str, *inputs: Any, dtype: Any = dtypes.float32) -> Any:
        """An elementwise op with broadcasting."""
        kind = next((t.dtype for t in inputs if t.dtype != dtypes.bool), None)
        dims = tuple(np.broadcast_shapes(*(t.static_dims for t in inputs)))
        return self.make(name, list(inputs), dims, dtype, **({} if kind is None else {"T": kind}))

    def reshaped(self, t: Any, dims: tuple) -> Any:
        """A tensor in another shape."""
        return t if t.static_dims == dims else \
            self.make("Reshape", [t, self.constant(np.array(dims, np.int32))], dims, t.dtype, T=t.dtype)

    def constant(self, value: Any) -> Any:
        """A constant of the graph."""
        value = np.asarray(value)
        dtype = dtypes.as_dtype(value.dtype)
        return self.make("Const", [], value.shape, dtype, value=value, dtype=dtype)

    def number(self, value: float) -> Any:
        """A constant number."""
        return self.constant(np.float32(value))
