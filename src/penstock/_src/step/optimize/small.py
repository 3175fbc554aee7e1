"""Small arrays: chains of arithmetic on a few numbers become one op, which computes with numpy.

Calling a kernel for an addition of sixteen numbers takes many times longer than adding them, and numpy is called several times
faster than ATen. So ops that say how numpy does the same to the bit (`rules.small`) are joined where shapes are known
and small: a region is written as one function over arrays, and stands where its last op stood. Additions (and the like) of many
constants to one array are done at once.

A region ends where something else wants one of its values, and before every op with an effect, so that it reads what is there
when its ops would have run.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, switches
from penstock._src.graph.node import Operation, Tensor
from penstock._src.ops import rules
from penstock._src.step.ir import StepGraph, is_const

_LARGEST = 1024              # elements of a result
_LEAST = 4                   # ops of a region, more than values that go in and out
_GROUP = 8                   # ops with constants that are done at once
_TYPES = (dtypes.float32, dtypes.float64)
_EVERY_OP = switches.CHECK_NUMERICS.value()       # results of single ops are inspected


def join_small(step: StepGraph) -> None:
    """Puts regions of small ops into their own functions."""
    if step.placed is not None or step.has_control_flow or _EVERY_OP or \
            sum(1 for op in step.ops if op.opdef in rules.small.text) < _LEAST:
        return
    users = step.users()
    waited = {c for op in step.ops for c in op._control_inputs} | set(step.targets)
    region: list[Operation] = []
    inside: set[Operation] = set()
    out: list[Operation] = []
    by: dict[int, Tensor] = {}

    def close() -> None:
        if region:
            made = _joined(region, inside, users, step, by)
            out.extend(region if made is None else [made])
            region.clear()
            inside.clear()
    for op in step.ops:
        if op not in waited and _is_small(op, step):
            if region and op.outputs[0]._dtype != region[0].outputs[0]._dtype:
                close()
            region.append(op)
            inside.add(op)
            continue
        if not op.opdef.foldable or op._control_inputs or any(t._op in inside for t in op._inputs):
            close()
        out.append(op)
    close()
    if by:
        step.ops = out
        step.substitute(by)
        step.prune()


def _is_small(op: Operation, step: StepGraph) -> bool:
    if op.opdef not in rules.small.text or op._control_inputs or len(op._inputs) < rules.small.text[op.opdef].count("{}"):
        return False
    result = op.outputs[0]
    kind = result._dtype
    return kind in _TYPES and _few(result._dims) and id(result) not in step.fed and \
        all(t._dtype == kind and _few(t._dims) for t in op._inputs)


def _few(dims: tuple | None) -> bool:
    return dims is not None and None not in dims and math.prod(dims) <= _LARGEST


def _joined(region: list[Operation], inside: set[Operation], users: dict[int, list[Operation]], step: StepGraph,
            by: dict[int, Tensor]) -> Operation | None:
    """One op for those of a region, if that is less work."""
    fetched = {id(t) for t in step.fetches}
    given = list({id(t): t for op in region for t in op._inputs if t._op not in inside and not _constant(t, step)}.values())
    wanted = [t for op in region for t in op.outputs
              if id(t) in fetched or any(u not in inside for u in users.get(id(t), ()))]
    if len(region) < _LEAST + len(given) + len(wanted) or not given:
        return None
    writer = _Function(region, given, wanted, users, step)
    last = region[-1]
    made = step.make("_Small", given, {"N": len(given), "M": len(wanted), "T": last.outputs[0]._dtype,
                                       "run": writer.function()}, last, [t._dims for t in wanted],
                     [t._dtype for t in wanted], [])
    made._counts = (len(given),)
    for t, other in zip(wanted, made.outputs, strict=True):
        by[id(t)] = other
    return made


def _constant(t: Tensor, step: StepGraph) -> bool:
    return is_const(t) and id(t) not in step.fed


class _Function:
    """Writes the function of a region."""

    def __init__(self, region: list[Operation], given: list[Tensor], wanted: list[Tensor],
                 users: dict[int, list[Operation]], step: StepGraph):
        self.region, self.given, self.wanted, self.step = region, given, wanted, step
        self.kept = {id(t) for t in wanted}
        self.uses = {id(t): len(users.get(id(t), ())) for op in region for t in op.outputs}
        self.scope: dict[str, Any] = {"array": _array, "tensor": _tensor, "quietly": np.errstate, "add_rows": np.add.reduce}
        self.names: dict[int, str] = {}
        self.own: set[str] = set()                  # arrays without other references, which may be overwritten
        self.lines: list[str] = []
        self.groups = self._find_groups()

    def function(self) -> Callable[[list], list]:
        """The function: tensors in, tensors out."""
        for i, t in enumerate(self.given):
            self.names[id(t)] = f"a{i}"
            self.lines.append(f"a{i} = array(values[{i}])")
        self.lines.append("with quietly(all='ignore'):")
        for i, op in enumerate(self.region):
            group = self.groups.get(op)
            if group is not None:
                self._write_group(group)
            elif id(op.outputs[0]) not in self.names:
                self._write(op, f"t{i}")
        results = ", ".join(f"tensor({self.names[id(t)]})" for t in self.wanted)
        source = "\n".join(["def run(values):", *("    " + line for line in self.lines), f"    return [{results}]", ""])
        exec(compile(source, "<penstock small>", "exec"), self.scope)       # our own generated source
        return self.scope["run"]

    def _write(self, op: Operation, name: str) -> None:
        out = op.outputs[0]
        self.names[id(out)] = name
        if self._write_sum_of_rows(op, name):
            return
        text = rules.small.text[op.opdef]
        names = [self._name(t) for t in op._inputs]
        if len(names) == 1:
            self.lines.append(f"    {name} = {text.format(names[0])}")
        else:
            self._write_over(op, text, names, name)
        self.own.add(name)

    def _write_over(self, op: Operation, text: str, names: list[str], name: str) -> None:
        """The result, written over a dead operand."""
        dims = op.outputs[0]._dims
        for at in (0, 1) if op.opdef.commutative else (0,):
            t = op._inputs[at]
            if dims and t._dims == dims and self.uses.get(id(t)) == 1 and id(t) not in self.kept and names[at] in self.own:
                first, rest = names[at], [n for i, n in enumerate(names) if i != at]
                self.names[id(op.outputs[0])] = first
                name = first
                break
        else:
            self.lines.append(f"    {name} = {text.format(*names[:2])}")
            rest = names[2:]
        sign = text.replace("{}", "").strip()
        self.lines.extend(f"    {name} {sign}= {n}" for n in rest)

    def _name(self, t: Tensor) -> str:
        if id(t) not in self.names:
            self.names[id(t)] = self._keep(t._op.attrs["value"])
        return self.names[id(t)]

    def _keep(self, value: np.ndarray) -> str:
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    # -- many constants and one array -----------------------------------------------------------------------------------
    def _find_groups(self) -> dict[Operation, list[Operation]]:
        """By their first ops: ops of one kind on the same array and different numbers."""
        found: dict[tuple, list[Operation]] = {}
        for op in self.region:
            if len(op._inputs) == 2 and op.outputs[0]._dims:
                for at in (0, 1):
                    t, number = op._inputs[at], op._inputs[1 - at]
                    if _constant(number, self.step) and number._dims == () and t._dims == op.outputs[0]._dims and \
                            not _constant(t, self.step):
                        found.setdefault((op.opdef, id(t), at), []).append(op)
        return {ops[0]: ops for ops in found.values() if len(ops) >= _GROUP}

    def _write_group(self, ops: list[Operation]) -> None:
        first = ops[0]
        at = 0 if not _constant(first._inputs[0], self.step) else 1
        dims = first.outputs[0]._dims
        numbers = np.array([op._inputs[1 - at]._op.attrs["value"] for op in ops]).reshape(-1, *[1] * len(dims))
        pair = [self._name(first._inputs[at]), self._keep(numbers)]
        name = f"g{len(self.lines)}"
        self.lines.append(f"    {name} = {rules.small.text[first.opdef].format(*(pair if at == 0 else pair[::-1]))}")
        for i, op in enumerate(ops):
            self.names[id(op.outputs[0])] = f"{name}[{i}]"

    def _write_sum_of_rows(self, op: Operation, name: str) -> bool:
        """A sum of all that a group returns, in its order: numpy adds rows one after the other."""
        if op.opdef not in rules.algebra.sums or len(op._inputs) < _GROUP or math.prod(op.outputs[0]._dims) < 2:
            return False
        names = [self.names.get(id(t), "") for t in op._inputs]
        group, _, start = names[0].partition("[")
        if start != "0]" or names != [f"{group}[{i}]" for i in range(len(names))]:
            return False
        self.lines.append(f"    {name} = add_rows({group}[:{len(names)}], 0)")
        self.own.add(name)
        return True


def _array(value: torch.Tensor) -> np.ndarray:
    try:
        return value.numpy()
    except RuntimeError:                             # a view that stands for its negative
        return value.resolve_neg().numpy()


def _tensor(value: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(value))
