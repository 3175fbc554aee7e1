"""tf.contrib.graph_editor: walks through a graph, forwards and backwards."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


def _export(function: Callable) -> Callable:
    return export(v1=[f"contrib.graph_editor.{function.__name__}"])(function)


def _listed(things: Any) -> list:
    return list(things) if isinstance(things, (list, tuple, set, frozenset)) else [things]


@_export
def make_list_of_op(ops: Any, check_graph: bool = True, allow_graph: bool = True, ignore_ts: bool = False) -> list:
    """The ops of a graph, of an op, or of a list; with `ignore_ts`, tensors are passed over.

    >>> tf.contrib.graph_editor.make_list_of_op(tf.get_default_graph())
    """
    if isinstance(ops, tf.Graph):
        if not allow_graph:
            raise TypeError("allow_graph is False, but a Graph was given")
        return ops.get_operations()
    found = [x for x in _listed(ops) if not (ignore_ts and isinstance(x, tf.Tensor))]
    for x in found:
        if not isinstance(x, tf.Operation):
            raise TypeError(f"Expected a tf.Operation, got: {type(x)}")
    if check_graph and len({id(op.graph) for op in found}) > 1:
        raise ValueError("The ops belong to different graphs.")
    return found


@_export
def get_generating_ops(ts: Any) -> list:
    """The ops that make some tensors."""
    return [t.op for t in _listed(ts)]


@_export
def get_consuming_ops(ts: Any) -> list:
    """The ops that take some tensors."""
    return list(dict.fromkeys(op for t in _listed(ts) for op in t.consumers()))


def _walk(seeds: Any, inclusive: bool, within: Any, stop: Any, edges: Callable) -> list:
    seeds = _listed(seeds)
    wanted = None if within is None else set(make_list_of_op(within, allow_graph=False))
    stops = set(make_list_of_op(stop, allow_graph=False, ignore_ts=True)) if stop else set()
    first = edges(seeds) if seeds and isinstance(seeds[0], tf.Tensor) else make_list_of_op(seeds, allow_graph=False)
    found, waiting = dict.fromkeys(op for op in first if wanted is None or op in wanted), list(first)
    while waiting:
        op = waiting.pop(0)
        if op in stops:
            continue
        for other in edges(op):
            if other not in found and (wanted is None or other in wanted):
                found[other] = None
                waiting.append(other)
    return list(found) if inclusive else [op for op in found if op not in set(first)]


@_export
def get_backward_walk_ops(seed_ops: Any, inclusive: bool = True, within_ops: Any = None, within_ops_fn: Any = None,
                          stop_at_ts: Any = (), control_inputs: bool = False) -> list:
    """The ops that some ops or tensors depend on.

    >>> tf.contrib.graph_editor.get_backward_walk_ops(loss.op)
    """
    stops = set(_listed(stop_at_ts))

    def before(of: Any) -> list:
        if isinstance(of, list):
            return [t.op for t in of]
        found = [t.op for t in of.inputs if t not in stops] + (list(of.control_inputs) if control_inputs else [])
        return [op for op in found if within_ops_fn is None or within_ops_fn(op)]
    return _walk(seed_ops, inclusive, within_ops, (), before)


@_export
def get_forward_walk_ops(seed_ops: Any, inclusive: bool = True, within_ops: Any = None, within_ops_fn: Any = None,
                         stop_at_ts: Any = (), control_outputs: Any = None) -> list:
    """The ops that depend on some ops or tensors."""
    stops = set(_listed(stop_at_ts))

    def after(of: Any) -> list:
        tensors = of if isinstance(of, list) else of.outputs
        found = [op for t in tensors if t not in stops for op in t.consumers()]
        return [op for op in found if within_ops_fn is None or within_ops_fn(op)]
    return _walk(seed_ops, inclusive, within_ops, (), after)
