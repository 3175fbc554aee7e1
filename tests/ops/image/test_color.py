"""Gradients of conversions between colours where channels are equal or zero: real TensorFlow's."""
import numpy as np
import pytest

import penstock as tf

SATURATION = {
    (0.0, 0.5, 1.0): [0.0, 0.0, 0.0], (1.0, 0.0, 0.0): [0.0, 0.0, 0.0], (0.5, 1.0, 0.0): [0.0, 0.0, 0.0],
    (0.5, 0.5, 1.0): [0.0, -1.0, 0.5], (1.0, 0.5, 0.5): [0.5, 0.0, -1.0], (0.5, 1.0, 1.0): [-1.0, 0.5, 0.0],
    (0.25, 0.5, 1.0): [-1.0, 0.0, 0.25],
}


@pytest.mark.parametrize("color", SATURATION)
def test_saturation(color):
    x = tf.constant([[color]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        s = tf.image.rgb_to_hsv(x)[..., 1]
    np.testing.assert_allclose(tape.gradient(s, x)[0, 0], SATURATION[color], atol=1e-6)
