"""Users' code that Keras calls while it builds graphs: AutoGraph rewrites it, so that tensors may decide its control flow."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.eager.autograph.convert import converted
from penstock._src.graph import context
from penstock._src.models.keras.backend.state import in_keras_graph


def is_users(what: Any) -> bool:
    """Whether a class or function is defined outside of penstock."""
    return not str(getattr(what, "__module__", "")).startswith("penstock.")


def traced(function: Callable) -> Callable:
    """A user's function, rewritten for graphs; as it is where ops execute, or in a function without AutoGraph."""
    if context.executing_eagerly():
        return function
    if context.state.autograph or not context.current_graph().building_function or in_keras_graph():
        with context.autograph(converted):
            return context.traced_as(function)
    return function
