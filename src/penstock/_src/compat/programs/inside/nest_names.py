"""Of `util.nest`: how libraries take branches apart and build them."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock._src.base import nest
from penstock._src.base.nest import sequence_like as _sequence_like  # noqa: F401


def _is_namedtuple(instance: Any, strict: bool = False) -> bool:
    """Whether a value is a named tuple."""
    return isinstance(instance, tuple) and nest._is_named(type(instance))


def _yield_sorted_items(iterable: Any) -> Iterator[tuple[Any, Any]]:
    """The keys and children of a branch, in the order of `flatten`."""
    kind = nest._kind(type(iterable), True)
    yield from () if kind is None else kind.items(iterable)


def _yield_value(iterable: Any) -> Iterator[Any]:
    """The children of a branch."""
    for _, child in _yield_sorted_items(iterable):
        yield child
