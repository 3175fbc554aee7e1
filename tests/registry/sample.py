"""Samples: concrete inputs for ops, from which the registry tests and the oracle make all their checks.

    sample("MatMul", f(2, 3), f(3, 4), expect=np.matmul)
    sample("ConcatV2", [f(2, 3), f(1, 3)], np.int32(0), expect=lambda values, axis: np.concatenate(values, axis))

Inputs are numpy arrays (lists of them for list inputs; object arrays of bytes for strings). `expect` is a numpy
reference taking the same inputs; without one, the oracle (real TensorFlow) is the only judge of the value. `grad` says
whether the numeric gradient check applies (False: not differentiable or not smooth here; a list: only these inputs).
`through` lists the outputs that the gradient goes through, where not all of them have one. `random` marks ops whose values
cannot be compared.
"""
from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

SAMPLES: dict[str, list[Sample]] = {}
_rng = np.random.RandomState(7)


def restart(name: str) -> None:
    """Starts the random numbers of a family, so that a new sample in one changes no values in another."""
    _rng.seed(zlib.crc32(name.encode()))


@dataclasses.dataclass
class Sample:
    """One call of one op."""
    op: str
    inputs: tuple
    attrs: dict[str, Any]
    expect: Callable | None
    grad: Any
    rtol: float
    atol: float
    random: bool
    through: Any = None


def sample(op: str, *inputs: Any, expect: Callable | None = None, grad: Any = True, rtol: float = 1e-5,
           atol: float = 1e-5, random: bool = False, through: Any = None, **attrs: Any) -> None:
    """Adds a sample of `op`."""
    SAMPLES.setdefault(op, []).append(Sample(op, inputs, attrs, expect, grad, rtol, atol, random, through))


def f(*shape: int, low: float = -2.0, high: float = 2.0, dtype: Any = np.float32) -> np.ndarray:
    """Random floats of a shape."""
    return _rng.uniform(low, high, shape).astype(dtype)


def i(*shape: int, low: int = -5, high: int = 6, dtype: Any = np.int32) -> np.ndarray:
    """Random integers of a shape, low <= x < high."""
    return _rng.randint(low, high, shape).astype(dtype)


def b(*shape: int) -> np.ndarray:
    """Random booleans of a shape."""
    return _rng.randint(0, 2, shape).astype(bool)


def s(*values: Any) -> np.ndarray:
    """A vector of byte strings."""
    out = np.empty(len(values), dtype=object)
    out[:] = [v.encode() if isinstance(v, str) else v for v in values]
    return out


def scalar_string(value: bytes) -> np.ndarray:
    """One byte string."""
    out = np.empty((), dtype=object)
    out[()] = value
    return out
