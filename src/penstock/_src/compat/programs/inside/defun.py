"""`framework.function.Defun`: a Python function as a function of the graph, with the types of its arguments."""
from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import penstock.compat.v1 as tf


class Defun:
    """A decorator.

    >>> @function.Defun(tf.float32, tf.float32)
    ... def add(x, y):
    ...     return x + y
    """

    def __init__(self, *input_types: Any, **kwargs: Any):
        self._types = [tf.as_dtype(t) for t in input_types]
        self._gradient, self._name = kwargs.pop("grad_func", None), kwargs.pop("func_name", None)
        self._of_op = kwargs.pop("python_grad_func", None)             # takes the op and the gradients of its outputs
        unknown = set(kwargs) - {"noinline", "out_names", "shape_func", "implements", "compiled", "separate_compiled_gradients"}
        if unknown:
            raise ValueError(f"Defun does not know {sorted(unknown)}")

    def __call__(self, func: Callable) -> Callable:
        """The function, which calls what was traced."""
        signature = [tf.TensorSpec(None, t) for t in self._types] or None
        body = func if self._gradient is None and self._of_op is None else self._with_gradient(func)
        traced = tf.function(lambda *args: body(*args), input_signature=signature, autograph=False)

        def call(*args: Any, **kwargs: Any) -> Any:
            with tf.name_scope(kwargs.pop("name", None), self._name or func.__name__):
                return traced(*(tf.convert_to_tensor(a, t) for a, t in zip(args, self._types or [None] * len(args))))
        call.__name__, call.__doc__ = self._name or func.__name__, func.__doc__
        return call

    def _with_gradient(self, func: Callable) -> Callable:
        @tf.custom_gradient
        def both(*args: Any) -> Any:
            results = func(*args)
            if self._of_op is None:
                return results, lambda *grads: self._gradient(*args, *grads)
            call = types.SimpleNamespace(type=self._name or func.__name__, inputs=list(args), outputs=tf.nest.flatten(results))
            return results, lambda *grads: self._of_op(call, *grads)
        return both
