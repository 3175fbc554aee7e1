"""Sums over a batch of products become one product.

The gradient of a matrix that is multiplied with each element of a batch is a product per element, then their sum. That is one
product over all rows of the batch: no product per element is stored.
"""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.step.tiers import views
from penstock._src.step.tiers.views import aten


def join_sums(graph: torch.fx.GraphModule) -> int:
    """Replaces each sum over the batch of a batched product by one product; returns how many."""
    found = 0
    for node in list(graph.graph.find_nodes(op="call_function", target=aten.sum.dim_IntList)):
        if _joined(graph.graph, node):
            found += 1
    if found:
        graph.graph.eliminate_dead_code()
        graph.recompile()
    return found


def _joined(g: torch.fx.Graph, node: torch.fx.Node) -> bool:
    given: Any = node.args
    x, axes = given[:2]
    made = views.layout(x)
    if made.base.target is not aten.bmm.default or not axes:
        return False
    batch, rows, columns = views.shape_of(made.base)
    rank = len(made.dims)
    summed = sorted(a % rank for a in axes)
    over = views.canonical([a for i in summed for a in made.dims[i]])
    left = [d for i, d in enumerate(made.dims) if i not in summed and d]
    whole = [views.canonical(d) for d in views.whole((batch, rows, columns))]
    if batch == 1 or over != whole[0] or left not in ([whole[1], whole[2]], [whole[2], whole[1]]):
        return False
    operands: Any = made.base.args
    a, b = operands
    inner = views.shape_of(a)[2]
    dtype = node.meta["val"].dtype
    with g.inserting_before(node):
        a = views.call(g, aten.reshape.default, (views.call(g, aten.permute.default, (a, [1, 0, 2])), [rows, batch * inner]))
        b = views.call(g, aten.reshape.default, (b, [batch * inner, columns]))
        made_node = views.call(g, aten.mm.default, (a, b))
        if left[0] != whole[1]:
            made_node = views.call(g, aten.t.default, (made_node,))
        made_node = views.call(g, aten.reshape.default, (made_node, list(views.shape_of(node))))
        if dtype is not made.base.meta["val"].dtype:
            made_node = views.call(g, aten._to_copy.default, (made_node,), {"dtype": dtype})
    node.replace_all_uses_with(made_node)
    return True
