"""Distinct integers of a vector and their positions.

numpy sorts integers several times faster than it sorts places by them, so a number and its place are sorted as one.
"""
from __future__ import annotations

import numpy as np


def _sorted_pairs(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Numbers in order, their places, and where a number is not the one before it; None if they are too large for it."""
    n = len(x)
    bits = n.bit_length()
    if n and max(int(x.max()), -int(x.min())) >= 1 << 62 - bits:
        return None
    pairs = x << bits
    pairs |= np.arange(n)
    pairs.sort()
    number = pairs >> bits
    begins = np.ones(n, bool)
    np.not_equal(number[1:], number[:-1], out=begins[1:])
    pairs &= (1 << bits) - 1
    return number, pairs, begins


def distinct_numbers(x: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """For int64 numbers: where each distinct one is first, in the order of appearance, and which of them each number is. None
    for numbers that are too large."""
    found = _sorted_pairs(x)
    if found is None:
        return None
    _, place, begins = found
    n, firsts = len(x), place[begins]                     # in the order of the numbers
    if len(firsts) == n:
        return np.arange(n), np.arange(n)
    is_first = np.zeros(n, bool)
    is_first[firsts] = True
    rank = is_first.cumsum()
    rank -= 1
    index = np.empty(n, np.int64)
    index[place] = np.repeat(rank[firsts], np.diff(np.flatnonzero(begins), append=n))
    return np.flatnonzero(is_first), index


def first_places(x: np.ndarray) -> np.ndarray:
    """Where each distinct number is first, in the order of appearance."""
    found = _sorted_pairs(x)
    if found is None:
        return np.sort(np.unique(x, return_index=True)[1])
    _, place, begins = found
    return np.sort(place[begins])
