"""Adam and AdamW."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.models.keras import backend
from penstock._src.models.keras.optimizers.modern import modern
from penstock._src.models.keras.optimizers.optimizer import Optimizer
from penstock._src.ops.core import group, identity
from penstock._src.ops.registry import get
from penstock._src.training.train.optimizer import cast


class BetaOptimizer(Optimizer):
    """The base of the Adam family: two decays, epsilon, and slots for moments."""

    _config_hypers = ("learning_rate", "decay", "beta_1", "beta_2")
    _config_fields: tuple[str, ...] = ("epsilon",)
    _moments: tuple[str, ...] = ("m", "v")

    def __init__(self, learning_rate: Any, beta_1: Any, beta_2: Any, epsilon: Any, name: str | None, kwargs: dict):
        super().__init__(name, **kwargs)
        self._set_learning_rate(learning_rate, kwargs)
        self._set_hyper("beta_1", beta_1)
        self._set_hyper("beta_2", beta_2)
        self.epsilon = epsilon or backend.epsilon()

    def _create_slots(self, var_list: list) -> None:
        for slot in self._moments:
            for v in var_list:
                self.add_slot(v, slot)

    def _prepare_local(self, var_device: Any, var_dtype: Any, apply_state: dict) -> None:
        super()._prepare_local(var_device, var_dtype, apply_state)
        step = cast(self.iterations + 1, var_dtype)
        beta1, beta2 = (identity(self._get_hyper(n, var_dtype)) for n in ("beta_1", "beta_2"))
        apply_state[var_device, var_dtype].update(
            beta1=beta1, beta2=beta2, beta1_power=get("Pow")(beta1, step), beta2_power=get("Pow")(beta2, step),
            epsilon=convert(self.epsilon, var_dtype))


@export(v1=["keras.optimizers.Adam"], v2=["keras.optimizers.legacy.Adam"])
class AdamV1(BetaOptimizer):
    """Steps along averaged gradients, divided by the root of averaged squares, with bias correction.

    Args:
        learning_rate: A number, a schedule, or a function without parameters that returns the rate.
        beta_1: How much of the averaged gradient each step keeps.
        beta_2: How much of the averaged squares each step keeps.
        epsilon: A small number that is added to the root.
        amsgrad: Whether to divide by the largest average so far (AMSGrad).
        name: The optimizer's name.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `use_ema` and others of `Optimizer`.

    >>> w = tf.Variable([1.0, 2.0])
    >>> _ = tf.keras.optimizers.Adam(0.1).apply_gradients([(tf.constant([1.0, -1.0]), w)])
    >>> print(w.numpy())
    [0.9 2.1]
    """

    _config_fields = ("epsilon", "amsgrad")
    _slot_groups = ({"m": "m", "v": "v"}, {"vhat": "vhat"})

    def __init__(self, learning_rate: Any = 0.001, beta_1: Any = 0.9, beta_2: Any = 0.999, epsilon: Any = 1e-7,
                 amsgrad: bool = False, name: str | None = "Adam", **kwargs: Any):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, name, kwargs)
        self.amsgrad = amsgrad
        self._moments = ("m", "v", "vhat") if amsgrad else ("m", "v")

    def set_weights(self, weights: Any) -> None:
        """As Optimizer.set_weights; the weights of the old Adam, which always had the third slot, are taken too."""
        count = (len(self.weights) - 1) // 2
        super().set_weights(weights[:len(self.weights)] if len(weights) == 3 * count + 1 else weights)

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: dict | None = None) -> Any:
        rule = "AdamWithAmsgrad" if self.amsgrad else "Adam"
        return self._rule(rule, var, self._moments, self._coefficients(var, apply_state), grad)

    def _apply_keras(self, grad: Any, var: Any, c: dict, indices: Any = None) -> Any:
        return self._rule("_KerasAdamWithAmsgrad" if self.amsgrad else "_KerasAdam", var, self._moments, c, grad, indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, apply_state: dict | None = None) -> Any:
        """All of the moments decay, rows with gradients are added to them, and the whole variable takes a step."""
        c = self._coefficients(var, apply_state)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = self._decayed_rows(m, c["beta1"], indices, grad * (1 - c["beta1"]))
        new_v = scale = self._decayed_rows(v, c["beta2"], indices, grad * grad * (1 - c["beta2"]))
        if self.amsgrad:
            vhat = self.get_slot(var, "vhat")
            scale = vhat.assign(get("Maximum")(vhat, new_v), use_locking=self._use_locking)
        rate = c["lr_t"] * get("Sqrt")(1 - c["beta2_power"]) / (1 - c["beta1_power"])
        moved = var.assign_sub(rate * new_m / (get("Sqrt")(scale) + c["epsilon"]), use_locking=self._use_locking)
        return group(moved, new_m, new_v, scale)


Adam = modern(AdamV1, "Adam")


@export("keras.optimizers.AdamW", "keras.optimizers.experimental.AdamW", v2=["optimizers.AdamW"])
class AdamW(Adam):                              # type: ignore[valid-type, misc]
    """Adam with decoupled weight decay.

    Args:
        learning_rate: A number, a schedule, or a function without parameters that returns the rate.
        weight_decay: Each step also subtracts this times the learning rate times the weights.
        beta_1: How much of the averaged gradient each step keeps.
        beta_2: How much of the averaged squares each step keeps.
        epsilon: A small number that is added to the root.
        amsgrad: Whether to divide by the largest average so far (AMSGrad).
        name: The optimizer's name.
        **kwargs: `clipnorm`, `clipvalue`, `global_clipnorm`, `use_ema`, `ema_momentum` and others of `Optimizer`.

    >>> w = tf.Variable([1.0, 2.0])
    >>> _ = tf.keras.optimizers.AdamW(0.1, weight_decay=0.5).apply_gradients([(tf.zeros([2]), w)])
    >>> print(w.numpy())
    [0.95 1.9 ]
    """

    def __init__(self, learning_rate: Any = 0.001, weight_decay: Any = 0.004, beta_1: Any = 0.9, beta_2: Any = 0.999,
                 epsilon: Any = 1e-7, amsgrad: bool = False, name: str | None = "AdamW", **kwargs: Any):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, name, weight_decay=weight_decay, **kwargs)
        if weight_decay is None:
            raise ValueError("Argument `weight_decay` must be a float. Received: weight_decay=None")
