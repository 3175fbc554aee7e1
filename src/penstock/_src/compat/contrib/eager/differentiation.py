"""Gradients of functions: with respect to their arguments, or to the variables that they read."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock.compat import v1 as tf


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.eager.{name}", f"contrib.eager.python.tfe.{name}"])


@_export("implicit_value_and_gradients")
def implicit_value_and_gradients(f: Callable) -> Callable:
    """A function that returns the value of `f` and pairs of gradients and variables, for all trained variables that it read.

    Args:
        f: Function that returns a scalar.

    Returns:
        A function of the same arguments.

    >>> tfe = tf.contrib.eager
    >>> v = tfe.Variable(3.)
    >>> value, grads_and_vars = tfe.implicit_value_and_gradients(lambda x: v * x * x)(tf.constant(2.))
    >>> value.numpy(), grads_and_vars[0][0].numpy()
    (np.float32(12.0), np.float32(4.0))
    """
    @functools.wraps(f)
    def grad_fn(*args: Any, **kwargs: Any) -> tuple[Any, list]:
        with tf.GradientTape() as tape:
            value = f(*args, **kwargs)
        if value is None:
            raise ValueError(f"Cannot differentiate a function that returns None; did you forget to return a value from {f}?")
        variables = list(tape.watched_variables())
        if not variables:
            raise ValueError("No trainable variables were accessed while the function was being computed.")
        return value, list(zip(tape.gradient(value, variables), variables, strict=True))
    return grad_fn


@_export("implicit_gradients")
def implicit_gradients(f: Callable) -> Callable:
    """A function that returns pairs of gradients and variables.

    Args:
        f: Function that returns a scalar.

    Returns:
        A function of the same arguments.

    >>> tfe = tf.contrib.eager
    >>> v = tfe.Variable(3.)
    >>> (gradient, variable), = tfe.implicit_gradients(lambda x: v * x * x)(tf.constant(2.))
    >>> gradient.numpy(), variable is v
    (np.float32(4.0), True)
    """
    both = implicit_value_and_gradients(f)
    return functools.wraps(f)(lambda *args, **kwargs: both(*args, **kwargs)[1])


@_export("value_and_gradients_function")
def value_and_gradients_function(f: Callable, params: Any = None) -> Callable:
    """A function that returns the value of `f` and its gradients with respect to its arguments, or those in `params`."""
    @functools.wraps(f)
    def grad_fn(*args: Any, **kwargs: Any) -> tuple[Any, list]:
        dy = kwargs.pop("dy", None)
        positions = list(range(len(args))) if params is None else [_position(f, p) for p in params]
        args = list(args)
        with tf.GradientTape() as tape:
            for p in positions:
                args[p] = nest.map_structure(tf.convert_to_tensor, args[p])
                tape.watch(args[p])
            value = f(*args, **kwargs)
        if value is None:
            raise ValueError(f"Cannot differentiate a function that returns None; did you forget to return a value from {f}?")
        return value, tape.gradient(value, [args[p] for p in positions], output_gradients=dy)
    return grad_fn


def _position(f: Callable, parameter: Any) -> int:
    if isinstance(parameter, int):
        return parameter
    import inspect
    names = list(inspect.signature(f).parameters)
    if parameter not in names:
        raise ValueError(f"params must be all integers or all strings; unknown parameter {parameter!r}")
    return names.index(parameter)


@_export("gradients_function")
def gradients_function(f: Callable, params: Any = None) -> Callable:
    """A function that returns the gradients of `f` with respect to its arguments.

    >>> tfe.gradients_function(lambda x: x * x)(3.0)
    """
    both = value_and_gradients_function(f, params)
    return functools.wraps(f)(lambda *args, **kwargs: both(*args, **kwargs)[1])
