"""Losses as objects: a function, its arguments, and how its values become one number."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock._src.models.distribute.contexts import has_strategy
from penstock._src.models.keras import backend as K
from penstock._src.models.keras import user_code
from penstock._src.models.keras.losses import functions
from penstock._src.models.keras.losses.reduction import Reduction, compute_weighted_loss, masked_weights, same_rank
from penstock._src.models.keras.utils.generic_utils import uses_earlier_configs
from penstock._src.state.variables.variable import Variable

AUTO = Reduction.AUTO


def _named(name: str) -> Any:
    return export(f"keras.losses.{name}", v2=[f"losses.{name}"])


@_named("Loss")
class Loss:
    """Base of the losses. A subclass has `call(y_true, y_pred)`, which returns one number per sample.

    `loss(y_true, y_pred, sample_weight=None)` calls it and reduces the result.

    Args:
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    Raises:
        ValueError: for an unknown reduction.

    >>> class Absolute(tf.keras.losses.Loss):
    ...     def call(self, y_true, y_pred):
    ...         return tf.reduce_mean(tf.abs(y_true - y_pred), axis=-1)
    >>> float(Absolute()(tf.constant([[0., 1.]]), tf.constant([[1., 3.]])))
    1.5
    """

    _allow_sum_over_batch_size = False          # `compile` sets it: `fit` weights the means of replicas by their rows

    def __init__(self, reduction: Any = AUTO, name: str | None = None):
        Reduction.validate(reduction)
        self.reduction, self.name = reduction, name

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        scope = "lambda" if self.name == "<lambda>" else self.name or type(self).__name__
        with tf.name_scope(scope):
            call = user_code.traced(self.call) if user_code.is_users(type(self)) else self.call
            losses = call(y_true, y_pred)
            masks = [m for m in (getattr(x, "_keras_mask", None) for x in (y_pred, losses)) if m is not None]
            if masks and context.eager_outside_functions():
                mask = functools.reduce(tf.logical_and, masks)
                sample_weight = masked_weights(sample_weight, mask, losses.dtype, self._get_reduction())
            return compute_weighted_loss(losses, sample_weight, reduction=self._get_reduction())

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The loss of a configuration."""
        return cls(**config)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the loss."""
        return {"reduction": self.reduction, "name": self.name}

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """The losses of the samples."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def _get_reduction(self) -> str:
        if self.reduction in (AUTO, Reduction.SUM_OVER_BATCH_SIZE) and not self._allow_sum_over_batch_size and has_strategy():
            raise ValueError("Please use `tf.keras.losses.Reduction.SUM` or `tf.keras.losses.Reduction.NONE` for loss "
                             "reduction when losses are used with `tf.distribute.Strategy`, except for specifying losses in "
                             "`Model.compile()` for use by `Model.fit()`: the mean over the examples of one replica would be "
                             "added up over all replicas. Divide by the global batch size instead: "
                             "tf.nn.compute_average_loss(losses, global_batch_size=n).")
        return Reduction.SUM_OVER_BATCH_SIZE if self.reduction == AUTO else self.reduction


@export(v2=["keras.__internal__.losses.LossFunctionWrapper"])
class LossFunctionWrapper(Loss):
    """A loss made of a function, with arguments for it."""

    def __init__(self, fn: Callable, reduction: Any = AUTO, name: str | None = None, **kwargs: Any):
        super().__init__(reduction=reduction, name=name)
        self.fn, self._fn_kwargs = fn, kwargs

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The loss of a configuration; Keras 2 also writes the name of the function that a class has anyway."""
        return cls(**{k: v for k, v in config.items() if k != "fn" or cls is LossFunctionWrapper})

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """The losses of the samples."""
        if isinstance(y_true, Tensor) and isinstance(y_pred, Tensor):
            y_true, y_pred = same_rank(y_true, y_pred)
        fn = user_code.traced(self.fn) if user_code.is_users(self.fn) else self.fn
        return fn(y_true, y_pred, **self._fn_kwargs)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the loss."""
        given = {k: K.eval(v) if isinstance(v, (Tensor, Variable)) else v for k, v in self._fn_kwargs.items()}
        fn = {} if uses_earlier_configs() else {"fn": getattr(self.fn, "__name__", None)}
        return {**super().get_config(), **given, **fn}


@_named("MeanSquaredError")
class MeanSquaredError(LossFunctionWrapper):
    """The mean of squared differences.

    Args:
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> float(tf.keras.losses.MeanSquaredError()([[0., 1.]], [[1., 1.]]))
    0.5
    """

    def __init__(self, reduction: Any = AUTO, name: str | None = "mean_squared_error"):
        super().__init__(functions.mean_squared_error, reduction, name)


@_named("MeanAbsoluteError")
class MeanAbsoluteError(LossFunctionWrapper):
    """The mean of absolute differences.

    Args:
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> float(tf.keras.losses.MeanAbsoluteError()([[0., 1.]], [[1., 3.]]))
    1.5
    """

    def __init__(self, reduction: Any = AUTO, name: str | None = "mean_absolute_error"):
        super().__init__(functions.mean_absolute_error, reduction, name)


@_named("MeanAbsolutePercentageError")
class MeanAbsolutePercentageError(LossFunctionWrapper):
    """The mean of absolute differences in percent of the labels.

    Args:
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> float(tf.keras.losses.MeanAbsolutePercentageError()([[2., 4.]], [[1., 4.]]))
    25.0
    """

    def __init__(self, reduction: Any = AUTO, name: str | None = "mean_absolute_percentage_error"):
        super().__init__(functions.mean_absolute_percentage_error, reduction, name)


@_named("MeanSquaredLogarithmicError")
class MeanSquaredLogarithmicError(LossFunctionWrapper):
    """The mean of squared differences of log(1 + x).

    Args:
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> float(tf.keras.losses.MeanSquaredLogarithmicError()([[0., 0.]], [[0., 0.]]))
    0.0
    """

    def __init__(self, reduction: Any = AUTO, name: str | None = "mean_squared_logarithmic_error"):
        super().__init__(functions.mean_squared_logarithmic_error, reduction, name)


@_named("BinaryCrossentropy")
class BinaryCrossentropy(LossFunctionWrapper):
    """Cross-entropy of labels 0 and 1 with probabilities, or with logits.

    Args:
        from_logits: Whether predictions are logits; by default they are probabilities.
        label_smoothing: Between 0 and 1: how much of each label is spread evenly over the classes.
        axis: The axis along which the mean is taken.
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
    >>> round(float(loss([[0.], [1.]], [[-1.], [2.]])), 3)
    0.22
    """

    def __init__(self, from_logits: bool = False, label_smoothing: float = 0.0, reduction: Any = AUTO,
                 name: str | None = "binary_crossentropy", axis: int = -1):
        extra = {"axis": axis} if axis != -1 or context.process.eager else {}          # 1.x has no such argument
        super().__init__(functions.binary_crossentropy, reduction, name, from_logits=from_logits,
                         label_smoothing=label_smoothing, **extra)
        self.from_logits = from_logits


@_named("CategoricalCrossentropy")
class CategoricalCrossentropy(LossFunctionWrapper):
    """Cross-entropy of labels that are distributions over classes.

    Args:
        from_logits: Whether predictions are logits; by default they are probabilities.
        label_smoothing: Between 0 and 1: how much of each label is spread evenly over the classes.
        axis: The axis of classes.
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> loss = tf.keras.losses.CategoricalCrossentropy()
    >>> round(float(loss([[0., 1.]], [[0.5, 0.5]])), 3)
    0.693
    """

    def __init__(self, from_logits: bool = False, label_smoothing: float = 0.0, reduction: Any = AUTO,
                 name: str | None = "categorical_crossentropy", axis: int = -1):
        extra = {"axis": axis} if axis != -1 or context.process.eager else {}          # 1.x has no such argument
        super().__init__(functions.categorical_crossentropy, reduction, name, from_logits=from_logits,
                         label_smoothing=label_smoothing, **extra)


@_named("SparseCategoricalCrossentropy")
class SparseCategoricalCrossentropy(LossFunctionWrapper):
    """Cross-entropy of labels that are numbers of classes.

    Args:
        from_logits: Whether predictions are logits; by default they are probabilities.
        ignore_class: A label whose samples do not count, such as the border of a segmentation.
        axis: The axis of classes.
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    >>> round(float(loss([1], [[0., 0.]])), 3)
    0.693
    """

    def __init__(self, from_logits: bool = False, reduction: Any = AUTO, name: str | None = "sparse_categorical_crossentropy",
                 ignore_class: int | None = None, axis: int = -1):
        extra = ({} if axis == -1 else {"axis": axis}) | \
            ({"ignore_class": ignore_class} if ignore_class is not None or context.process.eager else {})
        super().__init__(functions.sparse_categorical_crossentropy, reduction, name, from_logits=from_logits, **extra)


@export(v2=["keras.losses.BinaryFocalCrossentropy", "losses.BinaryFocalCrossentropy"])
class BinaryFocalCrossentropy(LossFunctionWrapper):
    """Focal binary cross-entropy: well-classified examples are weighted less.

    Args:
        apply_class_balancing: Whether to weight the classes by `alpha` and 1 - `alpha`.
        alpha: The weight of label 1 if classes are balanced.
        gamma: The exponent of the weight (1 - probability of the right class); 0 is plain cross-entropy.
        from_logits: Whether predictions are logits; by default they are probabilities.
        label_smoothing: Between 0 and 1: how much of each label is spread evenly over the classes.
        axis: The axis of classes.
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> loss = tf.keras.losses.BinaryFocalCrossentropy(gamma=2.0)
    >>> round(float(loss([[1.]], [[0.5]])), 3)
    0.173
    """

    def __init__(self, apply_class_balancing: bool = False, alpha: float = 0.25, gamma: float = 2.0, from_logits: bool = False,
                 label_smoothing: float = 0.0, axis: int = -1, reduction: Any = AUTO,
                 name: str | None = "binary_focal_crossentropy"):
        super().__init__(functions.binary_focal_crossentropy, reduction, name, apply_class_balancing=apply_class_balancing,
                         alpha=alpha, gamma=gamma, from_logits=from_logits, label_smoothing=label_smoothing, axis=axis)


@export(v2=["keras.losses.CategoricalFocalCrossentropy", "losses.CategoricalFocalCrossentropy"])
class CategoricalFocalCrossentropy(LossFunctionWrapper):
    """Focal categorical cross-entropy: well-classified examples are weighted less.

    Args:
        alpha: A weight for all classes, or one per class.
        gamma: The exponent of the weight (1 - probability of the right class); 0 is plain cross-entropy.
        from_logits: Whether predictions are logits; by default they are probabilities.
        label_smoothing: Between 0 and 1: how much of each label is spread evenly over the classes.
        axis: The axis of classes.
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> loss = tf.keras.losses.CategoricalFocalCrossentropy(alpha=1.0)
    >>> round(float(loss([[0., 1.]], [[0.5, 0.5]])), 3)
    0.173
    """

    def __init__(self, alpha: Any = 0.25, gamma: float = 2.0, from_logits: bool = False, label_smoothing: float = 0.0,
                 axis: int = -1, reduction: Any = AUTO, name: str | None = "categorical_focal_crossentropy"):
        super().__init__(functions.categorical_focal_crossentropy, reduction, name, alpha=alpha, gamma=gamma,
                         from_logits=from_logits, label_smoothing=label_smoothing, axis=axis)


@_named("Hinge")
class Hinge(LossFunctionWrapper):
    """The mean of max(1 - y_true * y_pred, 0).

    Args:
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> float(tf.keras.losses.Hinge()([[-1., 1.]], [[0.5, 2.]]))
    0.75
    """

    def __init__(self, reduction: Any = AUTO, name: str | None = "hinge"):
        super().__init__(functions.hinge, reduction, name)


@_named("SquaredHinge")
class SquaredHinge(LossFunctionWrapper):
    """The mean of max(1 - y_true * y_pred, 0) ** 2.

    Args:
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> float(tf.keras.losses.SquaredHinge()([[-1., 1.]], [[1., 2.]]))
    2.0
    """

    def __init__(self, reduction: Any = AUTO, name: str | None = "squared_hinge"):
        super().__init__(functions.squared_hinge, reduction, name)


@_named("CategoricalHinge")
class CategoricalHinge(LossFunctionWrapper):
    """The margin by which the best wrong class is within 1 of the right one, or above it.

    Args:
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> float(tf.keras.losses.CategoricalHinge()([[0., 1.]], [[0.5, 1.5]]))
    0.0
    """

    def __init__(self, reduction: Any = AUTO, name: str | None = "categorical_hinge"):
        super().__init__(functions.categorical_hinge, reduction, name)


@_named("Poisson")
class Poisson(LossFunctionWrapper):
    """The mean of y_pred - y_true * log(y_pred).

    Args:
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> round(float(tf.keras.losses.Poisson()([[0., 1.]], [[1., 1.]])), 3)
    1.0
    """

    def __init__(self, reduction: Any = AUTO, name: str | None = "poisson"):
        super().__init__(functions.poisson, reduction, name)


@_named("LogCosh")
class LogCosh(LossFunctionWrapper):
    """The mean of log(cosh(error)).

    Args:
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> round(float(tf.keras.losses.LogCosh()([[0.]], [[1.]])), 3)
    0.434
    """

    def __init__(self, reduction: Any = AUTO, name: str | None = "log_cosh"):
        super().__init__(functions.log_cosh, reduction, name)


@_named("KLDivergence")
class KLDivergence(LossFunctionWrapper):
    """sum(y_true * log(y_true / y_pred)).

    Args:
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> round(float(tf.keras.losses.KLDivergence()([[0.5, 0.5]], [[0.5, 0.5]])), 3)
    0.0
    """

    def __init__(self, reduction: Any = AUTO, name: str | None = "kl_divergence"):
        super().__init__(functions.kl_divergence, reduction, name)


@_named("Huber")
class Huber(LossFunctionWrapper):
    """Half the squared error up to `delta`, linear beyond.

    Args:
        delta: The error at which the square turns into a line.
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> float(tf.keras.losses.Huber(delta=1.0)([[0., 0.]], [[1., 3.]]))
    1.5
    """

    def __init__(self, delta: Any = 1.0, reduction: Any = AUTO, name: str | None = "huber_loss"):
        super().__init__(functions.huber, reduction, name, delta=delta)


@_named("CosineSimilarity")
class CosineSimilarity(LossFunctionWrapper):
    """Minus the cosine of the angle between labels and predictions.

    Args:
        axis: The axis of the vectors that are compared.
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> float(tf.keras.losses.CosineSimilarity()([[0., 1.]], [[0., 2.]]))
    -1.0
    """

    def __init__(self, axis: int = -1, reduction: Any = AUTO, name: str | None = "cosine_similarity"):
        super().__init__(functions.cosine_similarity, reduction, name, axis=axis)


@export(v2=["keras.losses.Dice", "losses.Dice"])
class Dice(LossFunctionWrapper):
    """1 - 2 * |both| / (|labels| + |predictions|).

    Args:
        axis: The axes to sum over, by default all.
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> round(float(tf.keras.losses.Dice()([[0., 1.]], [[0., 1.]])), 3)
    0.0
    """

    def __init__(self, reduction: Any = AUTO, name: str | None = "dice", axis: Any = None):
        super().__init__(functions.dice, reduction, name, axis=axis)


@export(v2=["keras.losses.Tversky", "losses.Tversky"])
class Tversky(LossFunctionWrapper):
    """Dice with weights for false positives and false negatives.

    Args:
        alpha: The weight of false positives.
        beta: The weight of false negatives.
        axis: The axes to sum over, by default all.
        reduction: How the losses of a batch become one number: `"sum_over_batch_size"` (the default), `"sum"`, or `"none"`
            for one per sample.
        name: Name of the loss.

    >>> round(float(tf.keras.losses.Tversky(alpha=0.3, beta=0.7)([[0., 1.]], [[0., 1.]])), 3)
    0.0
    """

    def __init__(self, alpha: float = 0.5, beta: float = 0.5, reduction: Any = AUTO, name: str | None = "tversky",
                 axis: Any = None):
        super().__init__(functions.tversky, reduction, name, alpha=alpha, beta=beta, axis=axis)
