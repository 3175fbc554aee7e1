"""Loss scales: a factor that prevents underflow of small gradients in half precision.

The loss is multiplied by it before gradients are taken, and the gradients are divided by it. A dynamic one grows while
gradients stay finite, and shrinks when they do not; such a step is skipped.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.scopes import control_dependencies, init_scope
from penstock._src.graph.strategies import active_frame
from penstock._src.graph.trackable import Trackable
from penstock._src.ops.control.control_flow import cond
from penstock._src.ops.core import group
from penstock._src.ops.registry import get
from penstock._src.state.variables.variable import VariableV1
from penstock._src.training.train.optimizer import Optimizer, cast


@export("train.experimental.LossScale", v1=["mixed_precision.LossScale", "mixed_precision.experimental.LossScale"])
class LossScale(Trackable):
    """Base of the loss scales: `scale()` is the factor, `update(grads)` adjusts it to gradients."""

    def __init__(self) -> None:
        self._weights: dict[str, Any] = {}

    def __call__(self) -> Any:
        """The factor, as a tensor."""
        raise NotImplementedError

    def update(self, grads: Any) -> tuple[Any, Any]:
        """An op that changes the factor, and whether the gradients shall be applied."""
        raise NotImplementedError

    def _add_weight(self, name: str, initial_value: Any, dtype: Any = None) -> Any:
        """A variable of the scale, saved under its name."""
        with init_scope():
            made = VariableV1(initial_value, name=name, dtype=dtype, trainable=False, use_resource=True)
        self._weights[name] = self._track_trackable(made, name)
        return made

    def get_config(self) -> dict[str, Any]:
        """The arguments that make the same scale again."""
        raise NotImplementedError

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The scale of a configuration."""
        return cls(**config)


@export("train.experimental.FixedLossScale",
        v1=["mixed_precision.FixedLossScale", "mixed_precision.experimental.FixedLossScale"])
class FixedLossScale(LossScale):
    """A constant factor."""

    def __init__(self, loss_scale_value: float):
        super().__init__()
        if not isinstance(loss_scale_value, (int, float)):
            raise ValueError("loss_scale_value must be a Python int or float.")
        if loss_scale_value < 1:
            raise ValueError("loss_scale_value must be at least 1.")
        self._loss_scale_value = float(loss_scale_value)

    def __call__(self) -> Any:
        return convert(self._loss_scale_value)

    def update(self, grads: Any) -> tuple[Any, Any]:
        """Changes nothing, and applies all gradients."""
        return group(), True

    def __repr__(self) -> str:
        return f"FixedLossScale({self._loss_scale_value})"

    def get_config(self) -> dict[str, Any]:
        """The arguments that make the same scale again."""
        return {"loss_scale_value": self._loss_scale_value}


def all_finite(grads: Any) -> Any:
    """Whether all gradients are finite, as a tensor."""
    values = [convert(g.values if isinstance(g, IndexedSlices) else g) for g in grads if g is not None]
    if not values:
        return convert(True)
    each = [get("All")(get("IsFinite")(v), list(range(v.shape.ndims or 0))) for v in values]
    return get("All")(get("Pack")(each), [0])


def _finite_everywhere(grads: list) -> Any:
    """Whether all gradients are finite, across replicas those of each of them."""
    frame = active_frame()
    if frame is not None and frame.replica is None:
        strategy = frame.strategy
        good = strategy.extended.call_for_each_replica(lambda g: cast(all_finite(g), dtypes.float32), args=(grads,))
        return get("Equal")(strategy.reduce("SUM", good, axis=None), float(strategy.num_replicas_in_sync))
    return all_finite(grads)


@export("train.experimental.DynamicLossScale",
        v1=["mixed_precision.DynamicLossScale", "mixed_precision.experimental.DynamicLossScale"])
class DynamicLossScale(LossScale):
    """A factor that is multiplied after `increment_period` steps with finite gradients, and divided after each other step."""

    def __init__(self, initial_loss_scale: float = 2 ** 15, increment_period: int = 2000, multiplier: float = 2.0):
        super().__init__()
        self._initial_loss_scale, self._increment_period = float(initial_loss_scale), int(increment_period)
        self._multiplier = float(multiplier)
        self._current_loss_scale = self._add_weight("current_loss_scale", self._initial_loss_scale, dtypes.float32)
        self._num_good_steps = self._add_weight("good_steps", 0, dtypes.int64)

    initial_loss_scale = property(lambda self: self._initial_loss_scale, doc="The factor at the beginning.")
    increment_period = property(lambda self: self._increment_period, doc="The number of finite steps before it grows.")
    multiplier = property(lambda self: self._multiplier, doc="By what it grows and shrinks.")

    def __call__(self) -> Any:
        return convert(self._current_loss_scale)

    def update(self, grads: Any) -> tuple[Any, Any]:
        """Adjusts the factor; gradients that are not finite must not be applied."""
        good = _finite_everywhere(nest.flatten(grads))
        scale, steps = self._current_loss_scale.value(), self._num_good_steps.value()
        full = get("GreaterEqual")(steps + 1, cast(self._increment_period, dtypes.int64))
        grown = scale * self._multiplier
        grown = get("SelectV2")(get("IsFinite")(grown), grown, scale)
        shrunk = get("Maximum")(scale / self._multiplier, cast(1.0, dtypes.float32))
        new_scale = get("SelectV2")(good, get("SelectV2")(full, grown, scale), shrunk)
        again = get("LogicalOr")(get("LogicalNot")(good), full)
        new_steps = get("SelectV2")(again, cast(0, dtypes.int64), steps + 1)
        done = group(self._current_loss_scale.assign(new_scale), self._num_good_steps.assign(new_steps))
        if context.executing_eagerly():
            return None, good
        with control_dependencies([done]):
            return get("Identity")(good), good

    def __repr__(self) -> str:
        if context.executing_eagerly():
            return (f"DynamicLossScale(current_loss_scale={self._current_loss_scale.numpy()}, "
                    f"num_good_steps={self._num_good_steps.numpy()}, initial_loss_scale={self._initial_loss_scale}, "
                    f"increment_period={self._increment_period}, multiplier={self._multiplier})")
        return (f"DynamicLossScale(initial_loss_scale={self._initial_loss_scale}, "
                f"increment_period={self._increment_period}, multiplier={self._multiplier})")

    def get_config(self) -> dict[str, Any]:
        """The arguments that make the same scale again."""
        return {"initial_loss_scale": self._initial_loss_scale, "increment_period": self._increment_period,
                "multiplier": self._multiplier}


def as_loss_scale(given: Any) -> Any:
    """A loss scale from a number, `dynamic`, None or itself."""
    if isinstance(given, (int, float)):
        return FixedLossScale(given)
    if given == "dynamic":
        return DynamicLossScale()
    if given is None or isinstance(given, LossScale):
        return given
    raise ValueError(f"Could not interpret loss scale: {given}")


def scaled(loss: Any, scale: Any) -> Any:
    """A loss (or a function that returns it) times a factor."""
    if callable(loss):
        return lambda: scaled(loss(), scale)
    return loss * cast(scale, loss.dtype)


def unscaled(grads: Any, scale: Any) -> list:
    """Gradients divided by a factor; None stays."""
    def one(g: Any) -> Any:
        if isinstance(g, IndexedSlices):
            return IndexedSlices(g.values / cast(scale, g.values.dtype), g.indices, g.dense_shape)
        return None if g is None else g / cast(scale, g.dtype)
    return [one(g) for g in grads]


def apply_if(should_apply: Any, apply: Callable[[], Any], otherwise: Callable[[], Any] = lambda: None) -> Any:
    """Runs `apply` if a tensor (or Python boolean) is true, and `otherwise` if not."""
    if should_apply is True:
        return apply()
    if context.executing_eagerly():
        return apply() if should_apply.numpy() else otherwise()

    def run(which: Callable[[], Any]) -> Any:
        done = which()
        with control_dependencies([] if done is None else [getattr(done, "op", done)]):
            return get("Identity")(convert(True))
    return cond(should_apply, lambda: run(apply), lambda: run(otherwise)).op


@export(v1=["train.experimental.MixedPrecisionLossScaleOptimizer", "mixed_precision.MixedPrecisionLossScaleOptimizer"])
class MixedPrecisionLossScaleOptimizer(Optimizer):
    """An optimizer of tf.train whose losses are scaled.

    >>> opt = tf.train.experimental.MixedPrecisionLossScaleOptimizer(tf.train.AdamOptimizer(), "dynamic")
    """

    def __init__(self, opt: Any, loss_scale: Any):
        if not isinstance(opt, Optimizer):
            raise ValueError(f"\"opt\" must be an instance of Optimizer, but got: {type(opt)}")
        self._optimizer = opt
        super().__init__(opt._use_locking, opt._name)
        self._track_trackable(opt, "base_optimizer")
        self._loss_scale = as_loss_scale(loss_scale)
        if self._loss_scale is None:
            raise ValueError("loss_scale cannot be None")
        self._track_trackable(self._loss_scale, "loss_scale")

    def compute_gradients(self, loss: Any, var_list: Any = None, gate_gradients: int = Optimizer.GATE_OP,
                          aggregation_method: Any = None, colocate_gradients_with_ops: bool = False,
                          grad_loss: Any = None) -> list:
        """Pairs (gradient, variable), of a scaled loss and then unscaled."""
        scale = self._loss_scale()
        pairs = self._optimizer.compute_gradients(scaled(loss, scale), var_list, gate_gradients, aggregation_method,
                                                  colocate_gradients_with_ops, grad_loss)
        return list(zip(unscaled([g for g, _ in pairs], scale), [v for _, v in pairs], strict=True))

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Applies gradients that are finite, and updates the scale."""
        pairs = list(grads_and_vars)
        update, good = self._loss_scale.update([g for g, _ in pairs])
        with init_scope():
            self._optimizer._create_slots([v for g, v in pairs if g is not None])
        done = apply_if(good, lambda: self._optimizer.apply_gradients(pairs, global_step, name))
        return group(*(d for d in (update, done) if d is not None))

    def variables(self) -> list:
        """The variables of the optimizer and of the scale."""
        return self._optimizer.variables() + list(self._loss_scale._weights.values())
