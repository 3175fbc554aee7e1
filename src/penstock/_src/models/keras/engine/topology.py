"""The graph of layers between given inputs and outputs: which calls belong to it, and in which order they run."""
from __future__ import annotations

import collections
from typing import Any, NamedTuple

from penstock._src.base import nest


def node_key(layer_name: str, node_index: int) -> str:
    """The name of a call in a network."""
    return f"{layer_name}_ib-{node_index}"


class Topology(NamedTuple):
    """The calls of a network by name, and calls and layers by their distance from the outputs."""
    nodes: set[str]
    nodes_by_depth: dict[int, list]
    layers: list
    layers_by_depth: dict[int, list]


def _in_order(outputs: list) -> tuple[list, dict[int, int]]:
    """The calls that lead to the outputs, each after those it needs; and for each layer when it was met."""
    order: list = []
    met: dict[int, int] = {}
    done: set[int] = set()
    open_: set[int] = set()
    for tensor in outputs:
        layer, index, _ = tensor._keras_history
        stack = [(layer._inbound_nodes[index], False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                open_.discard(id(node))
                if id(node) not in done:
                    done.add(id(node))
                    order.append(node)
                continue
            if id(node) in done:
                continue
            if id(node) in open_:
                raise ValueError(f"The tensor {node.output_tensors} at layer \"{node.outbound_layer.name}\" is part of a "
                                 "cycle.")
            open_.add(id(node))
            met.setdefault(id(node.outbound_layer), len(met))
            stack.append((node, True))
            stack.extend((p, False) for p in reversed(node.parents) if id(p) not in done)
    return order, met


def map_network(inputs: list, outputs: list) -> Topology:
    """The network between inputs and outputs; ValueError if an output needs an input that is not among them."""
    order, met = _in_order(outputs)
    node_depth: dict[int, int] = {}
    layer_depth: dict[int, int] = {}
    layers: dict[int, Any] = {}
    for tensor in inputs:
        layer = tensor._keras_history.layer
        layers[id(layer)] = layer
        met.setdefault(id(layer), -1)
    for node in reversed(order):
        layer = node.outbound_layer
        depth = max(node_depth.get(id(node), 0), layer_depth.get(id(layer), 0))
        node_depth[id(node)] = layer_depth[id(layer)] = depth
        layers[id(layer)] = layer
        for parent in node.parents:
            node_depth[id(parent)] = max(depth + 1, node_depth.get(id(parent), 0))
    depth = max(layer_depth.values(), default=0)
    for tensor in inputs:                              # unused inputs are included
        layer = tensor._keras_history.layer
        if id(layer) not in layer_depth:
            layer_depth[id(layer)] = depth
            order.insert(0, layer._inbound_nodes[0])
            node_depth[id(layer._inbound_nodes[0])] = depth
    nodes_by_depth, layers_by_depth = collections.defaultdict(list), collections.defaultdict(list)
    for node in order:
        nodes_by_depth[node_depth[id(node)]].append(node)
    for key, layer in layers.items():
        layers_by_depth[layer_depth[key]].append(layer)
    for found in layers_by_depth.values():
        found.sort(key=lambda layer: met[id(layer)])
    depths = sorted(layers_by_depth, reverse=True)
    sorted_layers = [layer for d in depths for layer in layers_by_depth[d]]
    nodes = {node_key(n.outbound_layer.name, n.outbound_layer._inbound_nodes.index(n)) for n in order}
    _check_connected(inputs, nodes_by_depth)
    _check_names(sorted_layers)
    return Topology(nodes, {d: nodes_by_depth[d] for d in sorted(nodes_by_depth, reverse=True)}, sorted_layers,
                    dict(layers_by_depth))


def _check_connected(inputs: list, nodes_by_depth: dict[int, list]) -> None:
    known = {id(t) for t in inputs}
    before: list[str] = []
    for depth in sorted(nodes_by_depth, reverse=True):
        for node in nodes_by_depth[depth]:
            layer = node.outbound_layer
            if getattr(layer, "is_placeholder", None) is None or node.inbound_layers:
                for tensor in nest.flatten(node.input_tensors):
                    if id(tensor) not in known:
                        raise ValueError(f"Graph disconnected: cannot obtain value for tensor {tensor} at layer "
                                         f"\"{layer.name}\". The following previous layers were accessed without issue: "
                                         f"{before}")
                before.append(layer.name)
            elif not any(id(t) in known for t in nest.flatten(node.output_tensors)):
                tensor = nest.flatten(node.output_tensors)[0]
                raise ValueError(f"Graph disconnected: cannot obtain value for tensor {tensor} at layer \"{layer.name}\". The "
                                 f"following previous layers were accessed without issue: {before}")
            known.update(id(t) for t in nest.flatten(node.output_tensors))


def _check_names(layers: list) -> None:
    counts = collections.Counter(layer.name for layer in layers)
    for name, n in counts.items():
        if n != 1:
            raise ValueError(f"The name \"{name}\" is used {n} times in the model. All layer names should be unique.")
