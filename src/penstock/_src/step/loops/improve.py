"""Loop optimizations: computes once what all iterations share.

- Loop-invariant code moves before the loop (invariants.py), and gradients use it from there.
- Ops may be changed by rules for loops (`rules.loops.improve`): a matrix that is the same in all iterations and is multiplied
  transposed, for example, is transposed once, before the loop.
- The gradient of a loop runs through its iterations in reverse and pops saved values from stacks. Ops on saved values alone do
not depend on the order: they are computed before the gradient's loop, from whole stacks, by one op for all iterations, and the
loop reads its rows. Moving factors exposes more of them: where `d` is a derivative, `d(y, g * a)` is `g * d(y, a)`, and `d(y,
a)` depends on saved values only; concatenated products become one product.

Only loops without inner loops and conditionals are considered.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.effects import writes_nothing
from penstock._src.graph.frames import Frame, Frames
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value
from penstock._src.step.loops.invariants import move_invariants
from penstock._src.step.optimize.dependencies import simplify_dependencies
from penstock._src.step.optimize.folding import constant
from penstock._src.step.optimize.forwarding import forward_values


def improve_loops(step: StepGraph) -> None:
    """Applies the rules of ops in loops, and hoists ops on saved values out of gradients' loops."""
    if not step.has_control_flow or step.is_placed or not any(op.opdef.back_edge for op in step.ops):
        return
    frames = Frames(step.ops, step.fed)
    if move_invariants(step, frames):
        step.prune()
        frames = Frames(step.ops, step.fed)
        if _take_invariants(step, frames):
            step.prune()
            frames = Frames(step.ops, step.fed)
    inner = list(dict.fromkeys(f for f in frames.of.values() if f.parent is not None))
    users = step.users()
    for frame in inner:
        looping = Looping(step, frame, users)
        for op in reversed([op for op in step.ops if frames.of.get(op) is frame]):      # rules may inspect what is before
            if op.opdef in rules.loops.improve:
                rules.loops.improve[op.opdef](op, looping)
        looping.finish()
    step.prune()
    if any([gradient.rewrite() for gradient in gradients_of_loops(step, frames)]):
        step.prune()
        simplify_dependencies(step)
        forward_values(step)


def _take_invariants(step: StepGraph, frames: Frames) -> bool:
    """Replaces saved loop-invariant values by their sources in gradients; returns whether there were any."""
    return any([gradient.take_invariants() for gradient in gradients_of_loops(step, frames)])


def gradients_of_loops(step: StepGraph, frames: Frames) -> list[Gradient]:
    """Pairs of gradient loops and their forward loops, as far as these are independent."""
    inner = list(dict.fromkeys(f for f in frames.of.values() if f.parent is not None))
    nested = {f.parent for f in inner}
    users = step.users()
    simple = {f: counter for f in inner if f not in nested and f.parent is frames.root and not chooses(f)
              if (counter := _counter(f)) is not None}
    found = []
    for frame, counter in simple.items():
        if counter.down and counter.start.op in frames.of:
            forward = frames.of[counter.start.op]
            if forward in simple and not simple[forward].down and _behind(counter.start).op.opdef.control_flow == "exit":
                found.append(Gradient(step, frame, counter, forward, simple[forward], users))
    return found


class Looping:
    """The view of a loop that a rule receives: queries, and ways to compute values before the loop."""

    def __init__(self, step: StepGraph, frame: Frame, users: dict[int, list[Node]]):
        self.step, self.frame, self._users = step, frame, users
        self._by: dict[int, Value] = {}
        self._wanted = {id(t) for t in step.fetches}

    def stays(self, t: Value) -> bool:
        """Whether a tensor is the same in all iterations."""
        return id(t) not in self.step.fed and t.op.opdef.control_flow == "enter" and t.op.attrs["is_constant"] \
            and not t.dtype._is_ref_dtype

    def used(self, t: Value) -> list[Node]:
        """The ops that take a tensor."""
        return self._users.get(id(t), [])

    def needed(self, t: Value) -> bool:
        """Whether a tensor has consumers: an op, or the next iteration of a functional loop."""
        return bool(self.used(t)) or id(t) in self._wanted

    def constant(self, t: Value) -> Any:
        """The value of a tensor as an array if it is a constant, else None."""
        t = _behind(t)
        t = _behind(t.op.inputs[0]) if self.stays(t) else t
        return t.op.attrs["value"] if t.op.opdef.constant and id(t) not in self.step.fed else None

    def only(self, t: Value, op: Node) -> Node | None:
        """The producer of `t`, if `op`, possibly through ops that pass the value on, is its only consumer."""
        while True:
            if id(t) in self.step.fed or id(t) in self._wanted or len(self.used(t)) != 1 or self.used(t)[0] is not op:
                return None
            op = t.op
            if not _passes_on(op):
                return op
            t = op.inputs[0]

    def once(self, name: str, t: Value, attrs: dict[str, Any], dims: tuple, *more: np.ndarray) -> Value:
        """The result of op `name` on a loop-invariant tensor and other values of its type, computed before the loop."""
        enter = t.op
        others = [constant(self.step, v, t, []) for v in more]
        made = self.step.make(name, [enter.inputs[0], *others], attrs, enter, [dims], [t.dtype], [])
        return _enter(self.step, made.outputs[0], enter)

    def instead(self, t: Value, other: Value) -> None:
        """`other` is used in place of `t`."""
        self._by[id(t)] = other

    def finish(self) -> None:
        """Applies the replacements."""
        self.step.substitute(self._by)


def improve_body(step: StepGraph) -> None:
    """Applies the rules of ops in the body of a functional loop, or in a branch inside of one. Invariants are written before it
    (step/loops/functional.py)."""
    if step.is_placed or step.has_control_flow:
        return
    step.prune()
    body = _Body(step)
    for op in reversed(step.ops):
        if op.opdef in rules.loops.improve:
            rules.loops.improve[op.opdef](op, body)
    body.finish()


class _Body(Looping):
    """The same for the body of a functional loop, where variables passed through unchanged are invariant."""

    def __init__(self, step: StepGraph):
        self.step, self._users = step, step.users()
        self._by: dict[int, Value] = {}
        self._wanted = {id(t) for t in step.fetches}
        is_loop = len(step.feeds) == len(step.fetches)                   # else it is a branch, of which nothing is known
        pairs = zip(step.feeds, step.fetches, strict=True) if is_loop else ()
        self._staying = {id(t) for t, following in pairs if t is following}
        self._first: list[Node] = []
        if is_loop and writes_nothing(step.ops):
            self._first += [op for op in step.ops
                            if op.opdef.reads and not op.control_inputs and id(op.inputs[0]) in self._staying]
        self._staying.update(id(t) for op in self._first for t in op.outputs)

    def stays(self, t: Value) -> bool:
        return id(t) in self._staying

    def constant(self, t: Value) -> Any:
        t = _behind(t)
        return t.op.attrs["value"] if id(t) not in self.step.fed and t.op.opdef.constant else None

    def once(self, name: str, t: Value, attrs: dict[str, Any], dims: tuple, *more: np.ndarray) -> Value:
        others = [constant(self.step, v, t, []) for v in more]
        made = self.step.make(name, [t, *others], attrs, t.op, [dims], [t.dtype], [])
        self._first += [*(o.op for o in others), made]
        return made.outputs[0]

    def finish(self) -> None:
        first = set(self._first)
        self.step.ops = [*self._first, *(op for op in self.step.ops if op not in first)]
        super().finish()
        self.step.prune()


class _Counter:
    """The variable by which a loop counts its iterations: up from 0, or down to 1."""

    def __init__(self, variable: Node, start: Value, following: Value, down: bool):
        self.variable, self.start, self.following, self.down = variable, start, following, down


def _passes_on(op: Node) -> bool:
    return len(op.inputs) == 1 and rules.forwards(op) and not op.inputs[0].dtype._is_ref_dtype


def _behind(t: Value) -> Value:
    """The source of a value that is only forwarded."""
    while _passes_on(t.op):
        t = t.op.inputs[0]
    return t


def _enter(step: StepGraph, t: Value, like: Node) -> Value:
    attrs = {**like.attrs, "T": t.dtype, "is_constant": True}
    return step.make(like.opdef, [t], attrs, like, [t.static_dims], [t.dtype], []).outputs[0]


def _is_number(t: Value, number: int) -> bool:
    """Whether a tensor is a constant integer, also in a loop where it stays."""
    t = _behind(t)
    if t.op.opdef.control_flow == "enter" and t.op.attrs["is_constant"]:
        t = _behind(t.op.inputs[0])
    return t.op.opdef.constant and t.static_dims == () and t.dtype.is_integer and int(t.op.attrs["value"]) == number


def chooses(frame: Frame) -> bool:
    """Whether there is a conditional in a loop, or anything else than switches and variables of the loop."""
    for op in frame.ops:
        kind = op.opdef.control_flow
        if kind == "switch" and _behind(op.inputs[1]).op.opdef.control_flow != "loop_cond" or op.opdef.has_refs:
            return True
        if kind == "merge" and (len(op.inputs) != 2 or not op.inputs[1].op.opdef.back_edge):
            return True
    return False


def _variable(t: Value) -> Node | None:
    """The loop variable that a tensor in the body of a loop is the value of."""
    t = _behind(t)
    if t.op.opdef.control_flow != "switch" or t.value_index != 1:
        return None
    merge = _behind(t.op.inputs[0]).op
    return merge if merge.opdef.control_flow == "merge" else None


def _steps(merge: Node, number: str) -> Value | None:
    """The next value of a variable, if it is the old one and 1, joined by `number`."""
    following = _behind(merge.inputs[1].op.inputs[0])
    op = following.op
    if rules.numbers.text.get(op.opdef) != number or _variable(op.inputs[0]) is not merge or not _is_number(op.inputs[1], 1):
        return None
    return following


def _counts_up(merge: Node) -> bool:
    """Whether a variable is 0, 1, 2, … in the iterations."""
    return _steps(merge, "{} + {}") is not None and _is_number(merge.inputs[0].op.inputs[0], 0)


def _counter(frame: Frame) -> _Counter | None:
    """The variable that counts the iterations of a loop: any one that counts up, or the one that a countdown tests."""
    for merge in frame.ops:
        if merge.opdef.control_flow == "merge" and _counts_up(merge):
            return _Counter(merge, merge.inputs[0], merge.inputs[0], False)
    test = next((_behind(op.inputs[0]).op for op in frame.ops if op.opdef.control_flow == "loop_cond"), None)
    if test is None or rules.numbers.text.get(test.opdef) != "{} >= {}" or not _is_number(test.inputs[1], 1):
        return None
    merge = _behind(test.inputs[0]).op
    following = _steps(merge, "{} - {}") if merge.opdef.control_flow == "merge" and merge in frame.ops else None
    return None if following is None else _Counter(merge, _behind(merge.inputs[0].op.inputs[0]), following, True)


class Gradient:
    """The loop of a gradient, which takes what the loop before it has put on stacks."""

    def __init__(self, step: StepGraph, frame: Frame, counter: _Counter, forward: Frame, forward_counter: _Counter,
                 users: dict[int, list[Node]]):
        self.step, self.frame, self.forward, self.users = step, frame, forward, users
        self.count, self.index = counter.start, counter.following
        self.inside, self.before = set(frame.ops), set(forward.ops)
        self.wanted = {id(t) for t in step.fetches}
        self.pushes: dict[Node, Node] = {}        # a pop -> the push that it belongs to
        self.ahead: dict[int, Node] = {}               # by their results: ops that need no loop
        self.outer: dict[int, Value] = {}                  # tensor of the loop -> the same for all iterations
        self.rows: dict[int, Value] = {}                   # tensor of the loop -> its row
        self.enter = counter.variable.inputs[0].op

    def rewrite(self) -> bool:
        """Hoists ops on saved values; returns whether there were any."""
        if not self._counts_iterations():
            return False
        order = [op for op in self.step.ops if op in self.inside]
        self.pushes = self.saved()
        self.ahead = {id(pop.outputs[0]): pop for pop in self.pushes}
        counts = self._take_counts()
        for op in order:
            if self._is_joined(op):
                continue
            self._move_factor(op)
            if self._needs_no_loop(op):
                self.ahead[id(op.outputs[0])] = op
            elif op.opdef in rules.algebra.joins:
                self._join_factors(op)
        self._read_rows(order)
        return self._without({*counts, *self.pushes})           # only its push determines when a pop runs

    def saved(self) -> dict[Node, Node]:
        """The pops of this loop with the pushes that they belong to, one for one."""
        if not self._counts_iterations():
            return {}
        pops = [op for op in self.step.ops if op in self.inside and rules.loops.saves.get(op.opdef) == "pop"]
        return {pop: push for pop in pops if (push := self._push_of(pop)) is not None}

    def take_invariants(self) -> bool:
        """Stops saving loop-invariant values; returns whether there were any."""
        gone: set[Node] = set()
        by = {}
        for pop, push in self.saved().items():
            enter = _behind(push.inputs[1]).op
            if enter.opdef.control_flow != "enter" or not enter.attrs["is_constant"] or self.users.get(id(push.outputs[0])):
                continue
            by[id(pop.outputs[0])] = _enter(self.step, enter.inputs[0], self.enter)
            gone |= {pop, push}
        self.step.substitute(by)
        return self._without(gone)

    def _without(self, gone: set[Node]) -> bool:
        """Drops control edges to some ops; returns whether there are any."""
        for op in self.step.ops:                            # dependents inherit its control inputs
            while any(c in gone for c in op.control_inputs):
                op.control_inputs = list(dict.fromkeys(b for c in op.control_inputs
                                                        for b in (c.control_inputs if c in gone else (c,))))
        return bool(gone)

    def _counts_iterations(self) -> bool:
        """Whether this loop counts down from the number of iterations of the forward loop."""
        switch = self.count.op.inputs[0].op
        merge = _behind(switch.inputs[0]).op if switch.opdef.control_flow == "switch" else None
        return merge is not None and merge in self.before and merge.opdef.control_flow == "merge" and _counts_up(merge)

    # -- stacks ---------------------------------------------------------------------------------------------------------
    def _push_of(self, pop: Node) -> Node | None:
        """The push for a pop, if every iteration pushes one value of fixed shape and pops one."""
        enter = pop.inputs[0].op
        if enter.opdef.control_flow != "enter" or not self._in_body(pop, self.inside):
            return None
        handle = enter.inputs[0]
        if rules.loops.saves.get(handle.op.opdef) != "stack" or id(handle) in self.wanted:
            return None
        ops = [u for e in self.users.get(id(handle), ()) for u in
               (self.users.get(id(e.outputs[0]), ()) if e.opdef.control_flow == "enter" else (e,))]
        pushes = [op for op in ops if rules.loops.saves.get(op.opdef) == "push"]
        if len(ops) != 2 or len(pushes) != 1 or pushes[0] not in self.before or not self._in_body(pushes[0], self.before):
            return None
        elem, out = pushes[0].inputs[1], pop.outputs[0]
        if not _known(elem.static_dims) or elem.dtype.torch is None or elem.dtype._is_ref_dtype or id(out) in self.wanted:
            return None
        out.static_dims = elem.static_dims
        return pushes[0]

    def _in_body(self, op: Node, frame: set[Node]) -> bool:
        """Whether an op runs only in iterations, not when the loop is left."""
        seen, todo = {op}, [op]
        while todo:
            o = todo.pop()
            if any(t.op.opdef.control_flow == "switch" and t.value_index == 1 for t in o.inputs):
                return True
            for s in (*(t.op for t in o.inputs), *o.control_inputs):
                if s in frame and s not in seen and not s.opdef.back_edge:
                    seen.add(s)
                    todo.append(s)
        return False

    def _take_counts(self) -> list[Node]:
        """Replaces saved counters by the gradient's own counter, without a stack."""
        gone: list[Node] = []
        by = {}
        for pop, push in list(self.pushes.items()):
            elem = push.inputs[1]
            merge = _variable(elem)
            if elem.dtype == dtypes.int32 and merge is not None and _counts_up(merge) and \
                    not self.users.get(id(push.outputs[0])):
                by[id(pop.outputs[0])] = self.index
                gone += [pop, push]
                del self.pushes[pop], self.ahead[id(pop.outputs[0])]
        self.step.substitute(by)
        return gone

    def _is_joined(self, op: Node) -> bool:
        """Whether an op will be fused with others of the loop (step/optimize/pointwise.py), where it costs almost nothing."""
        if op.opdef in rules.algebra.joins:
            return bool(op.inputs) and self._is_joined(_behind(op.inputs[0]).op)
        return self.step.joins_pointwise and op.opdef in rules.pointwise.instruction and rules.is_pointwise(op) and \
            _known(op.outputs[0].static_dims) and op.outputs[0].dtype in (dtypes.float32, dtypes.float64)

    # -- ops on saved values -----------------------------------------------------------------------------------
    def _is_ahead(self, t: Value) -> bool:
        return id(_behind(t)) in self.ahead

    def _is_outside(self, t: Value) -> bool:
        op = t.op
        return op.opdef.constant or op.opdef.control_flow == "enter" and op.attrs["is_constant"] and not t.dtype._is_ref_dtype

    def _needs_no_loop(self, op: Node) -> bool:
        if op.opdef not in rules.algebra.elementwise or not op.opdef.foldable or id(op.outputs[0]) in self.wanted:
            return False
        dims = op.outputs[0].static_dims
        if not _known(dims) or not dims or not all(_known(t.static_dims) for t in op.inputs):
            return False
        ahead = [t for t in op.inputs if self._is_ahead(t)]
        return bool(ahead) and all(len(t.static_dims or ()) == len(dims) for t in ahead) and \
            all(self._is_ahead(t) or self._is_outside(t) for t in op.inputs)

    def _move_factor(self, op: Node) -> None:
        """d(y, g * a) becomes g * d(y, a), if y and a are saved and g is not."""
        at = rules.loops.linear.get(op.opdef)
        if at is None or not all(self._is_ahead(t) for i, t in enumerate(op.inputs) if i != at):
            return
        found = self._product(op.inputs[at], op)
        if found is None or found[1].static_dims != op.outputs[0].static_dims:
            return
        g, a, product = found
        inputs = list(op.inputs)
        inputs[at] = a
        made = self.step.make(op.opdef, inputs, op.attrs, op, [a.static_dims], None, [])
        self.ahead[id(made.outputs[0])] = made
        op.opdef, op.attrs = product.opdef, product.attrs
        op.set_inputs([g, made.outputs[0]])

    def _product(self, t: Value, user: Node) -> tuple[Value, Value, Node] | None:
        """The factors of `t`, if only `user` takes it: a value of the loop, a saved one of the same shape, and the op."""
        op = user
        while len(self.users.get(id(t), ())) == 1 and self.users[id(t)][0] is user and id(t) not in self.wanted:
            user = t.op
            if not _passes_on(user):
                break
            t = user.inputs[0]
        if user is op or user.opdef not in rules.algebra.multiplies or not t.dtype.is_floating:
            return None
        for g, a in (user.inputs, user.inputs[::-1]):
            if self._is_ahead(a) and not self._is_ahead(g) and _known(a.static_dims) and a.static_dims == g.static_dims:
                return g, a, user
        return None

    def _join_factors(self, op: Node) -> None:
        """Concatenated products with saved values become one product with the concatenated values."""
        *parts, axis = op.inputs
        found = [self._product(t, op) for t in parts]
        dims = op.outputs[0].static_dims
        if len(parts) < 2 or not _known(dims) or not axis.op.opdef.constant or any(f is None for f in found):
            return
        joined = []
        for side in (0, 1):
            sides: list[Value] = [f[:2][side] for f in found if f is not None]
            made = self.step.make(op.opdef, [*sides, axis], op.attrs, op, [dims], None, [])
            made.counts = op.counts
            joined.append(made)
        self.ahead[id(joined[1].outputs[0])] = joined[1]
        product = found[0][2]                               # type: ignore[index]
        op.opdef, op.attrs, op.counts = product.opdef, product.attrs, ()
        op.set_inputs([j.outputs[0] for j in joined])

    # -- the loop reads rows --------------------------------------------------------------------------------------------
    def _read_rows(self, order: list[Node]) -> None:
        """Makes ops of the loop read rows of values computed before it."""
        staying = [op for op in order if not self._is_made_ahead(op)]
        for op in staying:
            for i, t in enumerate(op.inputs):
                source = self.ahead.get(id(_behind(t)))
                if source is not None and source not in self.pushes and not _passes_on(op):
                    op.set_input(i, self._row(_behind(t)))
        gone = [pop for pop in self.pushes if id(pop.outputs[0]) in self.outer]
        for op in staying:
            for i, t in enumerate(op.inputs):
                if self.ahead.get(id(t)) in gone:
                    op.set_input(i, self._row(t))

    def _is_made_ahead(self, op: Node) -> bool:
        return bool(op.outputs) and id(op.outputs[0]) in self.ahead

    def _row(self, t: Value) -> Value:
        """A tensor of this iteration, from what was computed for all of them."""
        if id(t) not in self.rows:
            whole = self._whole(t)
            attrs = {"T": t.dtype}
            rows = self.step.make("_Rows", [whole], attrs, t.op, [()], [dtypes.variant], [])
            entered = _enter(self.step, rows.outputs[0], self.enter)
            self.rows[id(t)] = self.step.make("_RowAt", [entered, self.index], attrs, t.op, [t.static_dims], [t.dtype],
                                              []).outputs[0]
        return self.rows[id(t)]

    def _whole(self, t: Value) -> Value:
        """A tensor for all iterations, in front of the loop."""
        t = _behind(t)
        if id(t) not in self.outer:
            op, dims = t.op, t.static_dims or ()
            if op in self.pushes:
                made = self.step.make("_StackAll", [op.inputs[0].op.inputs[0], self.count],
                                      {"T": t.dtype, "element_shape": TensorShape(t.static_dims)}, op, [(None, *dims)],
                                      [t.dtype], [])
            elif id(t) in self.ahead:
                inputs = [self._whole(s) for s in op.inputs]
                if op.opdef in rules.algebra.joins:
                    inputs[-1] = self._next_axis(op.inputs[-1])
                made = self.step.make(op.opdef, inputs, op.attrs, op, [(None, *dims)], None, [])
                made.counts = op.counts
            elif op.opdef.constant:
                made = self.step.make(op.opdef, [], op.attrs, op, [t.static_dims], None, [])
            else:
                return op.inputs[0]                        # invariants enter from there
            self.outer[id(t)] = made.outputs[0]
        return self.outer[id(t)]


    def _next_axis(self, axis: Value) -> Value:
        """The index of an axis after a leading axis was added."""
        value = axis.op.attrs["value"]
        return constant(self.step, value + (value >= 0).astype(value.dtype), axis, [])


def _known(dims: Any) -> bool:
    return dims is not None and None not in dims


__all__ = ["Looping", "chooses", "gradients_of_loops", "improve_loops"]
