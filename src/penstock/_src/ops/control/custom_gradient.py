"""tf.custom_gradient: a function that defines its own gradient; and tf.recompute_grad, tf.grad_pass_through."""
from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.func_graph import copy_handle_data
from penstock._src.graph.gradients import is_trainable, zeros_for
from penstock._src.graph.recording import record
from penstock._src.graph.scopes import control_dependencies, tapes_paused
from penstock._src.graph.tape import Tape
from penstock._src.ops.registry import get


@export("custom_gradient")
def custom_gradient(f: Callable | None = None) -> Any:
    """Decorates a function that returns (results, function from their gradients to gradients of the arguments).

    Args:
        f: Function that returns its result and a function of the result's gradients, which returns those of the arguments.

    Returns:
        A function whose gradient is that function. Without `f`, a decorator.

    >>> @tf.custom_gradient
    ... def clipped(x):
    ...     return x, lambda upstream: tf.clip_by_value(upstream, -1.0, 1.0)
    >>> float(clipped(tf.constant(3.0)))
    3.0
    """
    if f is None:
        return custom_gradient

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        if context.executing_eagerly():
            return _eagerly(f, args, kwargs)
        return _in_graph(f, args, kwargs)
    decorated.__original_wrapped__ = f          # type: ignore[attr-defined]  # as TensorFlow's decorators call it
    return decorated


def _takes_variables(grad_fn: Callable) -> bool:
    spec = inspect.getfullargspec(getattr(grad_fn, "python_function", grad_fn))
    return "variables" in spec.args or "variables" in spec.kwonlyargs or spec.varkw is not None


def _run(f: Callable, args: Any, kwargs: dict[str, Any]) -> tuple:
    """Calls f and records which variables it reads: (result, gradient function, variables)."""
    with Tape() as tape:
        result, grad_fn = f(*args, **kwargs)
    given = [*args, *kwargs.values()]
    variables = [v for v in tape.watched_variables() if all(v is not g for g in given)]
    takes = _takes_variables(grad_fn)
    if variables and not takes:
        raise TypeError("If using @custom_gradient with a function that uses variables, then grad_fn must accept a keyword "
                        "argument 'variables'.")
    if takes and not variables and inspect.getfullargspec(grad_fn).varkw is None:
        logging.getLogger("penstock").warning("The gradient function takes 'variables', but the function reads no resource "
                                              "variables.")
    return result, grad_fn, variables


def _leaf(x: Any) -> Any:
    """A tensor, or a composite whose gradient has parts."""
    return x if hasattr(x, "_gradient_components") else convert(x)


def _parts(leaves: list) -> list:
    """The tensors of leaves that gradients are of."""
    return [part for x in leaves for part in (x._gradient_components() if hasattr(x, "_gradient_components") else [x])]


def _with_parts(leaves: list, parts: Any) -> list:
    """The leaves with other tensors."""
    it = iter(parts)
    return [x._with_gradient_components([next(it) for _ in x._gradient_components()]) if hasattr(x, "_gradient_components")
            else next(it) for x in leaves]


def _input_gradients(grad_fn: Callable, grads: list, variables: list, count: int) -> list:
    """The gradients of the arguments, then of the variables."""
    if variables:
        input_grads, variable_grads = grad_fn(*grads, variables=variables)
        if len(variable_grads) != len(variables):
            raise ValueError("The gradient function must return a gradient for each variable.")
    else:
        input_grads, variable_grads = grad_fn(*grads), []
    flat = nest.flatten(input_grads)
    if len(flat) != count:
        raise ValueError(f"custom_gradient function expected to return {count} gradients, but returned {len(flat)} instead.")
    return _parts(flat) + list(variable_grads)


def _eagerly(f: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    result, grad_fn, variables = _run(f, args, kwargs)
    leaves = [_leaf(x) for x in nest.flatten(result)]
    flat = [get("Identity")(t) for t in _parts(leaves)]
    arguments = nest.flatten(args)
    inputs = [*_parts([_source(a) for a in arguments]), *(v.handle for v in variables)]
    record(None, inputs, flat, lambda *grads: _input_gradients(grad_fn, _with_parts(leaves, grads), variables, len(arguments)))
    return nest.pack_sequence_as(result, _with_parts(leaves, flat))


def _source(x: Any) -> Any:
    return x.handle if hasattr(x, "handle") and hasattr(x, "trainable") else _leaf(x)


def _in_graph(f: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    if kwargs:
        raise ValueError("The custom_gradient decorator currently supports keywords arguments only when eager execution is "
                         "enabled.")
    arguments = [_leaf(x) for x in nest.flatten(args)]
    tensors = _parts(arguments)
    graph = context.current_graph()
    before = set(map(id, _variables_of(graph)))
    result, grad_fn, variables = _run(f, nest.pack_sequence_as(args, arguments), {})
    new = [v for v in _variables_of(graph) if id(v) not in before]
    if any(not hasattr(v, "handle") for v in new):
        raise TypeError("All variables used by a function wrapped with @custom_gradient must be `ResourceVariable`s. Ensure "
                        "that no `variable_scope` is created with `use_resource=False`.")
    leaves = [_leaf(x) for x in nest.flatten(result)]
    flat = _parts(leaves)
    everything = [*flat, *tensors, *(convert(v) for v in variables)]
    with tapes_paused():                                 # until it has its gradient
        passed = get("IdentityN")(everything)

    def gradient(op: Any, *grads: Any) -> list:
        given = [zeros_for(t) if g is None and is_trainable(t) else g
                 for g, t in zip(grads, op.outputs[:len(flat)], strict=False)]
        return [None] * len(flat) + _input_gradients(grad_fn, _with_parts(leaves, given), variables, len(arguments))
    gradient.takes_none = True  # type: ignore[attr-defined]
    passed[0].op._gradient_function = gradient
    record(passed[0].op, passed[0].op.inputs, passed[0].op.outputs)
    for t, p in zip(everything, passed, strict=True):
        copy_handle_data(t, p)
    return nest.pack_sequence_as(result, _with_parts(leaves, passed[:len(flat)]))


def _variables_of(graph: Any) -> list:
    return graph.get_collection("variables") + graph.get_collection("local_variables")


@export("recompute_grad")
def recompute_grad(f: Callable) -> Callable:
    """A function that is recomputed for its gradient, instead of saving intermediate values.

    Args:
        f: Function of tensors.

    Returns:
        A function with the same results and gradients.

    >>> f = tf.recompute_grad(tf.sin)
    >>> float(f(tf.constant(0.0)))
    0.0
    """
    @custom_gradient
    @functools.wraps(f)
    def inner(*args: Any, **kwargs: Any) -> tuple:
        result = f(*args, **kwargs)

        def grad(*dresult: Any, variables: Any = None) -> Any:
            fresh = [get("Identity")(convert(a)) for a in args]
            with Tape() as tape:
                tape.watch(fresh)
                if variables is not None:
                    tape.watch(variables)
                with control_dependencies(dresult):
                    again = f(*fresh, **kwargs)
            sources = fresh + list(variables or ())
            grads = tape.gradient(again, sources, output_gradients=list(dresult))
            return (grads[:len(args)], grads[len(args):]) if variables else grads
        return result, grad
    inner.__wrapped__ = f
    return inner


@export("grad_pass_through")
def grad_pass_through(f: Callable) -> Callable:
    """A function whose gradient is that of the identity.

    Args:
        f: Function of a tensor whose own gradient is zero or undefined, such as rounding.

    Returns:
        The function, with the gradient of the identity.

    >>> x = tf.Variable(1.4)
    >>> with tf.GradientTape() as tape:
    ...     y = tf.grad_pass_through(tf.round)(x)
    >>> float(y), float(tape.gradient(y, x))
    (1.0, 1.0)
    """
    @custom_gradient
    @functools.wraps(f)
    def passed(*args: Any, **kwargs: Any) -> tuple:
        def grad(*grads: Any, variables: Any = None) -> Any:
            return (grads, [None] * len(variables)) if variables is not None else grads
        return f(*args, **kwargs), grad
    return passed
