"""Gradient descent, with momentum."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.models.keras.optimizers.modern import modern
from penstock._src.models.keras.optimizers.optimizer import Optimizer
from penstock._src.ops.core import identity
from penstock._src.ops.registry import get


@export(v1=["keras.optimizers.SGD"], v2=["keras.optimizers.legacy.SGD"])
class SGDV1(Optimizer):
    """Steps of `learning_rate` times the gradient; with momentum, along a decaying sum of earlier steps.

    Args:
        learning_rate: A number, a schedule, or a function without parameters that returns the rate.
        momentum: How much of the previous step each step keeps.
        nesterov: Whether to apply Nesterov's momentum.
        name: The optimizer's name.
        **kwargs: `weight_decay`, `clipnorm`, `clipvalue`, `global_clipnorm`, `use_ema` and others of `Optimizer`.

    >>> w = tf.Variable([1.0, 2.0])
    >>> _ = tf.keras.optimizers.SGD(0.1).apply_gradients([(tf.constant([1.0, -1.0]), w)])
    >>> print(w.numpy())
    [0.9 2.1]
    """

    _config_hypers = ("learning_rate", "decay", "momentum")
    _config_fields = ("nesterov",)
    _slot_groups = ({"momentum": "m"},)

    def __init__(self, learning_rate: Any = 0.01, momentum: Any = 0.0, nesterov: bool = False, name: str | None = "SGD",
                 **kwargs: Any):
        super().__init__(name, **kwargs)
        self._set_learning_rate(learning_rate, kwargs)
        self._momentum = isinstance(momentum, Tensor) or callable(momentum) or momentum > 0
        if isinstance(momentum, (int, float)) and not 0 <= momentum <= 1:
            raise ValueError("`momentum` must be between [0, 1].")
        self._set_hyper("momentum", momentum)
        self.nesterov = nesterov

    def _create_slots(self, var_list: list) -> None:
        if self._momentum:
            for v in var_list:
                self.add_slot(v, "momentum")

    def _prepare_local(self, var_device: Any, var_dtype: Any, apply_state: dict) -> None:
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[var_device, var_dtype]["momentum"] = identity(self._get_hyper("momentum", var_dtype))

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: dict | None = None) -> Any:
        given = self._coefficients(var, apply_state)
        if self._momentum:
            return self._rule("KerasMomentum", var, ["momentum"], given, grad, use_nesterov=self.nesterov)
        return self._rule("GradientDescent", var, [], {"alpha": given["lr_t"]}, grad)

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any, **kwargs: Any) -> Any:
        if self._momentum:
            return super()._resource_apply_sparse_duplicate_indices(grad, handle, indices, **kwargs)
        rate = self._coefficients(handle, kwargs.get("apply_state"))["lr_t"]
        return get("ResourceScatterAdd")(handle.handle, indices, -grad * rate)      # repeated rows add up on their own

    def _apply_keras(self, grad: Any, var: Any, c: dict, indices: Any = None) -> Any:
        return self._rule("_KerasRowsMomentum", var, ["momentum"], c, grad, indices, use_nesterov=self.nesterov)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, apply_state: dict | None = None) -> Any:
        given = self._coefficients(var, apply_state)
        return self._rule("KerasMomentum", var, ["momentum"], given, grad, indices, use_nesterov=self.nesterov)


SGD = modern(SGDV1, "SGD")
