"""Ftrl: follow the regularized leader."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.models.keras.optimizers.modern import modern
from penstock._src.models.keras.optimizers.optimizer import Optimizer
from penstock._src.ops.core import identity
from penstock.keras import initializers

_STRENGTHS, _SHRINKAGE = ("l1_regularization_strength", "l2_regularization_strength"), "l2_shrinkage_regularization_strength"
_LEGACY_ORDER = ("initial_accumulator_value", "learning_rate_power", *_STRENGTHS, "beta", _SHRINKAGE)       # in configurations
_MODERN_ORDER = ("learning_rate_power", "initial_accumulator_value", *_STRENGTHS, _SHRINKAGE, "beta")


@export(v1=["keras.optimizers.Ftrl"], v2=["keras.optimizers.legacy.Ftrl"])
class FtrlV1(Optimizer):
    """FTRL-Proximal: follows the sum of all gradients, with an L1 penalty that keeps small weights at zero.

    Args:
        learning_rate: A number, a schedule, or a function without parameters that returns the rate.
        learning_rate_power: The power of the summed squares that divides the rate; at most zero.
        initial_accumulator_value: What the sum of squares begins with.
        l1_regularization_strength: The strength of the L1 penalty.
        l2_regularization_strength: The strength of the L2 penalty, which keeps weights small.
        name: The optimizer's name.
        l2_shrinkage_regularization_strength: The strength of an L2 penalty on the gradient, without one on the sums.
        **kwargs: `clipnorm`, `clipvalue`, `global_clipnorm`, `use_ema`, `ema_momentum` and others of `Optimizer`.

    >>> w = tf.Variable([1.0])
    >>> _ = tf.keras.optimizers.Ftrl(0.1, l1_regularization_strength=100.0).apply_gradients([(tf.constant([0.1]), w)])
    >>> print(w.numpy())
    [0.]
    """

    _config_hypers = ("learning_rate", "decay", "learning_rate_power", "l1_regularization_strength",
                      "l2_regularization_strength", "beta")
    _slots_of_var = ("accumulator", "linear")
    _slot_groups = ({"accumulator": "accumulator", "linear": "linear"},)

    def __init__(self, learning_rate: Any = 0.001, learning_rate_power: Any = -0.5, initial_accumulator_value: float = 0.1,
                 l1_regularization_strength: Any = 0.0, l2_regularization_strength: Any = 0.0, name: str | None = "Ftrl",
                 l2_shrinkage_regularization_strength: Any = 0.0, **kwargs: Any):
        beta = kwargs.pop("beta", 0.0)
        for value, label in ((initial_accumulator_value, "initial_accumulator_value"),
                             (l1_regularization_strength, "l1_regularization_strength"),
                             (l2_regularization_strength, "l2_regularization_strength"),
                             (l2_shrinkage_regularization_strength, "l2_shrinkage_regularization_strength")):
            if value < 0.0:
                more = "greater than or equal to 0" if "strength" in label else "positive or zero"
                raise ValueError(f"{label} {value} needs to be {more}")
        if learning_rate_power > 0.0:
            raise ValueError(f"learning_rate_power {learning_rate_power} needs to be negative or zero")
        super().__init__(name, **kwargs)
        self._set_learning_rate(learning_rate, kwargs)
        self._set_hyper("learning_rate_power", learning_rate_power)
        self._set_hyper("l1_regularization_strength", l1_regularization_strength)
        self._set_hyper("l2_regularization_strength", l2_regularization_strength)
        self._set_hyper("beta", beta)
        self._initial_accumulator_value = initial_accumulator_value
        self._l2_shrinkage_regularization_strength = l2_shrinkage_regularization_strength

    def _create_slots(self, var_list: list) -> None:
        for v in var_list:
            self.add_slot(v, "accumulator", initializers.Constant(self._initial_accumulator_value))
            self.add_slot(v, "linear")

    def _prepare_local(self, var_device: Any, var_dtype: Any, apply_state: dict) -> None:
        super()._prepare_local(var_device, var_dtype, apply_state)
        c = apply_state[var_device, var_dtype]
        l2 = self._get_hyper("l2_regularization_strength", var_dtype) + self._get_hyper("beta", var_dtype) / (2.0 * c["lr_t"])
        c.update(lr_power=identity(self._get_hyper("learning_rate_power", var_dtype)), l2=l2,
                 l1=identity(self._get_hyper("l1_regularization_strength", var_dtype)),
                 l2_shrinkage=convert(self._l2_shrinkage_regularization_strength, var_dtype))

    @property
    def _family(self) -> str:
        return "FtrlV2" if self._l2_shrinkage_regularization_strength > 0.0 else "Ftrl"

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: dict | None = None) -> Any:
        return self._rule(self._family, var, self._slots_of_var, self._coefficients(var, apply_state), grad)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, apply_state: dict | None = None) -> Any:
        return self._rule(self._family, var, self._slots_of_var, self._coefficients(var, apply_state), grad, indices)

    def _apply_keras(self, grad: Any, var: Any, c: dict, indices: Any = None) -> Any:
        return self._rule("_KerasFtrl", var, self._slots_of_var, c, grad, indices)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the optimizer."""
        config = {**super().get_config(), "initial_accumulator_value": self._initial_accumulator_value,
                  "l2_shrinkage_regularization_strength": self._l2_shrinkage_regularization_strength}
        order = _MODERN_ORDER if self._modern else _LEGACY_ORDER
        return {**{k: v for k, v in config.items() if k not in order}, **{k: config[k] for k in order}}


Ftrl = modern(FtrlV1, "Ftrl")
