"""Operators, methods and slices of tensors, variables and ragged tensors."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.calls.arguments import ragged_of
from tests.oracle.calls.values import Draw, encoded, tensor

BINARY = ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod", "pow",
          "rpow",
          "matmul", "rmatmul", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor")
UNARY = ("neg", "abs", "invert", "bool", "len", "hash", "iter", "float", "int", "index", "array", "repr")
ASSIGNMENTS = ("assign", "assign_add", "assign_sub", "scatter_nd_add", "scatter_nd_update", "value", "read_value")
OF_RAGGED = ("to_list", "to_tensor", "to_sparse", "row_lengths", "row_starts", "row_limits", "nrows", "value_rowids",
             "bounding_shape", "nested_row_lengths",
             "nested_value_rowids", "ragged_rank", "shape", "merge_dims", "with_values", "consumers", "numpy", "flat_values",
             "uniform_row_length", "__len__")


def subscript(d: Draw, rank: int, sizes: list[int]) -> Any:
    """An index, a slice, `...`, a new axis, or several of them; tensors among the numbers."""

    def number(low: int, high: int) -> Any:
        value = d.integer(low, high)
        return tensor(np.array(value, d.pick(("int32", "int64")))) if d.chance(0.15) else value

    def one(size: int) -> Any:
        how = d.rng.uniform()
        if how < 0.35:
            return number(-size, size - 1) if size and d.chance(0.95) else 0
        if how < 0.8:
            bounds = [None if d.chance(0.4) else number(-size - 1, size + 1) for _ in range(2)]
            return {"slice": [*bounds, None if d.chance(0.6) else d.pick((1, 2, -1, -2))]}
        return {"ellipsis": 0} if how < 0.88 else {"newaxis": 0}
    count = d.integer(0, rank)
    parts = [one(sizes[i]) for i in range(count)]
    return parts[0] if count == 1 and d.chance(0.8) else {"tuple": parts}


def calls(seed: int, each: int) -> Iterator[dict]:
    """Calls of all of them."""
    from tests.oracle.calls.sources import in_all_ways
    names = [*(f".__{n}__" for n in (*BINARY, *UNARY)), *(f".{n}" for n in (*ASSIGNMENTS, *OF_RAGGED)), *[".__getitem__"] * 8]
    for place, name in enumerate(names):
        for number in range(each):
            d = Draw((zlib.crc32(f"{name} {place} {number}".encode()) + seed) % 2**32)
            first = d.numbers(d.shape)
            target: Any = tensor(first)
            sizes = list(first.shape)
            if name[1:] in OF_RAGGED or name == ".__getitem__" and d.chance(0.35):
                target = ragged_of(d)
                sizes = [3] * 2
            elif name[1:] in ASSIGNMENTS or d.chance(0.15):
                target = {"variable": encoded(first)}
            args: list = []
            if name == ".__getitem__":
                args = [subscript(d, len(sizes), sizes)]
            elif name[3:-2] in BINARY or name.startswith(".assign"):
                args = [d.wrap(d.numbers(d.near_shape(first.shape), d.dtype if d.chance(0.9) else None))]
            elif name.startswith(".scatter"):
                args = [[[0]], tensor(d.numbers([1, *first.shape[1:]]))]
            elif name == ".merge_dims":
                args = [d.integer(0, 1), d.integer(1, 2)]
            if "variable" in target:
                yield {"kind": "eager", "name": name, "args": [target, *args], "kwargs": {}}
            else:
                yield from in_all_ways(d, name, [target, *args], {})
