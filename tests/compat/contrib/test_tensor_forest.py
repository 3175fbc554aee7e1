"""tf.contrib.tensor_forest: trees grow by the rules, and a forest learns."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.compat.contrib.tensor_forest import growing

DRAW = np.random.RandomState(0)
X = DRAW.rand(600, 5).astype(np.float32)
Y = ((X[:, 0] > 0.5) * 2 + (X[:, 3] > 0.5)).astype(np.int32)            # four classes


def hparams(**others):
    from penstock.compat.v1.contrib.tensor_forest.python import tensor_forest
    return tensor_forest.ForestHParams(**{"num_classes": 4, "num_features": 5, "num_trees": 5, "max_nodes": 200,
                                          "split_after_samples": 20, "base_random_seed": 1, **others}).fill()


def graphs(params):
    return tf.contrib.tensor_forest.python.tensor_forest.RandomForestGraphs(params)


def test_a_tree_keeps_its_books():
    tree, one_hot = growing.seedling(4, 10), np.eye(4, dtype=np.float32)[Y]
    for k in range(0, 600, 50):
        tree = growing.grow(tree, X[k:k + 50], one_hot[k:k + 50], 1 + k, 41, 20, False)
        inner = tree.feature >= 0
        assert len(tree.feature) <= 41 and (tree.row[inner] == -1).all()
        assert sorted(tree.row[~inner]) == list(range(len(tree.candidate)))         # a row for each leaf
        assert (tree.left + tree.right >= 0).all()
        assert (tree.left.sum((1, 2)) + tree.right.sum((1, 2)))[tree.row[~inner]].max() <= 600 * 10
    inner = np.flatnonzero(tree.feature >= 0)
    assert sorted([*tree.child[inner], *tree.child[inner] + 1]) == list(range(1, len(tree.feature)))
    leaf = growing.leaves_of(tree, X)
    assert (tree.feature[leaf] == -1).all()
    for node in inner:                                                              # those below a node obey its test
        below = {node}
        for n in inner[np.argsort(inner)]:
            below |= {tree.child[n], tree.child[n] + 1} if n in below else set()
        left = {tree.child[node]}
        for n in inner:
            left |= {tree.child[n], tree.child[n] + 1} if n in left else set()
        here = np.isin(leaf, list(below))
        np.testing.assert_array_equal(np.isin(leaf[here], list(left)), X[here, tree.feature[node]] <= tree.threshold[node])


def test_the_best_candidate_wins():
    tree = growing.seedling(2, 50)
    x = np.linspace(0, 1, 100, dtype=np.float32)[:, None]
    tree = growing.grow(tree, x, np.eye(2, dtype=np.float32)[(x[:, 0] > 0.3).astype(int)], 1, 100, 100, False)
    assert tree.feature.tolist() == [0, -1, -1] and abs(tree.threshold[0] - 0.3) < 0.011
    assert tree.sums[1].tolist() == [30, 0] and tree.sums[2].tolist() == [0, 70]    # candidates came before the counting


def test_a_forest_learns_and_is_saved(tmp_path):
    x, y = tf.placeholder(tf.float32, [None, 5]), tf.placeholder(tf.int32, [None])
    forest = graphs(hparams())
    train, (values, paths, variance) = forest.training_graph(x, y), forest.inference_graph(x)
    loss, used = forest.training_loss(x, y), forest.feature_importances()
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(loss) == -1
        for k in range(60):
            rows = np.arange(k * 50, (k + 1) * 50) % 600
            sess.run(train, {x: X[rows], y: Y[rows]})
        found, leaves, spread = sess.run([values, paths, variance], {x: X})
        assert (found.argmax(1) == Y).mean() > 0.9 and sess.run(loss) < -20
        np.testing.assert_allclose(found.sum(1), np.ones(600), rtol=1e-5)
        assert leaves.shape == (600, 5) and spread.shape == (600, 4) and (spread >= 0).all()
        importance = sess.run(used)
        assert abs(importance.sum() - 1) < 1e-5 and set(importance.argsort()[-2:]) == {0, 3}
        saver.save(sess, str(tmp_path / "forest"))
    with tf.Session() as sess:
        saver.restore(sess, str(tmp_path / "forest"))
        np.testing.assert_allclose(sess.run(values, {x: X}), found, rtol=1e-5, atol=1e-6)


def test_numbers():
    target = (3 * X[:, 1] + (X[:, 2] > 0.5)).astype(np.float32)
    x, y = tf.constant(X), tf.constant(target)
    forest = graphs(hparams(num_classes=1, regression=True, bagging_fraction=0.8, feature_bagging_fraction=0.8, num_trees=10))
    train, (values, _, _) = forest.training_graph(x, y), forest.inference_graph(x)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            sess.run(train)
        error = sess.run(values)[:, 0] - target
    assert (error ** 2).mean() < 0.3 * target.var()


def test_the_estimator():
    random_forest = tf.contrib.tensor_forest.client.random_forest
    model = random_forest.TensorForestEstimator(hparams(num_trees=4))
    model.fit(X, Y, steps=60, batch_size=50)
    assert model.evaluate(X, Y, batch_size=100)["accuracy"] > 0.85
    first = next(iter(model.predict(X, as_iterable=True)))
    assert first["probabilities"].shape == (4,) and first["classes"] == first["probabilities"].argmax()


def test_what_must_be_given():
    with pytest.raises(AttributeError, match="num_features"):
        tf.contrib.tensor_forest.python.tensor_forest.ForestHParams(num_classes=2).fill()
