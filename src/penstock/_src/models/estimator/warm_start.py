"""WarmStartSettings: a new model that begins with some of the weights of an old one."""
from __future__ import annotations

import collections
import os
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export


@export("estimator.WarmStartSettings")
class WarmStartSettings(collections.namedtuple("WarmStartSettings", [
        "ckpt_to_initialize_from", "vars_to_warm_start", "var_name_to_vocab_info", "var_name_to_prev_var_name"])):
    """Which variables begin with the values of a checkpoint.

    >>> tf.estimator.WarmStartSettings("/tmp/old", vars_to_warm_start=".*embedding.*")
    """

    def __new__(cls, ckpt_to_initialize_from: Any, vars_to_warm_start: Any = ".*", var_name_to_vocab_info: Any = None,
                var_name_to_prev_var_name: Any = None) -> WarmStartSettings:
        if not ckpt_to_initialize_from:
            raise ValueError("`ckpt_to_initialize_from` MUST be set in WarmStartSettings")
        return super().__new__(cls, ckpt_to_initialize_from, vars_to_warm_start, var_name_to_vocab_info or {},
                               var_name_to_prev_var_name or {})

    def apply(self) -> None:
        """Changes the initializers of the graph's variables."""
        tf.train.warm_start(*self)


def warm_start_settings(given: Any) -> WarmStartSettings | None:
    """Settings from settings, or from the path of a checkpoint or SavedModel."""
    if given is None or isinstance(given, WarmStartSettings):
        return given
    if not isinstance(given, (str, bytes)):
        raise ValueError("warm_start_from must be a string or a WarmStartSettings, instead got "
                         f"{type(given)}")
    path = os.fsdecode(given) if isinstance(given, bytes) else given
    if tf.gfile.Exists(f"{path}/saved_model.pb") or tf.gfile.Exists(f"{path}/saved_model.pbtxt"):
        path = f"{path}/variables/variables"
    return WarmStartSettings(path)
