"""Checks of ranks and shapes: decided at graph construction where the shapes are known, by Assert ops otherwise."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dims, as_dims
from penstock._src.graph import context
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import control_dependencies, name_scope
from penstock._src.ops.array.array import is_sparse
from penstock._src.ops.composite import dispatched
from penstock._src.ops.control.checks import assert_, assert_type, label
from penstock._src.ops.core import group, identity, no_op_def
from penstock._src.ops.registry import get


def _subject(x: Any) -> Any:
    """What is checked: a tensor, or a sparse tensor as it is."""
    return x if is_sparse(x) else convert(x, name="x")


def _dims(x: Any) -> Dims:
    return as_dims(x.shape) if is_sparse(x) else x.static_dims


def _shape(x: Any) -> Any:
    return get("Cast")(x.dense_shape, DstT=dtypes.int32) if is_sparse(x) else get("Shape")(x)


def _rank(x: Any) -> Any:
    return get("Size")(x.dense_shape) if is_sparse(x) else get("Rank")(x)


def _label(x: Any) -> str:
    return label(x.values if is_sparse(x) else x)


# -- ranks ------------------------------------------------------------------------------------------------------------
def _prefix(message: Any) -> str:
    """The user's message before ours."""
    return f"{message}.  " if message else ""


def _check_rank(opname: str, words: str, x: Any, ranks: Any, holds: Callable, symbolic: Callable, data: Any,
                summarize: int | None, message: Any, name: str | None, show: Callable) -> Any:
    """An assertion about the rank of `x`.

    `holds(rank, ranks)` decides on ints and `symbolic` on tensors; `words` and `show` describe the requirement in messages.
    """
    with name_scope(name, opname, [x, *ranks, *(data or ())]):
        x = _subject(x)
        ranks = [convert(r, name="rank") for r in ranks]
        what = "" if context.executing_eagerly() else _label(x)
        for r in ranks:
            assert_type(r, dtypes.int32)
        values = [constant_value(r) for r in ranks]
        known = [v for v in values if v is not None]
        if any(k.ndim != 0 for k in known):
            raise ValueError("Rank must be a scalar.")
        dims = _dims(x)
        actual = None if dims is None else len(dims)
        if actual is not None and len(known) == len(ranks):
            if not holds(actual, [int(k) for k in known]):
                raise ValueError(f"{_prefix(message)}Tensor {what} must have {words} {show(known)}.  Received rank "
                                 f"{actual}, shape {x.shape}")
            return no_op_def(name="static_checks_determined_all_ok")
        if data is None:
            data = [message or "", f"Tensor {what} must have {words}", *ranks, "Received shape: ", _shape(x)]
        condition = symbolic(_rank(x), ranks)
        unknown = [r for r, v in zip(ranks, values, strict=True) if v is None]
        checks = [assert_rank(r, 0, data=["Rank must be a scalar. Received rank: ", r]) for r in unknown]
        if checks:
            with control_dependencies(checks):
                condition = identity(condition)
        return assert_(condition, data, summarize=summarize)


@export(v1=["assert_rank", "debugging.assert_rank"])
@dispatched
def assert_rank(x: Any, rank: Any, data: Any = None, summarize: int | None = None, message: Any = None,
                name: str | None = None) -> Any:
    """Asserts that `x` has the given rank: ValueError at once if that is known to be wrong.

    >>> with tf.control_dependencies([tf.assert_rank(x, 2)]):
    ...     y = tf.identity(x)
    """
    return _check_rank("assert_rank", "rank", x, [rank], lambda a, r: a == r[0],
                       lambda a, r: get("Equal")(a, r[0]), data, summarize, message, name, lambda k: k[0])


@export(v2=["assert_rank", "debugging.assert_rank"])
@dispatched
def assert_rank_v2(x: Any, rank: Any, message: Any = None, name: str | None = None) -> Any:
    """Asserts that `x` has the given rank."""
    return assert_rank(x, rank, message=message, name=name)


@export(v1=["assert_rank_at_least", "debugging.assert_rank_at_least"])
@dispatched
def assert_rank_at_least(x: Any, rank: Any, data: Any = None, summarize: int | None = None, message: Any = None,
                         name: str | None = None) -> Any:
    """Asserts that `x` has the given rank or a higher one."""
    return _check_rank("assert_rank_at_least", "rank at least", x, [rank], lambda a, r: a >= r[0],
                       lambda a, r: get("GreaterEqual")(a, r[0]), data, summarize, message, name, lambda k: k[0])


@export(v2=["debugging.assert_rank_at_least"])
@dispatched
def assert_rank_at_least_v2(x: Any, rank: Any, message: Any = None, name: str | None = None) -> Any:
    """Asserts that `x` has the given rank or a higher one."""
    return assert_rank_at_least(x, rank, message=message, name=name)


@export(v1=["assert_rank_in", "debugging.assert_rank_in"])
@dispatched
def assert_rank_in(x: Any, ranks: Any, data: Any = None, summarize: int | None = None, message: Any = None,
                   name: str | None = None) -> Any:
    """Asserts that the rank of `x` is one of `ranks`."""
    return _check_rank("assert_rank_in", "rank in", x, list(ranks), lambda a, r: a in r, _is_one_of, data, summarize,
                       message, name, lambda k: tuple(int(r) for r in k))


@export(v2=["debugging.assert_rank_in"])
@dispatched
def assert_rank_in_v2(x: Any, ranks: Any, message: Any = None, name: str | None = None) -> Any:
    """Asserts that the rank of `x` is one of `ranks`."""
    return assert_rank_in(x, ranks, message=message, name=name)


def _is_one_of(actual: Tensor, ranks: list) -> Tensor:
    result = convert(False)
    for i, r in enumerate(ranks):
        equal = get("Equal")(r, actual)
        result = get("LogicalOr")(result, equal) if i else equal
    return result


@export(v1=["assert_scalar", "debugging.assert_scalar"])
@dispatched
def assert_scalar(tensor: Any, name: str | None = None, message: Any = None) -> Tensor:
    """`tensor`; ValueError unless its static shape is known to be that of a scalar."""
    with name_scope(name, "assert_scalar", [tensor]) as scope:
        tensor = convert(tensor, name=scope or None)
        if tensor._rank() != 0:
            what = "" if context.executing_eagerly() else f" for {tensor.name}"
            raise ValueError(f"{message or ''}Expected scalar shape{what}, saw shape: {tensor.shape}.")
        return tensor


@export(v2=["debugging.assert_scalar"])
@dispatched
def assert_scalar_v2(tensor: Any, message: Any = None, name: str | None = None) -> None:
    """Raises ValueError unless the static shape of `tensor` is known to be that of a scalar."""
    assert_scalar(tensor, name, message)


# -- shapes -----------------------------------------------------------------------------------------------------------
@dataclasses.dataclass
class _Constraint:
    """The required shape of a tensor in assert_shapes: a symbol per dimension, or only for the innermost ones."""
    x: Tensor
    open: bool                # whether further outer dimensions are allowed
    symbols: tuple
    sizes: Any = None         # of the tensor: ints and scalars, or a vector


@export(v1=["debugging.assert_shapes"])
@dispatched
def assert_shapes(shapes: Any, data: Any = None, summarize: int | None = None, message: Any = None,
                  name: str | None = None) -> Any:
    """Asserts shapes, and sizes that several tensors share, by symbols.

    >>> tf.debugging.assert_shapes([(x, ("N", "Q")), (y, ("N", "D")), (scale, ())])
    """
    if isinstance(shapes, dict):
        shapes = shapes.items()
    message = message or ""
    with name_scope(name, "assert_shapes", [data or ()]):
        constraints = [_constraint(_subject(x), s, message) for x, s in shapes if s is not None]
        ranks = [_rank_check(c, data, summarize, message) for c in constraints]
        for c in constraints:
            c.sizes = _sizes(c.x)
        checks = _size_checks(constraints, data, summarize, message)
        with control_dependencies([r for r in ranks if r is not None]):
            return group(*checks)


@export(v2=["debugging.assert_shapes"])
@dispatched
def assert_shapes_v2(shapes: Any, data: Any = None, summarize: int | None = None, message: Any = None,
                     name: str | None = None) -> None:
    """Asserts shapes, and sizes that several tensors share, by symbols."""
    assert_shapes(shapes, data, summarize, message, name)


def _constraint(x: Tensor, shape: Any, message: str) -> _Constraint:
    if not hasattr(shape, "__iter__") and not hasattr(shape, "__getitem__"):
        raise ValueError(f"{_prefix(message)}Tensor {_label(x)}.  Specified shape must be an iterable.  An iterable has the "
                         f"attribute `__iter__` or `__getitem__`.  Received specified shape: {shape}")
    symbols = tuple(shape)
    for i, s in enumerate(symbols):
        if i and (s is Ellipsis or isinstance(s, str) and s == "*"):
            raise ValueError(f"{_prefix(message)}Tensor {_label(x)} specified shape index {i}.  Symbol `...` or `*` for a "
                             "variable number of unspecified dimensions is only allowed as the first entry")
    is_open = bool(symbols) and (symbols[0] is Ellipsis or isinstance(symbols[0], str) and symbols[0] == "*")
    # A scalar represents a vector of one element.
    return _Constraint(x, is_open, (symbols[1:] if is_open else symbols) or (1,))


def _rank_check(c: _Constraint, data: Any, summarize: int | None, message: str) -> Any:
    rank = len(c.symbols)
    if c.open:
        return None if rank == 1 else assert_rank_at_least(c.x, rank, data, summarize, message)
    if rank == 1:
        return assert_rank_in(c.x, [0, 1], data, summarize, message)
    return assert_rank(c.x, rank, data, summarize, message)


def _sizes(x: Tensor) -> Any:
    """The sizes of `x`: ints where they are known, tensors where not; (1,) for a scalar."""
    dims = _dims(x)
    if dims == ():
        return (1,)
    if dims is not None and None not in dims:
        return list(dims)
    dynamic = _shape(x)
    if dims is not None:
        return [dynamic[i] if d is None else d for i, d in enumerate(dims)]
    missing = 1 - get("Minimum")(_rank(x), 1)
    return get("ConcatV2")([dynamic, get("Fill")(get("Reshape")(missing, [1]), 1)], 0)


def _number(symbol: Any) -> int | None:
    try:
        return None if symbol is None or isinstance(symbol, Tensor) and not hasattr(symbol, "_value") else int(symbol)
    except (TypeError, ValueError):
        return None


def _size_checks(constraints: list[_Constraint], data: Any, summarize: int | None, message: str) -> list:
    """Assert ops for sizes that are unknown statically; ValueError for those that are known to be wrong."""
    seen: dict = {}
    checks: list = []
    for c in constraints:
        for i, symbol in enumerate(c.symbols):
            if symbol is None or isinstance(symbol, str) and symbol == ".":
                continue
            dim = i - len(c.symbols) if c.open else i
            actual, wanted = c.sizes[dim], _number(symbol)
            if wanted is None and symbol not in seen:
                seen[symbol] = actual, c.x, dim
                continue
            source = "Specified explicitly"
            if wanted is None:
                wanted, by, at = seen[symbol]
                source = f"Specified by tensor {_label(by)} dimension {at}"
            check = _size_check(c.x, dim, actual, wanted, source, data, summarize, message)
            if check is not None:
                checks.append(check)
    return checks


def _size_check(x: Tensor, dim: int, actual: Any, wanted: Any, source: str, data: Any, summarize: int | None,
                message: str) -> Any:
    found, expected = _number(actual), _number(wanted)
    if found is not None and expected is not None:
        if found != expected:
            raise ValueError(f"{_prefix(message)}{source}.  Tensor {_label(x)} dimension {dim} must have size {expected}.  "
                             f"Received size {found}, shape {x.shape}")
        return None
    if data is None:
        data = [message, source, f"Tensor {_label(x)} dimension", dim, "must have size", wanted, "Received shape: ",
                _shape(x)]
    return assert_(get("Equal")(actual, wanted), data, summarize=summarize)
