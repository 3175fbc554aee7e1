"""Values of eight bits and fewer: as arrays, through ops that move them, and in checkpoints."""
import numpy as np
import pytest

import penstock as tf

R = tf.raw_ops


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz", "int4", "uint4", "int2"])
def test_round_trip(name, tmp_path):
    dtype = getattr(tf.experimental, name)
    x = np.array([[0, 1], [1, 0]]).astype(dtype.as_numpy_dtype)
    value = tf.constant(x)
    assert value.numpy().dtype == x.dtype and value.numpy().tolist() == x.tolist()
    prefix = str(tmp_path / "saved")
    R.SaveV2(prefix=prefix, tensor_names=["x", "y"], shape_and_slices=["", "2 2 0,1:0,2"], tensors=[value, value[:1]])
    whole, part = R.RestoreV2(prefix=prefix, tensor_names=["x", "y"], shape_and_slices=["", "2 2 0,1:0,2"], dtypes=[dtype] * 2)
    assert whole.dtype == dtype and whole.numpy().tolist() == x.tolist() and part.numpy().tolist() == x[:1].tolist()


def test_moving_bytes():
    x = tf.constant(np.array([[1, 2], [3, -4]]).astype(tf.experimental.float8_e5m2.as_numpy_dtype))
    assert tf.concat([x, x], 0).numpy().tolist() == [[1, 2], [3, -4]] * 2
    assert tf.gather_nd(x, [[1, 1]]).numpy().tolist() == [-4]
    assert [row.numpy().tolist() for row in tf.unstack(x)] == [[1, 2], [3, -4]]
