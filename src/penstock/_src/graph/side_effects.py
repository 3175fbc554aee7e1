"""The order of side effects in a function, by the rule of TensorFlow's automatic control dependencies.

An op that changes a resource waits for the ops that changed or read it before, and one that reads a resource for the last that
changed it: reads do not wait for each other, and neither do ops on different resources. Effects that belong to no resource
(files, printing) keep their order among each other, as draws of random numbers do. Python functions may do anything: they keep
their order with everything. An op that calls functions has the effects of their bodies.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph.node import Operation, Tensor
from penstock._src.ops import rules

_ELSEWHERE = "elsewhere"     # stands for the resource of effects that belong to none
_DRAWS = "draws"             # for the one that random ops change
_ALL = "all"                 # for every resource


def order_side_effects(graph: Any) -> list[Operation]:
    """Adds control edges between the ops with side effects, and returns these ops: all of them run with the function."""
    order = _Order()
    effects = [op for op in graph._ops
               if op.opdef.stateful and not op.opdef.per_session and op._control_flow_context is None]
    for op in effects:
        for before in order.add(op, _touched(op)):
            if before not in op.control_inputs:
                op._add_control_input(before)
    graph.touched = order.touched
    return effects


class _Order:
    """What the next op has to wait for."""

    def __init__(self) -> None:
        self.last: dict[Any, Operation] = {}               # the last op that changed a resource
        self.readers: dict[Any, list[Operation]] = {}      # those that have read it since
        self.all: Operation | None = None                  # the last that may have changed anything
        self.touched: dict[Any, bool] = {}                 # resource -> whether it is only read

    def add(self, op: Operation, touched: dict[Any, bool]) -> list[Operation]:
        """The ops that this one waits for."""
        for key, reads in touched.items():
            self.touched[key] = reads and self.touched.get(key, True)
        if _ALL in touched:
            before = [*self.last.values(), *(r for found in self.readers.values() for r in found), self.all]
            self.last, self.readers, self.all = {}, {}, op
        else:
            before = [b for key, reads in touched.items() for b in self._resource(key, op, reads)]
        return list(dict.fromkeys(b for b in before if b is not None and b is not op))

    def _resource(self, key: Any, op: Operation, reads: bool) -> list[Operation | None]:
        before = [self.last.get(key, self.all)]
        if reads:
            self.readers.setdefault(key, []).append(op)
            return before
        self.last[key] = op
        return [*before, *self.readers.pop(key, ())]


def _touched(op: Operation) -> dict[Any, bool]:
    """The resources that an op uses, and whether it only reads them."""
    opdef = op.opdef
    if opdef.client_code:
        return {_ALL: False}
    if opdef.calls:
        return _by_functions(op)
    reads = opdef.reads or opdef in rules.updates.looks
    found = {_resource(t): reads for t in op.inputs if _is_state(t)}
    return found or {_DRAWS if opdef.random else _ELSEWHERE: False}


def _by_functions(op: Operation) -> dict[Any, bool]:
    """The same of an op that calls functions, each with the last inputs of the op."""
    found: dict[Any, bool] = {}
    for function in _functions(op):
        if function is None or len(function.inputs) > len(op.inputs):
            return {_ALL: False}
        outer = {id(inner): t for inner, t in zip(reversed(function.inputs), reversed(op.inputs), strict=False)}
        for key, reads in _inside(function.graph).items():
            if isinstance(key, int):                       # a tensor of the function
                if key not in outer:
                    continue
                key = _resource(outer[key])
            found[key] = reads and found.get(key, True)
    return found


def _inside(graph: Any) -> dict[Any, bool]:
    """The resources that the body of a function uses."""
    if graph.touched is None:
        graph.touched = {_ALL: False}                      # of a function that calls itself
        found: dict[Any, bool] = {}
        for op in graph._ops:
            if op.opdef.stateful and not op.opdef.per_session:
                for key, reads in _touched(op).items():
                    found[key] = reads and found.get(key, True)
        graph.touched = found
    return graph.touched


def _functions(op: Operation) -> Iterator[Any]:
    """The functions that an op calls; None for one that is not known."""
    for name in op.opdef.function_attrs:
        value = op.attrs[name]
        for f in value if isinstance(value, (list, tuple)) else (value,):
            yield getattr(op.graph._get_function(f) if isinstance(f, str) else f, "graph_function", None)


def _is_state(t: Tensor) -> bool:
    return t.dtype.base_dtype == dtypes.resource or t.dtype._is_ref_dtype


def _resource(t: Tensor) -> Any:
    """What the handles of one resource in one graph have in common."""
    while rules.forwards(t.op) and len(t.op.inputs) == 1:
        t = t.op.inputs[0]
    op = t.op
    if op.opdef.per_session:
        return op.attrs.get("container"), op.attrs.get("shared_name") or op.name
    return id(t)
