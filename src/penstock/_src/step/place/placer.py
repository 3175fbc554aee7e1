"""The simple placer: assigns every group of ops to the best device that its constraints allow.

Best is a GPU before a CPU, and the first of its type. Two kinds of free ops follow their neighbours, as copies would cost more
than they compute: ops without inputs go to their consumers, ops that read only shapes to their input.

Each decision is kept with its reason, for `session.explain_placement()`.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from penstock._src.base import errors
from penstock._src.graph.node import AnyOp, Operation
from penstock._src.kernels.devices.device import Device
from penstock._src.kernels.devices.device_spec import name_of, parts_of
from penstock._src.kernels.devices.devices import DeviceSet
from penstock._src.ops import rules
from penstock._src.step.ir import Node, Place, StepGraph
from penstock._src.step.place.constraints import Constraints, Group

Placement = dict[Node, Device]


class Placer:
    """Places the steps of one graph on the devices of one session. Constraints are between the operations of the graph, and
    last; each step is placed by them.

    >>> placer = Placer(DeviceSet(local_devices(config)))
    >>> placer.place(step)
    >>> step.ops[0].place.name
    '/job:localhost/replica:0/task:0/device:CPU:0'
    """

    def __init__(self, devices: DeviceSet, soft: bool = False, log: Callable[[str], None] | None = None):
        self.devices, self.soft = devices, soft
        self.constraints = Constraints(devices.types, soft)
        self._log = log
        self._logged: set[str] = set()

    def fresh(self) -> Placer:
        """A placer of the same kind that has placed nothing yet."""
        return Placer(self.devices, self.soft)

    def learn(self, cost_graph: Any) -> None:
        """Takes measured costs (CostGraphDef), for placers that use them."""

    def extend(self, ops: list[Operation]) -> None:
        """Adds ops of the graph, whether they run or not, because they constrain others. Requested devices must exist."""
        if len(self.devices) == 1:                  # all ops may share this device: no groups are needed
            ops = [op for op in ops if op.device and not self.devices.fitting(parts_of(op.device))]
        self.constraints.extend(ops)
        for op in ops:
            self.candidates(self.constraints.group(op), op)

    def place(self, step: StepGraph) -> None:
        """The pass: assigns a device to each node of a step."""
        for op, device in self.chosen(step).items():
            op.place = device

    @property
    def logs(self) -> bool:
        """Whether decisions are logged."""
        return self._log is not None

    def chosen(self, step: StepGraph) -> Placement:
        """A device for each node of a step. They are logged, if the session logs them."""
        if len(self.devices) == 1 and self._log is None:
            return dict.fromkeys(step.ops, self.devices.host)
        self.constraints.extend([op.origin for op in step.ops])
        placed = self._choose(step)
        if self._log is not None:
            self._log_new(step.ops, placed)
        return placed

    def _choose(self, step: StepGraph) -> Placement:
        placed: Placement = {}
        free = []
        for op in step.ops:
            group = self.constraints.group(op.origin)
            if self._follows(op, group):
                free.append(op)
            else:
                placed[op] = self._decide(group, op)
        for op in reversed(free):
            placed[op] = self._follow(op, self.constraints.group(op.origin), placed)
        return placed

    def device_of(self, op: Operation) -> Device:
        """The device of a single operation, for reports and partial runs."""
        group = self.constraints.group(op)
        return group.device or self.candidates(group, op)[0]

    # -- one group -----------------------------------------------------------------------------------------------------
    def candidates(self, group: Group, op: AnyOp) -> tuple[Device, ...]:
        """The devices that a group may be on, best first; InvalidArgumentError if there is none."""
        found = tuple(d for d in self.devices.fitting(group.parts) if d.device_type in group.types)
        if not found and self.soft:
            anywhere = (*group.parts[:3], None, None)
            found = tuple(d for d in self.devices.fitting(anywhere) if d.device_type in group.types)
        if not found:
            raise self._nowhere(group, op)
        return found

    def _decide(self, group: Group, op: Node) -> Device:
        if group.device is None or group.device.device_type not in group.types:
            group.device = self.candidates(group, op)[0]
            group.reason = self._reason(group)
        return group.device

    def _nowhere(self, group: Group, op: AnyOp) -> errors.OpError:
        op = op.origin or op
        asker = group.asker or op
        asked = name_of(group.parts)
        who = "" if asker is op else f" (with {asker.name}, which must share its device)"
        there = self.devices.fitting(group.parts)
        if there:
            kind = there[0].device_type
            limiter: Any = group.limiters.get(kind, op)
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
    def _follows(self, op: Node, group: Group) -> bool:
        return len(group.members) == 1 and group.asker is None and len(self.devices) > 1 and not op.opdef.stateful and (
            op.opdef in rules.algebra.metadata or not op.inputs and len(op.outputs) == 1 and op.opdef.foldable)

    def _follow(self, op: Node, group: Group, placed: Placement) -> Device:
        candidates = self.candidates(group, op)
        if op.opdef in rules.algebra.metadata:
            leader: Node | None = op.inputs[0].op
            device = placed.get(op.inputs[0].op)
        else:
            leaders = [c for c in op.outputs[0].users if c in placed]
            leader = leaders[0] if leaders else None
            device = placed[leaders[0]] if len({placed[c] for c in leaders}) == 1 else None
        if device is not None and device in candidates and leader is not None:
            group.reason = ("follows", leader.origin)
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

    def why(self, op: Operation) -> str:
        """Why an op is where it is, and which op forced it."""
        group = self.constraints.group(op)
        reason: tuple[Any, ...] = group.reason or ("default", None)
        kind, leader, *rest = reason
        shares = f"shares a device with {leader.name}, which " if leader is not None and leader is not op else ""
        if kind == "follows":
            return f"goes with {leader.name}: it only looks at shapes" if op.opdef in rules.algebra.metadata else \
                f"goes with {leader.name}, which uses it"
        if kind == "asked":
            return f"{shares}asks for {leader.device}{_where(leader)}"
        if kind == "soft":
            return f"{shares}asked for {leader.device}{_where(leader)}, which does not exist or has no kernel for it: " \
                "soft placement"
        if kind == "kernel":
            return f"{shares}has no {rest[0]} kernel{_types_text(leader)}"
        if kind == "cost":
            return shares + rest[0]
        return "nothing asks for another device: the best one"

    def explain(self, ops: list[Operation]) -> str:
        """A line per op: name, type, device, reason."""
        placed = self.chosen(StepGraph(ops, [], [], []))
        return "".join(f"{line(op, device)}  # {self.why(op.origin)}\n" for op, device in placed.items())

    def _log_new(self, ops: list[Node], placed: Placement) -> None:
        new = [line(op, placed[op]) for op in ops]
        new = [text for text in new if text not in self._logged]
        self._logged.update(new)
        if new and self._log is not None:
            self._log("".join(text + "\n" for text in new))


def inside(devices: DeviceSet | None) -> Place | None:
    """The pass that places the body of a function; None where all memory is the host's. A constant (its node
    is no longer the placeholder that it was) is on the host."""
    if devices is None or not devices.mixed:
        return None

    def place(step: StepGraph) -> None:
        Placer(devices, soft=True).place(step)
        for op in step.ops:
            if op.opdef is not op.origin.opdef:
                op.place = devices.host
    return place


def line(op: AnyOp, device: Device) -> str:
    """A placement as TensorFlow logs it.

    >>> line(op, device)
    'a: (MatMul): /job:localhost/replica:0/task:0/device:CPU:0'
    """
    return f"{op.name}: ({op.type}): {device.name}"


def to_stderr(text: str) -> None:
    """Writes log lines, all at once."""
    sys.stderr.write(text)
    sys.stderr.flush()


def _where(op: Operation) -> str:
    """The line of the innermost device scope of an op."""
    scopes = op._device_assignments
    return f" ({scopes[0].filename}:{scopes[0].lineno})" if scopes else ""


def _types_text(op: Operation) -> str:
    names = [getattr(op.attrs[n], "name", "") for n, a in op.opdef.attrs.items() if a.kind == "type" and n in op.attrs]
    return f" of {', '.join(dict.fromkeys(n for n in names if n))}" if any(names) else ""
