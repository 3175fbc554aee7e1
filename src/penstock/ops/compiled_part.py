"""The op that stands for a part of a step that torch.compile has been given (optimize/parts.py, compile/part.py)."""
from __future__ import annotations

from penstock.ops.registry import internal

compiled_part = internal("_CompiledPart", "args: Targs -> results: Tresults", "Targs: list(type), Tresults: list(type)")


@compiled_part.kernel
def _(args, *, part, ctx):
    return part.run(args, ctx)
