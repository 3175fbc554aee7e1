"""OptimizerAround: the base class of optimizers that wrap another one."""
from __future__ import annotations

from typing import Any

from penstock._src.training.train.optimizer import Optimizer


class OptimizerAround(Optimizer):
    """An optimizer around another, `opt`: its gradients, slots and variables are those of the one inside."""

    def __init__(self, opt: Any, use_locking: bool, name: str):
        super().__init__(use_locking, name)
        self._opt = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list:
        """The gradients of the optimizer inside."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Applies the gradients with the optimizer inside."""
        return self._opt.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """A slot of the optimizer inside."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """The names of the slots of the optimizer inside."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list:
        """The variables of the optimizer inside."""
        return self._opt.variables()
