"""tf.keras.models: copies of models. Models themselves are in `engine/`, files in `saving/`."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.models.keras.engine.input_layer import Input, InputLayer
from penstock._src.models.keras.engine.op_layer import AddLoss
from penstock._src.models.keras.engine.sequential import Sequential
from penstock._src.models.keras.engine.training import Model
from penstock._src.models.keras.saving import model_files as model_files
from penstock._src.models.keras.saving import saved_model as saved_model


def _copied(layer: Any) -> Any:
    return type(layer).from_config(layer.get_config())


@export("keras.models.clone_model")
def clone_model(model: Any, input_tensors: Any = None, clone_function: Callable | None = None) -> Any:
    """A model with new instances of the same layers, and new variables.

    Args:
        model: A Sequential or functional model.
        input_tensors: The inputs of the new model; new ones by default.
        clone_function: Called with each layer; returns the layer of the new model. By default each layer is made again from its
            configuration.

    Returns:
        The new model, whose weights have their initial values.

    Raises:
        ValueError: if `model` is a subclass that makes its layers in `call`.

    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    >>> copy = tf.keras.models.clone_model(model)
    >>> copy.set_weights(model.get_weights())
    >>> print(bool(tf.reduce_all(copy(tf.ones([1, 2])) == model(tf.ones([1, 2])))))
    True
    """
    copied = _copied if clone_function is None else clone_function
    if not callable(copied):
        raise ValueError("Expected `clone_function` to be a callable.")
    if isinstance(model, Sequential):
        return _clone_sequential(model, input_tensors, copied)
    if not isinstance(model, Model):
        raise ValueError(f"Expected `model` argument to be a `Model` instance, got {model}")
    if not model._is_graph_network:
        raise ValueError("Expected `model` argument to be a functional `Model` instance, but got a subclass model instead.")
    return _clone_functional(model, input_tensors, copied)


def _input_layers(tensors: Any, like: list) -> list:
    """Input tensors for a copy: those given, made inputs of models if they are not."""
    found = []
    for i, t in enumerate(nest.flatten(tensors)):
        if getattr(t, "_keras_history", None) is None:
            t = Input(tensor=t, name=f"input_wrapper_for_{like[i]._keras_history.layer.name}")
        found.append(t)
    return found


def _clone_layer(layer: Any, copied: Callable) -> Any:
    """A copy of a layer; of a model that is known by its layers, a copy of each of them."""
    of_layers = isinstance(layer, Sequential) or getattr(layer, "_is_graph_network", False)
    return clone_model(layer) if of_layers and copied is _copied else copied(layer)


def _clone_functional(model: Any, input_tensors: Any, copied: Callable) -> Any:
    made: dict[int, Any] = {}
    if input_tensors is None:
        inputs = []
        for t in model.inputs:
            layer = made[id(t._keras_history.layer)] = InputLayer(**t._keras_history.layer.get_config())
            inputs.append(layer._inbound_nodes[0].output_tensors[0])
    else:
        inputs = _input_layers(input_tensors, model.inputs)
    values = dict(zip(map(id, model.inputs), inputs, strict=True))
    added = []
    for nodes in model._nodes_by_depth.values():
        for node in nodes:
            layer = node.outbound_layer
            if id(nest.flatten(node.output_tensors)[0]) in values or not node.inbound_layers:
                continue
            if id(layer) not in made:
                made[id(layer)] = _clone_layer(layer, copied)
            given = nest.map_structure(lambda t: values[id(t)], node.input_tensors)
            if isinstance(given, list) and len(given) == 1:
                given = given[0]
            arguments = nest.map_structure(lambda t: values.get(id(t), t), node.arguments) if node.arguments else {}
            outputs = made[id(layer)](given, **arguments)
            values.update(zip((id(t) for t in nest.flatten(node.output_tensors)), nest.flatten(outputs)))
            if isinstance(layer, AddLoss) or type(layer).__name__ == "AddMetric":
                added.append(made[id(layer)])
    outputs = nest.pack_sequence_as(model._nested_outputs, [values[id(t)] for t in model.outputs])
    copy = type(model)(nest.pack_sequence_as(model._nested_inputs, inputs), outputs, name=model.name)
    if added:
        known = {id(v) for v in copy.layers}
        others = [v for v in made.values() if id(v) not in known]
        copy._insert_layers(others, [n for v in made.values() for n in v._inbound_nodes])
    return copy


def _clone_sequential(model: Any, input_tensors: Any, copied: Callable) -> Any:
    first = model._layers[0] if model._layers and isinstance(model._layers[0], InputLayer) else None
    layers = [_clone_layer(layer, copied) for layer in model.layers]
    if input_tensors is None:
        lead = [] if first is None else [InputLayer(**first.get_config())]
        return Sequential([*lead, *layers], name=model.name)
    given = nest.flatten(input_tensors)
    if len(given) != 1:
        raise ValueError("To clone a `Sequential` model, we expect at most one tensor as part of `input_tensors`.")
    t = given[0]
    if getattr(t, "_keras_history", None) is None or not isinstance(t._keras_history.layer, InputLayer):
        t = Input(tensor=t, name=f"input_wrapper_for_{t.op.name.replace('/', '_')}")
    return Sequential([t._keras_history.layer, *layers], name=model.name)
