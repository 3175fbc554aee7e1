"""Splitting a Keras model into stages: consecutive layers, each stage with about the same number of parameters.

A stage is a function from the tensors that cross the cut before it to those that cross the cut behind it. In a functional model
these may be several: what a later stage needs travels through the stages between.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.base import nest


class Piece:
    """Some layers of a model, in the order in which they run."""

    def __init__(self, layers: list, call: Callable[[list, Any], list]):
        self.layers, self.call = layers, call

    def variables(self) -> list:
        """The trainable variables of the layers, each once."""
        found = {id(v): v for layer in self.layers for v in layer.trainable_variables}
        return list(found.values())


def balanced(weights: Sequence[float], parts: int) -> list[int]:
    """Where to begin the parts of a list, so that the heaviest part is as light as possible; no part is empty."""
    n, sums = len(weights), [0.0]
    for w in weights:
        sums.append(sums[-1] + w)
    best = {(0, 0): (0.0, 0)}                                   # (parts, elements): weight of the heaviest, begin of the last
    for k in range(1, parts + 1):
        for end in range(k, n - (parts - k) + 1):
            best[k, end] = min((max(best[k - 1, b][0], sums[end] - sums[b]), b)
                               for b in range(k - 1, end) if (k - 1, b) in best)
    begins, end = [], n
    for k in range(parts, 0, -1):
        end = best[k, end][1]
        begins.append(end)
    return begins[::-1]


def cut(model: Any, parts: int, at: Sequence[str] | None = None) -> list[Piece]:
    """The stages of a Sequential or functional model; `at` names the layers that begin the second stage and those after it."""
    functional = bool(model._is_graph_network)
    if not functional and not (hasattr(model, "add") and hasattr(model, "pop")):
        raise ValueError(f"{type(model).__name__} cannot be split into stages: pass a Sequential or a functional model.")
    steps = _nodes(model) if functional else [(layer, None) for layer in model.layers]
    if len(steps) < parts:
        raise ValueError(f"A model of {len(steps)} layers cannot be cut into {parts} stages.")
    begins = _begins(steps, parts, at)
    groups = [steps[b:e] for b, e in zip(begins, [*begins[1:], len(steps)])]
    return _functional(model, groups) if functional else [Piece([s[0] for s in g], _chain([s[0] for s in g])) for g in groups]


def _begins(steps: list, parts: int, at: Sequence[str] | None) -> list[int]:
    names = [layer.name for layer, _ in steps]
    if at is None:
        return balanced([1 + (layer.count_params() if layer.built else 0) for layer, _ in steps], parts)
    unknown = [n for n in at if n not in names]
    if unknown or len(at) != parts - 1:
        raise ValueError(f"cuts must name the {parts - 1} layers that begin a stage, got {list(at)}; the layers are {names}.")
    begins = [0, *(names.index(n) for n in at)]
    if begins != sorted(set(begins)):
        raise ValueError(f"cuts must be in the order of the layers {names}, without the first one; got {list(at)}.")
    return begins


def _chain(layers: list) -> Callable[[list, Any], list]:
    def call(tensors: list, training: Any) -> list:
        x, = tensors
        for layer in layers:
            x = layer(x, **({"training": training} if "training" in layer._call_fn_args else {}))
        return [_unmasked(x, layers[-1])]
    return call


def _unmasked(x: Any, layer: Any) -> Any:
    if getattr(x, "_keras_mask", None) is not None:
        raise ValueError(f"A mask cannot cross stages: {layer.name!r} returns one. Put the layers that use it into its stage.")
    return x


def _nodes(model: Any) -> list:
    """(layer, node) in an order in which they run, without the inputs."""
    return [(node.outbound_layer, node) for nodes in model._nodes_by_depth.values() for node in nodes if node.inbound_layers]


def _functional(model: Any, groups: list) -> list[Piece]:
    made = [{id(t) for _, node in g for t in nest.flatten(node.output_tensors)} for g in groups]
    wanted = [{id(t) for _, node in g for t in nest.flatten((node.input_tensors, node.arguments))
               if hasattr(t, "_keras_history")} for g in groups]
    ends = [id(t) for t in model.outputs]
    known = [id(t) for t in model.inputs]
    crossing = [known]                                          # which tensors are behind each cut
    for i in range(len(groups) - 1):
        later = set(ends).union(*wanted[i + 1:])
        known = [t for t in [*known, *sorted(made[i] - set(known))] if t in later]
        crossing.append(known)
    crossing.append(ends)
    return [Piece(list(dict.fromkeys(layer for layer, _ in g)), _run(g, before, behind))
            for g, before, behind in zip(groups, crossing, crossing[1:])]


def _run(group: list, before: list[int], behind: list[int]) -> Callable[[list, Any], list]:
    def call(tensors: list, training: Any) -> list:
        values = dict(zip(before, tensors, strict=True))
        for layer, node in group:
            given = nest.map_structure(lambda t: values[id(t)], node.input_tensors)
            if isinstance(given, list) and len(given) == 1:
                given = given[0]
            arguments = nest.map_structure(lambda t: values.get(id(t), t), node.arguments) if node.arguments else {}
            if "training" in layer._call_fn_args and arguments.get("training") is None:
                arguments["training"] = training
            for reference, value in zip(nest.flatten(node.output_tensors), nest.flatten(layer(given, **arguments))):
                values[id(reference)] = value
        return [_unmasked(values[t], group[-1][0]) for t in behind]
    return call
