"""The simple placer: every group of ops goes to the best device that its constraints allow.

Best is a GPU before a CPU, and the first of its type. Two kinds of free ops follow their neighbours, as copies would cost more
than they compute: what makes values from nothing goes to its consumers, what inspects only shapes to its input.

Each decision is kept with its reason, for `session.explain_placement()`.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from penstock._src.base import errors
from penstock._src.kernels.devices.device import Device
from penstock._src.kernels.devices.device_spec import name_of, parts_of
from penstock._src.kernels.devices.devices import DeviceSet
from penstock._src.ops import rules
from penstock._src.step.place.constraints import Constraints, Group

Placement = dict[Any, Device]                      # op -> device


class Placer:
    """Places the ops of one graph on the devices of one session.

    >>> placer = Placer(DeviceSet(local_devices(config)))
    >>> placer.place(ops)[ops[0]].name
    '/job:localhost/replica:0/task:0/device:CPU:0'
    """

    def __init__(self, devices: DeviceSet, soft: bool = False, log: Callable[[str], None] | None = None):
        self.devices, self.soft = devices, soft
        self.constraints = Constraints(devices.types, soft)
        self._log, self._logged = log, set()       # type: tuple[Any, set[str]]

    def fresh(self) -> Placer:
        """A placer of the same kind that has placed nothing yet."""
        return Placer(self.devices, self.soft)

    def learn(self, cost_graph: Any) -> None:
        """Takes notice of measured costs (CostGraphDef): for placers that go by them."""

    def extend(self, ops: list[Any]) -> None:
        """Takes in ops of the graph, whether they are run or not: they bind others. What they request must exist."""
        if len(self.devices) == 1:                  # whatever requests this device may share it: no groups are needed
            ops = [op for op in ops if op.device and not self.devices.fitting(parts_of(op.device))]
        self.constraints.extend(ops)
        for op in ops:
            self.candidates(self.constraints.group(op), op)

    def place(self, ops: list[Any]) -> Placement:
        """A device for each op."""
        if len(self.devices) == 1 and self._log is None:
            return dict.fromkeys(ops, self.devices.host)
        self.constraints.extend(ops)
        placed: Placement = {}
        free = []
        for op in ops:
            group = self.constraints.group(op)
            if self._follows(op, group):
                free.append(op)
            else:
                placed[op] = self._decide(group, op)
        for op in reversed(free):
            placed[op] = self._follow(op, self.constraints.group(op), placed)
        if self._log is not None:
            self._log_new(ops, placed)
        return placed

    # -- one group -----------------------------------------------------------------------------------------------------
    def candidates(self, group: Group, op: Any) -> tuple[Device, ...]:
        """The devices that a group may be on, best first; InvalidArgumentError if there is none."""
        found = tuple(d for d in self.devices.fitting(group.parts) if d.device_type in group.types)
        if not found and self.soft:
            anywhere = (*group.parts[:3], None, None)
            found = tuple(d for d in self.devices.fitting(anywhere) if d.device_type in group.types)
        if not found:
            raise self._nowhere(group, op)
        return found

    def _decide(self, group: Group, op: Any) -> Device:
        if group.device is None or group.device.device_type not in group.types:
            group.device = self.candidates(group, op)[0]
            group.reason = self._reason(group)
        return group.device

    def _nowhere(self, group: Group, op: Any) -> errors.OpError:
        asker = group.asker or op
        asked = name_of(group.parts)
        who = "" if asker is op else f" (with {asker.name}, which must share its device)"
        there = self.devices.fitting(group.parts)
        if there:
            kind = there[0].device_type
            limiter = group.limiters.get(kind, op)
            text = (f"Cannot assign a device for operation {op.name}{who}: Could not satisfy explicit device specification "
                    f"'{asked}' because no supported kernel for {kind} devices is available for {limiter.name} "
                    f"({limiter.type}{_types_text(limiter)}), which can run on: {', '.join(sorted(group.types)) or 'nothing'}. "
                    f"Available devices are [ {self.devices.names} ]. Set allow_soft_placement in the session's ConfigProto "
                    "to let it go there.")
        else:
            text = (f"Cannot assign a device for operation {op.name}{who}: Operation was explicitly assigned to {asked} but "
                    f"available devices are [ {self.devices.names} ]. Make sure the device specification refers to a valid "
                    "device, or set allow_soft_placement in the session's ConfigProto.")
        return errors.InvalidArgumentError(op.node_def, op, text)

    # -- ops that follow others ------------------------------------------------------------------------------------------
    def _follows(self, op: Any, group: Group) -> bool:
        return len(group.members) == 1 and group.asker is None and len(self.devices) > 1 and not op.opdef.stateful and (
            op.opdef in rules.algebra.metadata or not op.inputs and len(op.outputs) == 1 and op.opdef.foldable)

    def _follow(self, op: Any, group: Group, placed: Placement) -> Device:
        candidates = self.candidates(group, op)
        if op.opdef in rules.algebra.metadata:
            leader = op.inputs[0].op
            device = placed.get(leader)
        else:
            leaders = [c for c in op.outputs[0]._consumers if c in placed]
            leader = leaders[0] if leaders else None
            device = placed[leader] if leaders and len({placed[c] for c in leaders}) == 1 else None
        if device is not None and device in candidates:
            group.reason = ("follows", leader)
            return device
        group.reason = self._reason(group)
        return candidates[0]

    # -- why ---------------------------------------------------------------------------------------------------------------
    def _reason(self, group: Group) -> tuple:
        best = self.devices.best_first[0].device_type
        if group.asker is not None:
            exact = any(d.device_type in group.types for d in self.devices.fitting(group.parts))
            return ("asked", group.asker) if exact else ("soft", group.asker)
        if best in group.limiters:
            return ("kernel", group.limiters[best], best)
        return ("default", None)

    def why(self, op: Any) -> str:
        """Why an op is where it is, and which op forced it."""
        group = self.constraints.group(op)
        kind, leader, *rest = group.reason or ("default", None)
        shares = f"shares a device with {leader.name}, which " if leader is not None and leader is not op else ""
        if kind == "follows":
            return f"goes with {leader.name}: it only looks at shapes" if op.opdef in rules.algebra.metadata else \
                f"goes with {leader.name}, which uses it"
        if kind == "asked":
            return f"{shares}asks for {leader.device}{_where(leader)}"
        if kind == "soft":
            return f"{shares}asked for {leader.device}{_where(leader)}, which is not there or has no kernel for it: " \
                "soft placement"
        if kind == "kernel":
            return f"{shares}has no {rest[0]} kernel{_types_text(leader)}"
        if kind == "cost":
            return shares + rest[0]
        return "nothing asks for another device: the best one"

    def explain(self, ops: list[Any]) -> str:
        """A line per op: name, type, device, reason."""
        placed = self.place(ops)
        return "".join(f"{line(op, placed[op])}  # {self.why(op)}\n" for op in ops)

    def _log_new(self, ops: list[Any], placed: Placement) -> None:
        new = [line(op, placed[op]) for op in ops]
        new = [text for text in new if text not in self._logged]
        self._logged.update(new)
        if new:
            self._log("".join(text + "\n" for text in new))


def inside(ops: list[Any], devices: DeviceSet | None) -> Placement | None:
    """Devices for the ops of a function's body; None where all memory is the host's."""
    return Placer(devices, soft=True).place(ops) if devices is not None and devices.mixed else None


def line(op: Any, device: Device) -> str:
    """A placement as TensorFlow logs it.

    >>> line(op, device)
    'a: (MatMul): /job:localhost/replica:0/task:0/device:CPU:0'
    """
    return f"{op.name}: ({op.type}): {device.name}"


def to_stderr(text: str) -> None:
    """Writes log lines, all at once."""
    sys.stderr.write(text)
    sys.stderr.flush()


def _where(op: Any) -> str:
    """The line of the innermost device scope of an op."""
    scopes = op._device_assignments
    return f" ({scopes[0].filename}:{scopes[0].lineno})" if scopes else ""


def _types_text(op: Any) -> str:
    names = [getattr(op.attrs[n], "name", "") for n, a in op.opdef.attrs.items() if a.kind == "type" and n in op.attrs]
    return f" of {', '.join(dict.fromkeys(n for n in names if n))}" if any(names) else ""
