"""Boosted trees: the best tests are found, and estimators learn."""
import numpy as np
import pytest
import torch

import penstock.compat.v1 as tf
from penstock._src.models.estimator import boosted_trees, boosting

DRAW = np.random.RandomState(0)
X = DRAW.rand(200, 3).astype(np.float32)


def best_by_hand(x, g, h, l2):
    """The best test of one leaf, by trying all of them."""
    best = (-np.inf, None, None)
    score = lambda m: g[m].sum() ** 2 / (h[m].sum() + l2)  # noqa: E731
    for f in range(x.shape[1]):
        for edge in np.sort(x[:, f])[:-1]:
            m = x[:, f] <= edge
            best = max(best, (score(m) + score(~m) - score(m | ~m), f, edge), key=lambda b: b[0])
    return best


def test_one_layer_is_the_best_one():
    g, h = DRAW.randn(50, 1).astype(np.float32), DRAW.rand(50, 1).astype(np.float32) + 0.5
    e = boosting.collected(boosting.seedling(3, 1), X[:50], g, h)
    rules = boosting.Rules(learning_rate=0.5, l2=0.3, quantiles=50)
    e = boosting.with_layer(e, rules)
    gain, feature, edge = best_by_hand(X[:50], g[:, 0], h[:, 0], 0.3)
    assert e.feature.tolist() == [feature, -1, -1] and e.threshold[0] == edge and abs(e.gain[0] - gain) < 1e-4
    left = X[:50, feature] <= edge
    wanted = [-0.5 * g[m].sum() / (h[m].sum() + 0.3) for m in (left, ~left)]
    np.testing.assert_allclose(e.value[1:, 0], wanted, rtol=1e-4)
    assert len(e.rows) == 0 and e.state.tolist() == [1, 0, 0]


@pytest.mark.parametrize("logits", [1, 3])
def test_both_ways_to_search_find_the_same(logits):
    g, h = DRAW.randn(200, logits).astype(np.float32), DRAW.rand(200, logits).astype(np.float32) + 0.5
    e = boosting.collected(boosting.seedling(3, logits), X, g, h)
    rules = boosting.Rules(l1=0.1, l2=0.3, quantiles=200)
    rows, sums = torch.from_numpy(X.T.copy()), torch.from_numpy(np.concatenate([g, h], 1)).double()
    where = torch.from_numpy((X[:, 2] > 0.4).astype(np.int64))
    total = torch.zeros(2, 2 * logits, dtype=torch.float64).index_add_(0, where, sums)
    args = (rows, torch.arange(3), sums, where, total, rules, np.full(2, -np.inf))
    for (leaf, value), (other, same) in zip(boosting._search_all(*args), boosting._search_quantiles(*args)):
        np.testing.assert_array_equal(leaf, other)
        np.testing.assert_allclose(value, same, rtol=1e-6, atol=1e-6)
    coarse = boosting.with_layer(e, rules._replace(quantiles=4))
    assert 0 < coarse.gain[0] <= boosting.with_layer(e, rules).gain[0] + 1e-6


def test_layers_and_trees_end():
    rules, e = boosting.Rules(max_depth=2, trees=3, learning_rate=1.0), boosting.seedling(3, 1)
    target = (X[:, 0] > 0.5) * 2.0 + (X[:, 1] > 0.3) + 0.1 * np.random.RandomState(1).randn(200)
    for layer in range(6):
        said = sum((e.value[boosting.leaves_of(e, X, int(r))] for r in e.root), np.zeros([200, 1]))
        e = boosting.collected(e, X, (said - target[:, None]).astype(np.float32), np.ones([200, 1], np.float32))
        e = boosting.with_layer(e, rules)
        assert len(e.root) == layer // 2 + 1 and e.state[1] == layer % 2
    said = sum(e.value[boosting.leaves_of(e, X, int(r))] for r in e.root)
    assert ((said[:, 0] - target) ** 2).mean() < 0.012
    again = boosting.with_layer(boosting.collected(e, X, np.ones([200, 1], np.float32), np.ones([200, 1], np.float32)), rules)
    assert len(again.feature) == len(e.feature)


def test_pruning_and_weights():
    g, h = DRAW.randn(50, 1).astype(np.float32), np.ones([50, 1], np.float32)
    e = boosting.collected(boosting.seedling(3, 1), X[:50], g, h)
    assert len(boosting.with_layer(e, boosting.Rules(prune="pre", complexity=1e6)).feature) == 1
    after = boosting.with_layer(e, boosting.Rules(prune="post", complexity=1e6, max_depth=1))
    assert after.feature[0] == -1
    heavy = boosting.with_layer(e, boosting.Rules(min_weight=20, quantiles=50))
    below = (X[:50, heavy.feature[0]] <= heavy.threshold[0]).sum()
    assert 20 < below < 30


COLUMNS = [tf.feature_column.bucketized_column(tf.feature_column.numeric_column("a"), [0.25, 0.5, 0.75]),
           tf.feature_column.indicator_column(tf.feature_column.categorical_column_with_vocabulary_list("w", ["u", "v"]))]
WORDS = np.array(["u", "v"])[DRAW.randint(0, 2, 200)]


def feed(labels, epochs=1, shuffle=False):
    return tf.estimator.inputs.numpy_input_fn({"a": X[:, 0], "w": WORDS}, labels, 200, epochs, shuffle=shuffle)


def test_the_classifier():
    labels = ((X[:, 0] > 0.5) ^ (WORDS == "v")).astype(np.int32)
    model = tf.estimator.BoostedTreesClassifier(COLUMNS, 1, n_trees=5, max_depth=2, learning_rate=0.5)
    model.train(feed(labels, None), max_steps=100)
    result = model.evaluate(feed(labels))
    assert result["accuracy"] == 1.0 and result["global_step"] <= 12                # 5 trees of 2 layers
    names, gains = model.experimental_feature_importances(normalize=True)
    assert set(names) == {"a_bucketized", "w_indicator"} and abs(gains.sum() - 1) < 1e-6
    for row in list(model.experimental_predict_with_explanations(feed(labels)))[:20]:
        assert abs(sum(row["dfc"].values()) + row["bias"] - row["logits"][0]) < 1e-4


def test_several_classes():
    labels = (X[:, 0] * 4).astype(np.int32)
    model = tf.estimator.BoostedTreesClassifier(COLUMNS[:1], 1, n_classes=4, n_trees=4, max_depth=3, learning_rate=0.5)
    assert model.train(feed(labels, None), max_steps=50).evaluate(feed(labels))["accuracy"] > 0.97


def test_the_regressor():
    target = (np.floor(X[:, 0] * 4) + 3 * (WORDS == "v") + 10).astype(np.float32)
    model = tf.estimator.BoostedTreesRegressor(COLUMNS, 1, n_trees=10, max_depth=3, learning_rate=0.5, center_bias=True)
    model.train(feed(target, None), max_steps=100)
    assert model.evaluate(feed(target))["average_loss"] < 0.01
    assert abs(model.get_variable_value("boosted_trees/bias")[0] - target.mean()) < 0.1


def test_what_cannot_be():
    with pytest.raises(ValueError, match="pruning_mode must be one of"):
        tf.estimator.BoostedTreesClassifier(COLUMNS, 1, pruning_mode="some")
    with pytest.raises(ValueError, match="tree_complexity must be positive"):
        tf.estimator.BoostedTreesClassifier(COLUMNS, 1, pruning_mode="pre")
    with pytest.raises(ValueError, match="Could not find trained model"):
        tf.estimator.BoostedTreesClassifier(COLUMNS, 1).experimental_feature_importances()


def test_contributions_add_up():
    e = boosting.collected(boosting.seedling(3, 1), X, DRAW.randn(200, 1).astype(np.float32), np.ones([200, 1], np.float32))
    e = boosting.with_layer(e, boosting.Rules())
    added = boosted_trees.contributions(e, X)
    np.testing.assert_allclose(added.sum(1), e.value[boosting.leaves_of(e, X, 0)][:, 0], rtol=1e-5)
