"""Proximal steps: a gradient step, then shrinking towards zero by l1 and l2."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.training.train.adagrad import constant_slot
from penstock._src.training.train.optimizer import RuleOptimizer


@export(v1=["train.ProximalGradientDescentOptimizer"])
class ProximalGradientDescentOptimizer(RuleOptimizer):
    """Gradient descent with l1 and l2 by forward-backward splitting."""

    rule = "ProximalGradientDescent"

    def __init__(self, learning_rate: Any, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, use_locking: bool = False,
                 name: str = "ProximalGradientDescent"):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength

    def _hyper(self) -> dict[str, tuple[Any, str]]:
        return {"alpha": (self._learning_rate, "learning_rate"),
                "l1": (self._l1_regularization_strength, "l1_regularization_strength"),
                "l2": (self._l2_regularization_strength, "l2_regularization_strength")}


@export(v1=["train.ProximalAdagradOptimizer"])
class ProximalAdagradOptimizer(RuleOptimizer):
    """Adagrad with l1 and l2 by forward-backward splitting."""

    rule, slots = "ProximalAdagrad", ("accumulator",)

    def __init__(self, learning_rate: Any, initial_accumulator_value: float = 0.1,
                 l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
                 use_locking: bool = False, name: str = "ProximalAdagrad"):
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate, self._initial_accumulator_value = learning_rate, initial_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength

    def _create_slots(self, var_list: list) -> None:
        for v in var_list:
            constant_slot(self, v, "accumulator", self._initial_accumulator_value, self._name)

    def _hyper(self) -> dict[str, tuple[Any, str]]:
        return {"lr": (self._learning_rate, "learning_rate"),
                "l1": (self._l1_regularization_strength, "l1_regularization_strength"),
                "l2": (self._l2_regularization_strength, "l2_regularization_strength")}
