"""Argument scopes: default arguments for all calls of some functions inside a `with` block.

A function that supports scopes is decorated with `add_arg_scope`; a scope is a table from functions to arguments, on a stack.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base.api import export

_NAMES = ("contrib.framework.{}", "contrib.slim.{}")
_STACK: list[dict[str, dict[str, Any]]] = [{}]
_DECORATED: dict[str, tuple[str, ...]] = {}


def _export(name: str) -> Callable:
    return export(v1=[n.format(name) for n in _NAMES])


@_export("arg_scope_func_key")
def arg_scope_func_key(op: Callable) -> str:
    """The key of a function in the table of a scope."""
    return getattr(op, "_key_op", str(op))


def _name_of(op: Callable) -> tuple[str, str]:
    return op.__module__, op.__name__


@export(v1=["contrib.framework.current_arg_scope"])
def current_arg_scope() -> dict[str, dict[str, Any]]:
    """The table of the innermost scope."""
    return _STACK[-1]


@_export("has_arg_scope")
def has_arg_scope(func: Callable) -> bool:
    """Whether the function was decorated with `add_arg_scope`."""
    return arg_scope_func_key(func) in _DECORATED


@_export("arg_scoped_arguments")
def arg_scoped_arguments(func: Callable) -> tuple[str, ...]:
    """The arguments of a decorated function that a scope can set."""
    assert has_arg_scope(func)
    return _DECORATED[arg_scope_func_key(func)]


@_export("arg_scope")
@contextlib.contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[dict[str, dict[str, Any]]]:
    """Sets default arguments for calls of the functions in a list; or enters the scope of another `with`.

    Args:
        list_ops_or_scope: Functions, or the scope of another `with arg_scope(...) as scope`.
        **kwargs: The defaults.

    Returns:
        A context manager that returns the scope.

    Raises:
        TypeError: if a function was not prepared with `add_arg_scope`.

    >>> slim = tf.contrib.slim
    >>> with tf.Graph().as_default(), slim.arg_scope([slim.conv2d], padding="VALID"):
    ...     y = slim.conv2d(tf.ones([1, 8, 8, 3]), 16, [3, 3])
    >>> y.shape
    TensorShape([1, 6, 6, 16])
    """
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError("When attempting to reuse a scope by passing a dictionary, kwargs must be empty.")
        entered = dict(list_ops_or_scope)
    else:
        if not isinstance(list_ops_or_scope, (list, tuple)):
            raise TypeError(f"list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict), not "
                            f"{type(list_ops_or_scope).__name__}")
        entered = dict(current_arg_scope())
        for op in list_ops_or_scope:
            if not has_arg_scope(op):
                raise ValueError(f"{_name_of(op)} is not decorated with @add_arg_scope")
            key = arg_scope_func_key(op)
            entered[key] = {**entered.get(key, {}), **kwargs}
    _STACK.append(entered)
    try:
        yield entered
    finally:
        _STACK.pop()


@_export("add_arg_scope")
def add_arg_scope(func: Callable) -> Callable:
    """Lets a function take default arguments from scopes.

    Args:
        func: Function.

    Returns:
        The function, which looks for defaults in the open scopes.

    >>> slim = tf.contrib.slim
    >>> @slim.add_arg_scope
    ... def scaled(x, scale=1.0):
    ...     return x * scale
    >>> with slim.arg_scope([scaled], scale=10.):
    ...     print(scaled(2.))
    20.0
    """
    @functools.wraps(func)
    def with_scope(*args: Any, **kwargs: Any) -> Any:
        defaults = _STACK[-1].get(key)
        return func(*args, **{**defaults, **kwargs} if defaults else kwargs)

    key = str(func)
    with_scope._key_op = key
    parameters = inspect.signature(func).parameters.values()
    _DECORATED[key] = tuple(p.name for p in parameters if p.default is not p.empty)
    return with_scope
