"""Mixtures of Gaussians find the groups that points were drawn from; alternating least squares is compared with numpy."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

MEANS = np.array([[0, 0], [8, 0], [0, 8]], np.float32)


def points():
    random = np.random.RandomState(0)
    return np.concatenate([m + random.randn(200, 2) * [1.0, 0.5] for m in MEANS]).astype(np.float32)


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_mixture(kind, tmp_path):
    data = points()
    model = tf.contrib.factorization.GMM(3, model_dir=str(tmp_path), covariance_type=kind, initial_clusters=MEANS + 1.5)
    model.fit(input_fn=lambda: (tf.constant(data), None), steps=15)
    np.testing.assert_allclose(model.clusters(), MEANS, atol=0.25)
    np.testing.assert_allclose(model.weights(), [1 / 3] * 3, atol=0.01)
    spread = model.covariances() if kind == "diag" else np.stack([np.diag(c) for c in model.covariances()])
    np.testing.assert_allclose(spread, [[1.0, 0.25]] * 3, atol=0.2)
    found = list(model.predict_assignments(input_fn=lambda: tf.data.Dataset.from_tensors(data)))
    assert found == [0] * 200 + [1] * 200 + [2] * 200
    density = sum(np.exp(-0.5 * (((data - m) / [1, 0.5]) ** 2).sum(1)) / (2 * np.pi * 0.5) / 3 for m in MEANS)
    assert abs(model.score(input_fn=lambda: (tf.constant(data), None), steps=1) - np.log(density).mean()) < 0.02


def test_alternating_least_squares(graph):
    random = np.random.RandomState(1)
    full = (random.randn(7, 2) @ random.randn(2, 5)).astype(np.float32)
    seen = random.rand(7, 5) < 0.7
    seen[:, 0] = seen[0] = True
    ratings = tf.SparseTensor(np.argwhere(seen), full[seen], [7, 5])
    w0, reg = 0.1, 0.05
    columns = random.randn(5, 2).astype(np.float32)
    model = tf.contrib.factorization.WALSModel(7, 5, 2, w0, reg, col_init=columns, row_weights=2.0)
    values, update, loss, penalty, weight = model.update_row_factors(sp_input=ratings)
    projected = model.project_row_factors(sp_input=tf.sparse.slice(ratings, [3, 0], [1, 5]), projection_weights=2.0)
    back = model.update_col_factors(sp_input=ratings)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        rows, got, cost = session.run([values, loss, penalty])
        weights = np.where(seen, w0 + 2.0, w0)
        wanted = np.stack([np.linalg.solve((columns.T * w) @ columns + reg * np.eye(2), (columns.T * w) @ (full[i] * seen[i]))
                           for i, w in enumerate(weights)])
        np.testing.assert_allclose(rows, wanted, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(got, (weights * (full * seen - wanted @ columns.T) ** 2).sum(), rtol=1e-3)
        np.testing.assert_allclose(cost, reg * (wanted**2).sum(), rtol=1e-3)
        assert abs(session.run(weight) - (2 + w0) * seen.sum()) < 1e-2
        np.testing.assert_allclose(session.run(projected)[0], wanted[3], rtol=1e-3, atol=1e-4)
        losses = []
        for _ in range(10):
            session.run(update)
            losses.append(session.run([back[2], back[1]])[0])
        assert losses[-1] < losses[0] and all(b < a + 1e-2 for a, b in zip(losses, losses[1:]))
