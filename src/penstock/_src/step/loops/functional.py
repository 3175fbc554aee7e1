"""A functional loop as one program: the condition and the body of a While op, written into one `while`.

    def step(ctx, given):
        f0, f1, = given; given.clear()
        n2 = number(f0)
        v3 = f1
        while True:
            n4 = n2 < 10                # Less
            if not n4: break
            ...
            n2, v3 = n9, t8
        return (make_int32(n2), v3, )

A step that chooses between branches with effects is written in the same way: an `if` with the ops of both.

Functions that the body calls are inlined. Counters are Python numbers (step/compile/numbers.py). Loop-invariant ops are written
before the loop; sums of products are computed after it (step/loops/outer_sum.py).
"""
from __future__ import annotations

import sys
from collections.abc import Container, Sequence
from typing import Any

from penstock._src.graph.effects import writes_nothing
from penstock._src.ops import rules
from penstock._src.ops.registry import get
from penstock._src.step.compile.numbers import find_numbers, sources_of
from penstock._src.step.compile.program import Program, given_away, is_large
from penstock._src.step.ir import Node, Value
from penstock._src.step.loops import outer_sum
from penstock._src.step.loops.blocks import BlockWriter
from penstock._src.step.loops.counted import made_of, numbers_of_body

_LARGE = 400                 # the most ops of an inlined function
_DEEP = 12                   # nesting of blocks; Python allows twenty


def write_loop(test: Any, body: Any, ctx: Any) -> Program | None:
    """The program of a loop over two optimized functions (step/ir.py); None if they have control flow."""
    if any(op.opdef.control_flow or op.opdef.blocking for part in (test, body) for op in part.ops):
        return None
    placed = None if test.placed is None and body.placed is None else {**(test.placed or {}), **(body.placed or {})}
    return _Loop(ctx, test, body, placed).program()


class _Inlining(BlockWriter):
    """Writes ops, and in the place of those that call functions, or choose from two, the bodies of these."""

    def __init__(self, ctx: Any, placed: Any = None):
        super().__init__(ctx, placed)
        self.place: dict[Node, int] = {}
        self._kept: list = []                      # bodies, kept alive so that the ids of their tensors are not reused

    def _any(self, op: Node) -> None:
        bodies = self._bodies(op)
        if bodies is None:
            self._op(self.place[op], op)
        elif len(bodies) == 1:
            self._inside(bodies[0], op.inputs)
            for t, inner in zip(op.outputs, bodies[0].fetches, strict=True):
                self._same(t, inner)
        else:
            self._branches(op, bodies)

    def _bodies(self, op: Node) -> list | None:
        """The bodies of the functions that an op calls, or chooses from, if they are inlined."""
        if op.opdef not in rules.inlining.in_place or self.placed is not None or self.depth > _DEEP:
            return None
        if op.opdef in rules.inlining.chooses and op.inputs[0].static_dims != ():
            return None
        bodies = rules.inlining.in_place[op.opdef](op, self.ctx)
        for body in bodies:
            if len(body.ops) > _LARGE or any(o.opdef.control_flow or o.opdef.blocking for o in body.ops):
                return None
        for body in bodies:
            self._kept.append(body)
            self._number_ops(body)
        return bodies

    def _number_ops(self, part: Any) -> None:
        """Gives the ops of a body places, and its tensors last uses."""
        for op in part.ops:
            self.place[op] = len(self.place) + 1
            self.last_use.update((id(t), self.place[op]) for t in op.inputs)
        self.last_use.update((id(t), sys.maxsize) for t in part.fetches)

    def _inside(self, body: Any, given: Sequence[Value]) -> None:
        """Writes the body of a function on existing values."""
        for t, inner in zip(given, body.feeds, strict=True):
            self._same(inner, t)
        if self.placed is None:
            pairs = [(op.outputs[0], made_of) for op in body.ops if (made_of := sources_of(op)) is not None]
            self.in_numbers |= find_numbers(pairs, lambda t: id(t) in self.numbers)
        for op in body.ops:
            self._any(op)

    def _branches(self, op: Node, bodies: list) -> None:
        """An `if`, with what its branches return under the same names."""
        pred = op.inputs[0]
        outcome = self.numbers.get(id(pred)) or f"truth({self._value(pred)})"
        names = [self._new_name() if id(t) in self.last_use else "_" for t in op.outputs]
        for start, body in zip((f"if {outcome}:", "else:"), bodies, strict=True):
            self._line(start, op)
            self.depth += 1
            self._inside(body, op.inputs[1:])
            wanted = [(n, self._value(t)) for n, t in zip(names, body.fetches, strict=True) if n != "_"]
            self._text(f"{', '.join(n for n, _ in wanted)} = {', '.join(v for _, v in wanted)}" if wanted else "pass")
            self.depth -= 1
        for t, n in zip(op.outputs, names, strict=True):
            if n != "_":
                self.names[id(t)] = n


class Chosen(Program):
    """A program that chooses between branches: a recording would hold for one of them."""


class _Choosing(_Inlining):
    """Writes a step without loops."""

    def write(self, ops: list[Node], fetches: list[Value], feeds: list[Value]) -> Program:
        """The program, with an `if` for each conditional whose branches are short."""
        for i, t in enumerate(feeds):
            self.names[id(t)] = f"f{i}"
        self.fed = {id(t) for t in feeds}
        self._find_last_uses(ops, fetches, feeds)
        self.place.update((op, i) for i, op in enumerate(ops))
        for op in ops:
            self._any(op)
        values = "".join(self._value(t) + ", " for t in fetches)
        self._drop_after_last_use(values)
        return self.finish(feeds, values)

    def _program(self, source: str) -> Program:
        return Chosen(source, self.scope, self.lines)


def write_choices(ops: list[Node], fetches: list[Value], feeds: list[Value], ctx: Any) -> Program | None:
    """The program of a step on the host that chooses between effects; None if it does not, or works on large arrays: these
    are written over each other only where the order of ops determines last uses."""
    if not any(op.opdef in rules.inlining.chooses and op.opdef.stateful for op in ops) or \
            any(is_large(t) for op in ops for t in op.outputs):
        return None
    return _Choosing(ctx).write(ops, fetches, feeds)


class _Loop(_Inlining):
    """Writes one loop."""

    def __init__(self, ctx: Any, test: Any, body: Any, placed: Any):
        super().__init__(ctx, placed)
        self.test, self.step = test, body
        self.ops = [*test.ops, *body.ops]
        self.identity = get("Identity")
        # ops of sums over all iterations, with what adds up instead of the addition, and None for those that need not run
        self.sums: dict[Node, tuple[str, outer_sum.Found] | None] = {}
        self.lists: dict[Node, str] = {}           # ops on lists that nothing else in the loop uses -> their replacements

    def program(self) -> Program:
        """Writes the loop down."""
        for part in (self.test, self.step):
            self._number_ops(part)
        counted = self._find_numbers()
        names = [self._enter(i, i in counted) for i in range(len(self.step.feeds))]
        before = self._before(names)
        sums = self._find_sums(names)
        lists = self._find_lists(names)
        for name, found in sums.items():
            self._text(f"{name} = {found.kind.__name__}()")
        self._text("stop, limited = ctx.cancellation, ctx.deadline is not None")
        self._text("while True:")
        self.depth += 1
        self._part(self.test, names, counted)
        t = self.test.fetches[0]
        self._text(f"if not {self.numbers.get(id(t)) or f'truth({self._value(t)})'}: break")
        self._part(self.step, names, counted, before)
        self._next(names, counted)
        self._text("if stop.error is not None or limited: ctx.remaining()")
        self.depth -= 1
        for name, found in sums.items():
            variable = self.names[id(found.addition.outputs[0])]
            self._line(f"{variable} = {name}.total({variable}); {name} = None", found.addition)
        for op, name in self.lists.items():
            self._line(f"{lists[op]} = {name}.finish(); {name} = None", op)
        values = "".join((self._made(n, self.step.feeds[i]) if i in counted else n) + ", " for i, n in enumerate(names))
        self._drop_after_last_use(values)
        return self._finished(values)

    def _finished(self, values: str) -> Program:
        """The program. It empties the list of its arguments, so that they can be freed while it runs."""
        taken = "".join(f"f{i}, " for i in range(len(self.step.feeds)))
        lines = ["def step(ctx, given):", f"    {taken}= given; given.clear()", *self.body, f"    return ({values})", ""]
        return Program("\n".join(lines), self.scope, {n + 1: op for n, op in self.lines.items()})

    def _made(self, name: str, t: Value) -> str:
        self.numbers[id(t)] = name
        return self._made_of_number(t)

    def _enter(self, i: int, counted: bool) -> str:
        """The variable of the loop for one of its inputs."""
        if self.step.feeds[i] is self.step.fetches[i]:                   # does not change
            return f"f{i}"
        name = self._new_name("n" if counted else "v")
        self._text(f"{name} = number(f{i})" if counted else f"{name} = f{i}")
        return name

    def _before(self, names: list[str]) -> set[Node]:
        """Writes the loop-invariant ops of the body; they are not written again."""
        staying = {id(t): n for t, n in zip(self.step.feeds, names, strict=True) if n[0] == "f"}
        self.names.update(staying)
        same, fixed = set(staying), set[Node]()
        may_read = writes_nothing(self.ops)
        for op in self.step.ops:
            if not (op.opdef.foldable or op.opdef.reads and may_read) or not op.outputs or \
                    not fixed.issuperset(op.control_inputs):
                continue
            if all(id(t) in same for t in op.inputs) and \
                    not any(id(t) in self.in_numbers or t.dtype.base_dtype.torch is None for t in op.outputs):
                self._any(op)
                fixed.add(op)
                same.update(map(id, op.outputs))
        return fixed

    def _part(self, part: Any, names: list[str], counted: set[int], written: Container[Node] = ()) -> None:
        """The condition or the body, on the variables."""
        for i, t in enumerate(part.feeds):
            if i in counted:
                self.numbers[id(t)] = names[i]
            else:
                self.names[id(t)] = names[i]
        for op in part.ops:
            if op not in written:
                self._any(op)

    def _find_sums(self, names: list[str]) -> dict[str, outer_sum.Found]:
        """Finds variables that are sums of matrix products or of rows: they are summed in few large operations."""
        if self.placed is not None:
            return {}
        uses = outer_sum.count_uses(self.ops, [*self.test.fetches, *self.step.fetches])
        sums = {}
        for i, t in enumerate(self.step.feeds):
            if names[i][0] != "v" or id(self.test.feeds[i]) in uses or uses.get(id(t)) != 1:
                continue
            found = outer_sum.find([t], self.step.fetches[i], uses, lambda op: op.opdef is self.identity, self.step.ops)
            if found is not None:
                name = self._new_name("s")
                self.scope[found.kind.__name__] = found.kind
                self.sums.update(dict.fromkeys([found.product, *found.between]))
                self.sums[found.addition] = name, found
                self.names[id(found.addition.outputs[0])] = names[i]
                sums[name] = found
        return sums

    def _find_lists(self, names: list[str]) -> dict[Node, str]:
        """Lists that the loop only appends to, or only pops from: op -> the variable of the list."""
        if self.placed is not None:
            return {}
        uses = outer_sum.count_uses(self.ops, [*self.test.fetches, *self.step.fetches])
        found: dict[Node, str] = {}
        for i, t in enumerate(self.step.feeds):
            following = self.step.fetches[i]
            op = following.op
            if names[i][0] != "v" or id(self.test.feeds[i]) in uses or uses.get(id(t)) != 1 or uses.get(id(following)) != 1 or \
                    following.value_index != 0 or op.opdef not in rules.loops.lists or op.inputs[0] is not t:
                continue
            name = self._new_name("l")
            element = op.inputs[1] if len(op.outputs) == 1 else op.outputs[1]
            self.scope[f"kind_{name}"] = rules.loops.lists[op.opdef]
            self.scope[f"type_{name}"], self.scope[f"dims_{name}"] = op.attrs["element_dtype"], element.static_dims
            self._line(f"{name} = kind_{name}({given_away(names[i])}, type_{name}, dims_{name})", op)
            self.lists[op] = name
            found[op] = names[i]
        return found

    def _on_list(self, op: Node) -> None:
        """Writes an append to a list, or a pop."""
        name = self.lists[op]
        if len(op.outputs) == 1:
            self._line(f"{name}.step({self._value(op.inputs[1])})", op)
            return
        value = op.outputs[1]
        wanted = id(value) in self.last_use
        if wanted:
            self.names[id(value)] = self._new_name()
        self._line(f"{self.names[id(value)]} = {name}.step()" if wanted else f"{name}.step()", op)

    def _any(self, op: Node) -> None:
        if op in self.lists:
            self._on_list(op)
            return
        if op in self.sums:
            noted = self.sums[op]
            if noted is not None:
                name, found = noted
                self._line(f"{name}.add({', '.join(self._value(t) for t in found.terms)})", found.product)
            return
        if op.outputs and id(op.outputs[0]) in self.in_numbers and not op.opdef.calls:
            self._write_number(op)
            return
        super()._any(op)

    def _next(self, names: list[str], counted: set[int]) -> None:
        """Assigns the results of the body to the variables for the next iteration."""
        pairs = [(n, self.numbers[id(t)] if i in counted else self._value(t))
                 for i, (n, t) in enumerate(zip(names, self.step.fetches, strict=True))
                 if n[0] != "f" and t.op not in self.sums and t.op not in self.lists]
        if pairs:
            self._text(f"{', '.join(a for a, _ in pairs)} = {', '.join(b for _, b in pairs)}")

    def _controlling(self) -> set[int]:
        """The ids of the tensors that the condition is computed from."""
        inside = set(self.ops)
        following = {id(t): (self.step.feeds[i], new) for part in (self.test, self.step)
                     for i, (t, new) in enumerate(zip(part.feeds, self.step.fetches, strict=True))}
        return made_of(self.test.fetches,
                       lambda t: following.get(id(t)) or (t.op.inputs if t.op in inside else ()))

    def _find_numbers(self) -> set[int]:
        """Finds the tensors that are Python numbers; returns the positions of such variables."""
        parts = (self.test, self.step)
        changing = {i for i, t in enumerate(self.step.feeds) if t is not self.step.fetches[i]}
        staying = {id(t) for part in parts for i, t in enumerate(part.feeds) if i not in changing}
        following = [t if i in changing else part.feeds[i] for part in parts for i, t in enumerate(self.step.fetches)]
        self.in_numbers = numbers_of_body(self.ops, [*self.test.feeds, *self.step.feeds], following)
        if self.placed is not None:
            self.in_numbers &= self._controlling()
        counted = {i for i in changing if id(self.step.feeds[i]) in self.in_numbers}
        following_numbers = {id(self.step.fetches[i]) for i in counted}
        for part in parts:                               # an invariant is a number if numbers are made of it or follow it
            used = following_numbers | {id(t) for op in part.ops if op.outputs and id(op.outputs[0]) in self.in_numbers
                                        for t in op.inputs}
            for i, t in enumerate(part.feeds):
                if id(t) in staying and id(t) in used:
                    name = self.numbers[id(t)] = self._new_name("n")
                    self._text(f"{name} = number(f{i})")
        return counted
