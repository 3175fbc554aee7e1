"""Compressor: encodes gradients on the device that computes them, and decodes them on the device that applies them.

Beside the gradient (on the worker) it adds what earlier steps left out, encodes, and keeps what is left out now; beside the
variable (on the parameter server) it decodes. Only the encoded parts are between the two, so only they are sent. What is kept
belongs to the worker: its variables are local, and others do not see them.

With `momentum`, what is encoded is not the gradient but its running velocity (momentum correction), and the velocity of
elements that a sparsifying codec has sent is cleared (factor masking): the optimizer that applies the gradients then has no
separate momentum.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph import context, scopes
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.scopes import init_scope, name_scope
from penstock._src.models.compression.codec import Codec, NoCompression, as_codec, flat, number_of_bytes, static_size
from penstock._src.models.distribute.encoding import Encoding, with_encoding
from penstock._src.ops.registry import get
from penstock._src.state.variables.policy import VariableAggregation, VariableSynchronization
from penstock._src.state.variables.variable import VariableV1
from penstock._src.training.train.optimizer import deduplicated

LEAST = 16          # elements: smaller gradients travel as they are


class Compressor:
    """What turns pairs (gradient, variable) into pairs whose gradients were sent encoded. `watch` is told of new variables."""

    def __init__(self, codec: Any, error_feedback: bool = True, momentum: float = 0.0, least_size: int = LEAST,
                 watch: Callable[[str, Any], None] | None = None):
        self.codec: Codec = as_codec(codec)
        self.momentum, self.least_size = momentum, least_size
        self.error_feedback = error_feedback and self.codec.lossy
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be at least 0 and less than 1, got {momentum}")
        if momentum and not self.error_feedback:
            raise ValueError("momentum is for lossy codecs with error feedback; not for "
                             f"{self.codec!r} with error_feedback={error_feedback}.")
        self._kept: dict[Any, Any]
        self._watch, self._kept = watch, {}

    def config(self) -> dict[str, Any]:
        """The arguments except the codec."""
        return {"error_feedback": self.error_feedback, "momentum": self.momentum, "least_size": self.least_size}

    def variables(self) -> list:
        """What is kept, and the counters, in the current graph."""
        graph = None if context.executing_eagerly() else context.current_graph()
        return [v for (where, *_), v in self._kept.items() if where is graph]

    # -- the way of a gradient -----------------------------------------------------------------------------------------
    def compress(self, pairs: list) -> tuple[list, list]:
        """The pairs with gradients as they arrive, and the ops that keep what was left out and count."""
        arrived, updates, sent, dense = [], [], [], []
        with name_scope("compress"):
            for grad, var in pairs:
                if grad is None:
                    arrived.append((grad, var))
                    continue
                with _beside(grad):
                    parts, decode, kept = self._encode(grad, var)
                linear = not self._codec_of(var).lossy and not isinstance(grad, IndexedSlices)
                with scopes.colocate_with(var, ignore_existing=True):
                    arrived.append((with_encoding(decode(parts), Encoding(parts, decode, linear)), var))
                updates += kept
                sent += parts
                dense += [grad.values, grad.indices] if isinstance(grad, IndexedSlices) else [grad]
            if sent:
                updates += self._count(sent, dense)
        return arrived, updates

    def _encode(self, grad: Any, var: Any) -> tuple[list, Callable, list]:
        """What is sent, a function that makes the gradient of it, and the ops that keep the rest."""
        size, dtype, codec = static_size(var.shape), var.dtype.base_dtype, self._codec_of(var)
        keeps = codec.lossy and self.error_feedback
        if isinstance(grad, IndexedSlices):
            if not codec.sparsifies and not self.momentum:
                return self._encode_rows(codec, grad, var)
            grad = get("UnsortedSegmentSum")(grad.values, grad.indices, var.shape[0])
        total, updates = get("Reshape")(grad, [size]), []
        if self.momentum:
            velocity = self._variable("velocity", grad, var, [size])
            total = moved = velocity.read_value() * get("Cast")(self.momentum, DstT=dtype) + total
        if keeps:
            rest = self._variable("rest", grad, var, [size])
            total = total + rest.read_value()
        parts = codec.encode(total)
        if keeps:
            came = codec.decode(parts, size, dtype)
            updates.append(rest.assign(_finite(total - came), read_value=False))
        if self.momentum:
            if codec.sparsifies:
                moved = get("SelectV2")(get("Equal")(came, get("ZerosLike")(came)), moved, get("ZerosLike")(moved))
            updates.append(velocity.assign(_finite(moved), read_value=False))
        return parts, lambda came: get("Reshape")(codec.decode(came, size, dtype), var.shape.as_list()), updates

    def _codec_of(self, var: Any) -> Codec:
        return self.codec if static_size(var.shape) >= self.least_size else NoCompression()

    def _encode_rows(self, codec: Codec, grad: IndexedSlices, var: Any) -> tuple[list, Callable, list]:
        """The same for a gradient of some rows: these are encoded, and their rest is kept."""
        dtype, row = var.dtype.base_dtype, var.shape.as_list()[1:]
        values, indices = deduplicated(grad.values, grad.indices)
        size, updates = get("Size")(values), []
        if codec.lossy and self.error_feedback:
            rest = self._variable("rest", grad, var, var.shape.as_list())
            values = values + get("ResourceGather")(rest.handle, indices, dtype=dtype)
            parts = codec.encode(flat(values))
            came = get("Reshape")(codec.decode(parts, size, dtype), [-1, *row])
            updates.append(get("ResourceScatterUpdate")(rest.handle, indices, _finite(values - came)))
        else:
            parts = codec.encode(flat(values))

        def decode(came: list) -> IndexedSlices:
            *values, where = came
            count = get("Size")(where) * static_size(var.shape[1:])
            return IndexedSlices(get("Reshape")(codec.decode(values, count, dtype), [-1, *row]), where, grad.dense_shape)
        return [*parts, indices], decode, updates

    # -- state ---------------------------------------------------------------------------------------------------------
    def _variable(self, what: str, grad: Any, var: Any, shape: list) -> Any:
        """What is kept of a variable's gradients, beside where they are computed."""
        graph = None if context.eager_outside_functions() else var.graph
        key = graph, what, getattr(var, "_unique_id", None) or var.name
        if key not in self._kept:
            name = f"{var.name.split(':')[0]}/compression_{what}"
            self._kept[key] = self._made(what, name, grad, shape, var.dtype.base_dtype)
        return self._kept[key]

    def _made(self, what: str, name: str, grad: Any, shape: list, dtype: Any,
              aggregation: Any = VariableAggregation.NONE) -> Any:
        with init_scope():
            place = contextlib.nullcontext() if context.executing_eagerly() else _beside(grad)
            with place:
                made = VariableV1(lambda: get("Fill")(shape, get("Cast")(0, DstT=dtype)), name=name, dtype=dtype,
                                  trainable=False, use_resource=True, collections=[GraphKeys.LOCAL_VARIABLES],
                                  synchronization=VariableSynchronization.ON_READ, aggregation=aggregation)
        if self._watch is not None:
            self._watch(f"{what}_{sum(key[1] == what for key in self._kept)}", made)
        return made

    def counter(self, what: str) -> Any:
        """The variable that counts the bytes `sent`, or those of the gradients before (`dense`). None before the first step."""
        graph = None if context.eager_outside_functions() else context.current_graph()
        return self._kept.get((graph, what))

    def _count(self, sent: list, dense: list) -> list:
        graph = None if context.eager_outside_functions() else context.current_graph()
        updates = []
        for what, tensors in (("sent", sent), ("dense", dense)):
            if (graph, what) not in self._kept:
                self._kept[graph, what] = self._made(what, f"compression_bytes_{what}", sent[0], [], dtypes.int64,
                                                     VariableAggregation.SUM)
            with _beside(sent[0]):
                updates.append(self._kept[graph, what].assign_add(number_of_bytes(tensors), read_value=False))
        return updates


def _beside(grad: Any) -> Any:
    """A scope for ops on the device of the gradient."""
    return scopes.colocate_with(grad.values if isinstance(grad, IndexedSlices) else grad, ignore_existing=True)


def _finite(x: Any) -> Any:
    """Drops elements that are not finite: they would stay forever."""
    return get("SelectV2")(get("IsFinite")(x), x, get("ZerosLike")(x))
