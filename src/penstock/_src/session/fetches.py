"""Fetches and feeds: maps the arguments of `Session.run` to graph elements, and values back to the same structure.

A fetch may be a tensor, an operation, a name, a variable, a sparse tensor, IndexedSlices, or any nest of lists, tuples,
named tuples, dicts and attrs classes of these. Other libraries add types with
`register_session_run_conversion_functions`.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph.indexed_slices import IndexedSlices, IndexedSlicesValue
from penstock._src.graph.node import Operation, Tensor

_CONVERSIONS: list[tuple[type, Callable, Any, Any]] = []


@export(v1=["register_session_run_conversion_functions"])
def register_session_run_conversion_functions(tensor_type: type, fetch_function: Callable, feed_function: Any = None,
                                              feed_function_for_partial_run: Any = None) -> None:
    """Makes a type usable in fetches and feeds.

    `fetch_function(obj)` returns (list of fetches, function from their values to the result); `feed_function(obj, value)`
    returns pairs (tensor, value).
    """
    for t, *_ in _CONVERSIONS:
        if issubclass(tensor_type, t):
            raise ValueError(f"{tensor_type} has already been registered so ignore it.")
    _CONVERSIONS.insert(0, (tensor_type, fetch_function, feed_function, feed_function_for_partial_run))


class Plan:
    """The elements to fetch, and how to put their values together."""

    __slots__ = ("elements", "build", "simple", "_hold")

    def __init__(self, elements: list, build: Callable[[list], Any], simple: bool, hold: Any):
        self.elements, self.build, self.simple, self._hold = elements, build, simple, hold


def plan_fetches(graph: Any, fetches: Any) -> Plan:
    """Maps fetches to graph elements."""
    elements: list = []

    def add(element: Any) -> int:
        if not graph.is_fetchable(element):
            raise ValueError(f"Operation {_op_name(element)!r} has been marked as not fetchable.")
        elements.append(element)
        return len(elements) - 1
    build = _plan(graph, fetches, add)
    simple = isinstance(fetches, (Tensor, Operation)) or (
        type(fetches) in (list, tuple) and all(isinstance(f, (Tensor, Operation)) for f in fetches))
    return Plan(elements, build, simple, fetches)


def _op_name(element: Any) -> str:
    return element.op.name if isinstance(element, Tensor) else element.name


def _plan(graph: Any, fetch: Any, add: Callable[[Any], int]) -> Callable[[list], Any]:
    if fetch is None:
        raise TypeError(f"Fetch argument {fetch!r} has invalid type {type(fetch)}. Cannot be None")
    if isinstance(fetch, (list, tuple)):
        return _plan_sequence(graph, fetch, add)
    if isinstance(fetch, Mapping):
        parts = {k: _plan(graph, v, add) for k, v in fetch.items()}
        kind = type(fetch)
        return lambda values: _make_mapping(kind, fetch, {k: b(values) for k, b in parts.items()})
    if hasattr(type(fetch), "__attrs_attrs__"):
        names = [a.name for a in type(fetch).__attrs_attrs__]
        parts_a = [_plan(graph, getattr(fetch, n), add) for n in names]
        return lambda values: type(fetch)(*[b(values) for b in parts_a])
    for t, fetch_function, _, _ in _CONVERSIONS:
        if isinstance(fetch, t):
            inner, contract = fetch_function(fetch)
            parts_c = [_plan(graph, f, add) for f in inner]
            return lambda values: contract([b(values) for b in parts_c])
    if isinstance(fetch, IndexedSlices):
        return _plan_slices(graph, fetch, add)
    i = add(_element(graph, fetch))
    return lambda values: values[i]


def _make_mapping(kind: Any, original: Any, items: dict) -> Any:
    if kind.__name__ == "defaultdict":
        return kind(original.default_factory, items)
    try:
        return kind(items)
    except TypeError:
        return items


def _plan_sequence(graph: Any, fetch: Any, add: Callable[[Any], int]) -> Callable[[list], Any]:
    parts = [_plan(graph, f, add) for f in fetch]
    kind = type(fetch)
    if hasattr(fetch, "_fields"):
        return lambda values: kind(*[b(values) for b in parts])
    if kind is list:
        return lambda values: [b(values) for b in parts]
    if kind is tuple:
        return lambda values: tuple([b(values) for b in parts])
    return lambda values: kind([b(values) for b in parts])


def _plan_slices(graph: Any, fetch: IndexedSlices, add: Callable[[Any], int]) -> Callable[[list], Any]:
    parts = [_plan(graph, f, add) for f in (fetch.values, fetch.indices)]
    shape = None if fetch.dense_shape is None else _plan(graph, fetch.dense_shape, add)
    return lambda values: IndexedSlicesValue(parts[0](values), parts[1](values), None if shape is None else shape(values))


def _element(graph: Any, fetch: Any) -> Any:
    try:
        return graph.as_graph_element(fetch, allow_tensor=True, allow_operation=True)
    except TypeError as e:
        raise TypeError(f"Fetch argument {fetch!r} has invalid type {type(fetch)}, must be a string or Tensor. ({e})"
                        ) from None
    except ValueError as e:
        raise ValueError(f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. ({e})") from None
    except KeyError as e:
        raise ValueError(f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. ({e})") from None


def expand_feed(graph: Any, key: Any, value: Any, names_only: bool = False) -> Iterator[tuple[Tensor, Any]]:
    """The (tensor, value) pairs that one entry of a feed_dict represents."""
    for t, _, feed_function, partial_function in _CONVERSIONS:
        if isinstance(key, t):
            if names_only and partial_function is not None:
                for k in partial_function(key):
                    yield graph.as_graph_element(k, allow_operation=False), None
                return
            if feed_function is None:
                raise TypeError(f"Objects of type {t} cannot be fed.")
            for k, v in feed_function(key, value):
                yield graph.as_graph_element(k, allow_operation=False), v
            return
    if isinstance(key, IndexedSlices):
        yield from _expand_slices(graph, key, value, names_only)
        return
    if isinstance(key, tuple):
        yield from _expand_tuple(graph, key, value, names_only)
        return
    try:
        yield graph.as_graph_element(key, allow_tensor=True, allow_operation=False), value
    except Exception as e:
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: {e.args[0] if e.args else e}") from None


def _expand_tuple(graph: Any, key: tuple, value: Any, names_only: bool) -> Iterator[tuple[Tensor, Any]]:
    """The pairs of a tuple of tensors, such as a cell's state, and values in the same structure."""
    if not names_only and hasattr(value, "__len__") and len(value) == len(key):
        keys, values = list(key), list(value)
    else:
        keys = nest.flatten(key)
        values = [None] * len(keys) if names_only else nest.flatten(value)
    if len(keys) != len(values):
        raise ValueError(f"Could not flatten dictionary. Key had {len(keys)} elements, but value had {len(values)} elements. "
                         f"Key: {keys}, value: {values}.")
    for k, v in zip(keys, values):
        yield from expand_feed(graph, k, v, names_only)


def _expand_slices(graph: Any, key: IndexedSlices, value: Any, names_only: bool) -> Iterator[tuple[Tensor, Any]]:
    parts = [key.values, key.indices] + ([] if key.dense_shape is None else [key.dense_shape])
    for i, p in enumerate(parts):
        yield graph.as_graph_element(p), None if names_only else value[i]
