"""Conditionals and loops of v1 control flow as `if` and `while`.

Switch and Merge are dataflow: a value on the branch not taken is dead. In graphs that cond, while_loop and their gradients
build, the predicates and outcomes under which a value is alive are known at compile time: its *guard*. A Switch adds an outcome
to the guard of its data, and a Merge of both outcomes removes it; the LoopCond of a frame splits a loop into what runs before
the test, the body, and the exits. Each op is then written under an `if` for its guard.

`write_structured` returns None for graphs that are not of this form; the dataflow executor runs those.
"""
from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.graph.frames import Frame, Frames
from penstock._src.ops import rules
from penstock._src.ops.registry import get
from penstock._src.step.compile.numbers import may_be_number
from penstock._src.step.compile.program import Program
from penstock._src.step.ir import Node, Value
from penstock._src.step.loops import outer_sum
from penstock._src.step.loops.blocks import BlockWriter
from penstock._src.step.loops.counted import controlling, numbers_of_frame

Guard = frozenset            # of (tensor id of a predicate, outcome)
ALWAYS: Guard = frozenset()
_MOST_WAITS = 1_000_000      # updates times ops, to look for what they wait for


class _Irregular(Exception):
    """The graph is not made of whole conditionals and loops."""


class _Loop:
    """A frame as one item of the enclosing frame."""

    def __init__(self, frame: Frame):
        self.frame = frame
        self.variables: list[Node] = []       # Merges of an Enter and a NextIteration
        self.test: Any = None                      # the canonical tensor of its LoopCond


def write_structured(ops: list[Node], fetches: list[Value], feeds: list[Value], ctx: Any,
                     placed: Any = None) -> Program | None:
    """The program for ops with control flow, or None if the executor must run it."""
    try:
        return _Structured(ctx, ops, fetches, feeds, placed).program()
    except (_Irregular, SyntaxError):              # SyntaxError: more nested blocks than Python allows
        return None


def _reached(start: Any, followers: dict[Any, set]) -> set:
    """All that waits for an item, and the item."""
    found, left = {start}, [start]
    while left:
        new = followers[left.pop()] - found
        found |= new
        left += new
    return found


class _Structured(BlockWriter):
    """Writes one program."""

    def __init__(self, ctx: Any, ops: list[Node], fetches: list[Value], feeds: list[Value], placed: Any = None):
        super().__init__(ctx, placed)
        self.ops, self.fetches, self.feeds = ops, fetches, feeds
        self.fed = {id(t) for t in feeds}
        self.frames = Frames(ops, self.fed)
        self.place = {op: i for i, op in enumerate(ops)}
        self.loops: dict[Frame, _Loop] = {}
        self.guards: dict[Any, Guard] = {}         # op or loop -> guard
        self.outcomes: dict[int, str] = {}         # id of a predicate -> the bool that holds its outcome
        self.preds: dict[int, int] = {}            # id of a predicate -> where it is defined, to nest ifs by
        self.sums: dict[Node, tuple[str, str, outer_sum.Found | None] | None] = {}     # see _find_sums
        self.after: dict[Node, set] = {}           # update -> the items that use what it would overwrite
        self.identity = get("Identity")

    def program(self) -> Program:
        """Analyses the graph, then writes it down."""
        for frame in {f: None for f in self.frames.of.values()}:
            if frame.parent is not None:
                self.loops[frame] = self._loop(frame)
        self._delay_updates()
        self._guard_frame(self.frames.root)
        for op in self.ops:
            if op.opdef.control_flow == "switch":
                self.preds.setdefault(id(self._canonical(op.inputs[1])), self.place[op])
        for i, t in enumerate(self.feeds):
            self.names[id(t)] = f"f{i}"
            self._note_outcome(t)
        self._find_last_uses(self.ops, self.fetches, self.feeds)
        self.uses = outer_sum.count_uses(self.ops, self.fetches)
        self._block(self._order(self.frames.root), ALWAYS)
        values = "".join(self._result(i, t) + ", " for i, t in enumerate(self.fetches))
        self.scope.update(dead=self._dead)
        self._drop_after_last_use(values)
        return self.finish(self.feeds, values)

    # -- frames --------------------------------------------------------------------------------
    def _loop(self, frame: Frame) -> _Loop:
        loop = _Loop(frame)
        for op in frame.ops:
            kind = op.opdef.control_flow
            if kind == "merge" and any(t.op.opdef.back_edge for t in op.inputs):
                start, back = op.inputs[0].op, op.inputs[1].op
                if len(op.inputs) != 2 or start not in self.frames.child or not back.opdef.back_edge or op.control_inputs:
                    raise _Irregular
                loop.variables.append(op)
            elif kind == "loop_cond":
                if loop.test is not None:
                    raise _Irregular
                loop.test = self._canonical(op.outputs[0])
        if loop.test is None:
            raise _Irregular
        return loop

    def _canonical(self, t: Value) -> Value:
        """The source of a predicate, through identities and switches."""
        while id(t) not in self.fed and (t.op.opdef is self.identity or t.op.opdef.control_flow in ("switch", "loop_cond")):
            t = t.op.inputs[0]
        return t

    def _items(self, frame: Frame) -> list:
        """The ops of a frame, with each loop inside as one item."""
        loops = dict.fromkeys(self.frames.child[op] for op in frame.ops if op in self.frames.child)
        return [op for op in frame.ops if op not in self.frames.child] + [self.loops[f] for f in loops]

    def _sources(self, item: Any, frame: Frame) -> Iterable[Any]:
        """The items that an item waits for."""
        for op in item.frame.enters if isinstance(item, _Loop) else (item,):
            for s in (*(t.op for t in op.inputs if id(t) not in self.fed), *op.control_inputs):
                if s in self.frames.of and not s.opdef.back_edge:
                    if s in self.frames.child:
                        continue                                # comes in from outside
                    yield s if self.frames.of[s] is frame else self._inner(s, frame)
        if frame is self.frames.root and item in self.after:
            yield from self.after[item]

    def _delay_updates(self) -> None:
        """Lets updates outside of loops wait for what uses the values of their variables from before, unless that waits for
        them. An update before the last use has to copy the variable."""
        root = self.frames.root
        items = self._items(root)
        updates = [i for i in items if isinstance(i, Node) and (i.opdef in rules.updates.alone or i.opdef.has_ref_inputs)]
        if len(updates) * len(items) > _MOST_WAITS:
            return
        users: dict[int, list] = {}                # id of a value -> the items that use it
        followers: dict[Any, set] = {i: set() for i in items}
        for op in self.ops:
            owner = op if self.frames.of[op] is root and op not in self.frames.child else self._owner(op)
            for t in op.inputs:
                users.setdefault(id(t), []).append(owner)
        for i in items:
            for s in self._sources(i, root):
                followers[s].add(i)
        for op in updates:
            others = {r for t in op.inputs if t.dtype._is_ref_dtype or t.dtype.base_dtype == dtypes.resource
                      for r in users[id(t)]} - {op}
            if any(self._position(r) > self.place[op] for r in others):
                continue                           # one that comes after the update must not come before it now
            old = [id(t) for r in others if isinstance(r, Node) and not r.opdef.has_ref_inputs for t in r.outputs]
            wanted = {u for t in old for u in users.get(t, ())} - _reached(op, followers)
            if wanted:
                self.after[op] = wanted
                for u in wanted:
                    followers[u].add(op)

    def _owner(self, op: Node) -> Any:
        """The loop outside of all others that an op belongs to."""
        frame = self.frames.child[op] if op in self.frames.child else self.frames.of[op]
        while frame.parent is not None and frame.parent is not self.frames.root:
            frame = frame.parent
        return self.loops[frame]

    def _inner(self, op: Node, frame: Frame) -> _Loop:
        """The loop in `frame` that an op of an inner frame belongs to."""
        inner: Frame | None = self.frames.of[op]
        while inner is not None and inner.parent is not frame:
            inner = inner.parent
        if inner is None:
            raise _Irregular
        return self.loops[inner]

    def _position(self, item: Any) -> int:
        return self.place[item] if isinstance(item, Node) else min(self.place[e] for e in item.frame.enters)

    def _sorted(self, items: list, frame: Frame, prefer: Callable[[Any], Any] | None = None) -> list:
        """Items in topological order; among ready items, one with the same `prefer` as the last."""
        inside = set(items)
        waiting: dict[Any, int] = {}
        consumers: dict[Any, list] = {i: [] for i in items}
        for i in items:
            sources = {s for s in self._sources(i, frame) if s in inside and s is not i}
            waiting[i] = len(sources)
            for s in sources:
                consumers[s].append(i)
        heaps: dict[Any, list] = {}
        key = prefer or (lambda i: None)
        by_position = {self._position(i): i for i in items}

        def ready(i: Any) -> None:
            heapq.heappush(heaps.setdefault(key(i), []), self._position(i))
        for i in items:
            if not waiting[i]:
                ready(i)
        out: list = []
        current: Any = None
        while heaps:
            if current not in heaps:
                current = min(heaps, key=lambda k: heaps[k][0])
            item = by_position[heapq.heappop(heaps[current])]
            if not heaps[current]:
                del heaps[current]
            out.append(item)
            for c in consumers[item]:
                waiting[c] -= 1
                if not waiting[c]:
                    ready(c)
        if len(out) != len(items):
            raise _Irregular
        return out

    def _order(self, frame: Frame) -> list:
        return self._sorted(self._items(frame), frame)

    # -- guards -------------------------------------------------------------------------------------------------------
    def _guard_frame(self, frame: Frame) -> None:
        for item in self._order(frame):
            if isinstance(item, _Loop):
                self.guards[item] = self._loop_guard(item)
                self._guard_frame(item.frame)
                self._check_loop(item)
            else:
                self.guards[item] = self._op_guard(item)

    def _loop_guard(self, loop: _Loop) -> Guard:
        guard, constant = ALWAYS, ALWAYS
        for op in loop.frame.enters:
            g = self._inputs_guard(op)
            if op.attrs["is_constant"]:
                constant |= g
            else:
                guard |= g
        if not constant <= guard:
            raise _Irregular
        return guard

    def _inputs_guard(self, op: Node) -> Guard:
        guard = ALWAYS
        for t in op.inputs:
            guard |= self._tensor_guard(t)
        for c in op.control_inputs:
            if c in self.frames.of:
                guard |= self._control_guard(c)
        if any((p, not outcome) in guard for p, outcome in guard):
            raise _Irregular
        return guard

    def _tensor_guard(self, t: Value) -> Guard:
        op = t.op
        if id(t) in self.fed or op in self.frames.child:
            return ALWAYS
        if op.opdef.control_flow == "switch":
            return self.guards[op] | {(id(self._canonical(op.inputs[1])), bool(t.value_index))}
        return self._control_guard(op)

    def _control_guard(self, op: Node) -> Guard:
        if op.opdef.control_flow == "exit":
            return self.guards[self.loops[self.frames.of[op]]]
        return ALWAYS if op in self.frames.child else self.guards[op]

    def _op_guard(self, op: Node) -> Guard:
        kind = op.opdef.control_flow
        if kind == "trigger":
            return ALWAYS                                        # runs whether its inputs live or not; writes nothing
        if kind == "merge":
            return self._merge_guard(op)
        return self._inputs_guard(op)

    def _merge_guard(self, op: Node) -> Guard:
        frame = self.frames.of[op]
        if frame in self.loops and op in self.loops[frame].variables:
            return ALWAYS
        if len(op.inputs) != 2 or op.control_inputs:
            raise _Irregular
        a, b = (self._tensor_guard(t) for t in op.inputs)
        if op.inputs[0] is op.inputs[1]:
            return a
        apart = a ^ b
        if len(apart) != 2 or len({p for p, _ in apart}) != 1:
            raise _Irregular
        return a & b

    def _check_loop(self, loop: _Loop) -> None:
        """Checks that every back edge comes from the body, and that no exit does."""
        test = id(loop.test)
        for op in loop.frame.ops:
            kind = op.opdef.control_flow
            if kind == "next" and self.guards[op] != {(test, True)} or kind == "exit" and self.guards[op] != {(test, False)}:
                raise _Irregular

    # -- writing --------------------------------------------------------------------------------------------------------
    def _block(self, items: list, base: Guard, frame: Frame | None = None) -> None:
        """Writes items, each under an `if` for what its guard has beyond `base`; items with the same guard together."""
        frame = frame or self.frames.root
        depth = self.depth
        open_path: list = []
        for item in self._sorted(items, frame, lambda i: self.guards[i]):
            path = sorted(self.guards[item] - base, key=lambda g: (self._depth_of(g[0]), g))
            if self._silent(item):
                self._alias(item)
                continue
            if path != open_path:
                common = 0
                while common < min(len(path), len(open_path)) and path[common] == open_path[common]:
                    common += 1
                for n, (p, outcome) in enumerate(path[common:], common):
                    self.depth = depth + n
                    self._text(f"if {'' if outcome else 'not '}{self._outcome(p)}:")
                open_path = path
            self.depth = depth + len(path)
            self._item(item)
        self.depth = depth

    def _depth_of(self, pred: int) -> int:
        return self.preds[pred]

    def _outcome(self, pred: int) -> str:
        if pred not in self.outcomes:
            raise _Irregular
        return self.outcomes[pred]

    def _silent(self, item: Any) -> bool:
        """Items that only rename a value."""
        if isinstance(item, _Loop):
            return False
        kind = item.opdef.control_flow
        if kind in ("switch", "exit", "next", "loop_cond"):
            return not self._read_first(item)
        return kind in ("trigger",) or kind == "merge" and item.inputs[0] is item.inputs[1]

    def _read_first(self, op: Node) -> bool:
        """Whether a reference comes in where a value is wanted."""
        t = op.inputs[0]
        return t.dtype._is_ref_dtype and not op.opdef.inputs[0].is_ref

    def _alias(self, op: Node) -> None:
        for t in op.outputs:
            if op.inputs and id(t) not in self.fed:
                self._same(t, op.inputs[0])

    def _item(self, item: Any) -> None:
        if isinstance(item, _Loop):
            self._write_loop(item)
            return
        kind = item.opdef.control_flow
        if item in self.sums:
            self._write_sum(item)
        elif kind == "merge":
            self._write_merge(item)
        elif item.outputs and id(item.outputs[0]) in self.in_numbers:
            self._write_number(item)
            self._note_outcome(item.outputs[0])
        elif kind in ("switch", "exit", "next", "loop_cond"):
            name = self._new_name()
            self._line(f"{name} = {self._value(item.inputs[0])}", item)
            for t in item.outputs:
                self.names[id(t)] = name
        else:
            self._op(self.place[item], item)
            for t in item.outputs:
                self._note_outcome(t)

    def _note_outcome(self, t: Value) -> None:
        """After the definition of a predicate, its outcome as a bool."""
        if id(t) in self.preds and id(t) in self.numbers:
            self.outcomes[id(t)] = self.numbers[id(t)]
        elif id(t) in self.preds and id(t) in self.names and id(t) not in self.outcomes:
            name = self.outcomes[id(t)] = self._new_name("b")
            self._text(f"{name} = truth({self._value(t)})")
        elif id(t) in self.outcomes:
            self._text(f"{self.outcomes[id(t)]} = truth({self._value(t)})")

    def _write_merge(self, op: Node) -> None:
        first, second = op.inputs
        (pred, outcome), = self._tensor_guard(first) - self._tensor_guard(second)
        wants_ref = op.opdef.inputs[0].is_ref
        on, off = (first, second) if outcome else (second, first)
        b = self._outcome(pred)
        value, index = op.outputs
        if id(value) in self.in_numbers:
            name = self.numbers[id(value)] = self._new_name("n")
            self._line(f"{name} = {self.numbers[id(on)]} if {b} else {self.numbers[id(off)]}", op)
            self._note_outcome(value)
        elif id(value) not in self.fed:
            name = self.names[id(value)] = self._new_name()
            self._line(f"{name} = {self._value(on, wants_ref)} if {b} else {self._value(off, wants_ref)}", op)
            if wants_ref:
                self.refs.add(id(value))
            self._note_outcome(value)
        if id(index) in self.last_use and id(index) not in self.fed:
            name = self.names[id(index)] = self._new_name()
            self.scope.setdefault("merge_index", [torch.tensor(i, dtype=torch.int32) for i in range(2)])
            self._line(f"{name} = merge_index[{int(not outcome)} if {b} else {int(outcome)}]", op)

    def _find_numbers(self, loop: _Loop) -> None:
        """Finds the tensors of a loop that are Python numbers."""
        found = numbers_of_frame(self.frames, loop.frame, self.last_use, self.fed)
        self.in_numbers |= found if self.placed is None else found & controlling(self.frames, loop.frame, self.fed)

    def _find_sums(self, loop: _Loop) -> dict[Node, tuple[str, str]]:
        """Loop variables that are sums of products or rows (step/loops/outer_sum.py), with names of the sums and what
        makes them.

        Records the replacements of ops in `sums`: (sum, variable, what was found) for an addition; the others do not run.
        """
        out: dict[Node, tuple[str, str]] = {}
        products: dict[int, str] = {}              # what the second factors of products are -> the sum
        rows: dict[Node, outer_sum.Found] = {}
        if self.placed is not None:
            return out
        inside = {(id(loop.test), True)}

        for variable, found in outer_sum.find_in_frame(loop.frame, self.uses, self.fed):
            t = variable.outputs[0]
            if any(self.guards[op] != inside for op in (found.addition, found.product, *found.between)):
                continue
            name = self._new_name("s")
            self.scope[found.kind.__name__] = found.kind
            out[variable] = name, f"{found.kind.__name__}()"
            self.sums.update(dict.fromkeys([found.product, *found.between]))
            self.sums[found.addition] = name, self.names[id(t)], found
            if found.kind is outer_sum.OuterSum:
                products[id(found.terms[1])] = name
            else:
                rows[variable] = found
        for variable, found in rows.items():
            if id(found.terms[0]) in products:     # a product concatenates these rows: they are summed there
                name, _ = out.pop(variable)
                out[variable] = name, f"{products[id(found.terms[0])]}.rows()"
                self.sums[found.addition] = name, self.names[id(variable.outputs[0])], None
        return out

    def _write_sum(self, op: Node) -> None:
        """Writes an op of a sum of products: the addition collects the factors of the product."""
        noted = self.sums[op]
        if noted is not None:
            name, variable, found = noted
            if found is not None:
                self._line(f"{name}.add({', '.join(self._value(t) for t in found.terms)})", found.product)
            self.names[id(op.outputs[0])] = variable

    def _write_loop(self, loop: _Loop) -> None:
        self._find_numbers(loop)
        counted = {op for op in loop.variables if id(op.outputs[0]) in self.in_numbers}
        self._write_enters(loop, counted)
        self._write_variables(loop, counted)
        sums = self._find_sums(loop)
        for name, made in sums.values():
            self._text(f"{name} = {made}")
        self._text("stop, limited = ctx.cancellation, ctx.deadline is not None")
        self._text(f"while True:  # {loop.frame.name}")
        self.depth += 1
        self._write_iteration(loop)
        pairs = [(self.numbers[id(op.outputs[0])], self.numbers[id(op.inputs[1])]) if op in counted else
                 (self.names[id(op.outputs[0])], self._value(op.inputs[1], op.opdef.inputs[0].is_ref))
                 for op in loop.variables if op not in sums]
        if pairs:
            self._text(f"{', '.join(a for a, _ in pairs)} = {', '.join(b for _, b in pairs)}")
        self._text("if stop.error is not None or limited: ctx.remaining()")
        self.depth -= 1
        for op, (name, _) in sums.items():
            variable = self.names[id(op.outputs[0])]
            self._line(f"{variable} = {name}.total({variable}); {name} = None", op)
        for op in loop.frame.ops:
            if op.opdef.control_flow == "exit":
                self._note_outcome(op.outputs[0])

    def _write_enters(self, loop: _Loop, counted: set[Node]) -> None:
        """Writes the values that enter a loop; invariants keep their name."""
        first = {id(op.inputs[0]) for op in counted}
        wanted = {id(t) for op in loop.frame.ops if op not in counted and op.outputs and id(op.outputs[0]) in self.in_numbers
                  for t in op.inputs}
        for op in loop.frame.enters:
            t = op.outputs[0]
            if may_be_number(t) and (id(t) in first or id(t) in wanted):
                name = self.numbers[id(t)] = self._new_name("n")
                self._line(f"{name} = {self._as_number(op.inputs[0])}", op)
                if id(t) in first:
                    continue
            if op.attrs["is_constant"] and not self._read_first(op):
                self._same(t, op.inputs[0])
            else:
                name = self.names[id(t)] = self._new_name()
                self._line(f"{name} = {self._value(op.inputs[0], op.opdef.inputs[0].is_ref)}", op)
                if op.opdef.inputs[0].is_ref:
                    self.refs.add(id(t))
            self._note_outcome(t)

    def _write_variables(self, loop: _Loop, counted: set[Node]) -> None:
        """Writes the first values of the loop variables; `counted` ones are Python numbers."""
        for op in loop.variables:
            if op in counted:
                name = self.numbers[id(op.outputs[0])] = self._new_name("n")
                self._line(f"{name} = {self.numbers[id(op.inputs[0])]}", op)
                continue
            name = self.names[id(op.outputs[0])] = self._new_name("v")
            self._line(f"{name} = {self._value(op.inputs[0], op.opdef.inputs[0].is_ref)}", op)
            if id(op.inputs[0]) in self.refs:
                self.refs.add(id(op.outputs[0]))

    def _write_iteration(self, loop: _Loop) -> None:
        """Writes the condition, the exit and the body of a loop."""
        test = id(loop.test)
        for op in loop.variables:
            self._note_outcome(op.outputs[0])
        items = [i for i in self._items(loop.frame) if i not in loop.variables]
        before = [i for i in items if not any(p == test for p, _ in self.guards[i])]
        self._block(before, ALWAYS, loop.frame)
        stop = [i for i in items if (test, False) in self.guards[i]]
        if all(map(self._silent, stop)):
            self._block(stop, frozenset({(test, False)}), loop.frame)
            self._text(f"if not {self._outcome(test)}: break")
        else:
            self._text(f"if not {self._outcome(test)}:")
            self.depth += 1
            self._block(stop, frozenset({(test, False)}), loop.frame)
            self._text("break")
            self.depth -= 1
        self._block([i for i in items if (test, True) in self.guards[i]], frozenset({(test, True)}), loop.frame)

    def _result(self, i: int, t: Value) -> str:
        guard = ALWAYS if id(t) in self.fed else self._tensor_guard(t)
        value = self._value(t)
        if not guard:
            return value
        path = sorted(guard, key=lambda g: (self._depth_of(g[0]), g))
        alive = " and ".join(f"{'' if outcome else 'not '}{self._outcome(p)}" for p, outcome in path)
        return f"({value} if {alive} else dead({i}))"

    def _dead(self, i: int) -> Any:
        t = self.fetches[i]
        raise errors.InvalidArgumentError(
            None, t.op.origin, f"Retval[{i}] does not have value: {t.name} is on a branch that was not taken")
