"""tf.losses: weighted losses that register themselves in the graph's LOSSES collection.

Each loss is an elementwise function of labels and predictions; `compute_weighted_loss` multiplies by the weights, reduces,
and adds the result to the collection. Names that Keras has in the 2.x API too end in V1 or _v1 here.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.convert import convert
from penstock._src.library.weights import assert_broadcastable, broadcast_weights, squeeze_weights
from penstock._src.ops.math.confusion import remove_squeezable_dimensions
from penstock.compat import v1 as tf


@export(v1=["losses.Reduction"])
class ReductionV1:
    """How weighted losses are reduced.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     loss = tf.losses.mean_squared_error([1., 2.], [1., 4.], reduction=tf.losses.Reduction.NONE)
    ...     print(sess.run(loss))
    [0. 4.]
    """

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple:
        """All the keys."""
        return (cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_OVER_NONZERO_WEIGHTS,
                cls.SUM_BY_NONZERO_WEIGHTS)

    @classmethod
    def validate(cls, key: str) -> None:
        """Raises ValueError if `key` is not one of them."""
        if key not in cls.all():
            raise ValueError(f"Invalid reduction {key!r}: use one of {cls.all()}.")


DEFAULT = ReductionV1.SUM_BY_NONZERO_WEIGHTS


@export(v1=["losses.add_loss"])
def add_loss(loss: Any, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Adds a loss to a collection (in graphs)."""
    if loss_collection and not context.executing_eagerly():
        tf.add_to_collection(loss_collection, loss)


@export(v1=["losses.get_losses"])
def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list:
    """The losses of a collection, below a scope."""
    return tf.get_collection(loss_collection, scope)


@export(v1=["losses.get_regularization_losses"])
def get_regularization_losses(scope: str | None = None) -> list:
    """The regularization losses below a scope."""
    return tf.get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


@export(v1=["losses.get_regularization_loss"])
def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Any:
    """The sum of the regularization losses."""
    losses = get_regularization_losses(scope)
    return tf.add_n(losses, name=name) if losses else tf.constant(0.0)


@export(v1=["losses.get_total_loss"])
def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None) -> Any:
    """The sum of all losses, and of the regularization losses.

    Args:
        add_regularization_losses: Whether to add the regularization losses.
        name: Name of the sum.
        scope: Regular expression that names of losses have to begin with.

    Returns:
        A scalar.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     loss = tf.losses.mean_squared_error([1., 2.], [1., 4.])
    ...     other = tf.losses.absolute_difference([1.], [2.])
    ...     print(sess.run(tf.losses.get_total_loss()))
    3.0
    """
    losses = get_losses(scope=scope)
    if add_regularization_losses:
        losses += get_regularization_losses(scope=scope)
    return tf.add_n(losses, name=name)


def _number_of_elements(losses: Any) -> Any:
    return tf.cast(tf.size(losses), losses.dtype)


def _number_present(losses: Any, weights: Any, per_batch: bool = False) -> Any:
    """How many elements have a weight that is not zero."""
    if isinstance(weights, float) and weights != 0.0:
        return _number_of_elements(losses)
    with tf.name_scope(None, "num_present", (losses, weights)) as scope:
        weights = tf.cast(weights, tf.float32)
        present = tf.cast(tf.not_equal(weights, 0.0), tf.float32)
        present = broadcast_weights(present, losses)
        if per_batch:
            return tf.reduce_sum(present, axis=tf.range(1, tf.rank(present)), keepdims=True, name=scope)
        return tf.reduce_sum(present, name=scope)


@export(v1=["losses.compute_weighted_loss"])
def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: str | None = None,
                          loss_collection: str | None = GraphKeys.LOSSES, reduction: str = DEFAULT) -> Any:
    """losses * weights, reduced and added to the collection."""
    ReductionV1.validate(reduction)
    if not context.executing_eagerly():
        context.current_graph()._last_loss_reduction = reduction
    with tf.name_scope(scope, "weighted_loss", (losses, weights)):
        losses = convert(losses)
        given, dtype = weights, losses.dtype
        losses, weights = tf.cast(losses, tf.float32), tf.cast(weights, tf.float32)
        with tf.control_dependencies([assert_broadcastable(weights, losses)]):
            weighted = tf.multiply(losses, weights)
            loss = _reduced(weighted, losses, weights, given, reduction)
        loss = tf.cast(loss, dtype)
        add_loss(loss, loss_collection)
        return loss


def _reduced(weighted: Any, losses: Any, weights: Any, given: Any, reduction: str) -> Any:
    if reduction == ReductionV1.NONE:
        return weighted
    total = tf.reduce_sum(weighted)
    if reduction == ReductionV1.MEAN:
        return tf.div_no_nan(total, tf.reduce_sum(tf.ones_like(losses) * weights), name="value")
    if reduction == ReductionV1.SUM_BY_NONZERO_WEIGHTS:
        return tf.div_no_nan(total, _number_present(losses, given if isinstance(given, float) else weights), name="value")
    if reduction == ReductionV1.SUM_OVER_BATCH_SIZE:
        return tf.div_no_nan(total, _number_of_elements(losses), name="value")
    return total


def _required(**values: Any) -> None:
    for name, v in values.items():
        if v is None:
            raise ValueError(f"{name} must not be None.")


def _elementwise(name: str, labels: Any, predictions: Any, weights: Any, scope: Any, collection: Any, reduction: str,
                 f: Callable) -> Any:
    """A loss that is `f(labels, predictions)` on float32 tensors of one shape."""
    _required(labels=labels, predictions=predictions)
    with tf.name_scope(scope, name, (predictions, labels, weights)) as scope:
        predictions, labels = tf.cast(predictions, tf.float32), tf.cast(labels, tf.float32)
        predictions.shape.assert_is_compatible_with(labels.shape)
        return compute_weighted_loss(f(labels, predictions), weights, scope, collection, reduction=reduction)


@export(v1=["losses.absolute_difference"])
def absolute_difference(labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
                        loss_collection: str | None = GraphKeys.LOSSES, reduction: str = DEFAULT) -> Any:
    """|predictions - labels|."""
    return _elementwise("absolute_difference", labels, predictions, weights, scope, loss_collection, reduction,
                        lambda y, p: tf.abs(tf.subtract(p, y)))


@export(v1=["losses.cosine_distance"])
def cosine_distance(labels: Any, predictions: Any, axis: int | None = None, weights: Any = 1.0, scope: str | None = None,
                    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = DEFAULT,
                    dim: int | None = None) -> Any:
    """1 - labels · predictions along `axis`; both are assumed to have unit length."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    return _elementwise("cosine_distance_loss", labels, predictions, weights, scope, loss_collection, reduction,
                        lambda y, p: 1 - tf.reduce_sum(tf.multiply(p, y), axis=(axis,), keepdims=True))


@export(v1=["losses.hinge_loss"])
def hinge_loss(labels: Any, logits: Any, weights: Any = 1.0, scope: str | None = None,
               loss_collection: str | None = GraphKeys.LOSSES, reduction: str = DEFAULT) -> Any:
    """max(0, 1 - y · logits), where labels 0 and 1 become y = -1 and 1."""
    _required(labels=labels, logits=logits)
    return _elementwise("hinge_loss", labels, logits, weights, scope, loss_collection, reduction,
                        lambda y, p: tf.nn.relu(tf.subtract(tf.ones_like(y), tf.multiply(2 * y - tf.ones_like(y), p))))


@export(v1=["losses.huber_loss"])
def huber_loss(labels: Any, predictions: Any, weights: Any = 1.0, delta: float = 1.0, scope: str | None = None,
               loss_collection: str | None = GraphKeys.LOSSES, reduction: str = DEFAULT) -> Any:
    """Squared for errors up to `delta`, linear beyond."""
    def f(y: Any, p: Any) -> Any:
        error = tf.abs(tf.subtract(p, y))
        quadratic = tf.minimum(error, delta)
        return 0.5 * quadratic * quadratic + delta * (error - quadratic)
    return _elementwise("huber_loss", labels, predictions, weights, scope, loss_collection, reduction, f)


@export(v1=["losses.log_loss"])
def log_loss(labels: Any, predictions: Any, weights: Any = 1.0, epsilon: float = 1e-7, scope: str | None = None,
             loss_collection: str | None = GraphKeys.LOSSES, reduction: str = DEFAULT) -> Any:
    """-y log(p) - (1 - y) log(1 - p)."""
    return _elementwise("log_loss", labels, predictions, weights, scope, loss_collection, reduction,
                        lambda y, p: -tf.multiply(y, tf.log(p + epsilon))
                        - tf.multiply(1 - y, tf.log(1 - p + epsilon)))


@export(v1=["losses.mean_squared_error"])
def mean_squared_error_v1(labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
                       loss_collection: str | None = GraphKeys.LOSSES, reduction: str = DEFAULT) -> Any:
    """(predictions - labels)².

    Args:
        labels: The true values.
        predictions: The predicted values, of the shape of `labels`.
        weights: Coefficient per element, broadcast to the losses; 0 leaves an element out.
        scope: Prefix of the names of the layer's variables and operations.
        loss_collection: Collection that the loss is added to.
        reduction: How the elements are combined into one number; see `tf.losses.Reduction`.

    Returns:
        The loss: a scalar, unless `reduction` is NONE.

    Raises:
        ValueError: if the shapes differ.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     print(sess.run(tf.losses.mean_squared_error([1., 2.], [1., 4.])))
    2.0
    """
    return _elementwise("mean_squared_error", labels, predictions, weights, scope, loss_collection, reduction,
                        lambda y, p: tf.squared_difference(p, y))


@export(v1=["losses.mean_pairwise_squared_error"])
def mean_pairwise_squared_error(labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
                                loss_collection: str | None = GraphKeys.LOSSES) -> Any:
    """The squared differences between the errors of pairs of elements of one example, averaged."""
    _required(labels=labels, predictions=predictions)
    with tf.name_scope(scope, "mean_pairwise_squared_error", (predictions, labels, weights)):
        weights, labels = tf.cast(weights, tf.float32), tf.cast(labels, tf.float32)
        with tf.control_dependencies([assert_broadcastable(weights, labels)]):
            errors = tf.cast(predictions, tf.float32)
            errors.shape.assert_is_compatible_with(labels.shape)
            errors = tf.subtract(errors, labels)
            rest = tf.range(1, tf.rank(errors))
            n = _number_present(errors, weights, per_batch=True)
            squares = tf.reduce_sum(tf.square(errors), axis=rest, keepdims=True)
            total = tf.reduce_sum(errors, axis=rest, keepdims=True)
            pairs = 2.0 * tf.div_no_nan(squares, tf.maximum(n - 1, 0)) \
                - 2.0 * tf.div_no_nan(tf.square(total), tf.maximum(n * (n - 1), 0))
            loss = tf.reduce_sum(tf.multiply(pairs, weights))
            loss = tf.where(tf.reduce_sum(n) > 0, loss, tf.zeros_like(loss), name="value")
            add_loss(loss, loss_collection)
            return loss


@export(v1=["losses.sigmoid_cross_entropy"])
def sigmoid_cross_entropy(multi_class_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0,
                          scope: str | None = None, loss_collection: str | None = GraphKeys.LOSSES,
                          reduction: str = DEFAULT) -> Any:
    """Cross entropy of independent classes; smoothing pulls the labels towards 1/2."""
    _required(multi_class_labels=multi_class_labels, logits=logits)
    with tf.name_scope(scope, "sigmoid_cross_entropy_loss", (logits, multi_class_labels, weights)) as scope:
        logits = convert(logits)
        labels = tf.cast(multi_class_labels, logits.dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


@export(v1=["losses.softmax_cross_entropy"])
def softmax_cross_entropy(onehot_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0,
                          scope: str | None = None, loss_collection: str | None = GraphKeys.LOSSES,
                          reduction: str = DEFAULT) -> Any:
    """Cross entropy of one-hot labels; smoothing spreads a part of each label over all classes.

    Args:
        onehot_labels: Probabilities of the classes.
        logits: Unnormalized log-probabilities.
        weights: Coefficient per element, broadcast to the losses; 0 leaves an element out.
        label_smoothing: Part of each label that is spread over all classes.
        scope: Prefix of the names of the layer's variables and operations.
        loss_collection: Collection that the loss is added to.
        reduction: How the elements are combined into one number; see `tf.losses.Reduction`.

    Returns:
        The loss: a scalar, unless `reduction` is NONE.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     loss = tf.losses.softmax_cross_entropy(onehot_labels=[[0., 1.]], logits=[[0., 0.]])
    ...     print(sess.run(loss))
    0.6931472
    """
    _required(onehot_labels=onehot_labels, logits=logits)
    with tf.name_scope(scope, "softmax_cross_entropy_loss", (logits, onehot_labels, weights)) as scope:
        logits = convert(logits)
        labels = tf.cast(onehot_labels, logits.dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        if label_smoothing > 0:
            classes = tf.cast(tf.shape(labels)[-1], logits.dtype)
            labels = labels * (1.0 - label_smoothing) + label_smoothing / classes
        losses = tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.stop_gradient(labels), logits=logits,
                                                            name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


@export(v1=["losses.sparse_softmax_cross_entropy"])
def sparse_softmax_cross_entropy(labels: Any, logits: Any, weights: Any = 1.0, scope: str | None = None,
                                 loss_collection: str | None = GraphKeys.LOSSES, reduction: str = DEFAULT) -> Any:
    """Cross entropy of class numbers.

    Args:
        labels: Class numbers.
        logits: Unnormalized log-probabilities.
        weights: Coefficient per element, broadcast to the losses; 0 leaves an element out.
        scope: Prefix of the names of the layer's variables and operations.
        loss_collection: Collection that the loss is added to.
        reduction: How the elements are combined into one number; see `tf.losses.Reduction`.

    Returns:
        The loss: a scalar, unless `reduction` is NONE.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     loss = tf.losses.sparse_softmax_cross_entropy(labels=[1], logits=[[0., 0.]])
    ...     print(sess.run(loss))
    0.6931472
    """
    _required(labels=labels, logits=logits)
    with tf.name_scope(scope, "sparse_softmax_cross_entropy_loss", (logits, labels, weights)) as scope:
        labels, logits = remove_squeezable_dimensions(labels, logits, expected_rank_diff=1)
        weights = squeeze_weights(weights, labels)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


