"""Metrics of tf.keras against numpy and scikit-learn, in eager mode, functions and graphs."""
import numpy as np
import pytest
from sklearn import metrics as sk

import penstock as tf
import penstock.compat.v1 as tf1

rng = np.random.RandomState(2)
LABELS = rng.randint(0, 2, 60).astype("f")
SCORES = np.clip(LABELS * 0.3 + rng.rand(60) * 0.7, 0, 1).astype("f")
CLASSES = rng.randint(0, 4, 50)
LOGITS = rng.randn(50, 4).astype("f")


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
    np.testing.assert_allclose(t.result().numpy(), [1, 3])
    with pytest.raises(ValueError, match="same shape"):
        t.update_state([1.0])


@pytest.mark.parametrize("name, expected", [
    ("Precision", sk.precision_score(LABELS, SCORES > 0.5)), ("Recall", sk.recall_score(LABELS, SCORES > 0.5)),
    ("TruePositives", (LABELS * (SCORES > 0.5)).sum()), ("FalsePositives", ((1 - LABELS) * (SCORES > 0.5)).sum()),
    ("TrueNegatives", ((1 - LABELS) * (SCORES <= 0.5)).sum()), ("FalseNegatives", (LABELS * (SCORES <= 0.5)).sum()),
    ("BinaryAccuracy", sk.accuracy_score(LABELS, SCORES > 0.5)), ("MeanSquaredError", ((LABELS - SCORES) ** 2).mean()),
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
    np.testing.assert_allclose(found, sk.roc_auc_score(LABELS, SCORES), atol=2e-3)
    found = in_batches(tf.keras.metrics.AUC(num_thresholds=2000, curve="PR"), LABELS, SCORES)
    np.testing.assert_allclose(found, sk.average_precision_score(LABELS, SCORES), atol=2e-2)
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
    top2 = (np.argsort(-LOGITS, -1)[:, :2] == CLASSES[:, None]).any(1).mean()
    for name, y, options, expected in [
            ("CategoricalAccuracy", one_hot, {}, (best == CLASSES).mean()),
            ("SparseCategoricalAccuracy", CLASSES, {}, (best == CLASSES).mean()),
            ("TopKCategoricalAccuracy", one_hot, {"k": 2}, top2),
            ("SparseTopKCategoricalAccuracy", CLASSES, {"k": 2}, top2),
            ("F1Score", one_hot, {"average": "macro"}, sk.f1_score(CLASSES, best, average="macro")),
            ("F1Score", one_hot, {"average": "weighted"}, sk.f1_score(CLASSES, best, average="weighted")),
            ("OneHotMeanIoU", one_hot, {"num_classes": 4}, sk.jaccard_score(CLASSES, best, average="macro"))]:
        np.testing.assert_allclose(in_batches(getattr(tf.keras.metrics, name)(**options), y, LOGITS), expected, rtol=1e-5)
    found = in_batches(tf.keras.metrics.MeanIoU(4), CLASSES, best)
    np.testing.assert_allclose(found, sk.jaccard_score(CLASSES, best, average="macro"), rtol=1e-5)
    found = in_batches(tf.keras.metrics.R2Score(), LABELS[:, None], SCORES[:, None])
    np.testing.assert_allclose(found, sk.r2_score(LABELS, SCORES), rtol=1e-4)


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
    with pytest.raises(tf.errors.InvalidArgumentError, match="predictions must be <= 1"):
        tf.keras.metrics.Precision().update_state([1], [3.0])
    with pytest.raises(ValueError, match="Unknown metric function"):
        tf.keras.metrics.get("nothing")
