"""TensorArrays as elements of datasets."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf


def filled(i):
    """A TensorArray of i squares."""
    size = tf.cast(i, tf.int32)
    return tf.TensorArray(tf.int32, size=size, element_shape=()).unstack(tf.range(size) ** 2)


@pytest.mark.parametrize("change", [lambda d: d.map(filled), lambda d: d.map(filled).map(lambda a: a),
                                    lambda d: d.flat_map(lambda i: tf2.data.Dataset.from_tensors(i).map(filled))],
                         ids=["map", "chain", "flat_map"])
def test_transformations(change):
    found = [element.stack().numpy().tolist() for element in change(tf2.data.Dataset.range(4))]
    assert found == [[j * j for j in range(i)] for i in range(4)]


def test_specs_agree():
    with tf.Graph().as_default():
        spec = tf.TensorArraySpec.from_value(filled(np.int64(3)))
        assert spec.is_compatible_with(filled(np.int64(2))) and not spec.is_compatible_with(tf.TensorArraySpec((), tf.float32))
