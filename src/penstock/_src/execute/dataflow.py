"""The dataflow executor, for steps that a straight-line program cannot express.

Graphs with Switch, Merge, Enter, Exit and NextIteration run by *tokens*: a node runs when all of its inputs have come,
and sends its outputs on. A token may be dead (the branch not taken); a node with a dead input does not run and sends
dead tokens, a Merge takes the first live one. Every loop is a *frame*; each of its iterations has its own counts and
values, so that several may run at once. An iteration is dropped when all of it has run.

Everything that does not change between steps is computed once, in `Executor.__init__`: per node its kernel, where its
inputs are in the value table of its frame, and where its outputs go. A step then only copies tables and counts down.
Nodes that may block (queues) run on their own threads as long as anything else can run.
"""
from __future__ import annotations

import collections
import hashlib
import queue
import threading
import types
from collections.abc import Callable
from typing import Any

from penstock._src.base import errors, service
from penstock._src.execute.rendezvous import DEAD
from penstock._src.graph.build import arg_count
from penstock._src.graph.failure import typed
from penstock._src.graph.frames import Frame, Frames
from penstock._src.ops.registry import Kernel
from penstock._src.step.compile.adapt import adapted
from penstock._src.step.ir import Node, Value
from penstock._src.step.runnable import Runnable

NORMAL, CONSTANT, SWITCH, MERGE, ENTER, EXIT, NEXT, TRIGGER, FETCH, SEND, RECV = range(11)
ROOT = ""


class _Node:
    """One op of the graph, prepared for the run loop."""

    __slots__ = ("op", "kind", "index", "call", "wants_ctx", "first", "count", "groups", "reads", "sends", "signals",
                 "pending", "frame", "child", "invariant", "flat", "single", "value", "blocking", "slot")

    def __init__(self, op: Node | None, kind: int):
        self.op, self.kind = op, kind
        self.index = self.first = self.count = self.pending = 0
        self.slot = -1                               # fetch nodes: position in the result
        self.call: Any = None
        self.wants_ctx = self.blocking = self.invariant = False
        self.single = True
        self.groups: tuple | None = None             # sizes of list inputs
        self.reads: tuple = ()                       # reference inputs that are read as values
        self.sends: list[list[tuple]] = []           # per output: (node, slot in its frame's value table)
        self.signals: list[_Node] = []               # nodes that wait for this one by control edges
        self.frame: _FrameType = None                # type: ignore[assignment]
        self.child: _FrameType | None = None         # Enter: the frame it enters
        self.flat: Callable | None = None            # turns the kernel's result into a flat list
        self.value: Any = None


class _FrameType:
    """The compile-time part of a frame: its nodes, their counts, the size of its value table."""

    __slots__ = ("name", "parent", "nodes", "pending", "slots", "enters", "parallel")

    def __init__(self, name: str, parent: _FrameType | None):
        self.name, self.parent = name, parent
        self.nodes: list[_Node] = []
        self.pending: list[int] = []
        self.slots = 0
        self.enters = 0
        self.parallel = 32


class _Iteration:
    __slots__ = ("pending", "dead", "values", "outstanding", "frames", "children")

    def __init__(self, kind: _FrameType):
        self.pending = kind.pending.copy()
        self.dead = [0] * len(self.pending)
        self.values: list = [None] * kind.slots
        self.outstanding = 0                         # tokens of this iteration that are being worked on
        self.frames = 0                              # child frames that are not finished
        self.children: dict[_FrameType, _Frame] | None = None


class _Frame:
    __slots__ = ("kind", "parent", "parent_iteration", "iterations", "last", "waiting_enters", "invariants", "deferred",
                 "dead_exits")

    def __init__(self, kind: _FrameType, parent: _Frame | None, parent_iteration: int):
        self.kind, self.parent, self.parent_iteration = kind, parent, parent_iteration
        self.iterations: dict[int, _Iteration] = {0: _Iteration(kind)}
        self.last = 0
        self.waiting_enters = kind.enters
        self.invariants: list[tuple[_Node, Any]] = []
        self.deferred: list[tuple[_Node, Any]] = []  # NextIteration tokens held back by parallel_iterations
        self.dead_exits: list[_Node] = []


class Executor(Runnable):
    """Runs pruned ops by tokens. `run(ctx, *feeds)` returns the fetched values; any number of threads may call it."""

    def __init__(self, ops: list[Node], fetches: list[Value], feeds: list[Value], ctx: Any, placed: Any = None):
        self.feeds, self.fetches = feeds, fetches
        fed = {id(t) for t in feeds}
        self.root = _FrameType(ROOT, None)
        self.nodes: dict[Node, _Node] = {op: _make_node(op, ctx, placed, fed) for op in ops}
        self._take_frames(Frames(ops, fed))
        self.fed_sends: list[list[tuple]] = [[] for _ in feeds]
        position = {id(t): i for i, t in enumerate(feeds)}
        for op in ops:
            self._connect(self.nodes[op], position)
        for i, t in enumerate(fetches):
            self._add_fetch(i, t, position)
        self.roots = [n for n in self.root.nodes if n.pending == 0 and n.kind != FETCH]
        for kind in {self.root, *(n.frame for n in self.nodes.values())}:
            kind.pending = [n.pending for n in kind.nodes]

    # -- preparation ------------------------------------------------------------------------------------------------
    def _take_frames(self, frames: Frames) -> None:
        """Sets the index of nodes in their frame, and for Enters the frame that they enter."""
        kinds: dict[Frame, _FrameType] = {frames.root: self.root}

        def kind_of(frame: Frame) -> _FrameType:
            if frame not in kinds:
                made = kinds[frame] = _FrameType(frame.name, kind_of(frame.parent))  # type: ignore[arg-type]
                made.enters, made.parallel = len(frame.enters), frame.parallel
            return kinds[frame]
        for op, frame in frames.of.items():
            node, kind = self.nodes[op], kind_of(frame)
            node.frame, node.index = kind, len(kind.nodes)
            kind.nodes.append(node)
            if op in frames.child:
                node.child = kind_of(frames.child[op])

    def _connect(self, node: _Node, position: dict[int, int]) -> None:
        """Allocates slots for the inputs of a node, and registers them with the producers."""
        op, frame = node.op, node.frame
        node.first = frame.slots
        node.count = len(op.inputs)  # type: ignore[union-attr]
        frame.slots += 1 if node.kind == MERGE else node.count
        for i, t in enumerate(op.inputs):  # type: ignore[union-attr]
            slot = node.first if node.kind == MERGE else node.first + i
            sends = self.fed_sends[position[id(t)]] if id(t) in position else \
                self.nodes[t.op].sends[t.value_index]
            sends.append((node, slot, i))
        controls = [c for c in op.control_inputs if c in self.nodes]  # type: ignore[union-attr]
        for c in controls:
            self.nodes[c].signals.append(node)
        node.pending = 1 + 2 * len(controls) if node.kind == MERGE else node.count + len(controls)

    def _add_fetch(self, i: int, t: Value, position: dict[int, int]) -> None:
        node = _Node(None, FETCH)
        node.frame, node.index, node.slot = self.root, len(self.root.nodes), i
        self.root.nodes.append(node)
        node.first, node.count, node.pending = self.root.slots, 1, 1
        self.root.slots += 1
        reads = t.dtype._is_ref_dtype
        node.reads = (0,) if reads else ()
        sends = self.fed_sends[position[id(t)]] if id(t) in position else self.nodes[t.op].sends[t.value_index]
        sends.append((node, node.first, 0))

    # -- running ------------------------------------------------------------------------------------------------------
    def run(self, ctx: Any, *values: Any) -> tuple:
        """One step."""
        return _Step(self, ctx).run(values)

    def failing_op(self, traceback: types.TracebackType | None) -> Node | None:
        """The op whose kernel raised."""
        found = None
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_code is _LOOP_CODE and frame.f_locals["self"].executor is self:
                node = frame.f_locals.get("node")
                found = node.op if node is not None else found
            traceback = traceback.tb_next
        return found

    def __str__(self) -> str:
        lines = []
        for op, node in self.nodes.items():
            where = f" in {node.frame.name}" if node.frame.name else ""
            lines.append(f"{op.name}: {op.type}({', '.join(t.name for t in op.inputs)}){where}")
        return "\n".join(lines)


def _make_node(op: Node, ctx: Any, placed: Any, fed: set[int]) -> _Node:
    kind = _KINDS.get(op.opdef.control_flow, NORMAL)  # type: ignore[call-overload]
    node = _Node(op, kind)
    node.sends = [[] for _ in op.outputs]
    if kind == ENTER:
        node.invariant = op.attrs["is_constant"]
    _set_reads(node, op)
    if kind != NORMAL:
        return node
    opdef = op.opdef
    kernel = opdef.kernel_for("cpu")
    if kernel is None:
        raise errors.UnimplementedError(op.node_def, op.origin, f"Op {op.type} (node {op.name}) has no kernel for cpu.")
    bound = kernel.bind(op.attrs, op)
    if placed is not None:
        bound = adapted(bound, op, placed, fed)
    if not opdef.inputs and (opdef.foldable or opdef.per_session) and len(op.outputs) == 1:
        none: list = [[] for _ in opdef.inputs]                       # lists of inputs, all of them empty
        value = bound(*none, ctx=ctx) if kernel.wants_ctx else bound(*none)
        node.kind, node.value = CONSTANT, value[0] if opdef.list_output else value
        return node
    _set_call(node, op, kernel, bound)
    node.kind = _TRANSFERS.get(opdef.transfer, NORMAL)
    return node


def _set_call(node: _Node, op: Node, kernel: Kernel, bound: Callable) -> None:
    node.call, node.wants_ctx, node.blocking = bound, kernel.wants_ctx, op.opdef.blocking
    node.groups = op.counts or None
    lists = [a for a in op.opdef.outputs if a.is_list]
    node.single = len(op.opdef.outputs) == 1 and not lists
    if lists and not op.opdef.list_output:
        sizes = [arg_count(a, op.attrs) for a in op.opdef.outputs]
        node.flat = lambda out: [v for o, n in zip(out, sizes, strict=True) for v in (o if n is not None else (o,))]


def _set_reads(node: _Node, op: Node) -> None:
    """Reference inputs that are read as values."""
    wanted: list[bool] = []
    for arg, n in zip(op.opdef.inputs, op.counts or (None,) * len(op.opdef.inputs), strict=True):
        wanted.extend([arg.is_ref] * (1 if n is None else n))
    node.reads = tuple(i for i, (t, ref) in enumerate(zip(op.inputs, wanted, strict=True))
                       if t.dtype._is_ref_dtype and not ref)


_KINDS = {"switch": SWITCH, "merge": MERGE, "enter": ENTER, "exit": EXIT, "next": NEXT, "trigger": TRIGGER}
_TRANSFERS = {"send": SEND, "recv": RECV}


class _Step:
    """The state of one run."""

    def __init__(self, executor: Executor, ctx: Any):
        self.executor, self.ctx = executor, ctx
        self.ready: collections.deque = collections.deque()      # (node, frame, iteration number, dead)
        self.results: list = [DEAD] * len(executor.fetches)
        self.frame = _Frame(executor.root, None, 0)
        self.done: queue.SimpleQueue | None = None               # results of nodes that run on other threads
        self.running = 0

    def run(self, values: tuple) -> tuple:
        frame = self.frame
        state = frame.iterations[0]
        state.outstanding = 1                                     # holds the root iteration open
        for node in self.executor.roots:
            self._enqueue(node, frame, 0, state, False)
        for sends, value in zip(self.executor.fed_sends, values, strict=True):
            for node, slot, i in sends:
                self._deliver(node, slot, i, value, frame, 0, state, False)
        try:
            self._loop()
        except BaseException as e:
            self._abandon(typed(e, self.executor.failing_op(e.__traceback__)))
            raise
        for i, value in enumerate(self.results):
            if value is DEAD:
                t = self.executor.fetches[i]
                raise errors.InvalidArgumentError(
                    None, t.op.origin, f"Retval[{i}] does not have value: {t.name} is on a branch that was not taken")
        return tuple(self.results)

    def _loop(self) -> None:
        """Runs nodes until there is nothing left to run."""
        ready = self.ready
        ctx = self.ctx
        cancellation, deadline = ctx.cancellation, ctx.deadline
        while True:
            while ready:
                node, frame, number, dead = ready.popleft()
                if cancellation.error is not None or deadline is not None:
                    ctx.remaining()
                state = frame.iterations[number]
                kind = node.kind
                if kind == NORMAL:
                    if dead:
                        outputs = None
                    else:
                        first = node.first
                        args = state.values[first:first + node.count]
                        if node.reads:
                            for i in node.reads:
                                args[i] = args[i].read()
                        if node.groups is not None:
                            args = _grouped(args, node.groups)
                        if node.blocking and (ready or self.running):
                            self._start(node, args, frame, number)
                            continue
                        out = node.call(*args, ctx=ctx) if node.wants_ctx else node.call(*args)
                        outputs = (out,) if node.single else node.flat(out) if node.flat is not None else out or ()
                        state.values[first:first + node.count] = [None] * node.count
                    self._send(node, outputs, frame, number, state)
                elif kind == RECV:
                    self._receive(node, frame, number)
                    continue
                elif kind == FETCH:
                    if not dead:
                        value = state.values[node.first]
                        self.results[node.slot] = value.read() if node.reads else value
                else:
                    self._control(node, kind, frame, number, state, dead)
                state.outstanding -= 1
                if not state.outstanding:
                    self._finish(frame, number)
            if not self.running:
                return
            node, outputs, error, frame, number = self._await(ctx.remaining())
            if error is not None:
                raise error
            state = frame.iterations[number]
            self._send(node, outputs, frame, number, state)
            state.outstanding -= 1
            if not state.outstanding:
                self._finish(frame, number)

    # -- threads for what blocks -----------------------------------------------------------------------------------
    def _start(self, node: _Node, args: list, frame: _Frame, number: int) -> None:
        """Runs a node that may block on its own thread."""
        if self.done is None:
            self.done = queue.SimpleQueue()
        done = self.done

        def work() -> None:
            try:
                out = node.call(*args, ctx=self.ctx) if node.wants_ctx else node.call(*args)
                outputs = (out,) if node.single else node.flat(out) if node.flat is not None else out or ()
                done.put((node, outputs, None, frame, number))
            except BaseException as e:
                done.put((node, None, e, frame, number))
        service.started(threading.Thread(target=work, daemon=True, name=f"penstock {node.op.name}"))  # type: ignore[union-attr]
        self.running += 1

    def _receive(self, node: _Node, frame: _Frame, number: int) -> None:
        """Requests a value of another partition; continues when it arrives, alive or dead."""
        if self.done is None:
            self.done = queue.SimpleQueue()
        put = self.done.put
        self.running += 1
        node.call(ctx=self.ctx, frame=_frame_key(frame, number), done=lambda value, error: put(
            (node, None if value is DEAD else (value,), error, frame, number)))

    def _await(self, seconds: float | None = None) -> tuple:
        try:
            item = self.done.get(timeout=seconds)  # type: ignore[union-attr]
        except queue.Empty:
            self.ctx.remaining()
            raise
        self.running -= 1
        return item

    def _abandon(self, error: BaseException) -> None:
        """Ends a failed step: wakes its waiters with its error, which other lanes may report first; waits for its threads."""
        if self.running:
            self.ctx.cancellation.cancel(error if isinstance(error, Exception) else None)
        while self.running:
            self._await()

    # -- tokens -----------------------------------------------------------------------------------------------------
    def _enqueue(self, node: _Node, frame: _Frame, number: int, state: _Iteration, dead: bool) -> None:
        state.outstanding += 1
        self.ready.append((node, frame, number, dead))

    def _send(self, node: _Node, outputs: Any, frame: _Frame, number: int, state: _Iteration) -> None:
        """Delivers outputs within an iteration; None means that all of them are dead."""
        pending, values, ready = state.pending, state.values, self.ready
        if outputs is None:
            for sends in node.sends:
                for dst, slot, i in sends:
                    self._deliver(dst, slot, i, DEAD, frame, number, state, node.kind == ENTER)
            for dst in node.signals:
                self._signal(dst, frame, number, state, True)
            return
        for sends, value in zip(node.sends, outputs, strict=True):
            for dst, slot, i in sends:
                if dst.kind == MERGE or value is DEAD:
                    self._deliver(dst, slot, i, value, frame, number, state, False)
                    continue
                values[slot] = value
                left = pending[dst.index] = pending[dst.index] - 1
                if not left:
                    state.outstanding += 1
                    ready.append((dst, frame, number, state.dead[dst.index] > 0))
        for dst in node.signals:
            self._signal(dst, frame, number, state, False)

    def _deliver(self, dst: _Node, slot: int, i: int, value: Any, frame: _Frame, number: int, state: _Iteration,
                 dead_enter: bool) -> None:
        """One data token arrives at a node."""
        k = dst.index
        if dst.kind == MERGE:
            left = state.pending[k]
            if value is DEAD:
                state.dead[k] += 1
                if left == 1 and (dead_enter or state.dead[k] == dst.count):
                    self._enqueue(dst, frame, number, state, True)
            elif left & 1:                                        # the first live input
                state.values[slot] = (value, i)
                state.pending[k] = left - 1
                if left == 1:
                    self._enqueue(dst, frame, number, state, False)
            return
        if value is DEAD:
            state.dead[k] += 1
        else:
            state.values[slot] = value
        left = state.pending[k] = state.pending[k] - 1
        if not left:
            self._enqueue(dst, frame, number, state, state.dead[k] > 0)

    def _signal(self, dst: _Node, frame: _Frame, number: int, state: _Iteration, dead: bool) -> None:
        """One control token arrives at a node."""
        k = dst.index
        if dst.kind == MERGE:
            left = state.pending[k] = state.pending[k] - 2
            all_dead = state.dead[k] == dst.count
            if left == 0 or left == 1 and all_dead:
                self._enqueue(dst, frame, number, state, left == 1)
            return
        if dead:
            state.dead[k] += 1
        left = state.pending[k] = state.pending[k] - 1
        if not left:
            self._enqueue(dst, frame, number, state, state.dead[k] > 0)

    # -- control flow nodes -------------------------------------------------------------------------------------------
    def _control(self, node: _Node, kind: int, frame: _Frame, number: int, state: _Iteration, dead: bool) -> None:
        if kind == CONSTANT or kind == TRIGGER:
            self._send(node, (node.value,)[:len(node.sends)] if not dead or kind == TRIGGER else None, frame, number, state)
            return
        if kind == MERGE:
            if dead:
                self._send(node, None, frame, number, state)
            else:
                value, i = state.values[node.first]
                if node.reads:
                    value = value.read() if i in node.reads else value
                self._send(node, (value, _index(i) if node.sends[1] else None), frame, number, state)
            return
        value = DEAD if dead else state.values[node.first]
        if node.reads and not dead and 0 in node.reads:
            value = value.read()
        if kind == SEND:
            node.call(value, ctx=self.ctx, frame=_frame_key(frame, number))     # a dead value is sent, too
            self._send(node, () if not dead else None, frame, number, state)
            return
        if kind == SWITCH:
            if dead:
                self._send(node, None, frame, number, state)
            else:
                taken = bool(_plain_value(state.values[node.first + 1], 1 in node.reads))
                self._send(node, (DEAD, value) if taken else (value, DEAD), frame, number, state)
        elif kind == ENTER:
            self._enter(node, value, frame, number, state)
        elif kind == EXIT:
            if not dead:
                self._send_up(node, value, frame)
            elif number == frame.last:
                frame.dead_exits.append(node)
        elif not dead:
            self._next(node, value, frame, number)

    def _enter(self, node: _Node, value: Any, frame: _Frame, number: int, state: _Iteration) -> None:
        kind = node.child
        if state.children is None:
            state.children = {}
        child = state.children.get(kind)  # type: ignore[arg-type]
        if child is None:
            child = state.children[kind] = _Frame(kind, frame, number)  # type: ignore[index, arg-type]
            state.frames += 1
        child.iterations[0].outstanding += 1                      # the frame is kept until this token is in
        if node.invariant:
            child.invariants.append((node, value))
            for n, it in list(child.iterations.items()):
                self._send_in(node, value, child, n, it)
        else:
            self._send_in(node, value, child, 0, child.iterations[0])
        child.waiting_enters -= 1
        first = child.iterations[0]
        first.outstanding -= 1
        if not first.outstanding:
            self._finish(child, 0)

    def _send_in(self, node: _Node, value: Any, frame: _Frame, number: int, state: _Iteration) -> None:
        self._send(node, None if value is DEAD else (value,), frame, number, state)

    def _send_up(self, node: _Node, value: Any, frame: _Frame) -> None:
        """An Exit sends to the iteration of the frame around."""
        parent, number = frame.parent, frame.parent_iteration
        self._send(node, None if value is DEAD else (value,), parent, number,  # type: ignore[arg-type]
                   parent.iterations[number])  # type: ignore[union-attr]

    def _next(self, node: _Node, value: Any, frame: _Frame, number: int) -> None:
        if number == frame.last:
            if len(frame.iterations) >= frame.kind.parallel:
                frame.deferred.append((node, value))
                return
            self._open_iteration(frame)
        state = frame.iterations[number + 1]
        self._send(node, (value,), frame, number + 1, state)

    def _open_iteration(self, frame: _Frame) -> None:
        frame.last += 1
        frame.dead_exits.clear()                                  # only the last iteration determines which exits are dead
        state = frame.iterations[frame.last] = _Iteration(frame.kind)
        state.outstanding = 1
        for node, value in frame.invariants:
            self._send_in(node, value, frame, frame.last, state)
        state.outstanding -= 1

    def _finish(self, frame: _Frame, number: int) -> None:
        """Drops finished iterations, then the frame after its last one."""
        if frame.parent is None:
            return
        while True:
            state = frame.iterations.get(number)
            if state is None or state.outstanding or state.frames or number - 1 in frame.iterations:
                break
            if number == 0 and frame.waiting_enters:
                return
            del frame.iterations[number]
            if frame.deferred:
                deferred, frame.deferred = frame.deferred, []
                self._open_iteration(frame)
                for node, value in deferred:
                    self._send(node, (value,), frame, frame.last, frame.iterations[frame.last])
            number += 1
        if not frame.iterations and not frame.waiting_enters:
            self._close(frame)

    def _close(self, frame: _Frame) -> None:
        parent = frame.parent
        number = frame.parent_iteration
        state = parent.iterations[number]  # type: ignore[union-attr]
        state.outstanding += 1
        for node in frame.dead_exits:
            self._send_up(node, DEAD, frame)
        del state.children[frame.kind]  # type: ignore[union-attr]
        state.frames -= 1
        state.outstanding -= 1
        if not state.outstanding:
            self._finish(parent, number)  # type: ignore[arg-type]


_LOOP_CODE = _Step._loop.__code__


def _grouped(args: list, groups: tuple) -> list:
    out, i = [], 0
    for n in groups:
        if n is None:
            out.append(args[i])
            i += 1
        else:
            out.append(args[i:i + n])
            i += n
    return out


def _frame_key(frame: _Frame, number: int) -> str:
    """The frame and iteration of a transfer, the same on all devices: a number for the enclosing frames, and the iteration."""
    if frame.parent is None:
        return "0:0"
    path, around = [], frame
    while around.parent is not None:
        path.append(f"{around.kind.name};{around.parent_iteration}")
        around = around.parent
    name = hashlib.blake2b("/".join(path).encode(), digest_size=8).hexdigest()
    return f"{int(name, 16)}:{number}"


def _plain_value(value: Any, reference: bool) -> Any:
    return value.read() if reference else value


def _index(i: int) -> Any:
    import torch
    return torch.tensor(i, dtype=torch.int32)
