"""The effect of a chain of views, independent of how it is written.

For each dimension of a tensor, `Layout` has the parts of the dimensions of the tensor at the beginning of the chain that it
runs over. `tf.einsum`, `tf.matmul` and a user's own reshapes and transposes have the same layout if they have the same effect.
"""
from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

aten = torch.ops.aten
Dims = list                          # per dimension, the atoms that it runs over, outermost first


class Atom(NamedTuple):
    """`size` steps of `stride` along dimension `of` of the base."""
    of: int
    stride: int
    size: int


class Layout(NamedTuple):
    """A view of the value of a node."""
    base: Any
    dims: tuple


def shape_of(node: torch.fx.Node) -> tuple[int, ...]:
    """The shape of a node's value."""
    return tuple(node.meta["val"].shape)


def layout(node: torch.fx.Node, through_casts: bool = False) -> Layout:
    """The node where a chain of views begins, and their layout."""
    chain = []
    while is_view(node) or through_casts and is_cast(node):
        chain.append(node)
        node = node.args[0]                                            # type: ignore[assignment]
    dims: Dims | None = whole(shape_of(node))
    for view in reversed(chain):
        dims = _applied(view, dims)
        if dims is None:                                               # a view that cannot be followed begins a chain
            node, dims = view, whole(shape_of(view))
    assert dims is not None
    return Layout(node, tuple(map(canonical, dims)))


def whole(shape: tuple[int, ...]) -> Dims:
    """The dimensions of a tensor itself."""
    return [[Atom(i, 1, n)] if n != 1 else [] for i, n in enumerate(shape)]


def canonical(atoms: Any) -> tuple[Atom, ...]:
    """The same atoms, with contiguous ones joined."""
    out: list[Atom] = []
    for a in atoms:
        if out and out[-1].of == a.of and out[-1].stride == a.stride * a.size:
            out[-1] = Atom(a.of, a.stride, out[-1].size * a.size)
        else:
            out.append(a)
    return tuple(out)


def regrouped(atoms: Any, shape: Any) -> Dims | None:
    """Atoms in order, as the dimensions of a shape; None where they do not divide."""
    rest, out = list(atoms), []
    for size in shape:
        group, need = [], size
        while need > 1:
            if not rest:
                return None
            a = rest.pop(0)
            if a.size > need:
                if a.size % need:
                    return None
                rest.insert(0, Atom(a.of, a.stride, a.size // need))
                a = Atom(a.of, a.stride * (a.size // need), need)
            if need % a.size:
                return None
            group.append(a)
            need //= a.size
        out.append(group)
    return out if not rest else None


_VIEWS = {aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.permute.default, aten.transpose.int,
          aten.t.default, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default,
          aten.expand.default, aten.clone.default, aten.alias.default}


def is_view(node: Any) -> bool:
    """Whether a node returns the elements of its input, each once, in another shape or order."""
    return isinstance(node, torch.fx.Node) and node.target in _VIEWS and \
        math.prod(shape_of(node)) == math.prod(shape_of(node.args[0]))                 # type: ignore[arg-type]


def is_cast(node: Any) -> bool:
    """Whether a node returns its input in another type."""
    return isinstance(node, torch.fx.Node) and node.target is aten._to_copy.default and set(node.kwargs) == {"dtype"}


def _applied(node: torch.fx.Node, dims: Any) -> Dims | None:
    target, shape = node.target, shape_of(node)
    if target is aten.permute.default:
        return [dims[i] for i in node.args[1]]                         # type: ignore[union-attr]
    if target is aten.transpose.int or target is aten.t.default:
        a, b = node.args[1:] if target is aten.transpose.int else (0, 1)
        order = list(range(len(dims)))
        order[a], order[b] = order[b], order[a]                        # type: ignore[index]
        return [dims[i] for i in order]
    if len(shape) == len(dims) and target in (aten.clone.default, aten.expand.default, aten.alias.default) or is_cast(node):
        return list(dims)
    return regrouped([a for d in dims for a in d], shape)


def call(graph: torch.fx.Graph, target: Any, args: tuple, kwargs: dict | None = None) -> torch.fx.Node:
    """A new call, with the shape and type of its value."""
    node = graph.call_function(target, args, kwargs or {})
    given = torch.fx.node.map_arg((args, kwargs or {}), lambda n: n.meta["val"])
    with torch.no_grad():
        node.meta["val"] = target(*given[0], **given[1])
    return node


def built(graph: torch.fx.Graph, base: torch.fx.Node, shape: tuple[int, ...], dims: Any) -> torch.fx.Node:
    """Nodes that view `base`, of a shape, as dimensions of atoms say."""
    atoms = [a for d in dims for a in d]
    in_order = sorted(range(len(atoms)), key=lambda i: (atoms[i].of, -atoms[i].stride))
    node = base
    pieces = [atoms[i].size for i in in_order]
    if pieces != list(shape):
        node = call(graph, aten.reshape.default, (node, pieces))
    places = [in_order.index(i) for i in range(len(atoms))]
    if places != list(range(len(places))):
        node = call(graph, aten.permute.default, (node, places))
    sizes = [math.prod(a.size for a in d) for d in dims]
    return node if sizes == [a.size for a in atoms] else call(graph, aten.reshape.default, (node, sizes))
