"""Pointwise fusion on GPUs: elementwise ops, casts, and reductions over the last axis, or over all others, become one kernel.

Inductor fuses more, but takes tens of seconds; until then, and where it is not used, a step would read and write each value of
an elementwise op in memory. NVRTC compiles the kernels of this pass in less time than the first step takes.

Groups are found as on the host (`pointwise.py`), from the same table of instructions. `kernels/device_plan.py` writes the
kernels. Ops keep their types: casts are steps of a kernel, and each step rounds as its op does. Values that other ops need are
results of the kernel.

Sums over all axes but the last (the gradients of biases, the statistics of batch norm) become separate ops first
(`rules.pointwise.columns`). A kernel goes either along rows or down columns, so no group has sums of both; those of columns are
at its end, since their results have another shape. Sums of columns of one array share a kernel, which reads it once.

The pass is the last one. What the backward pass computes again to save memory becomes part of the kernels that need it, and
ops on both sides of the peak of memory are not joined, since their values would be kept over it.
"""
from __future__ import annotations

import functools
import logging
import math
from typing import Any

from penstock._src.base import dtypes
from penstock._src.kernels import device_plan
from penstock._src.kernels.device_plan import Given, Plan, Step, Term
from penstock._src.ops import rules
from penstock._src.step.ir import Cycle, Node, StepGraph, Value, is_free_constant
from penstock._src.step.optimize.device_groups import Found
from penstock._src.step.optimize.memory import at_peak
from penstock._src.step.optimize.pointwise import (
    groups,
    number_of,
    reduces_rows,
    shape_of,
    values_of,
)

_LEAST = 2                   # the fewest ops of a group
_LARGE = 1 << 18             # elements whose columns are summed faster here than by ATen
_FLOATS = (dtypes.float32, dtypes.bfloat16, dtypes.float16)
_COMPUTED = (*_FLOATS, dtypes.bool)
_GIVEN = (*_COMPUTED, dtypes.int32, dtypes.int64)


def join_on_device(step: StepGraph) -> None:
    """Joins pointwise ops of a step on a GPU that has no v1 control flow."""
    if step.has_control_flow or not any(map(_is_on_gpu, step.ops)):
        return
    _name_column_sums(step)
    waited = {c for op in step.ops for c in op.control_inputs} | set(step.targets)
    able = {op for op in step.ops if op not in waited and _is_able(op, step)}
    if len(able) < _LEAST:
        return
    users = step.users()
    late = set(step.ops[at_peak(step):])
    by: dict[int, Value] = {}
    instead: dict[Node, Node] = {}
    found = Found(step, groups(step, able, users, late), users, late)
    found.join_readers()
    found.compute_again()
    order = {op: i for i, op in enumerate(step.ops)}
    for parts in found.with_makers():
        whole = sorted((op for part in parts for op in part), key=order.__getitem__)
        if not _join(step, whole, users, by, instead):
            for part in parts if len(parts) > 1 else ():
                _join(step, part, users, by, instead)
    if by:
        _replaced(step, instead, by)


def _replaced(step: StepGraph, instead: dict[Node, Node], by: dict[int, Value]) -> None:
    """Puts kernels in the place of their ops. Kernels that need each other are a mistake of this package: then the ops stay."""
    ops, fetches, inputs = step.ops, step.fetches, {op: op.inputs for op in step.ops}
    try:
        step.replace_groups(instead, by)
    except Cycle as e:
        logging.getLogger("penstock").warning("The kernels of a step are not joined: %s", e)
        for op, given in inputs.items():
            op.set_inputs(given)
        step.ops, step.fetches = ops, fetches


def _join(step: StepGraph, group: list[Node], users: dict[int, list[Node]], by: dict[int, Value],
          instead: dict[Node, Node]) -> bool:
    """Makes one op of a group; False if it does not fit into a kernel."""
    if len(group) < _LEAST and not any(map(_is_large_sum, group)) or len({op.place for op in group}) > 1:
        return False
    made = _Group(step, group, users).make(by)
    if made is not None:
        instead.update(dict.fromkeys(group, made))
    return made is not None


def _is_large_sum(op: Node) -> bool:
    return op.opdef in rules.pointwise.columns and math.prod(op.inputs[0].static_dims or ()) >= _LARGE


def _name_column_sums(step: StepGraph) -> None:
    """Replaces sums and means over all axes but the last by the ops that do only this."""
    by: dict[int, Value] = {}
    instead: dict[Node, Node] = {}
    for op in step.ops:
        if op.opdef in rules.pointwise.of_columns and _is_on_gpu(op) and _sums_columns(op, step):
            made = step.make(rules.pointwise.of_columns[op.opdef], [op.inputs[0]],
                             {"T": op.attrs["T"], "keep_dims": op.attrs.get("keep_dims", False)}, op,
                             [op.outputs[0].static_dims])
            instead[op] = made
            by[id(op.outputs[0])] = made.outputs[0]
    if by:
        step.ops = [instead.get(op, op) for op in step.ops]
        step.targets = [instead.get(op, op) for op in step.targets]
        for op in step.ops:
            op.control_inputs = [instead.get(c, c) for c in op.control_inputs]
        step.substitute(by)


def _sums_columns(op: Node, step: StepGraph) -> bool:
    """Whether a reduction leaves the last axis, and no other."""
    x = op.inputs[0]
    if x.dtype not in _FLOATS or not x.static_dims or len(x.static_dims) < 2 or x.static_dims[-1] in (None, 1):
        return False
    if len(op.inputs) == 1:
        return rules.pointwise.along_last[op.opdef](op)
    axes, rank = op.inputs[1], len(x.static_dims)
    return is_free_constant(axes, step) and \
        sorted(a % rank for a in axes.op.attrs["value"].reshape(-1).tolist()) == list(range(rank - 1))


def _is_able(op: Node, step: StepGraph) -> bool:
    """Whether an op may be one of several: on arrays of its shape, what is repeated over them, and numbers."""
    if not _is_on_gpu(op) or op.control_inputs or len(op.outputs) != 1 or id(op.outputs[0]) in step.fed or \
            not _is_pointwise(op):
        return False
    out, reduces = op.outputs[0], op.opdef in rules.pointwise.reduces
    if reduces and (not reduces_rows(op, step) or out.dtype not in _FLOATS):
        return False
    dims = (op.inputs[0] if reduces or op.opdef in rules.pointwise.columns else out).static_dims
    if out.dtype not in _COMPUTED or not dims or None in dims or not 0 < math.prod(dims) <= device_plan.LARGEST:
        return False
    return all(_fits(t, dims, op, step) for t in values_of(op))


def _is_on_gpu(op: Node) -> bool:
    return op.place is not None and op.place.kernel_type == "gpu"


def _is_pointwise(op: Node) -> bool:
    axis = rules.pointwise.along_last.get(op.opdef)
    if axis is not None:
        return axis(op)
    return op.opdef in rules.pointwise.on_device or rules.is_pointwise(op)


def _fits(t: Value, dims: tuple, op: Node, step: StepGraph) -> bool:
    """Whether a kernel over arrays of a shape can read a tensor."""
    if number_of(t, step) is not None:
        return t.dtype in _COMPUTED
    allowed = _GIVEN if rules.pointwise.instruction.get(op.opdef) == "COPY" else _COMPUTED
    own = t.static_dims
    if t.dtype not in allowed or own is None or None in own or len(own) > len(dims):
        return False
    if math.prod(own) == 1 and (id(t) in step.fed or not _is_on_gpu(t.op)):       # a number that may be on the host
        return False
    return all(a in (1, b) for a, b in zip(reversed(own), reversed(dims), strict=False))


def _sizes(t: Value) -> tuple:
    """The shape of a tensor of which all sizes are known."""
    return tuple(t.static_dims or ())


class _Group:
    """Writes the plan of ops that become one."""

    def __init__(self, step: StepGraph, ops: list[Node], users: dict[int, list[Node]]):
        self.step, self.ops, self.users, self.inside = step, ops, users, set(ops)
        self.columns = max(shape_of(op)[1] for op in ops)
        self.dims = (*shape_of(ops[0])[0], self.columns)
        self.given: dict[int, Value] = {}
        self.terms: list[Term] = []
        self.known: dict[int, int] = {}                     # tensor id -> term
        self.numbers: dict[str, int] = {}
        self._type = dtypes.float32                         # of the steps that are written

    def make(self, by: dict[int, Value]) -> Node | None:
        """One op for several; `by`: which of its results represent which tensors. None if they do not fit."""
        for op in self.ops:
            self._write(op)
        fetched = {id(t) for t in self.step.fetches}
        wanted = [op.outputs[0] for op in self.ops if id(op.outputs[0]) in fetched or
                  any(u not in self.inside for u in self.users.get(id(op.outputs[0]), ()))]
        if not wanted or len(self.given) > device_plan.MOST_GIVEN or not self._agree():
            return None
        given = list(self.given.values())
        about: list[Any] = [(t.dtype.torch, _sizes(t)) for t in given]
        plan = Plan(self.dims, about, self.terms, [self.known[id(t)] for t in wanted], [_sizes(t) for t in wanted])
        attrs = {"Tin": [t.dtype for t in given], "Tout": [t.dtype for t in wanted], "plan": plan}
        made = self.step.make("_DevicePlan", given, attrs, self.ops[-1], [t.static_dims for t in wanted],
                              [t.dtype for t in wanted], [])
        made.counts = (len(given),)
        by.update({id(t): other for t, other in zip(wanted, made.outputs, strict=True)})
        return made

    def _agree(self) -> bool:
        """Whether all arrays fit the shape of the group, not only that of an op of one column."""
        return all(len(_sizes(t)) <= len(self.dims) and
                   all(a in (1, b) for a, b in zip(reversed(_sizes(t)), reversed(self.dims), strict=False))
                   for t in self.given.values())

    def _write(self, op: Node) -> None:
        sources = [self._source(t) for t in values_of(op)]
        out = op.outputs[0].dtype
        if op.opdef in rules.pointwise.formula:
            self._type = dtypes.float32                     # a formula is rounded once, at its end
            found = rules.pointwise.formula[op.opdef](self, op, *sources)
        else:
            self._type = out
            kind = rules.pointwise.on_device.get(op.opdef) or rules.pointwise.instruction[op.opdef]
            if op.opdef in rules.algebra.sums:                                        # of any number of arrays
                found = functools.reduce(functools.partial(self.step_of, kind), sources)
            elif kind == "COPY" and out == dtypes.bool:
                found = self.step_of("NOT_EQUAL", sources[0], self.number(0.0))
            else:
                found = self.step_of(kind, *sources)
        self._type = out
        whole = self.terms[found]
        self.known[id(op.outputs[0])] = found if isinstance(whole, Step) and whole.dtype is out.torch \
            else self.step_of("COPY", found)

    def step_of(self, kind: str, *sources: int) -> int:
        """The term that is the result of an instruction."""
        dtype = self._type.torch
        assert dtype is not None
        self.terms.append(Step(kind, sources, dtype))
        return len(self.terms) - 1

    def number(self, value: float) -> int:
        """The term of a number."""
        if value.hex() not in self.numbers:
            self.numbers[value.hex()] = len(self.terms)
            self.terms.append(value)
        return self.numbers[value.hex()]

    def _source(self, t: Value) -> int:
        """The term that a tensor is."""
        if id(t) in self.known:
            return self.known[id(t)]
        number = number_of(t, self.step)
        if number is not None:
            return self.number(float(number))
        self.given[id(t)] = t
        self.terms.append(Given(len(self.given) - 1))
        self.known[id(t)] = len(self.terms) - 1
        return self.known[id(t)]
