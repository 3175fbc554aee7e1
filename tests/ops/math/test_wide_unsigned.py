"""Ops that ATen lacks for uint16, uint32 and uint64: as for int32, beyond the largest signed number, too."""
import numpy as np
import pytest

import penstock as tf

raw = tf.raw_ops
WIDE = ["uint16", "uint32", "uint64"]
RNG = np.random.RandomState(3)
X, IMAGE = RNG.randint(0, 100, (3, 4)), RNG.randint(0, 100, (1, 4, 4, 2))
POOL = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}


def calls(kind):
    x, image = tf.constant(X, kind), tf.constant(IMAGE, kind)
    yield raw.BiasAdd, {"value": x, "bias": x[0]}
    yield raw.BiasAddGrad, {"out_backprop": x}
    yield raw.ReverseV2, {"tensor": x, "axis": [1]}
    yield raw.MirrorPadGrad, {"input": x, "paddings": [[1, 0], [1, 1]], "mode": "SYMMETRIC"}
    yield raw.TensorScatterMin, {"tensor": x, "indices": [[0, 1]], "updates": x[0, :1]}
    yield raw.TensorScatterMax, {"tensor": x, "indices": [[0, 1]], "updates": x[0, :1]}
    yield raw.MaxPoolWithArgmax, {"input": image, **POOL}
    argmax = np.arange(8).reshape(1, 2, 2, 2)
    yield raw.MaxPoolGradWithArgmax, {"input": image, "grad": image[:, :2, :2], "argmax": argmax, **POOL}
    yield raw.MaxPoolGradGrad, {"orig_input": image, "orig_output": image[:, :2, :2], "grad": image, **POOL}
    yield raw.SparseFillEmptyRowsGrad, {"reverse_index_map": np.array([0, 2]), "grad_values": x[0]}


@pytest.mark.parametrize("number", range(len(list(calls("int32")))))
@pytest.mark.parametrize("kind", WIDE)
def test_as_for_int32(kind, number):
    op, arguments = list(calls(kind))[number]
    _, same = list(calls("int32"))[number]
    found, expected = (tf.nest.flatten(op(**a)) for a in (arguments, same))
    assert found[0].dtype == kind
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    traced = tf.nest.flatten(tf.function(lambda: op(**arguments))())
    for a, b in zip(found, traced, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", WIDE)
def test_large_numbers_keep_their_order(kind):
    largest = np.iinfo(kind).max
    x = tf.constant(np.array([1, largest, 2, largest - 1], kind))
    assert raw.TensorScatterMax(tensor=x, indices=[[0]], updates=x[1:2]).numpy().tolist() == [largest, largest, 2, largest - 1]
    assert raw.TensorScatterMin(tensor=x, indices=[[1]], updates=x[0:1]).numpy().tolist() == [1, 1, 2, largest - 1]
    pooled = raw.MaxPoolWithArgmax(input=tf.reshape(x, [1, 2, 2, 1]), **POOL).output
    assert pooled.numpy().ravel().tolist() == [largest]


def test_values_of_uint16_are_clipped_and_pooled():
    x = tf.constant([1, 40000, 60000], tf.uint16)
    assert tf.clip_by_value(x, tf.constant(2, tf.uint16), tf.constant(50000, tf.uint16)).numpy().tolist() == [2, 40000, 50000]
    image = tf.reshape(tf.constant([1, 40000, 60000, 5], tf.uint16), [1, 2, 2, 1])
    assert tf.nn.max_pool2d(image, 2, 2, "SAME").numpy().ravel().tolist() == [60000]


def test_uint16_images_are_mirrored():
    image = tf.constant(np.arange(12).reshape(1, 2, 2, 3) + 65000, tf.uint16)
    np.testing.assert_array_equal(tf.image.flip_left_right(image), image.numpy()[:, :, ::-1])
    np.testing.assert_array_equal(tf.image.rot90(image), np.rot90(image.numpy(), axes=(1, 2)))
