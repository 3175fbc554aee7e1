"""Activations, losses on logits, normalization, dropout, and choosing by the learning phase."""
from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.node import Tensor
from penstock._src.models.keras.backend.config import checked_data_format, epsilon
from penstock._src.models.keras.backend.state import learning_phase
from penstock._src.models.keras.backend.tensors import int_shape, ndim
from penstock._src.models.keras.backend.variables import is_symbolic, is_variable
from penstock.compat import v1 as tf


# -- activations --------------------------------------------------------------------------------------------------------
@export("keras.backend.relu")
def relu(x: Any, alpha: Any = 0., max_value: Any = None, threshold: Any = 0) -> Any:
    """max(x, 0), with a slope below the threshold and a bound above.

    x >= max_value: max_value; threshold <= x < max_value: x; below: alpha * (x - threshold).
    """
    if alpha != 0. and max_value is None and threshold == 0:
        return tf.nn.leaky_relu(x, alpha=alpha)
    if alpha != 0.:
        below = tf.nn.relu(threshold - x if threshold != 0 else -x)
    if threshold != 0:
        y = x * tf.cast(tf.greater(x, threshold), x.dtype.base_dtype)
    else:
        y = tf.nn.relu6(x) if max_value == 6 else tf.nn.relu(x)
    if max_value is not None and not (max_value == 6 and threshold == 0):
        y = tf.clip_by_value(y, tf.cast(0., y.dtype), tf.cast(max_value, y.dtype))
    return y if alpha == 0. else y - tf.cast(alpha, y.dtype) * below


@export("keras.backend.elu")
def elu(x: Any, alpha: float = 1.) -> Any:
    """x where it is positive, else alpha * (exp(x) - 1)."""
    y = tf.nn.elu(x)
    return y if alpha == 1 else tf.where(tf.greater(x, 0), y, alpha * y)


@export("keras.backend.softmax")
def softmax(x: Any, axis: int = -1) -> Any:
    """The softmax along `axis`."""
    return tf.nn.softmax(x, axis=axis)


@export("keras.backend.softplus")
def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return tf.nn.softplus(x)


@export("keras.backend.softsign")
def softsign(x: Any) -> Any:
    """x / (1 + |x|)."""
    return tf.nn.softsign(x)


@export("keras.backend.sigmoid")
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return tf.nn.sigmoid(x)


@export("keras.backend.hard_sigmoid")
def hard_sigmoid(x: Any) -> Any:
    """0.2 x + 0.5, held between 0 and 1."""
    dtype = x.dtype.base_dtype
    return tf.clip_by_value(x * tf.constant(0.2, dtype) + tf.constant(0.5, dtype), 0., 1.)


@export("keras.backend.tanh")
def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return tf.nn.tanh(x)


@export("keras.backend.l2_normalize")
def l2_normalize(x: Any, axis: Any = None) -> Any:
    """Divided by the Euclidean norm along `axis`."""
    return tf.nn.l2_normalize(x, axis=axis)


@export("keras.backend.in_top_k")
def in_top_k(predictions: Any, targets: Any, k: int) -> Any:
    """Whether the targets are among the k largest predictions."""
    return tf.nn.in_top_k(predictions, targets, k)


@export("keras.backend.dropout")
def dropout(x: Any, level: Any, noise_shape: Any = None, seed: int | None = None) -> Any:
    """Elements set to zero at random, the others scaled up."""
    seed = np.random.randint(10 ** 7) if seed is None else seed
    return tf.nn.dropout(x, rate=level, noise_shape=noise_shape, seed=seed)


# -- losses -------------------------------------------------------------------------------------------------------------
def logits_of(output: Any, op_type: str) -> Any:
    """The input of the activation that computed `output`, if it is one of this type; else None."""
    if is_symbolic(output):
        op = output.op
        while op.type == "Identity":
            op = op.inputs[0].op
        if op.type == op_type:
            return op.inputs[0]
    kind, logits = getattr(output, "_activation_input", (None, None))
    return logits if kind == op_type else getattr(output, "_keras_logits", None)


def keep_logits(output: Any, logits: Any, op_type: str) -> Any:
    """Keeps the input of an activation with its eager output, as graphs do: a cross entropy of it does not round."""
    if isinstance(output, EagerTensor):
        output._activation_input = op_type, logits       # type: ignore[attr-defined]
    return output


def _logits_for_loss(output: Any, from_logits: bool, op_type: str) -> Any:
    """The logits that a cross entropy uses: the output itself, or the input of its activation; None if there are only
    probabilities. In 2.x an output of the activation is not taken for logits, even if `from_logits` says so."""
    if from_logits and not context.eager_outside_functions():
        return output
    found = logits_of(output, op_type)
    if not from_logits:
        return found
    if found is not None:
        warnings.warn(f"The loss has from_logits=True, but the output comes from a {op_type}: its input is used as the logits.",
                      stacklevel=3)
    return output if found is None else found


def _bounded(output: Any) -> Any:
    """Probabilities away from 0 and 1."""
    small = tf.constant(epsilon(), output.dtype.base_dtype)
    return tf.clip_by_value(output, small, 1. - small)


@export("keras.backend.categorical_crossentropy")
def categorical_crossentropy(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> Any:
    """The cross entropy of distributions along `axis`; the output is probabilities, or logits."""
    output = _tensor(output)
    target = _tensor(target)
    target.shape.assert_is_compatible_with(output.shape)
    logits = _softmax_logits(output, from_logits, axis)
    if logits is None:
        output = _bounded(output / tf.reduce_sum(output, axis, True))
        return -tf.reduce_sum(target * tf.log(output), axis)
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=target, logits=logits, axis=axis)


def _softmax_logits(output: Any, from_logits: bool, axis: int) -> Any:
    if axis in (-1, (ndim(output) or 0) - 1):
        return _logits_for_loss(output, from_logits, "Softmax")
    return output if from_logits else None


def _tensor(x: Any) -> Any:
    return x if isinstance(x, Tensor) or is_variable(x) else tf.convert_to_tensor(x)


def _check_classes(target: Tensor, output: Tensor) -> None:
    """InvalidArgumentError if there are known to be more or fewer labels than rows of logits."""
    labels, rows = target.shape.num_elements(), output.shape[:-1].num_elements()
    if labels is None or rows is None or labels == rows:
        return
    if target.shape.rank == output.shape.rank and labels == output.shape.num_elements():
        advice = "The labels look one-hot: use categorical_crossentropy, or tf.argmax(labels, -1)."
    elif output.shape.rank is not None and output.shape.rank > 2:
        advice = "Each position of the output is taken for an example: is a Flatten or a pooling layer missing before it?"
    else:
        advice = "Labels are one number per row."
    raise errors.invalid("logits and labels must have the same first dimension, got logits shape "
                         f"[{rows},{output.shape[-1]}] and labels shape [{labels}] (outputs {output.shape}, labels "
                         f"{target.shape}). {advice}")


@export("keras.backend.sparse_categorical_crossentropy")
def sparse_categorical_crossentropy(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> Any:
    """The cross entropy with labels that are integers."""
    output, target = _tensor(output), _tensor(target)
    logits = _softmax_logits(output, from_logits, axis)
    output = tf.log(_bounded(output)) if logits is None else logits
    rank = ndim(output)
    if rank is None and axis != -1:
        raise ValueError(f"Cannot compute sparse categorical crossentropy with `axis={axis}` on an output tensor with "
                         "unknown rank")
    if rank is not None and axis % rank != rank - 1:
        axis %= rank
        output = tf.transpose(output, [i for i in range(rank) if i != axis] + [axis])
    target = tf.cast(target, "int64")
    flat = rank is not None and ndim(target) is not None and ndim(target) != rank - 1
    dims = tf.shape(output)
    _check_classes(target, output)
    if flat:
        target, output = tf.reshape(target, [-1]), tf.reshape(output, [-1, dims[-1]])
    result = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=output)
    return tf.reshape(result, dims[:-1]) if flat and rank >= 3 else result


@export("keras.backend.binary_crossentropy")
def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Any:
    """The cross entropy of yes or no; the output is a probability, or its logit."""
    output, target = _tensor(output), _tensor(target)
    logits = _logits_for_loss(output, from_logits, "Sigmoid")
    if logits is None:
        p = _bounded(output)
        return -(target * tf.log(p + epsilon()) + (1 - target) * tf.log(1 - p + epsilon()))
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=logits)


# -- normalization ------------------------------------------------------------------------------------------------------
@export("keras.backend.normalize_batch_in_training")
def normalize_batch_in_training(x: Any, gamma: Any, beta: Any, reduction_axes: Any, epsilon: float = 1e-3) -> Any:
    """The batch with mean 0 and variance 1 along the axes, scaled and shifted; and the mean and variance it had."""
    axes, rank = list(reduction_axes), ndim(x)
    if rank == 4 and axes in ([0, 1, 2], [0, 2, 3]):
        size = x.shape[3 if axes == [0, 1, 2] else 1]
        gamma = tf.constant(1., x.dtype, [size]) if gamma is None else gamma
        beta = tf.constant(0., x.dtype, [size]) if beta is None else beta
        return tf.nn.fused_batch_norm(x, gamma, beta, epsilon=epsilon, data_format="NHWC" if axes[1] == 1 else "NCHW")
    mean, variance = tf.nn.moments(x, axes, keep_dims=False)
    if sorted(axes) == list(range(rank - 1)):
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon), mean, variance
    sizes = tf.shape(x)
    target = tf.stack([1 if i in axes else sizes[i] for i in range(rank)])
    wide = [None if v is None else tf.reshape(v, target) for v in (mean, variance, beta, gamma)]
    return tf.nn.batch_normalization(x, *wide, epsilon), mean, variance


@export("keras.backend.batch_normalization")
def batch_normalization(x: Any, mean: Any, var: Any, beta: Any, gamma: Any, axis: int = -1, epsilon: float = 1e-3) -> Any:
    """(x - mean) / sqrt(var + epsilon) * gamma + beta."""
    if ndim(x) != 4 or axis not in (1, -3, 3, -1):
        return tf.nn.batch_normalization(x, mean, var, beta, gamma, epsilon)
    flat = [v if v is None or ndim(v) == 1 else tf.reshape(v, [-1]) for v in (mean, var, beta, gamma)]
    mean, var, beta, gamma = flat
    beta = tf.zeros_like(mean) if beta is None else beta
    gamma = tf.ones_like(mean) if gamma is None else gamma
    y, _, _ = tf.nn.fused_batch_norm(x, gamma, beta, epsilon=epsilon, mean=mean, variance=var,
                                     data_format="NHWC" if axis in (3, -1) else "NCHW", is_training=False)
    return y


@export("keras.backend.bias_add")
def bias_add(x: Any, bias: Any, data_format: Any = None) -> Any:
    """A bias per channel, or one of the shape of an element of the batch."""
    first = checked_data_format(data_format) == "channels_first"
    rank, dims = ndim(x), int_shape(bias)
    if len(dims) not in (1, rank - 1):
        raise ValueError(f"Unexpected bias dimensions {len(dims)}, expect to be 1 or {rank} dimensions")
    if len(dims) == 1:
        if rank == 2 or not first:
            return tf.nn.bias_add(x, bias)
        return x + tf.reshape(bias, (1, dims[0]) + (1,) * (rank - 2))
    if first:
        return x + tf.reshape(bias, (1, dims[-1], *dims[:-1]))
    return x + tf.reshape(bias, (1, *dims))


# -- choices ------------------------------------------------------------------------------------------------------------
@export("keras.backend.switch")
def switch(condition: Any, then_expression: Any, else_expression: Any) -> Any:
    """One of two expressions (tensors, or functions that make them): for a scalar condition all of it, else by element."""
    if not (isinstance(condition, Tensor) or is_variable(condition)):
        condition = tf.convert_to_tensor(condition)
    if condition.dtype.base_dtype != tf.bool:
        condition = tf.cast(condition, "bool")
    rank = ndim(condition)
    if not rank:
        return tf.cond(condition, then_expression if callable(then_expression) else lambda: then_expression,
                       else_expression if callable(else_expression) else lambda: else_expression)
    yes = then_expression() if callable(then_expression) else then_expression
    no = else_expression() if callable(else_expression) else else_expression
    wanted = ndim(yes)
    if rank > wanted:
        raise ValueError("Rank of `condition` should be less than or equal to rank of `then_expression` and "
                         f"`else_expression`. ndim(condition)={rank}, ndim(then_expression)={wanted}")
    if rank < wanted and rank > 1:
        dims = tf.concat([tf.shape(condition), [1] * (wanted - rank)], axis=0)
        condition = tf.logical_and(tf.reshape(condition, dims), tf.ones_like(yes, dtype=tf.bool))
    elif rank == wanted:
        condition = tf.logical_and(condition, tf.ones_like(yes, dtype=tf.bool))
    return tf.where(condition, yes, no)


@export("keras.backend.in_train_phase")
def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """`x` while training, else `alt` (tensors, or functions that make them).

    >>> y = tf.keras.backend.in_train_phase(lambda: tf.nn.dropout(x, rate=0.5), x)
    """
    if training is None:
        training = learning_phase()
    if not (isinstance(training, Tensor) or is_variable(training)):
        chosen = x if training in (1, True) else alt
        return chosen() if callable(chosen) else chosen
    return switch(training, x, alt)


@export("keras.backend.in_test_phase")
def in_test_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """`x` while predicting, else `alt` (tensors, or functions that make them)."""
    return in_train_phase(alt, x, training=training)
