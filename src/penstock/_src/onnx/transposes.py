"""Cancels inverse transposes.

A transpose moves past the element-wise ops, pads and concatenations that take its result, until it meets its inverse. Between
two convolutions with the channels last, all four transposes cancel.
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock._src.onnx.builder import Builder, OnnxGraph, OnnxNode

_ELEMENTWISE = {"Abs", "Add", "And", "Cast", "Ceil", "Clip", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Greater",
                "GreaterOrEqual", "Identity", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Min", "Mul", "Neg", "Not",
                "Or", "Pow", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sign", "Softplus", "Softsign", "Sqrt", "Sub", "Sum",
                "Tanh", "Where"}


def cancel_transposes(b: Builder) -> None:
    """Changes the nodes of a graph, and of the graphs inside of it."""
    _Pass(b.graph, b.graph.constants, b.unique).run()


class _Pass:
    def __init__(self, graph: OnnxGraph, constants: dict[str, np.ndarray], unique: Callable[[str], str]):
        self.graph, self.constants, self.unique = graph, constants, unique
        self.behind: dict[str, tuple[str, list[int]]] = {}      # results of transposes: of what, and how
        self.alias: dict[str, str] = {}
        self.nodes: list[OnnxNode] = []

    def run(self) -> None:
        for node in self.graph.nodes:
            node.inputs = [self.alias.get(x, x) for x in node.inputs]
            if node.type == "Transpose":
                self._transpose(node)
            elif not self._moved(node):
                self.nodes.append(node)
            for inner in _graphs(node):
                _rename(inner, self.alias)
                _Pass(inner, self.constants, self.unique).run()
        self.graph.nodes = self.nodes
        for made in self.graph.outputs:
            if made.name in self.alias:
                self.nodes.append(OnnxNode("Identity", [self.alias[made.name]], [made.name], {}))
        drop_unused(self.graph)

    def _transpose(self, node: OnnxNode) -> None:
        source, perm = node.inputs[0], list(node.attrs["perm"])
        if source in self.behind:
            source, first = self.behind[source]
            perm = [first[p] for p in perm]
        if perm == sorted(perm):
            self.alias[node.outputs[0]] = source
            return
        self._emit(source, perm, node.outputs[0])

    def _emit(self, source: str, perm: list[int], result: str) -> None:
        self.nodes.append(OnnxNode("Transpose", [source], [result], {"perm": perm}))
        self.behind[result] = (source, perm)

    def _moved(self, node: OnnxNode) -> bool:
        """Moves the transpose of a node's inputs after the node; False if there is none, or if they differ."""
        perms = [self.behind[x][1] for x in node.inputs if x in self.behind]
        if not perms or any(p != perms[0] for p in perms) or len(node.outputs) != 1:
            return False
        perm = perms[0]
        if node.type in _ELEMENTWISE:
            inputs = [self._before(x, perm) for x in node.inputs]
        elif node.type == "Concat" and all(x in self.behind for x in node.inputs):
            inputs = [self.behind[x][0] for x in node.inputs]
            node.attrs = {**node.attrs, "axis": perm[node.attrs["axis"]]}
        elif node.type == "Pad" and len(node.inputs) <= 3 and node.inputs[1] in self.constants:
            inputs = [self.behind[node.inputs[0]][0], self._pads(node.inputs[1], perm), *node.inputs[2:]]
        elif node.type == "Shape":
            self._shape(node, perm)
            return True
        else:
            return False
        if None in inputs:
            return False
        result = node.outputs[0]
        inner = self.unique(result)
        self.nodes.append(OnnxNode(node.type, inputs, [inner], node.attrs))             # type: ignore[arg-type]
        self._emit(inner, perm, result)
        return True

    def _shape(self, node: OnnxNode, perm: list[int]) -> None:
        """The sizes of a transposed value are those of its source in another order."""
        sizes, order = self.unique(node.outputs[0]), self.unique(node.outputs[0])
        self.constants[order] = np.asarray(perm, np.int64)
        self.nodes.append(OnnxNode("Shape", [self.behind[node.inputs[0]][0]], [sizes], node.attrs))
        self.nodes.append(OnnxNode("Gather", [sizes, order], node.outputs, {"axis": 0}))

    def _before(self, x: str, perm: list[int]) -> str | None:
        """The value whose transpose is `x`; None if unknown."""
        if x in self.behind:
            return self.behind[x][0]
        if x not in self.constants:
            return None
        value = self.constants[x]
        if value.ndim == 0:
            return x
        if value.ndim > len(perm):
            return None
        whole = value.reshape([1] * (len(perm) - value.ndim) + list(value.shape))
        return self._constant(x, whole.transpose(np.argsort(perm)), perm)

    def _pads(self, x: str, perm: list[int]) -> str:
        return self._constant(x, self.constants[x].reshape(2, -1)[:, np.argsort(perm)].reshape(-1), perm)

    def _constant(self, x: str, value: np.ndarray, perm: list[int]) -> str:
        """A constant made of the constant `x`."""
        name = self.unique(f"{x}_{''.join(map(str, perm))}")
        self.constants[name] = np.ascontiguousarray(value)
        return name


def _graphs(node: OnnxNode) -> list[OnnxGraph]:
    return [v for v in node.attrs.values() if isinstance(v, OnnxGraph)]


def _rename(graph: OnnxGraph, alias: dict[str, str]) -> None:
    for node in graph.nodes:
        node.inputs = [alias.get(x, x) for x in node.inputs]
        for inner in _graphs(node):
            _rename(inner, alias)


def used_names(graph: OnnxGraph) -> set[str]:
    """The values that a graph and those inside of it take or return."""
    found = {t.name for t in graph.outputs}
    for node in graph.nodes:
        found.update(node.inputs)
        for inner in _graphs(node):
            found |= used_names(inner)
    return found


def drop_unused(graph: OnnxGraph) -> None:
    """Removes nodes whose results nothing takes."""
    live, kept = {t.name for t in graph.outputs}, []
    for node in reversed(graph.nodes):
        if live.isdisjoint(node.outputs):
            continue
        kept.append(node)
        live.update(node.inputs)
        for inner in _graphs(node):
            live |= used_names(inner)
    graph.nodes = kept[::-1]
