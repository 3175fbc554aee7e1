"""Static knowledge of lists in variant tensors (type and shape of their elements), and of inputs of functions that always have
one value."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock._src.base.static_shape import common
from penstock._src.graph.node import AnyTensor, is_edge
from penstock._src.ops import rules

_FAR = 1000          # ops to look back through
_NOTHING = "nothing"  # known, because there are no elements


class Elements(NamedTuple):
    """The shape that all elements of a list share, their value if it is one constant, and their number."""

    dims: Any                  # a static shape
    value: Any                 # (dtype, shape, bytes)
    size: int | None = None

    def with_item(self, dims: tuple | None, value: np.ndarray | None) -> Elements:
        """The facts that also hold for another element; the length stays."""
        known = None if value is None else (value.dtype.str, value.shape, value.tobytes())
        return self.or_other(Elements(dims, known, self.size))

    def or_other(self, other: Elements) -> Elements:
        """The facts that hold for the elements of both lists."""
        if _NOTHING in (self.dims, other.dims):
            dims = self.dims if other.dims == _NOTHING else other.dims
        else:
            dims = common(self.dims, other.dims)
        if _NOTHING in (self.value, other.value):
            value = self.value if other.value == _NOTHING else other.value
        else:
            value = self.value if self.value == other.value else None
        return Elements(dims, value, self.size if self.size == other.size else None)

    @property
    def shape(self) -> tuple | None:
        """The static shape of an element."""
        return None if self.dims == _NOTHING else self.dims

    def constant(self) -> np.ndarray | None:
        """The value of an element, if it is one constant."""
        if self.value is None or self.value == _NOTHING:
            return None
        dtype, shape, data = self.value
        return np.frombuffer(data, dtype).reshape(shape)


class Fixed(NamedTuple):
    """An input of a function that always has one value."""

    dtype: str
    dims: tuple
    data: bytes

    @classmethod
    def of(cls, value: np.ndarray) -> Fixed:
        """The fact that an input has this value."""
        return cls(value.dtype.str, value.shape, value.tobytes())

    def array(self) -> np.ndarray:
        """The value."""
        return np.frombuffer(self.data, self.dtype).reshape(self.dims)


EMPTY = Elements(_NOTHING, _NOTHING)
UNSET = Elements(_NOTHING, None)         # elements that were not set are read as zeros, in the shape of the others


def elements_of(t: AnyTensor) -> tuple[Any, tuple | None] | None:
    """(dtype, static shape) of the elements of the lists in `t`; None if nothing is known."""
    for _ in range(_FAR):
        if hasattr(t, "_value"):
            value = t._value
            return (value.dtype, value.dims) if hasattr(value, "dims") and hasattr(value, "dtype") else None
        rule = rules.lists.elements.get(t.op.opdef)
        if rule is None:
            outer = outside(t)
            if outer is None:
                return None
            t = outer
            continue
        found = rule(t.op, t.value_index)
        if not is_edge(found):
            return found
        t = found
    return None


def outside(t: AnyTensor) -> AnyTensor | None:
    """The tensor that an input of a function graph was captured from."""
    captures = getattr(t.graph, "_captures", None)
    if not captures or t.op.inputs:
        return None
    return next((outer for outer, inner in captures.values() if inner is t), None)
