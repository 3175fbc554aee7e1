"""tf.contrib.distributions: densities by integration, samples against moments, bijectors against numerical derivatives."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

F = np.float64


@pytest.fixture(autouse=True)
def graph():
    yield                                      # everything here runs eagerly


def ds():
    return tf.contrib.distributions


def value(x):
    return np.asarray(x.numpy())


CONTINUOUS = {
    "Logistic": (lambda d: d.Logistic(F(0.5), F(0.7)), (-40, 40)), "Gumbel": (lambda d: d.Gumbel(F(0.5), F(0.7)), (-6, 40)),
    "HalfNormal": (lambda d: d.HalfNormal(F(1.3)), (0, 20)), "InverseGamma": (lambda d: d.InverseGamma(F(5.0), F(2.0)),
                                                                              (1e-3, 300)),
    "Chi2": (lambda d: d.Chi2(F(5.0)), (1e-9, 200)), "Kumaraswamy": (lambda d: d.Kumaraswamy(F(2.0), F(3.0)), (1e-9, 1 - 1e-9)),
    "mixture": (lambda d: d.MixtureSameFamily(d.Categorical(probs=np.array([0.3, 0.7])),
                                              d.Normal(np.array([-2.0, 2.0]), F(0.5))),
                (-20, 20)),
    "listed": (lambda d: d.Mixture(d.Categorical(probs=np.array([0.3, 0.7])),
                                   [d.Normal(F(-2.0), F(0.5)), d.Laplace(F(1.0), F(0.5))]),
               (-20, 20)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_and_moments(name):
    make, support = CONTINUOUS[name]
    dist = make(ds())
    x = np.linspace(*support, 200_001)
    p = np.exp(value(dist.log_prob(x)))
    np.testing.assert_allclose(np.trapezoid(p, x), 1, rtol=1e-3)
    mean = np.trapezoid(x * p, x)
    np.testing.assert_allclose(value(dist.mean()), mean, rtol=1e-2)
    np.testing.assert_allclose(value(dist.variance()), np.trapezoid((x - mean) ** 2 * p, x), rtol=2e-2)
    total = np.concatenate([[0], np.cumsum((p[1:] + p[:-1]) / 2 * np.diff(x))])
    np.testing.assert_allclose(value(dist.cdf(x[10_000::30_001])), total[10_000::30_001], atol=1e-3)
    drawn = value(dist.sample(20_000, seed=3))
    assert abs(drawn.mean() - mean) < 5 * np.sqrt(value(dist.variance()) / drawn.size)
    if name not in ("mixture", "listed"):
        np.testing.assert_allclose(value(dist.entropy()), np.trapezoid(-p * np.log(np.maximum(p, 1e-300)), x), rtol=1e-2,
                                   atol=1e-3)


COUNTS = {"Poisson": lambda d: d.Poisson(F(3.0)), "Geometric": lambda d: d.Geometric(probs=F(0.3)),
          "NegativeBinomial": lambda d: d.NegativeBinomial(F(4.0), probs=F(0.4)),
          "Binomial": lambda d: d.Binomial(F(6.0), probs=F(0.3)),
          "Quantized": lambda d: d.QuantizedDistribution(d.Normal(F(5.0), F(2.0)), low=0.0, high=12.0)}


@pytest.mark.parametrize("name", COUNTS)
def test_masses(name):
    dist = COUNTS[name](ds())
    k = np.arange(0.0, 7 if name == "Binomial" else 13 if name == "Quantized" else 200)
    p = value(dist.prob(k))
    np.testing.assert_allclose(p.sum(), 1, rtol=1e-6)
    drawn = value(dist.sample(20_000, seed=1))
    np.testing.assert_allclose(drawn.mean(), (k * p).sum(), rtol=0.05)
    if name != "Quantized":
        np.testing.assert_allclose(value(dist.mean()), (k * p).sum(), rtol=1e-6)
        np.testing.assert_allclose(value(dist.variance()), (k**2 * p).sum() - (k * p).sum() ** 2, rtol=1e-6)
    if name != "NegativeBinomial":
        np.testing.assert_allclose(value(dist.cdf(k[:6])), p.cumsum()[:6], rtol=1e-5)


def test_multivariate_normals():
    d, rng = ds(), np.random.RandomState(0)
    loc, tril = rng.randn(3), np.tril(rng.randn(3, 3)) + 3 * np.eye(3)
    cov = tril @ tril.T
    x = rng.randn(5, 3)
    expected = -0.5 * (np.einsum("ni,ij,nj->n", x - loc, np.linalg.inv(cov), x - loc) + np.linalg.slogdet(2 * np.pi * cov)[1])
    for dist in (d.MultivariateNormalTriL(loc, tril), d.MultivariateNormalFullCovariance(loc, cov)):
        np.testing.assert_allclose(value(dist.log_prob(x)), expected, rtol=1e-6)
        np.testing.assert_allclose(value(dist.covariance()), cov, rtol=1e-6)
    drawn = value(dist.sample(20_000, seed=2))
    np.testing.assert_allclose(np.cov(drawn.T), cov, atol=0.6)
    diag = d.MultivariateNormalDiag(loc, np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(value(diag.log_prob(x)), value(tf.reduce_sum(tf.distributions.Normal(loc,
                                                                                                    np.array([1.0, 2,
                                                                                                              3])).log_prob(x),
                                                                                                              -1)), rtol=1e-6)
    other = d.MultivariateNormalDiag(loc + 1, np.array([2.0, 1.0, 1.0]))
    independent = tf.reduce_sum(tf.distributions.kl_divergence(tf.distributions.Normal(loc, np.array([1.0, 2, 3])),
                                                               tf.distributions.Normal(loc + 1, np.array([2.0, 1, 1]))))
    np.testing.assert_allclose(value(tf.distributions.kl_divergence(diag, other)), value(independent), rtol=1e-6)
    together = d.Independent(tf.distributions.Normal(loc, np.array([1.0, 2, 3])), 1)
    np.testing.assert_allclose(value(together.log_prob(x)), value(diag.log_prob(x)), rtol=1e-6)
    assert together.event_shape == [3] and together.batch_shape == []


def test_wishart():
    scale = np.array([[2.0, 0.5], [0.5, 1.0]])
    dist = ds().WishartFull(F(5.0), scale)
    drawn = value(dist.sample(20_000, seed=1))
    np.testing.assert_allclose(drawn.mean(0), 5 * scale, rtol=0.05)
    np.testing.assert_allclose(value(dist.mean()), 5 * scale, rtol=1e-6)
    x = np.array([[3.0, 0.2], [0.2, 2.0]])
    from math import lgamma, log, pi
    log_gamma = 0.5 * log(pi) + lgamma(2.5) + lgamma(2.0)
    expected = (np.linalg.slogdet(x)[1] * (5 - 3) / 2 - np.trace(np.linalg.inv(scale) @ x) / 2 - 5 * log(2)
                - 2.5 * np.linalg.slogdet(scale)[1] - log_gamma)
    np.testing.assert_allclose(value(dist.log_prob(x)), expected, rtol=1e-6)


@pytest.mark.parametrize("name, options, x", [
    ("Exp", {}, 0.3), ("Sigmoid", {}, 0.3), ("Softplus", {}, 0.3), ("Softsign", {}, 0.3), ("Square", {}, 0.3), ("Tanh", {},
                                                                                                                0.3),
    ("PowerTransform", {"power": 0.5}, 0.3), ("AffineScalar", {"shift": F(1.0), "scale": F(-2.0)}, 0.3), ("Identity", {}, 0.3),
])
def test_scalar_bijectors(name, options, x):
    b = getattr(ds().bijectors, name)(**options)
    y = value(b.forward(F(x)))
    np.testing.assert_allclose(value(b.inverse(y)), x, rtol=1e-6)
    slope = (value(b.forward(F(x + 1e-6))) - value(b.forward(F(x - 1e-6)))) / 2e-6
    np.testing.assert_allclose(value(b.forward_log_det_jacobian(F(x), 0)), np.log(abs(slope)), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(value(b.inverse_log_det_jacobian(y, 0)), -np.log(abs(slope)), rtol=1e-5, atol=1e-8)


def test_vector_bijectors_and_transformed_distributions():
    d = ds()
    b = d.bijectors
    tril = np.array([[2.0, 0.0], [1.0, 3.0]])
    affine = b.Affine(shift=np.array([1.0, -1.0]), scale_tril=tril)
    x = np.array([0.5, 2.0])
    np.testing.assert_allclose(value(affine.forward(x)), tril @ x + [1, -1], rtol=1e-6)
    np.testing.assert_allclose(value(affine.forward_log_det_jacobian(x, 1)), np.log(6), rtol=1e-6)
    chain = b.Chain([b.Exp(), affine])
    np.testing.assert_allclose(value(chain.inverse(chain.forward(x))), x, rtol=1e-6)
    np.testing.assert_allclose(value(chain.forward_log_det_jacobian(x, 1)), np.log(6) + (tril @ x + [1, -1]).sum(), rtol=1e-6)
    np.testing.assert_allclose(value(b.Invert(b.Exp()).forward(F(2.0))), np.log(2), rtol=1e-6)
    simplex = b.SoftmaxCentered()
    np.testing.assert_allclose(value(simplex.forward(x)).sum(), 1, rtol=1e-6)
    np.testing.assert_allclose(value(simplex.inverse(simplex.forward(x))), x, rtol=1e-6)
    log_normal = d.TransformedDistribution(d.Normal(F(0.0), F(1.0)), b.Exp())
    grid = np.linspace(1e-6, 200, 2_000_001)
    np.testing.assert_allclose(np.trapezoid(value(log_normal.prob(grid)), grid), 1, rtol=1e-4)
    np.testing.assert_allclose(value(log_normal.cdf(F(1.0))), 0.5, rtol=1e-6)
    np.testing.assert_allclose(value(log_normal.quantile(F(0.5))), 1.0, atol=1e-9)
    normal = d.TransformedDistribution(d.Normal(F(0.0), F(1.0)), affine, event_shape=[2])
    np.testing.assert_allclose(value(normal.log_prob(x)), value(d.MultivariateNormalTriL(np.array([1.0, -1.0]),
                                                                                         tril).log_prob(x)), rtol=1e-6)
    assert value(normal.sample(7, seed=1)).shape == (7, 2)
    with pytest.raises(ValueError, match="must be larger than"):
        affine.forward_log_det_jacobian(x, 0)


def test_choices():
    d = ds()
    p = np.array([0.2, 0.5, 0.3])
    hot = d.OneHotCategorical(probs=p)
    drawn = value(hot.sample(10_000, seed=1))
    assert (drawn.sum(-1) == 1).all()
    np.testing.assert_allclose(drawn.mean(0), p, atol=0.02)
    np.testing.assert_allclose(value(hot.prob([0, 1, 0])), 0.5, rtol=1e-6)
    relaxed = value(d.RelaxedOneHotCategorical(F(0.1), probs=p).sample(5000, seed=1))
    np.testing.assert_allclose(relaxed.sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(np.bincount(relaxed.argmax(-1)) / 5000, p, atol=0.03)
    bernoulli = d.RelaxedBernoulli(F(0.7), probs=F(0.4))
    grid = np.linspace(1e-6, 1 - 1e-6, 400_001)
    np.testing.assert_allclose(np.trapezoid(value(bernoulli.prob(grid)), grid), 1, rtol=1e-2)
    certain = d.Deterministic([1.0, 2.0])
    np.testing.assert_array_equal(value(certain.prob([1.0, 1.0])), [1, 0])
    np.testing.assert_allclose(value(d.NormalWithSoftplusScale(0.0, 1.0).scale), np.log1p(np.e), rtol=1e-6)


def test_mode_of_kumaraswamy():
    made = ds().Kumaraswamy([2.0, 3.0, 0.5], [4.0, 1.5, 2.0])
    x = np.linspace(1e-4, 1 - 1e-4, 20001, dtype=np.float32)
    mode, density = value(made.mode()), value(made.prob(x[:, None]))
    np.testing.assert_allclose(mode[:2], x[density.argmax(0)][:2], atol=1e-3)
    assert np.isnan(mode[2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Mode undefined"):
        ds().Kumaraswamy(0.5, 2.0, allow_nan_stats=False).mode()
