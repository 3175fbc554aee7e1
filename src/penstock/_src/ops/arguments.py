"""Arguments of public functions that TensorFlow renamed; both names are accepted."""
from __future__ import annotations

from typing import Any


def renamed(new_name: str, new: Any, old_name: str, old: Any) -> Any:
    """The argument given under either name; ValueError if both are."""
    if old is None:
        return new
    if new is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'")
    return old


def named_only(function: str, sentinel: Any, labels: Any, logits: Any) -> None:
    """Refuses positional labels and logits, whose order differs between functions, and missing ones."""
    if sentinel is not None:
        raise ValueError(f"Only call `{function}` with named arguments (labels=..., logits=..., ...)")
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")
