"""Adamax and Nadam: Adam with another norm, and with Nesterov's momentum."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.models.keras import backend
from penstock._src.models.keras.optimizers.adam import BetaOptimizer
from penstock._src.models.keras.optimizers.modern import modern
from penstock._src.ops.core import group, identity
from penstock._src.ops.registry import get
from penstock._src.training.train.optimizer import cast
from penstock._src.training.train.schedules import LearningRateSchedule


@export(v1=["keras.optimizers.Adamax"], v2=["keras.optimizers.legacy.Adamax"])
class AdamaxV1(BetaOptimizer):
    """Adam that divides by a decaying maximum of the gradients instead of the root of averaged squares.

    Args:
        learning_rate: A number, a schedule, or a function without parameters that returns the rate.
        beta_1: How much of the averaged gradient each step keeps.
        beta_2: The decay of the maximum.
        epsilon: A small number that is added to the maximum.
        name: The optimizer's name.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `use_ema` and others of `Optimizer`.

    >>> w = tf.Variable([1.0])
    >>> _ = tf.keras.optimizers.Adamax(0.1).apply_gradients([(tf.constant([4.0]), w)])
    >>> print(w.numpy())
    [0.9]
    """
    _slot_groups = ({"m": "m", "v": "u"},)

    def __init__(self, learning_rate: Any = 0.001, beta_1: Any = 0.9, beta_2: Any = 0.999, epsilon: Any = 1e-7,
                 name: str | None = "Adamax", **kwargs: Any):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, name, kwargs)

    def _apply_keras(self, grad: Any, var: Any, c: dict, indices: Any = None) -> Any:
        return self._rule("_KerasAdamax", var, self._moments, c, grad, indices)

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: dict | None = None) -> Any:
        return self._rule("AdaMax", var, self._moments, self._coefficients(var, apply_state), grad)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, apply_state: dict | None = None) -> Any:
        """Only the rows that have gradients change, in the slots too."""
        c = self._coefficients(var, apply_state)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m_rows = get("ResourceGather")(m.handle, indices, dtype=m.dtype) * c["beta1"] + grad * (1 - c["beta1"])
        v_rows = get("Maximum")(get("ResourceGather")(v.handle, indices, dtype=v.dtype) * c["beta2"], get("Abs")(grad))
        rate = c["lr_t"] / (1 - c["beta1_power"])
        return group(self._resource_scatter_update(m, indices, m_rows), self._resource_scatter_update(v, indices, v_rows),
                     self._resource_scatter_add(var, indices, -rate * m_rows / (v_rows + c["epsilon"])))


Adamax = modern(AdamaxV1, "Adamax")


@export(v1=["keras.optimizers.Nadam"], v2=["keras.optimizers.legacy.Nadam"])
class NadamV1(BetaOptimizer):
    """Adam with Nesterov's momentum, whose momentum follows its own schedule.

    Args:
        learning_rate: A number, or a function without parameters that returns the rate.
        beta_1: How much of the averaged gradient each step keeps.
        beta_2: How much of the averaged squares each step keeps.
        epsilon: A small number that is added to the root.
        name: The optimizer's name.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `use_ema` and others of `Optimizer`.

    >>> w = tf.Variable([1.0])
    >>> _ = tf.keras.optimizers.Nadam(0.1).apply_gradients([(tf.constant([4.0]), w)])
    >>> print(bool(w < 1.0))
    True
    """
    _slot_groups = ({"m": "m", "v": "v"},)

    def __init__(self, learning_rate: Any = 0.001, beta_1: Any = 0.9, beta_2: Any = 0.999, epsilon: Any = 1e-7,
                 name: str | None = "Nadam", **kwargs: Any):
        if not self._modern:
            kwargs["decay"] = kwargs.pop("schedule_decay", 0.004)
            if isinstance(kwargs.get("lr", learning_rate), LearningRateSchedule):
                raise ValueError("The Nadam optimizer does not support tf.keras.optimizers.LearningRateSchedules as the "
                                 "learning rate.")
        super().__init__(learning_rate, beta_1, beta_2, epsilon, name, kwargs)
        self._m_cache: Any = None

    def _create_slots(self, var_list: list) -> None:
        if self._m_cache is None:
            name = "_u_product" if self._modern else "momentum_cache"
            self._m_cache = self.add_weight(name, shape=[], dtype=var_list[0].dtype.base_dtype, initializer="ones",
                                            trainable=False)
            if not self._modern:                            # the newer one has it beside the list of its variables
                self._weights.append(self._m_cache)
        super()._create_slots(var_list)

    def set_weights(self, weights: Any) -> None:
        """Sets the optimizer's variables. The newer Nadam's weights lack the product of its momenta, which follows from the
        number of steps."""
        super().set_weights(weights)
        if self._modern:
            steps = np.arange(1, int(weights[0]) + 1)
            momenta = float(backend.get_value(self._get_hyper("beta_1"))) * (1.0 - 0.5 * 0.96 ** steps)
            backend.set_value(self._m_cache, np.prod(momenta.astype(self._m_cache.dtype.as_numpy_dtype)))

    def _prepare(self, var_list: list) -> dict:
        self._m_cache_read = identity(self._m_cache)
        return super()._prepare(var_list)

    def _decayed_lr(self, var_dtype: Any) -> Any:
        return super()._decayed_lr(var_dtype) if self._modern else self._get_hyper("learning_rate", var_dtype)

    def _prepare_local(self, var_device: Any, var_dtype: Any, apply_state: dict) -> None:
        super()._prepare_local(var_device, var_dtype, apply_state)
        c = apply_state[var_device, var_dtype]
        pace = 1.0 if self._modern else self._initial_decay
        base, step = cast(0.96, var_dtype), cast(self.iterations + 1, var_dtype)
        now = c["beta1"] * (1.0 - 0.5 * get("Pow")(base, step * pace))
        then = c["beta1"] * (1.0 - 0.5 * get("Pow")(base, (step + 1.0) * pace))
        product = cast(self._m_cache_read, var_dtype) * now
        if var_dtype == self._m_cache.dtype.base_dtype:
            product = identity(self._m_cache.assign(product, use_locking=self._use_locking))
        c.update(now=now, then=then, product=product, next_product=product * then)

    def _ahead(self, c: dict, grad: Any, m: Any, v: Any) -> Any:
        """The step of rows that have these moments."""
        ahead = (1.0 - c["now"]) * grad / (1.0 - c["product"]) + c["then"] * m / (1.0 - c["next_product"])
        return c["lr_t"] * ahead / (get("Sqrt")(v / (1.0 - c["beta2_power"])) + c["epsilon"])

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: dict | None = None) -> Any:
        return self._apply_keras(grad, var, self._coefficients(var, apply_state))

    def _apply_keras(self, grad: Any, var: Any, c: dict, indices: Any = None) -> Any:
        return self._rule("_KerasNadam", var, self._moments, c, grad, indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, apply_state: dict | None = None) -> Any:
        c = self._coefficients(var, apply_state)
        new_m = self._decayed_rows(self.get_slot(var, "m"), c["beta1"], indices, grad * (1 - c["beta1"]))
        new_v = self._decayed_rows(self.get_slot(var, "v"), c["beta2"], indices, grad * grad * (1 - c["beta2"]))
        step = self._ahead(c, grad, get("GatherV2")(new_m, indices, 0), get("GatherV2")(new_v, indices, 0))
        return group(self._resource_scatter_add(var, indices, -step), new_m, new_v)


Nadam = modern(NadamV1, "Nadam")
