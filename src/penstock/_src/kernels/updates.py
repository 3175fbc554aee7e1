"""Updates of variables by optimizers, many at once, or rows of one: `_updates.c`, compiled when penstock is installed with a
compiler.

The rules of ops/nn/training.py are the definition. A function here returns False if the compiled kernels do not support the
tensors (other types than float32 and float64, other devices, memory with gaps) or do not exist; then the rule runs with torch.
"""
from __future__ import annotations

import functools

import torch

from penstock._src.base import tracing
from penstock._src.kernels.host_threads import compiled

Chosen = tuple[str, tuple[float, ...]]       # a rule of `_rules.h`, and its numbers
_kernels = functools.partial(compiled, "_updates")


def available() -> bool:
    """Whether there are such kernels."""
    return _kernels() is not None


def dense(chosen: Chosen, states: list[list[torch.Tensor]], grads: list[torch.Tensor]) -> bool:
    """Updates variables and their slots: `states` has a list of the variables, and one for each slot.

    A variable, its slots and its gradient may lie in any order of axes, if it is the same: filters are stored with their
    outputs first, and each element is updated alone."""
    kernels = _kernels()
    if kernels is None or type(grads[0]) is not torch.Tensor or tracing.lowering():
        return False
    return kernels.dense(getattr(kernels, chosen[0]), chosen[1], states, grads)


def rows(chosen: Chosen, states: list[torch.Tensor], grad: torch.Tensor, indices: torch.Tensor, how: str) -> bool:
    """Updates rows of a variable and of its slots by a gradient that has a row for each index.

    `how`: IN_TURN (repeated indices in sequence), SUMMED (gradients of repeated indices are added up first) or ALL (the
    same, and all other rows have a gradient of 0). An index that is not a row is an error of the caller: False, and nothing is
    changed.
    """
    kernels = _kernels()
    if kernels is None or type(grad) is not torch.Tensor or tracing.lowering():
        return False
    return kernels.rows(getattr(kernels, chosen[0]), chosen[1], states, grad.contiguous(), indices.contiguous(),
                        states[0].shape[0], getattr(kernels, how)) == -1
