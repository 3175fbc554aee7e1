"""Functional networks as plain data, and back: the layers, and for each of their calls what it took."""
from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base import nest
from penstock._src.base import tf_logging as logging
from penstock._src.graph.node import Tensor
from penstock._src.models.keras.backend.variables import get_value
from penstock._src.models.keras.engine.function_layer import TFOpLambda, as_data
from penstock._src.models.keras.engine.topology import node_key
from penstock._src.models.keras.utils.generic_utils import get_registered_name
from penstock._src.models.keras.utils.object_config import serialize_keras_object
from penstock._src.state.variables.variable import Variable

_CONSTANT = "_CONSTANT_VALUE"                   # in place of a layer's name: the first argument is a constant


class _Ref:
    """A list that nest treats as one thing: [layer, call, output] or [layer, call, output, arguments]."""

    def __init__(self, items: list):
        self.items = items


def _wrapped(data: Any) -> Any:
    """Data in which the innermost lists that name a tensor are _Refs."""
    if isinstance(data, (list, tuple)):
        if len(data) in (3, 4) and isinstance(data[0], str) and isinstance(data[1], int):
            return _Ref(list(data))
        return [_wrapped(d) for d in data]
    return {k: _wrapped(v) for k, v in data.items()} if isinstance(data, dict) else data


def _plain(data: Any) -> Any:
    if isinstance(data, _Ref):
        return data.items
    if isinstance(data, dict):
        return {k: _plain(v) for k, v in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(d) for d in data] if isinstance(data, list) else tuple(_plain(d) for d in data)
    return data


def skips_first_node(layer: Any) -> bool:
    """Whether the first call of a layer is its own making: that of a functional network inside another."""
    return bool(getattr(layer, "_is_graph_network", False) and layer._inbound_nodes and hasattr(layer, "_nested_inputs")
                and layer._inbound_nodes[0].input_tensors is layer._nested_inputs)


# -- to data ---------------------------------------------------------------------------------------------------------
def describe(network: Any) -> dict[str, Any]:
    """The config of a functional network."""
    renumbered: dict[str, int] = {}
    for layer in network.layers:
        kept = 1 if skips_first_node(layer) and not layer.__dict__.get("_inferred_input") else 0
        for i in range(len(layer._inbound_nodes)):
            if node_key(layer.name, i) in network._network_nodes:
                renumbered[node_key(layer.name, i)] = kept
                kept += 1
    layers = [{**serialize_keras_object(layer), "name": layer.name, "inbound_nodes": _calls(network, layer, renumbered)}
              for layer in network.layers]

    def places(coordinates: Any, like: Any) -> Any:
        refs = [_Ref([layer.name, renumbered.get(node_key(layer.name, i), 0), j]) for layer, i, j in coordinates]
        packed = nest.pack_sequence_as(like, refs)
        return _plain(packed if nest.is_nested(packed) else [packed])

    config = {"name": network.name, "trainable": network.trainable, "layers": layers,
              "input_layers": places(network._input_coordinates, network._nested_inputs),
              "output_layers": places(network._output_coordinates, network._nested_outputs)}
    return copy.deepcopy(config)


def class_name(obj: Any) -> str:
    """The name under which the class of a layer is written down."""
    return get_registered_name(type(obj))


def _calls(network: Any, layer: Any, renumbered: dict[str, int]) -> list:
    found = []
    for i, node in enumerate(layer._inbound_nodes):
        if node_key(layer.name, i) not in network._network_nodes or not node.inbound_layers:
            continue
        kwargs = _arguments(layer, node, renumbered)
        refs = [_Ref([source.name, renumbered.get(node_key(source.name, n), 0), t, kwargs])
                for source, n, t, _ in node.iterate_inbound()]
        packed = nest.pack_sequence_as(node.input_tensors, refs)
        if isinstance(layer, TFOpLambda):
            found.append(_call_of_function(packed, kwargs))
        else:
            found.append(_plain(packed if nest.is_nested(packed) else [packed]))
    return found


def _call_of_function(inputs: Any, kwargs: dict[str, Any]) -> Any:
    """The call of a public function: one input is no list, and a constant may be the first argument."""
    argument = kwargs.get("argument", "*")
    if argument.startswith("*"):
        return _plain(inputs)
    places = nest.map_structure(lambda ref: ref.items[:3], inputs)
    return [_CONSTANT, -1, kwargs["constant"], {argument: places, **{k: v for k, v in kwargs.items()
                                                                     if k not in ("constant", "argument")}}]


def _arguments(layer: Any, node: Any, renumbered: dict[str, int]) -> dict[str, Any]:
    if not node.arguments:
        return {}

    def plain(x: Any) -> Any:
        if hasattr(x, "_keras_history"):
            source, i, j = x._keras_history
            return [source.name, renumbered.get(node_key(source.name, i), i), j]
        if isinstance(x, (np.ndarray, np.generic)):
            return x.tolist()
        if isinstance(x, (Tensor, Variable)):
            return get_value(x).tolist()
        return as_data(x)
    kwargs = nest.map_structure(plain, dict(node.arguments))
    try:
        json.dumps(kwargs)
    except TypeError:
        logging.warning("Layer %s was passed non-serializable keyword arguments: %s. They will not be included in the "
                        "serialized "
                        "model (and thus will be missing at deserialization time).", layer.name, node.arguments)
        return {}
    return kwargs


# -- from data -------------------------------------------------------------------------------------------------------
class _Builder:
    """Layers by name, and calls that wait for the results of others."""

    def __init__(self, config: dict[str, Any], custom_objects: Any):
        self.layers: dict[str, Any] = {}
        self.waiting: list[tuple[Any, Any, tuple[str, int]]] = []
        self.nodes: dict[tuple[str, int], Any] = {}     # the calls that were made, by the layer's name and number in config
        calls: dict[str, list] = {}
        for data in config["layers"]:
            layer = tf.keras.layers.deserialize(data, custom_objects=custom_objects)
            name = data.get("name") or layer.name
            self.layers[name] = layer
            calls[name] = _calls_in(data.get("inbound_nodes", ()))
        used = _numbers(config, self.layers)
        for name, layer in self.layers.items():
            first = _first_number(layer, len(calls[name]), used.get(name, set()))
            if not calls[name] and layer._inbound_nodes:
                self.nodes[name, first] = layer._inbound_nodes[0]
            self.waiting.extend((layer, call, (name, first + i)) for i, call in enumerate(calls[name]))

    def tensor(self, ref: list) -> Any:
        """The tensor that a reference names; None if its call has not been made yet."""
        node = self.nodes.get((ref[0], ref[1]))
        return None if node is None else nest.flatten(node.output_tensors)[ref[2]]

    def run(self) -> None:
        """Makes the calls, those first whose inputs are there."""
        while self.waiting:
            left = []
            for layer, call, key in self.waiting:
                if self._made(layer, call):
                    self.nodes[key] = layer._inbound_nodes[-1]
                else:
                    left.append((layer, call, key))
            if len(left) == len(self.waiting):
                raise ValueError("Improperly formatted model config: the inputs of these layers are never created: "
                                 f"{sorted({layer.name for layer, _, _ in left})}")
            self.waiting = left

    def _made(self, layer: Any, call: Any) -> bool:
        if isinstance(call, dict) and "args" in call:
            return self._made_from_arguments(layer, call)
        data = _wrapped(call)
        refs = nest.flatten(data)
        if isinstance(data, _Ref) and data.items[0] == _CONSTANT:
            return self._made_from_constant(layer, data.items[2], data.items[3])
        tensors = [self.tensor(r.items) for r in refs]
        kwargs: dict[str, Any] = {}
        for r in refs:
            if len(r.items) not in (3, 4):
                raise ValueError("Improperly formatted model config.")
            kwargs = r.items[3] if len(r.items) == 4 else {}
        arguments = self._with_tensors(kwargs)
        if any(t is None for t in tensors) or arguments is None:
            return False
        packed = nest.pack_sequence_as(data, tensors)
        if not isinstance(packed, dict) and len(tensors) == 1:
            packed = tensors[0]
        layer(packed, **arguments)
        return True

    def _made_from_constant(self, layer: Any, constant: Any, kwargs: dict[str, Any]) -> bool:
        """A call of a function whose first argument is a constant: the layer is called on a tensor among the others."""
        arguments = self._with_tensors(kwargs)
        if arguments is None:
            return False
        name = next((k for k, v in arguments.items() if isinstance(v, Tensor)), None)
        if name is None:
            raise ValueError(f"Improperly formatted model config: layer {layer.name} is not called on any tensor.")
        layer(arguments.pop(name), **arguments, constant=constant, argument=name)
        return True

    def _with_tensors(self, kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """Arguments with tensors in place of their names; None if one of them does not exist yet."""
        missing = []

        def found(x: Any) -> Any:
            if isinstance(x, list) and len(x) == 3 and isinstance(x[0], str) and x[0] in self.layers:
                t = self.tensor(x)
                if t is None:
                    missing.append(x)
                return t
            if isinstance(x, (list, tuple)):
                return type(x)(map(found, x))
            return {k: found(v) for k, v in x.items()} if isinstance(x, dict) else x
        made = {k: found(v) for k, v in kwargs.items()}
        return None if missing else made

    def _made_from_arguments(self, layer: Any, call: dict[str, Any]) -> bool:
        """A call as Keras 3 writes it: arguments in which `__keras_tensor__` represents a tensor."""
        missing = []

        def found(x: Any) -> Any:
            if isinstance(x, dict) and x.get("class_name") == "__keras_tensor__":
                t = self.tensor(x["config"]["keras_history"])
                if t is None:
                    missing.append(x)
                return t
            if isinstance(x, dict):
                return {k: found(v) for k, v in x.items()}
            return [found(v) for v in x] if isinstance(x, (list, tuple)) else x
        args, kwargs = found(call["args"]), found(call["kwargs"])
        if missing:
            return False
        layer(*args, **{k: v for k, v in kwargs.items() if v is not None})
        return True


def _numbers(data: Any, layers: dict[str, Any]) -> dict[str, set[int]]:
    """The numbers of calls by which a config refers to the results of each layer."""
    found: dict[str, set[int]] = {}

    def visit(x: Any) -> None:
        if isinstance(x, (list, tuple)):
            if len(x) in (3, 4) and isinstance(x[0], str) and x[0] in layers and type(x[1]) is type(x[2]) is int:
                found.setdefault(x[0], set()).add(x[1])
            for v in x:
                visit(v)
        elif isinstance(x, dict):
            for v in x.values():
                visit(v)
    visit([[v.get("inbound_nodes") for v in data["layers"]], data["input_layers"], data["output_layers"]])
    return found


def _first_number(layer: Any, calls: int, used: set[int]) -> int:
    """The number that a config gives the first call of a layer. Of a model that has a call of its own to make its outputs, it
    may be 1; whether a stack counts that call depends on who wrote the config, and on whether it was built by then."""
    if used and calls and max(used) >= calls:
        return 1
    return 0 if 0 in used else int(skips_first_node(layer))


def _calls_in(calls: Any) -> list:
    """The calls of a layer; in config a call is a list of references, or Keras 3's dictionary of arguments."""
    return list(calls)


def rebuild(cls: Any, config: dict[str, Any], custom_objects: Any) -> Any:
    """A functional network from its config."""
    builder = _Builder(config, custom_objects)
    builder.run()

    def tensors(data: Any) -> Any:
        data = _wrapped(data)
        refs = [data] if isinstance(data, _Ref) else nest.flatten(data)
        found = [builder.tensor(r.items) for r in refs]
        return found[0] if isinstance(data, _Ref) else nest.pack_sequence_as(data, found)

    extra = {"trainable": config["trainable"]} if "trainable" in config else {}
    model = cls(inputs=tensors(config["input_layers"]), outputs=tensors(config["output_layers"]), name=config.get("name"),
                **extra)
    known = {id(v) for v in model.layers}
    others = [v for v in builder.layers.values() if id(v) not in known]
    if others:
        nodes = [n for v in builder.layers.values() for n in v._inbound_nodes[1 if skips_first_node(v) else 0:]]
        model._insert_layers(others, nodes)
    return model
