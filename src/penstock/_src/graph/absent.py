"""Attributes that tensors do not have but users of NumPy and PyTorch look for: the error names the function to call instead.

Each is a descriptor, because a `__getattr__` would slow down every `hasattr` of the eager path.
"""
from __future__ import annotations

import inspect
from typing import Any

_INSTEAD = {
    "T": "tf.transpose(x)", "astype": "tf.cast(x, dtype)", "clip": "tf.clip_by_value(x, low, high)", "copy": "tf.identity(x)",
    "cuda": "tf.device", "data": "x.numpy()", "detach": "tf.stop_gradient(x)",
    "flatten": "tf.reshape(x, [-1])",
    "item": "x.numpy().item()", "max": "tf.reduce_max(x)", "mean": "tf.reduce_mean(x)", "min": "tf.reduce_min(x)",
    "permute": "tf.transpose(x, perm)", "ravel": "tf.reshape(x, [-1])", "reshape": "tf.reshape(x, shape)", "size": "tf.size(x)",
    "squeeze": "tf.squeeze(x)", "sum": "tf.reduce_sum(x)", "to": "tf.cast(x, dtype) or tf.device",
    "tolist": "x.numpy().tolist()", "transpose": "tf.transpose(x)", "unsqueeze": "tf.expand_dims(x, axis)",
    "view": "tf.reshape(x, shape)"}
# What `experimental_enable_numpy_behavior` provides.
_OF_NUMPY = {"T", "astype", "clip", "data", "flatten", "max", "mean", "min", "ravel", "reshape", "size", "sum", "tolist",
             "transpose"}


class Absent:
    """Stands for an attribute that is not there."""

    def __init__(self, name: str, advice: str):
        self._name, self._advice = name, advice

    def __get__(self, instance: Any, owner: type) -> Any:
        raise AttributeError(f"'{owner.__name__}' object has no attribute '{self._name}': {self._advice}", name=self._name,
                             obj=instance)


def declare(cls: type) -> None:
    """Gives a class of tensors the attributes that explain what to use instead, and hides them from `dir`."""
    for name, instead in _INSTEAD.items():
        numpy = ", or call tf.experimental.numpy.experimental_enable_numpy_behavior() first" if name in _OF_NUMPY else ""
        setattr(cls, name, Absent(name, f"use {instead}{numpy}"))
    setattr(cls, "numpy", Absent("numpy", "a symbolic tensor has no value before its function or session runs"))  # noqa: B010

    def visible(self: Any) -> list[str]:
        return [n for n in object.__dir__(self) if not isinstance(inspect.getattr_static(self, n, None), Absent)]

    cls.__dir__ = visible  # type: ignore[assignment, method-assign]
