"""Distinct integers."""
import numpy as np
import pytest

from penstock._src.kernels.distinct import distinct_numbers, first_places


def by_hand(x):
    seen = {}
    index = [seen.setdefault(v, len(seen)) for v in x.tolist()]
    return [x.tolist().index(v) for v in seen], index


@pytest.mark.parametrize("low, high, n", [(0, 5, 20), (-3, 3, 50), (0, 10**6, 300), (-2**40, 2**40, 64), (0, 1, 7), (0, 9, 1)])
def test_places_and_indices(low, high, n):
    x = np.random.RandomState(n).randint(low, high, n)
    first, index = distinct_numbers(x)
    assert (first.tolist(), index.tolist()) == by_hand(x)
    assert first_places(x).tolist() == by_hand(x)[0]


def test_numbers_that_leave_no_room_for_a_place():
    x = np.array([2**62, -2**63, 2**62, 2**63 - 1])
    assert distinct_numbers(x) is None
    assert first_places(x).tolist() == [0, 1, 3]


def test_nothing():
    assert [v.tolist() for v in distinct_numbers(np.empty(0, np.int64))] == [[], []]
