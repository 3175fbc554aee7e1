"""Run-time values as rows and columns: a column holds one component of many elements, stacked on its first axis.

A value is a torch tensor, a numpy object array (strings, or several variants), or any other object (one variant).
"""
from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.static_shape import compatible, show


def shape_of(value: Any) -> tuple:
    """The shape of a value; () for a lone variant."""
    return tuple(value.shape) if isinstance(value, (torch.Tensor, np.ndarray)) else ()


def row(column: Any, i: int) -> Any:
    """One row of a column, as a view."""
    if isinstance(column, torch.Tensor):
        return column[i]
    return _plain(column[i, ...])


def _plain(value: np.ndarray) -> Any:
    """A lone variant represents itself; a lone string is an array without dimensions."""
    if value.ndim == 0 and not isinstance(value[()], bytes):
        return value[()]
    return value


def rows(column: Any) -> Any:
    """All rows of a column, as views."""
    if isinstance(column, torch.Tensor):
        return column.unbind(0)
    return [_plain(column[i, ...]) for i in range(len(column))]


def row_bytes(column: Any) -> int:
    """About how many bytes one row takes."""
    if isinstance(column, torch.Tensor):
        return column.element_size() * (column.numel() // max(1, column.shape[0]))
    if not column.size:
        return 0
    first = column.flat[0]
    return (column.size // len(column)) * (len(first) if isinstance(first, bytes) else 64)


def single(value: Any) -> Any:
    """A column of one row."""
    if isinstance(value, torch.Tensor):
        return value.unsqueeze(0)
    if isinstance(value, np.ndarray):
        return value[np.newaxis]
    return objects([value])


def objects(items: list) -> np.ndarray:
    """An object array with one dimension."""
    out = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        out[i] = item
    return out


def stack(items: list) -> Any:
    """Values of one shape as a column."""
    first = items[0]
    if isinstance(first, torch.Tensor):
        return torch.stack(items)
    if isinstance(first, np.ndarray) and first.ndim:
        return np.stack(items)
    return objects([x[()] if isinstance(x, np.ndarray) else x for x in items])


def concat(columns: list) -> Any:
    """Concatenates columns."""
    if len(columns) == 1:
        return columns[0]
    return torch.cat(columns) if isinstance(columns[0], torch.Tensor) else np.concatenate(columns)


def gather(column: Any, index: np.ndarray) -> Any:
    """Some rows of a column, copied."""
    if isinstance(column, torch.Tensor):
        return column.index_select(0, torch.from_numpy(index))
    return column[index]


def _unlike(component: int, first: tuple, number: int, other: tuple) -> errors.OpError:
    more = "" if math.prod(first) == math.prod(other) else " (The number of elements does not match.)"
    return errors.invalid(f"Cannot batch tensors with different shapes in component {component}. First element had shape "
                          f"{show_dims(first)} and element {number} had shape {show_dims(other)}.{more}")


def batch(elements: list[tuple]) -> tuple:
    """Stacks elements: every component must have the same shape in all of them."""
    out = []
    for c in range(len(elements[0])):
        items = [e[c] for e in elements]
        first = shape_of(items[0])
        for i, item in enumerate(items):
            if shape_of(item) != first:
                raise _unlike(c, first, i, shape_of(item))
        out.append(stack(items))
    return tuple(out)


def join(parts: list[tuple]) -> tuple:
    """Concatenates blocks, whose rows must have the same shapes."""
    if len(parts) == 1:
        return parts[0]
    out = []
    for c in range(len(parts[0])):
        columns = [p[c] for p in parts]
        first, count = shape_of(columns[0])[1:], 0
        for column in columns:
            if shape_of(column)[1:] != first:
                raise _unlike(c, first, count, shape_of(column)[1:])
            count += len(column)
        out.append(concat(columns))
    return tuple(out)


def elements(columns: tuple) -> list[tuple]:
    """The rows of a block."""
    return list(zip(*map(rows, columns), strict=True))


def show_dims(dims: Any) -> str:
    """A shape as TensorFlow's run-time errors print it."""
    return "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


def check_types(types: tuple, shapes: tuple, found_types: tuple, found_shapes: tuple) -> None:
    """Raises InvalidArgumentError unless the declared types and shapes cover the actual ones."""
    if len(types) != len(found_types):
        raise errors.invalid(f"Number of components does not match: expected {len(types)} types but got {len(found_types)}.")
    for i, (want, have) in enumerate(zip(types, found_types, strict=True)):
        if want != have:
            raise errors.invalid(f"Data type mismatch at component {i}: expected {want.name} but got {have.name}.")
    for i, (dims, have) in enumerate(itertools.zip_longest(shapes, found_shapes)):
        if not compatible(dims, have):
            raise errors.invalid(f"Incompatible shapes at component {i}: expected {show(dims)} but got {show(have)}.")
