"""model.summary(): the table of layers."""
from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

from penstock._src.base import html, nest
from penstock._src.graph import context
from penstock._src.models.keras.engine.input_layer import InputLayer
from penstock._src.models.keras.engine.network_config import skips_first_node


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


def _memory(weights: Any) -> str:
    """The size of variables in memory, as text."""
    size = float(sum(math.prod(w.shape.as_list()) * w.dtype.base_dtype.size for w in {id(w): w for w in weights}.values()))
    unit = "Byte"
    for larger in ("KB", "MB", "GB", "TB", "PB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.2f} {unit}"


def _shown_range(layers: list, layer_range: Any) -> list:
    """The layers from the first to the last of two names, which may be patterns."""
    if not layer_range:
        return layers
    first, last = (re.compile(p) for p in layer_range)
    begins = [i for i, v in enumerate(layers) if first.match(v.name)]
    ends = [i for i, v in enumerate(layers) if last.match(v.name)]
    if not begins or not ends:
        raise ValueError(f"Passed layer_range {list(layer_range)} does not match layer names of the model: "
                         f"{[v.name for v in layers]}")
    return layers[min(begins[0], ends[-1]):max(begins[0], ends[-1]) + 1]


_ENDS = ("),", "},", "],", "',")            # a cell is broken after these


def _pieces(text: str, width: int) -> Iterator[str]:
    """The lines of a cell in the 2.x layout."""
    while text:
        piece = text[:width]
        ends = [piece.find(e) + len(e) for e in _ENDS if e in piece]
        piece = piece[:min(ends)] if ends else piece
        yield piece
        text = text[len(piece):]


class _Table:
    """The parts of a summary that both layouts share: columns, and what is in them."""

    def __init__(self, model: Any, line_length: int | None, positions: Any, say: Any, show_trainable: bool):
        self.say, self.show_trainable, self.sequential = say, show_trainable, _is_sequential(model)
        self.nodes = {id(n) for level in getattr(model, "_nodes_by_depth", {}).values() for n in level}
        self.length = line_length or (65 if self.sequential else 98)
        self.columns = ["Layer (type)", "Output Shape", "Param #"] + ([] if self.sequential else ["Connected to"])
        self.positions = positions or ([.45, .85, 1.] if self.sequential else list(self.shares))
        if show_trainable:
            self.columns.append("Trainable")
        self._place()

    def _connections(self, layer: Any) -> list[str]:
        calls = [] if self.sequential else [n for n in layer._inbound_nodes if not self.nodes or id(n) in self.nodes]
        return [f"{source.name}[{i - skips_first_node(source)}][{j}]" for n in calls
                for source, i, j, _ in n.iterate_inbound(include_arguments=True)]

    shares: tuple = ()

    def _place(self) -> None:
        raise NotImplementedError

    def row(self, fields: list, depth: int = 0) -> None:
        """Prints a row."""
        raise NotImplementedError


class _TableV1(_Table):
    """The layout of 1.x: one line per layer, cut off, with a line below."""

    shares = (.33, .55, .67, 1.)

    def _place(self) -> None:
        if self.show_trainable:
            self.positions = [p * 0.85 for p in self.positions] + [1.]
        if self.positions[-1] <= 1:
            self.positions = [int(self.length * p) for p in self.positions]

    def row(self, fields: list, depth: int = 0) -> None:
        """Prints a row."""
        line = ""
        for i, field in enumerate(fields):
            line = line[:-1] + " " if i > 0 else line
            line = (line + str(field))[:self.positions[i]]
            line += " " * (self.positions[i] - len(line))
        self.say(line)

    def layers(self, layers: list, expand_nested: bool) -> None:
        """Prints the layers."""
        for i, layer in enumerate(layers):
            self._layer(layer, 0, expand_nested)
            self.say(("=" if i == len(layers) - 1 else "_") * self.length)

    def _layer(self, layer: Any, depth: int, expand_nested: bool) -> None:
        found, connections = _fields(layer, depth), self._connections(layer)
        if not self.sequential:
            found.append(connections[0] if connections else "")
        if self.show_trainable:
            found.append("Y" if layer.trainable else "N")
        self.row(found)
        for more in connections[1:]:
            self.row(["", "", "", more])
        if expand_nested and getattr(layer, "layers", None):
            for inner in layer.layers:
                self._layer(inner, depth + 1, expand_nested)

    def totals(self, trained: list, fixed: list) -> None:
        """Prints how many parameters there are."""
        self.say(f"Total params: {_parameters(trained) + _parameters(fixed):,}")
        self.say(f"Trainable params: {_parameters(trained):,}")
        self.say(f"Non-trainable params: {_parameters(fixed):,}")


class _TableV2(_Table):
    """The layout of 2.x: long cells continue in the next line, blank lines separate layers, and bars enclose nested models."""

    shares = (.3, .6, .7, 1.)

    def _place(self) -> None:
        if self.positions[-1] <= 1:
            self.positions = [int(self.length * p) for p in self.positions]
        if self.show_trainable:
            self.length += 11
            self.positions = [*self.positions, self.length]

    def row(self, fields: list, depth: int = 0) -> None:
        """Prints a row."""
        starts, last = [0, *self.positions], len(fields) - 1
        widths = [self.positions[i] - starts[i] - (0 if i == last else 3) - (0 if i else depth) for i in range(len(fields))]
        for line in itertools.zip_longest(*(_pieces(str(f), w) for f, w in zip(fields, widths)), fillvalue=""):
            text = "|" * depth + " "
            for i, piece in enumerate(line):
                end = self.positions[i] - (depth if i == last else 0)
                text = (text + piece + ("" if i == last else "  ")).ljust(end)
            self.say(text + "|" * depth)

    def layers(self, layers: list, expand_nested: bool, depth: int = 0) -> None:
        """Prints the layers; those of a nested model are inside of bars."""
        for i, layer in enumerate(layers):
            found = _fields(layer)
            if isinstance(layer, InputLayer):
                found[1] = [found[1]]
            if not self.sequential:
                found.append(self._connections(layer))
            if self.show_trainable:
                found.append("Y" if layer.trainable else "N")
            self.row(found, depth)
            if expand_nested and getattr(layer, "layers", None):
                self._bar("\u00af", depth + 1, 2 * depth + 2)
                self.layers(layer.layers, expand_nested, depth + 1)
                self._bar("\u00af", depth, 2 * depth)
            elif depth == 0 or i < len(layers) - 1:
                self._bar(" ", depth, 2 * depth)

    def _bar(self, character: str, bars: int, less: int) -> None:
        self.say("|" * bars + character * (self.length - less) + "|" * bars)

    def totals(self, trained: list, fixed: list) -> None:
        """Prints how many parameters there are, and their size."""
        self.say("=" * self.length)
        self.say(f"Total params: {_parameters(trained) + _parameters(fixed)} ({_memory([*trained, *fixed])})")
        self.say(f"Trainable params: {_parameters(trained)} ({_memory(trained)})")
        self.say(f"Non-trainable params: {_parameters(fixed)} ({_memory(fixed)})")


def print_summary(model: Any, line_length: int | None = None, positions: Any = None, print_fn: Any = None,
                  expand_nested: bool = False, show_trainable: bool = False, layer_range: Any = None) -> None:
    """Prints the layers, then how many parameters there are; in the layout of 1.x in graph mode, else in that of 2.x."""
    say = print if print_fn is None else print_fn
    kind = _TableV2 if context.eager_outside_functions() else _TableV1
    table = kind(model, line_length, positions, say, show_trainable)
    say(f'Model: "{model.name}"')
    say("_" * table.length)
    table.row(table.columns)
    say("=" * table.length)
    table.layers(_shown_range(model.layers, layer_range), expand_nested)
    table.totals(model.trainable_weights, model.non_trainable_weights)
    say("_" * table.length)
