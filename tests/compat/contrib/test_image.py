"""tf.contrib.image against numpy: turns by right angles, whole and half moves, composed maps."""
import numpy as np

import penstock.compat.v1 as tf

IMAGE = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_moves(run):
    image = tf.contrib.image
    right, half, pair = run(image.translate(IMAGE, [1.0, 0.0]), image.translate(IMAGE, [0.5, 0.0], "BILINEAR"),
                            image.translate(np.stack([IMAGE, IMAGE])[..., None], [[0.0, 1.0], [0.0, -1.0]]))[1:]
    np.testing.assert_array_equal(right, np.pad(IMAGE, ((0, 0), (1, 0)))[:, :4])
    np.testing.assert_allclose(half, (IMAGE + right) / 2, rtol=1e-6)
    np.testing.assert_array_equal(pair[0, ..., 0], np.pad(IMAGE, ((1, 0), (0, 0)))[:3])
    np.testing.assert_array_equal(pair[1, ..., 0], np.pad(IMAGE, ((0, 1), (0, 0)))[1:])


def test_turns(run):
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    quarter, back = run(tf.contrib.image.rotate(square, np.pi / 2), tf.contrib.image.rotate(
        tf.contrib.image.rotate(square, 1.0, "BILINEAR"), -np.pi, "BILINEAR"))[1:]
    np.testing.assert_array_equal(quarter, np.rot90(square))
    assert back.shape == (3, 3)


def test_composed_maps(run):
    image = tf.contrib.image
    one, two = image.translations_to_projective_transforms([1.0, 0.0]), image.translations_to_projective_transforms([0.0, 1.0])
    both = run(image.transform(IMAGE, image.compose_transforms(one, two)))[1]
    np.testing.assert_array_equal(both, np.pad(IMAGE, ((1, 0), (1, 0)))[:3, :4])
