"""ScatterNdMax and ScatterNdMin on variables."""
import pytest

import penstock as tf


@pytest.mark.parametrize("kind, result", [("Max", [5, 7, 3]), ("Min", [1, 2, 0])])
def test_scatter_nd_of_extremes(kind, result):
    v = tf.Variable([1, 2, 3])
    getattr(tf.raw_ops, f"ResourceScatterNd{kind}")(ref=v.handle, indices=[[0], [2], [1], [0]], updates=[5, 0, 7, 4])
    assert v.numpy().tolist() == result
