"""Writing a result over a donated operand.

A program that uses a large temporary for the last time donates it to the kernel made here. If there is no other reference to
the tensor or its memory, and the memory belongs to torch, the result is written there: no allocation, no new pages.
Every other reference to a value (another name, a view, a fed array, a variable, a queue) is visible in the two counts.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

_use_count = torch._C._storage_Use_Count
LEAST = 1 << 16                                 # bytes from which the check is cheaper than an allocation


def _probe(x: Any, *rest: Any) -> int:
    return sys.getrefcount(x)


def _calibrated() -> int:
    """What `run` below counts when only the program's name holds a tensor."""
    scope: dict[str, Any] = {"probe": _probe, "empty": torch.empty}
    exec("def step(ctx):\n    t = empty(1)\n    out = probe(t, 1)\n    del t\n    return out", scope)
    return scope["step"](None)


_ALONE = _calibrated()


def owned(count: int, x: torch.Tensor) -> bool:
    """Whether a tensor with `count` references and its memory may be overwritten: no other reference observes it."""
    if count > _ALONE or not x.is_contiguous():
        return False
    storage = x.untyped_storage()
    return _use_count(storage._cdata) <= 2 and storage.resizable()


def reusing(fresh: Callable, over: Callable, at: int = 0) -> Callable:
    """A kernel that is `over` (which writes into operand number `at`) where that is safe, and `fresh` elsewhere."""
    def run(x: Any, *rest: Any) -> Any:
        return over(x, *rest) if owned(sys.getrefcount(x), x) else fresh(x, *rest)

    def run_second(w: Any, x: Any, *rest: Any) -> Any:
        return over(w, x, *rest) if owned(sys.getrefcount(x), x) else fresh(w, x, *rest)
    made: Any = run if at == 0 else run_second
    made.fresh = fresh
    return made
