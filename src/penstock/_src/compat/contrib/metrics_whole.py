"""Metrics of tf.contrib.metrics that need all rows of a stream at once: they keep the rows, and compute from all of them."""
from __future__ import annotations

import collections
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.library.metrics.state import aligned, metric_variable, published
from penstock.compat import v1 as tf

_EPSILON = 1e-7

AucData = collections.namedtuple("AucData", ["auc", "lower", "upper"])


def _next_array_size(required_size: Any, growth_factor: float = 1.5) -> Tensor:
    """The smallest power of the growth factor that holds `required_size` rows, rounded up."""
    needed = tf.cast(required_size, tf.float32)
    steps = tf.ceil(tf.log(needed) / tf.log(tf.cast(growth_factor, tf.float32)))
    return tf.cast(tf.ceil(tf.cast(growth_factor, tf.float32) ** steps), tf.int32)


@export(v1=["contrib.metrics.streaming_concat", "contrib.slim.metrics.streaming_concat"])
def streaming_concat(values: Any, axis: int = 0, max_size: int | None = None, metrics_collections: Any = None,
                     updates_collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """All values of a stream of batches, concatenated along an axis; at most `max_size` of them.

    The rows are in a local variable that grows by a factor, so that an update costs as much as its batch on average.
    """
    with tf.variable_scope(name, "streaming_concat", (values,)):
        shape = values.shape
        if shape.ndims is None:
            raise ValueError("`values` must have known statically known rank")
        rank = shape.ndims
        if not -rank <= axis < rank:
            raise ValueError(f"axis = {axis} not in [0, {rank})")
        axis %= rank
        others = [n for n in range(rank) if n != axis]
        fixed = [shape.as_list()[n] for n in others]
        if None in fixed:
            raise ValueError("all dimensions of `values` other than the dimension to concatenate along must have "
                             "statically known size")
        array = tf.Variable(tf.zeros([max_size or 0, *fixed], values.dtype), trainable=False, name="array",
                            shape=tf.TensorShape([None, *fixed]), use_resource=True,
                            collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES])
        size = metric_variable([], tf.int32, "size")
        rows = array[:size]
        rows.set_shape([None, *fixed])
        value = tf.transpose(rows, [0 if n == axis else n + 1 if n < axis else n for n in range(rank)], name="concat")
        batch = tf.transpose(values, [axis, *others])
        if max_size is not None:
            batch = batch[:tf.minimum(tf.shape(batch)[0], max_size - size)]
        update = _appended(array, size, batch, fixed)
        return published(value, update, metrics_collections, updates_collections)


def _appended(array: Any, size: Any, batch: Any, fixed: list[int]) -> Any:
    """Writes a batch behind the first `size` rows of a variable, which grows if necessary; returns the new size."""
    total = size + tf.shape(batch)[0]

    def grown() -> Any:
        more = tf.zeros(tf.stack([_next_array_size(total) - tf.shape(array)[0], *fixed]), batch.dtype)
        return array.assign(tf.concat([array, more], 0), read_value=False)
    with tf.control_dependencies([tf.cond(total > tf.shape(array)[0], grown, tf.no_op)]):
        written = array[size:total].assign(batch)
    with tf.control_dependencies([written]):
        return tf.assign(size, total)


def _binary(labels: Any) -> Tensor:
    """Labels as a vector of int64 whose values are asserted to be 0 or 1."""
    labels = tf.reshape(tf.cast(labels, tf.int64), [-1])
    with tf.control_dependencies([
            tf.assert_greater_equal(labels, tf.zeros_like(labels), message="labels must be 0 or 1, at least one is <0"),
            tf.assert_less_equal(labels, tf.ones_like(labels), message="labels must be 0 or 1, at least one is >1")]):
        return tf.identity(labels)


# -- the area under a curve through all scores ----------------------------------------------------------------------------
def _running(values: Any, at: Any) -> Tensor:
    """Sums of the first rows, up to each of the positions `at`."""
    return tf.gather(tf.pad(tf.cumsum(values), [[1, 0]]), at)


def _exact_area(labels: Any, scores: Any, weights: Any, curve: str) -> Tensor:
    """The area under the curve with a point between each two different scores; 0 if only one class has weight."""
    positive = weights * tf.cast(labels, tf.float64)
    all_positive, total = tf.reduce_sum(positive), tf.reduce_sum(weights)

    def area() -> Tensor:
        ordered, order = tf.nn.top_k(scores, tf.size(scores))
        counts = tf.unique_with_counts(ordered)[2]
        ends = tf.pad(tf.cumsum(counts), [[1, 0]])
        found, chosen = _running(tf.gather(positive, order), ends), _running(tf.gather(weights, order), ends)
        if curve == "ROC":
            x, y = (chosen - found) / (total - all_positive), found / all_positive
        else:
            x, y = found / all_positive, tf.where(ends > 0, found / chosen, tf.ones_like(found))
        return tf.reduce_sum(tf.abs(x[1:] - x[:-1]) * (y[1:] + y[:-1]) / 2.0)
    one_class = tf.logical_or(tf.equal(all_positive, 0), tf.equal(all_positive, total))
    return tf.cond(one_class, lambda: tf.constant(0, tf.float64), area)


@export(v1=["contrib.metrics.streaming_dynamic_auc", "contrib.slim.metrics.streaming_dynamic_auc"])
def streaming_dynamic_auc(labels: Any, predictions: Any, curve: str = "ROC", metrics_collections: Any = (),
                          updates_collections: Any = (), name: str | None = None, weights: Any = None) -> tuple[Any, Any]:
    """The area under the ROC or precision-recall ("PR") curve with every score as a threshold. All rows are kept."""
    if curve not in ("PR", "ROC"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
    with tf.variable_scope(name, "dynamic_auc"):
        labels.shape.assert_is_compatible_with(predictions.shape)
        parts = {"preds": tf.reshape(tf.cast(predictions, tf.float64), [-1]), "labels": _binary(labels)}
        if weights is not None:
            parts["weights"] = tf.reshape(tf.cast(weights, tf.float64), [-1])
        kept = {n: streaming_concat(v, name=f"concat_{n}") for n, v in parts.items()}
        rows = {n: v for n, (v, _) in kept.items()}
        every = rows["weights"] if weights is not None else tf.ones_like(rows["preds"])
        value = _exact_area(rows["labels"], rows["preds"], every, curve)
        return published(value, tf.group(*(update for _, update in kept.values())), metrics_collections, updates_collections)


# -- with an interval -----------------------------------------------------------------------------------------------------
def _placements(scores: Any, weights: Any) -> Tensor:
    """For each row (in ascending order of scores) the share of `weights` below its score; half of those at it count."""
    _, group = tf.unique(scores)
    sums = tf.segment_sum(weights, group)
    return tf.gather((tf.cumsum(sums, exclusive=True) + sums / 2.0) / (tf.reduce_sum(sums) + _EPSILON), group)


def _placement_auc(labels: Any, scores: Any, weights: Any, alpha: float, logit: bool) -> list:
    """The area under the ROC curve and its interval, from the placement of each class among the other (DeLong, 1988)."""
    order = tf.reverse(tf.nn.top_k(scores, tf.size(scores))[1], [0])
    scores, weights = tf.gather(scores, order), tf.gather(weights, order)
    is_one = tf.cast(tf.gather(labels, order), weights.dtype)
    of_class = {True: weights * is_one, False: weights * (1.0 - is_one)}
    total = {c: tf.reduce_sum(w) for c, w in of_class.items()}
    wins = {True: _placements(scores, of_class[False]), False: 1.0 - _placements(scores, of_class[True])}
    area = {c: tf.reduce_sum(of_class[c] * wins[c]) / (total[c] + _EPSILON) for c in wins}
    spread = {c: tf.reduce_sum(of_class[c] * tf.squared_difference(wins[c], area[c])) / (total[c] - 1.0 + _EPSILON)
              for c in wins}
    auc = tf.where(total[False] < total[True], area[True], area[False])
    error = tf.sqrt(sum(spread[c] / (total[c] + _EPSILON) for c in spread))
    z = tf.cast(tf.math.ndtri(tf.constant((1.0 - alpha) / 2.0, tf.float64)), auc.dtype)
    if logit:
        centre, half = tf.log(auc / (1.0 - auc + _EPSILON)), z * error / (auc * (1.0 - auc + _EPSILON))
        bounds = [1.0 / (1.0 + tf.exp(-x) + _EPSILON) for x in (centre + half, centre - half)]
    else:
        bounds = [auc + z * error, auc - z * error]
    certain = tf.logical_or(tf.equal(auc, 1.0), tf.equal(auc, 0.0))
    return [auc, *(tf.where(certain, auc, bound) for bound in bounds)]


@export(v1=["contrib.metrics.auc_with_confidence_intervals", "contrib.slim.metrics.auc_with_confidence_intervals"])
def auc_with_confidence_intervals(labels: Any, predictions: Any, weights: Any = None, alpha: float = 0.95,
                                  logit_transformation: bool = True, metrics_collections: Any = (),
                                  updates_collections: Any = (), name: str | None = None) -> tuple[Any, Any]:
    """The area under the ROC curve and the bounds of its confidence interval (`auc`, `lower`, `upper`). All rows are kept."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1; currently {alpha:.02f}")
    weights = tf.ones_like(predictions) if weights is None else weights
    with tf.variable_scope(name, "auc_with_confidence_intervals", [labels, predictions, weights]):
        predictions, labels, weights = aligned(predictions, labels, weights)
        enough = tf.reduce_sum(weights) >= 1.0
        flat = _binary(labels)
        kept = [streaming_concat(v, name=f"concat_{n}") for n, v in (
            ("preds", tf.reshape(tf.cast(predictions, tf.float64), [-1])), ("labels", flat),
            ("weights", tf.reshape(weights, [-1])))]
        scores, classes, every = (value for value, _ in kept)
        both = tf.logical_and(tf.equal(tf.reduce_min(flat), 0), tf.equal(tf.reduce_max(flat), 1))
        update = tf.cond(enough, lambda: tf.group(*(update for _, update in kept)), tf.no_op)
        value = AucData(*tf.cond(tf.logical_and(both, enough),
                                 lambda: _placement_auc(classes, scores, every, alpha, logit_transformation),
                                 lambda: [tf.constant(0.0)] * 3))
        return published(value, update, metrics_collections, updates_collections)
