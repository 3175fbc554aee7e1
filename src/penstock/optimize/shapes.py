"""Shapes: what the fed values say of the shapes of everything that is made from them.

A step that is run again and again with feeds of the same shapes gets a program of its own for them (see `Session`): its static
shapes are worked out anew, by the ops' shape rules, from the shapes that were fed. The passes behind this one then fold what
was computed from shapes, and kernels are prepared for them.
"""
from __future__ import annotations

from penstock.graph.build import ruled_shapes
from penstock.graph.node import Operation
from penstock.optimize.step import StepGraph
from penstock.static_shape import merge


def specialize_shapes(step: StepGraph, dims: list[tuple | None]) -> None:
    """Sets the static shapes of a step for feeds of shapes `dims`; ValueError where they do not fit the graph."""
    changed = set()
    for t, d in zip(step.feeds, dims, strict=True):
        if d is not None and t._dims != d:
            t._dims = merge(t._dims, d)
            changed.add(id(t))
    touched: set[Operation] = set()           # ops behind changed shapes: what is known of their values may have changed too
    for op in step.ops:
        if op.opdef.shape_rule is None or _loops(op):
            continue
        if any(id(t) in changed or t._op in touched for t in op._inputs):
            touched.add(op)
            for t, d in zip(op.outputs, _outputs(op)):
                d = merge(t._dims, d)
                if d != t._dims:
                    t._dims = d
                    changed.add(id(t))


def _outputs(op: Operation) -> list:
    out = ruled_shapes(op)
    return out if isinstance(out, list) else [out]


def _loops(op: Operation) -> bool:
    """Whether an op has values from a later iteration, whose shapes are not known yet."""
    return any(t._op.opdef.back_edge for t in op._inputs)
