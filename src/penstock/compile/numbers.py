"""Whole numbers and truth values of loops as Python numbers.

A loop counts, compares and tests scalars, and a kernel call for each of these takes longer than the arithmetic by far. So
scalars of type int32, int64 and bool that a loop computes by ops which say how they act on numbers (`OpDef.number`) are
Python numbers inside of it; what else wants one of them gets a tensor made of it, at that place.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from penstock import dtypes
from penstock.graph.node import Operation, Tensor

_LIMITS = {dtypes.int32: 1 << 31, dtypes.int64: 1 << 63}
_TYPES = (*_LIMITS, dtypes.bool)


def may_be_number(t: Tensor) -> bool:
    """Whether a tensor is a scalar of a type that Python computes with exactly."""
    return t._dims == () and t._dtype in _TYPES


def find_numbers(ops: Iterable[Operation], passes_on: Callable[[Operation], list[Tensor] | None],
                 from_outside: Callable[[Tensor], bool]) -> set[int]:
    """The ids of the tensors that are numbers in a loop with these ops.

    `passes_on(op)` are the values of which an op (an identity, a part of control flow) gives one on, None for others. Numbers
    are made from numbers, from constants, and from what comes into the loop.
    """
    sources: dict[Operation, list[Tensor]] = {}
    for op in ops:
        given = passes_on(op)
        if given is not None:
            sources[op] = given
        elif op.opdef.number and all(may_be_number(t) for t in (*op._inputs, *op.outputs)):
            sources[op] = op._inputs
        elif op.opdef.constant and not op._inputs and may_be_number(op.outputs[0]):
            sources[op] = []
    found = {id(op.outputs[0]) for op in sources if may_be_number(op.outputs[0])}
    found |= {id(t) for op in sources for t in op.outputs[1:] if id(op.outputs[0]) in found and may_be_number(t)}
    while True:
        lost = {id(t) for op, given in sources.items() for t in op.outputs if id(t) in found and not all(
            id(s) in found or may_be_number(s) and from_outside(s) for s in given)}
        if not lost:
            return found
        found -= lost


def expression(op: Operation, names: list[str]) -> str:
    """What computes the number that an op gives from those that it takes."""
    text = op.opdef.number.format(*names)
    limit = _LIMITS.get(op.outputs[0]._dtype)
    if limit is None or not any(c in "+-*" for c in op.opdef.number):
        return text
    return f"r if -{limit} <= (r := {text}) < {limit} else wrap(r, {limit})"


def wrap(value: int, limit: int) -> int:
    """A number as the integer type overflows to it."""
    return (value + limit) % (2 * limit) - limit


def literal(op: Operation) -> str:
    """The number of a constant, as source."""
    return repr(op.attrs["value"].item())


def tensor_maker(dtype: Any) -> Callable[[Any], torch.Tensor]:
    """Makes tensors of numbers."""
    kind = dtype.torch
    scalar = torch.scalar_tensor
    return lambda value: scalar(value, dtype=kind)


def number(value: Any) -> Any:
    """The number in a scalar tensor."""
    return value.item()
