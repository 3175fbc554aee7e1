"""Initializers: moments and shapes of what they draw, seeds, configurations, wrong arguments."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.state.variables import orthogonal

SHAPE = [200, 100]
RANDOM = {
    "random_uniform": (tf.random_uniform_initializer(-2., 4.), 1., np.sqrt(36 / 12)),
    "random_normal": (tf.random_normal_initializer(1., 3.), 1., 3.),
    "truncated_normal": (tf.truncated_normal_initializer(1., 3.), 1., 3 * .87962566103423978),
    "uniform_unit_scaling": (tf.uniform_unit_scaling_initializer(2.), 0., 2 / np.sqrt(200)),
    "variance_scaling": (tf.variance_scaling_initializer(3., "fan_out", "uniform"), 0., np.sqrt(3 / 100)),
    "untruncated": (tf.variance_scaling_initializer(3., "fan_avg", "untruncated_normal"), 0., np.sqrt(3 / 150)),
    "glorot_uniform": (tf.glorot_uniform_initializer(), 0., np.sqrt(2 / 300)),
    "glorot_normal": (tf.glorot_normal_initializer(), 0., np.sqrt(2 / 300)),
    "lecun_normal": (tf.initializers.lecun_normal(), 0., np.sqrt(1 / 200)),
    "lecun_uniform": (tf.initializers.lecun_uniform(), 0., np.sqrt(1 / 200)),
    "he_normal": (tf.initializers.he_normal(), 0., np.sqrt(2 / 200)),
    "he_uniform": (tf.initializers.he_uniform(), 0., np.sqrt(2 / 200)),
    "v2 random_uniform": (tf2.random_uniform_initializer(), 0., 0.1 / np.sqrt(12)),
    "v2 random_normal": (tf2.random_normal_initializer(), 0., 0.05),
    "v2 he_normal": (tf2.initializers.HeNormal(), 0., np.sqrt(2 / 200)),
}


def value(initializer, shape, **kwargs):
    with tf.Graph().as_default(), tf.Session() as sess:
        return sess.run(initializer(shape, **kwargs))


@pytest.mark.parametrize("name", RANDOM)
def test_moments(name):
    init, mean, stddev = RANDOM[name]
    found = value(init, SHAPE)
    assert found.shape == tuple(SHAPE) and found.dtype == np.float32
    assert abs(found.mean() - mean) < 4 * stddev / np.sqrt(found.size)
    assert abs(found.std() / stddev - 1) < 0.03


def test_fans_of_kernels():
    found = value(tf.variance_scaling_initializer(1., "fan_in", "untruncated_normal"), [5, 5, 40, 30])
    assert abs(found.std() * np.sqrt(5 * 5 * 40) - 1) < 0.03
    assert value(tf.glorot_uniform_initializer(), []).shape == ()
    assert value(tf.glorot_uniform_initializer(), [3]).shape == (3,)


def test_partitions_scale_by_the_whole():
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.get_variable("v", [2000, 10], partitioner=tf.fixed_size_partitioner(4),
                            initializer=tf.variance_scaling_initializer(1., "fan_in", "untruncated_normal"))
        eye = tf.get_variable("eye", [4, 4], partitioner=tf.fixed_size_partitioner(2),
                              initializer=tf.initializers.identity(2.))
        sess.run(tf.global_variables_initializer())
        assert abs(sess.run(v.as_tensor()).std() * np.sqrt(2000) - 1) < 0.03
        np.testing.assert_array_equal(sess.run(eye.as_tensor()), 2 * np.eye(4))


@pytest.mark.parametrize("kind", [tf.random_normal_initializer, tf.random_uniform_initializer,
                                  tf.truncated_normal_initializer, tf.orthogonal_initializer])
def test_seeds(kind):
    first, again, other = (value(kind(seed=s), [10, 10]) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01


def test_constants():
    np.testing.assert_array_equal(value(tf.zeros_initializer(), [2, 2]), np.zeros((2, 2)))
    assert value(tf.zeros_initializer(), [2], dtype=tf.string).tolist() == [b"", b""]
    assert value(tf.zeros_initializer(), [1], dtype=tf.bool).tolist() == [False]
    assert value(tf.ones_initializer(), [2], dtype=tf.int64).dtype == np.int64
    np.testing.assert_array_equal(value(tf.constant_initializer([1, 2, 3]), [2, 2]), [[1, 2], [3, 3]])
    with pytest.raises(TypeError, match="Expected Tensor's shape"):
        value(tf.constant_initializer([1., 2.]), [2, 2], verify_shape=True)
    with pytest.raises(TypeError, match="Invalid type for initial value"):
        tf.constant_initializer(object())
    np.testing.assert_array_equal(value(tf.initializers.identity(), [2, 3]), np.eye(2, 3))
    with pytest.raises(ValueError, match="2D"):
        value(tf.initializers.identity(), [2])


@pytest.mark.parametrize("shape", [[6, 4], [4, 6], [3, 2, 5], [2, 3, 4]])
def test_orthogonal(shape):
    found = value(tf.orthogonal_initializer(gain=2.), shape).reshape(-1, shape[-1]) / 2
    small = found @ found.T if found.shape[0] < found.shape[1] else found.T @ found
    np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-5)
    with pytest.raises(ValueError, match="at least two-dimensional"):
        value(tf.orthogonal_initializer(), [3])


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["delta", "full"])
def test_convolutional_orthogonal_kernels_keep_norms(rank, kind):
    init = orthogonal.ConvolutionDeltaOrthogonal(gain=2.) if kind == "delta" else \
        (orthogonal.ConvolutionOrthogonal1D, orthogonal.ConvolutionOrthogonal2D,
         orthogonal.ConvolutionOrthogonal3D)[rank - 1](gain=2.)
    kernel = value(init, [3] * rank + [2, 4])
    x = np.random.RandomState(0).randn(*[6] * rank, 2)
    y = np.zeros([6] * rank + [4])
    for at in np.ndindex(*[3] * rank):                 # a convolution on a torus
        y += np.roll(x, at, axis=tuple(range(rank))) @ kernel[at]
    np.testing.assert_allclose(np.linalg.norm(y), 2 * np.linalg.norm(x), rtol=1e-4)
    with pytest.raises(ValueError, match="In_filters"):
        value(init, [3] * rank + [4, 2])
    with pytest.raises(ValueError, match="dimensional"):
        value(init, [3, 3])


@pytest.mark.parametrize("made", [
    tf.zeros_initializer(tf.int32), tf.ones_initializer(), tf.constant_initializer(3), tf.random_uniform_initializer(1, 2),
    tf.random_normal_initializer(1., 2., 3), tf.truncated_normal_initializer(), tf.variance_scaling_initializer(2.),
    tf.glorot_uniform_initializer(5), tf.orthogonal_initializer(2.), tf.initializers.identity(3.),
    tf2.random_normal_initializer(1., 2.), tf2.constant_initializer(3), tf2.initializers.VarianceScaling(2.),
    tf2.initializers.HeUniform(4)])
def test_configurations(made):
    config = made.get_config()
    again = type(made).from_config(config)
    assert again.get_config() == config and vars(again) == vars(made)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="scale"):
        tf.variance_scaling_initializer(-1.)
    with pytest.raises(ValueError, match="mode"):
        tf.variance_scaling_initializer(mode="fan")
    with pytest.raises(ValueError, match="distribution"):
        tf.variance_scaling_initializer(distribution="cauchy")
    with pytest.raises(ValueError, match="Expected floating point type"):
        tf.random_normal_initializer(dtype=tf.int32)
    with pytest.raises(ValueError, match="Expected floating point type"):
        value(tf2.random_normal_initializer(), [2], dtype=tf.int32)


def test_initializers_make_parts_of_variables():
    import penstock
    part = {"partition_shape": (2, 3), "partition_offset": (0, 0)}
    for make in (penstock.zeros_initializer(), penstock.ones_initializer(), penstock.random_uniform_initializer(1, 2)):
        assert make((4, 3), penstock.float32, **part).shape == (2, 3)
    with pytest.raises(TypeError, match="Received: dtpye"):
        penstock.zeros_initializer()((4, 3), dtpye=penstock.float32)


def test_a_constant_array_has_no_parts():
    """Which part of the array is meant is not known; a number is the same in every part."""
    with pytest.raises(ValueError, match="partition-related arguments"):
        tf2.constant_initializer([1, 2, 3, 4])((4, 2), tf2.float32, partition_shape=(2, 2))
    assert tf2.constant_initializer(3)((4, 2), tf2.float32, partition_shape=(2, 2)).shape == (2, 2)
