"""RMSprop."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import control_dependencies
from penstock._src.models.keras import backend
from penstock._src.models.keras.optimizers.adagrad import with_counter
from penstock._src.models.keras.optimizers.modern import modern
from penstock._src.models.keras.optimizers.optimizer import Optimizer
from penstock._src.ops.core import group, identity
from penstock._src.ops.registry import get


@export(v1=["keras.optimizers.RMSprop"], v2=["keras.optimizers.legacy.RMSprop"])
class RMSpropV1(Optimizer):
    """Steps divided by the root of averaged squared gradients; with `centered`, by their standard deviation.

    Args:
        learning_rate: A number, a schedule, or a function without parameters that returns the rate.
        rho: How much of the averaged squares each step keeps.
        momentum: How much of the previous step each step keeps.
        epsilon: A small number that is added to the averaged squares.
        centered: Whether to subtract the square of the averaged gradient.
        name: The optimizer's name.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `use_ema` and others of `Optimizer`.

    >>> w = tf.Variable([1.0])
    >>> _ = tf.keras.optimizers.RMSprop(0.1, rho=0.0).apply_gradients([(tf.constant([4.0]), w)])
    >>> print(w.numpy())
    [0.9]
    """

    _config_hypers = ("learning_rate", "decay", "rho", "momentum")
    _config_fields = ("epsilon", "centered")
    _slot_groups = ({"rms": "velocity"}, {"momentum": "momentum"}, {"mg": "average_gradient"})
    _overwrites_every = 100

    def __init__(self, learning_rate: Any = 0.001, rho: Any = 0.9, momentum: Any = 0.0, epsilon: Any = 1e-7,
                 centered: bool = False, name: str | None = "RMSprop", **kwargs: Any):
        super().__init__(name, **kwargs)
        self._set_learning_rate(learning_rate, kwargs)
        self._set_hyper("rho", rho)
        self._momentum = isinstance(momentum, Tensor) or callable(momentum) or momentum > 0
        if isinstance(momentum, (int, float)) and not 0 <= momentum <= 1:
            raise ValueError("`momentum` must be between [0, 1].")
        self._set_hyper("momentum", momentum)
        self.epsilon = epsilon or backend.epsilon()
        self.centered = centered

    def _create_slots(self, var_list: list) -> None:
        for slot, used in (("rms", True), ("momentum", self._momentum), ("mg", self.centered)):
            for v in var_list if used else ():
                self.add_slot(v, slot)

    def _prepare_local(self, var_device: Any, var_dtype: Any, apply_state: dict) -> None:
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[var_device, var_dtype].update(
            epsilon=convert(self.epsilon, var_dtype), rho=identity(self._get_hyper("rho", var_dtype)),
            momentum=identity(self._get_hyper("momentum", var_dtype)))

    def set_weights(self, weights: Any) -> None:
        """Sets the optimizer's variables."""
        super().set_weights(with_counter(self, weights))

    def _scaled(self, c: dict, grad: Any, squares: Any, mean: Any) -> Any:
        """The step of rows that have these averages."""
        spread = squares if mean is None else squares - mean * mean
        return c["lr_t"] * grad / (get("Sqrt")(spread) + c["epsilon"])

    def _with_momentum(self, grad: Any, var: Any, c: dict, indices: Any = None) -> Any:
        if self.centered:
            return self._rule("CenteredRMSProp", var, ["mg", "rms", "momentum"], c, grad, indices)
        return self._rule("RMSProp", var, ["rms", "momentum"], c, grad, indices)

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: dict | None = None) -> Any:
        c = self._coefficients(var, apply_state)
        if self._modern:
            return self._apply_keras(grad, var, c)
        if self._momentum:
            return self._with_momentum(grad, var, c)
        rms, mg = self.get_slot(var, "rms"), self.get_slot(var, "mg") if self.centered else None
        made = [rms.assign(c["rho"] * rms + (1.0 - c["rho"]) * grad * grad, use_locking=self._use_locking)]
        if mg is not None:
            made.append(mg.assign(c["rho"] * mg + (1.0 - c["rho"]) * grad, use_locking=self._use_locking))
        with control_dependencies(made):
            step = self._scaled(c, grad, rms.value(), None if mg is None else mg.value())
            return var.assign_sub(step, use_locking=self._use_locking)

    def _apply_keras(self, grad: Any, var: Any, c: dict, indices: Any = None) -> Any:
        slots = [s for s, used in (("mg", self.centered), ("rms", True), ("momentum", self._momentum)) if used]
        rule = f"_Keras{'Centered' if self.centered else ''}{'Momentum' if self._momentum else ''}RMSprop"
        return self._rule(rule, var, slots, c, grad, indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, apply_state: dict | None = None) -> Any:
        c = self._coefficients(var, apply_state)
        if self._momentum:
            return self._with_momentum(grad, var, c, indices)
        squares = self._decayed_rows(self.get_slot(var, "rms"), c["rho"], indices, grad * grad * (1.0 - c["rho"]))
        made, mean = [squares], None
        if self.centered:
            made.append(self._decayed_rows(self.get_slot(var, "mg"), c["rho"], indices, grad * (1.0 - c["rho"])))
            mean = get("GatherV2")(made[1], indices, 0)
        step = self._scaled(c, grad, get("GatherV2")(squares, indices, 0), mean)
        return group(self._resource_scatter_add(var, indices, -step), *made)


RMSprop = modern(RMSpropV1, "RMSprop")
