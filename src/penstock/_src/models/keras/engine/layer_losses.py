"""The contributions of a layer to training besides its output: losses, updates of its state, metrics."""
from __future__ import annotations

import functools
import threading
from typing import Any

import penstock as tf
from penstock._src.base import errors, nest
from penstock._src.base.api import LazyModule
from penstock._src.graph import context
from penstock._src.graph.convert import convert, is_tensor
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.models.keras.engine.call_context import current, in_branch, in_eager_or_function, in_function, is_symbolic
from penstock._src.models.keras.engine.reach import reachable_from

backend = LazyModule("penstock._src.models.keras.backend")


class PerThread(threading.local):
    """What a layer keeps per thread: the losses of the call that runs now. Copies of a layer begin without them."""

    def __init__(self) -> None:
        self.losses: list = []

    def __deepcopy__(self, memo: dict) -> PerThread:
        return PerThread()

    def __reduce__(self) -> Any:
        return PerThread, ()


class Losing:
    """The part of Layer that has losses, updates and metrics."""

    name: str
    trainable: bool
    stateful: bool
    _losses: list                  # symbolic tensors, in graphs
    _callable_losses: list         # functions that compute a loss, such as those of regularizers
    _updates: list
    _metrics: list
    _thread: PerThread

    # -- losses ------------------------------------------------------------------------------------------------------
    @property
    def losses(self) -> list:
        """The losses that the layer, and the inner layers, have added."""
        found = list(self._thread.losses or self._losses)
        for f in self._callable_losses:
            loss = f()
            if loss is not None:
                found.append(loss)
        return found + self._gather("losses")                 # type: ignore[attr-defined]

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Adds losses: tensors while the layer is called or a graph is built, functions without arguments at any time.

        >>> self.add_loss(tf.reduce_mean(activations))
        """
        def tagged(loss: Any) -> Any:
            if callable(loss):
                loss = context.traced_as(loss)()
            if loss is None:
                return None
            if not is_tensor(loss):
                loss = convert(loss, dtype=backend.floatx())
            loss._unconditional_loss = inputs is None
            return loss

        for loss in nest.flatten(losses):
            if callable(loss):
                self._callable_losses.append(functools.partial(tagged, loss))
            elif loss is not None:
                loss = tagged(loss)
                if is_symbolic(loss) and not in_function():
                    self._add_symbolic_loss(loss)
                elif not current.in_call:
                    raise ValueError("Expected a symbolic Tensors or a callable for the loss value. Please wrap your loss "
                                     "computation in a zero argument `lambda`.")
                else:
                    self._thread.losses.append(loss)

    def _add_symbolic_loss(self, loss: Any) -> None:
        check_not_in_branch(loss, "add_loss")
        if not current.in_call and getattr(self, "_is_graph_network", False):
            self._graph_network_add_loss(loss)                # type: ignore[attr-defined]
        else:
            self._losses.append(loss)

    _eager_losses = property(lambda self: self._thread.losses)

    def _clear_losses(self) -> None:
        """Clears the losses of the last call, before another one."""
        for layer in self._flatten_layers():                  # type: ignore[attr-defined]
            if isinstance(layer, Losing):
                layer._thread.losses = []

    def get_losses_for(self, inputs: Any) -> list:
        """The losses that depend on the given inputs; None: those that depend on none."""
        if inputs is None:
            return [x for x in self.losses if x._unconditional_loss]
        losses = [x for x in self.losses if not x._unconditional_loss]
        reached = reachable_from(nest.flatten(inputs), losses)
        return [x for x in losses if id(x) in reached]

    def _handle_activity_regularization(self, inputs: Any, outputs: Any) -> None:
        regularizer = self._activity_regularizer              # type: ignore[attr-defined]
        if not regularizer:
            return
        with name_scope("ActivityRegularizer"):
            for output in nest.flatten(outputs):
                loss = tf.convert_to_tensor(regularizer(output))
                mean = loss / tf.cast(tf.shape(output)[0], loss.dtype)
                check_not_in_branch(mean, "activity_regularizer")
                self.add_loss(mean, inputs=inputs)

    # -- updates -----------------------------------------------------------------------------------------------------
    @property
    def updates(self) -> list:
        """The ops that update the state of this layer and those inside, where graphs are built."""
        if not self.trainable and not self.stateful:
            return []
        found = []
        with backend.get_graph().as_default():
            for u in self._updates:
                if callable(u):
                    try:
                        u = u()
                    except errors.InaccessibleTensorError:
                        check_not_in_branch(None, "add_update", force=True)
                check_not_in_branch(u, "add_update")
                found.append(u)
        return found + self._gather("updates")                # type: ignore[attr-defined]

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Adds ops, or functions that make them, that update the layer's state when it is called.

        In eager mode and in functions, functions are called at once, and ops have run already.
        """
        updates = updates if isinstance(updates, (list, tuple)) else [updates]
        if in_eager_or_function():
            if not current.frozen:
                for u in updates:
                    if callable(u):
                        u()
            return
        sources = current.inputs if current.in_call else [n.input_tensors for n in getattr(self, "_inbound_nodes", ())]

        def processed(u: Any) -> Any:
            if callable(u) and not isinstance(u, (Tensor, Operation)):
                return (lambda: processed(u())) if context.eager_outside_functions() else processed(u())
            u = u if isinstance(u, Operation) else u.op if hasattr(u, "op") else convert(u)
            if u is not None:
                u._unconditional_update = id(u) not in reachable_from(nest.flatten(sources), [u])
            return u

        made = [processed(u) for u in updates]
        if context.eager_outside_functions() and current.in_call:
            made = [u for u in made if callable(u)]       # others run as a part of the function
        self._updates.extend(u for u in made if u is not None)

    def get_updates_for(self, inputs: Any) -> list:
        """The updates that depend on the given inputs; None: those that depend on none."""
        if inputs is None:
            return [u for u in self.updates if u._unconditional_update]
        updates = [u for u in self.updates if not u._unconditional_update]
        reached = reachable_from(nest.flatten(inputs), updates)
        return [u for u in updates if id(u) in reached]

    # -- metrics -----------------------------------------------------------------------------------------------------
    @property
    def metrics(self) -> list:
        """The metrics that the layer, and the inner layers, have added."""
        return self._metrics + self._gather("metrics")        # type: ignore[attr-defined]

    def add_metric(self, value: Any, aggregation: str | None = None, name: str | None = None) -> None:
        """Adds a metric: a tensor whose mean is tracked, or the result of a Metric.

        >>> self.add_metric(tf.reduce_sum(x), name="activation", aggregation="mean")
        """
        if aggregation is not None and aggregation != "mean":
            raise ValueError(f"aggregation supports only `mean` sample-wise metric aggregation, or None; got {aggregation!r}")
        metric = getattr(value, "_metric_obj", None)
        if name is None and metric is None:
            raise ValueError("Please provide a name for your metric like `self.add_metric(tf.reduce_sum(inputs), "
                             "name='mean_activation', aggregation='mean')`")
        if metric is not None:
            name = metric.name
        elif aggregation is None and context.eager_outside_functions():
            aggregation = "mean"
        symbolic = is_symbolic(value)
        if current.in_call:
            if symbolic and not in_function():
                self._symbolic_metric(value, aggregation, name)
            else:
                self._eager_metric(value, aggregation, name, metric)
            return
        if not symbolic:
            raise ValueError(f"Expected a symbolic Tensor for the metric value, received: {value}")
        if not getattr(self, "_is_graph_network", False):
            with backend.get_graph().as_default():
                self._symbolic_metric(value, aggregation, name)
            return
        if metric is not None:
            raise ValueError("Using the result of calling a `Metric` object when calling `add_metric` on a Functional Model is "
                             "not supported. Please pass the Tensor to monitor directly.")
        self._graph_network_add_metric(value, aggregation, name)      # type: ignore[attr-defined]

    def _metric_named(self, name: Any) -> Any:
        found = [m for m in self._metrics if m.name == name]
        if len(found) > 1:
            raise ValueError("Please provide different names for the metrics you have added. We found "
                             f"{len(found)} metrics with the name: \"{name}\"")
        return found[0] if found else None

    def _eager_metric(self, value: Any, aggregation: Any, name: Any, metric: Any) -> None:
        known = self._metric_named(name)
        if known is None:
            if metric is None:
                if aggregation is None:
                    raise ValueError(_NOT_A_METRIC)
                known = _mean_metric(name)
            self._metrics.append(known or metric)
        if known is not None and metric is None:
            known(value)                        # listed before: other replicas continue while it is updated

    def _symbolic_metric(self, value: Any, aggregation: Any, name: Any) -> None:
        check_not_in_branch(value, "add_metric")
        known = self._metric_named(name)
        metric = getattr(value, "_metric_obj", None)
        if aggregation is None:
            if known is None and metric is None:
                raise ValueError(_NOT_A_METRIC)
            if known is None:
                self._metrics.append(metric)
        else:
            if known is None:
                known = _mean_metric(name)
                self._metrics.append(known)
            known(value)


_NOT_A_METRIC = (
    "We do not support adding an aggregated metric result tensor that is not the output of a `tf.keras.metrics.Metric` metric "
    "instance. Without having access to the metric instance we cannot reset the state of a metric after every epoch during "
    "training. You can create a `tf.keras.metrics.Metric` instance and pass the result here or pass an un-aggregated result "
    "with `aggregation` parameter set as `mean`. For example: `self.add_metric(tf.reduce_sum(inputs), "
    "name='mean_activation', aggregation='mean')`")


def _mean_metric(name: Any) -> Any:
    from penstock._src.models.keras.metrics import Mean
    return Mean(name=name)


def check_not_in_branch(tensor: Any, method: str, force: bool = False) -> None:
    """Raises RuntimeError if a layer adds a tensor in a branch of a conditional, which cannot be used outside of it."""
    if not force and not in_branch(tensor):
        return
    if method == "activity_regularizer":
        raise RuntimeError("You are using a layer with `activity_regularizer` in a control flow branch. This is currently not "
                           "supported. Please move your call to the layer with `activity_regularizer` out of the control flow "
                           "branch. You can also resolve this by marking your outer model/layer dynamic (eager-only) by "
                           "passing `dynamic=True` to the layer constructor, with a `compute_output_shape(input_shape)` "
                           "method.")
    raise RuntimeError(f"You are using the method `{method}` in a control flow branch in your layer. This is not currently "
                       f"supported. Please move your call to {method} out of the control flow branch: compute the value in the "
                       "branches, and add it after them. You can also resolve this by marking your layer as dynamic "
                       "(eager-only) by passing `dynamic=True` to the layer constructor, with a "
                       "`compute_output_shape(input_shape)` method.")
