"""Public functions on composite tensors (sparse, ragged).

A composite class takes part by defining `_dispatch(fn, args, kwargs)`, a static method that computes `fn` for arguments
among which there are tensors of the class (most often by applying it to their values), or gives NotImplemented.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from penstock._src.base.tracebacks import shorten


def dispatched(fn: Callable) -> Callable:
    """Lets a public function take composite tensors where their class knows how to."""
    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        for a in (*args, *kwargs.values()) if kwargs else args:
            handler = _handler(a)
            if handler is not None:
                out = handler(fn, args, kwargs)
                if out is not NotImplemented:
                    return out
        try:
            return fn(*args, **kwargs)
        except Exception as e:
            shorten(e)
            raise
    return call


def _handler(value: Any) -> Callable | None:
    if type(value) is list:
        return next((h for h in map(_handler, value) if h is not None), None)
    return getattr(type(value), "_dispatch", None)
