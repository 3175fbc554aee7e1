"""The 2.x sisters of optimizers: the same class with a flag, under the 2.x names.

They clip gradients where they are applied, and some have epsilon in another place of their formula.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export


def modern(base: type, name: str) -> Any:
    """The 2.x form of an optimizer class, exported as `keras.optimizers.<name>`."""
    made = type(name, (base,), {"_modern": True, "__doc__": base.__doc__, "__module__": base.__module__})
    base.__name__ = base.__qualname__ = name
    export.value(made, v2=[f"{place}.{name}" for place in ("keras.optimizers", "keras.optimizers.experimental", "optimizers")])
    return made
