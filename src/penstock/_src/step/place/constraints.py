"""Constraints: which ops must share a device, and which devices a group of them may be on.

Ops are grouped by reference edges, by resource handles (a variable with all that touch it), and by `_class: loc:@name`. A
group may be on the devices that satisfy all requests of its members and that have kernels for all of them. If an op and the
resource that it uses request different devices, the resource decides; other contradictions are errors that name both ops.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock._src.base import dtypes, errors
from penstock._src.graph.node import Operation
from penstock._src.kernels.devices.device_spec import name_of, parts_of

_NOTHING = (None,) * 5
_TYPE, _INDEX = 3, 4


class Group:
    """Ops that share a device: what they request, the op that requested it, and the device types that can run them all."""

    __slots__ = ("members", "parts", "askers", "types", "limiters", "device", "reason", "stateful", "holds")

    def __init__(self, op: Operation, parts: tuple, types: tuple[str, ...]):
        self.members = [op]
        self.parts = parts
        self.askers: tuple[Any, ...] = tuple(None if p is None else op for p in parts)
        self.types = frozenset(types)
        self.limiters: dict[str, Operation] = {}  # device type -> the op that has no kernel there
        self.device: Any = None                 # once it is decided
        self.reason: Any = None                 # why: see placer.py
        self.stateful = op.opdef.stateful
        self.holds = _is_holder(op)             # whether a resource is among its members

    @property
    def asked(self) -> str:
        """The device that the group requests."""
        return name_of(self.parts)

    @property
    def asker(self) -> Any:
        """The op with the most specific request."""
        return next((a for a in reversed(self.askers) if a is not None), None)


class Constraints:
    """The groups of the ops of a graph. Grows with the graph."""

    def __init__(self, device_types: Iterable[str], soft: bool):
        self._device_types, self._soft = tuple(device_types), soft
        self._group: dict[Operation, Group] = {}      # op -> group
        self._named: dict[str, Operation] = {}  # colocation class -> an op of it
        self._types: dict[Any, tuple[str, ...]] = {}

    def group(self, op: Operation) -> Group:
        """The group of an op; an op that is not known yet is added."""
        found = self._group.get(op)
        if found is None:
            self.extend([op])
            found = self._group[op]
        return found

    def extend(self, ops: Iterable[Operation]) -> None:
        """Adds ops, and joins them with the groups that they must share a device with."""
        new = [op for op in ops if op not in self._group]
        for op in new:
            self._add(op)
        for op in new:
            self._join_all(op)

    def _add(self, op: Operation) -> None:
        made = self._group[op] = Group(op, parts_of(op.device) if op.device else _NOTHING, self._types_of(op))
        for t in self._device_types:
            if t not in made.types:
                made.limiters[t] = op

    def _types_of(self, op: Operation) -> tuple[str, ...]:
        """The types of devices with a kernel for this op."""
        opdef, attrs = op.opdef, op.attrs
        if callable(opdef.gpu):
            return opdef.device_types(attrs)
        try:
            key = (opdef, *(str(attrs.get(n)) for n, a in opdef.attrs.items() if a.kind in ("type", "list(type)")))
        except AttributeError:
            return ("CPU",)
        found = self._types.get(key)
        if found is None:
            found = self._types[key] = opdef.device_types(attrs)
        return found

    def _join_all(self, op: Operation) -> None:
        for name in op._extra.get("_class", ()) if op._extra else ():
            name = name.decode() if isinstance(name, bytes) else name
            if name.startswith("loc:@"):
                self._join_class(op, name)
        if op.inputs:
            self._join_inputs(op)

    def _join_class(self, op: Operation, name: str) -> None:
        other = self._named.get(name)
        if other is None:
            other = self._named[name] = op.graph._by_name.get(name[5:], op) if op.graph is not None else op
        if other is not op:
            self._join(op, other, "the colocation " + name, by_class=True)

    def _join_inputs(self, op: Operation) -> None:
        opdef = op.opdef
        if opdef.has_ref_inputs:
            for arg, t in _by_argument(op):
                if arg.is_ref and t.dtype._is_ref_dtype:
                    self._join(op, t.op, "a reference edge")
        if not opdef.calls:
            for t in op.inputs:
                if t.dtype is dtypes.resource and not t.op.opdef.calls:
                    self._join(op, t.op, "a resource edge")

    def _join(self, op: Operation, other: Operation, because: str, by_class: bool = False) -> None:
        a, b = self.group(op), self.group(other)
        if a is b:
            return
        if not by_class and not a.holds and not _compatible(a.parts, b.parts):
            a.parts, a.askers = b.parts, b.askers
        if len(a.members) > len(b.members):
            a, b = b, a
        self._merge_requests(a, b, op, other, because)
        types = a.types & b.types
        if not types:
            raise errors.InvalidArgumentError(
                op.node_def, op, f"Cannot colocate nodes {op.name} and {other.name} ({because}) because no device type "
                f"supports both of those nodes and the other nodes colocated with them: {_kernels(a)}; {_kernels(b)}.")
        b.types = types
        b.limiters = {**a.limiters, **b.limiters}
        b.members += a.members
        if b.device is None or a.stateful and not b.stateful:
            b.device, b.reason = (a.device, a.reason) if a.device is not None else (b.device, b.reason)
        b.stateful |= a.stateful
        b.holds |= a.holds
        for member in a.members:
            self._group[member] = b

    def _merge_requests(self, a: Group, b: Group, op: Operation, other: Operation, because: str) -> None:
        parts, askers = list(b.parts), list(b.askers)
        for i, (mine, theirs) in enumerate(zip(a.parts, b.parts, strict=True)):
            if mine is None or mine == theirs:
                continue
            if theirs is None:
                parts[i], askers[i] = mine, a.askers[i]
            elif not self._soft or i < _TYPE:
                raise errors.InvalidArgumentError(
                    op.node_def, op, f"Cannot colocate nodes {op.name} and {other.name} ({because}): {a.askers[i].name} asks "
                    f"for '{a.askers[i].device}', {b.askers[i].name} for '{b.askers[i].device}'. Assign both to one device, or "
                    "set allow_soft_placement in the session's ConfigProto.")
            else:                                   # soft placement: conflicting requests are ignored
                parts[i] = askers[i] = None
                if i == _TYPE:
                    parts[_INDEX] = askers[_INDEX] = None
                    break
        b.parts, b.askers = tuple(parts), tuple(askers)


def _is_holder(op: Operation) -> bool:
    """Whether an op makes a handle or a reference, instead of forwarding one."""
    return any(t.dtype is dtypes.resource or t.dtype._is_ref_dtype for t in op.outputs) and not any(
        t.dtype is dtypes.resource or t.dtype._is_ref_dtype for t in op.inputs)


def _compatible(a: tuple, b: tuple) -> bool:
    return all(x is None or y is None or x == y for x, y in zip(a, b, strict=True))


def _by_argument(op: Operation) -> Iterable[tuple[Any, Any]]:
    """(declared input, tensor) pairs."""
    i = 0
    for arg, n in zip(op.opdef.inputs, op.counts or (None,) * len(op.opdef.inputs), strict=True):
        for t in op.inputs[i:i + (1 if n is None else n)]:
            yield arg, t
        i += 1 if n is None else n


def _kernels(group: Group) -> str:
    names = ", ".join(op.name for op in group.members[:3])
    return f"{names} can be on {' and '.join(sorted(group.types)) or 'no device'}"
