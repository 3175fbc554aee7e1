"""Small arrays: chains of arithmetic on a few numbers become one op, which computes with numpy.

Calling a kernel for an addition of sixteen numbers takes many times longer than adding them, and numpy is called several times
faster than ATen. So ops with a numpy form that is equal bit for bit (`rules.small`) are joined where shapes are known and
small: a region becomes one function over arrays, in the place of its last op. Additions (and similar ops) of many constants to
one array are done at once.

A region ends where another op uses one of its values, and before every op with an effect, so that it reads the same state as
its ops would have read.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, switches
from penstock._src.ops import rules
from penstock._src.step.ir import Node, StepGraph, Value, is_free_constant

_LARGEST = 1024              # elements of a result
_LEAST = 4                   # ops of a region, more than values that go in and out
_GROUP = 8                   # ops with constants that are done at once
_TYPES = (dtypes.float32, dtypes.float64)
_EVERY_OP = switches.CHECK_NUMERICS.value()       # results of single ops are inspected


def join_small(step: StepGraph) -> None:
    """Replaces regions of small ops by functions."""
    if step.is_placed or step.has_control_flow or _EVERY_OP or \
            sum(1 for op in step.ops if op.opdef in rules.small.text) < _LEAST:
        return
    waited = {c for op in step.ops for c in op.control_inputs} | set(step.targets)
    region: list[Node] = []
    inside: set[Node] = set()
    out: list[Node] = []
    by: dict[int, Value] = {}

    def close() -> None:
        if region:
            made = _joined(region, inside, step, by)
            out.extend(region if made is None else [made])
            region.clear()
            inside.clear()
    for op in step.ops:
        if op not in waited and _is_small(op, step):
            if region and op.outputs[0].dtype != region[0].outputs[0].dtype:
                close()
            region.append(op)
            inside.add(op)
            continue
        if not op.opdef.foldable or op.control_inputs or any(t.op in inside for t in op.inputs):
            close()
        out.append(op)
    close()
    if by:
        step.ops = out
        step.substitute(by)
        step.prune()


def _is_small(op: Node, step: StepGraph) -> bool:
    if op.opdef not in rules.small.text or op.control_inputs or len(op.inputs) < rules.small.text[op.opdef].count("{}"):
        return False
    result = op.outputs[0]
    kind = result.dtype
    return kind in _TYPES and _few(result.static_dims) and id(result) not in step.fed and \
        all(t.dtype == kind and _few(t.static_dims) for t in op.inputs)


def _few(dims: tuple | None) -> bool:
    return dims is not None and None not in dims and math.prod(dims) <= _LARGEST


def _joined(region: list[Node], inside: set[Node], step: StepGraph,
            by: dict[int, Value]) -> Node | None:
    """One op for those of a region, if that is less work."""
    fetched = {id(t) for t in step.fetches}
    given = list({id(t): t for op in region for t in op.inputs if t.op not in inside and not _constant(t, step)}.values())
    wanted = [t for op in region for t in op.outputs
              if id(t) in fetched or any(u not in inside for u in t.users)]
    if len(region) < _LEAST + len(given) + len(wanted) or not given:
        return None
    writer = _Function(region, given, wanted, step)
    last = region[-1]
    made = step.make("_Small", given, {"N": len(given), "M": len(wanted), "T": last.outputs[0].dtype,
                                       "run": writer.function()}, last, [t.static_dims for t in wanted],
                     [t.dtype for t in wanted], [])
    made.counts = (len(given),)
    for t, other in zip(wanted, made.outputs, strict=True):
        by[id(t)] = other
    return made


def _constant(t: Value, step: StepGraph) -> bool:
    return is_free_constant(t, step)


class _Function:
    """Writes the function of a region."""

    def __init__(self, region: list[Node], given: list[Value], wanted: list[Value],
                 step: StepGraph):
        self.region, self.given, self.wanted, self.step = region, given, wanted, step
        self.kept = {id(t) for t in wanted}
        self.uses = {id(t): len(t.users) for op in region for t in op.outputs}
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

    def _write(self, op: Node, name: str) -> None:
        out = op.outputs[0]
        self.names[id(out)] = name
        if self._write_sum_of_rows(op, name):
            return
        text = rules.small.text[op.opdef]
        names = [self._name(t) for t in op.inputs]
        if len(names) == 1:
            self.lines.append(f"    {name} = {text.format(names[0])}")
        else:
            self._write_over(op, text, names, name)
        self.own.add(name)

    def _write_over(self, op: Node, text: str, names: list[str], name: str) -> None:
        """The result, written over a dead operand."""
        dims = op.outputs[0].static_dims
        for at in (0, 1) if op.opdef.commutative else (0,):
            t = op.inputs[at]
            if dims and t.static_dims == dims and self.uses.get(id(t)) == 1 and id(t) not in self.kept and \
                    names[at] in self.own:
                first, rest = names[at], [n for i, n in enumerate(names) if i != at]
                self.names[id(op.outputs[0])] = first
                name = first
                break
        else:
            self.lines.append(f"    {name} = {text.format(*names[:2])}")
            rest = names[2:]
        sign = text.replace("{}", "").strip()
        self.lines.extend(f"    {name} {sign}= {n}" for n in rest)

    def _name(self, t: Value) -> str:
        if id(t) not in self.names:
            self.names[id(t)] = self._keep(t.op.attrs["value"])
        return self.names[id(t)]

    def _keep(self, value: np.ndarray) -> str:
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    # -- many constants and one array -----------------------------------------------------------------------------------
    def _find_groups(self) -> dict[Node, list[Node]]:
        """By their first ops: ops of one kind on the same array and different numbers."""
        found: dict[tuple, list[Node]] = {}
        for op in self.region:
            if len(op.inputs) == 2 and op.outputs[0].static_dims:
                for at in (0, 1):
                    t, number = op.inputs[at], op.inputs[1 - at]
                    if _constant(number, self.step) and number.static_dims == () and not _constant(t, self.step) and \
                            t.static_dims == op.outputs[0].static_dims:
                        found.setdefault((op.opdef, id(t), at), []).append(op)
        return {ops[0]: ops for ops in found.values() if len(ops) >= _GROUP}

    def _write_group(self, ops: list[Node]) -> None:
        first = ops[0]
        at = 0 if not _constant(first.inputs[0], self.step) else 1
        dims = first.outputs[0].static_dims or ()
        numbers = np.array([op.inputs[1 - at].op.attrs["value"] for op in ops]).reshape(-1, *[1] * len(dims))
        pair = [self._name(first.inputs[at]), self._keep(numbers)]
        name = f"g{len(self.lines)}"
        self.lines.append(f"    {name} = {rules.small.text[first.opdef].format(*(pair if at == 0 else pair[::-1]))}")
        for i, op in enumerate(ops):
            self.names[id(op.outputs[0])] = f"{name}[{i}]"

    def _write_sum_of_rows(self, op: Node, name: str) -> bool:
        """A sum of all that a group returns, in its order: numpy adds rows in sequence."""
        if op.opdef not in rules.algebra.sums or len(op.inputs) < _GROUP or math.prod(op.outputs[0].static_dims or ()) < 2:
            return False
        names = [self.names.get(id(t), "") for t in op.inputs]
        group, _, start = names[0].partition("[")
        if start != "0]" or names != [f"{group}[{i}]" for i in range(len(names))]:
            return False
        self.lines.append(f"    {name} = add_rows({group}[:{len(names)}], 0)")
        self.own.add(name)
        return True


def _array(value: torch.Tensor) -> np.ndarray:
    try:
        return value.numpy()
    except RuntimeError:                             # a view that represents its negative
        return value.resolve_neg().numpy()


def _tensor(value: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(value))
