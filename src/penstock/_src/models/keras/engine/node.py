"""Node: one call of a layer, as an edge of the graph of layers. KerasHistory: which call a tensor came out of."""
from __future__ import annotations

from typing import Any, NamedTuple

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.graph.sparse_tensor import SparseTensor


class KerasHistory(NamedTuple):
    """The layer that created a tensor, the index of the call, and of the output."""
    layer: Any
    node_index: int
    tensor_index: int


class _OfLayers(type):
    """Classes for `isinstance`: symbolic tensors are tensors of a graph that name the layer they come from."""

    holds: Any

    def __instancecheck__(cls, x: Any) -> bool:
        return getattr(x, "_keras_history", None) is not None and cls.holds(x)


@export(v2=["keras.__internal__.KerasTensor"])
class KerasTensor(metaclass=_OfLayers):
    """The type of the results of `Input` and of calls on symbolic tensors: `isinstance(x, KerasTensor)`."""

    @staticmethod
    def holds(x: Any) -> bool:
        """Whether x is of the kind, if it came out of a layer."""
        return True


@export(v2=["keras.__internal__.SparseKerasTensor"])
class SparseKerasTensor(KerasTensor):
    """Those of them that are sparse."""

    @staticmethod
    def holds(x: Any) -> bool:
        """Whether x is sparse."""
        return isinstance(x, SparseTensor)


@export(v2=["keras.__internal__.RaggedKerasTensor"])
class RaggedKerasTensor(KerasTensor):
    """Those of them that are ragged."""

    @staticmethod
    def holds(x: Any) -> bool:
        """Whether x is ragged."""
        return hasattr(x, "row_splits")


def parts_of(x: Any) -> list:
    """The components of a ragged, sparse or other composite tensor; none of anything else."""
    if isinstance(x, Tensor) or not hasattr(x, "_type_spec"):
        return []
    return [p for p in nest.flatten(x, expand_composites=True) if p is not x]


def remember(tensor: Any, history: KerasHistory) -> None:
    """Notes the call that a tensor came out of. Components of a composite tensor belong to the first one that has them."""
    tensor._keras_history = history
    for part in parts_of(tensor):
        if isinstance(part, Tensor) and not hasattr(part, "_value") and \
                getattr(part, "_keras_history", getattr(part, "_keras_whole", None)) is None:
            part._keras_whole = tensor           # type: ignore[attr-defined]


def int_shape(x: Any) -> tuple | None:
    """The static shape as a tuple; None where the rank is not known or there is no shape."""
    shape = getattr(x, "shape", None)
    if shape is None:
        return None
    try:
        shape = shape if isinstance(shape, TensorShape) else TensorShape(shape)
        return None if shape.rank is None else tuple(shape.as_list())
    except (TypeError, ValueError):
        return None


class Node:
    """A call of `outbound_layer` on results of other calls of layers."""

    def __init__(self, outbound_layer: Any, inbound_layers: Any, node_indices: Any, tensor_indices: Any, input_tensors: Any,
                 output_tensors: Any, arguments: Any = None):
        if isinstance(outbound_layer, (list, tuple, dict)):
            raise ValueError("`outbound_layer` should be a layer instance, not a list, tuple, or, dict.")
        self.outbound_layer, self.inbound_layers = outbound_layer, inbound_layers
        self.node_indices, self.tensor_indices = node_indices, tensor_indices
        self.input_tensors, self.output_tensors = input_tensors, output_tensors
        self.input_shapes = nest.map_structure(int_shape, input_tensors)
        self.output_shapes = nest.map_structure(int_shape, output_tensors)
        self.arguments = arguments
        self._remember_arguments()
        for layer in nest.flatten(inbound_layers):
            if layer is not None:
                layer._outbound_nodes.append(self)
        outbound_layer._inbound_nodes.append(self)

    def _remember_arguments(self) -> None:
        """Ops between layers that lead to other arguments become layers, too."""
        from penstock._src.models.keras.engine import op_layer
        for t in nest.flatten(self.arguments):
            if (isinstance(t, Tensor) or parts_of(t)) and op_layer.needs_keras_history(t, ignore_call_context=True):
                op_layer.create_keras_history(t)

    def iterate_inbound(self, include_arguments: bool = False) -> list[tuple]:
        """For each input: its layer, which call of it, which output of that, and the tensor."""
        found = list(zip(nest.flatten(self.inbound_layers), nest.flatten(self.node_indices),
                         nest.flatten(self.tensor_indices), nest.flatten(self.input_tensors)))
        if include_arguments:
            found += [(*t._keras_history, t) for t in nest.flatten(self.arguments) if hasattr(t, "_keras_history")]
        return found

    @property
    def parents(self) -> list[Node]:
        """The calls whose results this one takes, by position or by argument."""
        return [layer._inbound_nodes[i] for layer, i, *_ in self.iterate_inbound(include_arguments=True)]

    def get_config(self) -> dict[str, Any]:
        """Names and numbers of what the call takes."""
        names = nest.map_structure(lambda layer: layer.name if layer else None, self.inbound_layers)
        return {"outbound_layer": self.outbound_layer.name, "inbound_layers": names, "node_indices": self.node_indices,
                "tensor_indices": self.tensor_indices}
