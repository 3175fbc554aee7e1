"""The options of the SavedModel that is being loaded, for layers that load another one inside of it."""
from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

from penstock._src.base.api import export

_options: contextvars.ContextVar[Any] = contextvars.ContextVar("load_options", default=None)


def get_load_options() -> Any:
    """The LoadOptions of the load in progress; None outside of one."""
    return _options.get()


def in_load_context() -> bool:
    """Whether a model is being loaded with options."""
    return _options.get() is not None


@export(v2=["__internal__.load_context"])
@contextlib.contextmanager
def load_context(load_options: Any) -> Iterator[None]:
    """A block in which `get_load_options` returns these options."""
    token = _options.set(load_options)
    try:
        yield
    finally:
        _options.reset(token)
