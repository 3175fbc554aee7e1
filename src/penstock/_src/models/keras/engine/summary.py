"""model.summary(): the table of layers."""
from __future__ import annotations

import math
from typing import Any

from penstock._src.base import html, nest


def _parameters(weights: Any) -> int:
    return int(sum(math.prod(w.shape.as_list()) for w in {id(w): w for w in weights}.values()))


def _is_sequential(model: Any) -> bool:
    if type(model).__name__ == "Sequential":
        return True
    if not getattr(model, "_is_graph_network", False):
        return True
    nodes = [n for level in model._nodes_by_depth.values() for n in level]
    if any(len(level) > 1 for level in model._nodes_by_depth.values()) or \
            any(len(nest.flatten(n.inbound_layers)) > 1 for n in nodes):
        return False
    outside = [n for layer in model.layers for n in layer._inbound_nodes if n in nodes]
    return len(outside) == len({id(n.outbound_layer) for n in outside})


def _fields(layer: Any, depth: int = 0) -> list:
    """Name and type, shape of the output, number of parameters."""
    try:
        shape = layer.output_shape
    except AttributeError:
        shape = "multiple"
    except RuntimeError:
        shape = "?"
    unused = not layer.built and not getattr(layer, "_is_graph_network", False)
    return ["  " * depth + f"{layer.name} ({type(layer).__name__})", shape, "0 (unused)" if unused else layer.count_params()]


def html_summary(model: Any) -> str:
    """The same table for a notebook."""
    if not model.built:
        return html.table(f"{model.name}: {type(model).__name__}, not built yet", ["Layer (type)"],
                          [[f"{v.name} ({type(v).__name__})"] for v in model.layers])
    trained, fixed = _parameters(model.trainable_weights), _parameters(model.non_trainable_weights)
    return html.table(f"{model.name}: {trained + fixed:,} parameters, {trained:,} trainable",
                      ["Layer (type)", "Output shape", "Parameters"], [_fields(v) for v in model.layers])


def print_summary(model: Any, line_length: int | None = None, positions: Any = None, print_fn: Any = None,
                  expand_nested: bool = False, show_trainable: bool = False, layer_range: Any = None) -> None:
    """Prints one line per layer, then how many parameters there are."""
    say = print if print_fn is None else print_fn
    sequential = _is_sequential(model)
    nodes = {id(n) for level in getattr(model, "_nodes_by_depth", {}).values() for n in level}
    line_length = line_length or (65 if sequential else 98)
    positions = positions or ([.45, .85, 1.] if sequential else [.33, .55, .67, 1.])
    columns = ["Layer (type)", "Output Shape", "Param #"] + ([] if sequential else ["Connected to"])
    if show_trainable:
        columns.append("Trainable")
        positions = [p * 0.85 for p in positions] + [1.]
    if positions[-1] <= 1:
        positions = [int(line_length * p) for p in positions]

    def row(fields: list) -> None:
        line = ""
        for i, field in enumerate(fields):
            line = line[:-1] + " " if i > 0 else line
            line = (line + str(field))[:positions[i]]
            line += " " * (positions[i] - len(line))
        say(line)

    def fields(layer: Any, depth: int) -> tuple[list, list[str]]:
        found = _fields(layer, depth)
        calls = [] if sequential else [n for n in layer._inbound_nodes if not nodes or id(n) in nodes]
        connections = [f"{source.name}[{i}][{j}]" for n in calls for source, i, j, _ in n.iterate_inbound()]
        if not sequential:
            found.append(connections[0] if connections else "")
        if show_trainable:
            found.append("Y" if layer.trainable else "N")
        return found, connections

    def show(layer: Any, depth: int) -> None:
        found, connections = fields(layer, depth)
        row(found)
        for more in connections[1:]:
            row(["", "", "", more])
        if expand_nested and getattr(layer, "layers", None):
            for inner in layer.layers:
                show(inner, depth + 1)

    say(f'Model: "{model.name}"')
    say("_" * line_length)
    row(columns)
    say("=" * line_length)
    layers = model.layers
    if layer_range:
        names = [v.name for v in layers]
        layers = layers[names.index(layer_range[0]):names.index(layer_range[1]) + 1]
    for i, layer in enumerate(layers):
        show(layer, 0)
        say(("=" if i == len(layers) - 1 else "_") * line_length)
    trained, fixed = _parameters(model.trainable_weights), _parameters(model.non_trainable_weights)
    say(f"Total params: {trained + fixed:,}")
    say(f"Trainable params: {trained:,}")
    say(f"Non-trainable params: {fixed:,}")
    say("_" * line_length)
