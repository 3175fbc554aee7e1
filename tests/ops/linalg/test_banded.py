"""Banded triangular systems: values and gradients of TensorFlow, broadcasting, and what is refused."""
import numpy as np
import pytest

import penstock as tf

# lower, adjoint: the solution, and the gradients of the sum of its squares
RECORDED = {
    (True, True): ([[18.5, 22.0], [-3.5, -4.0], [1.666667, 2.0]],
                   [[-1652.5, -792.0, -780.518519], [0.0, 305.5, 388.0]],
                   [[37.0, 44.0], [-96.0, -114.0], [193.111111, 229.333333]]),
    (True, False): ([[1.0, 2.0], [-1.0, -3.0], [3.666667, 8.0]],
                    [[-241.666667, -65.333333, -51.62963], [0.0, 46.333333, 18.444444]],
                    [[43.666667, 99.0], [-8.333333, -19.0], [2.444444, 5.333333]]),
    (False, True): ([[0.25, 0.5], [0.55, 0.7], [0.65, 0.766667]],
                    [[-0.122222, -0.298056, 0.0], [-0.125694, -0.197778, -0.336759]],
                    [[0.091667, 0.205556], [0.133333, 0.177778], [0.216667, 0.255556]]),
    (False, False): ([[0.183333, 0.4], [0.266667, 0.4], [0.833333, 1.0]],
                     [[-0.104444, -0.193611, 0.0], [-0.096806, -0.071556, -0.500278]],
                     [[0.091667, 0.2], [0.088333, 0.12], [0.248333, 0.293333]])}


@pytest.mark.parametrize("lower, adjoint", RECORDED)
def test_recorded(lower, adjoint):
    bands, rhs = (tf.constant(np.arange(1, 7.0).reshape(s)) for s in ((2, 3), (3, 2)))
    with tf.GradientTape() as tape:
        tape.watch([bands, rhs])
        x = tf.linalg.banded_triangular_solve(bands, rhs, lower=lower, adjoint=adjoint)
        y = tf.reduce_sum(x ** 2)
    for found, want in zip((x, *tape.gradient(y, [bands, rhs])), RECORDED[lower, adjoint], strict=True):
        np.testing.assert_allclose(found, want, atol=2e-6)


def test_batches_broadcast():
    rng = np.random.RandomState(0)
    bands, rhs = rng.rand(2, 1, 3, 5) + 1, rng.rand(4, 5, 2)
    out = tf.linalg.banded_triangular_solve(bands, rhs)
    dense = sum(np.eye(5, k=-b) * bands[:, :, b, :, None] for b in range(3))
    np.testing.assert_allclose(out, np.linalg.solve(dense, np.broadcast_to(rhs, (2, 4, 5, 2))), rtol=1e-6)
    assert out.shape == (2, 4, 5, 2)


@pytest.mark.parametrize("bands, rhs, message", [
    (np.ones((4, 3)), np.ones((3, 1)), "cannot exceed the size"), (np.zeros((1, 3)), np.ones((3, 1)), "not invertible"),
    (np.ones((2, 3)), np.ones((4, 1)), "3"), (np.ones((2, 2, 3)), np.ones((3, 3, 1)), "2")])
def test_refused(bands, rhs, message):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=message):
        tf.linalg.banded_triangular_solve(bands, rhs)
