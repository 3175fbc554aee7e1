"""Streaming metrics over two batches against numpy over both at once."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

RNG = np.random.RandomState(0)
LABELS = RNG.randint(0, 2, [2, 12])
SCORES = RNG.uniform(0, 1, [2, 12]).astype(np.float32)
WEIGHTS = RNG.randint(1, 4, [2, 12]).astype(np.float32)
CLASSES, GUESSES = RNG.randint(0, 4, [2, 30]), RNG.randint(0, 4, [2, 30])
X, Y = RNG.uniform(-1, 1, [2, 6, 3]).astype(np.float32), RNG.uniform(-1, 1, [2, 6, 3]).astype(np.float32)


def streamed(metric, *batches, **kwargs):
    """The value after all batches (arrays whose first axis is the batch), checked against the last update."""
    with tf.Graph().as_default(), tf.Session() as sess:
        feeds = [tf.placeholder(tf.as_dtype(b.dtype), b.shape[1:]) for b in batches]
        weighted = {k: tf.placeholder(tf.float32, v.shape[1:]) for k, v in kwargs.items() if k == "weights"}
        plain = {k: v for k, v in kwargs.items() if k != "weights"}
        value, update = metric(*feeds, **weighted, **plain, metrics_collections="values", updates_collections="updates")
        assert tf.get_collection("values") == [value] and tf.get_collection("updates") == [update]
        assert tf.get_collection(tf.GraphKeys.METRIC_VARIABLES) == tf.local_variables() != []
        assert not tf.global_variables() and not tf.trainable_variables()
        sess.run(tf.local_variables_initializer())
        for i in range(len(batches[0])):
            feed = {p: b[i] for p, b in zip(feeds, batches, strict=True)}
            feed.update({p: kwargs[k][i] for k, p in weighted.items()})
            last = sess.run(update, feed)
        found = sess.run(value)
        if np.shape(last) == np.shape(found):
            np.testing.assert_allclose(last, found, rtol=1e-5)
        return found


def weighted_mean(x, w=None):
    return np.average(x, weights=w)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_means(weights):
    kwargs = {} if weights is None else {"weights": weights}
    m = tf.metrics
    near = lambda found, want: np.testing.assert_allclose(found, want, rtol=1e-5)
    near(streamed(m.mean, SCORES, **kwargs), weighted_mean(SCORES, weights))
    guess = (SCORES > 0.5).astype(np.int64)
    near(streamed(m.accuracy, LABELS, guess, **kwargs), weighted_mean(LABELS == guess, weights))
    near(streamed(lambda x, **k: m.percentage_below(x, 0.3, **k), SCORES, **kwargs), weighted_mean(SCORES < 0.3, weights))
    truth = LABELS.astype(np.float32)
    near(streamed(m.mean_absolute_error, truth, SCORES, **kwargs), weighted_mean(abs(truth - SCORES), weights))
    near(streamed(m.mean_squared_error, truth, SCORES, **kwargs), weighted_mean((truth - SCORES) ** 2, weights))
    near(streamed(m.root_mean_squared_error, truth, SCORES, **kwargs), weighted_mean((truth - SCORES) ** 2, weights) ** 0.5)
    near(streamed(m.mean_relative_error, truth, SCORES, SCORES, **kwargs), weighted_mean(abs(truth - SCORES) / SCORES, weights))


def test_mean_tensor_and_cosine_distance():
    np.testing.assert_allclose(streamed(tf.metrics.mean_tensor, X), X.mean(0), rtol=1e-5, atol=1e-6)
    distance = streamed(lambda x, y, **k: tf.metrics.mean_cosine_distance(x, y, dim=1, **k), X, Y)
    np.testing.assert_allclose(distance, 1 - (X * Y).sum(2).mean(), rtol=1e-5)


def test_no_values_mean_zero():
    with tf.Graph().as_default(), tf.Session() as sess:
        value, _ = tf.metrics.mean(tf.constant([1.0]))
        sess.run(tf.local_variables_initializer())
        assert sess.run(value) == 0


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_counts_precision_recall(weights):
    w = np.ones_like(WEIGHTS) if weights is None else weights
    kwargs = {} if weights is None else {"weights": weights}
    guess = SCORES > 0.4
    count = {(a, b): w[(LABELS == a) & (guess == b)].sum() for a in (0, 1) for b in (0, 1)}
    m = tf.metrics
    for metric, key in ((m.true_positives, (1, 1)), (m.false_positives, (0, 1)), (m.true_negatives, (0, 0)),
                        (m.false_negatives, (1, 0))):
        assert streamed(metric, LABELS, guess, **kwargs) == count[key]
    assert np.isclose(streamed(m.precision, LABELS, guess, **kwargs), count[1, 1] / (count[1, 1] + count[0, 1]))
    assert np.isclose(streamed(m.recall, LABELS, guess, **kwargs), count[1, 1] / (count[1, 1] + count[1, 0]))


def test_per_class():
    classes = range(4)
    right = [np.mean(GUESSES[CLASSES == c] == c) for c in classes]
    found = streamed(lambda a, b, **k: tf.metrics.mean_per_class_accuracy(a, b, 4, **k), CLASSES, GUESSES)
    assert np.isclose(found, np.mean(right))
    union = [np.sum((CLASSES == c) & (GUESSES == c)) / np.sum((CLASSES == c) | (GUESSES == c)) for c in classes]
    found = streamed(lambda a, b, **k: tf.metrics.mean_iou(a, b, 5, **k), CLASSES, GUESSES)      # a class that never occurs
    assert np.isclose(found, np.mean(union))


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_at_thresholds(weights):
    w = np.ones_like(WEIGHTS) if weights is None else weights
    kwargs = {"thresholds": [0.2, 0.7]} | ({} if weights is None else {"weights": weights})
    m, above = tf.metrics, [SCORES > t for t in (0.2, 0.7)]

    def total(label, over):
        return np.array([w[(LABELS == label) & (a == over)].sum() for a in above])
    for metric, label, over in ((m.true_positives_at_thresholds, 1, True), (m.false_positives_at_thresholds, 0, True),
                                (m.true_negatives_at_thresholds, 0, False), (m.false_negatives_at_thresholds, 1, False)):
        np.testing.assert_allclose(streamed(metric, LABELS, SCORES, **kwargs), total(label, over), rtol=1e-6)
    tp = total(1, True)
    for metric, rest in ((m.precision_at_thresholds, total(0, True)), (m.recall_at_thresholds, total(1, False))):
        np.testing.assert_allclose(streamed(metric, LABELS, SCORES, **kwargs), tp / (tp + rest), rtol=1e-5)


def test_area_under_roc_is_the_chance_of_right_order():
    positive, negative = SCORES[LABELS == 1], SCORES[LABELS == 0]
    exact = np.mean(positive[:, None] > negative[None, :])
    found = streamed(lambda a, b, **k: tf.metrics.auc(a, b, num_thresholds=2000, **k), LABELS, SCORES)
    assert np.isclose(found, exact, atol=2e-3)
    low, high = (streamed(lambda a, b, how=how, **k: tf.metrics.auc(a, b, num_thresholds=20, summation_method=how, **k),
                          LABELS, SCORES) for how in ("minoring", "majoring"))
    assert low < found < high


@pytest.mark.parametrize("kwargs", [{"curve": "XY"}, {"summation_method": "guess"}])
def test_auc_refuses(kwargs):
    with tf.Graph().as_default(), pytest.raises(ValueError):
        tf.metrics.auc([0, 1], [0.0, 1.0], **kwargs)


def test_scores_must_be_in_range():
    with tf.Graph().as_default(), tf.Session() as sess:
        _, update = tf.metrics.auc(tf.placeholder_with_default([0, 1], [2]), tf.placeholder_with_default([0.0, 1.5], [2]))
        sess.run(tf.local_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="predictions must be in"):
            sess.run(update)


def test_rates_at_rates():
    def at(threshold):
        over = SCORES > threshold
        return np.mean(over[LABELS == 1]), np.mean(~over[LABELS == 0])
    rates = [at(t) for t in np.linspace(0, 1, 2001)]
    found = streamed(lambda a, b, **k: tf.metrics.sensitivity_at_specificity(a, b, 0.6, num_thresholds=2001, **k),
                     LABELS, SCORES)
    best = min(abs(s - 0.6) for _, s in rates)
    assert any(np.isclose(found, r, atol=1e-4) for r, s in rates if np.isclose(abs(s - 0.6), best))
    with tf.Graph().as_default(), pytest.raises(ValueError, match="range"):
        tf.metrics.specificity_at_sensitivity([0, 1], [0.0, 1.0], 1.5)


LOGITS = np.stack([RNG.permutation(6) for _ in range(8)]).reshape(2, 4, 6).astype(np.float32)
TARGETS = np.array([[[0, 1], [2, 3], [1, 5], [4, 0]], [[3, 2], [5, 4], [0, 2], [1, 3]]], np.int64)


def hits(k):
    """For each example, which of the k best are labels, best first."""
    best = np.argsort(-LOGITS, -1)[..., :k]
    return (best[..., :, None] == TARGETS[..., None, :]).any(-1).reshape(-1, k)


def test_precision_and_recall_at_k():
    for k in (1, 3):
        precision = streamed(lambda a, b, k=k, **kw: tf.metrics.precision_at_k(a, b, k, **kw), TARGETS, LOGITS)
        recall = streamed(lambda a, b, k=k, **kw: tf.metrics.recall_at_k(a, b, k, **kw), TARGETS, LOGITS)
        assert np.isclose(precision, hits(k).mean()) and np.isclose(recall, hits(k).sum() / TARGETS.size)


def test_recall_of_one_class():
    best = np.argsort(-LOGITS, -1)[..., :3]
    has, found = (TARGETS == 2).any(-1), (best == 2).any(-1)
    recall = streamed(lambda a, b, **k: tf.metrics.recall_at_k(a, b, 3, class_id=2, **k), TARGETS, LOGITS)
    assert np.isclose(recall, (has & found).sum() / has.sum())


@pytest.mark.parametrize("thin", [False, True])
def test_average_precision_at_k(thin):
    k = 4

    def metric(labels, logits, **kwargs):
        if thin:
            labels = tf.SparseTensor(np.argwhere(np.ones([4, 2])), tf.reshape(labels, [-1]), [4, 2])
        return tf.metrics.average_precision_at_k(labels, logits, k, **kwargs)
    h = hits(k)
    want = ((h.cumsum(1) / np.arange(1, k + 1)) * h).sum(1) / 2
    assert np.isclose(streamed(metric, TARGETS, LOGITS), want.mean())


def test_labels_without_an_axis_and_outside_of_the_classes():
    with tf.Graph().as_default(), tf.Session() as sess:
        recall, update = tf.metrics.recall_at_k(tf.constant([1, 0], tf.int64), [[0.1, 0.9], [0.2, 0.8]], 1)
        average, step = tf.metrics.average_precision_at_k(tf.constant([[1], [7]], tf.int64), [[0.1, 0.9], [0.2, 0.8]], 1)
        sess.run(tf.local_variables_initializer())
        sess.run([update])
        assert sess.run(recall) == 0.5
        sess.run(step)
        assert np.isnan(sess.run(average))               # an example without labels: 0 / 0, as in TensorFlow
        with pytest.raises(ValueError, match="Invalid k"):
            tf.metrics.average_precision_at_k([[1]], [[0.1, 0.9]], 0)


def test_shapes_that_do_not_fit():
    with tf.Graph().as_default():
        with pytest.raises(ValueError):
            tf.metrics.accuracy(tf.zeros([3]), tf.zeros([4]))
        with pytest.raises(ValueError, match="weights can not be broadcast"):
            tf.metrics.mean(tf.zeros([3, 4]), tf.zeros([2, 4]))


def test_not_for_eager_execution():
    with pytest.raises(RuntimeError, match="tf.metrics.mean is not supported when eager"):
        tf.metrics.mean([1.0])
