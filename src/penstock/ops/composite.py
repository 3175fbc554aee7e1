"""Elementwise functions of composite tensors (sparse, ragged).

A composite class takes part by defining `_elementwise(fn, args, kwargs)`, a static method that applies `fn` to the
values of the composite tensors among the arguments and puts the result together again, or gives NotImplemented.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def dispatched(fn: Callable) -> Callable:
    """Lets a public function take composite tensors where their class knows how to."""
    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        for a in args:
            handler = getattr(type(a), "_elementwise", None)
            if handler is None and type(a) is list:
                handler = next((h for h in (getattr(type(e), "_elementwise", None) for e in a) if h is not None), None)
            if handler is not None:
                out = handler(fn, args, kwargs)
                if out is not NotImplemented:
                    return out
        return fn(*args, **kwargs)
    return call
