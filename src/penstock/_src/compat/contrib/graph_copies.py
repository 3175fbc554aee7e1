"""tf.contrib.graph_editor: copies of parts of a graph with other inputs, and ops that get other inputs."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.compat.contrib.graph_editor import graph_editor_export, listed, make_list_of_op
from penstock._src.compat.contrib.graph_views import (
    SubGraphView,
    get_walks_intersection_ops,
    make_list_of_t,
    make_view,
)
from penstock._src.graph.build import infer_shapes
from penstock.compat import v1 as tf


@graph_editor_export
class TransformerInfo:
    """The mapping from original ops and tensors to their copies."""

    def __init__(self, copies: dict):
        self._copies = copies

    def transformed(self, original: Any, missing_fn: Any = None) -> Any:
        """The copies of ops or tensors; what was not copied is None, or what `missing_fn` returns for it."""
        return _mapped(original, self._copies, missing_fn)

    def original(self, transformed: Any, missing_fn: Any = None) -> Any:
        """The originals of copies; None, or the result of `missing_fn`, for other elements."""
        return _mapped(transformed, {new: old for old, new in self._copies.items()}, missing_fn)


def _mapped(structure: Any, table: dict, missing_fn: Any) -> Any:
    def one(x: Any) -> Any:
        return table[x] if x in table else None if missing_fn is None else missing_fn(x)
    return nest.map_structure(one, structure)


class _Copying:
    """Copies ops, each after those that it takes from; loops are closed at the end."""

    def __init__(self, view: SubGraphView, replacements: dict | None, graph: Any, scope: str, src_scope: str):
        self._view, self._replacements, self._graph = view, replacements, graph
        self._scope, self._src_scope = scope, src_scope
        self._inputs, self._inside = set(view.inputs), set(view.ops)
        self.copies: dict = {}
        self._later: list[tuple[Any, int, Any]] = []

    def run(self) -> None:
        """Copies everything."""
        for op in sorted(self._view.ops, key=lambda op: op.number):
            self._copy(op)
        for op, i, t in self._later:
            op._update_input(i, self.copies[t])
        for op in self._view.ops:
            same = self._graph is self._view.graph
            given = [self.copies.get(c, c if same else None) for c in op.control_inputs]
            self.copies[op]._add_control_inputs([c for c in given if c is not None])

    def _copy(self, op: Any) -> None:
        inputs = [None if t.op in self._inside and t not in self.copies else self._given(t) for t in op.inputs]
        later = [i for i, t in enumerate(inputs) if t is None]
        for i in later:
            alike = (t for t in inputs if t is not None and t.dtype == op.inputs[i].dtype)     # a Merge: the value that enters
            inputs[i] = next(alike, None)
            inputs[i] = self._placeholder(op.inputs[i]) if inputs[i] is None else inputs[i]
        made = self._graph.add(op.opdef, self._graph.unique_name(self._name(op.name)), inputs, dict(op.attrs),
                               [t.dtype for t in op.outputs], op.counts, infer=infer_shapes)
        made._extra.update(op._extra)
        self.copies[op] = made
        self._later += [(made, i, op.inputs[i]) for i in later]
        self.copies.update(zip(op.outputs, made.outputs, strict=True))

    def _name(self, name: str) -> str:
        if not name.startswith(self._src_scope):
            raise ValueError(f"The op {name} is not in the scope {self._src_scope}.")
        return self._scope + name[len(self._src_scope):]

    def _given(self, t: Any) -> Any:
        if t not in self.copies:
            self.copies[t] = self._outside(t)
        return self.copies[t]

    def _outside(self, t: Any) -> Any:
        """The tensor for one from outside: its replacement, itself, or a placeholder."""
        if t in self._inputs and self._replacements is not None and t in self._replacements:
            return self._replacements[t]
        if self._graph is t.graph and (self._replacements is not None or t not in self._inputs):
            return t
        return self._placeholder(t)

    def _placeholder(self, t: Any) -> Any:
        with self._graph.as_default():
            return tf.placeholder(t.dtype, t.shape, f"{self._scope}geph__{t.op.name.rpartition('/')[2]}_{t.value_index}")


def _copied(sgv: Any, replacements: dict | None, dst_graph: Any, dst_scope: str, src_scope: str,
            reuse_dst_scope: bool) -> tuple[SubGraphView, TransformerInfo]:
    view = make_view(sgv)
    graph = view.graph if dst_graph is None else dst_graph
    if not isinstance(graph, tf.Graph):
        raise TypeError(f"dst_graph must be a tf.Graph, not {type(graph)}")
    scope = dst_scope.removesuffix("/")
    if scope and not reuse_dst_scope:
        scope = graph.unique_name(scope)
    copying = _Copying(view, replacements, graph, scope + "/" if scope else "",
                       src_scope if not src_scope or src_scope.endswith("/") else src_scope + "/")
    copying.run()
    made = SubGraphView([copying.copies[op] for op in view.ops])
    outputs = [copying.copies[t] for t in view.outputs if copying.copies.get(t) in made.outputs]
    inputs = [copying.copies[t] for t in view.inputs if copying.copies.get(t) in made.inputs]
    return made.remap(inputs, outputs), TransformerInfo(copying.copies)


@graph_editor_export
def copy(sgv: Any, dst_graph: Any = None, dst_scope: str = "", src_scope: str = "", reuse_dst_scope: bool = False) -> tuple:
    """A copy of a part of a graph, which takes placeholders; and what became of its ops and tensors."""
    return _copied(sgv, None, dst_graph, dst_scope, src_scope, reuse_dst_scope)


@graph_editor_export
def copy_with_input_replacements(sgv: Any, replacement_ts: dict, dst_graph: Any = None, dst_scope: str = "",
                                 src_scope: str = "", reuse_dst_scope: bool = False) -> tuple:
    """A copy of a part of a graph that takes other tensors; and what became of its ops and tensors.

    >>> view, info = tf.contrib.graph_editor.copy_with_input_replacements(ops, {old: new})
    """
    return _copied(sgv, dict(replacement_ts), dst_graph, dst_scope, src_scope, reuse_dst_scope)


@graph_editor_export
def graph_replace(target_ts: Any, replacement_ts: dict, dst_scope: str = "", src_scope: str = "",
                  reuse_dst_scope: bool = False) -> Any:
    """Tensors computed again, from other tensors than before: what lies between is copied.

    >>> tf.contrib.graph_editor.graph_replace(loss, {x: other})
    """
    ops = get_walks_intersection_ops(list(replacement_ts), nest.flatten(target_ts), control_inputs=True, control_outputs=True)
    if not ops:
        raise ValueError("The targets do not depend on the tensors to replace.")
    _, info = copy_with_input_replacements(_with_loops(ops), replacement_ts, None, dst_scope, src_scope, reuse_dst_scope)
    return info.transformed(target_ts, lambda t: t)


def _with_loops(ops: list) -> list:
    """The ops, and all of every loop that they have a part in."""
    found = dict.fromkeys(ops)
    for context in {id(c): c for op in ops if (c := op._get_control_flow_context()) is not None}.values():
        if context.IsWhileContext():
            found.update(dict.fromkeys(get_walks_intersection_ops(
                [t.op for t in context.loop_enters], [t.op for t in context.loop_exits], control_inputs=True,
                control_outputs=True)))
    return list(found)


@graph_editor_export
def reroute_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """Ops that take a tensor of `ts1` take that of `ts0` instead. The result is how many inputs changed.

    >>> tf.contrib.graph_editor.reroute_ts([new], [old])
    """
    return _changed([c for a, b in _paired(ts0, ts1) for c in _takers(a, b, can_modify, cannot_modify)])


@graph_editor_export
def swap_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """Ops that take a tensor of one list take that of the other instead. The result is how many inputs changed."""
    pairs = _paired(ts0, ts1)
    return _changed([c for a, b in [*pairs, *((b, a) for a, b in pairs)] for c in _takers(a, b, can_modify, cannot_modify)])


def _paired(ts0: Any, ts1: Any) -> list[tuple]:
    first, second = make_list_of_t(ts0), make_list_of_t(ts1)
    if len(first) != len(second):
        raise ValueError(f"The lists have different lengths: {len(first)} and {len(second)}")
    for a, b in zip(first, second, strict=True):
        if a.dtype.base_dtype != b.dtype.base_dtype or not a.shape.is_compatible_with(b.shape):
            raise ValueError(f"{a} cannot replace {b}: types or shapes differ.")
    return [(a, b) for a, b in zip(first, second, strict=True) if a is not b]


def _takers(new: Any, old: Any, can_modify: Any, cannot_modify: Any) -> list[tuple]:
    """Each input that is `old`, as (op, position, new), of ops that may change."""
    allowed = None if can_modify is None else set(make_list_of_op(can_modify))
    fixed = set() if cannot_modify is None else set(make_list_of_op(cannot_modify))
    return [(op, i, new) for op in dict.fromkeys(old.consumers()) if op not in fixed and (allowed is None or op in allowed)
            for i, t in enumerate(op.inputs) if t is old]


def _changed(changes: list[tuple]) -> int:
    for op, i, new in changes:
        op._update_input(i, new)
    return len(changes)


@graph_editor_export
def add_control_inputs(op: Any, cops: Any) -> None:
    """Makes an op run after others."""
    for c in listed(cops):
        if c in op.control_inputs:
            raise ValueError(f"{c.name} is already a control input of {op.name}")
    op._add_control_inputs(listed(cops))


@graph_editor_export
def remove_control_inputs(op: Any, cops: Any) -> None:
    """Lets an op run without waiting for others."""
    removed = listed(cops)
    for c in removed:
        if c not in op.control_inputs:
            raise ValueError(f"{c.name} is not a control input of {op.name}")
    kept = [c for c in op.control_inputs if c not in removed]
    op._remove_all_control_inputs()
    op._add_control_inputs(kept)
