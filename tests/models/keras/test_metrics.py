"""Metrics of tf.keras against their definitions in numpy, in eager mode, functions and graphs."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

rng = np.random.RandomState(2)
LABELS = rng.randint(0, 2, 60).astype("f")
SCORES = np.clip(LABELS * 0.3 + rng.rand(60) * 0.7, 0, 1).astype("f")
CLASSES = rng.randint(0, 4, 50)
LOGITS = rng.randn(50, 4).astype("f")


SAID = (SCORES > 0.5).astype("f")


def area_under_roc(y, p):
    """How often a positive has a higher score than a negative."""
    a, b = p[y == 1][:, None], p[y == 0][None]
    return ((a > b) + 0.5 * (a == b)).mean()


def average_precision(y, p):
    found = y[np.argsort(-p)]
    return (np.cumsum(found) / np.arange(1, len(y) + 1))[found == 1].mean()


def by_class(y, p, formula):
    """A formula of true positives, false positives and false negatives, for each of four classes."""
    return np.array([formula(((y == c) & (p == c)).sum(), ((y != c) & (p == c)).sum(), ((y == c) & (p != c)).sum())
                     for c in range(4)])


def in_batches(metric, *arrays):
    for part in zip(*(np.array_split(a, 3) for a in arrays), strict=True):
        metric.update_state(*part)
    return metric.result().numpy()


def test_means_and_sums():
    m, s = tf.keras.metrics.Mean(), tf.keras.metrics.Sum()
    assert in_batches(m, np.arange(10.0)) == 4.5 and in_batches(s, np.arange(10.0)) == 45
    m.reset_state()
    assert float(m.result()) == 0
    m.update_state([1.0, 3.0], sample_weight=[1.0, 0.0])
    assert float(m.result()) == 1
    t = tf.keras.metrics.MeanTensor()
    t.update_state([1.0, 2.0])
    t.update_state([3.0, 4.0], sample_weight=[0.0, 1.0])
    np.testing.assert_allclose(t.result().numpy(), [1, 3], rtol=1e-6)
    with pytest.raises(ValueError, match="same shape"):
        t.update_state([1.0])


@pytest.mark.parametrize("name, expected", [
    ("Precision", (LABELS * SAID).sum() / SAID.sum()), ("Recall", (LABELS * SAID).sum() / LABELS.sum()),
    ("TruePositives", (LABELS * (SCORES > 0.5)).sum()), ("FalsePositives", ((1 - LABELS) * (SCORES > 0.5)).sum()),
    ("TrueNegatives", ((1 - LABELS) * (SCORES <= 0.5)).sum()), ("FalseNegatives", (LABELS * (SCORES <= 0.5)).sum()),
    ("BinaryAccuracy", (LABELS == SAID).mean()), ("MeanSquaredError", ((LABELS - SCORES) ** 2).mean()),
    ("RootMeanSquaredError", np.sqrt(((LABELS - SCORES) ** 2).mean())), ("MeanAbsoluteError", abs(LABELS - SCORES).mean()),
])
@pytest.mark.parametrize("mode", ["eager", "function", "graph"])
def test_binary_metrics(name, expected, mode):
    if mode == "graph":
        with tf.Graph().as_default(), tf1.Session() as session:
            m = getattr(tf1.keras.metrics, name)()
            y, p = tf1.placeholder("float32", [None, 1]), tf1.placeholder("float32", [None, 1])
            update, result = m.update_state(y, p), m.result()
            session.run(tf1.variables_initializer(m.variables))
            for a, b in zip(np.array_split(LABELS, 3), np.array_split(SCORES, 3), strict=True):
                session.run(update, {y: a[:, None], p: b[:, None]})
            np.testing.assert_allclose(session.run(result), expected, rtol=1e-5)
        return
    m = getattr(tf.keras.metrics, name)()
    update = tf.function(m.update_state) if mode == "function" else m.update_state
    for a, b in zip(np.array_split(LABELS, 3), np.array_split(SCORES, 3), strict=True):
        update(tf.constant(a[:, None]), tf.constant(b[:, None]))
    np.testing.assert_allclose(m.result().numpy(), expected, rtol=1e-5)


def test_areas_under_curves():
    found = in_batches(tf.keras.metrics.AUC(num_thresholds=2000), LABELS, SCORES)
    np.testing.assert_allclose(found, area_under_roc(LABELS, SCORES), atol=2e-3)
    found = in_batches(tf.keras.metrics.AUC(num_thresholds=2000, curve="PR"), LABELS, SCORES)
    np.testing.assert_allclose(found, average_precision(LABELS, SCORES), atol=2e-2)
    two = tf.keras.metrics.AUC(multi_label=True, num_labels=2)
    two.update_state(np.stack([LABELS, 1 - LABELS], 1), np.stack([SCORES, SCORES], 1))
    np.testing.assert_allclose(two.result().numpy(), 0.5, atol=1e-2)


def test_best_rates_under_a_constraint():
    thresholds = np.linspace(0, 1, 200)
    said = SCORES[None] > thresholds[:, None]
    sensitivity = (said * LABELS).sum(1) / LABELS.sum()
    specificity = (~said * (1 - LABELS)).sum(1) / (1 - LABELS).sum()
    precision = (said * LABELS).sum(1) / np.maximum(said.sum(1), 1)
    for name, value, expected in [("SensitivityAtSpecificity", 0.6, sensitivity[specificity >= 0.6].max()),
                                  ("SpecificityAtSensitivity", 0.7, specificity[sensitivity >= 0.7].max()),
                                  ("PrecisionAtRecall", 0.5, precision[sensitivity >= 0.5].max()),
                                  ("RecallAtPrecision", 0.8, sensitivity[precision >= 0.8].max())]:
        np.testing.assert_allclose(in_batches(getattr(tf.keras.metrics, name)(value), LABELS, SCORES), expected, rtol=1e-5)


def test_classes():
    one_hot = np.eye(4, dtype="f")[CLASSES]
    best = LOGITS.argmax(-1)
    f1 = by_class(CLASSES, best, lambda tp, fp, fn: 2 * tp / (2 * tp + fp + fn))
    iou = by_class(CLASSES, best, lambda tp, fp, fn: tp / (tp + fp + fn)).mean()
    top2 = (np.argsort(-LOGITS, -1)[:, :2] == CLASSES[:, None]).any(1).mean()
    for name, y, options, expected in [
            ("CategoricalAccuracy", one_hot, {}, (best == CLASSES).mean()),
            ("SparseCategoricalAccuracy", CLASSES, {}, (best == CLASSES).mean()),
            ("TopKCategoricalAccuracy", one_hot, {"k": 2}, top2),
            ("SparseTopKCategoricalAccuracy", CLASSES, {"k": 2}, top2),
            ("F1Score", one_hot, {"average": "macro"}, f1.mean()),
            ("F1Score", one_hot, {"average": "weighted"}, (f1 * np.bincount(CLASSES)).sum() / 50),
            ("OneHotMeanIoU", one_hot, {"num_classes": 4}, iou)]:
        np.testing.assert_allclose(in_batches(getattr(tf.keras.metrics, name)(**options), y, LOGITS), expected, rtol=1e-5)
    found = in_batches(tf.keras.metrics.MeanIoU(4), CLASSES, best)
    np.testing.assert_allclose(found, iou, rtol=1e-5)
    found = in_batches(tf.keras.metrics.R2Score(), LABELS[:, None], SCORES[:, None])
    np.testing.assert_allclose(found, 1 - ((LABELS - SCORES) ** 2).sum() / ((LABELS - LABELS.mean()) ** 2).sum(), rtol=1e-4)


def test_users_write_metrics():
    class Positives(tf.keras.metrics.Metric):
        def __init__(self, name="positives", **kwargs):
            super().__init__(name=name, **kwargs)
            self.total = self.add_weight("total", initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.total.assign_add(tf.reduce_sum(tf.cast(y_pred > 0.5, "float32")))

        def result(self):
            return self.total

    m = Positives()
    m.update_state(LABELS, tf.constant(SCORES))
    assert m.result().numpy() == (SCORES > 0.5).sum()
    m.reset_states()
    assert m.result().numpy() == 0
    with tf.Graph().as_default(), tf1.Session() as session:
        m = Positives()
        value = m(LABELS, tf.constant(SCORES))        # an update that returns nothing still happens first
        session.run(tf1.variables_initializer(m.variables))
        assert session.run(value) == (SCORES > 0.5).sum()


def test_configurations_come_back():
    for m in (tf.keras.metrics.AUC(50, curve="PR"), tf.keras.metrics.Precision(0.3, top_k=2), tf.keras.metrics.MeanIoU(3),
              tf.keras.metrics.TopKCategoricalAccuracy(k=3), tf.keras.metrics.SensitivityAtSpecificity(0.5)):
        again = tf.keras.metrics.deserialize(tf.keras.metrics.serialize(m))
        assert type(again) is type(m) and again.get_config() == m.get_config()
    assert tf.keras.metrics.get("mse") is tf.keras.losses.mean_squared_error


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="Threshold values"):
        tf.keras.metrics.Precision(2.0)
    with pytest.raises(ValueError, match="Invalid AUC curve"):
        tf.keras.metrics.AUC(curve="circle")
    with pytest.raises(ValueError, match="Unknown metric function"):
        tf.keras.metrics.get("nothing")


def test_a_metric_is_printed_with_its_arguments():
    assert str(tf.keras.metrics.Mean()) == "Mean(name=mean,dtype=float32)"
    assert str(tf.keras.metrics.AUC(name="a")).startswith(
        "AUC(name=a,dtype=float32,num_thresholds=200,curve=ROC,summation_method=interpolation")


def test_states_of_several_metrics_are_added():
    here, there = tf.keras.metrics.Accuracy(), tf.keras.metrics.Accuracy()
    here.update_state([1, 2], [1, 3])
    there.update_state([1], [1])
    here.merge_state([there, there])
    assert float(here.result()) == 0.75
    with pytest.raises(ValueError, match="not compatible"):
        here.merge_state([tf.keras.metrics.Sum()])


OUTSIDE = np.random.RandomState(0)
HITS, OUTSIDE_SCORES = OUTSIDE.randint(0, 2, (50, 3)).astype("f"), OUTSIDE.randn(50, 3).astype("f")
WEIGHTS, HUNDREDTHS = OUTSIDE.rand(50).astype("f"), np.round(OUTSIDE.rand(50, 3), 2).astype("f")


def test_scores_outside_of_the_thresholds_count_at_their_ends():
    metric = tf.keras.metrics.AUC()                                  # the values were recorded from tf_keras
    tf.function(lambda: (metric.update_state(HITS, OUTSIDE_SCORES), 0)[1])()
    assert float(metric.result()) == pytest.approx(0.56528, abs=1e-5)
    assert metric.true_positives.numpy()[:3].tolist() == [82, 48, 48]
    assert metric.false_positives.numpy()[[95, 103, 104]].tolist() == [17, 17, 16]


@pytest.mark.parametrize("name, arguments, plain, weighted", [
    ("AUC", {}, 0.450771, 0.443106), ("AUC", {"curve": "PR", "num_thresholds": 11}, 0.516647, 0.487073),
    ("AUC", {"multi_label": True}, 0.440381, 0.403715), ("AUC", {"thresholds": [0.25, 0.5, 0.75]}, 0.44557, 0.446448),
    ("Precision", {"thresholds": [0.0, 0.5, 1.0]}, [0.546667, 0.462687, 0.0], [0.52183, 0.437393, 0.0]),
    ("SensitivityAtSpecificity", {"specificity": 0.5}, 0.365854, 0.366337),
    ("PrecisionAtRecall", {"recall": 0.4, "num_thresholds": 50}, 0.552448, 0.529777)])
def test_scores_on_even_thresholds(name, arguments, plain, weighted):
    for expected, more in ((plain, {}), (weighted, {"sample_weight": WEIGHTS})):
        metric = getattr(tf.keras.metrics, name)(**arguments)
        metric.update_state(HITS, HUNDREDTHS, **more)
        np.testing.assert_allclose(metric.result(), expected, atol=2e-6)
