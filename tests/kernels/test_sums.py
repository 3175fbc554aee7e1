"""Sums over axes with few numbers behind them."""
import itertools

import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.kernels import sums
from penstock._src.kernels.host_threads import compiled

DIMS = [(97, 24, 3), (700, 3), (31, 5, 7, 2), (2, 500, 4), (40, 11, 6), (9, 8, 5, 7), (1, 512, 5), (3000, 1), (60, 40, 1)]
AXES = [(dims, axes) for dims in DIMS for n in range(1, len(dims) + 1) for axes in itertools.combinations(range(len(dims)), n)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_and_means_are_those_of_numpy(dtype):
    for (dims, axes), keep in itertools.product(AXES, (False, True)):
        x = np.random.RandomState(len(dims)).randn(*dims).astype(dtype)
        for mean in (False, True):
            found = sums.over(torch.from_numpy(x), list(axes)[::-1], keep, mean)
            wanted = (np.mean if mean else np.sum)(x.astype("float64"), axes, keepdims=keep)
            assert found.shape == wanted.shape and found.dtype is torch.from_numpy(x).dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=f"{dims} {axes} {mean}")


@pytest.mark.skipif(compiled("_sums") is None, reason="penstock was installed without a compiler")
def test_which_sums_are_compiled(monkeypatch):
    calls = []
    kernels = type("Kernels", (), {"middle": lambda *args: calls.append(args[3:6])})
    monkeypatch.setattr(sums, "_kernels", lambda: kernels)
    for dims, axes in (((100, 24, 3), [1]), ((100, 4, 6, 3), [1, 2]), ((1000, 8), [1])):
        sums.over(torch.ones(dims), axes, False)
    assert calls == [(100, 24, 3), (100, 24, 3), (1000, 8, 1)]
    for x, axes in ((torch.ones(100, 24, 8), [1]), (torch.ones(100, 24, 3).mT, [1]), (torch.ones(5, 600, 3), [1]),
                    (torch.ones(100, 24, 3, 2), [0, 2]), (torch.ones(10, 3, 2), [1]), (torch.ones(1000, 9), [1]),
                    (torch.ones(100, 24, 3, dtype=torch.int32), [1])):
        np.testing.assert_array_equal(sums.over(x, axes, False), x.numpy().sum(tuple(axes)))
    assert len(calls) == 3


def test_infinite_and_missing_numbers():
    x = np.ones((900, 4, 3), "f")
    x[0, 1, 0], x[1, 2, 1], x[2, 0, 2], x[2, 1, 2] = np.inf, np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(tf.reduce_sum(x, 1), np.sum(x, 1))
