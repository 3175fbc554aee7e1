"""The op that stands for a part of a step that torch.compile has been given (step/optimize/parts.py, step/compile/part.py)."""
from __future__ import annotations

from penstock._src.ops.registry import internal

compiled_part = internal("_CompiledPart", "args: Targs -> results: Tresults", "Targs: list(type), Tresults: list(type)")


@compiled_part.kernel
def _compiled_part_kernel(args, *, part, ctx):
    return part.run(args, ctx)
