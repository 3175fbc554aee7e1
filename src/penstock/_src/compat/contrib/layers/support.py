"""The common part of the layers: their variables, the collections of these, and outputs under the name of their scope."""
from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.compat.contrib.framework.arguments import add_arg_scope
from penstock._src.compat.contrib.framework.variables import model_variable
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def layer(*names: str) -> Callable:
    """Exports a layer under its names in contrib.layers and slim, and lets argument scopes set its arguments."""
    def decorate(function: Callable) -> Callable:
        scoped = add_arg_scope(function)
        public(*names)(scoped)
        return scoped
    return decorate


def public(*names: str) -> Callable:
    """Exports a function unchanged in contrib.layers, slim and slim.layers."""
    return export(v1=[f"contrib.{part}.{n}" for n in names for part in ("layers", "slim", "slim.layers")])


def utility(name: str) -> Callable:
    """Exports one of the helpers that programs reach for (slim.utils, layers.utils)."""
    return export(v1=[f"contrib.layers.utils.{name}", f"contrib.slim.utils.{name}"])


@utility("append_tensor_alias")
def append_tensor_alias(tensor: Tensor, alias: str) -> Tensor:
    """Adds a name under which the tensor is known in tables of outputs."""
    alias = alias.removesuffix("/")
    if hasattr(tensor, "aliases"):
        tensor.aliases.append(alias)
    else:
        tensor.aliases = [alias]
    return tensor


@utility("get_tensor_aliases")
def get_tensor_aliases(tensor: Tensor) -> list[str]:
    """The names under which the tensor is known."""
    if hasattr(tensor, "aliases"):
        return tensor.aliases
    return [tensor.op.name if tensor.name.endswith(":0") else tensor.name]


@utility("gather_tensors_aliases")
def gather_tensors_aliases(tensors: Any) -> list[str]:
    """The names of all tensors."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


@utility("collect_named_outputs")
def collect_named_outputs(outputs_collections: Any, alias: str, outputs: Any) -> Any:
    """Puts an output into collections, known by the name of its scope."""
    if outputs_collections:
        append_tensor_alias(outputs, alias)
        tf.add_to_collections(outputs_collections, outputs)
    return outputs


@utility("convert_collection_to_dict")
def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> dict[str, Any]:
    """A collection of outputs as a table by their names."""
    found = collections.OrderedDict((alias, t) for t in tf.get_collection(collection) for alias in get_tensor_aliases(t))
    if clear_collection:
        tf.get_default_graph().clear_collection(collection)
    return found


@utility("constant_value")
def constant_value(value_or_tensor_or_var: Any, dtype: Any = None) -> Any:
    """The value, if it is known when the graph is built."""
    if value_or_tensor_or_var is None:
        raise ValueError("value_or_tensor_or_var cannot be None")
    value = value_or_tensor_or_var
    if not tf.is_tensor(value) and not isinstance(value, tf.Variable):
        return value
    if dtype and value.dtype != dtype:
        raise ValueError(f"It has the wrong type {value.dtype} instead of {dtype}")
    return None if isinstance(value, tf.Variable) else tf.get_static_value(value)


@utility("smart_cond")
def smart_cond(pred: Any, fn1: Callable, fn2: Callable, name: str | None = None) -> Any:
    """One of two functions, chosen now where the condition is known."""
    known = constant_value(pred)
    return tf.cond(pred, fn1, fn2, name=name) if known is None else static_cond(known, fn1, fn2)


@utility("static_cond")
def static_cond(pred: Any, fn1: Callable, fn2: Callable) -> Any:
    """One of two functions, chosen now."""
    if not callable(fn1):
        raise TypeError("fn1 must be callable.")
    if not callable(fn2):
        raise TypeError("fn2 must be callable.")
    return fn1() if pred else fn2()


@utility("get_variable_collections")
def get_variable_collections(variables_collections: Any, name: str) -> Any:
    """The collections of one of a layer's variables."""
    return variables_collections.get(name) if isinstance(variables_collections, dict) else variables_collections


def _dimension(shape: Any, axis: int, min_rank: int) -> int:
    if shape.dims is None:
        raise ValueError("dims of shape must be known but is None")
    if len(shape.dims) < min_rank:
        raise ValueError(f"rank of shape must be at least {min_rank} not: {len(shape.dims)}")
    value = shape.dims[axis].value
    if value is None:
        raise ValueError(f"dimension {axis} of shape must be known but is None: {shape}")
    return value


@utility("channel_dimension")
def channel_dimension(shape: Any, data_format: str, min_rank: int = 1) -> int:
    """The number of channels."""
    return _dimension(shape, 1 if data_format == "channels_first" else -1, min_rank)


@utility("last_dimension")
def last_dimension(shape: Any, min_rank: int = 1) -> int:
    """The last dimension, which must be known."""
    return _dimension(shape, -1, min_rank)


@utility("two_element_tuple")
def two_element_tuple(int_or_tuple: Any) -> tuple[int, int]:
    """A number as two, or two numbers."""
    if isinstance(int_or_tuple, (list, tuple, tf.TensorShape)):
        if len(int_or_tuple) != 2:
            raise ValueError(f"Must be a list with 2 elements: {int_or_tuple}")
        return int(int_or_tuple[0]), int(int_or_tuple[1])
    if isinstance(int_or_tuple, int):
        return int_or_tuple, int_or_tuple
    raise ValueError("Must be an int, a list with 2 elements or a TensorShape of length 2")


@utility("n_positive_integers")
def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """A number n times, or n numbers; all positive."""
    if int(n) < 1 or int(n) != n:
        raise ValueError("n must be a positive integer")
    try:
        values = (int(value),) * int(n)
    except (TypeError, ValueError):
        values = tuple(int(x) for x in value)
        if len(values) != n:
            raise ValueError(f"Expected sequence of {n} positive integers, but received {value!r}") from None
    for x in values:
        if x < 1:
            raise ValueError(f"expected positive integer, but received {x}")
    return values


def weight(name: str, kind: str, shape: Any, dtype: Any, initializer: Any, regularizer: Any = None,
           variables_collections: Any = None,
           trainable: bool = True) -> Any:
    """One of a layer's variables; `kind` is its key in a table of collections."""
    return model_variable(name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, trainable=trainable,
                          collections=get_variable_collections(variables_collections, kind))


def finish(outputs: Tensor, activation_fn: Any, outputs_collections: Any, scope: str) -> Tensor:
    """The activation, and the name of the output."""
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    return collect_named_outputs(outputs_collections, scope, outputs)


def check_format(data_format: str, known: tuple[str, ...] = ("NCHW", "NHWC")) -> None:
    """Raises for an unknown order of dimensions."""
    if data_format not in known:
        raise ValueError(f"data_format has to be either {' or '.join(known)}.")
