"""keras.utils.set_random_seed determines the first values of weights; values recorded from tf_keras."""
import numpy as np
import pytest

import penstock as tf

RECORDED = [
    ("glorot_uniform", [0.7847531, 0.3563013, -0.3095492, 0.98587775, -0.92442185, 0.33374333]),
    ("he_normal", [0.02148042, -0.18930766, -0.67692405, -0.03033439, -1.0698365, -1.012828]),
    ("orthogonal", [0.05099273, -0.49075234, 0.7703807, 0.57356787, -0.63554186, 0.6558826]),
    ("random_normal", [-0.02411124, -0.02087279, -0.05367579, -0.02393714, -0.02558691, -0.01012702]),
    ("random_uniform", [0.04956419, -0.03067314, 0.03253037, -0.0452156, 0.01916926, -0.04307963]),
    ("lecun_uniform", [0.6952033, -0.48392367, -0.14856958, 0.20223904, 0.92826605, -0.31324744]),
    ("truncated_normal", [0.01411401, -0.01827276, 0.01575209, 0.00807718, 0.05180315, -0.0091333]),
]


def test_layers_take_their_first_values_from_one_sequence():
    tf.keras.utils.set_random_seed(42)
    for name, expected in RECORDED:
        layer = tf.keras.layers.Dense(2, kernel_initializer=name)
        layer.build((None, 3))
        np.testing.assert_allclose(layer.get_weights()[0].ravel(), expected, atol=2e-6, err_msg=name)
    np.testing.assert_array_equal(tf.keras.layers.Dropout(0.5)(tf.ones([8]), training=True), [2, 0, 0, 0, 0, 2, 2, 2])


def test_an_initializer_returns_the_same_values_again():
    tf.keras.utils.set_random_seed(1)
    made = tf.keras.initializers.GlorotUniform()
    np.testing.assert_array_equal(made((2, 2)), made((2, 2)))
    assert made.get_config() == {"seed": None}


@pytest.mark.parametrize("seed", [1, 2])
def test_without_it_the_seed_of_the_process_counts(seed):
    tf.random.set_seed(seed)
    first = tf.keras.initializers.GlorotUniform()((2, 2)).numpy()
    tf.random.set_seed(seed)
    np.testing.assert_array_equal(first, tf.keras.initializers.GlorotUniform()((2, 2)))
