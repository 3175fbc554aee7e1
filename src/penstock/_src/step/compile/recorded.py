"""Recordings: host programs that run without the Python interpreter between kernels.

Between two kernels a program is Python, which holds the interpreter lock. That slows steps of many short kernels, and makes the
steps of several threads wait for each other. So a program that has run often with the same shapes is recorded
(step/compile/recorder.py), and its ATen calls become scripts (step/compile/script.py), which PyTorch runs without Python and
without its lock. Updates of variables stay in Python, in the same order and under the same locks (step/compile/replay.py).

A recording is tested on copies before it is used. It is valid while feeds and variables keep their shapes and layouts; other
steps run the program itself. A step that fails is repeated by the program, on copies, to find the error and its op.

Variables with one element that a program only reads (a learning rate, the decay of an average) are constants of its recording:
kernels take such values as Python numbers. The step is recorded again after an assignment to one of them. Those that changed
while the recording was due (sums of a metric, a rate that a callback sets) are variables from the start: each attempt with a
constant that changes is in vain, and takes as long as many steps.
"""
from __future__ import annotations

import collections
import itertools
import logging
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.step.compile.program import Program
from penstock._src.step.compile.recorder import Changes, Event, Recorder, Refused, Traced, inner, tensors
from penstock._src.step.compile.replay import KERNELS, Replay, forwarded, product_first
from penstock._src.step.ir import Node, Value

_AFTER = 32                  # runs of a program before it is recorded
_FEWEST = 8                  # the fewest statements of a recorded program
_LONGEST = 0.005             # the least seconds of work in a recorded step, or
_LONGEST_EACH = 1e-4         # seconds of each statement
_MOST_OPAQUE = 0.3           # as a share of the statements: each of them ends a script
_LARGEST = 64 << 20          # the most bytes of variables: they are copied for the test
_AGAIN = 8                   # runs before it is recorded again, after a constant of the recording has changed
_MOST_CHANGES = 2            # changes of one variable, until it is no longer a constant

_PLAIN = (torch.Tensor, int, float, complex, tuple, type(None))     # constants of a program that are not state

_log = logging.getLogger("penstock")


def recordable(program: Any, ops: list[Node], feeds: list[Value], crowded: Callable[[], bool]) -> Any:
    """`program`, to be recorded after some runs if its ops allow it. `crowded` tells whether other steps run now."""
    if type(program) is not Program or len(program.lines) < _FEWEST or not all(map(_computes, ops)) or read_on_host(ops, feeds):
        return program
    state = [c for name, c in program.scope.items() if name[0] == "c" and not isinstance(c, _PLAIN)]
    return Recorded(program, crowded) if all(hasattr(c, "stand_in") for c in state) else program


def _computes(op: Node) -> bool:
    """Whether an op depends only on its inputs and on variables, according to its declaration."""
    opdef = op.opdef
    if opdef.blocking or opdef.control_flow or opdef.client_code or opdef.transfer:
        return False
    if opdef.random or opdef.calls:
        return (opdef.random or not opdef.stateful) and \
            all(t.static_dims is not None and None not in t.static_dims for t in op.outputs) \
            and all(t.dtype.base_dtype.torch is not None for t in (*op.inputs, *op.outputs))
    handles = [t for t in op.inputs if t.dtype.base_dtype.torch is None]
    return (not opdef.stateful or opdef.per_session or bool(handles)) and all(
        t.dtype.base_dtype.name == "resource" and t.op.opdef.per_session for t in handles)


def read_on_host(ops: list[Node], feeds: list[Value], noted: bool = False) -> bool:
    """Whether a feed is a shape, an axis or text: it may change without changing its own shape. With `noted`, numbers that the
    host reads are compared in every run (step/tiers/captured.py), and only text counts."""
    fed = {id(t) for t in feeds if t.dtype.base_dtype.name != "resource"}
    for op in ops:
        arguments = [arg for arg, n in zip(op.opdef.inputs, op.counts or (None,) * len(op.opdef.inputs), strict=True)
                     for _ in range(1 if n is None else n)]
        if any(id(t) in fed and (arg.name in op.opdef.host_inputs and t.dtype.is_integer and not noted or t.dtype.torch is None)
               for arg, t in zip(arguments, op.inputs, strict=True)):
            return True
    return False


class Recorded(Program):
    """A program that runs as a recording where possible."""

    def __init__(self, program: Program, crowded: Callable[[], bool]):
        self.program, self._crowded = program, crowded
        self.source, self.lines, self.filename, self.scope = program.source, program.lines, program.filename, program.scope
        self._variables = {name: c for name, c in program.scope.items() if hasattr(c, "stand_in")}
        self._left = _AFTER
        self._lock = threading.Lock()
        self.alone: Program | None = None            # the recording, for a step that runs alone
        self.shared: Program | None = None           # the recording, for steps that run at once
        self._holds_for: tuple = ()
        self._held = list(self._variables.values())
        self._seen: list[Any] = [lambda: None for _ in self._held]       # their values when they were last inspected
        self._constants: list[tuple[str, Any, torch.Tensor]] = []     # variables with their values in the recording
        self._changes: collections.Counter[str] = collections.Counter()
        self._noted: dict[str, torch.Tensor] = {}    # values of one element when a recording became due

    def run(self, ctx: Any, *feeds: Any) -> tuple:
        """One step."""
        alone, shared = self.alone, self.shared
        if alone is not None and shared is not None:
            if self._holds(feeds) and self._constant(alone):
                return self._replayed(shared if self._crowded() else alone, ctx, feeds)
        elif self._left > 0:
            if not self._noted:
                self._noted = dict(self._single())
            self._left -= 1
            if self._left <= 0 and self._lock.acquire(blocking=False):
                try:
                    return self._last_before(ctx, feeds)
                finally:
                    self._lock.release()
        return self.program.run(ctx, *feeds)

    def _constant(self, recording: Program) -> bool:
        """Whether the variables that a recording treats as constants are unchanged. Their values are referenced here, so that
        an assignment replaces the tensor."""
        changed = [name for name, variable, value in self._constants if variable.value is not value]
        if changed and self.alone is recording:
            self._changes.update(changed)
            self.alone = self.shared = None          # the constants are kept: another thread may be comparing them
            self._left, self._noted = _AGAIN, {}
        return not changed

    def _single(self) -> list[tuple[str, torch.Tensor]]:
        """The variables of one element, with their values. While a value is referenced, an assignment replaces it."""
        values = [(name, v.value) for name, v in self._variables.items()]
        return [(name, value) for name, value in values if isinstance(value, torch.Tensor) and value.numel() == 1]

    @property
    def unlocked(self) -> bool:     # type: ignore[override]
        """Whether it runs as a recording now."""
        return self.alone is not None

    def failing_op(self, traceback: Any) -> Node | None:
        """The op whose statement raised."""
        return self.program.failing_op(traceback)

    def _holds(self, feeds: tuple) -> bool:
        """Whether feeds and variables have the same layout. Most variables are the same tensors as in the run before:
        they are compared by weak references, because a strong reference would prevent updates in place."""
        for feed, known in zip(feeds, self._holds_for, strict=False):
            if not isinstance(feed, torch.Tensor) or (feed.shape, feed.stride()) != known:
                return False
        seen = self._seen
        for i, v in enumerate(self._held):
            value = v.value
            if seen[i]() is not value:
                if not isinstance(value, torch.Tensor) or (value.shape, value.stride()) != self._holds_for[len(feeds) + i]:
                    return False
                seen[i] = weakref.ref(value)
        return True

    def _shapes(self, feeds: tuple) -> tuple:
        """The key of a recording: the layout of feeds and variables in memory."""
        return tuple([(t.shape, t.stride()) if isinstance(t, torch.Tensor) else None
                      for t in (*feeds, *[v.value for v in self._variables.values()])])

    def _last_before(self, ctx: Any, feeds: tuple) -> tuple:
        """Runs the program, then records it."""
        began = time.thread_time()
        results = self.program.run(ctx, *feeds)
        took = time.thread_time() - began
        shapes = self._shapes(feeds)
        longest = max(_LONGEST, _LONGEST_EACH * len(self.lines))
        if None in shapes or took > longest or sum(v.read().nbytes for v in self._variables.values()) > _LARGEST:
            return results
        try:
            self._holds_for = shapes                 # before the recording is published: other threads inspect both
            self._record(ctx, feeds)
        except Exception as e:
            self.alone = self.shared = None
            self._constants = []
            _log.debug("Step is not recordable: %s", str(e).partition("\n")[0])
        return results

    def _record(self, ctx: Any, feeds: tuple) -> None:
        """Records with all one-element variables as constants, except for those that change."""
        changing = {name for name, times in self._changes.items() if times >= _MOST_CHANGES}
        changing |= {name for name, value in self._single() if self._noted.get(name, value) is not value}
        while True:
            fixed = {name for name, _ in self._single()} - changing
            try:
                self._record_with(fixed, ctx, feeds)
                return
            except Changes as e:
                changing.add(e.name)

    def _record_with(self, fixed: set[str], ctx: Any, feeds: tuple) -> None:
        recorder = Recorder()
        instead = {name: v.stand_in(recorder, name, name in fixed) for name, v in self._variables.items()}
        try:
            plain = {name: getattr(c, "fresh", c) for name, c in self.scope.items()}
            kernels = {name: plain[name] for name in self.program.opaque}
            plain |= {name: recorder.opaque(name, kernels[name], kind) for name, kind in self.program.opaque.items()}
            step = _bound(self.program, {**plain, **instead})
            traced = [Traced(f) for f in feeds]
            with recorder:
                results = step(ctx, *traced)
            recorder.items, results = forwarded(recorder.items, results)
            separate = list(itertools.chain.from_iterable(map(product_first, recorder.items)))
            if sum(isinstance(i, Event) and i.kind in KERNELS and any(isinstance(t, Traced) for t in tensors(i.args))
                   for i in recorder.items) > _MOST_OPAQUE * (
                       len(self.lines) + sum(kind.ops - 1 for kind in self.program.opaque.values())):
                raise Refused("many kernels read values on the host")
            replays = [Replay(items, traced, results, kernels | self._variables, alone).program()
                       for items, alone in ((recorder.items, True), (separate, False))]
            for replay in replays:
                copies = {name: self._variables[name].beside(i.first) for name, i in instead.items()}
                with _as_written():
                    trial = _bound(replay, {**replay.scope, **copies, **recorder.drawn})
                    _must_agree(trial(ctx, *feeds), inner(results))
                _must_agree([v.value for v in copies.values()], [i.now for i in instead.values()])
            self._constants = [(name, self._variables[name], instead[name].first) for name in fixed]
        finally:
            for stand_in in instead.values():
                stand_in.dissolve()
        self.shared, self.alone = replays[1], replays[0]

    def _replayed(self, replay: Program, ctx: Any, feeds: tuple) -> tuple:
        try:
            with _as_written():
                return replay.run(ctx, *feeds)
        except (RuntimeError, IndexError, ValueError, TypeError):      # of a script, or of a single call of ATen
            self._explain_failure(ctx, feeds)
            raise

    def _explain_failure(self, ctx: Any, feeds: tuple) -> None:
        """Raises the error that the program raises for these feeds."""
        copies = {name: v.beside(v.read()) for name, v in self._variables.items()}
        _bound(self.program, {**self.scope, **copies})(ctx, *feeds)


class _as_written:
    """Turns off PyTorch's profiling executor, which would profile scripts and recompile them."""

    def __enter__(self) -> None:
        self.optimize = torch._C._get_graph_executor_optimize()
        torch._C._set_graph_executor_optimize(False)

    def __exit__(self, *error: Any) -> None:
        torch._C._set_graph_executor_optimize(self.optimize)


def _bound(program: Program, scope: dict) -> Callable:
    """The function of a program with some constants replaced."""
    exec(compile(program.source, program.filename, "exec"), scope)      # our own generated source
    return scope["step"]


def _must_agree(found: Any, expected: Any) -> None:
    """Rejects a recording whose results differ from the program's."""
    for a, b in zip(found, expected, strict=True):
        if isinstance(a, torch.Tensor) and not (a.shape == b.shape and a.dtype is b.dtype and
                                                torch.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True)):
            raise Refused("the recording produces different values")
