"""Adagrad and Adadelta: rates that shrink with the squares of past gradients."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.models.keras import backend
from penstock._src.models.keras.optimizers.modern import modern
from penstock._src.models.keras.optimizers.optimizer import Optimizer
from penstock._src.ops.core import identity
from penstock.keras import initializers


def with_counter(optimizer: Any, weights: Any) -> Any:
    """Weights for `set_weights`; those of the old optimizers, which did not count steps, get a zero in front."""
    return [np.array(0), *weights] if len(optimizer.weights) == len(weights) + 1 else weights


@export(v1=["keras.optimizers.Adagrad"], v2=["keras.optimizers.legacy.Adagrad"])
class AdagradV1(Optimizer):
    """Steps divided by the root of the sum of all squared gradients so far.

    Args:
        learning_rate: A number, a schedule, or a function without parameters that returns the rate.
        initial_accumulator_value: What each sum begins with.
        epsilon: A small number that is added to the root.
        name: The optimizer's name.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `use_ema` and others of `Optimizer`.

    >>> w = tf.Variable([1.0])
    >>> _ = tf.keras.optimizers.Adagrad(0.1, initial_accumulator_value=0.0).apply_gradients([(tf.constant([4.0]), w)])
    >>> print(w.numpy())
    [0.9]
    """

    _config_hypers = ("learning_rate", "decay")
    _config_fields = ("initial_accumulator_value", "epsilon")
    _slot_groups = ({"accumulator": "accumulator"},)

    def __init__(self, learning_rate: Any = 0.001, initial_accumulator_value: float = 0.1, epsilon: Any = 1e-7,
                 name: str | None = "Adagrad", **kwargs: Any):
        if initial_accumulator_value < 0.0:
            raise ValueError(f"initial_accumulator_value must be non-negative: {initial_accumulator_value}")
        super().__init__(name, **kwargs)
        self._set_learning_rate(learning_rate, kwargs)
        self._initial_accumulator_value = initial_accumulator_value
        self.epsilon = epsilon or backend.epsilon()

    initial_accumulator_value = property(lambda self: self._initial_accumulator_value, doc="Where the sums of squares start.")

    def _create_slots(self, var_list: list) -> None:
        for v in var_list:
            self.add_slot(v, "accumulator", initializers.Constant(self._initial_accumulator_value))

    def _prepare_local(self, var_device: Any, var_dtype: Any, apply_state: dict) -> None:
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[var_device, var_dtype]["epsilon"] = convert(self.epsilon, var_dtype)

    def set_weights(self, weights: Any) -> None:
        """Sets the optimizer's variables."""
        super().set_weights(with_counter(self, weights))

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The optimizer of a configuration; old ones of the 1.x API have no initial value, which was zero then."""
        before = {} if cls._modern else {"initial_accumulator_value": 0.0}
        return super().from_config({**before, **config}, custom_objects)

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: dict | None = None) -> Any:
        c = self._coefficients(var, apply_state)
        return self._apply_keras(grad, var, c) if self._modern else self._rule("AdagradV2", var, ["accumulator"], c, grad)

    def _apply_keras(self, grad: Any, var: Any, c: dict, indices: Any = None) -> Any:
        return self._rule("_KerasAdagrad", var, ["accumulator"], c, grad, indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, apply_state: dict | None = None) -> Any:
        return self._rule("AdagradV2", var, ["accumulator"], self._coefficients(var, apply_state), grad, indices)


Adagrad = modern(AdagradV1, "Adagrad")


@export(v1=["keras.optimizers.Adadelta"], v2=["keras.optimizers.legacy.Adadelta"])
class AdadeltaV1(Optimizer):
    """Steps scaled by the ratio of averaged past steps to averaged past gradients.

    Args:
        learning_rate: A number, a schedule, or a function without parameters that returns the rate.
        rho: How much of both averages each step keeps.
        epsilon: A small number that is added to both averages.
        name: The optimizer's name.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `use_ema` and others of `Optimizer`.

    >>> w = tf.Variable([1.0])
    >>> _ = tf.keras.optimizers.Adadelta(1.0).apply_gradients([(tf.constant([4.0]), w)])
    >>> print(bool(w < 1.0))
    True
    """

    _config_hypers = ("learning_rate", "decay", "rho")
    _config_fields = ("epsilon",)
    _slots_of_var = ("accum_grad", "accum_var")
    _slot_groups = ({"accum_grad": "accumulated_grad", "accum_var": "accumulated_delta_var"},)

    def __init__(self, learning_rate: Any = 0.001, rho: Any = 0.95, epsilon: Any = 1e-7, name: str | None = "Adadelta",
                 **kwargs: Any):
        super().__init__(name, **kwargs)
        self._set_learning_rate(learning_rate, kwargs)
        self._set_hyper("rho", rho)
        self.epsilon = epsilon or backend.epsilon()

    def _create_slots(self, var_list: list) -> None:
        for slot in self._slots_of_var:
            for v in var_list:
                self.add_slot(v, slot)

    def _prepare_local(self, var_device: Any, var_dtype: Any, apply_state: dict) -> None:
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[var_device, var_dtype].update(epsilon=convert(self.epsilon, var_dtype),
                                                  rho=identity(self._get_hyper("rho", var_dtype)))

    def set_weights(self, weights: Any) -> None:
        """Sets the optimizer's variables."""
        super().set_weights(with_counter(self, weights))

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: dict | None = None) -> Any:
        return self._rule("Adadelta", var, self._slots_of_var, self._coefficients(var, apply_state), grad)

    def _apply_keras(self, grad: Any, var: Any, c: dict, indices: Any = None) -> Any:
        return self._rule("_KerasAdadelta", var, self._slots_of_var, c, grad, indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, apply_state: dict | None = None) -> Any:
        return self._rule("Adadelta", var, self._slots_of_var, self._coefficients(var, apply_state), grad, indices)


Adadelta = modern(AdadeltaV1, "Adadelta")
