"""A program as readable text: kernels by the names of their ops, constants by their values, with shapes and devices.

    def step(ctx, f0):                    # f0: x float32[?,784]
        t2 = MatMul(f0, t1)               # MatMul -> float32[100,10]
"""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from penstock._src.graph.node import Tensor
from penstock._src.step.ir import Node, Value

if TYPE_CHECKING:
    from penstock._src.step.compile.program import Program

_KERNEL, _CONSTANT = re.compile(r"\bk\d+\("), re.compile(r"\bc\d+\b")
_COLUMN = 56             # column of the remarks


def explained(program: Program, feeds: list[Tensor], device: Callable[[Node], str]) -> str:
    """The text of a program; `device(op)` names the device of an op, or is empty where there is only one."""
    lines = program.source.rstrip("\n").split("\n")
    out = [f"# {len(program.lines)} ops"]
    out += [f"# f{i}: {t.name} {_kind(t)}" for i, t in enumerate(feeds)]
    used = sorted({c for line in lines for c in _CONSTANT.findall(line.split("  # ")[0])}, key=lambda c: int(c[1:]))
    out += [f"# {c}: {_value(program.scope.get(c))}" for c in used]
    for number, line in enumerate(lines, 1):
        op = program.lines.get(number)
        if op is None:
            out.append(line)
            continue
        code = _KERNEL.sub(lambda m, op=op: f"{op.type.lstrip('_')}(", line.split("  # ")[0])   # type: ignore[misc]
        out.append(f"{code:<{_COLUMN}}  # {_remark(op, device)}")
    return "\n".join(out) + "\n"


def _remark(op: Node, device: Callable[[Node], str]) -> str:
    gives = ", ".join(_kind(t) for t in op.outputs)
    where = device(op)
    return f"{op.name}: {op.type}{f' -> {gives}' if gives else ''}{f' on {where}' if where else ''}"


def _kind(t: Tensor | Value) -> str:
    if t.shape.rank is None:
        return f"{t.dtype.base_dtype.name}[...]"
    return f"{t.dtype.base_dtype.name}[{','.join('?' if d is None else str(d) for d in t.shape.as_list())}]"


def _value(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        kind = f"{str(value.dtype).removeprefix('torch.')}[{','.join(map(str, value.shape))}]" if value.ndim else ""
        return f"{value.tolist()} {kind}".strip() if value.numel() <= 8 else f"constant {kind}"
    return repr(value) if len(repr(value)) <= 100 else repr(value)[:97] + "..."
