"""Compiles a step to a program: straight-line Python source of kernel calls.

Each pruned op is one statement on its own line, over local names. Constants and per-session handles are bound once; every value
is dropped at its last use. The line number of a failing statement identifies the op, so that error reports add no cost to a
run.

    def step(ctx, f0):
        t1 = k1(c0, f0)            # mul: Mul
        del f0
        return (t1,)
"""
from __future__ import annotations

import itertools
import math
import types
import weakref
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import torch

from penstock._src.base import errors, switches
from penstock._src.graph.build import arg_count, group_inputs
from penstock._src.graph.node import AnyOp, Tensor
from penstock._src.kernels import reuse, updates
from penstock._src.ops import rules
from penstock._src.ops.registry import Kernel, Known, keyword_names
from penstock._src.step.compile.adapt import adapted, stays_on_device
from penstock._src.step.compile.explain import explained
from penstock._src.step.compile.filters import arrange_filters
from penstock._src.step.compile.numbers import tensor_maker
from penstock._src.step.ir import Node, Value
from penstock._src.step.runnable import Runnable

_counter = itertools.count()
FILENAME = "<penstock step "
CHECK_NUMERICS = switches.CHECK_NUMERICS.value()      # look for NaNs after every op; slow


class Opaque(NamedTuple):
    """A kernel that a recording (step/compile/recorded.py) may call directly: its results have known shapes."""

    kind: str                                    # "computes", "calls" functions, "draws" random numbers, or "updates" variables
    results: tuple[tuple[tuple, Any], ...] = ()  # shapes and types of what is drawn
    ops: int = 1                                 # how many kernels it replaces (step/optimize/regions.py)


class Program(Runnable):
    """A step as Python source: `run(ctx, *feeds)` returns the fetched values in order."""

    on_one_thread = True

    def __init__(self, source: str, scope: dict[str, Any], lines: dict[int, Node], opaque: dict[str, Opaque] | None = None):
        self.source, self.lines, self.scope = source, lines, scope
        self.opaque = opaque or {}                            # kernels that a recording may call directly
        self.filename = f"{FILENAME}{next(_counter)}>"
        scope["PROGRAM"] = source                             # for reports of errors
        exec(compile(source, self.filename, "exec"), scope)   # our own generated source
        vars(self)["run"] = scope["step"]                     # shadows the method, to save a call
        _programs[self.filename] = self

    def run(self, ctx: Any, *values: Any) -> tuple:
        """One step."""
        return self.scope["step"](ctx, *values)

    def failing_op(self, traceback: types.TracebackType | None) -> Node | None:
        """The op whose statement raised."""
        found = None
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self.filename:
                found = self.lines.get(traceback.tb_lineno)
            traceback = traceback.tb_next
        return found

    @property
    def sequence(self) -> list[Node]:
        """The ops in the order in which they run."""
        return list(self.lines.values())

    def text(self) -> str:
        """The source."""
        return self.source

    def explained(self, feeds: list[Tensor], device: Callable[[Node], str]) -> str:
        """The source with kernels by the names of their ops, constants by their values, and shapes."""
        return explained(self, feeds, device)


_programs: weakref.WeakValueDictionary[str, Program] = weakref.WeakValueDictionary()


def operation_at(frame: types.FrameType) -> Node | None:
    """The op that a stack frame executes, if the frame belongs to a program or to the executor."""
    program = _programs.get(frame.f_code.co_filename)
    if program is not None:
        return program.lines.get(frame.f_lineno)
    op = frame.f_locals.get("op") if frame.f_globals.get("__name__") == "penstock._src.execute.dataflow" else None
    return op if isinstance(op, Node) else None


def no_nan(*values: Any) -> None:
    """InvalidArgumentError if one of the values holds a NaN."""
    for value in values:
        if isinstance(value, torch.Tensor) and bool(value.isnan().any()):
            raise errors.invalid(
                f"This op is the first to produce a NaN: {int(value.isnan().sum())} of {value.numel()} elements.")


def kernel_of(op: AnyOp, device: str = "cpu") -> Kernel:
    """The kernel of an op, or UnimplementedError."""
    kernel = op.opdef.kernel_for(device)
    if kernel is None:
        raise errors.UnimplementedError(op.node_def, op.origin or op,
                                        f"Op {op.type} (node {op.name}) has no kernel for {device}.")
    return kernel


def _opaque(op: Node, in_context: bool) -> Opaque | None:
    """How a recording may use an opaque kernel of an op; None if it cannot."""
    opdef = op.opdef
    if opdef in rules.updates.compiled and not op.outputs and updates.available():
        return Opaque("updates")
    if not all(t.static_dims is not None and None not in t.static_dims and t.dtype.torch is not None for t in op.outputs):
        return None
    if opdef.random:
        return Opaque("draws", tuple((t.static_dims, t.dtype.torch) for t in op.outputs))       # type: ignore[misc]
    if opdef.stateful:
        return None
    ops = op.attrs["region"].ops if "region" in op.attrs else 1
    return Opaque("calls" if in_context else "computes", (), ops) if not in_context or opdef.calls else None


class Writer:
    """Writes one program."""

    def __init__(self, ctx: Any, placed: Any = None, reuse: bool = True):
        self.ctx = ctx
        self.reuse = reuse                         # whether kernels may overwrite dead values
        self.placed = placed                       # op -> device; None where everything is on the host
        self.fed: set[int] = set()
        self.scope: dict[str, Any] = {}
        self.body: list[str] = []
        self.lines: dict[int, Node] = {}
        self.names: dict[int, str] = {}            # tensor id -> local or global name
        self.numbers: dict[int, str] = {}          # tensor id -> local name of a Python number (step/compile/numbers.py)
        self.refs: set[int] = set()                # tensors whose run-time value is a variable, not a tensor
        self.last_use: dict[int, int] = {}         # tensor id -> index of the op that uses it last
        self.counter = itertools.count()
        self.opaque: dict[str, Opaque] = {}        # kernels that a recording may call directly
        self.depth = 1                             # the indentation of statements
        self.parameters = "ctx"                    # of a program, before the feeds

    def write(self, ops: list[Node], fetches: list[Value], feeds: list[Value]) -> Program:
        """The program that runs `ops` and returns `fetches`."""
        for i, t in enumerate(feeds):
            self.names[id(t)] = f"f{i}"
        self.fed = {id(t) for t in feeds}
        self._find_last_uses(ops, fetches, feeds)
        for i, op in enumerate(ops):
            self._op(i, op)
        return self.finish(feeds, "".join(self._value(t) + ", " for t in fetches))

    def constants(self) -> dict[int, Any]:
        """Binds values once, by tensor."""
        return {t: self.scope[n] for t, n in self.names.items() if n in self.scope}

    def finish(self, feeds: list[Value], values: str) -> Program:
        """The program of the written statements and its results."""
        header = f"def step({self.parameters}" + "".join(f", f{i}" for i in range(len(feeds))) + "):"
        source = "\n".join([header, *self.body, f"    return ({values})", ""])
        return self._program(source)

    def _program(self, source: str) -> Program:
        return Program(source, self.scope, self.lines, self.opaque)

    def _find_last_uses(self, ops: list[Node], fetches: list[Value], feeds: list[Value]) -> None:
        for i, op in enumerate(ops):
            for t in op.inputs:
                self.last_use[id(t)] = i
        for t in fetches:
            self.last_use[id(t)] = len(ops)

    def _op(self, index: int, op: Node) -> None:
        opdef = op.opdef
        kernel = kernel_of(op)
        known = Known(op, self.fed)
        prepared = None if opdef not in rules.program.prepare else _prepared(rules.program.prepare[opdef], known)
        plain = bound = prepared or kernel.bind(op.attrs, op)
        if self.placed is not None:
            bound = adapted(plain, op, self.placed, self.fed)
        if bound_once(op):
            none: list = [[] for _ in opdef.inputs]                   # lists of inputs, all of them empty
            value = bound(*none, ctx=self.ctx) if kernel.wants_ctx else bound(*none)
            value = value[0] if opdef.list_output else value
            name = self.names[id(op.outputs[0])] = self._new_name("c")
            self.scope[name] = value
            if op.outputs[0].dtype._is_ref_dtype:
                self.refs.add(id(op.outputs[0]))
            return
        if opdef.inert:
            return
        if opdef in rules.program.overwriting and self.reuse:
            bound = self._reusing(index, op, bound)
        args = self._args(op, index, known.used if prepared is not None and self.placed is None else ())
        if opdef.plain and bound is plain and rules.forwards(op):
            call = args[0]
        else:
            k = self._new_name("k")
            self.scope[k] = bound
            in_context = kernel.wants_ctx if prepared is None else "ctx" in keyword_names(prepared)
            if in_context:
                args.append("ctx=ctx")
            kind = _opaque(op, in_context)
            if kind is not None:
                self.opaque[k] = kind
            call = f"{k}({', '.join(args)})"
        outputs = self._outputs(op, index)
        self._line(f"{outputs} = {call}" if outputs else call, op)
        if CHECK_NUMERICS:
            self._check_numbers(op)
        self._drop(index, op, "_" in outputs.split(", "))

    def _reusing(self, index: int, op: Node, bound: Callable) -> Callable:
        """The kernel that overwrites an input which is large, dead after this op, and made by a kernel of this program."""
        for at, over in rules.program.overwriting[op.opdef].items():
            t = op.inputs[at]
            if any(t.static_dims == out.static_dims and t.dtype == out.dtype for out in op.outputs) and \
                    is_large(t) and self.last_use.get(id(t)) == index and \
                    t.op.opdef.foldable and t.op.inputs and id(t) not in self.fed and sum(x is t for x in op.inputs) == 1:
                if self.placed is None:
                    return reuse.reusing(bound, over, at)
                if stays_on_device(t, op, self.placed):
                    return reuse.reusing(bound, adapted(over, op, self.placed, self.fed), at)
        return bound

    def _check_numbers(self, op: Node) -> None:
        """A statement that fails if the op returned a NaN; it is attributed to the op, so that the error names it."""
        given = [self.names[id(t)] for t in op.outputs if t.dtype.is_floating and id(t) in self.names and id(t) not in self.fed
                 and not t.dtype._is_ref_dtype]
        if given:
            self.scope["no_nan"] = no_nan
            self._line(f"no_nan({', '.join(given)})", op)

    def _args(self, op: Node, index: int, unused: Collection[int] = ()) -> list[str]:
        counts, consumed = op.counts or tuple(None for _ in op.inputs), rules.program.consumes.get(op.opdef, ())
        names, i = [], 0
        for arg, n in zip(op.opdef.inputs, counts, strict=True):
            if n is None:
                t = op.inputs[i]
                as_number = id(t) in self.numbers and arg.name in rules.numbers.inputs.get(op.opdef, ())
                name = "None" if i in unused else self.numbers[id(t)] if as_number else self._value(t, arg.is_ref)
                names.append(self._taken(name, t, index) if arg.name in consumed else name)
                i += 1
            else:
                values = [self._value(t, arg.is_ref) for t in op.inputs[i:i + n]]
                if arg.name in consumed:
                    values = [self._taken(v, t, index) if values.count(v) == 1 else v
                              for v, t in zip(values, op.inputs[i:i + n], strict=True)]
                names.append("[" + ", ".join(values) + "]")
                i += n
        return names

    def _value(self, t: Value, as_ref: bool = False) -> str:
        name = self.names.get(id(t))
        if name is None:
            return self._made_of_number(t)
        return name if as_ref or id(t) not in self.refs else f"{name}.read()"

    def _taken(self, name: str, t: Value, index: int) -> str:
        """A value donated at its last use: the kernel may overwrite it if there is no other reference."""
        return given_away(name) if name[0] == "t" and name.isalnum() and self.last_use.get(id(t)) == index else name

    def _made_of_number(self, t: Value) -> str:
        """A tensor made of a Python number of the program."""
        make = f"make_{t.dtype.name}"
        if make not in self.scope:
            self.scope[make] = tensor_maker(t.dtype)
        return f"{make}({self.numbers[id(t)]})"

    def _outputs(self, op: Node, index: int) -> str:
        if not op.outputs:
            return ""
        names = []
        for t in op.outputs:
            if id(t) in self.names:                # fed: the computed value is unused
                names.append("_")
                continue
            used = id(t) in self.last_use
            names.append(self._new_name() if used else "_")
            if used:
                self.names[id(t)] = names[-1]
                if t.dtype._is_ref_dtype:
                    self.refs.add(id(t))
        if set(names) == {"_"}:
            return ""
        if len(op.opdef.outputs) == 1:
            return names[0] if not op.opdef.list_output else ("(" + "".join(n + ", " for n in names) + ")" if names else "")
        return ", ".join(_nested(op, names))

    def _new_name(self, letter: str = "t") -> str:
        return f"{letter}{next(self.counter)}"

    def _text(self, text: str) -> None:
        self.body.append("    " * self.depth + text)

    def _line(self, text: str, op: Node) -> None:
        self._text(f"{text}  # {op.name}: {op.type}")
        self.lines[len(self.body) + 1] = op

    def _drop(self, index: int, op: Node, unwanted: bool = False) -> None:
        dead = self._used_up(index, op)
        if unwanted:
            dead.add("_")
        if dead:
            self._text("del " + ", ".join(sorted(dead)))

    def _used_up(self, index: int, op: Node) -> set[str]:
        """The names that are dead after an op."""
        return {self.names[id(t)] for t in op.inputs if self.last_use.get(id(t)) == index and self.names[id(t)][0] != "c"}


def bound_once(op: Node) -> bool:
    """Whether the value of an op is part of the program: a constant, or the handle of a resource."""
    return not op.inputs and (op.opdef.foldable or op.opdef.per_session) and len(op.outputs) == 1


def is_large(t: Value) -> bool:
    """Whether a value is worth the search for other references to it."""
    return t.static_dims is not None and None not in t.static_dims and t.dtype.is_floating and \
        math.prod(t.static_dims) * t.dtype.size >= reuse.LEAST


def given_away(name: str) -> str:
    """An expression that moves the value out of a local variable."""
    return f"({name}, {name} := None)[0]"


def _prepared(rule: Callable, known: Known) -> Callable | None:
    """The kernel that a rule returns. If the rule raises, the usual kernel raises the error when it runs."""
    try:
        return rule(known)
    except (errors.OpError, ValueError):
        return None


def _nested(op: Node, names: list[str]) -> list[str]:
    """Output names in the shape in which the kernel returns several outputs."""
    out, i = [], 0
    for a in op.opdef.outputs:
        n = arg_count(a, op.attrs)
        if n is None:
            out.append(names[i])
            i += 1
        else:
            out.append("[" + ", ".join(names[i:i + n]) + "]")
            i += n
    return out


def write_program(ops: list[Node], fetches: list[Value], feeds: list[Value], ctx: Any, placed: Any = None,
                  unfused: bool = False) -> Program:
    """The straight-line program of ops without control flow. `placed` has their devices, if values may be outside host memory.
    `unfused` is for tracing: kernels overwrite nothing, and variables keep their layout."""
    writer = Writer(ctx, placed, reuse=False) if unfused else _writer(ops, ctx, placed)
    program = writer.write(ops, fetches, feeds)
    if not unfused:
        arrange_filters(ops, writer.constants())
    return program


def compile_lane(ops: list[Node], fetches: list[Value], feeds: list[Value], ctx: Any, placed: Any = None) -> Any:
    """A runnable for the ops of one thread of a step. It keeps their order, which is part of the step's order."""
    return _writer(ops, ctx, placed).write(ops, fetches, feeds)


def _writer(ops: list[Node], ctx: Any, placed: Any) -> Writer:
    """The writer of a straight-line program; logical GPUs that share a physical one get a stream each."""
    if placed is None:
        return Writer(ctx)
    from penstock._src.step.compile.streams import StreamWriter, sharing_devices
    devices = sharing_devices(ops, placed)
    return StreamWriter(ctx, placed, devices) if devices else Writer(ctx, placed)


def wait_for_each_other(ops: Iterable[AnyOp]) -> bool:
    """Whether several ops block and one may wait for another: then none may prevent the others from running."""
    blocking = [op for op in ops if op.opdef.blocking]
    return len(blocking) > 1 and any(op.opdef not in rules.program.ends_no_wait for op in blocking)


def after_the_rest(ops: list[Node], fed: set[int]) -> list[Node]:
    """The same ops with blocking ops and their dependents last, so that other ops do not wait for them."""
    late = {op for op in ops if op.opdef.blocking}
    if not late:
        return ops
    for op in ops:
        if any(t.op in late and id(t) not in fed for t in op.inputs) or any(c in late for c in op.control_inputs):
            late.add(op)
    return [op for op in ops if op not in late] + [op for op in ops if op in late]


__all__ = ["Program", "Writer", "after_the_rest", "compile_lane", "group_inputs", "kernel_of", "wait_for_each_other",
           "write_program"]
