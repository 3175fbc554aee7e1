"""TensorArrays of versions 1 and 2: values and gradients, as of version 3."""
import numpy as np
import pytest

import penstock as tf

v1, R = tf.compat.v1, tf.raw_ops
VERSIONS = pytest.mark.parametrize("version", ["", "V2"])


def array(version, size):
    return (R.TensorArray if version == "" else R.TensorArrayV2)(size=size, dtype=tf.float32)


def call(name, version, **arguments):
    return getattr(R, f"TensorArray{name}{version}")(**arguments)


@VERSIONS
def test_rows(version):
    with tf.Graph().as_default(), v1.Session() as sess:
        x = v1.placeholder(tf.float32, [3, 2])
        handle = array(version, 3)
        flow = call("Scatter", version, handle=handle, indices=[2, 1, 0], value=x, flow_in=0.0)
        some = call("Gather", version, handle=handle, indices=[0, 2], flow_in=flow, dtype=tf.float32)
        of_x = v1.gradients(some * some, x)[0]
        size = call("Size", version, handle=handle, flow_in=flow)
        found = sess.run([some, of_x, size], {x: np.arange(6.0).reshape(3, 2)})
    np.testing.assert_array_equal(found[0], [[4, 5], [0, 1]])
    np.testing.assert_array_equal(found[1], [[0, 2], [0, 0], [8, 10]])
    assert found[2] == 3


@VERSIONS
def test_single_elements(version):
    with tf.Graph().as_default(), v1.Session() as sess:
        x, handle = v1.placeholder(tf.float32, []), array(version, 2)
        flow = call("Write", version, handle=handle, index=1, value=x, flow_in=0.0)
        read = call("Read", version, handle=handle, index=1, flow_in=flow, dtype=tf.float32)
        assert sess.run([read, v1.gradients(read * read, x)[0]], {x: 3.0}) == [3.0, 6.0]


@VERSIONS
def test_parts(version):
    with tf.Graph().as_default(), v1.Session() as sess:
        x, handle = v1.placeholder(tf.float32, [4]), array(version, 2)
        flow = call("Split", version, handle=handle, value=x, lengths=np.array([1, 3]), flow_in=0.0)
        joined, lengths = call("Concat", version, handle=handle, flow_in=flow, dtype=tf.float32)
        found = sess.run([joined, lengths, v1.gradients(joined * joined, x)[0]], {x: [1, 2, 3, 4]})
    assert [f.tolist() for f in found] == [[1, 2, 3, 4], [1, 3], [2, 4, 6, 8]]


def test_packs():
    with tf.Graph().as_default(), v1.Session() as sess:
        x, handle = v1.placeholder(tf.float32, [4]), array("", 4)
        packed = R.TensorArrayPack(handle=handle, flow_in=R.TensorArrayUnpack(handle=handle, value=x, flow_in=0.0),
                                   dtype=tf.float32)
        found = sess.run([packed, v1.gradients(packed * packed, x)[0]], {x: [1, 2, 3, 4]})
    assert [f.tolist() for f in found] == [[1, 2, 3, 4], [2, 4, 6, 8]]


def test_a_closed_array_is_refused():
    with tf.Graph().as_default(), v1.Session() as sess:
        handle = array("V2", 1)
        with tf.control_dependencies([R.TensorArrayCloseV2(handle=handle)]):
            size = R.TensorArraySizeV2(handle=handle, flow_in=0.0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="already been closed"):
            sess.run(size)
