"""Programs over logical GPUs that share a physical one: each GPU's statements go to its own stream
(kernels/devices/streams.py).

    def step(ctx, gpu, f0):
        t1 = k1(f0)                      # on GPU:0, on the caller's stream
        p2 = gpu.sent(t1, 0)             # a copy for GPU:1, and an event
        gpu.on(1)
        t3 = k3(gpu.received(p2, 1))     # on GPU:1, which waits for the event; GPU:0 continues beside it

Invariants under concurrency:

- A tensor is used on the stream that made it; other streams get copies, made on that stream. So an update in place concerns its
own stream only.
- All ops on a variable are on one stream.
- An op that may keep tensors beyond its own statement (functions, Python code, lists, queues) runs alone: all streams are
joined before it and fork again after it.
- Feeds and bound constants exist before the streams fork, and are kept until they have joined.
"""
from __future__ import annotations

import contextlib
from typing import Any

from penstock._src.base import dtypes
from penstock._src.kernels.devices.device import Device
from penstock._src.step.compile.program import Program, Writer, bound_once
from penstock._src.step.ir import Node, Value

_NO_TENSORS = (dtypes.resource, dtypes.string)


def sharing_devices(ops: list[Node], placed: dict[Node, Device]) -> list[Device]:
    """The logical devices with streams that a program uses, if some of them are on one physical device; else none."""
    found = {placed[op] for op in ops if placed[op].streamed}
    return sorted(found, key=lambda d: d.index) if len({d.physical for d in found}) < len(found) else []


class _Plan:
    """Which stream each op is on, by its number; which tensors go from one to another."""

    def __init__(self, ops: list[Node], placed: dict[Node, Device], devices: list[Device], fed: set[int],
                 bound: dict[int, Any]):
        self.placed, self.fed, self.bound = placed, fed, bound
        self.numbers = {d: i for i, d in enumerate(devices)}
        self.at: dict[Node, int | None] = {}              # None: anywhere
        self.alone: set[Node] = set()
        self.made: dict[int, int] = {}                         # tensor -> the stream that its value may be of
        self.sent: dict[int, dict[int, None]] = {}             # tensor -> the streams that get a copy
        self.handles: dict[int, int] = {}                      # resource -> the stream of all ops on it
        for op in ops:
            if not bound_once(op):
                self._add(op)

    def _add(self, op: Node) -> None:
        number = self._number(op)
        self.at[op] = number
        for t in op.inputs:
            if self.crosses(t, op):
                self.sent.setdefault(id(t), {})[number] = None   # type: ignore[index]
        if number is not None and (op in self.alone or not self.placed[op].host or self._handles(op)):
            self.made.update({id(t): number for t in op.outputs if id(t) not in self.fed})

    def _number(self, op: Node) -> int | None:
        number = self.numbers.get(self.placed[op])
        handles = self._handles(op)
        on = {self.handles.setdefault(id(t), self.numbers.get(self.placed.get(t.op), number or 0)) for t in handles}   # type: ignore[arg-type]
        if len(on) > 1 or self._keeps(op, handles):
            self.alone.add(op)
            return 0
        if on:
            return on.pop()
        return number if number is not None else next((self.made[id(t)] for t in op.inputs if id(t) in self.made), None)

    def _handles(self, op: Node) -> list[Value]:
        """The variables that an op works on, if the GPU's kernels do it, or if it is unknown."""
        return [t for t in op.inputs if t.dtype.base_dtype == dtypes.resource
                and (id(t) in self.fed or not self.placed[op].host)]

    def _keeps(self, op: Node, handles: list[Value]) -> bool:
        """Whether an op may use tensors in ways that streams cannot track."""
        opdef = op.opdef
        if opdef.calls or opdef.client_code or opdef.control_flow:
            return True
        if self.placed[op].host or opdef.transfer:
            return False
        if opdef.blocking or any(t.dtype.base_dtype == dtypes.variant for t in (*op.inputs, *op.outputs)):
            return True
        if any(id(t) not in self.fed and not hasattr(self.bound.get(id(t)), "writable") for t in handles):
            return True
        return opdef.stateful and not handles and "seed2" not in op.attrs          # random numbers keep no tensors

    def crosses(self, t: Value, op: Node) -> bool:
        """Whether an op is on another stream than a tensor that it takes."""
        return self.made.get(id(t), self.at[op]) != self.at[op] and t.dtype.base_dtype not in _NO_TENSORS


class StreamWriter(Writer):
    """Writes one such program."""

    def __init__(self, ctx: Any, placed: dict[Node, Device], devices: list[Device]):
        super().__init__(ctx, placed)
        self.devices = devices
        self.parameters = "ctx, gpu"
        self.now = 0                                           # the stream that statements go to
        self.op: Node | None = None
        self.parcels: dict[tuple[int, int], str] = {}          # (tensor, stream) -> the name of the copy on its way
        self.last_taken: dict[tuple[int, int], int] = {}       # the same -> index of the op that takes it last
        self.results: list[int] = []                           # the fetches that are of other streams than the caller's
        self.arguments: list[int] = []                         # the feeds that are variables of the GPU

    def write(self, ops: list[Node], fetches: list[Value], feeds: list[Value]) -> Program:
        """The program that runs `ops` and returns `fetches`."""
        self.fed = {id(t) for t in feeds}
        for i, op in enumerate(ops):
            if bound_once(op):
                super()._op(i, op)
        self.plan = _Plan(ops, self.placed, self.devices, self.fed, self.constants())
        self.results = [i for i, t in enumerate(fetches) if self.plan.made.get(id(t))]
        self.arguments = [i for i, t in enumerate(feeds) if id(t) in self.plan.handles]
        return super().write(ops, fetches, feeds)

    def _program(self, source: str) -> Program:
        return Streamed(source, self.scope, self.lines, self.devices, self.results, self.arguments)

    def _find_last_uses(self, ops: list[Node], fetches: list[Value], feeds: list[Value]) -> None:
        for i, op in enumerate(ops):
            number = self.plan.at.get(op)
            for t in op.inputs:
                if number is not None and self.plan.crosses(t, op):
                    self.last_taken[(id(t), number)] = i
                    self.last_use.setdefault(id(t), -1)
                else:
                    self.last_use[id(t)] = i
        for t in fetches:
            self.last_use[id(t)] = len(ops)

    def _op(self, index: int, op: Node) -> None:
        if bound_once(op):
            return
        self.op = op
        super()._op(index, op)
        self.op = None
        for t in op.outputs:
            for number in self.plan.sent.get(id(t), ()):
                name = self.parcels[(id(t), number)] = self._new_name("p")
                self._text(f"{name} = gpu.sent({self._value(t)}, {self.now})")
            if self.last_use.get(id(t)) == -1 and id(t) not in self.fed:
                self._text(f"del {self.names[id(t)]}")

    def _line(self, text: str, op: Node) -> None:
        if op in self.plan.alone:
            self._text("gpu.join()")
            self.now = 0
        elif self.plan.at[op] not in (None, self.now):
            self.now = self.plan.at[op]                        # type: ignore[assignment]
            self._text(f"gpu.on({self.now})")
        super()._line(text, op)
        if op in self.plan.alone:
            self._text("gpu.fork()")

    def _value(self, t: Value, as_ref: bool = False) -> str:
        if self.op is not None and not as_ref and self.plan.crosses(t, self.op):
            number = self.plan.at[self.op]
            return f"gpu.received({self.parcels[(id(t), number)]}, {number})"   # type: ignore[index]
        return super()._value(t, as_ref)

    def _used_up(self, index: int, op: Node) -> set[str]:
        number = self.plan.at[op]
        taken = {(id(t), number) for t in op.inputs}
        return super()._used_up(index, op) | {self.parcels[key] for key in taken if self.last_taken.get(key) == index}   # type: ignore[index, arg-type]


class Streamed(Program):
    """A program that runs on several streams."""

    def __init__(self, source: str, scope: dict[str, Any], lines: dict[int, Node], devices: list[Device],
                 results: list[int], arguments: list[int]):
        super().__init__(source, scope, lines)
        self._step = self.__dict__.pop("run")
        self._devices, self._results, self._arguments = devices, results, arguments
        self._state = [c for c in scope.values() if hasattr(c, "writable")]

    def run(self, ctx: Any, *feeds: Any) -> tuple:
        """One step. With variables that were unknown at compile time, everything runs on one stream."""
        given = [feeds[i] for i in self._arguments]
        apart = len({id(v) for v in given}) == len(given) and all(hasattr(v, "writable") for v in given)
        state = [*self._state, *given] if apart else self._state
        streams = self._devices[0].streams(self._devices, apart)
        streams.share([v.value for v in state])
        try:
            results = self._step(ctx, streams, *feeds)
        except BaseException:
            with contextlib.suppress(RuntimeError):            # after a failed capture, streams cannot be joined
                streams.join()
            raise
        streams.join()
        streams.share([v.value for v in state])
        streams.share([results[i] for i in self._results])
        return results
