"""tf.contrib.graph_editor: selections of ops and tensors, and views of parts of a graph."""
from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.compat.contrib.graph_editor import (
    elements,
    get_backward_walk_ops,
    get_forward_walk_ops,
    graph_editor_export,
    make_list_of_op,
)
from penstock.compat import v1 as tf


@graph_editor_export
def get_tensors(graph: Any) -> list:
    """All tensors of a graph."""
    if not isinstance(graph, tf.Graph):
        raise TypeError(f"A tf.Graph is needed, not {type(graph)}")
    return [t for op in graph.get_operations() for t in op.outputs]


@graph_editor_export
def make_list_of_t(ts: Any, check_graph: bool = True, allow_graph: bool = True, ignore_ops: bool = False) -> list:
    """The tensors of a graph, of a tensor, or of a list; with `ignore_ops`, ops are passed over."""
    return elements(ts, tf.Tensor, get_tensors, check_graph, allow_graph, tf.Operation if ignore_ops else ())


@graph_editor_export
def filter_ops(ops: Any, positive_filter: Any) -> list:
    """The ops for which a function is true; all if it is True."""
    return [op for op in make_list_of_op(ops) if positive_filter is True or positive_filter(op)]


@graph_editor_export
def filter_ops_from_regex(ops: Any, regex: Any) -> list:
    """The ops whose names a regular expression finds.

    >>> tf.contrib.graph_editor.filter_ops_from_regex(tf.get_default_graph(), "^dense/")
    """
    return filter_ops(ops, _named(regex))


@graph_editor_export
def filter_ts(ops: Any, positive_filter: Any) -> list:
    """The inputs and outputs of ops for which a function is true; all if it is True."""
    ops = make_list_of_op(ops)
    every = dict.fromkeys([t for op in ops for t in op.inputs] + [t for op in ops for t in op.outputs])
    return [t for t in every if positive_filter is True or positive_filter(t)]


@graph_editor_export
def filter_ts_from_regex(ops: Any, regex: Any) -> list:
    """The inputs and outputs of ops whose names a regular expression finds."""
    return filter_ts(ops, _named(regex))


def _named(regex: Any) -> Callable:
    expression = re.compile(regex)
    return lambda x: expression.search(x.name) is not None


@graph_editor_export
def get_name_scope_ops(ops: Any, scope: str) -> list:
    """The ops in a name scope."""
    return filter_ops_from_regex(ops, f"^{scope.removesuffix('/')}(/.*)?$")


@graph_editor_export
def get_walks_intersection_ops(forward_seed_ops: Any, backward_seed_ops: Any, forward_inclusive: bool = True,
                               backward_inclusive: bool = True, within_ops: Any = None, within_ops_fn: Any = None,
                               control_inputs: bool = False, control_outputs: Any = None, control_ios: Any = None) -> list:
    """The ops on the ways from some ops or tensors to others."""
    forward, backward = _walks(forward_seed_ops, backward_seed_ops, forward_inclusive, backward_inclusive, within_ops,
                               within_ops_fn, control_inputs, control_outputs, control_ios)
    there = set(backward)
    return [op for op in forward if op in there]


@graph_editor_export
def get_walks_union_ops(forward_seed_ops: Any, backward_seed_ops: Any, forward_inclusive: bool = True,
                        backward_inclusive: bool = True, within_ops: Any = None, within_ops_fn: Any = None,
                        control_inputs: bool = False, control_outputs: Any = None, control_ios: Any = None) -> list:
    """The ops that depend on some ops or tensors, and those that others depend on."""
    forward, backward = _walks(forward_seed_ops, backward_seed_ops, forward_inclusive, backward_inclusive, within_ops,
                               within_ops_fn, control_inputs, control_outputs, control_ios)
    return list(dict.fromkeys(forward + backward))


def _walks(forward: Any, backward: Any, forward_inclusive: bool, backward_inclusive: bool, within: Any, within_fn: Any,
           control_inputs: bool, control_outputs: Any, control_ios: Any) -> tuple[list, list]:
    outputs = control_ios if control_ios is not None else control_outputs
    return (get_forward_walk_ops(forward, forward_inclusive, within, within_fn, control_outputs=outputs),
            get_backward_walk_ops(backward, backward_inclusive, within, within_fn,
                                  control_inputs=control_inputs or control_ios is not None))


@graph_editor_export
def compute_boundary_ts(ops: Any) -> tuple[list, list, list]:
    """The tensors that come into a group of ops, those that leave it, and those that are used inside."""
    ops = make_list_of_op(ops)
    group, made = set(ops), [t for op in ops for t in op.outputs]
    taken, made_set = list(dict.fromkeys(t for op in ops for t in op.inputs)), set(made)
    inside = [t for t in taken if t in made_set]
    hidden = {t for t in inside if group.issuperset(t.consumers())}
    return [t for t in taken if t not in made_set], [t for t in made if t not in hidden], inside


def _selected(args: tuple, graph: Any, positive_filter: Any, by_name: Callable, as_list: Callable, other: str, only: str | None,
              ) -> list:
    """What the arguments name. Patterns that start with `other` are for the other kind; with `only`, others do not count."""
    if graph is not None and not isinstance(graph, tf.Graph):
        raise TypeError(f"graph must be a tf.Graph, not {type(graph)}")
    found: list = []
    for a in args:
        if not isinstance(a, (str, re.Pattern)):
            found += as_list(a)
            continue
        if graph is None:
            raise ValueError("Regular expressions need the argument `graph`.")
        text = re.compile(a).pattern
        if not text.startswith(other) and (only is None or text.startswith(only)):
            found += by_name(graph, a)
    return [x for x in dict.fromkeys(found) if positive_filter is None or positive_filter(x)]


@graph_editor_export
def select_ops(*args: Any, graph: Any = None, positive_filter: Any = None, restrict_ops_regex: bool = False,
               restrict_ts_regex: bool = False) -> list:
    """The ops that are given or that regular expressions find in `graph`.

    >>> tf.contrib.graph_editor.select_ops("^dense/", graph=tf.get_default_graph())
    """
    return _selected(args, graph, positive_filter, filter_ops_from_regex, lambda a: make_list_of_op(a, ignore_ts=True),
                     "(?#ts)", "(?#ops)" if restrict_ops_regex else None)


@graph_editor_export
def select_ts(*args: Any, graph: Any = None, positive_filter: Any = None, restrict_ts_regex: bool = False,
              restrict_ops_regex: bool = False) -> list:
    """The tensors that are given or that regular expressions find in `graph`."""
    return _selected(args, graph, positive_filter, filter_ts_from_regex, lambda a: make_list_of_t(a, ignore_ops=True),
                     "(?#ops)", "(?#ts)" if restrict_ts_regex else None)


@graph_editor_export
def select_ops_and_ts(*args: Any, graph: Any = None, positive_filter: Any = None) -> tuple[list, list]:
    """The ops and the tensors that are given or named. Patterns are for ops, except those that start with (?#ts)."""
    return (select_ops(*args, graph=graph, positive_filter=positive_filter),
            select_ts(*args, graph=graph, positive_filter=positive_filter, restrict_ts_regex=True))


@graph_editor_export
class SubGraphView:
    """A part of a graph: some ops, with the tensors that come in and those that leave."""

    def __init__(self, inside_ops: Any = (), passthrough_ts: Any = ()):
        self.ops = make_list_of_op(inside_ops)
        inputs, outputs, insides = compute_boundary_ts(self.ops)
        known = {*inputs, *outputs, *insides}
        self.passthroughs = [t for t in make_list_of_t(passthrough_ts) if t not in known]
        self.inputs, self.outputs = inputs + self.passthroughs, outputs + self.passthroughs
        every = [*self.ops, *self.passthroughs]
        self.graph = every[0].graph if every else None

    def __bool__(self) -> bool:
        return self.graph is not None

    def remap_inputs(self, new_input_indices: Any) -> SubGraphView:
        """The view with these inputs only: positions, or tensors."""
        return self.remap(new_input_indices=new_input_indices)

    def remap_outputs(self, new_output_indices: Any) -> SubGraphView:
        """The view with these outputs: positions, or tensors; they may repeat."""
        return self.remap(new_output_indices=new_output_indices)

    def remap(self, new_input_indices: Any = None, new_output_indices: Any = None) -> SubGraphView:
        """The view with other inputs or outputs."""
        made = copy.copy(self)
        if new_input_indices is not None:
            made.inputs = [t if isinstance(t, tf.Tensor) else self.inputs[t] for t in new_input_indices]
        if new_output_indices is not None:
            made.outputs = [t if isinstance(t, tf.Tensor) else self.outputs[t] for t in new_output_indices]
        return made

    def find_op_by_name(self, op_name: str) -> Any:
        """The op of this name."""
        for op in self.ops:
            if op.name == op_name:
                return op
        raise ValueError(f"The view has no op {op_name}.")

    def is_passthrough(self, t: Any) -> bool:
        """Whether a tensor only goes through the view."""
        return t in self.passthroughs

    def input_index(self, t: Any) -> int:
        """The position of an input."""
        return self.inputs.index(t)

    def output_index(self, t: Any) -> int:
        """The position of an output."""
        return self.outputs.index(t)

    def consumers(self) -> list:
        """The ops outside that take the outputs."""
        inside = set(self.ops)
        return list(dict.fromkeys(op for t in self.outputs for op in t.consumers() if op not in inside))


@export(v1=["contrib.graph_editor.make_view", "contrib.graph_editor.sgv"])
def make_view(*args: Any, graph: Any = None, **kwargs: Any) -> SubGraphView:
    """The view of ops and tensors, as `select_ops_and_ts` takes them.

    >>> tf.contrib.graph_editor.sgv(loss.op)
    """
    made = args[0] if len(args) == 1 and isinstance(args[0], SubGraphView) else \
        SubGraphView(*select_ops_and_ts(*args, graph=graph, **kwargs))
    if graph is not None and made.graph is not None and made.graph is not graph:
        raise ValueError("The view is of another graph.")
    return made


@export(v1=["contrib.graph_editor.make_view_from_scope", "contrib.graph_editor.sgv_scope"])
def make_view_from_scope(scope: str, graph: Any) -> SubGraphView:
    """The view of all ops of a name scope."""
    return SubGraphView(get_name_scope_ops(graph, scope))
