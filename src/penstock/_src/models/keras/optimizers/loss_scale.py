"""LossScaleOptimizer: an optimizer around another, for losses in half precision (see `training/train/loss_scale.py`)."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.scopes import init_scope
from penstock._src.models.keras.optimizers.around import OptimizerAround
from penstock._src.models.keras.optimizers.optimizer import Optimizer, aggregates
from penstock._src.ops.core import group
from penstock._src.training.train.loss_scale import (
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    apply_if,
    as_loss_scale,
    scaled,
    unscaled,
)
from penstock._src.training.train.optimizer import cast, replica_of_strategy


@export("keras.mixed_precision.experimental.LossScaleOptimizer", v1=["keras.mixed_precision.LossScaleOptimizer"])
class LossScaleOptimizerV1(OptimizerAround):
    """An optimizer whose losses are multiplied by a loss scale, and whose gradients are divided by it.

    >>> opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(tf.keras.optimizers.SGD(), "dynamic")
    """

    _own = frozenset({"_optimizer", "_loss_scale", "_hyper"})

    def __init__(self, opt: Any, loss_scale: Any):
        if not isinstance(opt, Optimizer):
            raise ValueError(f"\"opt\" must be an instance of OptimizerV2, but got: {opt}")
        if isinstance(opt, LossScaleOptimizerV1):
            raise TypeError("LossScaleOptimizer cannot wrap another LossScaleOptimizer.")
        for name in ("clipnorm", "clipvalue"):
            if getattr(opt, name, None) is not None and not opt._modern:
                raise ValueError(f"LossScaleOptimizer does not support wrapping optimizers with a {name}. Optimizer {opt} has "
                                 f"{name} {getattr(opt, name)}")
        scale = as_loss_scale(loss_scale)
        if scale is None:
            raise ValueError("loss_scale cannot be None")
        self.__dict__.update(_hyper={}, _optimizer=opt, _loss_scale=scale)
        self._track_trackable(opt, "base_optimizer")
        self._track_trackable(scale, "loss_scale")

    loss_scale = property(lambda self: self._loss_scale, doc="The loss scale.")

    # -- scaling ---------------------------------------------------------------------------------------------------
    def get_scaled_loss(self, loss: Any) -> Any:
        """A loss, or a function that returns it, times the scale."""
        return scaled(loss, self._loss_scale())

    scale_loss = get_scaled_loss

    def get_unscaled_gradients(self, grads: Any) -> list:
        """Gradients of a scaled loss, divided by the scale."""
        return unscaled(grads, self._loss_scale())

    def _compute_gradients(self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None) -> list:
        scale = self._loss_scale()
        if callable(loss):
            pairs = self._optimizer._compute_gradients(scaled(loss, scale), var_list, grad_loss)
        else:                           # the tape has the loss already: its gradient is scaled instead
            start = cast(scale, loss.dtype) if grad_loss is None else grad_loss * cast(scale, loss.dtype)
            pairs = self._optimizer._compute_gradients(loss, var_list, start, tape)
        return list(zip(unscaled([g for g, _ in pairs], scale), [v for _, v in pairs], strict=True))

    def get_gradients(self, loss: Any, params: Any) -> list:
        """The gradients of a loss in a graph."""
        scale = self._loss_scale()
        return unscaled(self._optimizer.get_gradients(scaled(loss, scale), params), scale)

    def apply_gradients(self, grads_and_vars: Iterable, name: str | None = None, **kwargs: Any) -> Any:
        """Applies unscaled gradients if they are finite, and updates the scale."""
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        replica = replica_of_strategy([v for _, v in pairs])
        if replica is not None:
            return replica.merge_call(self._distributed_apply, args=(pairs,),
                                      kwargs={"name": name, "aggregate": aggregates(kwargs)})
        with init_scope():
            self._optimizer.build([v for _, v in pairs])
        update, good = self._loss_scale.update([g for g, _ in pairs])
        done = apply_if(good, lambda: self._optimizer.apply_gradients(pairs, name=name, **kwargs), self._skipped)
        return group(*(getattr(d, "op", d) for d in (update, done) if d is not None)) if _in_graph() else None

    def _distributed_apply(self, strategy: Any, pairs: Any, name: str | None = None, aggregate: bool = True) -> Any:
        """Applies the sum of the replicas' gradients to all copies, if it is finite, and updates the scale."""
        if aggregate:
            summed = strategy.extended.batch_reduce_to("SUM", pairs)
            pairs = [(g, v) for g, (_, v) in zip(summed, pairs, strict=True)]
        with init_scope():
            self._optimizer.build([v for _, v in pairs])
        update, good = self._loss_scale.update([strategy.experimental_local_results(g)[0] for g, _ in pairs])
        done = apply_if(good, lambda: self._optimizer._distributed_apply(strategy, pairs, name=name, aggregate=False),
                        self._skipped)
        return group(*(getattr(d, "op", d) for d in (update, done) if d is not None)) if _in_graph() else None

    def _skipped(self) -> Any:
        """A step that changes nothing counts too: schedules of learning rates go on."""
        return self._optimizer.iterations.assign_add(1, read_value=False)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the optimizer."""
        scale = {"class_name": type(self._loss_scale).__name__, "config": self._loss_scale.get_config()}
        return {"optimizer": tf.keras.optimizers.serialize(self._optimizer), "loss_scale": scale}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The optimizer of a configuration."""
        inner = tf.keras.optimizers.deserialize(config["optimizer"], custom_objects)
        return cls(inner, _scale_of(config["loss_scale"]))


def _in_graph() -> bool:
    return not context.executing_eagerly() and not context.current_graph().building_function


def _scale_of(config: Any) -> Any:
    kinds: dict[str, Any] = {"FixedLossScale": FixedLossScale, "DynamicLossScale": DynamicLossScale}
    return kinds[config["class_name"]].from_config(config["config"]) if isinstance(config, dict) else config


@export(v2=["keras.mixed_precision.LossScaleOptimizer", "keras.optimizers.LossScaleOptimizer"])
class LossScaleOptimizer(LossScaleOptimizerV1):
    """An optimizer whose losses are scaled, by a factor that adapts itself or by a fixed one.

    >>> opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam())
    """

    def __init__(self, inner_optimizer: Any, dynamic: bool = True, initial_scale: float | None = None,
                 dynamic_growth_steps: int | None = None):
        if not isinstance(inner_optimizer, Optimizer):
            raise TypeError("\"inner_optimizer\" must be an instance of `tf.keras.optimizers.Optimizer`, but got: "
                            f"{inner_optimizer}.")
        if isinstance(dynamic, LossScale):
            scale: Any = dynamic
        elif dynamic:
            scale = DynamicLossScale(initial_scale or 2 ** 15, dynamic_growth_steps or 2000)
        elif initial_scale is None or dynamic_growth_steps is not None:
            raise ValueError("If \"dynamic\" is False, \"initial_scale\" must be given, and \"dynamic_growth_steps\" must not.")
        else:
            scale = FixedLossScale(initial_scale)
        super().__init__(inner_optimizer, scale)

    inner_optimizer = property(lambda self: self._optimizer, doc="The optimizer inside.")
    dynamic = property(lambda self: isinstance(self._loss_scale, DynamicLossScale), doc="Whether the scale adapts itself.")
    loss_scale = property(lambda self: self._loss_scale(), doc="The scale now, as a tensor.")
    initial_scale = property(lambda self: self._loss_scale.initial_loss_scale if self.dynamic
                             else self._loss_scale._loss_scale_value, doc="The scale at the beginning.")
    dynamic_growth_steps = property(lambda self: self._loss_scale.increment_period if self.dynamic else None,
                                    doc="How many good steps make it grow.")
    dynamic_counter = property(lambda self: self._loss_scale._num_good_steps if self.dynamic else None,
                               doc="How many good steps there were since the scale has changed.")

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the optimizer."""
        return {"inner_optimizer": tf.keras.optimizers.serialize(self._optimizer),
                "dynamic": self.dynamic, "initial_scale": self.initial_scale,
                "dynamic_growth_steps": self.dynamic_growth_steps}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The optimizer of a configuration."""
        config = dict(config)
        return cls(tf.keras.optimizers.deserialize(config.pop("inner_optimizer"), custom_objects), **config)


def with_scale(optimizer: Any, scale: LossScale) -> Any:
    """Wraps a Keras optimizer in a LossScaleOptimizer, unless it is one."""
    if not isinstance(optimizer, Optimizer) or isinstance(optimizer, LossScaleOptimizerV1):
        return optimizer
    if not context.eager_outside_functions():
        return LossScaleOptimizerV1(optimizer, scale)
    own: Any = type(scale).from_config(scale.get_config())
    return LossScaleOptimizer(optimizer, own)
