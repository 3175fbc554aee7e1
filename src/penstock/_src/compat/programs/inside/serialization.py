"""Of `util.serialization`: values that JSON lacks, in configurations of layers."""
from __future__ import annotations

from typing import Any

import numpy as np

import penstock as tf


def get_json_type(obj: Any) -> Any:
    """What stands for a value in JSON: for `default` of `json.dumps`. TypeError where nothing does."""
    if hasattr(obj, "get_config"):
        return {"class_name": type(obj).__name__, "config": obj.get_config()}
    if isinstance(obj, np.ndarray | np.generic):
        return obj.tolist()
    if isinstance(obj, tf.DType):
        return obj.name
    if isinstance(obj, tf.TensorShape):
        return obj.as_list()
    if callable(obj):
        return obj.__name__
    raise TypeError(f"{obj!r} has no form in JSON; a `get_config` method of its class would give it one.")
