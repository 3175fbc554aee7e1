"""The arguments of `compile`, resolved when the outputs of a model are known: losses, weights, metrics per output."""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import penstock as tf
from penstock._src.base import nest
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import LazyModule
from penstock._src.graph import context
from penstock._src.graph.scopes import name_scope
from penstock._src.models.keras.backend.state import separate_names
from penstock._src.models.keras.engine.replicas import current_replica, share_of_rows
from penstock._src.models.keras.engine.standardize import check_keys

losses = LazyModule("penstock._src.models.keras.losses")
metrics = LazyModule("penstock._src.models.keras.metrics")
_SHORT = {"accuracy": "accuracy", "acc": "accuracy", "crossentropy": "crossentropy", "ce": "crossentropy"}


def loss_function(loss: Any) -> Any:
    """A loss from its name, config or function."""
    if loss is None or isinstance(loss, losses.Loss):
        return loss
    if isinstance(loss, Mapping):
        loss = losses.get(loss)
    if callable(loss) and not hasattr(loss, "__name__"):
        return loss
    found = losses.get(loss)
    return losses.LossFunctionWrapper(found, name=found.__name__, reduction="sum_over_batch_size")


def loss_functions(loss: Any, names: list[str]) -> list:
    """A loss for each output."""
    if isinstance(loss, Mapping):
        check_keys("loss", loss, names)
        for name in names:
            if name not in loss:
                logging.warning("The loss dictionary has no entry for output %s: it is not trained, and fit and evaluate "
                                "expect no targets for %s.", name, name)
        return [loss_function(loss.get(name)) for name in names]
    if isinstance(loss, Sequence) and not isinstance(loss, str):
        if len(loss) > len(names) and context.eager_outside_functions():
            logging.warning("The model has %s outputs, but %s losses were passed: the last ones are not used.", len(names),
                            len(loss))
            loss = loss[:len(names)]
        if len(loss) != len(names):
            raise ValueError("When passing a list as loss, it should have one entry per model outputs. The model has "
                             f"{len(names)} outputs, but you passed loss={loss}")
        return [loss_function(one) for one in loss]
    return [loss_function(loss) for _ in names]


def loss_weights(weights: Any, names: list[str]) -> list:
    """The weight of the loss of each output."""
    if weights is None:
        return [None] * len(names)
    if isinstance(weights, Mapping):
        check_keys("loss_weights", weights, names)
        return [weights.get(name, 1.0) for name in names]
    if isinstance(weights, (list, tuple)):
        if len(weights) != len(names):
            raise ValueError("When passing a list as loss_weights, it should have one entry per model output. The model has "
                             f"{len(names)} outputs, but you passed loss_weights={weights}")
        return list(weights)
    if isinstance(weights, (int, float)) and len(names) == 1:
        return [weights]
    raise TypeError(f"Could not interpret loss_weights argument: {weights} - expected a list of dicts.")


# -- metrics ---------------------------------------------------------------------------------------------------------
def _is_loss(loss: Any, kind: str, function: str) -> bool:
    return isinstance(loss, getattr(tf.keras.losses, kind)) or isinstance(loss, losses.LossFunctionWrapper) and \
        getattr(loss, "fn", None) is getattr(tf.keras.losses, function)


def metric_function(metric: Any, output_shape: Any, loss: Any, target_shape: Any = None) -> Any:
    """A metric from its name; "accuracy" is the one that fits the targets and the output, in the v1 API also the loss."""
    kind = _SHORT.get(metric) if isinstance(metric, str) else None
    if kind is None:
        return metrics.get(metric)
    if context.process.eager:
        return functools.partial(_by_shapes, kind)
    last = output_shape[-1] if output_shape else None
    if last == 1 or _is_loss(loss, "BinaryCrossentropy", "binary_crossentropy"):
        prefix = "binary"
    elif _is_loss(loss, "SparseCategoricalCrossentropy", "sparse_categorical_crossentropy") or (
            loss is not None and not isinstance(loss, losses.Loss) and target_shape and output_shape
            and (len(target_shape) < len(output_shape) or target_shape[-1] == 1)):
        prefix = "sparse_categorical"
    else:
        prefix = "categorical"
    return metrics.get(f"{prefix}_{kind}")


def _by_shapes(kind: str, y_true: Any, y_pred: Any) -> Any:
    """The accuracy or cross entropy that fits. The shapes of targets are known with the first batch, not when compiling."""
    given, found = _static(y_true), _static(y_pred)
    prefix = "categorical"
    if found and found[-1] == 1:
        prefix = "binary"
    elif given is not None and found is not None and (len(given) < len(found) or given[-1:] == [1]):
        prefix = "sparse_categorical"
    return metrics.get(f"{prefix}_{kind}")(y_true, y_pred)


def metric_name(metric: Any, found: Any, weighted: bool) -> str:
    """The name under which the metric that was `found` for what was given is reported: in the v1 API "acc" for accuracy, and
    "weighted_" before weighted ones."""
    v1 = not context.process.eager
    if v1 and isinstance(metric, str) and metric in _SHORT:
        name = "acc" if _SHORT[metric] == "accuracy" else "ce"
    elif not v1 and isinstance(metric, str) and not isinstance(found, metrics.Metric):
        name = metric
    else:
        name = str(getattr(found, "name", None) or getattr(found, "__name__", type(found).__name__))
    return "weighted_" + name if weighted and v1 else name


def metrics_by_output(given: Any, names: list[str]) -> list[list]:
    """The metrics that were requested, for each output."""
    if not given:
        return [[] for _ in names]
    if isinstance(given, Mapping):
        check_keys("metrics", given, names)
        return [_listed(given.get(name, [])) for name in names]
    if (isinstance(given, str) or callable(given)) and context.process.eager:
        given = [given]
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"Type of `metrics` argument not understood. Expected a list or dictionary, found: {given}")
    if any(isinstance(m, (list, tuple)) for m in given):
        if len(given) != len(names):
            raise ValueError("When passing a list of lists as `metrics`, it should have one entry per model output. The model "
                             f"has {len(names)} outputs, but you passed metrics={given}")
        return [_listed(m) for m in given]
    if len(names) > 1:
        return [[metrics.clone_metric(m) for m in given] for _ in names]
    return [list(given)]


def _listed(x: Any) -> list:
    return list(x) if isinstance(x, (list, tuple)) else [x] if x is not None else []


def _static(x: Any) -> list | None:
    shape = getattr(x, "shape", None)
    if shape is None or getattr(shape, "rank", 0) is None:
        return None
    return list(shape.as_list() if hasattr(shape, "as_list") else shape)


def _of_one_type(target: Any, y_pred: Any) -> Any:
    """A target in the type of the prediction, if both are floating numbers."""
    types = [getattr(t, "dtype", None) for t in (target, y_pred)]
    if types[0] == types[1] or not all(getattr(t, "is_floating", False) for t in types):
        return target
    return tf.cast(target, types[1])


def _combined(weights: Any, mask: Any, like: Any) -> Any:
    """Sample weights times the mask of an output."""
    return weights if mask is None else losses.reduction.masked_weights(weights, mask, like.dtype)


class Compiled:
    """Losses and metrics of a compiled model, for known outputs.

    Calling `loss(...)` returns the sum to minimize and follows it; `update(...)` the metrics. Where graphs are built both make
    ops; results come out of `results()` then, each after its update.
    """

    def __init__(self, loss: Any = None, weights: Any = None, asked: Any = None, asked_weighted: Any = None):
        self._given = loss, weights, asked, asked_weighted
        self.names: list[str] | None = None
        self.keys: list[str] = []
        self.losses: list = []
        self.weights: list = []
        self.unweighted: list[list] = []
        self.weighted: list[list] = []
        self.tracker: Any = None
        self.output_trackers: list = []
        self._results: dict[int, Any] = {}
        self.loss_used = self.metrics_used = False

    built = property(lambda self: self.names is not None)

    def build(self, names: list[str], outputs: list, targets: Any = None, keys: list[str] | None = None) -> None:
        """Creates losses and metrics for these outputs, which are reported under `names`. Dictionaries of losses, metrics and
        targets have them under `keys`, if these differ."""
        loss, weights, asked, asked_weighted = self._given
        self.keys = keys = names if keys is None else keys
        self.losses = loss_functions(loss, keys)
        for made in self.losses:
            if isinstance(made, losses.Loss):
                made._allow_sum_over_batch_size = True       # replicas' means are weighted by their rows here
        self.weights = loss_weights(weights, keys)
        self.tracker = metrics.Mean(name="loss")
        self.output_trackers = [metrics.Mean(name=f"{n}_loss") if len(names) > 1 and f is not None else None
                                for n, f in zip(names, self.losses)]
        taken = {"loss", *(t.name for t in self.output_trackers if t is not None)}
        targets = list(targets) if targets is not None else [None] * len(names)
        targets += [None] * (len(names) - len(targets))
        plain, weighted = metrics_by_output(asked, keys), metrics_by_output(asked_weighted, keys)
        self.unweighted, self.weighted = [], []
        with separate_names() if context.process.eager else contextlib.nullcontext():
            for i, name in enumerate(names):
                if self.losses[i] is None and loss:
                    self.unweighted.append([])
                    self.weighted.append([])
                    continue
                for found, given, flag in ((self.unweighted, plain, False), (self.weighted, weighted, True)):
                    found.append([self._metric(m, i, name if len(names) > 1 else None, outputs[i], targets[i], flag, taken)
                                  for m in given[i]])
        self.names = names

    def _metric(self, given: Any, i: int, prefix: str | None, output: Any, target: Any, weighted: bool, taken: set) -> Any:
        found = metric_function(given, _static(output), self.losses[i], _static(target))
        name = metric_name(given, found, weighted)
        if not isinstance(found, metrics.Metric):
            found = metrics.MeanMetricWrapper(found, name=name)
        base = f"{prefix}_{name}" if prefix else name
        if weighted and base in taken:
            base = f"{prefix}_weighted_{name}" if prefix else f"weighted_{name}"
        name, n = base, 1
        while name in taken:
            name, n = f"{base}_{n}", n + 1
        taken.add(name)
        found._name = name
        return found

    @property
    def loss_metrics(self) -> list:
        """The metrics that follow the losses."""
        return [] if self.tracker is None else [self.tracker, *(t for t in self.output_trackers if t is not None)]

    @property
    def metrics(self) -> list:
        """The metrics that were requested."""
        return [m for a, b in zip(self.unweighted, self.weighted) for m in (*a, *b)]

    def loss(self, y: list, y_pred: list, sample_weights: list, extra: Any = (), follow: bool = True) -> Any:
        """The sum of the losses of all outputs and of those that layers added."""
        self.loss_used = True
        total = shown = None                                 # what is minimized, and what is reported
        size = None
        replica = current_replica()
        self.output_losses: list = []
        with name_scope("loss"):
            for i, f in enumerate(self.losses):
                if f is None or i >= len(y) or y[i] is None:
                    self.output_losses.append(None)
                    continue
                with name_scope(f"{self.names[i]}_loss" if self.names else "loss"):
                    weights = sample_weights[i]
                    if not (context.eager_outside_functions() and isinstance(f, losses.Loss)):   # which applies masks itself
                        weights = _combined(weights, getattr(y_pred[i], "_keras_mask", None), y_pred[i])
                    target = _of_one_type(y[i], y_pred[i])
                    value = f(target, y_pred[i], sample_weight=weights) if weights is not None or isinstance(f, losses.Loss) \
                        else f(target, y_pred[i])
                if value.shape.rank not in (0, None):
                    value = tf.reduce_mean(value)
                value, seen = (value, value) if replica is None else _of_replica(f, value, replica)
                self.output_losses.append(seen)
                size = _batch_size(y_pred[i]) if size is None else size
                if follow and self.output_trackers[i] is not None:
                    self._follow(self.output_trackers[i], seen, size)
                weight = self.weights[i]
                value = value if weight is None else value * tf.cast(weight, value.dtype)
                total = value if total is None else total + value
                if replica is not None:
                    seen = seen if weight is None else seen * tf.cast(weight, seen.dtype)
                    shown = seen if shown is None else shown + seen
            extra = list(extra)
            if extra:
                added = tf.add_n([tf.cast(x, total.dtype if total is not None else x.dtype) for x in extra])
                if replica is not None:
                    shown = added if shown is None else shown + added
                    added = added / replica.num_replicas_in_sync
                total = added if total is None else total + added
        if total is None:
            if any(f is not None for f in self.losses):
                raise ValueError("The targets are missing: the model was compiled with a loss, which compares outputs with "
                                 "targets. Pass `y`, or a dataset of pairs of inputs and targets.")
            raise ValueError("The model cannot be compiled because it has no loss to optimize.")
        if size is None and y_pred:
            size = _batch_size(y_pred[0])
        if follow:
            self._follow(self.tracker, total if shown is None else shown, size)
        return total

    def _follow(self, tracker: Any, value: Any, size: Any) -> None:
        """Adds the loss of a batch to a running mean, each example once."""
        value = tf.stop_gradient(tf.cast(value, tracker.dtype))
        weight = tf.cast(1 if size is None else size, tracker.dtype)
        if value.shape.rank not in (0, None):                # of a layer that adds a loss per example
            weight = weight * tf.cast(tf.size(value), tracker.dtype)
            value = tf.reduce_mean(value)
        if context.executing_eagerly() or context.current_graph().building_function:
            tracker.total.assign_add(value * weight)
            tracker.count.assign_add(weight)
        else:
            self._results[id(tracker)] = tracker(value, sample_weight=weight)

    def update(self, y: list, y_pred: list, sample_weights: list, unweighted: bool = True) -> None:
        """Updates the metrics."""
        self.metrics_used = True
        for i in range(len(self.unweighted)):
            if i >= len(y) or y[i] is None:
                continue
            mask = getattr(y_pred[i], "_keras_mask", None)
            for m in self.unweighted[i] if unweighted else ():
                self._call(m, y[i], y_pred[i], _combined(None, mask, y_pred[i]))
            for m in self.weighted[i]:
                self._call(m, y[i], y_pred[i], _combined(sample_weights[i], mask, y_pred[i]))

    def _call(self, metric: Any, y: Any, y_pred: Any, weights: Any) -> None:
        if context.executing_eagerly() or context.current_graph().building_function:
            metric.update_state(y, y_pred, sample_weight=weights) if weights is not None else metric.update_state(y, y_pred)
        else:
            with name_scope(metric.name):
                self._results[id(metric)] = metric(y, y_pred, sample_weight=weights)

    def graph_result(self, metric: Any) -> Any:
        """In graphs: the result of a metric after the update that was added last."""
        found = self._results.get(id(metric))
        return metric.result() if found is None else found

    def reset(self) -> None:
        """Resets losses and metrics of an epoch."""
        for m in (*self.loss_metrics, *self.metrics):
            m.reset_states()


def _of_replica(function: Any, value: Any, replica: Any) -> tuple[Any, Any]:
    """The contribution of a replica's loss to that of the whole batch, and the reported value.

    A mean is weighted by the replica's share of the rows; sums are added.
    """
    if getattr(function, "reduction", None) == "sum":
        return value, value * replica.num_replicas_in_sync
    share = share_of_rows(replica)
    return value * (share if isinstance(share, float) else tf.cast(share, value.dtype)), value


def _batch_size(x: Any) -> Any:
    dims = x.shape
    if dims.rank == 0:
        return None
    static = dims.as_list()[0] if dims.rank is not None else None
    return static if static is not None else tf.shape(x)[0]


class LossContainer:
    """`model.compiled_loss`: for `train_step`s that users write.

    >>> loss = self.compiled_loss(y, y_pred, sample_weight, regularization_losses=self.losses)
    """

    def __init__(self, model: Any):
        self._model = model

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None, regularization_losses: Any = None) -> Any:
        model = self._model
        y, pred, weights = model._aligned(y_true, y_pred, sample_weight)
        return model._compiled.loss(y, pred, weights, regularization_losses or ())

    metrics = property(lambda self: self._model._compiled.loss_metrics, doc="The metrics that follow the losses.")

    def reset_state(self) -> None:
        """Resets the losses of an epoch."""
        for m in self.metrics:
            m.reset_states()


class MetricsContainer:
    """`model.compiled_metrics`: for `train_step`s that users write.

    >>> self.compiled_metrics.update_state(y, y_pred, sample_weight)
    """

    def __init__(self, model: Any):
        self._model = model

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Updates the metrics that compile was given."""
        model = self._model
        y, pred, weights = model._aligned(y_true, y_pred, sample_weight)
        model._compiled.update(y, pred, weights)

    metrics = property(lambda self: self._model._compiled.metrics, doc="The metrics that compile was given.")
    unweighted_metrics = property(lambda self: nest.flatten(self._model._compiled.unweighted), doc="Those without weights.")
    weighted_metrics = property(lambda self: nest.flatten(self._model._compiled.weighted), doc="Those with weights.")

    def reset_state(self) -> None:
        """Resets the metrics of an epoch."""
        for m in self.metrics:
            m.reset_states()
