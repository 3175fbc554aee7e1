"""Mixtures of Gaussians, found by expectation maximization: each step is one round over its batch."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.compat.contrib.learn.estimators import BaseEstimator
from penstock.compat import v1 as tf

_SMALL = 1e-3                   # is added to variances, so that no component shrinks to a point


def _covariance(centered: Any, shares: Any, diagonal: bool) -> Any:
    """The covariances of rows around a mean, weighed by the shares that each component has of them."""
    weight = tf.reduce_sum(shares, 0)[:, tf.newaxis] + 1e-8
    if diagonal:
        return tf.einsum("nk,nkd->kd", shares, tf.square(centered)) / weight + _SMALL
    spread = tf.einsum("nk,nkd,nke->kde", shares, centered, centered) / weight[..., tf.newaxis]
    return spread + _SMALL * tf.eye(centered.shape.as_list()[-1], dtype=centered.dtype)


def _log_probabilities(centered: Any, covariances: Any, diagonal: bool) -> Any:
    """The log density of rows under each component, (n, k)."""
    d = centered.shape.as_list()[-1]
    if diagonal:
        distance = tf.reduce_sum(tf.square(centered) / covariances, -1)
        return -0.5 * (distance + tf.reduce_sum(tf.log(covariances), -1) + d * np.log(2 * np.pi))
    root = tf.cholesky(covariances)
    solved = tf.matrix_triangular_solve(root, tf.transpose(centered, [1, 2, 0]))
    volume = 2.0 * tf.reduce_sum(tf.log(tf.matrix_diag_part(root)), -1)
    return -0.5 * (tf.transpose(tf.reduce_sum(tf.square(solved), 1)) + volume + d * np.log(2 * np.pi))


@export(v1=["contrib.factorization.gmm"])
def gmm(inp: Any, initial_clusters: Any, num_clusters: int, random_seed: int | None, covariance_type: str = "full",
        params: str = "wmc") -> tuple:
    """A mixture over the rows of `inp`: (loss, scores as a metric, [assignments], training op, init op, whether it was run).
    `params` says what is learned: weights, means, covariances."""
    if covariance_type not in ("full", "diag"):
        raise ValueError(f"covariance_type must be 'full' or 'diag', not {covariance_type!r}")
    data = tf.convert_to_tensor(inp, tf.float32)
    k, d, diagonal = num_clusters, data.shape.as_list()[1], covariance_type == "diag"
    made = {name: tf.get_variable(name, shape, initializer=tf.zeros_initializer(), trainable=False, use_resource=True)
            for name, shape in (("clusters", [k, 1, d]), ("clusters_covs", [k, d] if diagonal else [k, d, d]), ("alphas", [k]))}
    ready = tf.get_variable("clusters_initialized", [], tf.bool, tf.zeros_initializer(), trainable=False, use_resource=True)
    init = _started(data, made, ready, initial_clusters, diagonal, random_seed)
    means, covariances, weights = made["clusters"][:, 0], made["clusters_covs"].read_value(), made["alphas"].read_value()
    joint = _log_probabilities(data[:, tf.newaxis] - means, covariances, diagonal) + tf.log(weights)
    total = tf.reduce_logsumexp(joint, 1)
    shares = tf.exp(joint - total[:, tf.newaxis])
    count = tf.reduce_sum(shares, 0)
    moved = tf.matmul(shares, data, transpose_a=True) / (count + 1e-8)[:, tf.newaxis]
    updates = {"w": ("alphas", count / tf.reduce_sum(count)), "m": ("clusters", moved[:, tf.newaxis]),
               "c": ("clusters_covs", _covariance(data[:, tf.newaxis] - moved, shares, diagonal))}
    values = [updates[p][1] for p in params]
    with tf.control_dependencies(values):                   # all of them are of the mixture before the step
        step = tf.group(*(made[updates[p][0]].assign(v) for p, v in zip(params, values)))
    return (-tf.reduce_sum(total), tf.metrics.mean(total), [[tf.argmax(joint, 1)]], step, init, ready.read_value())


def _started(data: Any, made: dict[str, Any], ready: Any, initial: Any, diagonal: bool, seed: int | None) -> Any:
    """The op that sets a mixture its first means (rows of the batch, or those given), covariances and weights."""
    k, _, d = made["clusters"].shape.as_list()
    rows = tf.random_shuffle(data, seed=seed)[:k] if isinstance(initial, str) and initial == "random" else \
        tf.convert_to_tensor(initial() if callable(initial) else initial, tf.float32)
    spread = _covariance((data - tf.reduce_mean(data, 0))[:, tf.newaxis], tf.ones_like(data[:, :1]), diagonal)
    starts = [made["clusters"].assign(tf.reshape(rows, [k, 1, d])), made["alphas"].assign(tf.fill([k], 1.0 / k)),
              made["clusters_covs"].assign(tf.tile(spread, [k, *[1] * (spread.shape.ndims - 1)]))]
    with tf.control_dependencies(starts):
        return ready.assign(True).op


class _Start(tf.train.SessionRunHook):
    """Runs the init op of a mixture that has none of its values yet."""

    def __init__(self, init: Any, ready: Any):
        self._init, self._ready = init, ready

    def after_create_session(self, session: Any, coord: Any) -> None:
        if not session.run(self._ready):
            session.run(self._init)


@export(v1=["contrib.factorization.GMM"])
class GMM(BaseEstimator):
    """A mixture of Gaussians as an estimator.

    >>> gmm = tf.contrib.factorization.GMM(num_clusters=3)
    >>> gmm.fit(input_fn=lambda: (tf.constant(points), None), steps=20)
    >>> gmm.clusters(), gmm.covariances(), list(gmm.predict_assignments(input_fn=...))
    """

    SCORES, LOG_LIKELIHOOD, ASSIGNMENTS = "scores", "loss", "assignments"

    def __init__(self, num_clusters: int, model_dir: str | None = None, random_seed: int = 0, params: str = "wmc",
                 initial_clusters: Any = "random", covariance_type: str = "full", config: Any = None):
        def model_fn(features: Any, labels: Any, mode: str) -> Any:
            if isinstance(features, dict):
                features = tf.concat([features[key] for key in sorted(features)], 1)
            loss, scores, found, step, init, ready = gmm(features, initial_clusters, num_clusters, random_seed, covariance_type,
                                                         params)
            step = tf.group(step, tf.assign_add(tf.train.get_global_step(), 1))
            return tf.estimator.EstimatorSpec(mode, {self.ASSIGNMENTS: found[0][0]}, loss, step, {self.SCORES: scores},
                                              training_hooks=[_Start(init, ready)])
        super().__init__(tf.estimator.Estimator(model_fn, model_dir, config))

    def predict_assignments(self, input_fn: Any = None, batch_size: int | None = None, outputs: Any = None) -> Iterator[Any]:
        """The component of each row."""
        for row in self.predict(input_fn=input_fn, batch_size=batch_size, outputs=outputs):
            yield row[self.ASSIGNMENTS]

    def score(self, input_fn: Any = None, batch_size: int | None = None, steps: int | None = None) -> float:
        """The mean log likelihood of a row."""
        return self.evaluate(input_fn=input_fn, batch_size=batch_size, steps=steps)[self.SCORES]

    def weights(self) -> Any:
        """How often each component is chosen."""
        return self.get_variable_value("alphas")

    def clusters(self) -> Any:
        """The means, (components, features)."""
        return self.get_variable_value("clusters")[:, 0]

    def covariances(self) -> Any:
        """The covariances: matrices, or variances if they are diagonal."""
        return self.get_variable_value("clusters_covs")
