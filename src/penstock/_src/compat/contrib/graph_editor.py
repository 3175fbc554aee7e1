"""tf.contrib.graph_editor: walks through a graph, forwards and backwards."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


def graph_editor_export(function: Any) -> Any:
    """Exports a function or class as `tf.contrib.graph_editor` does."""
    return export(v1=[f"contrib.graph_editor.{function.__name__}"])(function)


def listed(things: Any) -> list:
    """The elements of a collection; another value is the only one."""
    return list(things) if isinstance(things, (list, tuple, set, frozenset)) else [things]


def elements(given: Any, kind: Any, of_graph: Callable, check_graph: bool, allow_graph: bool, ignored: Any) -> list:
    """The ops or tensors (`kind`) of a graph, by `of_graph`, or of a list, without those of the types `ignored`."""
    if isinstance(given, tf.Graph):
        if not allow_graph:
            raise TypeError("allow_graph is False, but a Graph was given")
        return of_graph(given)
    found = [x for x in listed(given) if not isinstance(x, ignored)]
    for x in found:
        if not isinstance(x, kind):
            raise TypeError(f"Expected a tf.{kind.__name__}, got: {type(x)}")
    if check_graph and len({id(x.graph) for x in found}) > 1:
        raise ValueError("The elements of the list belong to different graphs.")
    return found


@graph_editor_export
def make_list_of_op(ops: Any, check_graph: bool = True, allow_graph: bool = True, ignore_ts: bool = False) -> list:
    """The ops of a graph, of an op, or of a list; with `ignore_ts`, tensors are passed over.

    >>> tf.contrib.graph_editor.make_list_of_op(tf.get_default_graph())
    """
    return elements(ops, tf.Operation, lambda g: g.get_operations(), check_graph, allow_graph, tf.Tensor if ignore_ts else ())


@graph_editor_export
def get_generating_ops(ts: Any) -> list:
    """The ops that make some tensors."""
    return [t.op for t in listed(ts)]


@graph_editor_export
def get_consuming_ops(ts: Any) -> list:
    """The ops that take some tensors."""
    return list(dict.fromkeys(op for t in listed(ts) for op in t.consumers()))


def _walk(seeds: Any, inclusive: bool, within: Any, stop: Any, edges: Callable) -> list:
    seeds = listed(seeds)
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


@graph_editor_export
def get_backward_walk_ops(seed_ops: Any, inclusive: bool = True, within_ops: Any = None, within_ops_fn: Any = None,
                          stop_at_ts: Any = (), control_inputs: bool = False) -> list:
    """The ops that some ops or tensors depend on.

    >>> tf.contrib.graph_editor.get_backward_walk_ops(loss.op)
    """
    stops = set(listed(stop_at_ts))

    def before(of: Any) -> list:
        if isinstance(of, list):
            return [t.op for t in of]
        found = [t.op for t in of.inputs if t not in stops] + (list(of.control_inputs) if control_inputs else [])
        return [op for op in found if within_ops_fn is None or within_ops_fn(op)]
    return _walk(seed_ops, inclusive, within_ops, (), before)


@graph_editor_export
def get_forward_walk_ops(seed_ops: Any, inclusive: bool = True, within_ops: Any = None, within_ops_fn: Any = None,
                         stop_at_ts: Any = (), control_outputs: Any = None) -> list:
    """The ops that depend on some ops or tensors."""
    stops = set(listed(stop_at_ts))

    def after(of: Any) -> list:
        tensors = of if isinstance(of, list) else of.outputs
        found = [op for t in tensors if t not in stops for op in t.consumers()]
        if control_outputs and not isinstance(of, list):
            found += of._control_outputs
        return [op for op in found if within_ops_fn is None or within_ops_fn(op)]
    return _walk(seed_ops, inclusive, within_ops, (), after)
