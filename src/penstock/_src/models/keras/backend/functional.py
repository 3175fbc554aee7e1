"""Functions of functions: maps and folds, gradients, printing."""
from __future__ import annotations

import sys
from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras.backend.variables import is_symbolic
from penstock.compat import v1 as tf


@export("keras.backend.map_fn")
def map_fn(fn: Any, elems: Any, name: str | None = None, dtype: Any = None) -> Any:
    """`fn` of each element of `elems`, along the first axis."""
    return tf.map_fn(fn, elems, name=name, dtype=dtype)


@export("keras.backend.foldl")
def foldl(fn: Any, elems: Any, initializer: Any = None, name: str | None = None) -> Any:
    """Elements combined by `fn`, from the first to the last."""
    return tf.foldl(fn, elems, initializer=initializer, name=name)


@export("keras.backend.foldr")
def foldr(fn: Any, elems: Any, initializer: Any = None, name: str | None = None) -> Any:
    """Elements combined by `fn`, from the last to the first."""
    return tf.foldr(fn, elems, initializer=initializer, name=name)


@export("keras.backend.gradients")
def gradients(loss: Any, variables: Any) -> Any:
    """The gradients of `loss`, in a graph."""
    return tf.gradients(loss, variables, colocate_gradients_with_ops=True)


@export("keras.backend.stop_gradient")
def stop_gradient(variables: Any) -> Any:
    """The same values, constants for gradients; a list for a list."""
    if isinstance(variables, (list, tuple)):
        return [tf.stop_gradient(v) for v in variables]
    return tf.stop_gradient(variables)


@export("keras.backend.print_tensor")
def print_tensor(x: Any, message: str = "") -> Any:
    """`x`, printed when it is computed."""
    if not is_symbolic(x):
        tf.print(message, x, output_stream=sys.stdout)
        return x
    with x.graph.as_default(), tf.control_dependencies([tf.print(message, x, output_stream=sys.stdout)]):
        return tf.identity(x)
