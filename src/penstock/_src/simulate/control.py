"""The kernels that a simulated step calls: those that determine the control flow.

A value is *known* if it is small and computed from known ones: constants, steps, tokens, handles. All others have a shape and a
type and no content (meta tensors). A kernel is called if it changes a known variable, a queue or an accumulator, or if such a
kernel or another task uses its result. All other ops only cost time.

A kernel that has to wait does not block: its attempt stays in its queue (data/queues/attempts.py), and `Parked` is raised. When
the attempt is over, the kernel is called again and receives its outcome.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.data.queues.attempts import Attempt, Lines
from penstock._src.data.queues.shared import Shared
from penstock._src.execute.context import ResourceManager, StepContext
from penstock._src.ops.state.accumulator import WORKER
from penstock._src.step.ir import Node, Value

KNOWN = 64                          # elements of the largest tensor whose value is computed


class Parked(Exception):
    """A kernel waits."""


class Parking:
    """How the attempts of one part wait: `wake` is called when the one that waits is over."""

    def __init__(self, wake: Callable[[], None]):
        self._wake = wake
        self._attempt: Attempt | None = None
        self._lines: Any = None
        self._line: Any = None

    def run(self, lines: Lines, attempt: Attempt, line: Any) -> Any:
        """Performs an attempt, or leaves it in its queue and raises Parked."""
        before, self._attempt = self._attempt, None
        if before is not None:
            lines.drop(self._line)
            return before.outcome()
        with lines.lock:
            line.append(attempt)
            lines.flush()
            if attempt.over:
                return attempt.outcome()
            attempt.gate = self                          # type: ignore[assignment]
        self._attempt, self._line, self._lines = attempt, line, lines
        raise Parked

    def put(self, _: Any) -> None:
        """The attempt is over: what a thread's queue would be told."""
        self._wake()

    def cancel(self, error: errors.OpError) -> None:
        """The step has failed: removes waiting attempts from their queues."""
        attempt, self._wake = self._attempt, lambda: None
        if attempt is not None and not attempt.over:
            self._lines.leave(attempt, self._line, error)
            self._lines.drop(self._line)


class Control:
    """One op whose kernel is called."""

    __slots__ = ("op", "_kernel", "_bound", "_ctx", "_reads", "_once")

    def __init__(self, op: Node):
        kernel: Any = op.opdef.kernel_for("cpu")
        self.op, self._kernel, self._ctx = op, kernel, kernel.wants_ctx
        self._bound: dict[str, Callable] = {}        # by the worker whose step it is; one for all, if that makes no difference
        self._reads = [t.dtype._is_ref_dtype and not arg.is_ref for t, arg in zip(op.inputs, op.opdef.inputs, strict=True)]
        self._once = op.opdef.per_session

    def _call(self, worker: str) -> Callable:
        """The kernel for a step of a worker: workers share a graph, in which an attribute identifies them to accumulators."""
        worker = worker if WORKER in self.op._extra else ""
        if worker not in self._bound:
            node = self.op if not worker else _Renamed(self.op, worker)
            self._bound[worker] = self._kernel.bind(self.op.attrs, node)
        return self._bound[worker]

    def __call__(self, values: dict[int, Any], ctx: StepContext, kept: dict[Node, Any], worker: str = "") -> None:
        """Calls the kernel, and puts its results among the values; `kept` has those of handles."""
        op = self.op
        if self._once and op in kept:
            values[id(op.outputs[0])] = kept[op]
            return
        given = [_value(t, values, reads) for t, reads in zip(op.inputs, self._reads, strict=True)]
        call = self._call(worker)
        out = call(*given, ctx=ctx) if self._ctx else call(*given)
        if len(op.outputs) == 1:
            values[id(op.outputs[0])] = out
        else:
            values.update(zip(map(id, op.outputs), out or (), strict=False))
        if self._once:
            kept[op] = out


class _Renamed:
    """An op as it would be in the graph of another worker."""

    def __init__(self, op: Node, worker: str):
        self._op, self._extra = op, {**op._extra, WORKER: worker}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._op, name)


def _value(t: Value, values: dict[int, Any], reads: bool) -> Any:
    if id(t) not in values:
        values[id(t)] = torch.empty(t.static_dims or (), dtype=t.dtype.base_dtype.torch, device="meta")
    value = values[id(t)]
    return value.read() if reads else value


class Controls:
    """The ops of a part whose kernels are called, and the tensors that they use."""

    def __init__(self, ops: set[Node]):
        self._ops = ops
        self._used = {id(t) for op in ops for t in (*op.inputs, *op.outputs)}

    def uses(self, t: Value) -> bool:
        """Whether a kernel that is called uses a tensor, or makes it."""
        return id(t) in self._used

    def call(self, op: Node) -> Control | None:
        """The call for an op, if any."""
        return Control(op) if op in self._ops else None


def controls(ops: list[Node]) -> Controls:
    """Finds the ops of a part whose kernels are called."""
    known: set[int] = set()                        # ids of tensors
    shared: set[int] = set()                       # handles of queues and accumulators
    kernels, acting = set(), []
    for op in ops:
        if op.opdef.transfer:
            acting += [t.op for t in op.inputs if id(t) in known]      # another task may depend on it
            known.update(id(t) for t in op.outputs if _small(t))
        elif op.opdef.per_session:
            _look_at_handle(op, known, shared)
            kernels.add(op)
        elif _callable(op) and (not shared.isdisjoint(map(id, op.inputs)) or known.issuperset(map(id, op.inputs))):
            held = not shared.isdisjoint(map(id, op.inputs))
            known.update(id(t) for t in op.outputs if _small(t) or held and not t.dtype.base_dtype.is_floating)
            kernels.add(op)
            if held or op.opdef.stateful or op.opdef.has_ref_inputs:
                acting.append(op)
    return Controls(_feeding(acting, kernels))


def _callable(op: Node) -> bool:
    opdef = op.opdef
    return not (op.counts or opdef.control_flow or opdef.calls or opdef.random) and opdef.kernel_for("cpu") is not None


def _small(t: Value) -> bool:
    """Whether a tensor can be known: a few integers, booleans or strings. Other numbers do not affect control flow."""
    dims = t.static_dims
    if t.dtype.base_dtype.is_floating or t.dtype.base_dtype.is_complex:
        return False
    return dims is not None and None not in dims and torch.Size(dims).numel() <= KNOWN


def _look_at_handle(op: Node, known: set[int], shared: set[int]) -> None:
    """A variable is known if it is small; a queue or an accumulator, which its kernel tells, is shared."""
    handle = op.outputs[0]
    scratch = StepContext(ResourceManager())
    made: dict[int, Any] = {}
    Control(op)(made, scratch, {})
    if isinstance(made[id(handle)], Shared):
        shared.add(id(handle))
        known.add(id(handle))
    elif _small(handle) if handle.dtype._is_ref_dtype else _small_variable(op):
        known.add(id(handle))


def _small_variable(op: Node) -> bool:
    if op.attrs["dtype"].base_dtype.is_floating:
        return False
    shape = op.attrs.get("shape")
    dims = getattr(shape, "static_dims", None)
    return dims is not None and None not in dims and torch.Size(dims).numel() <= KNOWN


def _feeding(acting: list[Node], kernels: set[Node]) -> set[Node]:
    """The ops with effects, and those that their inputs depend on."""
    found: set[Node] = set()
    left = list(acting)
    while left:
        op = left.pop()
        if op not in found and op in kernels:
            found.add(op)
            left += [t.op for t in op.inputs]
    return found
