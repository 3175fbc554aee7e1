"""Convolutions in the graph of a step: inverse views cancel, and both gradients of a convolution are one call.

TensorFlow's images have their channels last, ATen's first; each kernel permutes views of its input and its result. The
gradients of a convolution are two ops, which ATen computes in one call. As two, each has a copy of the gradient, and the one
for the input has a tensor in the place of the images, which Inductor fills.
"""
from __future__ import annotations

import operator
from typing import Any

import torch

from penstock._src.step.tiers import views
from penstock._src.step.tiers.views import aten

_BACKWARD = aten.convolution_backward.default


def tidy(graph: torch.fx.GraphModule) -> int:
    """Removes inverse permutations and joins the gradients of convolutions; returns how many were joined."""
    changed = _join_permutations(graph.graph)
    joined = _join_gradients(graph.graph)
    if changed or joined:
        graph.graph.eliminate_dead_code()
        graph.recompile()
    return joined


def channels_last(graph: torch.fx.GraphModule) -> bool:
    """Whether images of convolutions have their channels last in memory: layouts are chosen then, by the program."""
    for node in graph.graph.find_nodes(op="call_function", target=aten.convolution.default):
        image = node.args[0].meta["val"]
        if image.ndim > 2 and image.shape[1] > 1 and image.stride(1) == 1 and not image.is_contiguous():
            return True
    return False


def _join_permutations(g: torch.fx.Graph) -> int:
    changed = 0
    for node in list(g.find_nodes(op="call_function", target=aten.permute.default)):
        base: Any = node.args[0]
        if base.target is not aten.permute.default:
            continue
        order = [base.args[1][i] for i in node.args[1]]
        rank = len(order)
        order = [i % rank for i in order]
        if order == list(range(rank)):
            made = base.args[0]
        else:
            with g.inserting_before(node):
                made = views.call(g, aten.permute.default, (base.args[0], order))
        node.replace_all_uses_with(made)
        changed += 1
    return changed


def _join_gradients(g: torch.fx.Graph) -> int:
    order = {n: i for i, n in enumerate(g.nodes)}
    of_images: dict[tuple, list[torch.fx.Node]] = {}
    of_filters: list[tuple[torch.fx.Node, tuple]] = []
    for node in g.find_nodes(op="call_function", target=_BACKWARD):
        given: Any = node.args
        key = (views.layout(given[0]), views.shape_of(given[1]), views.shape_of(given[2]), str(given[4:10]))
        if list(given[10]) == [True, False, False]:
            of_images.setdefault(key, []).append(node)
        elif list(given[10]) == [False, True, False]:
            of_filters.append((node, key))
    joined = 0
    for filters, key in of_filters:
        images = next((n for n in of_images.get(key, ()) if _fit(n, filters, order)), None)
        if images is not None:
            of_images[key].remove(images)
            _join(g, images, filters, order)
            joined += 1
    return joined


def _fit(images: torch.fx.Node, filters: torch.fx.Node, order: dict) -> bool:
    """Whether the gradients for images and for a filter can be one call, in the place of the first of them."""
    first = min(order[images], order[filters])
    x, w = filters.args[1], images.args[2]
    return _can_be_at(x, first, order) and _can_be_at(w, first, order) and \
        x.meta["val"].dtype is w.meta["val"].dtype                                        # type: ignore[union-attr]


def _can_be_at(node: Any, first: int, order: dict) -> bool:
    """Whether a value, or one that it is a view, cast or padding of, is available before a place in the graph."""
    while order[node] >= first:
        if not (views.is_view(node) or views.is_cast(node) or node.target is aten.constant_pad_nd.default):
            return False
        node = node.args[0]
    return True


def _placed(g: torch.fx.Graph, node: Any, first: int, order: dict) -> torch.fx.Node:
    """Such a value, computed at this place."""
    if order[node] < first:
        return node
    return views.call(g, node.target, (_placed(g, node.args[0], first, order), *node.args[1:]), node.kwargs)


def _join(g: torch.fx.Graph, images: torch.fx.Node, filters: torch.fx.Node, order: dict) -> None:
    given = list(images.args)
    place = min(images, filters, key=order.__getitem__)
    with g.inserting_before(place):
        given[1] = _placed(g, filters.args[1], order[place], order)
        given[2] = _placed(g, images.args[2], order[place], order)
        given[10] = [True, True, False]
        both = views.call(g, _BACKWARD, tuple(given))
        parts = [views.call(g, operator.getitem, (both, i)) for i in range(2)]
    for old, at in ((images, 0), (filters, 1)):
        for user in list(old.users):
            if user.target is operator.getitem and user.args[1] == at:
                user.replace_all_uses_with(parts[at])
