"""The cost-model placer: a greedy simulation of the step, as the white paper of 2015 describes it.

Ops are processed in topological order, those on the longest path to the end first. Each is assigned to the device, among those
its constraints allow, where it would finish first: when its inputs have arrived and the device is free, plus its run time
there. Constants, variables and their reads go with the first op that uses them.

A session uses it when ConfigProto.placement_period is set: by estimates first, and after every so many runs of a step with the
times that were measured. Constraints are the same as the simple placer's; state stays in the memory where it is.
"""
from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from penstock._src.graph.node import Operation
from penstock._src.kernels.devices.device import Device
from penstock._src.kernels.devices.devices import DeviceSet
from penstock._src.step.ir import Node, StepGraph, Value
from penstock._src.step.place.constraints import Group
from penstock._src.step.place.costs import CostModel
from penstock._src.step.place.placer import Placement, Placer

_WARM = 2                           # measurements after which a step is not placed again


class CostPlacer(Placer):
    """Places the ops of one graph by what they cost."""

    def __init__(self, devices: DeviceSet, soft: bool = False, log: Callable[[str], None] | None = None,
                 costs: CostModel | None = None):
        super().__init__(devices, soft, log)
        self.costs = costs or CostModel()

    def fresh(self) -> CostPlacer:
        """A placer with the same costs that has placed nothing yet."""
        return CostPlacer(self.devices, self.soft, costs=self.costs)

    def learn(self, cost_graph: Any) -> None:
        """Adds measured costs."""
        self.costs.learn(cost_graph, self.devices)

    def is_cold(self, ops: list[Operation]) -> bool:
        """Whether the costs of some ops are not well known yet: they were measured less than twice."""
        return any(self.costs.times_measured(op) < _WARM for op in ops)

    def _choose(self, step: StepGraph) -> Placement:
        return _Simulation(self, step.ops).run()


class _Simulation:
    """One pass over the ops of a step."""

    def __init__(self, placer: CostPlacer, ops: list[Node]):
        self.placer, self.ops, self.costs = placer, ops, placer.costs
        self.inside = set(ops)
        self.placed: Placement = {}
        self.chosen: dict[Group, Device] = {}              # what this pass has decided
        self.lazy: set[Node] = set()                        # ops that go where the first that uses them goes
        self.done: dict[Node, float] = {}                   # op -> when it is done
        self.free: dict[Device, float] = dict.fromkeys(placer.devices.all, 0.0)
        self.there: dict[tuple[int, Device], float] = {}   # (tensor, device) -> when it has arrived

    def run(self) -> Placement:
        rank = self._ranks()
        waiting = {op: sum(1 for s in self._sources(op)) for op in self.ops}
        consumers: dict[Node, list[Node]] = {op: [] for op in self.ops}
        for op in self.ops:
            for s in self._sources(op):
                consumers[s].append(op)
        number = {op: i for i, op in enumerate(self.ops)}
        heap = [(-rank[op], number[op]) for op in self.ops if not waiting[op]]
        heapq.heapify(heap)
        while heap:
            op = self.ops[heapq.heappop(heap)[1]]
            if self._follows(op):
                self.lazy.add(op)
            else:
                self._take(op)
            for c in consumers[op]:
                waiting[c] -= 1
                if not waiting[c]:
                    heapq.heappush(heap, (-rank[c], number[c]))
        for op in self.ops:                                # unused ops, and ops in a cycle
            if op not in self.placed:
                self._take(op)
        return {op: self.placed[op] for op in self.ops}

    def _follows(self, op: Node) -> bool:
        """Whether an op only returns an existing value (a constant, a variable, its value): it is placed with its first
        user."""
        return not op.control_inputs and all(t.op in self.lazy for t in op.inputs) and self.costs.gives(op)

    def _sources(self, op: Node) -> set[Node]:
        found = {t.op for t in op.inputs} | set(op.control_inputs)
        return {s for s in found if s in self.inside and not s.opdef.back_edge}

    def _ranks(self) -> dict[Node, float]:
        """The longest path from an op to the end of the step, on the best device."""
        best = self.placer.devices.best_first[0]
        rank: dict[Node, float] = dict.fromkeys(self.ops, 0.0)
        for op in reversed(self.ops):
            rank[op] += self.costs.compute(op, best)
            for s in self._sources(op):
                rank[s] = max(rank[s], rank[op])
        return rank

    def _candidates(self, group: Group, op: Node) -> tuple[Device, ...]:
        """The devices that a group may be on. State stays in the memory where it is; new state goes to the best kind."""
        found = self.placer.candidates(group, op)
        if not group.stateful:
            return found
        if group.device is not None:
            return tuple(d for d in found if d.torch == group.device.torch) or found
        return tuple(d for d in found if d.device_type == found[0].device_type)

    def _take(self, op: Node) -> None:
        """Assigns a device to an op and to the ops without inputs that only it has used so far."""
        group = self.placer.constraints.group(op.origin)
        device = self.chosen.get(group)
        if device is None:
            candidates = self._candidates(group, op)
            device = min(candidates, key=lambda d: self._finish(op, d))      # of equals, the best kind
            self._choose(op, group, device, candidates)
        self._sources_follow(op, device)
        finish = self._finish(op, device)
        self._note_arrivals(op, device)
        self.placed[op], self.done[op], self.free[device] = device, finish, finish

    def _choose(self, op: Node, group: Group, device: Device, candidates: tuple[Device, ...]) -> None:
        self.chosen[group] = device
        if group.stateful:
            group.device = device
        if len(candidates) == 1:
            group.reason = self.placer._reason(group)
        else:
            group.reason = ("cost", op.origin, f"is done soonest there, after {self._finish(op, device) * 1e6:.0f} µs, by "
                            f"{'measured' if self.costs.measured else 'estimated'} costs")

    def _sources_follow(self, op: Node, device: Device) -> None:
        for t in op.inputs:
            source = t.op
            if source in self.placed or source not in self.lazy:
                continue
            self._sources_follow(source, device)
            group = self.placer.constraints.group(source.origin)
            found = self.chosen.get(group)
            if found is None:
                candidates = self._candidates(group, source)
                found = device if device in candidates else candidates[0]
                self.chosen[group] = found
                if group.stateful:
                    group.device = found
                group.reason = ("follows", op.origin) if found is device and len(candidates) > 1 else self.placer._reason(group)
            self.placed[source], self.done[source] = found, self.costs.compute(source, found)

    def _finish(self, op: Node, device: Device) -> float:
        """When an op would be done on a device."""
        start = self.free[device]
        for t in op.inputs:
            source = t.op
            if source in self.placed:
                start = max(start, self._arrival(t, device))
        for c in op.control_inputs:
            start = max(start, self.done.get(c, 0.0))
        return start + self.costs.compute(op, device)

    def _arrival(self, t: Value, device: Device) -> float:
        known = self.there.get((id(t), device))
        if known is not None:
            return known
        return self.done[t.op] + self.costs.transfer(t, self.placed[t.op], device)

    def _note_arrivals(self, op: Node, device: Device) -> None:
        """When a tensor has arrived on a device; it is sent once for all its users."""
        for t in op.inputs:
            if t.op in self.placed:
                self.there[(id(t), device)] = self._arrival(t, device)
