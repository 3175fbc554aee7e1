"""Elements on a GPU ahead of their use."""
import numpy as np
import pytest

import penstock as tf

pytestmark = pytest.mark.gpu


def test_prefetch_to_device_copies_every_element():
    x = np.arange(4 * 1000, dtype=np.float32).reshape(4, 1000)
    ds = tf.data.Dataset.from_tensor_slices({"x": x, "name": ["a", "b", "c", "d"]}).repeat(5).batch(2)
    got = list(ds.apply(tf.data.experimental.prefetch_to_device("/gpu:0", 3)))
    assert all(e["x"]._value.is_cuda and "GPU:0" in e["x"].device for e in got)
    np.testing.assert_array_equal(np.concatenate([e["x"].numpy() for e in got]), np.tile(x, (5, 1)))
    assert [e["name"].numpy().tolist() for e in got[:2]] == [[b"a", b"b"], [b"c", b"d"]]
