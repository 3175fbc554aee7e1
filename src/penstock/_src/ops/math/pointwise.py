"""Several ops on each element of arrays of one shape as one (step/optimize/pointwise.py)."""
from __future__ import annotations

from penstock._src.ops import rules
from penstock._src.ops.registry import internal

pointwise = internal("_Pointwise", "values: N * T -> results: M * T", "N: int, M: int, T: type")
pointwise.kernel(lambda values, *, plan: plan.run(values))
rules.program.prepare[pointwise] = lambda known: known.attrs["plan"].run
