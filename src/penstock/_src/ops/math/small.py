"""Several ops on a few numbers as one (step/optimize/small.py)."""
from __future__ import annotations

from penstock._src.ops.registry import internal

small = internal("_Small", "values: N * T -> results: M * T", "N: int, M: int, T: type")
small.kernel(lambda values, *, run: run(values))
