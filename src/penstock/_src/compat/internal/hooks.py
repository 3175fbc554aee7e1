"""Functions that a separately installed Keras registers, so that TensorFlow can call it without importing it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export

_GIVEN: dict[str, Callable] = {}


def given(name: str) -> Callable | None:
    """The function that a Keras has registered, if any."""
    return _GIVEN.get(name)


@export("__internal__.register_call_context_function")
def register_call_context_function(func: Callable) -> None:
    """Registers the function that returns the current call context of Keras layers."""
    _GIVEN["call_context"] = func


@export("__internal__.register_clear_session_function")
def register_clear_session_function(func: Callable) -> None:
    """Registers the function that resets Keras's state."""
    _GIVEN["clear_session"] = func


@export("__internal__.register_get_session_function")
def register_get_session_function(func: Callable) -> None:
    """Registers the function that returns Keras's session."""
    _GIVEN["get_session"] = func


@export("__internal__.register_load_model_function")
def register_load_model_function(func: Callable) -> None:
    """Registers the function that loads a Keras model."""
    _GIVEN["load_model"] = func


@export("__internal__.train.is_mixed_precision_graph_rewrite_enabled")
def is_mixed_precision_graph_rewrite_enabled() -> bool:
    """Whether `enable_mixed_precision_graph_rewrite` was called."""
    return bool(tf.config.optimizer.get_experimental_options().get("auto_mixed_precision"))


@export("__internal__.train.set_using_mixed_precision_policy")
def set_using_mixed_precision_policy(is_using: bool) -> None:
    """Records that a Keras policy computes in half precision."""
    _GIVEN["mixed_precision_policy"] = lambda: is_using


@export("__internal__.execute_fn_for_device")
def execute_fn_for_device(device_branches: dict[str, Callable], default_fn: Callable, name: str = "execute_fn") -> Any:
    """The result of the function for the kind of device that ops run on here: GPU where there is one, else CPU."""
    gpus = tf.config.list_logical_devices("GPU") if "GPU" in device_branches else ()
    chosen = device_branches.get("GPU" if gpus else "CPU", default_fn)
    return chosen()
