"""A tf.Module as a layer, which is how a Sequential model takes one."""
from __future__ import annotations

import inspect
from typing import Any

from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.state.module import Module


class ModuleWrapper(Layer):
    """The layer whose call is that of a module; its variables are the module's.

    Args:
        module: The module, with a method `__call__` or `call`.
        **kwargs: `name`, `dtype` and other arguments of `Layer`.

    Raises:
        ValueError: if the module cannot be called.
    """

    def __init__(self, module: Module, **kwargs: Any):
        method = next((n for n in ("__call__", "call") if hasattr(module, n)), None)
        if method is None:
            raise ValueError(f"{module} has no method `__call__` or `call`.")
        super().__init__(**kwargs)
        self._module, self._method = module, method
        self._passes_training = "training" in inspect.signature(getattr(module, method)).parameters

    def call(self, inputs: Any, training: Any = None) -> Any:
        """What the module returns."""
        extra = {"training": training} if self._passes_training else {}
        return getattr(self._module, self._method)(inputs, **extra)
