"""The 2.x variants of optimizers: the same class with a flag, under the 2.x names.

They clip gradients when they are applied, and some use epsilon elsewhere in the formula. Their variables have the names and the
order of Keras 2.11 and later, and are in checkpoints as a list instead of as slots.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.graph.trackable import Trackable, TrackableReference
from penstock._src.models.keras import backend
from penstock._src.models.keras.optimizers import schedules
from penstock._src.models.keras.optimizers.current_rate import CurrentRate
from penstock._src.models.keras.optimizers.optimizer import Optimizer, new_variable
from penstock._src.state.variables.policy import VariableAggregation
from penstock._src.state.variables.variable import Variable
from penstock._src.training.train.schedules import LearningRateSchedule

_MODERN_OPTIONS = ("weight_decay", "clipnorm", "global_clipnorm", "clipvalue", "use_ema", "ema_momentum",
                   "ema_overwrite_frequency", "jit_compile", "is_legacy_optimizer")
_NOT_LEGACY = frozenset(_MODERN_OPTIONS) - {"clipnorm", "global_clipnorm", "clipvalue"}
_OLDER_METHODS = frozenset(("_create_slots", "_resource_apply_dense", "_resource_apply_sparse", "_prepare_local"))


class _VariableList(Trackable):
    """The variables of an optimizer as checkpoints have them: a list, in the order of `variables`.

    The slots of a variable's shards are one entry, so that a checkpoint does not depend on how variables were sharded.
    """

    def __init__(self, optimizer: Any):
        self._optimizer = optimizer
        self._wholes: dict[int, Any] = {}                   # the trained variables, with shards joined; empty without shards
        self._entries: list = optimizer._weights

    def update(self, var_list: Any) -> list:
        """Adds the slots of new variables; returns all entries."""
        wholes = [v if container is None else container()
                  for v in var_list for container in (getattr(v, "_sharded_container", None),)]
        self._entries = self._optimizer._weights
        if self._wholes or any(hasattr(v, "is_sharded_variable") for v in wholes):
            self._wholes.update((id(v), v) for v in wholes)
            self._entries = [self._optimizer.iterations, *self._optimizer.slots_by_variable(self._wholes.values())]
        return self._entries

    @property
    def _checkpoint_dependencies(self) -> list[TrackableReference]:
        return [TrackableReference(str(i), v) for i, v in enumerate(self._entries)]

    def _lookup_dependency(self, name: str, cached_dependencies: dict | None = None) -> Any:
        return self._entries[int(name)] if name.isdecimal() and int(name) < len(self._entries) else None


@export(v2=["keras.optimizers.Optimizer", "optimizers.Optimizer", "keras.optimizers.experimental.Optimizer"])
class ModernOptimizer(Optimizer):
    """Base of the 2.x optimizers; those of `keras.optimizers.legacy` do not have it.

    A subclass written for Keras before 2.11, with its methods (`_resource_apply_dense` and others), is treated as a legacy one.
    """

    _modern = True

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "_modern" not in vars(cls) and _OLDER_METHODS & vars(cls).keys():
            cls._modern = False

    def __init__(self, name: Any = None, **kwargs: Any):
        super().__init__(name, **kwargs)
        self._kept = _VariableList(self)

    # -- variables ----------------------------------------------------------------------------------------------------
    def _scalar(self, name: str, value: Any, dtype: Any) -> Any:
        """A variable that `_checkpoint_dependencies` names, not its own name."""
        with name_scope(None):
            made = new_variable(name, [], dtype, value, aggregation=VariableAggregation.ONLY_FIRST_REPLICA)
        backend.track_variable(made)
        return made

    def _new_counter(self) -> Any:
        return self._scalar("iteration", 0, dtypes.int64) if self._modern else super()._new_counter()

    def _new_hyper(self, name: str, value: float) -> Any:
        """The learning rate is a variable, the others are numbers."""
        if not self._modern:
            return super()._new_hyper(name, value)
        return self._scalar(name, value, dtypes.float32) if name == "learning_rate" else value

    def _slot_title(self, variable: str, slot_name: str) -> str:
        if not self._modern:
            return super()._slot_title(variable, slot_name)
        return f"{next((g[slot_name] for g in self._slot_groups if slot_name in g), slot_name)}/{variable}"

    def _arrange_new_weights(self, first: int, var_list: Any) -> None:
        if not self._modern or len(self._weights) == first:
            return
        new = {id(v) for v in self._weights[first:]}
        slots = [s for s in self.slots_by_variable(var_list) if id(s) in new]
        known = set(map(id, slots))
        self._weights[first:] = [*slots, *(v for v in self._weights[first:] if id(v) not in known)]
        for i, entry in enumerate(self._kept.update(var_list)):
            self._kept._handle_deferred_dependencies(str(i), entry)

    @property
    def variables(self) -> Any:
        """The optimizer's variables: the counter of steps, then those beside the trained variables."""
        if self._modern:
            _ = self.iterations
        return super().variables

    @property
    def _learning_rate(self) -> Any:
        """The variable of the learning rate, or the schedule."""
        return self._get_hyper("learning_rate")

    @_learning_rate.setter
    def _learning_rate(self, value: Any) -> None:
        if value is not self._hyper.get("learning_rate"):
            self._set_hyper("learning_rate", value)

    def _hyper_attribute(self, name: str) -> Any:
        found = super()._hyper_attribute(name)
        if name == "learning_rate" and self._modern and isinstance(found, LearningRateSchedule):
            return CurrentRate(found, self)
        return found

    # -- checkpoints --------------------------------------------------------------------------------------------------
    @property
    def _slots_in_checkpoints(self) -> bool:
        return not self._modern

    @property
    def _checkpoint_dependencies(self) -> list[TrackableReference]:
        """The dependencies that Keras has: the counter, the learning rate, and the list of all variables."""
        own = list(super()._checkpoint_dependencies)
        if not self._modern:
            return own
        rate = self._hyper.get("learning_rate")
        found = {"_variables": self._kept, "_iterations": self.iterations,
                 **({"_learning_rate": rate} if isinstance(rate, Variable) else {})}
        return [*(d for d in own if d.name not in self._hyper), *(TrackableReference(n, v) for n, v in found.items())]

    def _list_extra_dependencies_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        """The learning rate under its public name."""
        rate = self._hyper.get("learning_rate")
        return {"learning_rate": rate} if self._modern and isinstance(rate, Variable) else {}

    def _lookup_dependency(self, name: str, cached_dependencies: dict | None = None) -> Any:
        if not self._modern:
            return super()._lookup_dependency(name, cached_dependencies)
        if name == "_variables":
            return self._kept
        if name in ("_iterations", "iter"):                      # `iter` in checkpoints before Keras 2.11
            return self.iterations
        hyper = "learning_rate" if name == "_learning_rate" else name
        if hyper in self._hyper:
            self._create_hypers()
            found = self._hyper[hyper]
            return found if isinstance(found, Variable) else None
        return super()._lookup_dependency(name, cached_dependencies)

    def save_own_variables(self, store: Any) -> None:
        """Puts the values of the variables into a mapping, by their number.

        Args:
            store: A dictionary, or a group of an HDF5 file.
        """
        for i, value in enumerate(backend.batch_get_value(self.variables)):
            store[str(i)] = np.asarray(value)

    def load_own_variables(self, store: Any) -> None:
        """Sets the variables from what `save_own_variables` has stored.

        Args:
            store: A mapping from numbers, as strings, to values.
        """
        own = self.variables
        if len(store) != len(own):
            raise ValueError(f"The optimizer {self.name} has {len(own)} variables, and {len(store)} were saved.")
        backend.batch_set_value([(v, np.asarray(store[str(i)])) for i, v in enumerate(own)])

    # -- configuration ------------------------------------------------------------------------------------------------
    def _serialize_hyperparameter(self, hyperparameter_name: Any) -> Any:
        """A hyperparameter, given by its name or itself, as a configuration has it."""
        if isinstance(hyperparameter_name, str) and not self._modern:
            return super()._serialize_hyperparameter(hyperparameter_name)
        named = isinstance(hyperparameter_name, str)
        value = self._hyper[hyperparameter_name] if named else hyperparameter_name
        if isinstance(value, LearningRateSchedule):
            return schedules.serialize(value.schedule if isinstance(value, CurrentRate) else value)
        value = value() if callable(value) else value
        found = np.float32(backend.get_value(value) if isinstance(value, (Tensor, Variable)) else value)
        return found if not named or hyperparameter_name == "learning_rate" else float(str(found))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the optimizer, without its state."""
        config = super().get_config()
        if not self._modern:
            return config
        own = {k: v for k, v in config.items() if k not in _MODERN_OPTIONS and (k != "decay" or self._initial_decay)}
        return {"name": own.pop("name"), **{k: getattr(self, k, False) for k in _MODERN_OPTIONS}, **own}


ModernOptimizer.__name__ = ModernOptimizer.__qualname__ = "Optimizer"


def modern(base: type, name: str) -> Any:
    """The 2.x form of an optimizer class, exported as `keras.optimizers.<name>`."""
    made = type(name, (base, ModernOptimizer), {"_modern": True, "_legacy": base, "__doc__": base.__doc__,
                                                 "__module__": base.__module__})
    base.__name__ = base.__qualname__ = name
    export.value(made, v2=[f"{place}.{name}" for place in ("keras.optimizers", "keras.optimizers.experimental", "optimizers")])
    return made


@export(v2=["keras.__internal__.optimizers.convert_to_legacy_optimizer"])
def convert_to_legacy_optimizer(optimizer: Any) -> Any:
    """The `keras.optimizers.legacy` form of an optimizer, with the same settings. Legacy optimizers stay as they are.

    >>> tf.keras.__internal__.optimizers.convert_to_legacy_optimizer(tf.keras.optimizers.Adam(0.5))
    """
    if getattr(optimizer, "_modern", None) is False:
        return optimizer
    legacy = getattr(optimizer, "_legacy", None)
    if legacy is None:
        raise ValueError("`convert_to_legacy_optimizer` takes optimizers that `tf.keras.optimizers.legacy` has, but received "
                         f"{optimizer} of type {type(optimizer)}.")
    return legacy.from_config({k: v for k, v in optimizer.get_config().items() if k not in _NOT_LEGACY})
