"""tf.distributions: statistics against numerical integrals of the density, samples against statistics, KL by its definition."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

tfd = tf.distributions


def value(x):
    return np.asarray(x.numpy() if hasattr(x, "numpy") else x)


# name, maker, support; densities are integrated over the support.
CONTINUOUS = [
    ("normal", lambda: tfd.Normal(np.float64(0.5), np.float64(1.5)), (-20, 20)),
    ("laplace", lambda: tfd.Laplace(np.float64(0.5), np.float64(0.7)), (-40, 40)),
    ("student", lambda: tfd.StudentT(np.float64(7.0), np.float64(0.5), np.float64(0.7)), (-400, 400)),
    ("uniform", lambda: tfd.Uniform(np.float64(-1.0), np.float64(3.0)), (-1, 3)),
    ("gamma", lambda: tfd.Gamma(np.float64(3.0), np.float64(2.0)), (1e-9, 40)),
    ("exponential", lambda: tfd.Exponential(np.float64(2.0)), (1e-12, 40)),
    ("beta", lambda: tfd.Beta(np.float64(2.5), np.float64(3.5)), (1e-12, 1 - 1e-12)),
]
IDS = [c[0] for c in CONTINUOUS]


@pytest.mark.parametrize("name, make, support", CONTINUOUS, ids=IDS)
def test_statistics_are_integrals_of_the_density(name, make, support):
    dist = make()
    x = np.linspace(*support, 400_001)
    p = value(dist.prob(x))
    integrate = lambda f: np.trapezoid(f, x)
    np.testing.assert_allclose(integrate(p), 1, rtol=1e-5)
    np.testing.assert_allclose(np.log(p[1:-1]), value(dist.log_prob(x))[1:-1], rtol=1e-9, atol=1e-9)
    mean = integrate(x * p)
    np.testing.assert_allclose(value(dist.mean()), mean, rtol=1e-4)
    np.testing.assert_allclose(value(dist.variance()), integrate((x - mean) ** 2 * p), rtol=1e-3)
    np.testing.assert_allclose(value(dist.stddev()) ** 2, value(dist.variance()), rtol=1e-9)
    np.testing.assert_allclose(value(dist.entropy()), integrate(-p * np.log(np.maximum(p, 1e-300))), rtol=1e-3)
    if name != "uniform":
        np.testing.assert_allclose(value(dist.mode()) if name != "exponential" else 0.0 if p.argmax() == 0 else 1.0,
                                   x[p.argmax()], atol=1e-2)
    if name == "beta" or name == "uniform":
        x, p = x[:-1], p[:-1]
    total = np.concatenate([[0], np.cumsum((p[1:] + p[:-1]) / 2 * np.diff(x))])
    some = slice(None, None, 10_001)
    np.testing.assert_allclose(value(dist.cdf(x[some])), total[some], atol=1e-5)
    np.testing.assert_allclose(value(dist.survival_function(x[some])), 1 - total[some], atol=1e-5)


@pytest.mark.parametrize("name, make, support", CONTINUOUS, ids=IDS)
def test_samples_have_the_mean_and_variance(name, make, support):
    dist = make()
    drawn = value(dist.sample([200, 100], seed=7))
    assert drawn.shape == (200, 100) and drawn.dtype == np.float64
    sd = float(value(dist.stddev()))
    assert abs(drawn.mean() - value(dist.mean())) < 5 * sd / np.sqrt(drawn.size)
    np.testing.assert_allclose(drawn.std(), sd, rtol=0.1)


@pytest.mark.parametrize("dist", [d for d in ("normal", "laplace", "uniform", "exponential")])
def test_quantiles_undo_the_distribution_function(dist):
    made = dict((n, m) for n, m, _ in CONTINUOUS)[dist]()
    p = np.linspace(0.01, 0.99, 33)
    np.testing.assert_allclose(value(made.cdf(made.quantile(p))), p, rtol=1e-9)


PAIRS = [
    (lambda: tfd.Normal(np.float64(0), np.float64(1)), lambda: tfd.Normal(np.float64(1), np.float64(2)), (-20, 20)),
    (lambda: tfd.Laplace(np.float64(0), np.float64(1)), lambda: tfd.Laplace(np.float64(1), np.float64(2)), (-60, 60)),
    (lambda: tfd.Gamma(np.float64(2), np.float64(1)), lambda: tfd.Gamma(np.float64(3), np.float64(2)), (1e-9, 60)),
    (lambda: tfd.Beta(np.float64(2), np.float64(3)), lambda: tfd.Beta(np.float64(1.5), np.float64(2)), (1e-9, 1 - 1e-9)),
    (lambda: tfd.Uniform(np.float64(0), np.float64(1)), lambda: tfd.Uniform(np.float64(-1), np.float64(2)), (0, 1 - 1e-9)),
]


@pytest.mark.parametrize("a, b, support", PAIRS, ids=["normal", "laplace", "gamma", "beta", "uniform"])
def test_divergence_is_its_integral(a, b, support):
    a, b = a(), b()
    x = np.linspace(*support, 200_001)
    la, lb = value(a.log_prob(x)), value(b.log_prob(x))
    np.testing.assert_allclose(value(tfd.kl_divergence(a, b)), np.trapezoid(np.exp(la) * (la - lb), x), rtol=1e-4)
    np.testing.assert_allclose(value(a.cross_entropy(b)), np.trapezoid(-np.exp(la) * lb, x), rtol=1e-4)


def test_bernoulli_and_categorical_by_hand():
    b = tfd.Bernoulli(probs=[0.2, 0.7])
    np.testing.assert_allclose(value(b.prob([1, 0])), [0.2, 0.3], rtol=1e-6)
    np.testing.assert_allclose(value(b.variance()), [0.16, 0.21], rtol=1e-6)
    np.testing.assert_array_equal(value(b.mode()), [0, 1])
    p = np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]], np.float32)
    c = tfd.Categorical(probs=p)
    assert c.batch_shape == [2] and c.event_shape == [] and c.dtype == tf.int32
    np.testing.assert_allclose(value(c.prob([2, 1])), [0.7, 0.25], rtol=1e-6)
    np.testing.assert_allclose(value(c.cdf([2, 1])), [0.3, 0.5], rtol=1e-6)       # TensorFlow counts the classes before k
    np.testing.assert_allclose(value(c.entropy()), -(p * np.log(p)).sum(-1), rtol=1e-6)
    drawn = value(c.sample(20_000, seed=1))
    np.testing.assert_allclose([(drawn[:, 0] == k).mean() for k in range(3)], p[0], atol=0.02)
    q = tfd.Categorical(probs=p[::-1])
    np.testing.assert_allclose(value(tfd.kl_divergence(c, q)), (p * np.log(p / p[::-1])).sum(-1), rtol=1e-5)


def test_vectors_by_hand():
    a = np.array([1.0, 2.0, 3.0])
    d = tfd.Dirichlet(a)
    np.testing.assert_allclose(value(d.mean()), a / 6, rtol=1e-6)
    np.testing.assert_allclose(value(d.covariance()), (np.diag(a / 6) - np.outer(a, a) / 36) / 7, rtol=1e-6)
    drawn = value(d.sample(20_000, seed=3))
    np.testing.assert_allclose(np.cov(drawn.T), value(d.covariance()), atol=2e-3)
    m = tfd.Multinomial(total_count=4.0, probs=[0.2, 0.3, 0.5])
    np.testing.assert_allclose(value(m.prob([1.0, 1.0, 2.0])), 12 * 0.2 * 0.3 * 0.25, rtol=1e-5)
    counts = value(m.sample(5000, seed=2))
    assert (counts.sum(-1) == 4).all()
    np.testing.assert_allclose(counts.mean(0), [0.8, 1.2, 2.0], atol=0.06)
    np.testing.assert_allclose(np.cov(counts.T), value(m.covariance()), atol=0.06)
    dm = tfd.DirichletMultinomial(2.0, np.array([1.0, 2.0], np.float32))
    np.testing.assert_allclose([value(dm.prob([k, 2.0 - k])) for k in (0.0, 1.0, 2.0)], [0.5, 1 / 3, 1 / 6], rtol=1e-5)
    drawn = value(dm.sample(20_000, seed=5))
    np.testing.assert_allclose(drawn.mean(0), value(dm.mean()), atol=0.03)
    np.testing.assert_allclose(np.cov(drawn.T), value(dm.covariance()), atol=0.03)


def test_counts_of_a_batch_with_different_totals():
    m = tfd.Multinomial(total_count=[2.0, 5.0], probs=[[0.5, 0.5], [0.1, 0.9]])
    counts = value(m.sample(300, seed=4))
    assert counts.shape == (300, 2, 2)
    np.testing.assert_array_equal(counts.sum(-1), np.tile([2, 5], (300, 1)))
    np.testing.assert_allclose(counts.mean(0), [[1, 1], [0.5, 4.5]], atol=0.2)


def test_copy_keeps_and_replaces_arguments():
    n = tfd.Normal(1.0, scale=2.0, validate_args=True)
    other = n.copy(scale=3.0)
    assert float(other.scale) == 3 and float(other.loc) == 1 and other.validate_args
    assert set(n.parameters) == {"loc", "scale", "validate_args", "allow_nan_stats", "name"}


def test_what_is_checked():
    with pytest.raises(tf.errors.InvalidArgumentError, match="x > 0"):
        tfd.Normal(0.0, -1.0, validate_args=True)
    with pytest.raises(ValueError, match="probs or logits"):
        tfd.Bernoulli()
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot exceed 1"):
        tfd.Bernoulli(probs=[0.5], validate_args=True).prob([2])
    with pytest.raises(NotImplementedError, match="quantile is not implemented: Beta"):
        tfd.Beta(1.0, 1.0).quantile(0.5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="mode not defined"):
        tfd.Gamma([0.5, 2.0], 1.0, allow_nan_stats=False).mode()
    np.testing.assert_array_equal(value(tfd.Gamma([0.5, 2.0], 1.0).mode()), [np.nan, 1.0])


def test_own_subclass_and_divergence():
    class Point(tfd.Distribution):
        def __init__(self, at, name="Point"):
            parameters = dict(locals())
            self.at = tf.convert_to_tensor(at)
            super().__init__(dtype=self.at.dtype, reparameterization_type=tfd.NOT_REPARAMETERIZED, validate_args=False,
                             allow_nan_stats=True, parameters=parameters, graph_parents=[self.at], name=name)

        def _batch_shape(self):
            return self.at.shape

        def _prob(self, x):
            return tf.cast(tf.equal(x, self.at), tf.float32)

    @tfd.RegisterKL(Point, Point)
    def _kl(a, b, name=None):
        return tf.where_v2(tf.equal(a.at, b.at), 0.0, np.inf)

    p = Point([1.0, 2.0])
    np.testing.assert_array_equal(value(p.log_prob([1.0, 1.0])), [0, -np.inf])
    np.testing.assert_array_equal(value(tfd.kl_divergence(p, p.copy(at=[1.0, 3.0]))), [0, np.inf])
    with pytest.raises(ValueError, match="already been registered"):
        tfd.RegisterKL(Point, Point)(_kl)


def test_graph_with_unknown_shapes_and_gradients():
    with tf.Graph().as_default(), tf.Session() as session:
        loc = tf.placeholder(tf.float32)
        n = tfd.Normal(loc, [1.0, 2.0])
        assert n.batch_shape.ndims is None
        drawn = n.sample(5, seed=1)
        gradient, = tf.gradients(tf.reduce_sum(n.log_prob([1.0, 1.0])), [loc])
        shape, g = session.run([tf.shape(drawn), gradient], {loc: 0.0})
        np.testing.assert_array_equal(shape, [5, 2])
        np.testing.assert_allclose(g, 1 + 0.25, rtol=1e-6)
