"""Which ops and tensors depend on given tensors."""
from __future__ import annotations

from typing import Any

from penstock._src.graph.node import Operation, Tensor
from penstock._src.models.keras.engine.node import parts_of
from penstock._src.state.variables.variable import Variable


def _parents(item: Any) -> Any:
    if isinstance(item, Operation):
        return [*item.inputs, *item.control_inputs]
    if isinstance(item, Tensor) and not hasattr(item, "_value"):
        return [item.op]
    if hasattr(item, "_type_spec"):
        return parts_of(item)
    return []


def reachable_from(inputs: Any, targets: Any) -> set[int]:
    """The ids of the targets (tensors or ops) that depend on one of the inputs."""
    sources = {id(p) for x in inputs for p in (x, *_composite_parts(x))}
    known: dict[int, bool] = {}
    for target in targets:
        _visit(target, sources, known)
    return {id(t) for t in targets if known.get(id(t))}


def _composite_parts(x: Any) -> list:
    """The components of a composite tensor or a variable."""
    if isinstance(x, Variable):
        return [] if hasattr(getattr(x, "handle", None), "_value") else [x.op]
    return parts_of(x)


def _visit(target: Any, sources: set[int], known: dict[int, bool]) -> None:
    """Fills in `known` for the target and all that it depends on; without recursion, graphs are deep."""
    stack = [(target, None)]
    while stack:
        item, parents = stack.pop()
        key = id(item)
        if parents is None:
            if key in known:
                continue
            known[key] = key in sources
            if known[key]:
                continue
            parents = _parents(item)
            stack.append((item, parents))
            stack.extend((p, None) for p in parents)
        else:
            known[key] = any(known.get(id(p)) for p in parents)
