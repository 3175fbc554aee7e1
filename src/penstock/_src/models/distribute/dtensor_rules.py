"""Which layouts the results of an op have, from those of its inputs.

Any layout is correct: it determines the placement of the parts, not their values. These rules keep axes split that the op
keeps: of elementwise ops, products of matrices, reductions and transposes. Other results are on each device as a whole.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.models.distribute.dtensor_layout import UNSHARDED, Layout, Mesh

# For an op: its layouts (None for an input that is no DTensor), the shapes of inputs, their values where they are known,
# attributes, and the shape of the result.
Rule = Callable[[list[Layout | None], list[tuple], list[Any], dict[str, Any], tuple], list[str]]


def _specs(layout: Layout | None, rank: int) -> list[str]:
    return [UNSHARDED] * rank if layout is None else layout.sharding_specs


def _elementwise(layouts: list, shapes: list, values: list, attrs: dict, shape: tuple) -> list[str]:
    """Axis by axis, from the end: the first input that splits it."""
    result = [UNSHARDED] * len(shape)
    for layout, dims in zip(layouts, shapes, strict=True):
        for axis, spec in enumerate(_specs(layout, len(dims))):
            at = axis + len(shape) - len(dims)
            if spec != UNSHARDED and result[at] == UNSHARDED and dims[axis] == shape[at] and spec not in result:
                result[at] = spec
    return result


def _matmul(layouts: list, shapes: list, values: list, attrs: dict, shape: tuple) -> list[str]:
    """Rows as in the first matrix, columns as in the second; neither where both are split over the same devices."""
    a, b = (_specs(layout, len(dims)) for layout, dims in zip(layouts, shapes, strict=True))
    if attrs.get("transpose_a") or attrs.get("adj_x"):
        a = [*a[:-2], a[-1], a[-2]]
    if attrs.get("transpose_b") or attrs.get("adj_y"):
        b = [*b[:-2], b[-1], b[-2]]
    batch = _elementwise([None if x is None else x.delete([-1, -2]) for x in layouts], [s[:-2] for s in shapes], values, attrs,
                         shape[:-2])
    row, column = (s if s not in batch else UNSHARDED for s in (a[-2], b[-1]))
    return [*batch, *((row, column) if row != column else (UNSHARDED, UNSHARDED))]


def _reduction(layouts: list, shapes: list, values: list, attrs: dict, shape: tuple) -> list[str]:
    """The axes that are left."""
    specs = _specs(layouts[0], len(shapes[0]))
    if values[1] is None:
        return [UNSHARDED] * len(shape)
    gone = {int(a) % max(len(specs), 1) for a in np.ravel(values[1])}
    if attrs.get("keep_dims"):
        return [UNSHARDED if i in gone else s for i, s in enumerate(specs)]
    return [s for i, s in enumerate(specs) if i not in gone]


def _transpose(layouts: list, shapes: list, values: list, attrs: dict, shape: tuple) -> list[str]:
    """The axes in their new order."""
    specs = _specs(layouts[0], len(shapes[0]))
    return [UNSHARDED] * len(shape) if values[1] is None else [specs[int(i)] for i in np.ravel(values[1])]


RULES: dict[str, Rule] = {
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _matmul),
    **dict.fromkeys(("Sum", "Mean", "Max", "Min", "Prod", "All", "Any", "EuclideanNorm"), _reduction),
    "Transpose": _transpose}


def layout_of(op_type: str, mesh: Mesh, layouts: list, shapes: list, values: list, attrs: dict[str, Any],
              shape: tuple) -> Layout:
    """The layout of one result."""
    rule = RULES.get(op_type)
    if rule is None and _broadcast(shapes) == tuple(shape):
        rule = _elementwise
    specs = rule(layouts, shapes, values, attrs, shape) if rule is not None else [UNSHARDED] * len(shape)
    whole = [s if s == UNSHARDED or n % mesh.dim_size(s) == 0 else UNSHARDED for s, n in zip(specs, shape, strict=True)]
    return Layout(whole, mesh)


def _broadcast(shapes: list) -> tuple | None:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None
