"""A training, test or prediction step, compiled: in eager mode as a function, in graphs as a part of the graph.

A step takes the flat list of a batch. `FunctionStep` traces the model's `train_step` (or `test_step`, `predict_step`) once
per layout, with the number of examples left open. `GraphStep` is one callable of the session.
"""
from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from penstock._src.base import nest
from penstock._src.base.api import LazyModule
from penstock._src.base.static_shape import TensorShape
from penstock._src.eager.function import Function
from penstock._src.graph.scopes import name_scope
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.models.keras.backend.state import eager_learning_phase_scope
from penstock._src.models.keras.engine.data_adapter import Layout, pack_x_y_sample_weight
from penstock._src.models.keras.engine.layer_weights import unique
from penstock.compat import v1 as tf

backend = LazyModule("penstock._src.models.keras.backend")


def _spec(x: Any, whole: bool) -> Any:
    """The input specs of a trace: arrays of this shape, or with any number of examples. A batch of one has any number, because
    layers take a dimension that is 1 for one that may be dropped."""
    dims = x.shape.as_list()
    return TensorSpec(TensorShape([None, *dims[1:]] if dims and (dims[0] == 1 or not whole) else dims), x.dtype)


def run_step(model: Any, mode: str, default: bool, data: Any) -> Any:
    """Runs the step of a model on a batch; `default`: it is not one of the user's, and leaves its results in the metrics."""
    with eager_learning_phase_scope(int(mode == "train")) if default or mode != "train" else contextlib.nullcontext():
        if default:             # a train_step of the user sets the mode of each call itself
            return model._quiet_step(mode, data)
        method = getattr(model, f"{mode}_step")
        results = method(data)
    if results is None:
        raise TypeError(f"{method.__qualname__} returned None: a step returns its results, for example "
                        "{m.name: m.result() for m in self.metrics}.")
    return results


class FunctionStep:
    """A step of eager mode. `eagerly`: not compiled."""

    def __init__(self, model: Any, mode: str, layout: Layout, eagerly: bool):
        default = mode != "predict" and model._is_default_step(mode)

        def step(*flat: Any) -> Any:
            return run_step(model, mode, default, pack_x_y_sample_weight(*layout.pack(list(flat))))

        self._model, self._mode, self._layout = model, mode, layout
        self._default = model._is_default_step(mode)
        self._step = step = self._wrapped(step)
        self._function = None if eagerly else Function(step, f"{mode}_function")
        self._concrete: dict[Any, Any] = {}

    def _wrapped(self, step: Any) -> Any:
        """The function to compile: the step, or a subclass's wrapper of it."""
        return step

    def __call__(self, flat: list) -> Any:
        """Runs the step; returns tensors, or nothing if metrics are read later."""
        if self._function is None:
            return self._step(*flat)
        try:
            key = tuple([x._value.shape for x in flat])
        except AttributeError:                           # sparse and ragged tensors
            return self._function(*flat)
        concrete = self._concrete.get(key)
        if concrete is None or any(x.dtype is not t for x, t in zip(flat, concrete[1])):
            concrete = self._concrete[key] = self._traced(flat), [x.dtype for x in flat]
        return self._run(concrete[0], flat)

    def _run(self, concrete: Any, flat: list) -> Any:
        """Runs a trace on a batch."""
        return concrete.call_flat(flat)

    def _traced(self, flat: list) -> Any:
        """The first batch is traced with its size, since most have the same; a second size, for any number of examples. Random
        numbers continue as if there were one trace."""
        whole = not self._concrete
        self._prepare(flat)
        traced = self._function.get_concrete_function(*[_spec(x, whole) for x in flat])      # type: ignore[union-attr]
        for first, _ in self._concrete.values():
            traced.graph.continue_streams(first.graph)
            break
        return traced

    def _prepare(self, flat: list) -> None:
        """Creates variables now, those of the optimizer, too: a trace in which variables are made must be traced again."""
        if not self._concrete and self._default:
            self._model._expect(self._layout.pack(list(flat))[0])
        optimizer: Any = getattr(self._model, "optimizer", None)
        if self._mode == "train" and self._model.built and hasattr(optimizer, "build"):
            with name_scope(optimizer.name or None):            # the scope in which a step would make them
                optimizer.build(self._model.trainable_variables)


class GraphStep:
    """A step of graph mode: the ops for a layout, and the session's callable for them."""

    def __init__(self, model: Any, mode: str, layout: Layout, flat: list):
        self._model, self._mode = model, mode
        with backend.get_graph().as_default():
            holes, outputs = model._graph_inputs(layout, flat)
            self.feeds = [t for t in holes]
            self.fetches, updates = self._built(model, layout, holes, outputs)
            self.updates = _grouped(updates)
        phase = backend.symbolic_learning_phase()
        self._phase = not isinstance(phase, (int, bool))
        if self._phase:
            self.feeds.append(phase)
        self._callables: dict[int, tuple] = {}

    def _built(self, model: Any, layout: Layout, holes: list, outputs: Any) -> tuple[list, list]:
        """What the step returns for its placeholders, and the ops that it runs."""
        if self._mode == "predict":
            return list(nest.flatten(outputs)), model.state_updates
        return self._with_loss(model, layout, holes)

    def _with_loss(self, model: Any, layout: Layout, holes: list) -> tuple[list, list]:
        loss, results = model._graph_loss(layout, holes)
        updates: list = []
        if self._mode == "train":
            params = model._unique_trainable_weights
            if params:
                updates += model.optimizer.get_updates(loss=loss, params=params)
            updates += unique([*model.get_updates_for(None), *model.get_updates_for(model.inputs)])
        else:
            updates += model.state_updates
        return results, updates

    def __call__(self, flat: list) -> list:
        """Runs the step; returns arrays."""
        values = [_fed(v) for v in flat]
        if self._phase:
            values.append(self._mode == "train")
        session = backend.get_session(self.feeds)
        known = self._callables.get(id(session))
        if known is None or known[0] is not session:
            known = self._callables[id(session)] = session, session.make_callable([*self.fetches, self.updates], self.feeds)
        return known[1](*values)[:-1]


def _fed(v: Any) -> Any:
    if hasattr(v, "_value"):
        return v.numpy()
    if hasattr(v, "tocoo"):
        coo = v.tocoo()
        return tf.SparseTensorValue(np.stack([coo.row, coo.col], 1).astype(np.int64), coo.data, coo.shape)
    return v


def _grouped(updates: Any) -> Any:
    return tf.group(*unique([u for u in nest.flatten(updates) if u is not None]))
