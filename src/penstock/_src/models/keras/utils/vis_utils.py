"""Models as pictures: Graphviz' text is written here, and drawn by its program `dot` if that is installed."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

from penstock._src.base.api import export


class Dot:
    """A drawing as Graphviz' text. `str()` returns the text, `write(path)` a file: `.dot` as text, others through `dot`."""

    def __init__(self, name: str, rankdir: str = "TB", dpi: int = 96, cluster: str | None = None):
        self.name, self.rankdir, self.dpi, self.cluster = name, rankdir, dpi, cluster
        self.nodes: list[tuple[str, str]] = []
        self.edges: list[tuple[str, str]] = []
        self.subgraphs: list[Dot] = []

    def lines(self, indent: str = "  ") -> list[str]:
        """The lines between the braces."""
        made = [f'{indent}"{key}" [label="{label}", shape=record];' for key, label in self.nodes]
        for sub in self.subgraphs:
            made += [f'{indent}subgraph "cluster_{sub.name}" {{', f'{indent}  label="{sub.cluster}"; style=dashed;',
                     *sub.lines(indent + "  "), f"{indent}}}"]
        return made + [f'{indent}"{a}" -> "{b}";' for a, b in self.edges]

    def to_string(self) -> str:
        """The text."""
        head = [f'digraph "{self.name}" {{', f"  rankdir={self.rankdir}; concentrate=true; dpi={self.dpi};"]
        return "\n".join([*head, *self.lines(), "}"]) + "\n"

    __str__ = to_string

    def write(self, path: Any, format: str | None = None) -> None:
        """Writes the drawing. ImportError if it is an image and Graphviz is not installed; a notebook prints that."""
        kind = format or os.path.splitext(path)[1][1:] or "png"
        if kind in ("dot", "gv"):
            with open(path, "w") as f:
                f.write(self.to_string())
            return
        program = shutil.which("dot")
        if program is None:
            text = (f"Drawing a picture needs Graphviz' program `dot`, which is not installed. Install Graphviz, or write the "
                    f"text: plot_model(model, to_file='{os.path.splitext(path)[0]}.dot')")
            if not hasattr(sys.modules["__main__"], "get_ipython"):
                raise ImportError(text)
            print(text)
            return
        subprocess.run([program, f"-T{kind}", "-o", os.fspath(path)], input=self.to_string().encode(), check=True, timeout=60)


def _escaped(text: str) -> str:
    for c in '\\"{}<>|':
        text = text.replace(c, "\\" + c)
    return text


def _label(layer: Any, show_shapes: bool, show_layer_names: bool, show_dtype: bool) -> str:
    inner = getattr(layer, "layer", None)
    kind = type(layer).__name__ + (f"({type(inner).__name__})" if inner is not None and hasattr(inner, "get_config") else "")
    label = _escaped(f"{layer.name}: {kind}" if show_layer_names else kind)
    if show_dtype:
        label += f"|{_escaped(str(layer.dtype))}"
    if show_shapes:
        label += "|{input:|output:}|{{" + _shapes(layer, "input") + "}|{" + _shapes(layer, "output") + "}}"
    return label


def _shapes(layer: Any, which: str) -> str:
    try:
        return _escaped(str(getattr(layer, which + "_shape")))
    except (AttributeError, RuntimeError):
        return "multiple" if which == "output" else "?"


@export("keras.utils.model_to_dot")
def model_to_dot(model: Any, show_shapes: bool = False, show_layer_names: bool = True, rankdir: str = "TB",
                 expand_nested: bool = False, dpi: int = 96, subgraph: bool = False, show_dtype: bool = False) -> Any:
    """A drawing of a model's layers and their connections, as Graphviz' text.

    >>> print(tf.keras.utils.model_to_dot(model))
    """
    dot = Dot(model.name, rankdir, dpi, model.name if subgraph else None)
    layers = model.layers
    if not getattr(model, "_is_graph_network", False) and not hasattr(model, "_nodes_by_depth"):
        dot.nodes.append((str(id(model)), _label(model, show_shapes, show_layer_names, show_dtype)))
        return dot
    first = {}
    for layer in layers:
        nested = expand_nested and getattr(layer, "_is_graph_network", False)
        if nested:
            sub = model_to_dot(layer, show_shapes, show_layer_names, rankdir, expand_nested, dpi, True, show_dtype)
            dot.subgraphs.append(sub)
            first[id(layer)] = (str(id(layer.layers[0])), str(id(layer.layers[-1])))
        else:
            dot.nodes.append((str(id(layer)), _label(layer, show_shapes, show_layer_names, show_dtype)))
            first[id(layer)] = (str(id(layer)), str(id(layer)))
    known = {id(n) for nodes in model._nodes_by_depth.values() for n in nodes}
    for layer in layers:
        for node in layer._inbound_nodes:
            if id(node) in known:
                for before in _inbound_layers(node):
                    edge = (first.get(id(before), ("", ""))[1], first[id(layer)][0])
                    if edge[0] and edge not in dot.edges:
                        dot.edges.append(edge)
    return dot


def _inbound_layers(node: Any) -> list:
    found = getattr(node, "inbound_layers", None)
    return list(found) if isinstance(found, (list, tuple)) else [] if found is None else [found]


@export("keras.utils.plot_model")
def plot_model(model: Any, to_file: Any = "model.png", show_shapes: bool = False, show_layer_names: bool = True,
               rankdir: str = "TB", expand_nested: bool = False, dpi: int = 96, show_dtype: bool = False) -> Any:
    """Draws a model into a file; `model.dot` gets Graphviz' text, other names need Graphviz.

    >>> tf.keras.utils.plot_model(model, "model.dot", show_shapes=True)
    """
    dot = model_to_dot(model, show_shapes, show_layer_names, rankdir, expand_nested, dpi, show_dtype=show_dtype)
    dot.write(os.fspath(to_file))
    return dot
