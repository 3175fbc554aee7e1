"""ONNX graphs as plain objects, which rules emit and passes change. `messages.py` writes them as protobuf messages.

Constants belong to the outermost graph; the graphs of loops and branches read them, and all values around them, by name.
"""
from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.step.ir import Node, StepGraph, Value, is_const

Dims = tuple[int | None, ...] | None
Text = str | np.ndarray | np.generic | Value | None          # how rules may refer to an input


@dataclasses.dataclass
class OnnxNode:
    """A call of an ONNX operator. Values are strings; attributes may be graphs."""
    type: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any]


@dataclasses.dataclass
class Typed:
    """An input or output of a graph; a sequence of such tensors if `sequence`."""
    name: str
    dtype: dtypes.DType
    dims: Dims
    sequence: bool = False


@dataclasses.dataclass
class OnnxGraph:
    """Nodes in an order in which they can run, and the constants that they use."""
    name: str
    nodes: list[OnnxNode] = dataclasses.field(default_factory=list)
    inputs: list[Typed] = dataclasses.field(default_factory=list)
    outputs: list[Typed] = dataclasses.field(default_factory=list)
    constants: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)


class Unsupported(Exception):
    """An op has no form in ONNX; the text has the reason."""


class Builder:
    """Adds nodes to a graph. Rules call it: `b("Relu", x)` adds a node and returns the name of its output."""

    def __init__(self, graph: OnnxGraph, opset: int, parent: Builder | None = None):
        self.graph, self.opset = graph, opset
        self.root: Builder = self if parent is None else parent.root
        self.values: dict[int, str] = {} if parent is None else dict(parent.values)      # names, by the ids of values
        self.known: dict[int, np.ndarray] = {} if parent is None else dict(parent.known)  # constants that functions are given
        self.fetched: set[int] = set()                  # ids of the values that its ops return
        self.at = ""                                    # the op that nodes are added for
        self._used: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._shared: dict[Any, str] = {}               # names of small constants, by what they are
        self.lists: dict[str, dtypes.DType] = {} if parent is None else parent.lists    # of sequences: types of elements
        self.written: list[StepGraph] = [] if parent is None else parent.written    # keeps values alive whose ids are keys
        self.problems: list[tuple[Node, str]] = [] if parent is None else parent.problems

    def inner(self, name: str) -> Builder:
        """The builder of the graph of a branch or loop."""
        made = Builder(OnnxGraph(self.unique(name)), self.opset, self)
        made.at = self.at
        return made

    def unique(self, base: str) -> str:
        """A name that no other value or node of the model has."""
        root = self.root
        name = base = base or "value"
        while name in root._used:
            root._numbers[base] = root._numbers.get(base, 0) + 1
            name = f"{base}_{root._numbers[base]}"
        root._used.add(name)
        return name

    def __call__(self, type: str, *inputs: Text, outputs: int | None = None, **attrs: Any) -> Any:
        """Adds a node; the name of its output, or the names if `outputs` is given."""
        names = [self.unique(self.at) for _ in range(outputs or 1)]
        given = [self.name(x) for x in inputs]
        self.graph.nodes.append(OnnxNode(type, given, names, {k: v for k, v in attrs.items() if v is not None}))
        return names[0] if outputs is None else names

    def name(self, x: Text) -> str:
        """The ONNX value of a tensor, or of an array."""
        if x is None:
            return ""
        if isinstance(x, str):
            return x
        if isinstance(x, Value):
            if id(x) not in self.values and is_const(x):
                self.values[id(x)] = self.constant(x.op.attrs["value"], x.op.name)
            return self.values[id(x)]
        return self.constant(x, "const")

    def constant(self, array: Any, base: str) -> str:
        """The name of a constant."""
        array = np.asarray(array)
        key = (array.dtype.str, array.dtype.name, array.shape, array.tobytes()) \
            if array.size <= 64 and array.dtype != object else None
        root = self.root
        if key is not None and key in root._shared:
            return root._shared[key]
        name = root.unique(base)
        root.graph.constants[name] = array
        if key is not None:
            root._shared[key] = name
        return name

    # -- static knowledge of values --------------------------------------------------------------------------------------
    def value(self, x: Value) -> np.ndarray | None:
        """The value of a constant; None if it is not known."""
        if id(x) in self.known:
            return self.known[id(x)]
        return np.asarray(x.op.attrs["value"]) if is_const(x) else None

    def required(self, x: Value, what: str) -> np.ndarray:
        """The value of an input that ONNX has as an attribute."""
        found = self.value(x)
        if found is None:
            raise Unsupported(f"its {what} is not a constant")
        return found

    def rank(self, x: Value) -> int:
        """The number of dimensions of a value."""
        if x.static_dims is None:
            raise Unsupported("the rank of an input is not known")
        return len(x.static_dims)

    # -- short forms --------------------------------------------------------------------------------------------------
    def cast(self, x: Text, dtype: dtypes.DType) -> str:
        """A value as another type."""
        return self("Cast", x, to=dtype)

    def int64(self, x: Value, vector: bool = False) -> str:
        """A tensor of sizes or axes in ONNX's type for them; as a vector, if requested."""
        found = self.value(x)
        if found is not None:
            return self.name(np.asarray(found, np.int64).reshape(-1) if vector else np.asarray(found, np.int64))
        name = self.name(x) if x.dtype == dtypes.int64 else self.cast(x, dtypes.int64)
        return self("Reshape", name, ints(-1)) if vector and (x.static_dims is None or len(x.static_dims) != 1) else name

    def like(self, x: Value, value: Any) -> np.ndarray:
        """A scalar of the type of a value."""
        return np.asarray(value, x.dtype.base_dtype.as_numpy_dtype)

    def transpose(self, x: Text, perm: list[int]) -> str:
        """A value with its axes in another order."""
        return self.name(x) if perm == sorted(perm) else self("Transpose", x, perm=perm)

    def shape(self, x: Text) -> str:
        """The sizes of a value, as int64."""
        return self("Shape", x)


def ints(*values: int) -> np.ndarray:
    """A vector of int64."""
    return np.asarray(values, np.int64)


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    return axis + rank if axis < 0 else axis
