"""Integer and boolean scalars of loops as Python numbers.

A loop counts, compares and tests scalars, and a kernel call takes much longer than this arithmetic. So scalars of type int32,
int64 and bool that a loop computes by ops with a rule for numbers (`rules.numbers`) are Python numbers inside the loop. An op
that needs one of them as a tensor gets one made on the spot.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.ops import rules
from penstock._src.step.ir import Node, Value

_LIMITS = {dtypes.int32: 1 << 31, dtypes.int64: 1 << 63}
_TYPES = (*_LIMITS, dtypes.bool)


def may_be_number(t: Value) -> bool:
    """Whether a tensor is a scalar of a type that Python computes with exactly."""
    return t.static_dims == () and t.dtype in _TYPES


def sources_of(op: Node) -> Sequence[Value] | None:
    """The operands of an op that computes a number from numbers; None for other ops."""
    if op.opdef in rules.numbers.text and all(may_be_number(t) for t in (*op.inputs, *op.outputs)):
        return op.inputs
    return [] if op.opdef.constant and not op.inputs and may_be_number(op.outputs[0]) else None


def find_numbers(sources: Iterable[tuple[Value, Sequence[Value]]], from_outside: Callable[[Value], bool]) -> set[int]:
    """The ids of the tensors that are numbers in a loop, from pairs of a tensor and its operands or alternatives.

    Numbers are computed from numbers, from constants, and from values that enter the loop.
    """
    given = {id(t): made_of for t, made_of in sources if may_be_number(t)}
    found = set(given)
    while True:
        lost = {t for t in found if not all(id(s) in found or may_be_number(s) and from_outside(s) for s in given[t])}
        if not lost:
            return found
        found -= lost


def expression(op: Node, names: list[str]) -> str:
    """Python source that computes the result of an op from numbers."""
    text = rules.numbers.text[op.opdef].format(*names)
    limit = _LIMITS.get(op.outputs[0].dtype)
    if limit is None or not any(c in "+-*/" for c in rules.numbers.text[op.opdef]):
        return text
    return f"r if -{limit} <= (r := {text}) < {limit} else wrap(r, {limit})"


def wrap(value: int, limit: int) -> int:
    """A number wrapped around as the integer type overflows."""
    return (value + limit) % (2 * limit) - limit


def nonzero(value: int) -> int:
    """A divisor."""
    if not value:
        raise errors.invalid("Integer division by zero")
    return value


def literal(op: Node) -> str:
    """The number of a constant, as source."""
    return repr(op.attrs["value"].item())


def tensor_maker(dtype: Any) -> Callable[[Any], torch.Tensor]:
    """A function that makes tensors of numbers."""
    kind = dtype.torch
    scalar = torch.scalar_tensor
    return lambda value: scalar(value, dtype=kind)


def number(value: Any) -> Any:
    """The number in a scalar tensor."""
    return value.item()
