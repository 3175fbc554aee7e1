"""tf.contrib.factorization: k-means finds the groups of its data, and moves centers by its rules."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

CENTERS = np.array([[0, 0], [10, 0], [0, 10]], np.float32)
POINTS = np.concatenate([c + np.random.RandomState(i).randn(40, 2) for i, c in enumerate(CENTERS)]).astype(np.float32)


def trained(steps=10, points=POINTS, feeds=None, **arguments):
    """Centers, the centers of the points, and their distances."""
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 2])
        scores, index, distances, initialized, init, train = tf.contrib.factorization.KMeans(
            x, 3, **arguments).training_graph()
        sess.run(tf.global_variables_initializer())
        feeds = iter(feeds or [])
        while not sess.run(initialized):
            sess.run(init, {x: next(feeds, points)})
        sess.run(init, {x: points})                     # again changes nothing
        for _ in range(steps):
            sess.run(train, {x: points})
        variable = tf.global_variables()[0]
        assert variable.op.name == "clusters"
        centers, scores, index, distances = sess.run([variable, scores[0], index[0], distances[0]], {x: points})
    np.testing.assert_allclose(scores.min(1), distances, atol=1e-4)
    assert (scores.argmin(1) == index).all()
    return centers, index, distances


@pytest.mark.parametrize("arguments", [
    dict(initial_clusters="kmeans_plus_plus"), dict(initial_clusters="kmc2", kmc2_chain_length=20),
    dict(initial_clusters=POINTS[[0, 40, 80]]), dict(initial_clusters=lambda inputs, k: tf.gather(inputs[0], [1, 41, 81])),
    dict(initial_clusters="kmeans_plus_plus", use_mini_batch=True),
    dict(initial_clusters="kmeans_plus_plus", use_mini_batch=True, mini_batch_steps_per_iteration=2)])
def test_groups_are_found(arguments):
    centers, index, distances = trained(20, random_seed=7, **arguments)
    for group in range(3):
        mine = index[group * 40:(group + 1) * 40]
        assert (mine == mine[0]).all()
        np.testing.assert_allclose(centers[mine[0]], POINTS[group * 40:(group + 1) * 40].mean(0), atol=0.2)
    np.testing.assert_allclose(distances, ((POINTS - centers[index]) ** 2).sum(1), atol=1e-3)


def test_one_step_of_lloyd():
    start = np.array([[1, 1], [9, 1], [1, 9]], np.float32)
    centers, _, _ = trained(1, initial_clusters=start)
    nearest = ((POINTS[:, None] - start) ** 2).sum(-1).argmin(1)
    np.testing.assert_allclose(centers, [POINTS[nearest == k].mean(0) for k in range(3)], rtol=1e-4, atol=1e-4)


def test_one_mini_batch():
    start = np.array([[1, 1], [9, 1], [1, 9]], np.float32)
    centers, _, _ = trained(1, initial_clusters=start, use_mini_batch=True)
    nearest = ((POINTS[:, None] - start) ** 2).sum(-1).argmin(1)
    wanted = [(start[k] + POINTS[nearest == k].sum(0)) / (1 + (nearest == k).sum()) for k in range(3)]
    np.testing.assert_allclose(centers, wanted, rtol=1e-4, atol=1e-4)           # the center counts as one point


def test_cosine():
    directions = np.concatenate([POINTS[40:], -POINTS[40:80]])
    centers, index, distances = trained(15, directions, initial_clusters=directions[[0, 40, 80]], distance_metric="cosine")
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), [1, 1, 1], rtol=1e-5)
    np.testing.assert_allclose(distances, 1 - (unit * centers[index]).sum(1), atol=1e-5)
    assert distances.mean() < 0.02


def test_centers_from_several_batches():
    batches = [POINTS[:2], POINTS[80:81]]
    centers, _, _ = trained(0, feeds=batches)
    assert sorted(map(tuple, centers)) == sorted(map(tuple, np.concatenate(batches)))


def test_what_cannot_be():
    with pytest.raises(ValueError, match="initialization algorithm 'best'"):
        tf.contrib.factorization.KMeans(POINTS, 3, "best")
    with pytest.raises(ValueError, match="distance metric 'far'"):
        tf.contrib.factorization.KMeans(POINTS, 3, distance_metric="far")


def test_the_estimator():
    def input_fn():
        return tf.train.limit_epochs(tf.constant(POINTS), num_epochs=1)
    model = tf.contrib.factorization.KMeansClustering(
        3, initial_clusters=POINTS[[0, 40, 80]], use_mini_batch=False, relative_tolerance=1e-4)
    for _ in range(3):
        model.train(input_fn)
    centers = model.cluster_centers()
    np.testing.assert_allclose(centers, [POINTS[k:k + 40].mean(0) for k in (0, 40, 80)], atol=1e-4)
    assert list(model.predict_cluster_index(input_fn)) == [0] * 40 + [1] * 40 + [2] * 40
    distances = ((POINTS[:, None] - centers) ** 2).sum(-1)
    np.testing.assert_allclose(list(model.transform(input_fn)), distances, rtol=1e-3, atol=1e-3)
    assert abs(model.score(input_fn) / distances.min(1).sum() - 1) < 1e-4
