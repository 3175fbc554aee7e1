"""Images under projective maps, against values of TensorFlow 2.21."""
import numpy as np
import pytest

import penstock as tf

RECORDED = {
    ("NEAREST", "CONSTANT"): [-1, 8, 9, -1, -1, -1],
    ("NEAREST", "NEAREST"): [8, 8, 9, 8, 8, 9],
    ("NEAREST", "REFLECT"): [8, 8, 9, 8, 8, 9],
    ("NEAREST", "WRAP"): [11, 11, 9, 3, 3, 1],
    ("BILINEAR", "CONSTANT"): [-1, 5, 8.75, -1, 2.4773, 1.6405],
    ("BILINEAR", "NEAREST"): [6, 7, 8.75, 8, 8, 8.6818],
    ("BILINEAR", "REFLECT"): [6.25, 7, 8.75, 8.1364, 8, 8.6818],
    ("BILINEAR", "WRAP"): [8.75, 10, 8.75, 2.8636, 3, 0.68182],
}


@pytest.mark.parametrize("how, mode", RECORDED)
def test_values(how, mode):
    image = np.arange(12, dtype=np.float32).reshape(1, 3, 4, 1)
    found = tf.raw_ops.ImageProjectiveTransformV3(
        images=image, transforms=[[1.0, 0, -1.25, 0.25, 1, 1.5, 0, 0.1]], output_shape=[2, 3], fill_value=-1.0,
        interpolation=how, fill_mode=mode)
    np.testing.assert_allclose(np.ravel(found), RECORDED[how, mode], rtol=1e-4)


def test_bad_arguments():
    image, same = np.zeros((1, 2, 2, 1), np.float32), [[1.0, 0, 0, 0, 1, 0, 0, 0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be positive"):
        tf.raw_ops.ImageProjectiveTransformV2(images=image, transforms=same, output_shape=[0, 2], interpolation="NEAREST")
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid mode"):
        tf.raw_ops.ImageProjectiveTransformV2(images=image, transforms=same, output_shape=[2, 2], interpolation="CUBIC")
    with pytest.raises(tf.errors.InvalidArgumentError, match="num_images x 8"):
        tf.raw_ops.ImageProjectiveTransformV2(images=image, transforms=[[1.0] * 8] * 3, output_shape=[2, 2],
                                              interpolation="NEAREST")
