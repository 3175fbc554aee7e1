"""tf.xla, tf.config.optimizer.set_jit. XLA is not used: they make steps wait for their best version (step/tiers)."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.step.optimize.options import jit_everywhere


@export("config.optimizer.set_jit")
def set_jit(enabled: bool) -> None:
    """Whether functions traced, and steps of sessions made, from now on wait for their best version."""
    jit_everywhere[0] = bool(enabled)


@export("config.optimizer.get_jit")
def get_jit() -> bool:
    """The current setting."""
    return jit_everywhere[0]


@export("xla.experimental.compile")
def compile(computation: Callable, inputs: Any = None) -> Any:
    """Builds `computation(*inputs)`; returns its tensors as a list, with control dependencies on its ops.

    >>> [y] = tf.xla.experimental.compile(lambda x: x * 2, [x])
    """
    results = computation(*[tf.convert_to_tensor(t) for t in (inputs or [])])
    if results is None:
        return tf.no_op()
    flat = nest.flatten(results)
    ops = [r for r in flat if isinstance(r, tf.Operation)]
    with tf.control_dependencies(ops):
        tensors = [tf.identity(tf.convert_to_tensor(r)) for r in flat if not isinstance(r, tf.Operation)]
    if not tensors:
        return tf.group(*ops)
    if isinstance(results, (list, tuple)) and not hasattr(results, "_fields") and all(
            not nest.is_nested(r) for r in results):
        return tensors
    return tensors if not nest.is_nested(results) else nest.pack_sequence_as(results, tensors)


@export("xla.experimental.jit_scope")
@contextlib.contextmanager
def jit_scope(compile_ops: bool = True, separate_compiled_gradients: bool = False) -> Iterator[None]:
    """A scope without effect."""
    yield
