"""Which whole numbers of a vector are distinct, and where.

numpy sorts whole numbers several times faster than it sorts places by them, so a number and its place are sorted as one.
"""
from __future__ import annotations

import numpy as np


def _sorted_pairs(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Numbers in order, their places, and where a number is not the one before it; None if they are too large for it."""
    n = len(x)
    bits = n.bit_length()
    if n and max(int(x.max()), -int(x.min())) >= 1 << 62 - bits:
        return None
    pairs = np.sort(x << bits | np.arange(n))
    number = pairs >> bits
    begins = np.ones(n, bool)
    np.not_equal(number[1:], number[:-1], out=begins[1:])
    return number, pairs & (1 << bits) - 1, begins


def distinct_numbers(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """For int64 numbers: where each distinct one is first, in the order of appearance; which of them each number is; how often
    they occur. None for numbers that are too large."""
    found = _sorted_pairs(x)
    if found is None:
        return None
    _, place, begins = found
    firsts = place[begins]                                # in the order of the numbers
    is_first = np.zeros(len(x), bool)
    is_first[firsts] = True
    rank = np.cumsum(is_first) - 1
    index = np.empty(len(x), np.int64)
    index[place] = rank[firsts][np.cumsum(begins) - 1]
    first = np.flatnonzero(is_first)
    return first, index, np.bincount(index, minlength=len(first))


def first_places(x: np.ndarray) -> np.ndarray:
    """Where each distinct number is first, in the order of appearance."""
    found = _sorted_pairs(x)
    if found is None:
        return np.sort(np.unique(x, return_index=True)[1])
    _, place, begins = found
    return np.sort(place[begins])
