"""Saving lists of variables."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.eager.{name}", f"contrib.eager.python.tfe.{name}"])


@_export("Saver")
class Saver:
    """Saves and restores variables, eagerly or not.

    >>> tfe.Saver([v]).save("/tmp/model")
    """

    def __init__(self, var_list: Any):
        self._saver = tf.train.Saver(var_list)

    def save(self, file_prefix: str, global_step: Any = None) -> str:
        """The path of the new checkpoint."""
        return self._saver.save(None, file_prefix, global_step=global_step, write_meta_graph=False)

    def restore(self, file_prefix: str) -> None:
        """Sets the variables to the values of a checkpoint."""
        self._saver.restore(None, file_prefix)


@_export("get_optimizer_variables")
def get_optimizer_variables(optimizer: Any) -> list:
    """The variables of an optimizer."""
    return optimizer.variables()
