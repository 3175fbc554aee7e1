"""Several ops on a few numbers as one (optimize/small.py)."""
from __future__ import annotations

from penstock.ops.registry import internal

small = internal("_Small", "values: N * T -> results: M * T", "N: int, M: int, T: type")
small.kernel(lambda values, *, run: run(values))
