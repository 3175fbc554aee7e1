"""Bijectors (networks, shapes, matrices) and functions of tf.contrib.distributions."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

ds = tf.contrib.distributions
bijectors = ds.bijectors


def values(*fetches, feed=None):
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(list(fetches), feed)


def log_det(bijector, x, ndims, picked=None):
    """The logarithm of the absolute Jacobian determinant, by differentiating each output; of the numbers `picked`."""
    x = tf.constant(x, tf.float64)
    flat = tf.reshape(x, [-1])
    y = tf.reshape(bijector.forward(tf.reshape(flat, x.shape)), [-1])
    rows = tf.stack([tf.gradients(y[i], flat)[0] for i in range(y.shape[0])])
    if picked is not None:
        rows = tf.gather(tf.gather(rows, picked), picked, axis=1)
    return tf.log(tf.abs(tf.matrix_determinant(rows))), bijector.forward_log_det_jacobian(x, ndims)


def lower(n, seed):
    x = np.tril(np.random.RandomState(seed).rand(n, n)) + np.eye(n)
    return x, [i * n + j for i in range(n) for j in range(i + 1)]


SCALAR = {"gumbel": (lambda b: b.Gumbel(np.float64(0.3), np.float64(1.2)), 0.7),
          "weibull": (lambda b: b.Weibull(np.float64(1.5), np.float64(2.0)), 0.7),
          "kumaraswamy": (lambda b: b.Kumaraswamy(np.float64(2.0), np.float64(1.5)), 0.3),
          "sinh_arcsinh": (lambda b: b.SinhArcsinh(np.float64(0.4), np.float64(1.3)), -2.5)}


@pytest.mark.parametrize("name", SCALAR)
def test_scalar_bijectors(name):
    make, x = SCALAR[name]
    with tf.Graph().as_default():
        b = make(bijectors)
        back, (expected, got) = b.inverse(b.forward(np.float64(x))), log_det(b, x, 0)
        inverse = b.inverse_log_det_jacobian(b.forward(np.float64(x)), 0)
        back, expected, got, inverse = values(back, expected, got, inverse)
    np.testing.assert_allclose(back, x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose([got, -inverse], [expected] * 2, rtol=1e-8, atol=1e-9)


def test_the_functions_of_distributions():
    with tf.Graph().as_default():
        weibull, gumbel = values(bijectors.Weibull(2.0, 1.5).forward([0.5, 1.0]),
                                 bijectors.Gumbel(1.0, 2.0).forward([0.5, 1.0]))
    np.testing.assert_allclose(weibull, 1 - np.exp(-np.array([0.25, 0.5]) ** 1.5), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gumbel, np.exp(-np.exp([0.25, 0.0])), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["CholeskyOuterProduct", "MatrixInverseTriL", "TransformDiagonal"])
def test_bijectors_of_triangular_matrices(name):
    x, picked = lower(3, 1)
    with tf.Graph().as_default():
        b = bijectors.TransformDiagonal(bijectors.Exp()) if name == "TransformDiagonal" else getattr(bijectors, name)()
        expected, got = log_det(b, x, 2, picked)
        back, expected, got = values(b.inverse(b.forward(x)), expected, got)
    np.testing.assert_allclose(back, x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("upper", [False, True])
def test_triangular_matrices_give_their_numbers_back(upper):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, None])
        got = ds.fill_triangular_inverse(ds.fill_triangular(x, upper), upper)
        rows = np.arange(1.0, 13.0).reshape(2, 6)
        np.testing.assert_array_equal(values(got, feed={x: rows})[0], rows)
        b = bijectors.FillTriangular(upper)
        assert b.inverse(b.forward(tf.zeros([5, 10]))).shape == (5, 10)
        assert b.inverse_event_shape([4, 4]) == [10]


def test_scales_of_multivariate_distributions():
    with tf.Graph().as_default():
        b = bijectors.ScaleTriL(diag_shift=0.5)
        matrix, back = values(b.forward([1.0, -2.0, 3.0]), b.inverse(b.forward([1.0, -2.0, 3.0])))
    assert matrix[0, 1] == 0 and (np.diag(matrix) > 0.5).all()
    np.testing.assert_allclose(back, [1, -2, 3], rtol=1e-4, atol=1e-5)


def test_ordered_vectors():
    with tf.Graph().as_default():
        b = bijectors.Ordered()
        x = np.array([-1.0, 0.5, 2.0])
        expected, got = log_det(b, x, 1)
        back, expected, got = values(b.inverse(b.forward(x)), expected, got)
    np.testing.assert_allclose(back, x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def test_reshaped_events():
    with tf.Graph().as_default():
        b = bijectors.Reshape([2, -1], [6])
        y = b.forward(tf.ones([5, 6]))
        assert y.shape == (5, 2, 3) and b.inverse(y).shape == (5, 6)
        assert b.forward_event_shape([6]) == [2, 3] and b.inverse_event_shape([2, 3]) == [6]
        made = ds.TransformedDistribution(ds.MultivariateNormalDiag(tf.zeros(6)), b)
        assert made.event_shape == [2, 3]
        got, = values(made.log_prob(np.ones([2, 3], np.float32)))
        np.testing.assert_allclose(got, -3 * (1 + np.log(2 * np.pi)), rtol=1e-5, atol=1e-5)
        with pytest.raises(ValueError, match="do not match"):
            bijectors.Reshape([2, 2], [6])
        with pytest.raises(ValueError, match="at most one `-1`"):
            bijectors.Reshape([-1, -1])


# -- networks -------------------------------------------------------------------------------------------------------------
def _flow(kind):
    if kind == "RealNVP":
        return bijectors.RealNVP(2, bijectors.real_nvp_default_template([8]))
    template = bijectors.masked_autoregressive_default_template([12, 8], activation=tf.nn.tanh)
    return bijectors.MaskedAutoregressiveFlow(template, unroll_loop=kind == "unrolled")


@pytest.mark.parametrize("kind", ["loop", "unrolled", "RealNVP"])
def test_flows(kind):
    with tf.Graph().as_default():
        tf.set_random_seed(5)
        b, x = _flow(kind), np.random.RandomState(6).randn(4).astype(np.float64)
        y = b.forward(x)
        back, ldj = b.inverse(tf.identity(y)), b.inverse_log_det_jacobian(y, 1)
        z = tf.constant(np.linspace(-1, 1, 4))
        out = b.inverse(z)
        jacobian = tf.stack([tf.gradients(out[i], z)[0] for i in range(4)])
        got = b.inverse_log_det_jacobian(z, 1)
        back, ldj, jacobian, got = values(back, ldj, jacobian, got)
    np.testing.assert_allclose(back, x, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(got, np.linalg.slogdet(jacobian)[1], rtol=1e-8, atol=1e-9)
    assert np.isfinite(ldj)
    if kind != "RealNVP":
        np.testing.assert_array_equal(np.triu(jacobian, 1), 0)            # a number depends on those before it alone


def test_a_flow_learns_a_density():
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        flow = bijectors.Chain([bijectors.MaskedAutoregressiveFlow(bijectors.masked_autoregressive_default_template([16])),
                                bijectors.Permute([1, 0])])
        model = ds.TransformedDistribution(ds.MultivariateNormalDiag(tf.zeros(2)), flow)
        rng = np.random.RandomState(8)
        first = rng.randn(256)
        data = np.stack([first, 0.5 * first ** 2 + 0.3 * rng.randn(256)], 1).astype(np.float32)
        loss = -tf.reduce_mean(model.log_prob(data))
        step = tf.train.AdamOptimizer(0.02).minimize(loss)
        sample = model.sample(3)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            before = sess.run(loss)
            for _ in range(120):
                sess.run(step)
            after = sess.run(loss)
            assert sess.run(sample).shape == (3, 2)
    assert after < before - 0.3


def test_normalization_as_a_bijector():
    rows = (np.random.RandomState(9).randn(50, 3) * [1, 2, 3] + [4, 5, 6]).astype(np.float32)
    with tf.Graph().as_default():
        b = bijectors.BatchNormalization(training=True)
        x = tf.constant(rows)
        out, ldj = values(b.inverse(x), b.inverse_log_det_jacobian(x, 1))
        frozen = bijectors.BatchNormalization(training=False)
        back, = values(frozen.forward(frozen.inverse(x)))
    np.testing.assert_allclose(out.mean(0), 0, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(out.std(0), 1, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(ldj, -0.5 * np.log(rows.var(0) + 1e-3).sum(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(back, rows, rtol=1e-5, atol=1e-5)


# -- functions ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("interpolation", ["lower", "higher", "nearest"])
@pytest.mark.parametrize("axis", [None, 0, [0, 2], -1])
def test_percentiles(interpolation, axis):
    x = np.random.RandomState(10).rand(4, 5, 6)
    with tf.Graph().as_default():
        got, kept = values(ds.percentile(x, 31.0, axis, interpolation), ds.percentile(x, 31.0, axis, interpolation, True))
    expected = np.percentile(x, 31.0, tuple(axis) if isinstance(axis, list) else axis, method=interpolation)
    np.testing.assert_array_equal(got, expected)
    assert kept.shape == np.mean(x, tuple(axis) if isinstance(axis, list) else axis, keepdims=True).shape


def test_correlations_of_a_series():
    x = np.random.RandomState(11).randn(2, 9)
    with tf.Graph().as_default():
        got, moved = values(ds.auto_correlation(x, max_lags=4), ds.auto_correlation(x.T, axis=0, max_lags=4))
    off = x - x.mean(1, keepdims=True)
    expected = np.stack([(off[:, :9 - k] * off[:, k:]).mean(1) for k in range(5)], 1)
    np.testing.assert_allclose(got, expected / expected[:, :1], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moved, got.T, rtol=1e-12, atol=1e-12)


def test_weighted_sums_of_exponentials():
    logx, w = np.array([[1.0, 2.0, 900.0], [0.0, 1.0, 2.0]]), np.array([[1.0, -2.0, 0.5], [1.0, 1.0, -3.0]])
    with tf.Graph().as_default():
        (total, sign), plain = values(ds.reduce_weighted_logsumexp(logx, w, axis=1, return_sign=True),
                                      ds.reduce_weighted_logsumexp(logx, axis=1))
    second = (w[1] * np.exp(logx[1])).sum()
    np.testing.assert_allclose(total, [900 + np.log(0.5), np.log(abs(second))], rtol=1e-9, atol=1e-9)
    assert sign.tolist() == [1, -1]
    np.testing.assert_allclose(plain, np.logaddexp.reduce(logx, axis=1), rtol=1e-9, atol=1e-9)


def test_small_matrices():
    with tf.Graph().as_default():
        band, soft = values(ds.tridiag([1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0]),
                            ds.matrix_diag_transform([[1.0, 2.0], [3.0, 4.0]], tf.exp))
        with pytest.raises(ValueError, match="at least one of"):
            ds.tridiag()
    np.testing.assert_array_equal(band, np.diag([3.0, 4, 5]) + np.diag([1.0, 2], -1) + np.diag([6.0, 7], 1))
    np.testing.assert_allclose(soft, [[np.e, 2], [3, np.exp(4)]], rtol=1e-6, atol=1e-6)


def test_moving_moments():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float64, [2])
        mean, variance = ds.moving_mean_variance(x, 0.9)
        log_mean = tf.get_variable("log_mean", [], tf.float64, tf.zeros_initializer())
        log_update = ds.assign_log_moving_mean_exp(log_mean, x[0], 0.75)
        sess.run(tf.global_variables_initializer())
        m, v, e = np.zeros(2), np.zeros(2), 1.0
        for row in np.random.RandomState(12).randn(5, 2):
            got = sess.run([mean, variance, log_update], {x: row})
            m, v, e = m + 0.1 * (row - m), v - 0.1 * (v - 0.9 * (row - m) ** 2), 0.75 * e + 0.25 * np.exp(row[0])
            np.testing.assert_allclose(got[0], m, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(got[1], v, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(got[2], np.log(e), rtol=1e-9, atol=1e-12)


def test_what_is_known_of_a_mean():
    seen = np.array([1.0, 2.5, 3.0, 4.5], np.float32)
    with tf.Graph().as_default():
        prior = ds.Normal(0.0, 10.0)
        after = ds.normal_conjugates_known_scale_posterior(prior, 2.0, tf.constant(seen.sum()), 4)
        following = ds.normal_conjugates_known_scale_predictive(prior, 2.0, tf.constant(seen.sum()), 4)
        loc, scale, following = values(after.loc, after.scale, following.scale)
    precision = 1 / 100 + 4 / 4
    np.testing.assert_allclose([loc, scale], [seen.sum() / 4 / precision, precision ** -0.5], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(following, np.sqrt(1 / precision + 4), rtol=1e-6, atol=1e-6)


def test_streams_of_seeds():
    stream, again, other = ds.SeedStream(3, "a"), ds.SeedStream(3, "a"), ds.SeedStream(3, "b")
    seeds = [stream() for _ in range(5)]
    assert seeds == [again() for _ in range(5)] and len(set(seeds)) == 5
    assert other() != seeds[0] and ds.SeedStream(None, "a")() is None
    assert ds.SeedStream(stream, "b").original_seed == 3
