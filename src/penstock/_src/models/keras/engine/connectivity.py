"""The record of a layer's calls: inputs, outputs, their shapes and masks, call by call."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.models.keras.engine.node import KerasHistory, Node, remember


def _mask_of(x: Any) -> Any:
    return [getattr(t, "_keras_mask", None) for t in x] if isinstance(x, list) else getattr(x, "_keras_mask", None)


class Connected:
    """The part of Layer that describes its calls."""

    name: str
    _inbound_nodes: list
    _outbound_nodes: list

    inbound_nodes = property(lambda self: self._inbound_nodes, doc="The calls of this layer.")
    outbound_nodes = property(lambda self: self._outbound_nodes, doc="The calls of other layers that take results of this one.")

    def _add_inbound_node(self, input_tensors: Any, output_tensors: Any, arguments: Any = None) -> None:
        """Records a call, and in each result the call that returned it."""
        Node(self, inbound_layers=nest.map_structure(lambda t: t._keras_history.layer, input_tensors),
             node_indices=nest.map_structure(lambda t: t._keras_history.node_index, input_tensors),
             tensor_indices=nest.map_structure(lambda t: t._keras_history.tensor_index, input_tensors),
             input_tensors=nest.map_structure(lambda t: t, input_tensors),       # the caller may change a list later
             output_tensors=output_tensors, arguments=arguments)
        for i, tensor in enumerate(nest.flatten(output_tensors)):
            remember(tensor, KerasHistory(self, len(self._inbound_nodes) - 1, i))

    def _at(self, node_index: int, attribute: str, what: str) -> Any:
        if not self._inbound_nodes:
            raise RuntimeError(f"The layer has never been called and thus has no defined {what}.")
        if node_index >= len(self._inbound_nodes):
            raise ValueError(f"Asked to get {what} at node {node_index}, but the layer has only {len(self._inbound_nodes)} "
                             "inbound nodes.")
        values = getattr(self._inbound_nodes[node_index], attribute)
        return values[0] if isinstance(values, list) and len(values) == 1 else values

    def get_input_at(self, node_index: int) -> Any:
        """The inputs of a call."""
        return self._at(node_index, "input_tensors", "input")

    def get_output_at(self, node_index: int) -> Any:
        """The outputs of a call."""
        return self._at(node_index, "output_tensors", "output")

    def get_input_shape_at(self, node_index: int) -> Any:
        """The shapes of the inputs of a call."""
        return self._at(node_index, "input_shapes", "input shape")

    def get_output_shape_at(self, node_index: int) -> Any:
        """The shapes of the outputs of a call."""
        return self._at(node_index, "output_shapes", "output shape")

    def get_input_mask_at(self, node_index: int) -> Any:
        """The masks of the inputs of a call."""
        return _mask_of(self.get_input_at(node_index))

    def get_output_mask_at(self, node_index: int) -> Any:
        """The masks of the outputs of a call."""
        return _mask_of(self.get_output_at(node_index))

    @property
    def input(self) -> Any:
        """The inputs of the first call."""
        if not self._inbound_nodes:
            raise AttributeError(f"Layer {self.name} has not been called, and has no input.")
        return self._at(0, "input_tensors", "input")

    @property
    def output(self) -> Any:
        """The outputs of the first call."""
        if not self._inbound_nodes:
            raise AttributeError(f"Layer {self.name} has no inbound nodes.")
        return self._at(0, "output_tensors", "output")

    input_mask = property(lambda self: _mask_of(self.input), doc="The masks of the inputs of the first call.")
    output_mask = property(lambda self: _mask_of(self.output), doc="The masks of the outputs of the first call.")

    def _only(self, attribute: str, what: str) -> Any:
        if not self._inbound_nodes:
            raise AttributeError(f"The layer has never been called and thus has no defined {what}.")
        found = getattr(self._inbound_nodes[0], attribute)
        if any(str(getattr(n, attribute)) != str(found) for n in self._inbound_nodes):
            raise AttributeError(f"The layer \"{self.name}\" has multiple inbound nodes, with different {what}s. Hence the "
                                 f"notion of \"{what}\" is ill-defined for the layer. Use "
                                 f"`get_{what.replace(' ', '_')}_at(node_index)` instead.")
        return found[0] if isinstance(found, list) and len(found) == 1 else found

    @property
    def input_shape(self) -> Any:
        """The shapes of the inputs, if all calls have the same."""
        return self._only("input_shapes", "input shape")

    @property
    def output_shape(self) -> Any:
        """The shapes of the outputs, if all calls have the same."""
        return self._only("output_shapes", "output shape")
