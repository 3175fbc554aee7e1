"""Dispatch of public functions for values that are not plain tensors.

A composite class takes part by defining `_dispatch(fn, args, kwargs)`, a static method that computes `fn` for arguments
among which there are values of the class (most often by applying it to their components), or returns NotImplemented.
Programs add targets to single functions (ops/composite.py).
"""
from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock._src.base.tracebacks import shorten


class Target(NamedTuple):
    """A function to call instead of an API, where the arguments fit."""

    accepts: Callable[[tuple, dict], bool]
    call: Callable
    function: Callable           # as the program gave it, by which it is removed


def _first(targets: list[Target], args: tuple, kwargs: dict) -> Any:
    for t in targets:
        if t.accepts(args, kwargs):
            out = t.call(*args, **kwargs)
            if out is not NotImplemented:
                return out
    return NotImplemented


class OpDispatcher:
    """A library's implementation of one function for its own types: `handle(args, kwargs)` computes it or returns
    NOT_SUPPORTED."""

    NOT_SUPPORTED = NotImplemented

    def handle(self, args: tuple, kwargs: dict) -> Any:
        """The result, or NOT_SUPPORTED."""
        return self.NOT_SUPPORTED

    def register(self, op: Callable) -> None:
        """Uses this dispatcher where `op` rejects its arguments."""
        if not hasattr(op, "_dispatchers"):
            raise AssertionError(f"Dispatching not enabled for {op}")
        op._dispatchers.append(self)


class GlobalOpDispatcher:
    """As OpDispatcher, for every function: `handle(op, args, kwargs)`."""

    NOT_SUPPORTED = NotImplemented

    def handle(self, op: Callable, args: tuple, kwargs: dict) -> Any:
        """The result, or NOT_SUPPORTED."""
        return self.NOT_SUPPORTED

    def register(self) -> None:
        """Uses this dispatcher where a function rejects its arguments."""
        _GLOBAL.append(self)


_GLOBAL: list[GlobalOpDispatcher] = []


def by_dispatchers(op: Callable, args: tuple, kwargs: dict) -> Any:
    """The result of the first dispatcher of libraries that supports the arguments, or NotImplemented."""
    for own in getattr(op, "_dispatchers", ()):
        out = own.handle(args, kwargs)
        if out is not NotImplemented:
            return out
    for other in _GLOBAL:
        out = other.handle(op, args, kwargs)
        if out is not NotImplemented:
            return out
    return NotImplemented


def dispatched(fn: Callable) -> Callable:
    """Lets a public function take values that are not plain tensors, if their class or a dispatcher supports it."""
    targets: list[Target] = []

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if targets:
            args, kwargs = tuple(map(_kept, args)), {k: _kept(v) for k, v in kwargs.items()}
            out = _first(targets, args, kwargs)
            if out is not NotImplemented:
                return out
        for a in (*args, *kwargs.values()) if kwargs else args:
            handler = _handler(a)
            if handler is not None:
                out = handler(fn, args, kwargs)
                if out is not NotImplemented:
                    return out
        try:
            return fn(*args, **kwargs)
        except (TypeError, ValueError) as e:
            out = by_dispatchers(call, args, kwargs)
            if out is NotImplemented:
                shorten(e)
                raise
            return out
        except Exception as e:
            shorten(e)
            raise
    call._dispatch_targets = targets  # type: ignore[attr-defined]
    call._dispatchers = []  # type: ignore[attr-defined]
    return call


def _kept(value: Any) -> Any:
    """A generator as a list, because its values are looked at before the call."""
    return list(value) if isinstance(value, types.GeneratorType) else value


def _handler(value: Any) -> Callable | None:
    if type(value) in (list, tuple):
        return next((h for h in map(_handler, value) if h is not None), None)
    return getattr(type(value), "_dispatch", None)
