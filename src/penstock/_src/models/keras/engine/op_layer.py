"""Ops between layers: a model may contain plain ops, `Dense(1)(x) + 1.0`, which become layers.

When a layer is called on a tensor that did not come out of a layer, `create_keras_history` walks back to the tensors that
did, and makes each op on the way a `TensorFlowOpLayer`. Inputs of such ops that no model input leads to are constants of it.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import nest
from penstock._src.base.api import LazyModule
from penstock._src.graph.build import arg_count, group_inputs
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import init_scope
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.call_context import current
from penstock._src.models.keras.engine.node import parts_of
from penstock._src.models.keras.utils import type_config
from penstock._src.ops.registry import OPS, get

backend = LazyModule("penstock._src.models.keras.backend")
graphdef = LazyModule("penstock._src.graph.graphdef")
PREFIX = "tf_op_layer_"


class Read:
    """A variable that an op between layers takes: read whenever the op runs."""

    def __init__(self, handle: Any, dtype: Any):
        self.handle, self.dtype = handle, dtype

    def __call__(self) -> Any:
        """Its value now."""
        return get("ReadVariableOp")(self.handle, dtype=self.dtype)


class TensorFlowOpLayer(Layer):
    """An op as a layer. `constants` are those of its inputs, by position, that are not inputs of the layer."""

    constants: Any

    def __init__(self, node_def: Any, name: str, constants: dict | None = None, trainable: bool = True, dtype: Any = None):
        super().__init__(name=PREFIX + name, trainable=trainable, dtype=dtype, autocast=False)
        self.node_def = _as_node_def(node_def)
        self.__dict__["constants"] = {int(i): c for i, c in (constants or {}).items()}
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Runs the op."""
        opdef = OPS[self.node_def.op]
        attrs = {n: graphdef.attr_from_message(self.node_def.attr[n], a.kind) for n, a in opdef.attrs.items()
                 if n in self.node_def.attr}
        flat = _with_constants(inputs, self.constants)
        counts = tuple(_count(arg, attrs) for arg in opdef.inputs)
        args = group_inputs(opdef, flat, counts if any(c is not None for c in counts) else ())
        return get(opdef.name)(*args, **{k: v for k, v in attrs.items() if k not in _numbers(opdef)})

    def get_config(self) -> dict[str, Any]:
        """The op and its constants, as plain data."""
        from google.protobuf import json_format
        config = super().get_config()
        config.update(name=config["name"][len(PREFIX):], node_def=json_format.MessageToDict(self.node_def),
                      constants=_plain_constants(self.constants))
        return config


def _as_node_def(given: Any) -> Any:
    from google.protobuf import json_format
    from tensorboard.compat.proto.node_def_pb2 import NodeDef
    if isinstance(given, dict):
        return json_format.ParseDict(given, NodeDef())
    if isinstance(given, NodeDef):
        return given
    return NodeDef.FromString(given if isinstance(given, bytes) else given.encode())


def _count(arg: Any, attrs: dict[str, Any]) -> int | None:
    return arg_count(arg, attrs) if arg.is_list else None


def _numbers(opdef: Any) -> set[str]:
    return {a.number_attr for a in opdef.inputs if getattr(a, "number_attr", None)} | \
        {a.type_list_attr for a in opdef.inputs if getattr(a, "type_list_attr", None)}


class AddLoss(Layer):
    """Adds its input to the losses; how a functional model keeps what `add_loss` was given."""

    def __init__(self, unconditional: bool, **kwargs: Any):
        super().__init__(**{**kwargs, "autocast": False})
        self.unconditional = unconditional

    def call(self, inputs: Any) -> Any:
        """Adds the loss."""
        self.add_loss(inputs, inputs=None if self.unconditional else True)
        return inputs

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate it."""
        return {**super().get_config(), "unconditional": self.unconditional}


class AddMetric(Layer):
    """Adds its input to the metrics; how a functional model keeps what `add_metric` was given."""

    def __init__(self, aggregation: str | None = None, metric_name: str | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.aggregation, self.metric_name = aggregation, metric_name

    def call(self, inputs: Any) -> Any:
        """Adds the metric."""
        self.add_metric(inputs, self.aggregation, self.metric_name)
        return inputs

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate it."""
        return {**super().get_config(), "aggregation": self.aggregation, "metric_name": self.metric_name}


class Components(Layer):
    """The tensors that a ragged or sparse tensor consists of: how a model continues with ops on these."""

    def __init__(self, **kwargs: Any):
        super().__init__(**{**kwargs, "autocast": False})
        self.built = True

    def call(self, inputs: Any) -> Any:
        """The components, in the order of the type."""
        return nest.flatten(inputs, expand_composites=True)


class Composed(Layer):
    """A ragged or sparse tensor of its components. `constants` are those, by position, that are not inputs of the layer."""

    spec: Any
    constants: Any

    def __init__(self, spec: Any, constants: dict | None = None, **kwargs: Any):
        super().__init__(**{**kwargs, "autocast": False})
        self.__dict__.update(spec=type_config.type_of(spec) if isinstance(spec, dict) else spec,
                             constants={int(i): c for i, c in (constants or {}).items()})
        self.built = True

    def call(self, inputs: Any) -> Any:
        """The tensor of the layer's type."""
        return nest.pack_sequence_as(self.spec, _with_constants(inputs, self.constants), expand_composites=True)

    def get_config(self) -> dict[str, Any]:
        """The type and the constants, as plain data."""
        return {**super().get_config(), "spec": type_config.describe(self.spec), "constants": _plain_constants(self.constants)}


def _with_constants(inputs: Any, constants: dict[int, Any]) -> list:
    """All inputs of an op: those of the layer, and between them its constants, by position."""
    flat = list(nest.flatten(inputs))
    for i in sorted(constants):
        c = constants[i]
        flat.insert(i, c() if isinstance(c, Read) else c)
    return flat


def _plain_constants(constants: dict[int, Any]) -> dict[int, Any]:
    return {i: np.asarray(backend.get_value(c()) if isinstance(c, Read) else
                          backend.get_value(c) if isinstance(c, Tensor) else c).tolist() for i, c in constants.items()}


# -- from tensors back to layers -------------------------------------------------------------------------------------
def needs_keras_history(tensors: Any, ignore_call_context: bool = False) -> bool:
    """Whether ops are between these tensors and the layers that they come from."""
    if current.in_call and not ignore_call_context:
        return False
    flat = nest.flatten(tensors)
    if all(getattr(t, "_keras_history", None) is not None for t in flat):
        return False
    return uses_keras_history(flat)


def uses_keras_history(tensors: Any) -> bool:
    """Whether any of the tensors depends on the output of a layer."""
    seen: set[int] = set()
    waiting = list(nest.flatten(tensors))
    given = [p for t in waiting for p in (t, *parts_of(t))]
    while waiting:
        t = waiting.pop()
        if id(t) in seen or getattr(t, "_keras_history_checked", None) is not None:
            continue
        seen.add(id(t))
        if getattr(t, "_keras_history", None) is not None or getattr(t, "_keras_whole", None) is not None:
            return True
        if isinstance(t, Tensor) and not hasattr(t, "_value"):
            waiting.extend(t.op.inputs)
        waiting.extend(parts_of(t))
    for t in given:
        if isinstance(t, Tensor):
            t._keras_history_checked = True              # type: ignore[attr-defined]
    return False


def create_keras_history(tensors: Any) -> list:
    """Makes layers of the ops between `tensors` and the layers that they come from; returns the new layers."""
    made: list = []
    done: set[int] = set()
    stack = [(t, False) for t in nest.flatten(tensors)]
    while stack:
        t, ready = stack.pop()
        source = t.op if isinstance(t, Tensor) and not hasattr(t, "_value") else t
        if getattr(t, "_keras_history", None) is not None or id(source) in done:
            continue
        if getattr(t, "_keras_whole", None) is not None:
            made.append(_take_apart(t._keras_whole))
            continue
        needed = list(source.inputs) if source is not t else parts_of(t)
        through = [x for x in needed if uses_keras_history(x)]
        if not ready and needed:
            stack.append((t, True))
            stack.extend((x, False) for x in through)
        elif source is not t or through:
            done.add(id(source))
            made.append(_as_layer(t, needed, through))
    return made


def _as_layer(t: Any, needed: list, through: list) -> Layer:
    """The layer of the op that a tensor comes from, or of the parts of a composite tensor; with its call."""
    taken = {id(x) for x in through}
    constants = {i: _constant(x) for i, x in enumerate(needed) if id(x) not in taken}
    if isinstance(t, Tensor):
        layer: Layer = TensorFlowOpLayer(t.op.node_def, name=t.op.name, constants=constants)
        layer._add_inbound_node(through, list(t.op.outputs))
    else:
        layer = Composed(t._type_spec, constants)
        layer._add_inbound_node(through, t)
    return layer


def _take_apart(whole: Any) -> Layer:
    """The layer that results in the components of a composite tensor. Those that have a layer keep it."""
    parts = parts_of(whole)
    known = [getattr(p, "_keras_history", None) for p in parts]
    layer = Components()
    layer._add_inbound_node(whole, parts)
    for part, before in zip(parts, known):
        if before is not None:
            part._keras_history = before
    return layer


def _constant(tensor: Tensor) -> Any:
    """An input of an op that does not depend on the model's inputs: a variable that is read each time, or a value."""
    op = tensor.op
    if op.type == "ReadVariableOp":
        captured = [outer for outer, inner in getattr(op.graph, "_captures", {}).values() if inner is op.inputs[0]]
        handle = captured[0] if captured else op.inputs[0]
        return Read(handle, op.attrs["dtype"])
    if op.type == "Const":
        return np.asarray(op.attrs["value"])
    with init_scope():
        if not _waits(op):
            return backend.function([], tensor)([])
        alone = TensorFlowOpLayer(op.node_def, name=op.name, constants={i: _constant(x) for i, x in enumerate(op.inputs)})
        return nest.flatten(alone.call([]))[tensor.value_index]


def _waits(op: Any) -> bool:
    """Whether an op, or one that it depends on, has control inputs: assertions about the model's inputs, for instance."""
    seen: set[int] = set()
    waiting = [op]
    while waiting:
        op = waiting.pop()
        if op.control_inputs:
            return True
        if id(op) not in seen:
            seen.add(id(op))
            waiting.extend(t.op for t in op.inputs)
    return False
