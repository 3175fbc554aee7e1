"""Functions of elements, called on blocks of them: columns in, columns out.

Numbers are computed by `torch.func.vmap`, which does not support strings. Ops over strings whose declaration has a kernel for
columns (`rules.columns`: parsing, decoding) come first, each on the whole column; the ops on their numbers run under vmap.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from penstock._src.graph.build import group_inputs
from penstock._src.graph.functions import GraphFunction
from penstock._src.ops import rules

_MOST_OPS = 200                        # in a function that is called on whole blocks


class BlockPlan:
    """How a function is called on a block; `fits` says whether it can be."""

    def __init__(self, function: GraphFunction, ops: list, captured: int):
        self.function = function
        self.elements = function.inputs[:len(function.inputs) - captured]
        self.held = function.inputs[len(self.elements):]
        self.over_columns: list = []                             # ops that get whole columns, in order
        self.fixed: list = []                                    # tensors that these need, and that no element changes
        self._columns = {id(t) for t in self.elements}           # tensors that are there as columns
        self.fits = bool(self.elements) and len(ops) <= _MOST_OPS and self._sort(ops) and self._cut()

    def _sort(self, ops: list) -> bool:
        """Finds the ops over strings; False if one of them has no kernel for columns, or comes after numbers."""
        inputs = {id(t) for t in self.function.inputs}
        varying = set(self._columns)
        for op in ops:
            if any(id(t) in inputs for t in op.outputs) or not any(id(t) in varying for t in op.inputs):
                continue
            varying.update(map(id, op.outputs))
            if all(t.dtype.torch is not None for t in (*op.inputs, *op.outputs)):
                continue
            first, *others = op.inputs
            if op.opdef not in rules.columns.rows or id(first) not in self._columns or any(id(t) in varying for t in others):
                return False
            self.over_columns.append(op)
            self.fixed.extend(others)
            self._columns.update(map(id, op.outputs))
        if self.over_columns and self.function.effects:
            return False
        return all(t.dtype.torch is not None or id(t) in self._columns for t in self.function.outputs)

    def _cut(self) -> bool:
        """Finds what is computed under vmap; False if nothing that varies leads to it."""
        made = [*self.elements, *(t for op in self.over_columns for t in op.outputs)]
        self.numbers = [t for t in made if t.dtype.torch is not None]
        self.after = [t for t in self.function.outputs if id(t) not in self._columns]
        return bool(self.numbers or not self.after)

    def compiled(self, ctx: Any, captured: tuple) -> Callable:
        """A callable f(ctx, columns) -> columns of the outputs."""
        graph = self.function.graph
        fixed = GraphFunction(graph, None, self.held, self.fixed).run(ctx, captured) if self.fixed else ()
        values = dict(zip(map(id, self.fixed), fixed, strict=True))
        steps = [(op, rules.columns.rows[op.opdef].bind(op.attrs, op), [values[id(t)] for t in op.inputs[1:]])
                 for op in self.over_columns]
        rest = GraphFunction(graph, None, [*self.numbers, *self.held], self.after).program(ctx).run if self.after else None

        def call(ctx: Any, columns: tuple) -> tuple:
            found = dict(zip(map(id, self.elements), columns, strict=True))
            for op, kernel, others in steps:
                out = kernel(*group_inputs(op.opdef, [found[id(op.inputs[0])], *others], op.counts))
                found.update(zip(map(id, op.outputs), _flat(op.opdef, out), strict=True))
            if rest is not None:
                given = [found[id(t)] for t in self.numbers]
                made = torch.func.vmap(lambda *row: rest(ctx, *row, *captured))(*given)
                found.update(zip(map(id, self.after), made, strict=True))
            return tuple(found[id(t)] for t in self.function.outputs)
        return call


def _flat(opdef: Any, out: Any) -> list:
    """The results of a kernel, with its lists flattened."""
    if len(opdef.outputs) == 1:
        return list(out) if opdef.list_output else [out]
    flat: list = []
    for arg, value in zip(opdef.outputs, out, strict=True):
        flat.extend(value) if arg.is_list else flat.append(value)
    return flat
