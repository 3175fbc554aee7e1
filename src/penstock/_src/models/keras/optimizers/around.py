"""OptimizerAround: a wrapper of another optimizer, which holds the state and the hyperparameters."""
from __future__ import annotations

from typing import Any

from penstock._src.models.keras.optimizers.modern import ModernOptimizer
from penstock._src.models.keras.optimizers.optimizer import Optimizer


class OptimizerAround(ModernOptimizer):
    """Base of optimizers that hold another in `_optimizer`: attributes that they do not define are those of the other.

    Attributes named in `_own` are theirs.
    """

    _own: frozenset[str] = frozenset({"_optimizer", "_hyper"})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in self._own:
            raise AttributeError(name)
        return getattr(self.__dict__["_optimizer"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_self_") or name in self._own:
            self.__dict__[name] = value
        else:
            setattr(self._optimizer, name, value)

    _modern = property(lambda self: self._optimizer._modern)
    iterations = property(lambda self: self._optimizer.iterations,
                          lambda self, value: setattr(self._optimizer, "iterations", value), doc="The variable of steps.")
    learning_rate = property(lambda self: self._optimizer.learning_rate,
                             lambda self, value: setattr(self._optimizer, "learning_rate", value), doc="The learning rate.")
    lr = learning_rate
    _learning_rate = property(lambda self: self._optimizer._learning_rate)
    weights = property(lambda self: self._optimizer.weights, doc="The variables of the optimizer.")
    variables = property(lambda self: self._optimizer.variables, doc="The variables of the optimizer.")
    built = property(lambda self: self._optimizer.built)
    name = property(lambda self: self._optimizer.name, doc="The name of the optimizer.")

    @property
    def _checkpoint_dependencies(self) -> list:
        """A newer optimizer inside has its dependencies here, as in Keras since 2.11."""
        own = Optimizer._checkpoint_dependencies.fget(self)        # type: ignore[attr-defined]
        if not self._modern:
            return own
        return [*(d for d in own if d.ref is not self._optimizer), *self._optimizer._checkpoint_dependencies]

    def _lookup_dependency(self, name: str, cached_dependencies: dict | None = None) -> Any:
        found = Optimizer._lookup_dependency(self, name, cached_dependencies)
        return self._optimizer._lookup_dependency(name) if found is None and self._modern else found

    def get_slot(self, var: Any, slot_name: str) -> Any:
        """The slot of a variable."""
        return self._optimizer.get_slot(var, slot_name)

    def get_slot_names(self) -> list[str]:
        """The names of the slots."""
        return self._optimizer.get_slot_names()

    def build(self, var_list: Any) -> None:
        """Makes the variables of the optimizer."""
        self._optimizer.build(var_list)

    def _create_or_restore_slot_variable(self, slot_variable_position: Any, slot_name: str, variable: Any) -> None:
        self._optimizer._create_or_restore_slot_variable(slot_variable_position, slot_name, variable)
