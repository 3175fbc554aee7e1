"""Adagrad with dual averaging."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.ops.core import identity
from penstock._src.training.train.adagrad import constant_slot
from penstock._src.training.train.optimizer import RuleOptimizer


@export(v1=["train.AdagradDAOptimizer"])
class AdagradDAOptimizer(RuleOptimizer):
    """Weights from the sum of all gradients, with l1 that keeps small ones at zero; uses the global step."""

    rule, slots = "AdagradDA", ("gradient_accumulator", "gradient_squared_accumulator")

    def __init__(self, learning_rate: Any, global_step: Any, initial_gradient_squared_accumulator_value: float = 0.1,
                 l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
                 use_locking: bool = False, name: str = "AdagradDA"):
        if initial_gradient_squared_accumulator_value <= 0.0:
            raise ValueError("initial_gradient_squared_accumulator_value must be positive: "
                             f"{initial_gradient_squared_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate, self._global_step = learning_rate, global_step
        self._initial_value = initial_gradient_squared_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength

    def _create_slots(self, var_list: list) -> None:
        for v in var_list:
            self._zeros_slot(v, "gradient_accumulator", self._name)
            constant_slot(self, v, "gradient_squared_accumulator", self._initial_value, self._name)

    def _hyper(self) -> dict[str, tuple[Any, str]]:
        return {"lr": (self._learning_rate, "learning_rate"),
                "l1": (self._l1_regularization_strength, "l1_regularization_strength"),
                "l2": (self._l2_regularization_strength, "l2_regularization_strength")}

    def _prepare(self) -> None:
        super()._prepare()
        self._given["global_step"] = identity(self._global_step) + 1
