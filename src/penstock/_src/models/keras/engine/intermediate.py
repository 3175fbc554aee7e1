"""Models whose inputs are results of layers: the layers behind them are called again, on new inputs."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.models.keras.engine.input_layer import Input, InputLayer


def _node(tensor: Any) -> Any:
    layer, index, _ = tensor._keras_history
    return layer._inbound_nodes[index]


def from_inputs(inputs: Any, outputs: Any) -> tuple[Any, Any]:
    """Inputs and outputs of a model. Inputs that are not `Input`s become new ones, and the outputs are computed from these."""
    flat = nest.flatten(inputs)
    if all(not hasattr(t, "_keras_history") or isinstance(t._keras_history.layer, InputLayer) or not _node(t).inbound_layers
           for t in flat):
        return inputs, outputs
    values = {id(t): t if isinstance(t._keras_history.layer, InputLayer) else
              Input(batch_shape=t.shape, dtype=t.dtype.base_dtype) for t in flat}
    for tensor in nest.flatten(outputs):
        _compute(tensor, values)
    return (nest.map_structure(lambda t: values[id(t)], inputs),
            nest.map_structure(lambda t: values.get(id(t), t), outputs))


def _compute(tensor: Any, values: dict[int, Any]) -> None:
    """Calls the layers between known tensors and this one, first those whose inputs are known."""
    waiting = [tensor]
    while waiting:
        node = _node(waiting[-1])
        if id(waiting[-1]) in values or not node.inbound_layers:            # an `Input` that is not among the inputs stays
            waiting.pop()
            continue
        needed = [t for *_, t in node.iterate_inbound(include_arguments=True)
                  if id(t) not in values and _node(t).inbound_layers]
        if needed:
            waiting += needed
            continue
        given = nest.map_structure(lambda t: values.get(id(t), t), node.input_tensors)
        arguments = nest.map_structure(lambda t: values.get(id(t), t), node.arguments) if node.arguments else {}
        made = node.outbound_layer(given, **arguments)
        values.update(zip(map(id, nest.flatten(node.output_tensors)), nest.flatten(made), strict=True))
