"""Chooses the version of a step to run.

Every step starts immediately as a program (tier 1). On a GPU, a step whose feeds have recurring shapes is captured as a CUDA
graph (tier 2). A step that runs longer is traced to a graph (`lower.py`), which Inductor compiles in another process (tier
3). The compiled version runs once beside the current one, on copies of the variables; if both agree, they take turns until it
is known which is faster (`rivals.py`), and that one stays.

A step that a tier rejects stays in its tier. The reason is logged once, counted in `refused`, and not tried again for the same
shapes. PENSTOCK_TIER limits the tiers (1, 2 or 3). PENSTOCK_TIER=wait compiles before the second run, as `jit_compile=True`
does. On the host, where compiling takes long, steps are compiled only where one of these requests it.
"""
from __future__ import annotations

import collections
import contextlib
import logging
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch

from penstock._src.base import switches, tracing
from penstock._src.graph.functions import as_function
from penstock._src.graph.node import AnyOp, Tensor
from penstock._src.kernels import exiting
from penstock._src.kernels.devices import cuda
from penstock._src.ops import rules
from penstock._src.step.compile.program import CHECK_NUMERICS, Program
from penstock._src.step.compile.recorded import read_on_host
from penstock._src.step.ir import Node
from penstock._src.step.tiers import attention, convolutions, generated, inductor, lower, products, rivals, stored
from penstock._src.step.tiers.captured import (
    Captured,
    Moves,
    Reads,
    Stale,
    after_failure,
    alone,
    is_variable,
    on_device,
    places,
)

_FEWEST = 4                         # the fewest statements of a program
_SETTLING = 2                       # runs before a capture: allocators and cuDNN's search for algorithms settle in these
_MOST_KEYS = 8                      # sets of shapes for which one step has better versions
_MOST_MOVES = 8                     # the most captures of one step because its variables moved
_MOST_PATHS = 64                    # the most captures of one step for different numbers that the host reads
_MOST_NEW = 24                      # of them, before captures are given up if most runs need a new one
_MOST_MISSES = 4                    # runs for which a compiled version did not hold, before it is given up if these are
_SELDOM = 0.2                       # more than this part of all
_OFTEN = 20                         # runs of a step before it is compiled
_LONG = 2.0                         # seconds since the first of them ended: compiling occupies a core
_CLOSE = {"cpu": 0.02, "cuda": 0.1}  # of what a variable changes by: two versions agree if they differ by less
_MUCH = 1 << 28                     # bytes of variables that a trial copies to the host
_ROUNDED = 0.3                      # the same for steps in half precision, in which sums of many numbers may nearly vanish

_TIERS = {1: "a program", 2: "a program", 3: "compiled"}

refused: collections.Counter = collections.Counter()      # reasons why steps stayed in a lower tier
_log = logging.getLogger("penstock")
_told: set[str] = set()
every: weakref.WeakSet[Tiered] = weakref.WeakSet()        # the steps that have better versions, for reports


class Origin(Protocol):
    """What a step was compiled from."""

    @property
    def spec(self) -> Any:
        """The StepSpec."""
        ...

    @property
    def dims(self) -> list | None:
        """The shapes of feeds that it was compiled for."""
        ...

    def unfused(self) -> Any:
        """The program as calls of ATen alone, for tracing."""
        ...


def tiered(program: Any, step: Any, placed: dict | None, origin: Origin, wait: bool = False) -> Any:
    """`program`, compiled from an optimized `step` whose ops are `placed`, with its better versions. `wait` compiles before the
    second run."""
    asked = switches.TIER.value()
    highest = asked or "3"
    device = _device(placed)
    where = (placed or {}).items()
    apart = any(d.host and op.inputs for op, d in where) or len({d for _, d in where if not d.host}) > 1
    worth_it = len(program.lines) >= _FEWEST or any(op.opdef.calls for op in step.ops)
    if highest == "1" or device is None or CHECK_NUMERICS or not isinstance(program, Program) or not worth_it or \
            read_on_host(step.ops, step.feeds, device.type == "cuda" and not apart) or not _only_variables(step.ops):
        return program
    compiles = highest in ("3", "wait") and inductor.available(device.type)
    if device.type != "cuda" and not (compiles and (wait or asked)):
        return program
    random = any(op.opdef.random or op.opdef.calls for op in step.ops)
    return Tiered(program, origin, device, compiles, wait or highest == "wait", asked == "3", random, apart)


def _device(placed: dict | None) -> torch.device | None:
    """The device that a step runs on; None if there are several beside the host."""
    if placed is None:
        return torch.device("cpu")
    found = {d.torch for d in placed.values() if not d.host}
    return found.pop() if len(found) == 1 else None


def _only_variables(ops: Sequence[AnyOp], depth: int = 0) -> bool:
    """Whether ops have no state besides variables, random streams, and arrays that end with the step."""
    for op in ops:
        opdef = op.opdef
        if opdef.blocking or opdef.client_code or opdef.transfer in ("send", "recv") or depth > 16 or \
                opdef in rules.tiers.on_host:
            return False
        if opdef.calls:
            bodies = [as_function(f, op.graph) for n in opdef.function_attrs
                      for f in (op.attrs[n] if isinstance(op.attrs[n], (list, tuple)) else [op.attrs[n]])]
            if not all(_only_variables(f.graph._ops, depth + 1) for f in bodies):
                return False
        elif opdef.stateful and not opdef.per_session and not opdef.random and opdef not in rules.tiers.raises and \
                opdef not in rules.shapes.holder and not any(t.dtype.base_dtype.name == "resource" for t in op.inputs):
            return False
    return True


class Tiered(Program):
    """A step that runs in the best available version for its feeds."""

    def __init__(self, program: Any, origin: Origin, device: torch.device, compiles: bool, wait: bool, eager: bool,
                 random: bool, apart: bool = True):
        # steps that may draw from PyTorch's generator do not run while another one is captured
        self.drawing = alone if random and device.type == "cuda" else contextlib.nullcontext()
        self.program, self.device, self.compiles, self.wait = program, device, compiles, wait
        self.apart = apart                     # some of its ops are on the host, or on another stream
        self.eager = eager                     # compile as soon as it has run often
        self.origin = origin
        self.source, self.lines, self.filename, self.scope = program.source, program.lines, program.filename, program.scope
        self._fixed = [c for c in program.scope.values() if is_variable(c)]
        self._slots: dict[tuple, Slot] = {}
        every.add(self)

    def run(self, ctx: Any, *feeds: Any) -> tuple:
        """One step."""
        key = tuple([(f.shape, f.dtype) if isinstance(f, torch.Tensor) else id(f) for f in feeds])
        slot = self._slots.get(key)
        if slot is None:
            if len(self._slots) >= _MOST_KEYS:
                with self.drawing:
                    return self.program.run(ctx, *feeds)
            slot = self._slots.setdefault(key, Slot(self, feeds))
        if not slot.lock.acquire(blocking=self.device.type == "cuda"):   # on the host, steps of several threads run at once
            return self.program.run(ctx, *feeds)
        try:
            with self.drawing:
                return slot.run(ctx, feeds)
        finally:
            slot.lock.release()

    @property
    def unlocked(self) -> bool:     # type: ignore[override]
        """Whether it needs Python's lock for little of its time."""
        return self.program.unlocked

    def failing_op(self, traceback: Any) -> Any:
        """The op whose statement raised."""
        return self.program.failing_op(traceback)

    def explain(self) -> str:
        """What runs, per set of shapes."""
        return "\n".join(slot.explain() for slot in self._slots.values())

    def explained(self, feeds: list[Tensor], device: Callable[[Node], str]) -> str:
        """The program; before it, what runs for each set of shapes; behind it, what was generated for them."""
        slots = list(self._slots.values())
        heads = [f"# {line}\n" for slot in slots for line in slot.report()] or ["# tier 1: it has not run\n"]
        return "".join([*heads, super().explained(feeds, device), *[f"\n{code}" for s in slots if (code := s.generated())]])


class _Background:
    """A block that compiles beside running steps, which get Python's lock back at once, not after five milliseconds."""

    def __init__(self) -> None:
        self._lock, self._inside, self._usual = threading.Lock(), 0, 0.0

    @property
    def busy(self) -> bool:
        """Whether anything is compiled now. It may synchronize with the device, which ends the captures of other threads."""
        return self._inside > 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(1e-5)
            self._inside += 1

    def __exit__(self, *error: Any) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                sys.setswitchinterval(self._usual)


_in_background = _Background()
_tracing = threading.Lock()             # torch.fx patches modules while it traces: one trace at a time


class Slot:
    """The versions of a step for feeds of some shapes."""

    def __init__(self, step: Tiered, feeds: tuple):
        self.step = step
        self.variables = list({id(v): v for v in (*step._fixed, *feeds) if is_variable(v)}.values())
        self.version = step.program           # what runs when nothing is captured
        self.tier = 1
        self.reasons: list[str] = []
        self._captured: Captured | None = None
        self._paths: dict[tuple, Captured] = {}      # captures of the program, by the numbers that the host reads
        self._numbers: tuple = ()             # those of the last run of the program
        self._copies: dict = {}               # what it copied from the host
        self._uses = self._misses = 0         # runs of a compiled version that may not hold, and those for which it did not
        self._captures = step.device.type == "cuda" and all(isinstance(f, torch.Tensor) or is_variable(f) for f in feeds)
        self._compiles = step.compiles
        self._looks = not step.wait           # a version of an earlier process has not been looked for yet
        self._name = ""                       # of the step on disk; empty if it is not stored
        self._ready: Compiled | None = None
        self._rivals: rivals.Rivals | None = None    # versions of which the faster one will stay
        self._runs = self._moves = self._count = 0
        self._began = time.perf_counter()
        self._shapes = [f"{str(f.dtype).removeprefix('torch.')}{list(f.shape)}" for f in feeds if isinstance(f, torch.Tensor)]
        self.lock = threading.Lock()

    def run(self, ctx: Any, feeds: tuple) -> tuple:
        """One step; the caller holds the lock."""
        if self._compiles:
            self._consider(ctx, feeds)
        if self._ready is not None:
            return self._try(ctx, feeds)
        if self._rivals is not None:
            return self._compete(self._rivals, ctx, feeds)
        return self._current(ctx, feeds)

    def _current(self, ctx: Any, feeds: tuple) -> tuple:
        """A run of the current version."""
        if self._captured is not None:
            if self._captured.holds():
                return self._replayed(ctx, feeds)
            self._drop()
        self._runs += 1
        if self._captures and self._runs > _SETTLING:
            return self._capture(ctx, feeds)
        return self._plain(ctx, feeds)

    def _plain(self, ctx: Any, feeds: tuple) -> tuple:
        before = places(self.variables)
        try:
            if self.tier < 3:
                return self._program(ctx, feeds)
            return self._compiled(ctx, feeds)
        finally:
            if self._captures and before != places(self.variables):
                self._runs = min(self._runs, _SETTLING - 1)              # wait until the variables stop moving
                self._moves += 1
                if self._moves > _MOST_MOVES:
                    self._refuse(2, "it moves its variables")

    def _program(self, ctx: Any, feeds: tuple) -> tuple:
        """Runs the program, and notes what the host reads if the step is to be captured."""
        if not self._captures or self.tier == 3:
            return self.step.program.run(ctx, *feeds)
        copies: dict = {}
        with Reads() as reads, cuda.keeping(None if self.step.apart else copies):
            results = self.step.program.run(ctx, *self._moved(feeds))
        self._numbers, self._copies = tuple(reads.numbers), copies
        return results

    def _moved(self, feeds: tuple) -> tuple:
        """Feeds as a capture gets them, so that the host reads the same numbers. Integers of variables, which are on the host
        until a step needs them elsewhere, move to the device."""
        if not self.step.apart:
            for v in self.variables:
                with v.lock:
                    if isinstance(v.value, torch.Tensor) and v.value.is_cpu and not v.value.is_floating_point():
                        v.value = v.value.to(self.step.device)
            feeds = on_device(feeds, self.step.device)
        return feeds

    def _missed(self, ctx: Any, feeds: tuple) -> tuple:
        """Runs the program where the compiled version does not hold. Where that is often so, it is given up."""
        self._misses += 1
        if self._misses > _MOST_MISSES and self._misses > _SELDOM * self._uses:
            self._refuse(3, "numbers that the host reads change")
            self.version, self.tier, self._runs = self.step.program, 1, 0
            self._drop()
        return self._program(ctx, feeds)

    def _compiled(self, ctx: Any, feeds: tuple) -> tuple:
        """Runs compiled code. If it fails, the program runs the step or raises the error."""
        self._uses += 1
        try:
            return self.version.run(ctx, *feeds)
        except Stale:
            return self._missed(ctx, feeds)
        except Exception as e:
            self._refuse(3, e)
            self.version, self.tier = self.step.program, 1
            return self.version.run(ctx, *feeds)

    # -- tier 2 -----------------------------------------------------------------------------------------------------
    def _capture(self, ctx: Any, feeds: tuple) -> tuple:
        try:
            if any(not isinstance(v.value, torch.Tensor) or v.value.device != self.step.device for v in self.variables):
                raise RuntimeError("some of its variables are on other devices")
            made = Captured(self.version, ctx, feeds, self.variables, self.step.device, self._numbers if self.tier < 3 else (),
                            self._rivals.pool if self._rivals else next((p.pool for p in self._paths.values()), None),
                            self._copies)
        except Exception as e:
            self._moves += 1
            if self._moves <= _MOST_MOVES and (isinstance(e, Moves) or _in_background.busy):
                self._runs = 0                                           # others use the device, or hold a value: try again
            else:
                self._refuse(2, e, self.step.failing_op(e.__traceback__))
            _log.info("A step was not captured: %s", str(e).strip().split("\n")[0])
            torch.cuda.synchronize(self.step.device)
            after_failure(self.step.device)
            for v in self.variables:
                if isinstance(v.value, torch.Tensor) and v.value.is_cuda and isinstance(e, Moves):
                    v.value = v.value.clone()                            # out of the memory of the capture, which ends here
            return self._plain(ctx, feeds)
        self._captured = self._paths[made.numbers] = made
        self.tier = max(self.tier, 2)
        return self._replayed(ctx, feeds)

    def _replayed(self, ctx: Any, feeds: tuple) -> tuple:
        """Replays the capture for the numbers that the host reads: first the one of the last run."""
        assert self._captured is not None
        self._uses += 1
        for _ in range(len(self._paths) + 1):
            try:
                return self._captured.run(ctx, *feeds)
            except Stale as e:
                if self.tier == 3:
                    return self._missed(ctx, feeds)
                known = e.args[0]
            other = next((p for n, p in self._paths.items() if n[:len(known)] == known and p.holds()), None)
            if other is None:
                break
            self._captured = other
        return self._explore(ctx, feeds)

    def _explore(self, ctx: Any, feeds: tuple) -> tuple:
        """Runs the program, for which the host reads numbers that no capture is for. The next run is captured for them."""
        self._misses += 1
        if self._misses > _MOST_NEW and self._misses > 0.5 * self._uses:
            self._refuse(2, "numbers that the host reads change")
        results = self._plain(ctx, feeds)
        if len(self._paths) < _MOST_PATHS:
            self._captured = None
        return results

    def _drop(self) -> None:
        """Frees the captures."""
        self._captured, self._paths = None, {}

    def _refuse(self, tier: int, why: Any, op: Node | None = None) -> None:
        reason = str(why).strip().split("\n")[0][:200] or type(why).__name__
        if tier == 2:
            self._captures = False
            self._drop()
        else:
            self._compiles, self._ready = False, None
        self.reasons.append(f"not in tier {tier}: {reason}{f' ({op.name}: {op.type})' if op is not None else ''}")
        refused[tier, reason.split(" (")[0]] += 1
        if reason not in _told:
            _told.add(reason)
            _log.info("A step is not compiled for tier %d: %s", tier, reason)

    # -- tier 3 -----------------------------------------------------------------------------------------------------
    def _consider(self, ctx: Any, feeds: tuple) -> None:
        """Begins to compile when the step has run often enough."""
        if self.step.wait:
            if self._runs:
                self._compiles = False
                self._compile(ctx, feeds)
            return
        self._count += 1
        if self._count == 2:
            self._began = time.perf_counter()
        if self._count == _SETTLING + 2:                                 # the capture, if there is one, is made
            self._in_background(self._look, feeds)
        if self._looks:
            return
        if self._count > _OFTEN and (self.step.eager or time.perf_counter() - self._began > _LONG):
            self._compiles = False
            self._in_background(self._compile, ctx, feeds)

    @staticmethod
    def _in_background(call: Callable, *arguments: Any) -> None:
        exiting.start(threading.Thread(target=call, args=arguments, daemon=True, name="penstock-compile"))

    def _compile(self, ctx: Any, feeds: tuple) -> None:
        try:
            if self.step.wait:
                self._look(feeds)
                if self._ready is not None:
                    return
            began = time.perf_counter()
            with _tracing, _in_background if not self.step.wait else contextlib.nullcontext():
                if not self.step.wait and self.step.device.type == "cuda":
                    inductor.prepare()
                lowered = lower.trace(self.step.origin.unfused(), ctx, feeds, self.step.device)
                self._ready = compiled(lowered, self.step.device, apart=not self.step.wait)
            _log.info("A step was compiled in %.1f s.", time.perf_counter() - began)
        except Exception as e:
            self._refuse(3, e)

    def _look(self, feeds: tuple) -> None:
        """Loads what an earlier process has compiled for the same step, if there is anything."""
        began, origin, device = time.perf_counter(), self.step.origin, self.step.device
        try:
            with _in_background if not self.step.wait else contextlib.nullcontext():
                self._name = stored.name_of(origin.spec, origin.dims, self.variables, feeds, device)
                found = stored.load(self._name, self.variables, feeds, device)
            if found is not None:
                self._compiles, self._ready = False, Compiled(*found, device, loaded=True)
                _log.info("A step was loaded in %.1f s.", time.perf_counter() - began)
        except stored.Unstorable as e:
            _log.info("A step is not stored: %s", e)
        except Exception as e:                                           # then it is compiled as if there were none
            _log.info("A compiled step could not be loaded: %s", e)
        finally:
            self._looks = False

    def _store(self, made: Compiled) -> None:
        """Lets later processes begin with a version that has given the right numbers."""
        entry = inductor.entry(made.call)
        if not self._name or not entry or made.loaded:
            return
        try:
            stored.save(self._name, made.lowered, entry, made.rounds, self.variables)
        except (stored.Unstorable, OSError) as e:
            _log.info("A step is not stored: %s", e)

    def _reject(self, made: Compiled, why: Any) -> None:
        """A compiled version is not used. One of an earlier process is removed, and the step compiled again."""
        self._refuse(3, why)
        if made.loaded:
            stored.forget(self._name)
            self._compiles = True

    def _try(self, ctx: Any, feeds: tuple) -> tuple:
        """Runs the compiled version beside the current one, and switches to it if both agree."""
        made, self._ready = self._ready, None
        assert made is not None
        try:
            places = made.places(False)
            before = _aside(made.changes())
        except Exception as e:
            self._reject(made, e)
            return self._plain(ctx, feeds)
        results = self._replayed(ctx, feeds) if self._captured is not None and self._captured.holds() \
            else self._plain(ctx, feeds)
        try:
            trial, state = made.trial(feeds, places, before)             # the other version has released its memory
        except Stale:
            self._misses += 1
            if self._misses > _MOST_MISSES:
                self._reject(made, "numbers that the host reads change")
            else:
                self._ready = made                                       # the next run compares them
            return results
        except Exception as e:
            self._reject(made, e)
            return results
        changed = [Change(v.name, new, v.value, before[id(v)].to(new.device)) for v, new in state]
        near = _ROUNDED if made.rounds else _CLOSE[self.step.device.type]
        differs = _difference(trial, results, changed, made.lowered.draws.unseeded, near,
                              lambda: made.noise(feeds, places, before))
        if differs:
            self._reject(made, differs)
            return results
        self._store(made)
        captures = self.step.device.type == "cuda"
        compete = captures and self._captures and not self._numbers and not made.lowered.checked and not self.step.eager
        old = rivals.Rival(self) if compete else None
        self.version, self.tier = made, 3
        self._runs, self._uses, self._misses, self._captures = _SETTLING, 0, 0, captures
        self._drop()
        if old is not None:
            self._rivals = rivals.Rivals(old, rivals.Rival(self))
        return results

    def _compete(self, both: rivals.Rivals, ctx: Any, feeds: tuple) -> tuple:
        """A run of one of two versions. When both have run often enough, or if one cannot be captured, one of them stays."""
        now = both.next()
        now.enter(self)
        begin = rivals.begun() if self._captured is not None and self._captured.holds() else None
        results = self._current(ctx, feeds)
        if begin is not None and self._captured is not None:
            now.times.append((begin, rivals.begun()))
        now.leave(self)
        if not self._captures or self._misses or now is both.new and self.tier < 3:
            self._rivals = None
            stays = both.old if now is both.new and both.old.state["_captured"] is not None else both.new
            stays.enter(self)
            self._captures = stays is not now
        elif both.decided:
            self._rivals = None
            old, new = both.old.milliseconds(), both.new.milliseconds()
            (both.new if new <= old else both.old).enter(self)
            if new > old:
                self.reasons.append(f"not in tier 3: it takes {new:.2f} ms, the captured program {old:.2f} ms")
                refused[3, "it is not faster"] += 1
        return results

    def explain(self) -> str:
        """The version that runs, and the reasons against better ones."""
        return f"tier {self.tier}" + "".join(f"; {r}" for r in self.reasons)

    def report(self) -> list[str]:
        """The same with the shapes of the feeds, and a summary of what was generated."""
        captured = ", replayed as a CUDA graph" if self._captured is not None else ""
        of = f" for feeds {', '.join(self._shapes)}" if self._shapes else ""
        return [f"tier {self.tier}, {_TIERS[self.tier]}{captured}{of}", *self.reasons,
                *(generated.summary(code) if (code := self.generated()) else ())]

    def generated(self) -> str:
        """The source that was generated for this version; empty if there is none."""
        return self.version.source if isinstance(self.version, Compiled) else ""


def compiled(lowered: lower.Lowered, device: torch.device, apart: bool = False) -> Compiled:
    """A traced step, compiled by Inductor, which runs in another process if `apart`."""
    graph = inductor.functional(lowered.graph, lowered.example)
    attention.use_kernels(graph)
    products.join_sums(graph)
    convolutions.tidy(graph)
    call = inductor.compiled(graph, lowered.example, apart) if apart else inductor.compiled(graph, lowered.example)
    rounds = any(getattr(n.meta.get("val"), "dtype", None) in (torch.bfloat16, torch.float16) for n in graph.graph.nodes)
    lowered.graph = graph
    return Compiled(lowered, call, rounds, device)


class Compiled:
    """A step that Inductor has compiled, now or in an earlier process."""

    def __init__(self, lowered: lower.Lowered, call: Callable[[list], Any], rounds: bool, device: torch.device,
                 loaded: bool = False):
        self.lowered, self.call, self.rounds, self.device, self.loaded = lowered, call, rounds, device, loaded
        self.source = inductor.source(call)

    def run(self, ctx: Any, *feeds: Any) -> tuple:
        """One step."""
        results, holds = self.launch(ctx, *feeds)
        if holds is not None:
            if not bool(holds):
                raise Stale
            self.lowered.draws.advance()
        return results

    def launch(self, ctx: Any, *feeds: Any) -> tuple[tuple, torch.Tensor | None]:
        """One step, without waiting for the device: its results, and whether it holds for its inputs, if that is not certain.
        Variables whose values a caller holds are copied first."""
        low = self.lowered
        for i in low.changed:
            low.variables[i].writable()
        out = self.call([v.value for v in low.variables] + self._rest(feeds, self.places(not low.checked)))
        self._run_later(out, {})
        return self._results(out), out[-1] if low.checked else None

    def changes(self) -> list[Any]:
        """The variables that a step changes."""
        low = self.lowered
        behind = [v for v in torch.utils._pytree.tree_leaves([arguments for _, arguments, _ in low.later]) if is_variable(v)]
        return list({id(v): v for v in (*(low.variables[i] for i in low.changed), *behind)}.values())

    def trial(self, feeds: tuple, places: torch.Tensor, given: dict[int, torch.Tensor]) -> tuple[tuple, list]:
        """The results of a step on copies of the variables, and (variable, what it would be) for those that it changes.

        `given` are the values of variables that begin with something else than they have now.
        """
        low = self.lowered
        start = [given.get(id(v), v.value) for v in low.variables]
        values_now = [_copy(x, self.device) if i in low.changed else x.to(self.device) for i, x in enumerate(start)]
        out = self.call(values_now + self._rest(feeds, places))
        if low.checked and not bool(out[-1]):
            raise Stale
        copies: dict[int, Any] = {}
        self._run_later(out, copies, given)
        behind = [(v, copies[id(v)].value) for v in low.variables if id(v) in copies]
        return self._results(out), [(low.variables[i], values_now[i]) for i in low.changed] + behind

    def noise(self, feeds: tuple, places: torch.Tensor, before: dict[int, torch.Tensor]) -> Noise:
        """How much results and the changes of variables depend on rounding, from a second trial with all variables perturbed
        by a rounding error of the step. `before` is what the changed variables began with."""
        draw = torch.Generator(self.device)
        draw.manual_seed(0)
        size = 2.0 ** (-8 if self.rounds else -11 if self.device.type == "cuda" else -22)
        first = {id(v): before.get(id(v), v.value) for v in self.lowered.variables}
        moved = {i: x * (1 + size * torch.randn(x.shape, generator=draw, device=self.device).to(x.device, x.dtype))
                 if x.is_floating_point() else x for i, x in first.items()}
        results, exact = self.trial(feeds, places, first)
        around, other = self.trial(feeds, places, moved)

        def change(state: list, start: dict) -> list[torch.Tensor]:
            return [_wide(new) - _wide(start[id(v)].to(new.device)) for v, new in state]
        return Noise([_size(_wide(a) - _wide(b)) if isinstance(a, torch.Tensor) else 0.0
                      for a, b in zip(around, results, strict=True)],
                     [_size(a - b) for a, b in zip(change(other, moved), change(exact, first), strict=True)])

    def _run_later(self, out: Any, copies: dict[int, Any], beside: dict[int, torch.Tensor] | None = None) -> None:
        """The calls behind the graph; with `beside`, on copies of the variables, or of what it has for them, which are added
        to `copies`."""
        for function, arguments, keywords in self.lowered.later:
            function(*[self._real(a, out, copies, beside) for a in arguments], **keywords)

    def _real(self, value: Any, out: Any, copies: dict[int, Any], beside: dict[int, torch.Tensor] | None) -> Any:
        """An argument of such a call."""
        if isinstance(value, list):
            return [self._real(v, out, copies, beside) for v in value]
        if isinstance(value, lower.Output):
            return out[value.at]
        if beside is None or not is_variable(value):
            return value
        if id(value) not in copies:
            first = beside.get(id(value))
            copies[id(value)] = value.beside(value.value if first is None else first.to(self.device))
        return copies[id(value)]

    def _rest(self, feeds: tuple, stretch: torch.Tensor) -> list:
        return [feeds[i].to(self.device) for i in self.lowered.feeds] + [stretch]

    def places(self, take: bool) -> torch.Tensor:
        """Where random stretches begin. In a capture, the tensor that each replay fills."""
        capturing = tracing.draws()
        if capturing is not None:
            return capturing.all_of(self.lowered.draws)
        return self.lowered.draws.next(take).to(self.device)

    def _results(self, out: Any) -> tuple:
        return tuple([out[r.at] if isinstance(r, lower.Output) else r for r in self.lowered.results])


def _aside(variables: list[Any]) -> dict[int, torch.Tensor]:
    """Copies of the values of variables: of many bytes on the host, so that a trial takes less memory than training does."""
    many = sum(v.value.nbytes for v in variables) > _MUCH
    return {id(v): v.value.cpu() if many and v.value.is_cuda else v.value.clone() for v in variables}


def _copy(value: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy on a device."""
    return value.clone() if value.device == device else value.to(device)


class Change(NamedTuple):
    """What two versions of a step make of a variable."""
    name: str
    found: torch.Tensor
    expected: torch.Tensor
    before: torch.Tensor


class Noise(NamedTuple):
    """By how much rounding alone changes the results of a step, and what it adds to variables."""
    results: list[float]
    changes: list[float]


def _difference(found: tuple, expected: tuple, state: list[Change], unseeded: bool, near: float,
                noise: Callable[[], Noise]) -> str:
    """How two runs of a step differ; empty if they agree as well as rounding lets them.

    Of variables, the changes are compared: these are small beside the values. They agree if they differ by less than `near` of
    a change. Optimizers that divide by the size of a gradient turn its rounding errors into updates of full size where the true
    gradient is zero, and the loss of a model that has learned its data is what rounding leaves of it. So where changes or
    results differ, `noise` returns what rounding alone does to each, and a difference of that size is accepted. Two runs of a
    step that draws unseeded numbers never agree; they have the same shapes, finite values in the same places, and changes of
    similar size in all.
    """
    known: list[Noise] = []

    def rounding() -> Noise:
        if not known:
            known.append(noise())
        return known[0]
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if isinstance(b, torch.Tensor):
            if a.shape != b.shape or a.dtype is not b.dtype:
                return f"a result has a different shape or type: {tuple(a.shape)}, {a.dtype} for {tuple(b.shape)}, {b.dtype}"
            if not unseeded and not _close(a, b) and not _close(a, b, 4.0 * rounding().results[i]):
                return f"a result differs (by {_size(_wide(a) - _wide(b)):.3g} of {_size(_wide(b)):.3g}, of which " \
                    f"{rounding().results[i]:.3g} may be rounding)"
    for c in state:
        if not _equal_kind(c):
            return f"a variable differs ({c.name})"
    real = [i for i, c in enumerate(state) if c.expected.is_floating_point() or c.expected.is_complex()]
    steps = {i: _size(_wide(state[i].expected) - _wide(state[i].before)) for i in real}
    if unseeded:
        ours = sum(_size(_wide(state[i].found) - _wide(state[i].before)) ** 2 for i in real) ** 0.5
        theirs = sum(s * s for s in steps.values()) ** 0.5
        return "" if theirs / 4 <= ours <= theirs * 4 else f"variables change by {ours:.3g}, not by {theirs:.3g}"
    far = {i: d for i in real if (d := _size(_wide(state[i].found) - _wide(state[i].expected))) >
           near * steps[i] + _rounding(state[i].expected)}
    if not far:
        return ""
    of_rounding = rounding().changes
    least = (1e-3 if near == _ROUNDED else 1e-5) * sum(s * s for s in steps.values()) ** 0.5    # of gradients that are zero
    for i, d in far.items():
        if d > 4.0 * of_rounding[i] + near * steps[i] + least + _rounding(state[i].expected):
            return f"a variable differs ({state[i].name}, by {d:.3g}; it changed by {steps[i]:.3g}, {of_rounding[i]:.3g} of " \
                "which may be rounding)"
    return ""


def _equal_kind(c: Change) -> bool:
    """Whether both versions leave integers that are equal, or numbers that are finite in the same places."""
    if c.found.shape != c.expected.shape or c.found.dtype is not c.expected.dtype:
        return False
    if c.expected.is_floating_point() or c.expected.is_complex():
        return bool((c.found.isfinite() == c.expected.isfinite()).all())
    return _close(c.found, c.expected)


def _rounding(t: torch.Tensor) -> float:
    """The error of storing values like these."""
    return 4.0 * torch.finfo(t.dtype).eps * _size(_wide(t))


def _wide(t: torch.Tensor) -> torch.Tensor:
    """In the precision in which versions are compared."""
    return t.to(torch.complex128 if t.is_complex() else torch.float64)


def _size(t: torch.Tensor) -> float:
    return float(torch.where(t.isfinite(), t, 0).norm())


def _close(a: torch.Tensor, b: torch.Tensor, rounding: float = 0.0) -> bool:
    """Whether a equals b up to `rounding` and that of its type: by the norm of their difference, with equal non-finite
    values."""
    if not b.is_floating_point() and not b.is_complex():
        return bool((a != b).sum() <= b.numel() // 100)                  # rounding may change which number is the largest
    a, b = a.to(b.device), b
    good = b.isfinite()
    if not bool((a.isfinite() == good).all()):
        return False
    tolerance = {torch.float64: 1e-6, torch.float32: 2e-2 if b.is_cuda else 1e-3}.get(b.dtype, 5e-2)
    return _size(_wide(a) - _wide(b)) <= tolerance * _size(_wide(b)) + 1e-6 * b.numel() ** 0.5 + rounding
