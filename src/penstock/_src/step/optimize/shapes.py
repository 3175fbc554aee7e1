"""Shape inference for a step from the shapes of its feeds.

Recurring shapes of feeds get their own program (see `variants.py`): its static shapes are inferred again, by the ops' shape
rules, from the shapes that were fed. Later passes then fold what was computed from shapes, and kernels are prepared for them.

Loops are solved by fixed-point iteration. A loop variable is assumed to have the shape that enters; elements read from a stack
or an array are assumed to have the shape of those written. If, under these claims, every next value of a variable and every
element written has the claimed shape, the claims are true. If not, the sizes that differ become unknown, and inference is
repeated: claims only get weaker, so this terminates. Gradients read shapes that loops have saved on stacks; known ones become
constants.

Functional loops are solved in the same way: the variables of a body are claimed to have the shapes that enter, and lists to
have elements like the present ones (`Elements`). Small constants that a loop or a conditional is given and does not change are
`Fixed`: they are constants inside it, too. The results become known facts of the inputs of the loop's functions
(`GraphFunction.shaped`), which are compiled for it. So do the branches of conditionals.
"""
from __future__ import annotations

import functools
from typing import Any

from penstock._src.base import dtypes, errors
from penstock._src.base.static_shape import Dims, common, merge
from penstock._src.graph.build import ruled_shapes
from penstock._src.graph.constant import constant_value
from penstock._src.graph.functions import GraphFunction, as_function
from penstock._src.graph.list_types import UNSET, Elements, Fixed
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value, is_const
from penstock._src.step.loops.holders import holders
from penstock._src.step.loops.saved import take_constants
from penstock._src.step.optimize.folding import constant, fold_constants
from penstock._src.step.optimize.inlining import function_body, inline_calls

_ROUNDS = 8          # then nothing is claimed
_SMALL = 64          # elements of a constant that is known in functions
_FIXED = (dtypes.int32, dtypes.int64, dtypes.bool, dtypes.float32, dtypes.float64)


def specialize_shapes(step: StepGraph, known: list) -> list:
    """Sets the static shapes of a step for what is known of its feeds: shapes, Elements of lists, Fixed values, which become
    constants. Returns the same of its fetches; ValueError where the feeds do not fit the graph."""
    changed, lists = set(step.shaped), {}
    fixed = {id(t): d for t, d in zip(step.feeds, known, strict=True) if isinstance(d, Fixed)}
    changed |= _put_constants(step, fixed)
    for t, d in zip(step.feeds, known, strict=True):
        d = d.dims if isinstance(d, Fixed) else d
        if isinstance(d, Elements):
            lists[id(t)] = d
        elif d is not None and t.static_dims != d:
            t.static_dims = merge(t.static_dims, d)
            changed.add(id(t))
    found = _Known(step, changed, lists)
    if fixed:
        found.forget()
    if not any(op.opdef.back_edge for op in step.ops):
        found.without_claims()
        while more := found.take_constants() | fold_constants(step):      # which say more of shapes
            found = _Known(step, more, lists)
            found.without_claims()
    while changed and any(op.opdef.back_edge for op in step.ops):
        if not _Known(step, changed, lists).by_claims():
            _Known(step, changed, lists).without_claims()
            break
        changed = take_constants(step)
    after: dict[int, Any] = found.lists | {id(t): fixed[id(s)] for t in step.fetches if id(s := _source(t, step)) in fixed}
    return [after.get(id(t), t.static_dims) for t in step.fetches]


def _put_constants(step: StepGraph, fixed: dict[int, Fixed]) -> set[int]:
    """Makes ops take constants instead of the feeds with these ids. The feeds stay, also as fetches; the constants' ids."""
    if not fixed or step.has_control_flow or step.is_placed:      # there a constant would need a loop, a branch or a device
        return set()
    by = {id(t): constant(step, fixed[id(t)].array(), t, []) for t in step.feeds if id(t) in fixed and t.users}
    for op in step.ops:
        op.substitute(by)
    step.ops = [*(t.op for t in by.values()), *step.ops]
    return {id(t) for t in by.values()}


def _source(t: Any, step: Any = None) -> Any:
    """What a tensor is the same as, of a function's graph or (with its step) of a step."""
    while rules.forwards(t.op) and len(t.op.inputs) == 1 and (step is None or id(t) not in step.fed):
        t = t.op.inputs[0]
    return t


def calls_open(step: StepGraph) -> bool:
    """Whether a step has a functional loop, or a conditional, whose functions leave shapes open."""
    return any(function.shapes_open for op in step.ops for _, function in _functions(op))


def _functions(op: Node) -> list[tuple[str, GraphFunction]]:
    """The functions of a loop, or the branches of a conditional, with the names of the attributes."""
    names = rules.inlining.loop.get(op.opdef) or rules.inlining.branches.get(op.opdef, ())
    return [(n, as_function(f, op.graph)) for n in names
            for f in (op.attrs[n] if isinstance(op.attrs[n], list) else [op.attrs[n]])]


def check_functions(step: StepGraph) -> None:
    """Raises InvalidArgumentError if a function of a loop or conditional has other numbers of arguments or results than the op.

    An imported graph may contain anything, and passes rely on these numbers.
    """
    for op in step.ops:
        is_loop = op.opdef in rules.inlining.loop
        for name, function in _functions(op):
            given, wanted = len(op.inputs) - (not is_loop), len(op.outputs)
            if is_loop and name == rules.inlining.loop[op.opdef][0]:
                wanted = 1
            if (len(function.inputs), len(function.outputs)) != (given, wanted):
                raise errors.invalid(f"{op.name} calls {function.name} as its {name} with {given} arguments for {wanted} "
                                     f"results; the function has {len(function.inputs)} and {len(function.outputs)}.")


class _Known:
    """The shapes of a step as they are computed."""

    def __init__(self, step: StepGraph, changed: set[int], lists: dict[int, Elements]):
        self.step, self._fed_anew = step, changed
        self._fed_lists, self.lists = lists, dict(lists)
        self._holders: dict[Node, Any] = {}
        self._claims: dict[Any, Dims] = {}              # by loop variable, and by array or stack
        self._before: list[tuple[Value, Dims]] = []    # what was changed, with what was known of it

    def without_claims(self) -> None:
        """Infers the shapes that follow from the feeds alone."""
        self._loops: set[Node] = set()
        self._holders = {}
        self._round()

    def by_claims(self) -> bool:
        """Infers all shapes by claims; returns False, with nothing changed, if that fails."""
        self._loops = {op for op in self.step.ops if op.opdef.control_flow == "merge" and _goes_round(op)}
        self._holders = holders(self.step)
        for _ in range(_ROUNDS):
            try:
                if self._round():
                    return True
            except ValueError:                          # a claim that is not true, or feeds that do not fit
                self._undo()
                return False
            self._undo()
        return False

    def _undo(self) -> None:
        for t, dims in reversed(self._before):
            t.static_dims = dims
        self._before.clear()
        self.forget()

    def forget(self) -> None:
        """Clears values that were computed from shapes."""
        for view in {id(op.graph): op.graph for op in self.step.ops}.values():
            view.caches.clear()

    def _round(self) -> bool:
        """Applies the rules of all ops, in order; whether no claim was wrong."""
        self._changed = set(self._fed_anew)
        self.lists = dict(self._fed_lists)
        self._put: dict[Any, Dims] = {}                 # into arrays and stacks
        self._entered: dict[Node, Dims] = {}       # loop variables as they were claimed, with what enters
        self._asked: set[Any] = set()
        touched: set[Node] = set()                 # ops behind changed shapes: known values may have changed
        changed = self._changed
        for op in self.step.ops:
            if op in self._loops:
                self._enter(op)
            elif op.opdef in rules.inlining.loop or op.opdef in rules.inlining.branches:
                self._call(op)
            elif op.opdef.shape_rule is not None and not _goes_round(op) and \
                    any(id(t) in changed or t.op in touched for t in op.inputs):
                touched.add(op)
                self._set(op, _outputs(op))
            if op in self._holders:
                self._hold(op)
            self._list(op)
        return not self._corrected()

    def _set(self, op: Node, shapes: list) -> None:
        for t, d in zip(op.outputs, shapes):
            d = merge(t.static_dims, d)
            if d != t.static_dims:
                self._before.append((t, t.static_dims))
                t.static_dims = d
                self._changed.add(id(t))

    def _enter(self, op: Node) -> None:
        """Gives a loop variable the shape that enters, except for sizes that were found to change."""
        shapes = [t.static_dims for t in op.inputs if not _comes_later(t, self.step)]
        if op in self._claims:
            shapes.append(self._claims[op])
        self._entered[op] = dims = functools.reduce(common, shapes)
        self._set(op, [dims])

    # -- lists and functions --------------------------------------------------------------------------------------------
    def _list(self, op: Node) -> None:
        """Notes what an op makes of a list, or sets the shape of what it takes from one."""
        made = rules.lists.makes[op.opdef](op) if op.opdef in rules.lists.makes else None
        if made is not None:
            self.lists[id(op.outputs[0])] = made
        known = self.lists.get(id(op.inputs[0])) if op.inputs else None
        if known is None:
            return
        if op.opdef in rules.lists.puts:
            item = op.inputs[rules.lists.puts[op.opdef]]
            appends = op.opdef in rules.loops.lists      # others may leave elements that are not set
            known = known.with_item(item.static_dims, constant_value(item) if appends else None)
        elif op.opdef in rules.lists.takes:
            if known.shape is not None:
                self._set(op, rules.lists.takes[op.opdef](op, known))
        elif op.opdef in rules.lists.resizes:            # with elements that are not set
            known = known.or_other(UNSET)
        elif not rules.forwards(op) or len(op.inputs) > 1:
            return
        if op.opdef in rules.lists.resizes and rules.lists.resizes[op.opdef](op):
            known = known._replace(size=None)
        if op.outputs[0].dtype == dtypes.variant and op.inputs[0].dtype == dtypes.variant:
            self.lists[id(op.outputs[0])] = known

    def take_constants(self) -> set[int]:
        """Replaces elements of a list of one repeated constant by that constant; returns the ids of these constants."""
        by: dict[int, Value] = {}
        for op in self.step.ops if not self.step.has_control_flow else ():
            pops = op.opdef in rules.loops.lists and op.opdef in rules.lists.takes
            known = self.lists.get(id(op.inputs[0])) if pops else None
            value = None if known is None else known.constant()
            if value is not None and (t := op.outputs[-1]).users and id(t) not in self.step.fed:
                by[id(t)] = constant(self.step, value, t, [])
        if by:
            self.step.ops = [*(t.op for t in by.values()), *self.step.ops]
            self.step.substitute(by)
            self.step.prune()
        self.forget()
        return {id(t) for t in by.values()}

    def _call(self, op: Node) -> None:
        """A loop, or a conditional: its functions are those for what is known of their inputs."""
        functions = _functions(op)
        if not any(f.shapes_open for _, f in functions):
            return
        is_loop = op.opdef in rules.inlining.loop
        inputs = op.inputs if is_loop else op.inputs[1:]
        known = [self.lists.get(id(t), t.static_dims) for t in inputs]
        fixed = self._fixed(inputs, functions[1][1] if is_loop else None)
        known = [fixed.get(i, d) for i, d in enumerate(known)]
        try:
            if is_loop:
                results = known = self._after_iterations(functions[1][1], known)
            else:
                results = functools.reduce(_either, (self._results(f, known) for _, f in functions))
        except ValueError:                              # shapes that do not fit: the run reports it, if it gets there
            return
        shaped = iter([f.shaped(tuple(known)) for _, f in functions])
        op.attrs = {**op.attrs, **{n: [next(shaped) for _ in op.attrs[n]] if isinstance(op.attrs[n], list) else next(shaped)
                                   for n in dict(functions)}}
        self._set(op, [None if isinstance(d, Elements) else d.dims if isinstance(d, Fixed) else d for d in results])
        self.lists.update((id(t), d) for t, d in zip(op.outputs, results, strict=True) if isinstance(d, Elements))

    def _fixed(self, inputs: Any, body: GraphFunction | None) -> dict[int, Fixed]:
        """The small constants among the inputs of a conditional, or of a loop with this body, which does not change them."""
        return {i: Fixed.of(t.op.attrs["value"]) for i, t in enumerate(inputs)
                if is_const(t) and id(t) not in self.step.fed and t.dtype in _FIXED and t.op.attrs["value"].size <= _SMALL
                and (body is None or _source(body.outputs[i]) is body.inputs[i])}

    def _after_iterations(self, body: GraphFunction, known: list) -> list:
        """The facts about loop variables that hold before and after each iteration."""
        for _ in range(_ROUNDS):
            weaker = _either(known, self._results(body, known))
            if weaker == known:
                return known
            known = weaker
        raise ValueError("the shapes of the loop do not converge")

    def _results(self, function: GraphFunction, known: list) -> list:
        """What is known of the results of a function."""
        body = function_body(function.plain)
        if body.has_control_flow:
            raise ValueError("the function has control flow")
        if not self.step.is_placed:
            inline_calls(body)
        return specialize_shapes(body, known)

    # -- claims -----------------------------------------------------------------------------------------------------------
    def _hold(self, op: Node) -> None:
        """Notes what an op puts into an array or a stack, or claims the shape of what it takes out."""
        role, rule, key = rules.shapes.holder.get(op.opdef), rules.shapes.element.get(op.opdef), self._holders[op]
        if role == "puts":
            self._add(key, rule(op, None))              # type: ignore[misc]
        elif role == "makes" and rule is not None:      # zeros for what was not written
            dims = rule(op, None)
            if dims is not None and None not in dims:
                self._add(key, dims)
        elif role == "takes":
            self._asked.add(key)
            if key not in self._claims and key in self._put:
                self._claims[key] = self._put[key]
            if key in self._claims:
                self._set(op, [rule(op, self._claims[key])])        # type: ignore[misc]

    def _add(self, key: Any, dims: Dims) -> None:
        self._put[key] = common(self._put[key], dims) if key in self._put else dims

    def _corrected(self) -> bool:
        """Weakens wrong claims and adds claims that can be made now; returns whether there were any."""
        for op, key in self._holders.items():
            if rules.shapes.holder.get(op.opdef) == "derives" and key[0] in self._put:  # zeros have the shape of the element
                self._add(key, self._put[key[0]])
        new = {key: self._put[key] for key in self._asked if key in self._put and key not in self._claims}
        if new:                                         # where nothing was claimed, what follows from it is not known yet
            self._claims.update(new)
            return True
        corrected = False
        for key in self._asked:
            if key in self._put:
                corrected |= self._weaken(key, self._put[key])
        for op, claimed in self._entered.items():
            for t in op.inputs:
                if _comes_later(t, self.step) and common(claimed, t.static_dims) != claimed:
                    corrected |= self._weaken(op, t.static_dims)
        return corrected

    def _weaken(self, key: Any, dims: Dims) -> bool:
        weaker = common(self._claims[key], dims) if key in self._claims else dims
        if key in self._claims and weaker == self._claims[key]:
            return False
        self._claims[key] = weaker
        return True


def _either(known: list, other: list) -> list:
    """The facts that hold for both."""
    return [a.or_other(b) if isinstance(a, Elements) and isinstance(b, Elements) else
            None if isinstance(a, Elements) or isinstance(b, Elements) else a if a == b else common(_dims(a), _dims(b))
            for a, b in zip(known, other, strict=True)]


def _dims(known: Any) -> Dims:
    return known.dims if isinstance(known, Fixed) else known


def _outputs(op: Node) -> list:
    out = ruled_shapes(op)
    return out if isinstance(out, list) else [out]


def _goes_round(op: Node) -> bool:
    """Whether an op has values from a later iteration, whose shapes are not known yet."""
    return any(t.op.opdef.back_edge for t in op.inputs)


def _comes_later(t: Value, step: StepGraph) -> bool:
    return t.op.opdef.back_edge and id(t) not in step.fed
