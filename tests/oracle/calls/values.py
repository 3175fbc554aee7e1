"""Random arguments as the player reads them: numbers of odd shapes and values, in every dtype, and wrappers of them."""

from __future__ import annotations

import base64
from typing import Any

import ml_dtypes
import numpy as np

FLOATS = ("float32", "float32", "float32", "float64", "float16", "bfloat16")
INTEGERS = ("int32", "int32", "int64", "uint8", "int8", "int16", "uint16", "uint32", "uint64")
COMPLEX = ("complex64", "complex128")
STRINGS = (
    "",
    "a",
    "b",
    "hello world",
    " x  y ",
    "1,2,,3",
    "12",
    "-3.5",
    "1e3",
    "nan",
    "äöü€",
    "日本語",
    "\U0001f600!",
    "a,b;c",
    "AbC",
    "0x10",
    "true",
    "x" * 40,
)
SPECIAL = (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-30, 1e30, 0.5)


def as_numpy(dtype: str) -> np.dtype:
    """The numpy dtype of a name."""
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


def encoded(value: Any) -> list:
    """An array in the player's notation."""
    value = np.asarray(value)
    if value.dtype.kind in "OSU":
        flat = [v if isinstance(v, bytes) else str(v).encode() for v in value.ravel().tolist()]
        return ["string", list(value.shape), [base64.b64encode(v).decode() for v in flat]]
    return [value.dtype.name, list(value.shape), base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()]


def tensor(value: Any) -> dict:
    """An argument that is a tensor."""
    return {"tensor": encoded(value)}


class Draw:
    """One call's random choices. `dtype` and `shape` are what its tensors have in common, unless a draw departs from them."""

    def __init__(self, seed: int):
        self.rng = np.random.RandomState(seed)
        self.made: dict[str, Any] = {}  # arrays made for earlier parameters of the call
        self.dtype = self.pick(FLOATS) if self.chance(0.72) else self.pick((*INTEGERS, *COMPLEX, "bool"))
        self.shape = self.some_shape()

    def chance(self, p: float) -> bool:
        """True with probability p."""
        return bool(self.rng.uniform() < p)

    def pick(self, options: Any) -> Any:
        """One of the options."""
        return options[self.rng.randint(len(options))]

    def integer(self, low: int, high: int) -> int:
        """low <= n <= high."""
        return int(self.rng.randint(low, high + 1))

    def some_shape(self, rank: int | None = None) -> list[int]:
        """Small sizes, sometimes 0 or 1."""
        rank = self.pick((0, 1, 1, 2, 2, 2, 3, 3, 4) * 4 + (5, 6, 7)) if rank is None else rank
        return [0 if self.chance(0.04) else self.pick((1, 2, 2, 3, 3, 4, 5)) for _ in range(rank)]

    def numbers(self, shape: Any, dtype: str | None = None, low: float = -3, high: float = 3) -> np.ndarray:
        """An array; now and then with special values."""
        dtype = dtype or self.dtype
        shape = tuple(int(n) for n in shape)
        if dtype == "string":
            out = np.empty(int(np.prod(shape)), object)
            out[:] = [self.pick(STRINGS).encode() for _ in range(out.size)]
            return out.reshape(shape)
        if dtype == "bool":
            return self.rng.randint(0, 2, shape).astype(bool)
        if dtype in COMPLEX:
            return (self.rng.uniform(low, high, shape) + 1j * self.rng.uniform(low, high, shape)).astype(dtype)
        if dtype in INTEGERS:
            info = np.iinfo(dtype)
            bounds = (info.min, info.max) if self.chance(0.03) else (max(int(low * 2), info.min), int(high * 2))
            return self.rng.randint(
                bounds[0], max(bounds[1], bounds[0] + 1), shape, np.int64 if dtype != "uint64" else np.uint64
            ).astype(dtype)
        out = self.rng.uniform(low, high, shape)
        if self.chance(0.08):
            out = np.where(
                self.rng.uniform(size=shape) < 0.3, np.array(SPECIAL)[self.rng.randint(len(SPECIAL), size=shape)], out
            )
        elif self.chance(0.15):
            out = np.round(out)
        with np.errstate(over="ignore"):
            return out.astype(as_numpy(dtype))

    def near_shape(self, shape: Any) -> list[int]:
        """The shape, or one that broadcasts with it, or another."""
        shape = list(shape)
        how = self.rng.uniform()
        if how < 0.62:
            return shape
        if how < 0.78:
            return [1 if self.chance(0.4) else n for n in shape]
        if how < 0.9:
            return shape[self.integer(0, len(shape)) :]
        return self.some_shape()

    def wrap(self, value: np.ndarray) -> Any:
        """The array as a tensor; now and then as numpy, lists, or a Python number."""
        how = self.rng.uniform()
        if how < 0.86 or value.dtype.kind in "OV":
            return tensor(value)
        if how < 0.93:
            return {"numpy": encoded(value)}
        return plain(value)


def plain(value: np.ndarray) -> Any:
    """Nested lists of Python's numbers."""
    if value.dtype.kind == "c":
        return tensor(value)
    return value.astype(np.float64).tolist() if value.dtype.kind == "V" or value.dtype.name == "bfloat16" else value.tolist()
