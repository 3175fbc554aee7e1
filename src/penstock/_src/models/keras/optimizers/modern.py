"""The 2.x variants of optimizers: the same class with a flag, under the 2.x names.

They clip gradients when they are applied, and some use epsilon elsewhere in the formula.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras.optimizers.optimizer import Optimizer

_MODERN_OPTIONS = frozenset(("weight_decay", "use_ema", "ema_momentum", "ema_overwrite_frequency", "jit_compile",
                             "is_legacy_optimizer"))


@export(v2=["keras.optimizers.experimental.Optimizer"])
class ModernOptimizer(Optimizer):
    """Base of the 2.x optimizers; those of `keras.optimizers.legacy` do not have it."""

    _modern = True


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
    return legacy.from_config({k: v for k, v in optimizer.get_config().items() if k not in _MODERN_OPTIONS})
