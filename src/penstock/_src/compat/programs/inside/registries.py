"""Of `framework.ops` and `profiler.internal.flops_registry`: the registries of gradient functions and of statistics."""
from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from penstock._src.ops.registry import GRADIENTS
from penstock._src.training.profiler.counts import OpStats, RegisterStatistics, get_stats_for_node_def  # noqa: F401


class _Entry(dict):
    """An entry of a registry: setting `type` replaces the function."""

    def __init__(self, name: str):
        super().__init__(type=GRADIENTS[name], location=("UNKNOWN",) * 5)
        self._name = name

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        if key == "type":
            GRADIENTS[self._name] = value


class _Functions(MutableMapping):
    """Gradient functions by type of op. What is deleted after it was replaced here is as before."""

    def __init__(self) -> None:
        self._replaced: dict[str, Any] = {}

    def __getitem__(self, name: str) -> _Entry:
        return _Entry(name)

    def __setitem__(self, name: str, entry: Any) -> None:
        if name in GRADIENTS:
            self._replaced.setdefault(name, GRADIENTS[name])
        GRADIENTS[name] = entry["type"]

    def __delitem__(self, name: str) -> None:
        del GRADIENTS[name]
        if name in self._replaced:
            GRADIENTS[name] = self._replaced.pop(name)

    def __iter__(self) -> Iterator[str]:
        return iter(GRADIENTS)

    def __len__(self) -> int:
        return len(GRADIENTS)


class _Registry:
    """The registry of gradient functions."""

    _registry = _Functions()

    def list(self) -> list[str]:
        """The types of ops that have an entry."""
        return [*GRADIENTS]

    def lookup(self, name: str) -> Callable | None:
        """The gradient function of a type of op; LookupError if there is none."""
        if name not in GRADIENTS:
            raise LookupError(f"gradient registry has no entry for: {name}")
        return GRADIENTS[name]


_gradient_registry = _Registry()


def _elements(graph: Any, tensor: str) -> int:
    """How many elements a tensor has; ValueError if its shape is not known."""
    name = tensor if ":" in tensor else tensor + ":0"
    shape = graph.get_tensor_by_name(name).shape
    shape.assert_is_fully_defined()
    return shape.num_elements()


def _unary_op_flops(graph: Any, node: Any, ops_per_element: int = 1) -> OpStats:
    """So many operations for each element of the input."""
    return OpStats("flops", ops_per_element * _elements(graph, node.input[0]))


def _binary_per_element_op_flops(graph: Any, node: Any, ops_per_element: int = 1) -> OpStats:
    """So many operations for each element of the output."""
    return OpStats("flops", ops_per_element * _elements(graph, node.name))


def _reduction_op_flops(graph: Any, node: Any, reduce_flops: int = 1, finalize_flops: int = 0) -> OpStats:
    """Operations for each element that is reduced, and for each result."""
    results = _elements(graph, node.name)
    return OpStats("flops", _elements(graph, node.input[0]) * reduce_flops + results * (finalize_flops - reduce_flops))
