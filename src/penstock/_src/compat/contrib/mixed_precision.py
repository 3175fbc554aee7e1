"""tf.contrib.mixed_precision: losses that are scaled up, for half precision, and their gradients, scaled down."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


def _export(cls: type) -> type:
    return export(v1=[f"contrib.mixed_precision.{cls.__name__}"])(cls)


@_export
class LossScaleManager:
    """Chooses the scale, and changes it after each step."""

    def get_loss_scale(self) -> Any:
        """The scale, a scalar."""
        raise NotImplementedError

    def update_loss_scale(self, finite_grads: Any) -> Any:
        """An op that changes the scale, given whether all gradients were finite."""
        raise NotImplementedError


@_export
class FixedLossScaleManager(LossScaleManager):
    """A constant scale, of at least 1."""

    def __init__(self, loss_scale: Any):
        if loss_scale < 1:
            raise ValueError(f"loss_scale must be at least 1, but is {loss_scale}.")
        self._loss_scale = tf.convert_to_tensor(loss_scale, dtype=tf.float32)

    def get_loss_scale(self) -> Any:
        """The scale."""
        return self._loss_scale

    def update_loss_scale(self, finite_grads: Any) -> Any:
        """Nothing changes."""
        return tf.no_op()


@_export
class ExponentialUpdateLossScaleManager(LossScaleManager):
    """A scale that grows after consecutive steps with finite gradients, and shrinks after steps with others."""

    def __init__(self, init_loss_scale: Any, incr_every_n_steps: int, decr_every_n_nan_or_inf: int = 2, incr_ratio: float = 2,
                 decr_ratio: float = 0.8):
        self._incr_every_n_steps, self._decr_every_n_nan_or_inf = incr_every_n_steps, decr_every_n_nan_or_inf
        self._incr_ratio, self._decr_ratio = incr_ratio, decr_ratio
        self._loss_scale = tf.Variable(init_loss_scale, trainable=False, name="loss_scale", dtype=tf.float32)
        self._num_good_steps = tf.Variable(0, trainable=False, name="good_steps", dtype=tf.int32)
        self._num_bad_steps = tf.Variable(0, trainable=False, name="bad_steps", dtype=tf.int32)

    def get_loss_scale(self) -> Any:
        """The scale."""
        return self._loss_scale.value()

    def update_loss_scale(self, finite_grads: Any) -> Any:
        """Counts the step, and changes the scale if it is due."""
        finite = tf.convert_to_tensor(finite_grads)
        scale, zero = self._loss_scale.read_value(), tf.constant(0)
        good = tf.where(finite, self._num_good_steps.read_value() + 1, zero)
        bad = self._num_bad_steps.read_value() + tf.where(finite, zero, 1)
        grows, shrinks = finite & (good >= self._incr_every_n_steps), ~finite & (bad >= self._decr_every_n_nan_or_inf)
        more = tf.where(tf.is_finite(scale * self._incr_ratio), scale * self._incr_ratio, scale)
        scale = tf.where(grows, more, tf.where(shrinks, tf.maximum(1.0, scale * self._decr_ratio), scale))
        good, bad = (tf.where(grows | shrinks, zero, n) for n in (good, bad))
        with tf.control_dependencies([scale, good, bad]):
            return tf.group(self._loss_scale.assign(scale), self._num_good_steps.assign(good), self._num_bad_steps.assign(bad))


@_export
class LossScaleOptimizer(tf.train.Optimizer):
    """An optimizer around another one. It scales the loss, and leaves out steps whose gradients are not finite.

    >>> manager = tf.contrib.mixed_precision.FixedLossScaleManager(1024)
    >>> optimizer = tf.contrib.mixed_precision.LossScaleOptimizer(tf.train.AdamOptimizer(), manager)
    """

    def __init__(self, opt: Any, loss_scale_manager: LossScaleManager):
        super().__init__(False, "LossScaleOptimizer")
        self._opt, self._loss_scale_manager = opt, loss_scale_manager

    def compute_gradients(self, loss: Any, var_list: Any = None, gate_gradients: int = tf.train.Optimizer.GATE_OP,
                          aggregation_method: Any = None, colocate_gradients_with_ops: bool = False,
                          grad_loss: Any = None) -> Any:
        """The gradients of the loss, computed from the scaled one."""
        scale = self._loss_scale_manager.get_loss_scale()

        def scaled(value: Any) -> Any:
            return value * tf.cast(scale, value.dtype.base_dtype)
        large = (lambda: scaled(loss())) if callable(loss) else scaled(loss)
        pairs = self._opt.compute_gradients(large, var_list, gate_gradients, aggregation_method, colocate_gradients_with_ops,
                                            grad_loss)
        return [(g if g is None else g * tf.cast(1 / scale, g.dtype.base_dtype), v) for g, v in pairs]

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Applies the gradients if all are finite, and updates the scale."""
        pairs = list(grads_and_vars)
        finite = tf.reduce_all([tf.reduce_all(tf.is_finite(g)) for g, _ in pairs if g is not None])
        applied = tf.cond(finite, lambda: self._opt.apply_gradients(pairs, global_step, name), tf.no_op)
        return tf.group(applied, self._loss_scale_manager.update_loss_scale(finite))
