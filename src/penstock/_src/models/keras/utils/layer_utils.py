"""Utilities for layers and models: inputs of a tensor, numbers of weights, flipped kernels."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.models.keras import backend as K


def count_params(weights: Any) -> int:
    """The number of elements of the weights, each weight counted once."""
    return int(sum(np.prod(w.shape.as_list()) for w in {id(w): w for w in weights}.values()))


@export("keras.utils.get_source_inputs")
def get_source_inputs(tensor: Any, layer: Any = None, node_index: int | None = None) -> list:
    """The Inputs that a tensor of a functional model is computed from."""
    if not hasattr(tensor, "_keras_history"):
        return [tensor]
    if layer is None or node_index:
        layer, node_index, _ = tensor._keras_history
    if not layer._inbound_nodes:
        return [tensor]
    node = layer._inbound_nodes[node_index or 0]
    before = node.inbound_layers
    if before is None or (isinstance(before, (list, tuple)) and not before):
        return nest.flatten(node.input_tensors)
    found: list = []
    for x in nest.flatten(node.input_tensors):
        found += [s for s in get_source_inputs(x) if not any(s is f for f in found)]
    return found


@export("keras.utils.convert_all_kernels_in_model")
def convert_all_kernels_in_model(model: Any) -> None:
    """Flips the kernels of all convolutions in space, for weights of Theano."""
    kinds = ("Conv1D", "Conv2D", "Conv3D", "Conv2DTranspose", "Convolution1D", "Convolution2D", "Convolution3D")
    for layer in model.layers:
        if type(layer).__name__ in kinds:
            kernel = K.get_value(layer.kernel)
            flipped = kernel[tuple(slice(None, None, -1) if i < kernel.ndim - 2 else slice(None) for i in range(kernel.ndim))]
            K.set_value(layer.kernel, np.copy(flipped))
