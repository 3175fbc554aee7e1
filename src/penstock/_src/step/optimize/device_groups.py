"""Groups of ops that become kernels on a GPU (`on_device.py`): which are merged, and which values they compute again.

`pointwise.groups` finds ops that are connected, and between which nothing else has to run. Here, groups are merged that compute
values for one another or read the same array. Then a group may compute values of another one again: a cast, or what follows
from an array that is read in any case, is cheaper to compute twice than to store. The costs are bytes that are read and
written.
"""
from __future__ import annotations

import math
from typing import Any

from penstock._src.kernels import device_plan
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value
from penstock._src.step.optimize.pointwise import MOST, fit, is_light, number_of, shape_of, sums_one_way, values_of, widths

_FARTHEST = 500              # ops that are visited to see whether two groups depend on each other
_SMALL = 1 << 16             # elements of arrays whose kernels take as long to launch as to run
_AGAIN = 16                  # ops that one value is computed again by
_HEAVY = 2                   # bytes that are read or written in the time of a division or a function of an element
_MANY = 16                   # elements for each one of a value that takes little time to read


def _whole(group: list[Node]) -> tuple:
    """The shape of the arrays of a group."""
    return (*shape_of(group[0])[0], max(shape_of(op)[1] for op in group))


class Found:
    """Groups of ops that may be joined, which are merged further."""

    def __init__(self, step: StepGraph, found: list[list[Node]], users: dict[int, list[Node]], late: set[Node]):
        self.step, self.found, self.users, self.late = step, found, users, late
        self.home = {op: i for i, group in enumerate(found) for op in group}
        self.fetched = {id(t) for t in step.fetches}
        self.after: dict[Node, list[Node]] = {}              # what waits for an op
        for op in step.ops:
            for c in op.control_inputs:
                self.after.setdefault(c, []).append(op)

    def with_makers(self) -> list[list[list[Node]]]:
        """Groups, each as a list of parts: itself, and groups that compute values for it. These are lifted to its level, where
        their values need not be stored for it. Other ops may need them, too, unless the group depends on those ops."""
        parts = [[group] for group in self.found]
        for i in reversed(range(len(self.found))):
            group = self.found[i]
            takers = [t for op in group for u in self._users(op) if (t := self.home.get(u)) is not None and t != i]
            for to in dict.fromkeys(takers):
                if self._may_be_one(i, to) and \
                        all(fit(u, op) for op in group for u in self._users(op) if self.home.get(u) == to):
                    parts[to] = [*parts[i], *parts[to]]
                    parts[i] = []
                    self._merge(i, to)
                    break
        return [each for each in parts if any(each)]

    def join_readers(self) -> None:
        """Merges groups that read the same array, if they sum its columns, or if it is small: one kernel reads it once."""
        readers: dict[int, list[int]] = {}
        for i, group in enumerate(self.found):
            if any(op.opdef in rules.pointwise.columns for op in group) or math.prod(_whole(group)) <= _SMALL:
                for t in {id(t): t for op in group for t in values_of(op)}.values():
                    if t.static_dims == _whole(group) and self.home.get(t.op) != i:
                        readers.setdefault(id(t), []).append(i)
        for those in readers.values():
            for i in those[1:]:
                to = those[0]
                if i != to and self.found[i] and self.found[to] and self._may_be_one(i, to) and \
                        not self._passes_others(to, i) and not self._feeds(i, to) and not self._feeds(to, i):
                    self._merge(i, to)

    def compute_again(self) -> None:
        """Lets groups compute values of others again, where that takes less time than storing and reading these. The last group
        is the first to decide."""
        for i in reversed(range(len(self.found))):
            while self.found[i] and len(self.found[i]) < MOST:
                read = self._read(i)
                again = next((ops for t in read.values() if (ops := self._worth_it(t, read, i))), None)
                if again is None:
                    break
                self._copy(again, i)

    def _read(self, group: int) -> dict[int, Value]:
        """The values that a group takes, by their ids."""
        return {id(t): t for op in self.found[group] for t in values_of(op) if self.home.get(t.op) != group}

    def _worth_it(self, t: Value, read: dict[int, Value], group: int) -> list[Node]:
        """The ops that compute a value that a group reads, if the group should compute it: what they read, in bytes for each
        element, is less than the value, which is also not written if no other group reads it."""
        if not self._is_again(t, group):
            return []
        ops: dict[Node, None] = {}
        roots: dict[int, Value] = {}
        left = [t]
        while left:
            now = left.pop()
            if now is not t and (id(now) in read or self.home.get(now.op) == group or number_of(now, self.step) is not None or
                                 self._is_narrow(now, group)):
                continue
            if now is not t and (not self._is_again(now, group) or self._is_stored(now, group)):
                roots[id(now)] = now
            elif now.op not in ops:
                ops[now.op] = None
                left += values_of(now.op)
        if len(ops) > _AGAIN or len(self.found[group]) + len(ops) > MOST or \
                len(read) + sum(len(values_of(op)) for op in ops) > device_plan.MOST_GIVEN:
            return []
        saved = t.dtype.size * (1 if self._is_stored(t, group) else 2)
        heavy = sum(not is_light(op) for op in ops)
        return list(ops) if saved > sum(r.dtype.size for r in roots.values()) + heavy * _HEAVY else []

    def _is_again(self, t: Value, group: int) -> bool:
        """Whether a group can compute a value of another one."""
        home, own = self.home.get(t.op), self.found[group]
        return home is not None and home != group and id(t) not in self.fetched and t.static_dims == _whole(own) and \
            t.op.opdef not in rules.pointwise.over_rows and t.op.opdef not in rules.pointwise.columns and \
            (t.op in self.late) is (own[0] in self.late) and t.op.place == own[0].place and not t.op.control_inputs

    def _is_narrow(self, t: Value, group: int) -> bool:
        """Whether reading a value takes little beside the arrays of a group."""
        return math.prod(t.static_dims or ()) * _MANY <= math.prod(_whole(self.found[group]))

    def _is_stored(self, t: Value, group: int) -> bool:
        """Whether others than a group need a value that a second one computes."""
        return any(self.home.get(u) not in (group, self.home[t.op]) for u in self._users(t.op))

    def _copy(self, ops: list[Node], group: int) -> None:
        """Makes copies of ops for a group, before the first of its ops that takes one of their values: what they need may be
        another op of the group."""
        place = {op: i for i, op in enumerate(self.step.ops)}
        members = self.found[group]
        by: dict[int, Value] = {}
        made = []
        for op in sorted(ops, key=place.__getitem__):
            copy = self.step.make(op.opdef, [by.get(id(t), t) for t in op.inputs], op.attrs, op, [op.outputs[0].static_dims],
                                  control=[])
            copy.counts = op.counts
            made.append(copy)
            by[id(op.outputs[0])] = copy.outputs[0]
            for t in copy.inputs:
                self.users.setdefault(id(t), []).append(copy)
        at = min(place[op] for op in members if any(id(t) in by for t in op.inputs))
        for op in members:
            for t in {id(t): t for t in op.inputs if id(t) in by}.values():
                self.users[id(t)] = [u for u in self.users[id(t)] if u is not op]
                self.users.setdefault(id(by[id(t)]), []).append(op)
            op.substitute(by)
        self.step.ops = [*self.step.ops[:at], *made, *self.step.ops[at:]]
        self.found[group] = [*made, *members]
        self.home.update(dict.fromkeys(made, group))
        self.late.update(made if members[0] in self.late else ())

    def _users(self, op: Node) -> list[Node]:
        return self.users.get(id(op.outputs[0]), [])

    def _feeds(self, group: int, to: int) -> bool:
        """Whether an op of a group has a result of another one."""
        return any(self.home.get(u) == to for op in self.found[group] for u in self._users(op))

    def _may_be_one(self, group: int, to: int) -> bool:
        """Whether two groups fit into a kernel, and the second does not depend on the first through other ops."""
        both = [*self.found[group], *self.found[to]]
        return len(both) <= MOST and len(widths(both)) <= 1 and sums_one_way(both) and \
            (self.found[group][0] in self.late) is (self.found[to][0] in self.late) and \
            len({shape_of(op)[0] for op in both}) == 1 and not self._passes_others(group, to)

    def _merge(self, group: int, to: int) -> None:
        self.found[to] = [*self.found[group], *self.found[to]]
        self.home.update(dict.fromkeys(self.found[group], to))
        self.found[group] = []

    def _passes_others(self, group: int, to: int) -> bool:
        """Whether a group depends on another one through ops of neither: joined, they would wait for these ops, and these for
        them. True, too, if that takes long to find out."""
        left = [u for op in self.found[group] for u in self._users(op) if self.home.get(u) not in (group, to)]
        seen: set[Any] = set()
        while left:
            op = left.pop()
            where = self.home.get(op)
            if where == to or len(seen) > _FARTHEST:
                return True
            key = op if where is None else where
            if key not in seen:
                seen.add(key)
                members = [op] if where is None else self.found[where]
                left += [u for o in members for t in o.outputs for u in self.users.get(id(t), ())]
                left += [u for o in members for u in self.after.get(o, ())]
        return False
