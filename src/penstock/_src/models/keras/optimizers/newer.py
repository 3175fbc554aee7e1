"""Optimizers that only the 2.x API has: Lion and Adafactor."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras.optimizers.modern import ModernOptimizer
from penstock._src.ops.core import group, identity
from penstock._src.ops.math.reduction import reduce_mean
from penstock._src.ops.registry import get
from penstock._src.training.train.optimizer import cast
from penstock._src.training.train.schedules import LearningRateSchedule


@export("keras.optimizers.Lion", v2=["optimizers.Lion"])
class Lion(ModernOptimizer):
    """Steps of one length: the sign of an average of the gradient and of past ones.

    Args:
        learning_rate: A number, a schedule, or a function without parameters that returns the rate.
        beta_1: The share of past gradients in the average whose sign is the step.
        beta_2: How much of the averaged gradient each step keeps.
        name: The optimizer's name.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `use_ema` and others of `Optimizer`.

    >>> w = tf.Variable([1.0, 2.0])
    >>> _ = tf.keras.optimizers.Lion(0.1).apply_gradients([(tf.constant([5.0, -1.0]), w)])
    >>> print(w.numpy())
    [0.9 2.1]
    """

    _config_hypers = ("learning_rate", "decay", "beta_1", "beta_2")
    _slot_groups = ({"momentum": "m"},)
    _modern = True

    def __init__(self, learning_rate: Any = 0.0001, beta_1: Any = 0.9, beta_2: Any = 0.99, name: str | None = "Lion",
                 **kwargs: Any):
        super().__init__(name, **kwargs)
        self._set_learning_rate(learning_rate, kwargs)
        if isinstance(beta_1, (int, float)) and not 0 < beta_1 <= 1:
            raise ValueError(f"`beta_1` must be in the range (0, 1]. Received: beta_1={beta_1}")
        self._set_hyper("beta_1", beta_1)
        self._set_hyper("beta_2", beta_2)

    def _create_slots(self, var_list: list) -> None:
        for v in var_list:
            self.add_slot(v, "momentum")

    def _prepare_local(self, var_device: Any, var_dtype: Any, apply_state: dict) -> None:
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[var_device, var_dtype].update({n: identity(self._get_hyper(n, var_dtype)) for n in ("beta_1", "beta_2")})

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: dict | None = None) -> Any:
        return self._apply_keras(grad, var, self._coefficients(var, apply_state))

    def _apply_keras(self, grad: Any, var: Any, c: dict, indices: Any = None) -> Any:
        return self._rule("_KerasLion", var, ["momentum"], c, grad, indices)


@export("keras.optimizers.Adafactor", v2=["keras.optimizers.experimental.Adafactor", "optimizers.Adafactor"])
class Adafactor(ModernOptimizer):
    """Adam's second moment kept as a row and a column per matrix, and steps relative to the size of the weights."""

    _config_hypers = ("learning_rate", "decay")
    _config_fields = ("beta_2_decay", "epsilon_1", "epsilon_2", "clip_threshold", "relative_step")
    _slot_groups = ({"r": "r", "c": "c", "velocity": "v"},)
    _modern = True

    def __init__(self, learning_rate: Any = 0.001, beta_2_decay: float = -0.8, epsilon_1: float = 1e-30,
                 epsilon_2: float = 1e-3, clip_threshold: float = 1.0, relative_step: bool = True,
                 name: str | None = "Adafactor", **kwargs: Any):
        super().__init__(name, **kwargs)
        self._set_learning_rate(learning_rate, kwargs)
        self.beta_2_decay, self.epsilon_1, self.epsilon_2 = beta_2_decay, epsilon_1, epsilon_2
        self.clip_threshold, self.relative_step = clip_threshold, relative_step

    def _create_slots(self, var_list: list) -> None:
        for v in var_list:
            dims = v.shape.as_list()
            if len(dims) >= 2:
                for name, shape in (("r", dims[:-1]), ("c", dims[:-2] + dims[-1:])):
                    self.add_slot(v, name, get("Fill")(shape, cast(0, v.dtype.base_dtype)))
            self.add_slot(v, "velocity")

    def _prepare_local(self, var_device: Any, var_dtype: Any, apply_state: dict) -> None:
        super()._prepare_local(var_device, var_dtype, apply_state)
        c, step = apply_state[var_device, var_dtype], cast(self.iterations + 1, var_dtype)
        c["pace"] = get("Minimum")(c["lr_t"], get("Rsqrt")(step))
        if self.relative_step and not isinstance(self._hyper["learning_rate"], LearningRateSchedule):
            c["lr_t"] = c["pace"]
        c["decay"] = 1.0 - get("Pow")(step, cast(self.beta_2_decay, var_dtype))

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: dict | None = None) -> Any:
        c = self._coefficients(var, apply_state)
        squares, keep = grad * grad + self.epsilon_1, c["decay"]
        made, velocity = [], self.get_slot(var, "velocity")
        if var.shape.ndims >= 2:
            rows, columns = (self.get_slot(var, n) for n in ("r", "c"))
            new_rows = keep * rows + (1.0 - keep) * reduce_mean(squares, axis=-1)
            new_columns = keep * columns + (1.0 - keep) * reduce_mean(squares, axis=-2)
            made += [rows.assign(new_rows), columns.assign(new_columns)]
            share = new_rows / reduce_mean(new_rows, axis=-1, keepdims=True)
            new = get("ExpandDims")(share, -1) * get("ExpandDims")(new_columns, -2)
        else:
            new = keep * velocity + (1.0 - keep) * squares
        made.append(velocity.assign(new))
        way = grad * get("Rsqrt")(new)
        way = way / get("Maximum")(cast(1.0, way.dtype), _root_mean_square(way) / self.clip_threshold)
        size = get("Maximum")(cast(self.epsilon_2, way.dtype), _root_mean_square(var.value()))
        return group(var.assign_sub(size * c["pace"] * way), *made)


def _root_mean_square(x: Any) -> Any:
    return get("Sqrt")(reduce_mean(x * x))
