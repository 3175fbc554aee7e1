"""optimize_loss: a training op with clipping, noise, decay and summaries, from one call."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.training.train.moving_averages import assign_moving_average
from penstock.compat import v1 as tf

OPTIMIZER_CLS_NAMES: dict[str, Callable] = {
    "Adagrad": lambda learning_rate: tf.train.AdagradOptimizer(learning_rate),
    "Adam": lambda learning_rate: tf.train.AdamOptimizer(learning_rate),
    "Ftrl": lambda learning_rate: tf.train.FtrlOptimizer(learning_rate),
    "Momentum": lambda learning_rate: tf.train.MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": lambda learning_rate: tf.train.RMSPropOptimizer(learning_rate),
    "SGD": lambda learning_rate: tf.train.GradientDescentOptimizer(learning_rate),
}
OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm"]
export.value(OPTIMIZER_CLS_NAMES, v1=["contrib.layers.OPTIMIZER_CLS_NAMES"])
export.value(OPTIMIZER_SUMMARIES, v1=["contrib.layers.OPTIMIZER_SUMMARIES"])


@export(v1=["contrib.layers.optimize_loss"])
def optimize_loss(loss: Any, global_step: Any, learning_rate: Any, optimizer: Any, gradient_noise_scale: float | None = None,
                  gradient_multipliers: Any = None, clip_gradients: Any = None, learning_rate_decay_fn: Any = None,
                  update_ops: Any = None, variables: Any = None, name: str | None = None, summaries: Any = None,
                  colocate_gradients_with_ops: bool = False, increment_global_step: bool = True) -> Tensor:
    """The loss, after a step of the optimizer (a name, a class, an instance or a function of the rate).

    >>> train = tf.contrib.layers.optimize_loss(loss, tf.train.get_global_step(), 0.1, "SGD", clip_gradients=5.0)
    """
    loss = tf.convert_to_tensor(loss)
    if loss.shape.ndims != 0:
        raise ValueError(f"Expected scalar shape for {loss.name}, received shape: {loss.shape}.")
    if global_step is None:
        global_step = tf.train.get_global_step()
    else:
        tf.train.assert_global_step(global_step)
    summaries = _checked_summaries(summaries)
    with tf.variable_scope(name, "OptimizeLoss", [loss, global_step]):
        update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
        if update_ops:
            with tf.control_dependencies(list(update_ops)):
                loss = tf.identity(loss)
        rate = _rate(learning_rate)
        if learning_rate is not None and learning_rate_decay_fn is not None:
            if global_step is None:
                raise ValueError("global_step is required for learning_rate_decay_fn.")
            rate = learning_rate_decay_fn(rate, global_step)
            if "learning_rate" in summaries:
                tf.summary.scalar("learning_rate", rate)
        chosen = _optimizer(optimizer, rate, learning_rate)
        gradients = chosen.compute_gradients(loss, tf.trainable_variables() if variables is None else variables,
                                             colocate_gradients_with_ops=colocate_gradients_with_ops)
        gradients = _changed(gradients, gradient_noise_scale, gradient_multipliers, clip_gradients, summaries)
        _summarize(loss, gradients, clip_gradients, summaries)
        applied = chosen.apply_gradients(gradients, global_step=global_step if increment_global_step else None, name="train")
        with tf.control_dependencies([applied]):
            return tf.identity(loss)


def _checked_summaries(summaries: Any) -> list[str]:
    if summaries is None:
        return ["loss", "learning_rate", "global_gradient_norm"]
    for each in summaries:
        if each not in OPTIMIZER_SUMMARIES:
            raise ValueError(f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], you provided {each}.")
    return summaries


def _rate(learning_rate: Any) -> Any:
    if learning_rate is None or (tf.is_tensor(learning_rate) and learning_rate.shape.ndims == 0):
        return learning_rate
    if not isinstance(learning_rate, float):
        raise ValueError(f"The learning rate must be a float or a scalar tensor; got {learning_rate!r}")
    if learning_rate < 0.0:
        raise ValueError(f"Invalid learning_rate {learning_rate}.")
    return tf.get_variable("learning_rate", [], trainable=False, initializer=tf.constant_initializer(learning_rate))


def _optimizer(optimizer: Any, rate: Any, learning_rate: Any) -> Any:
    kind = "string" if isinstance(optimizer, str) else "class"
    if isinstance(optimizer, str) or (isinstance(optimizer, type) and issubclass(optimizer, tf.train.Optimizer)):
        if rate is None:
            raise ValueError(f"Learning rate is None, but should be specified if optimizer is {kind} ({optimizer}).")
        if kind == "class":
            return optimizer(learning_rate=rate)
        if optimizer not in OPTIMIZER_CLS_NAMES:
            raise ValueError(f"Optimizer name should be one of [{', '.join(OPTIMIZER_CLS_NAMES)}], you provided {optimizer}.")
        return OPTIMIZER_CLS_NAMES[optimizer](learning_rate=rate)
    if isinstance(optimizer, tf.train.Optimizer):
        return optimizer
    if not callable(optimizer):
        raise ValueError("Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of "
                         "Optimizer or function with one "
                         f"argument. Got {optimizer}.")
    made = optimizer(rate) if learning_rate is not None else optimizer()
    if not isinstance(made, tf.train.Optimizer):
        raise ValueError(f"The function for the optimizer must return an Optimizer; got {made}.")
    return made


def _scaled(gradient: Any, factor: Any) -> Any:
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)


def _changed(gradients: list, noise_scale: float | None, multipliers: Any, clip: Any, summaries: list[str]) -> list:
    """The gradients after noise, multipliers and clipping."""
    if noise_scale is not None:
        gradients = [(None if g is None else tf.convert_to_tensor(g) + tf.truncated_normal(tf.shape(v)) * noise_scale, v)
                     for g, v in gradients]
    if multipliers is not None:
        by_name = {k if isinstance(k, str) else k.name: m for k, m in multipliers.items()}
        gradients = [(_scaled(g, by_name[v.name]) if v.name in by_name else g, v) for g, v in gradients]
        if not gradients:
            raise ValueError("Empty list of (gradient, var) pairs encountered. This is most likely to be caused by an improper "
                             "value of gradient_multipliers.")
    if "global_gradient_norm" in summaries or "gradient_norm" in summaries:
        tf.summary.scalar("global_norm/gradient_norm", tf.global_norm([g for g, _ in gradients]))
    if isinstance(clip, float):
        clipped, _ = tf.clip_by_global_norm([g for g, _ in gradients], clip)
        return list(zip(clipped, [v for _, v in gradients], strict=True))
    if callable(clip):
        return clip(gradients)
    if clip is not None:
        raise ValueError(f"Unknown type {type(clip)} for clip_gradients")
    return gradients


def _summarize(loss: Tensor, gradients: list, clip: Any, summaries: list[str]) -> None:
    if "loss" in summaries:
        tf.summary.scalar("loss", loss)
    for gradient, variable in gradients:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        if values is not None:
            name = variable.name.replace(":", "_")
            if "gradients" in summaries:
                tf.summary.histogram(f"gradients/{name}", values)
            if "gradient_norm" in summaries:
                tf.summary.scalar(f"gradient_norm/{name}", tf.global_norm([values]))
    if clip is not None and ("global_gradient_norm" in summaries or "gradient_norm" in summaries):
        tf.summary.scalar("global_norm/clipped_gradient_norm", tf.global_norm([g for g, _ in gradients]))


@export(v1=["contrib.layers.adaptive_clipping_fn"])
def adaptive_clipping_fn(std_factor: float = 2.0, decay: float = 0.95, static_max_norm: float | None = None,
                         global_step: Any = None, report_summary: bool = False, epsilon: float = 1e-8,
                         name: str | None = None) -> Callable:
    """Clips gradients whose norm is far above what it has been: for `clip_gradients` of `optimize_loss`."""
    def clip(grads_and_vars: list) -> list:
        norm = tf.global_norm([g for g, _ in grads_and_vars])
        with tf.variable_scope(name, "AdaptiveMaxNorm", [norm]):
            log_norm, kept = tf.log(norm + epsilon), decay
            if global_step is not None:
                n = tf.cast(global_step, tf.float32)
                kept = tf.minimum(decay, n / (n + 1.0))

            def average(key: str, value: Tensor) -> Tensor:
                moving = tf.get_variable(key, shape=value.shape, dtype=value.dtype, initializer=tf.zeros_initializer(),
                                         trainable=False)
                return assign_moving_average(moving, value, kept, zero_debias=False)

            mean, squares = average("mean", log_norm), average("sq_mean", tf.square(log_norm))
            deviation = tf.sqrt(tf.maximum(epsilon, squares - tf.square(mean)))
            max_norm = tf.exp(mean + std_factor * deviation)
        if report_summary:
            tf.summary.scalar("global_norm/adaptive_max_gradient_norm", max_norm)
        factor = tf.where(norm < max_norm, tf.ones_like(norm), tf.exp(mean) / norm)
        if static_max_norm is not None:
            factor = tf.minimum(static_max_norm / norm, factor)
        return [(_scaled(g, factor), v) for g, v in grads_and_vars]

    return clip
