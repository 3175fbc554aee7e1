"""Metrics of tf.contrib.metrics over streams of batches, compared with numpy over all rows."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

metrics = tf.contrib.metrics
LABELS = np.random.RandomState(3).randint(0, 2, 60)
SCORES = np.round(np.clip(LABELS * 0.3 + np.random.RandomState(4).rand(60) * 0.7, 0, 1), 2).astype(np.float32)


def streamed(metric, *columns, batches=3):
    """The value of a metric after all batches, and what the last update returned."""
    with tf.Graph().as_default(), tf.Session() as sess:
        places = [tf.placeholder(c.dtype, [None, *c.shape[1:]]) for c in columns]
        value, update = metric(*places)
        sess.run(tf.local_variables_initializer())
        for parts in zip(*(np.array_split(c, batches) for c in columns), strict=True):
            feed = dict(zip(places, parts, strict=True))
            last = sess.run(update, feed)
        return sess.run(value, feed), last


def area(labels, scores, weights=None):
    """The share of pairs of a positive and a negative row that are in order; ties count half."""
    weights = np.ones(len(labels)) if weights is None else weights
    pairs = weights[labels == 1][:, None] * weights[labels == 0]
    order = np.sign(scores[labels == 1][:, None] - scores[labels == 0])
    return (pairs * (order + 1) / 2).sum() / pairs.sum()


@pytest.mark.parametrize("shape,axis,expected", [((7,), 0, (7,)), ((6, 2, 3), 1, (2, 6, 3)), ((6, 2, 3), -1, (2, 3, 6))])
def test_batches_are_concatenated(shape, axis, expected):
    rows = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    axes = [0] if len(shape) == 1 else {1: [1, 0, 2], -1: [1, 2, 0]}[axis]

    def metric(x):
        x = tf.transpose(x, axes)
        return metrics.streaming_concat(x, axis)
    got, size = streamed(metric, rows)
    np.testing.assert_array_equal(got, rows.transpose(axes))
    assert got.shape == expected and size == shape[0]


def test_a_limit_of_the_rows_that_are_kept():
    got, size = streamed(lambda x: metrics.streaming_concat(x, max_size=5), np.arange(9))
    assert got.tolist() == [0, 1, 2, 3, 4] and size == 5


def test_rows_of_unknown_width_are_refused():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="known statically known rank"):
            metrics.streaming_concat(tf.placeholder(tf.float32))
        with pytest.raises(ValueError, match=r"axis = 2 not in \[0, 2\)"):
            metrics.streaming_concat(tf.zeros([2, 2]), 2)
        with pytest.raises(ValueError, match="must have statically known size"):
            metrics.streaming_concat(tf.placeholder(tf.float32, [None, None]))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_area_with_every_score_as_a_threshold(weighted):
    weights = np.linspace(0.1, 2, 60)
    if weighted:
        got, _ = streamed(lambda y, x, w: metrics.streaming_dynamic_auc(y, x, weights=w), LABELS, SCORES, weights)
    else:
        got, _ = streamed(metrics.streaming_dynamic_auc, LABELS, SCORES)
    np.testing.assert_allclose(got, area(LABELS, SCORES, weights if weighted else None), rtol=1e-6, atol=1e-9)


def test_the_area_below_precision_and_recall():
    order = np.argsort(-SCORES, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(SCORES[order]) != 0, True)) + 1
    found = np.cumsum(LABELS[order])[ends - 1]
    recall, precision = np.append(0, found / LABELS.sum()), np.append(1, found / ends)
    expected = (np.diff(recall) * (precision[1:] + precision[:-1]) / 2).sum()
    got, _ = streamed(lambda y, x: metrics.streaming_dynamic_auc(y, x, curve="PR"), LABELS, SCORES)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)


def test_one_class_has_no_area():
    assert streamed(metrics.streaming_dynamic_auc, np.ones(4, np.int64), SCORES[:4])[0] == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="labels must be 0 or 1"):
        streamed(metrics.streaming_dynamic_auc, np.array([0, 1, 2]), SCORES[:3])


@pytest.mark.parametrize("logit", [False, True])
def test_the_interval_of_an_area(logit):
    got, _ = streamed(lambda y, x: metrics.auc_with_confidence_intervals(y, x, logit_transformation=logit), LABELS, SCORES)
    wins = (np.sign(SCORES[LABELS == 1][:, None] - SCORES[LABELS == 0]) + 1) / 2
    error = np.sqrt(wins.mean(1).var(ddof=1) / wins.shape[0] + wins.mean(0).var(ddof=1) / wins.shape[1])
    mean, z = wins.mean(), 1.959964
    if logit:
        centre, half = np.log(mean / (1 - mean)), z * error / (mean * (1 - mean))
        bounds = [1 / (1 + np.exp(-(centre - half))), 1 / (1 + np.exp(-(centre + half)))]
    else:
        bounds = [mean - z * error, mean + z * error]
    np.testing.assert_allclose([got.auc, got.lower, got.upper], [mean, *bounds], rtol=1e-4, atol=1e-5)


def test_agreement_beyond_chance():
    other = np.where(np.arange(60) % 4 == 0, 1 - LABELS, LABELS)
    got, last = streamed(lambda a, b: metrics.cohen_kappa(a, b, 2), LABELS, other)
    chance = sum((LABELS == c).mean() * (other == c).mean() for c in (0, 1))
    expected = ((LABELS == other).mean() - chance) / (1 - chance)
    np.testing.assert_allclose([got, last], [expected] * 2, rtol=1e-6, atol=1e-9)


def test_counts_at_equal_thresholds():
    got, _ = streamed(lambda y, x: metrics.precision_recall_at_equal_thresholds(tf.cast(y, tf.bool), x, num_thresholds=5),
                      LABELS, SCORES)
    above = SCORES[None] >= np.linspace(0, 1, 5)[:, None]
    tp, fp = (above & (LABELS == 1)).sum(1), (above & (LABELS == 0)).sum(1)
    np.testing.assert_array_equal([got.tp, got.fp, got.tn, got.fn],
                                  [tp, fp, (LABELS == 0).sum() - fp, (LABELS == 1).sum() - tp])
    np.testing.assert_allclose(got.precision, tp / np.maximum(tp + fp, 1e-7), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(got.recall, tp / (LABELS == 1).sum(), rtol=1e-6, atol=1e-7)


def curve(count=200):
    thresholds = np.array([-1e-7, *(np.arange(1, count - 1) / (count - 1)), 1 + 1e-7], np.float32)
    above = SCORES[None] > thresholds[:, None]
    return ((above & (LABELS == 1)).sum(1), (above & (LABELS == 0)).sum(1), (LABELS == 1).sum(), (LABELS == 0).sum())


def test_points_of_curves():
    tp, fp, positive, negative = curve(6)
    got, _ = streamed(lambda y, x: metrics.streaming_curve_points(y, x, num_thresholds=6), LABELS, SCORES)
    np.testing.assert_allclose(got, np.stack([fp / negative, tp / positive], 1), rtol=1e-4, atol=1e-6)


def test_recall_at_precision_and_the_other_way_round():
    tp, fp, positive, _ = curve()
    precision = tp / (tp + fp + 1e-7)
    expected = (tp / positive)[np.argmin(np.abs(precision - 0.75))]
    np.testing.assert_allclose(streamed(lambda y, x: metrics.recall_at_precision(y, x, 0.75), LABELS, SCORES), expected,
                               rtol=1e-5, atol=1e-6)
    strict = streamed(lambda y, x: metrics.recall_at_precision(y, x, 0.75, strict_mode=True), LABELS, SCORES)[0]
    enough = precision >= 0.75
    np.testing.assert_allclose(strict, (tp / positive)[np.where(enough, precision, 2).argmin()], rtol=1e-5, atol=1e-6)
    at = np.flatnonzero(tp / positive >= 0.6)[-1]
    np.testing.assert_allclose(streamed(lambda y, x: metrics.precision_at_recall(y, x, 0.6), LABELS, SCORES),
                               tp[at] / (tp[at] + fp[at]), rtol=1e-5, atol=1e-6)


def test_rates_at_thresholds():
    for name, label, over in (("false_positive", 0, True), ("false_negative", 1, False)):
        metric = getattr(metrics, f"streaming_{name}_rate_at_thresholds")
        got, _ = streamed(lambda x, y, metric=metric: metric(x, y, [0.2, 0.5]), SCORES, LABELS)
        expected = [((SCORES > t) == over)[LABELS == label].mean() for t in (0.2, 0.5)]
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_shares_of_the_best_classes():
    top, labels = np.array([[1, 3], [0, 2], [4, 5]]), np.array([[3, 4], [0, 2], [1, 2]])
    assert streamed(metrics.streaming_sparse_precision_at_top_k, top, labels)[0] == pytest.approx(3 / 6)
    assert streamed(metrics.sparse_recall_at_top_k, labels, top)[0] == pytest.approx(3 / 6)
    average = np.mean([1 / 2 / 2, 1.0, 0.0])
    got, _ = streamed(lambda t, y: metrics.streaming_sparse_average_precision_at_top_k(tf.reshape(t, [-1, 2]), y), top, labels)
    assert got == pytest.approx(average)


def test_an_area_from_histograms():
    got, _ = streamed(lambda y, x: metrics.auc_using_histogram(tf.cast(y, tf.bool), x, [0.0, 1.0], nbins=1000), LABELS, SCORES)
    np.testing.assert_allclose(got, area(LABELS, SCORES), rtol=1e-5, atol=1e-5)
