"""Helpers for rewriting graphs: consumers of a tensor, redirecting consumers, and a step counter."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.compat import v1 as tf

LAYERS = ("Conv2D", "DepthwiseConv2dNative", "MatMul")
ADDS = ("Add", "AddV2")


def readers(tensor: Any, *types: str) -> list[Any]:
    """The ops of some types that read a tensor, oldest first."""
    return [op for op in tensor.consumers() if not types or op.type in types]


def reroute(new: Any, old: Any, only: Iterable[Any] | None = None) -> int:
    """Lets the ops that read `old`, or `only` some of them, read `new`. How many inputs changed."""
    changed = 0
    for op in list(old.consumers()) if only is None else list(only):
        for i, tensor in enumerate(op.inputs):
            if tensor is old:
                op._update_input(i, new)
                changed += 1
    return changed


def scope_of(name: str) -> str:
    """The scope of an op's name, without the slash at its end."""
    return name.rpartition("/")[0]


def quantization_step() -> Any:
    """The number of steps that the graph has run: a counter that each step raises by one."""
    graph = tf.get_default_graph()
    try:
        return graph.get_tensor_by_name("fake_quantization_step/Identity:0")
    except KeyError:
        pass
    with graph.name_scope(None), tf.control_dependencies(None):
        with tf.variable_scope(tf.VariableScope(tf.AUTO_REUSE)):
            step = tf.get_variable("fake_quantization_step", [], tf.int64, tf.zeros_initializer(), trainable=False,
                                   collections=[tf.GraphKeys.GLOBAL_VARIABLES])
        with graph.name_scope("fake_quantization_step/"):
            return tf.identity(tf.assign_add(step, 1), name="Identity")
