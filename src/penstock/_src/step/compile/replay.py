"""The program of a recording: scripts, and updates of variables between them.

    def step(ctx, f0, f1):
        t0 = c0.read()
        t5, t7, t21, given = script1([f0, f1, t0])
        del f0, f1, given, t0
        c0.add_product(t5, t7, -0.01)
        del t5, t7
        return (t21, )

Calls are grouped into few scripts; values are dropped at their last use, as in every program.
"""
from __future__ import annotations

import collections
import itertools
import math
from typing import Any

import torch

from penstock._src.base.waits import Locks
from penstock._src.step.compile.program import Program
from penstock._src.step.compile.recorder import Call, Event, Held, Traced, changed_by, held_by, inner, memory, tensors
from penstock._src.step.compile.script import script

KERNELS = ("kernel", "kernel in context")
_SCRIPT = 3                  # the fewest calls of a script


class Replay:
    """Writes the program of a recording: its items, feeds and results, and the variables by their names in the program.

    `alone`: for a step without concurrent steps, which may hold the locks of several variables at once.
    """

    def __init__(self, items: list, feeds: list, results: tuple, variables: dict, alone: bool = False):
        self.feeds, self.results = feeds, results
        self.scope: dict[str, Any] = dict(variables)
        self.names: dict[int, str] = {id(f): f"f{i}" for i, f in enumerate(feeds)}
        self.kept: list = [items, feeds, results]    # kept alive, so that their ids are not reused
        self.counter = itertools.count()
        self.body: list[str] = []
        self.depth = 1
        self.spent: set[str] = set()                 # names that are dead after the last line
        self.blocks = _blocks(items, results)
        if alone:
            self.blocks = _updated_together(self.blocks)
        self.last_use = {id(t): i for i, block in enumerate(self.blocks) for t in _used(block)}
        self.own = _used_once(items, results)
        self.last_use |= {id(t): len(self.blocks) for t in tensors(results)}

    def program(self) -> Program:
        """The program."""
        for i, block in enumerate(self.blocks):
            made = self._calls(i, block) if not isinstance(block, Event) else \
                self._additions(block) if block.kind == "add_all" else self._event(block)
            known = [t for t in (*made, *_used(block)) if isinstance(t, Traced) and id(t) in self.names]
            dead = {self.names.pop(id(t)) for t in {id(t): t for t in known}.values() if self.last_use.get(id(t), i) == i}
            dead |= self.spent
            self.spent.clear()
            if dead:
                self._line("del " + ", ".join(sorted(dead)))
        values = "".join(self._value(v) + ", " for v in self.results)
        header = "def step(ctx" + "".join(f", f{i}" for i in range(len(self.feeds))) + "):"
        return Program("\n".join([header, *self.body, f"    return ({values})", ""]), self.scope, {})

    def _event(self, event: Event) -> list[Traced]:
        """A line for an event; returns the tensors that it makes."""
        if event.kind == "lock":
            lock = f"{event.variable}.lock" if event.variable else f"locks{next(self.counter)}"
            if not event.variable:
                self.scope[lock] = Locks([self.scope[name] for name in event.args])
            self._line(f"with {lock}:")
            self.depth += 1
        elif event.kind == "unlock":
            self.depth -= 1
            if self.body[-1].endswith(".lock:"):
                self.body.pop()
        elif event.kind == "update":
            self._line(f"{event.variable}({', '.join(map(self._value, event.args))})")
        elif event.kind in KERNELS:
            made: list[Any] = list(tensors([event.value]))
            left = ", ".join(map(self._new, made)) + ("," if isinstance(event.value, list) else "")
            args = [*map(self._value, event.args), *(["ctx=ctx"] if event.kind == "kernel in context" else [])]
            self._line(f"{left} = {event.variable}({', '.join(args)})")
            return made
        else:
            call = f"{event.variable}.{event.kind}({', '.join(map(self._value, event.args))})"
            if event.value is None:
                self._line(call)
            else:
                self._line(f"{self._new(event.value)} = {call}")
                return [event.value]
        return []

    def _additions(self, event: Event) -> list[Traced]:
        """A line for additions to several variables."""
        names, values, alpha = event.args
        own = all(id(v) in self.own for v in values)
        self._line(f"{names[0]}.add_all([{', '.join(names)}], {self._value(values)}, {alpha!r}, own={own})")
        return []

    def _calls(self, index: int, calls: list[Call]) -> list[Traced]:
        """A line for calls: of a script, or of ATen if there are few."""
        made = {id(t): t for call in calls for t in call.results if id(t) not in self.names}
        if len(calls) < _SCRIPT:
            for call in calls:
                self._call(call)
            return list(made.values())
        inputs = {id(t): self._value(t) for t in _used(calls) if id(t) not in made}
        outputs = [t for i, t in made.items() if self.last_use.get(i, index) > index]
        name = f"script{next(self.counter)}"
        self.scope[name] = script(calls, inputs, outputs)
        left = "".join(self._new(t) + ", " for t in outputs)
        self._line(f"{left}given{'' if outputs else ','} = {name}([{', '.join(inputs.values())}])")
        self.spent.add("given")
        return outputs

    def _call(self, call: Call) -> None:
        name = str(call.function).replace(".", "_")
        self.scope[name] = call.function
        args = [f"{a.name}={self._value(v)}" if a.kwarg_only else self._value(v)
                for a, v in zip(call.function._schema.arguments, call.args, strict=True)]
        known = [id(t) in self.names for t in call.results]
        line = f"{name}({', '.join(args)})"
        if not all(known):
            names = [self.names[id(t)] if k else self._new(t) for t, k in zip(call.results, known, strict=True)]
            line = f"{', '.join(names)}{',' if _gives_list(call) else ''} = {line}"
        self._line(line)

    def _new(self, value: Any) -> str:
        name = self.names[id(value)] = f"t{next(self.counter)}"
        return name

    def _value(self, value: Any) -> str:
        """What represents a value in the source: its name, a literal, or the name of a constant."""
        if id(value) in self.names:
            return self.names[id(value)]
        if value is None or type(value) in (bool, int, str) or type(value) is float and math.isfinite(value):
            return repr(value)
        if isinstance(value, Held):
            return value.name
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(self._value, value))}]"
        name = self.names[id(value)] = f"c_{next(self.counter)}"
        self.scope[name] = value
        return name

    def _line(self, text: str) -> None:
        self.body.append("    " * self.depth + text)


def _gives_list(call: Call) -> bool:
    return len(call.results) == 1 and len(call.function._schema.returns) == 1 and \
        str(call.function._schema.returns[0].type) == "List[Tensor]"


def _used(block: Event | list[Call]) -> list[torch.Tensor]:
    """The tensors that a block needs."""
    if isinstance(block, Event):
        return list(tensors(block.args))
    return [t for call in block for t in tensors(call.args)]


def _used_once(items: list, results: tuple) -> set[int]:
    """New tensors (not views) that a call returns and that have one use, which may overwrite them."""
    uses = collections.Counter(id(t) for item in items for t in _used(item if isinstance(item, Event) else [item]))
    uses.update(map(id, tensors(results)))
    return {id(t) for call in items if isinstance(call, Call) for t, kind in
            zip(call.results, call.function._schema.returns, strict=False) if kind.alias_info is None and uses[id(t)] == 1}


def _blocks(items: list, results: tuple) -> list[Event | list[Call]]:
    """Events, and runs of calls between them."""
    made = _Blocks({id(t) for item in items for t in _used(item if isinstance(item, Event) else [item])} |
                   set(map(id, tensors(results))))
    for item in items:
        made.call(item) if isinstance(item, Call) else made.event(item)
    return _added_together(made.all)


def _added_together(blocks: list[Event | list[Call]]) -> list[Event | list[Call]]:
    """Additions that follow each other, as one."""
    out: list[Event | list[Call]] = []
    for block in blocks:
        last = out[-1] if out else None
        if not isinstance(block, Event) or block.kind != "add":
            out.append(block)
        elif isinstance(last, Event) and last.kind == "add_all" and last.args[2] == block.args[1] \
                and block.variable not in last.args[0]:
            last.args[0].append(block.variable)
            last.args[1].append(block.args[0])
        else:
            out.append(Event("add_all", "", ([block.variable], [block.args[0]], block.args[1])))
    return out


def forwarded(items: list, results: tuple) -> tuple[list, tuple]:
    """The items and results with reads of what this step has assigned replaced by the values that it assigned.

    A read between two scripts would end the first: without it, the updates of all variables are computed by one.
    """
    written = {memory(t) for item in items if isinstance(item, Call) for t in changed_by(item)}
    assigned: dict[str, Traced] = {}
    by: dict[int, Traced] = {}
    kept: list = []                                  # kept alive, so that their ids are not reused
    out: list = []
    for item in items:
        item = item._replace(args=_replaced(item.args, by)) if by else item
        if isinstance(item, Event):
            value = assigned.get(item.variable)
            if item.kind == "read" and value is not None and _same_kind(value, item.value):
                by[id(item.value)] = value
                kept.append(item)
                continue
            if item.kind == "assign" and isinstance(item.args[0], Traced) and memory(item.args[0]) not in written:
                assigned[item.variable] = item.args[0]
            elif item.kind not in KERNELS:
                for name in held_by(item) if item.kind == "update" else [item.variable]:
                    assigned.pop(name, None)
        out.append(item)
    return out, _replaced(results, by)


def _same_kind(a: Traced, b: Traced) -> bool:
    return a.shape == b.shape and a.dtype is b.dtype and a.stride() == b.stride()


def _replaced(value: Any, by: dict[int, Traced]) -> Any:
    if isinstance(value, Held):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)([_replaced(v, by) for v in value])
    return by.get(id(value), value)


def product_first(item: Call | Event) -> list:
    """A product that is added to a variable, as a call and an addition."""
    if isinstance(item, Call) or item.kind != "add_product":
        return [item]
    a, b, alpha = item.args
    product = Traced(torch.mm(inner(a), inner(b)))
    return [Call(torch.ops.aten.mm.default, (a, b), [product]), Event("add", item.variable, (product, alpha))]


class _Blocks:
    """Groups calls into few, long scripts.

    Moves calls and reads outside locks before the last events where possible. Unused reads are dropped.
    """

    def __init__(self, used: set[int]):
        self.used = used
        self.all: list[Event | list[Call]] = []
        self.home: list[Call] | None = None          # the last calls outside of locks
        self.late: set[int] = set()                  # tensors that came after them
        self.written: set[int] = set()               # memory that was written to after them
        self.taken: set[int] = set()                 # memory that was read after them
        self.touched: set[str] = set()               # variables that were changed after them
        self.locks = 0

    def call(self, call: Call) -> None:
        """Inserts a call at the earliest valid place."""
        changed = changed_by(call)
        if self.locks:
            last = self.all[-1] if self.all else None
            if isinstance(last, list):
                last.append(call)
            else:
                self.all.append([call])
            self.written |= set(map(memory, changed))
            self.taken |= set(map(memory, tensors(call.args)))
            self.late |= set(map(id, call.results))
            return
        taken = list(tensors(call.args))
        if self.home is None or not self.late.isdisjoint(map(id, taken)) or \
                not self.taken.isdisjoint(map(memory, changed)) or not self.written.isdisjoint(map(memory, taken)):
            self.home = []
            self.all.append(self.home)
            for seen in (self.late, self.written, self.taken, self.touched):
                seen.clear()
        self.home.append(call)

    def event(self, event: Event) -> None:
        """Appends an event; a read of an unchanged variable is inserted before the calls that may use it."""
        self.locks += {"lock": 1, "unlock": -1}.get(event.kind, 0)
        if event.kind == "read":
            if id(event.value) not in self.used:
                return
            if self.home is not None and not self.locks and event.variable not in self.touched:
                self._put_before_home(event)
                return
        elif event.kind == "update":
            self.touched |= held_by(event)
        elif event.kind not in ("lock", "unlock", *KERNELS):
            self.touched.add(event.variable)
        elif event.kind in KERNELS and self.home is not None and not self.locks and not any(
                isinstance(t, Traced) for t in tensors(event.args)):
            self._put_before_home(event)             # of constants alone: random numbers
            return
        self.all.append(event)
        self.taken |= set(map(memory, tensors(event.args)))
        if event.value is not None:
            self.late.update(map(id, tensors([event.value])))


    def _put_before_home(self, event: Event) -> None:
        at = next(i for i in range(len(self.all) - 1, -1, -1) if self.all[i] is self.home)
        self.all.insert(at, event)


def _updated_together(blocks: list[Event | list[Call]]) -> list[Event | list[Call]]:
    """Merges consecutive updates of variables, each under its lock, into one under all of their locks."""
    out: list[Event | list[Call]] = []
    at = 0
    while at < len(blocks):
        names: list[str] = []
        events: list[Event | list[Call]] = []
        calls: list[Call] = []
        found = _update(blocks, at, set())
        while found is not None:
            end, name, got, made = found
            names.append(name)
            events += got
            calls += made
            at = end
            found = _update(blocks, at, {e.variable for e in events if isinstance(e, Event)} | set(names))
        if len(names) > 1:
            out += [Event("lock", "", tuple(names)), *events, calls, Event("unlock", "")]
        elif names:
            out += [Event("lock", names[0]), *events, *([calls] if calls else []), Event("unlock", names[0])]
        else:
            out.append(blocks[at])
            at += 1
    return out


def _update(blocks: list[Event | list[Call]], at: int, known: set[str]) -> tuple[int, str, list[Event], list[Call]] | None:
    """An update under a lock that begins at a place, of variables that are not among `known`: where it ends, the variable that
    is locked, what is made writable, and the calls."""
    first = blocks[at] if at < len(blocks) else None
    if not isinstance(first, Event) or first.kind != "lock" or first.variable in known:
        return None
    events: list[Event] = []
    for i in range(at + 1, len(blocks)):
        block = blocks[i]
        if isinstance(block, list):
            after = blocks[i + 1]
            ends = isinstance(after, Event) and after.kind == "unlock"
            return (i + 2, first.variable, events, block) if ends else None
        if block.kind != "writable" or block.variable in known:
            return None
        events.append(block)
    return None
