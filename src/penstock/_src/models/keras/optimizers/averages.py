"""What newer Keras added to every optimizer: decay of weights, and moving averages of the variables (EMA)."""
from __future__ import annotations

import re
from typing import Any

from penstock._src.graph import context
from penstock._src.graph.scopes import control_dependencies
from penstock._src.ops.core import group
from penstock._src.ops.registry import get


class MovingAverages:
    """Averages of the variables that an optimizer trains, and which variables are excluded from weight decay.

    With `use_ema`, each variable has a slot `average` that follows it; `finalize_variable_values` puts the averages in the
    variables' place, and every `ema_overwrite_frequency` steps the optimizer does so automatically.
    """

    _averaging_options = ("use_ema", "ema_momentum", "ema_overwrite_frequency")
    _not_decayed: tuple = ()
    _overwrites_every: int | None = None            # the default of `ema_overwrite_frequency`

    def _init_averages(self, kwargs: dict) -> None:
        self.use_ema = bool(kwargs.get("use_ema") or False)
        momentum = kwargs.get("ema_momentum")
        self.ema_momentum = 0.99 if momentum is None else momentum
        self.ema_overwrite_frequency = kwargs.get("ema_overwrite_frequency", self._overwrites_every)
        if not 0 <= self.ema_momentum <= 1:
            raise ValueError(f"`ema_momentum` must be in the range [0, 1]. Received: ema_momentum={self.ema_momentum}")
        if self.ema_overwrite_frequency is not None and self.ema_overwrite_frequency < 1:
            raise ValueError("`ema_overwrite_frequency` must be an integer >= 1 or None. Received: "
                             f"ema_overwrite_frequency={self.ema_overwrite_frequency}")

    def _averages_config(self) -> dict[str, Any]:
        return {n: getattr(self, n) for n in self._averaging_options} if self.use_ema else {}

    def _create_averages(self, var_list: list) -> None:
        if self.use_ema:
            for v in var_list:
                self.add_slot(v, "average", v.value() if context.executing_eagerly() else v.initial_value)  # type: ignore[attr-defined]

    def _update_averages(self, var_list: list) -> list:
        """Moves the averages towards the variables; overwrites these, when it is due. Returns the ops, in a graph."""
        if not self.use_ema:
            return []
        made = []
        for v in var_list:
            average = self.get_slot(v, "average")  # type: ignore[attr-defined]
            moved = average.assign(average * self.ema_momentum + v * (1 - self.ema_momentum))
            made.append(moved)
            if self.ema_overwrite_frequency is not None:
                with control_dependencies([moved]):
                    due = get("Equal")(get("FloorMod")(self.iterations + 1, self.ema_overwrite_frequency), 0)  # type: ignore[attr-defined]
                    made.append(v.assign(get("SelectV2")(due, average.value(), v.value())))
        done = group(*made)
        return [] if done is None else [done]

    def finalize_variable_values(self, var_list: Any) -> None:
        """Assigns the averages to the variables, as at the end of training."""
        if self.use_ema:
            for v in var_list:
                v.assign(self.get_slot(v, "average").value())  # type: ignore[attr-defined]

    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Any = None) -> None:
        """Excludes variables from weight decay: these, and those whose names contain one of the patterns."""
        self._not_decayed = ([] if var_list is None else list(var_list), list(var_names or ()))

    def _uses_weight_decay(self, var: Any) -> bool:
        if not self._not_decayed:
            return True
        variables, patterns = self._not_decayed
        return not any(v is var for v in variables) and not any(re.search(p, var.name) for p in patterns)
