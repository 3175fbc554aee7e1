"""The shipped digits are complete, and split the same way every time."""

import numpy as np
import pytest

from penstock import digits


def test_all_images_and_labels_are_there():
    (x, y), (x_none, y_none) = digits.load(test_fraction=0.0)
    assert x.shape == (1797, 8, 8, 1) and x.dtype == np.float32
    assert y.shape == (1797,) and y.dtype == np.int64
    assert len(x_none) == len(y_none) == 0
    assert x.min() == 0.0 and x.max() == 1.0
    assert np.bincount(y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert int((x * 16).sum()) == 561718


def test_split_is_a_partition_and_keeps_labels_with_images():
    (x, y), _ = digits.load(test_fraction=0.0, seed=3)
    (x_train, y_train), (x_test, y_test) = digits.load(test_fraction=0.2, seed=3)
    assert len(x_test) == 359 and len(x_train) == 1438
    np.testing.assert_array_equal(np.concatenate([x_test, x_train]), x)
    np.testing.assert_array_equal(np.concatenate([y_test, y_train]), y)


def test_labels_belong_to_their_images():
    (x, y), _ = digits.load(test_fraction=0.0)
    means = np.stack([x[y == k].mean(axis=0).ravel() for k in range(10)])
    nearest = ((x.reshape(-1, 1, 64) - means) ** 2).sum(-1).argmin(-1)
    assert (nearest == y).mean() > 0.88


def test_seed_decides_the_order():
    (a, _), _ = digits.load(seed=1)
    (b, _), _ = digits.load(seed=1)
    (c, _), _ = digits.load(seed=2)
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


@pytest.mark.parametrize("fraction", [-0.1, 1.5])
def test_bad_fraction(fraction):
    with pytest.raises(ValueError, match="test_fraction"):
        digits.load(test_fraction=fraction)
