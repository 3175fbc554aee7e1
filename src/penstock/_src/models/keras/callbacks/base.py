"""Callback, and the list of callbacks that training loops call."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base import html, progress
from penstock._src.base.api import export

_BATCH_HOOKS = {"train": ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end"),
                "test": ("on_test_batch_begin", "on_test_batch_end"),
                "predict": ("on_predict_batch_begin", "on_predict_batch_end")}


@export("keras.callbacks.Callback")
class Callback:
    """Base of the callbacks: override the events that you need. `model` and `params` are set before training.

    >>> class Stop(tf.keras.callbacks.Callback):
    ...     def on_epoch_end(self, epoch, logs=None):
    ...         self.model.stop_training = epoch == 1
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    >>> model.compile("sgd", "mse")
    >>> history = model.fit(tf.ones([4, 2]), tf.zeros([4, 1]), epochs=10, callbacks=[Stop()], verbose=0)
    >>> history.epoch
    [0, 1]
    """

    def __init__(self) -> None:
        self.validation_data: Any = None
        self.model: Any = None
        self.params: dict[str, Any] = {}

    def set_params(self, params: dict[str, Any]) -> None:
        """Sets the parameters of the run: epochs, steps, verbose …"""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Sets the model."""
        self.model = model

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a batch of training; `on_train_batch_begin` calls it."""

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a batch of training; `on_train_batch_end` calls it."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Before an epoch of training."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch of training, with the metrics of training and validation."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a batch of training."""
        self.on_batch_begin(batch, logs=logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a batch of training, with the metrics so far."""
        self.on_batch_end(batch, logs=logs)

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a batch of evaluation, also of validation."""

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a batch of evaluation."""

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a batch of prediction."""

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a batch of prediction."""

    def on_train_begin(self, logs: Any = None) -> None:
        """Before training."""

    def on_train_end(self, logs: Any = None) -> None:
        """After training."""

    def on_test_begin(self, logs: Any = None) -> None:
        """Before evaluation or validation."""

    def on_test_end(self, logs: Any = None) -> None:
        """After evaluation or validation."""

    def on_predict_begin(self, logs: Any = None) -> None:
        """Before prediction."""

    def on_predict_end(self, logs: Any = None) -> None:
        """After prediction."""


def has_batch_hooks(callback: Any, mode: str) -> bool:
    """Whether a callback has hooks for batches."""
    if not isinstance(callback, Callback):
        return True
    return any(getattr(type(callback), n) is not getattr(Callback, n) or n in callback.__dict__ for n in _BATCH_HOOKS[mode])


@export("keras.callbacks.CallbackList")
class CallbackList:
    """Callbacks that are called in sequence. Loops check `_should_call_…_batch_hooks` before they call the hooks of batches."""

    def __init__(self, callbacks: Any = None, queue_length: int = 10, add_history: bool = False, add_progbar: bool = False,
                 model: Any = None, **params: Any):
        from penstock._src.models.keras.callbacks.progress import ProgbarLogger
        self.callbacks = list(callbacks) if isinstance(callbacks, (list, tuple)) else [] if callbacks is None else [callbacks]
        self.queue_length = queue_length
        self.model: Any = None
        self.params: dict[str, Any] = {}
        self._history: Any = next((c for c in self.callbacks if isinstance(c, History)), None)
        if add_progbar and not any(isinstance(c, ProgbarLogger) for c in self.callbacks):
            self.callbacks.append(ProgbarLogger(count_mode="steps"))
        if add_history and self._history is None:
            self._history = History()
            self.callbacks.append(self._history)
        if model is not None:
            self.set_model(model)
        if params:
            self.set_params(params)

    def append(self, callback: Any) -> None:
        """Adds a callback."""
        self.callbacks.append(callback)

    def set_params(self, params: dict[str, Any]) -> None:
        """Passes the parameters of the run to all of them."""
        self.params = params
        for c in self.callbacks:
            c.set_params(params)

    def set_model(self, model: Any) -> None:
        """Passes the model to all of them."""
        self.model = model
        if self._history is not None:
            model.history = self._history
        for c in self.callbacks:
            c.set_model(model)

    def __iter__(self) -> Any:
        return iter(self.callbacks)

    def _wanted(self, mode: str) -> bool:
        return any(has_batch_hooks(c, mode) for c in self.callbacks)

    _should_call_train_batch_hooks = property(lambda self: self._wanted("train"))
    _should_call_test_batch_hooks = property(lambda self: self._wanted("test"))
    _should_call_predict_batch_hooks = property(lambda self: self._wanted("predict"))

    def _tell(self, hook: str, *args: Any) -> None:
        for c in self.callbacks:
            getattr(c, hook)(*args)

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a batch of training."""
        self._tell("on_train_batch_begin", batch, {} if logs is None else logs)

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a batch of training."""
        self._tell("on_train_batch_end", batch, {} if logs is None else logs)

    on_train_batch_begin, on_train_batch_end = on_batch_begin, on_batch_end

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a batch of evaluation."""
        self._tell("on_test_batch_begin", batch, {} if logs is None else logs)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a batch of evaluation."""
        self._tell("on_test_batch_end", batch, {} if logs is None else logs)

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a batch of prediction."""
        self._tell("on_predict_batch_begin", batch, {} if logs is None else logs)

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a batch of prediction."""
        self._tell("on_predict_batch_end", batch, {} if logs is None else logs)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Before an epoch."""
        self._tell("on_epoch_begin", epoch, {} if logs is None else logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch."""
        self._tell("on_epoch_end", epoch, {} if logs is None else logs)

    def on_train_begin(self, logs: Any = None) -> None:
        """Before training."""
        self._tell("on_train_begin", {} if logs is None else logs)

    def on_train_end(self, logs: Any = None) -> None:
        """After training."""
        self._tell("on_train_end", {} if logs is None else logs)

    def on_test_begin(self, logs: Any = None) -> None:
        """Before evaluation."""
        self._tell("on_test_begin", {} if logs is None else logs)

    def on_test_end(self, logs: Any = None) -> None:
        """After evaluation."""
        self._tell("on_test_end", {} if logs is None else logs)

    def on_predict_begin(self, logs: Any = None) -> None:
        """Before prediction."""
        self._tell("on_predict_begin", {} if logs is None else logs)

    def on_predict_end(self, logs: Any = None) -> None:
        """After prediction."""
        self._tell("on_predict_end", {} if logs is None else logs)


@export("keras.callbacks.History")
class History(Callback):
    """Keeps the metrics of every epoch: what `fit` returns.

    >>> model.fit(x, y).history["loss"]
    """

    def __init__(self) -> None:
        super().__init__()
        self.history: dict[str, list] = {}

    def on_train_begin(self, logs: Any = None) -> None:
        """Begins a list of epochs."""
        self.epoch: list[int] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keeps the metrics of an epoch."""
        self.epoch.append(epoch)
        for k, v in (logs or {}).items():
            self.history.setdefault(k, []).append(v)
            if isinstance(v, (float, np.floating)):
                progress.process.scalar(k, epoch, float(v))
        self.model.history = self

    def _repr_html_(self) -> str:
        names = [k for k, v in self.history.items() if all(isinstance(x, (int, float, np.number)) for x in v)]
        rows = [[e + 1, *(f"{self.history[k][i]:.4g}" for k in names if i < len(self.history[k]))]
                for i, e in enumerate(self.epoch)]
        return "".join(html.curve(k, self.history[k]) for k in names) + html.table("Epochs", ["epoch", *names], rows)


@export("keras.callbacks.BaseLogger")
class BaseLogger(Callback):
    """Averages metrics of batches over an epoch, for loops that do not; those in `stateful_metrics` stay as they are."""

    def __init__(self, stateful_metrics: Any = None):
        super().__init__()
        self.stateful_metrics = set(stateful_metrics or [])

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begins to add up."""
        self.seen = 0
        self.totals: dict[str, float] = {}

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Adds the metrics of a batch, by its size."""
        logs = logs or {}
        size = logs.get("size", 0)
        self.seen += size * logs.get("num_steps", 1)
        for k, v in logs.items():
            self.totals[k] = v if k in self.stateful_metrics else self.totals.get(k, 0) + v * size

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Writes the averages to the logs."""
        for k in self.params.get("metrics", ()):
            if logs is not None and k in self.totals:
                logs[k] = self.totals[k] if k in self.stateful_metrics else self.totals[k] / self.seen


@export("keras.callbacks.TerminateOnNaN")
class TerminateOnNaN(Callback):
    """Ends training when the loss is not a number, or infinite.

    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    >>> model.compile("sgd", "mse")
    >>> stop = tf.keras.callbacks.TerminateOnNaN()
    >>> history = model.fit(tf.fill([4, 2], float("nan")), tf.zeros([4, 1]), epochs=5, callbacks=[stop], verbose=0)
    Batch 0: Invalid loss, terminating training
    >>> len(history.epoch)
    1
    """

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Inspects the loss."""
        loss = (logs or {}).get("loss")
        if loss is not None and not np.isfinite(loss):
            print(f"Batch {batch}: Invalid loss, terminating training")
            self.model.stop_training = True


@export("keras.callbacks.LambdaCallback")
class LambdaCallback(Callback):
    """A callback made of functions.

    Args:
        on_epoch_begin: Called with the number of the epoch and the logs.
        on_epoch_end: Called with the number of the epoch and the logs, which have the metrics.
        on_batch_begin: Called with the number of the batch and the logs.
        on_batch_end: Called with the number of the batch and the logs.
        on_train_begin: Called with the logs before the first epoch.
        on_train_end: Called with the logs after the last epoch.
        **kwargs: Functions for further methods of `Callback`, by name.

    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    >>> model.compile("sgd", "mse")
    >>> show = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: print("epoch", epoch, "ended:", list(logs)))
    >>> _ = model.fit(tf.ones([4, 2]), tf.ones([4, 1]), epochs=2, verbose=0, callbacks=[show])
    epoch 0 ended: ['loss']
    epoch 1 ended: ['loss']
    """

    def __init__(self, on_epoch_begin: Callable | None = None, on_epoch_end: Callable | None = None,
                 on_batch_begin: Callable | None = None, on_batch_end: Callable | None = None,
                 on_train_begin: Callable | None = None, on_train_end: Callable | None = None, **kwargs: Any):
        super().__init__()
        given = {"on_epoch_begin": on_epoch_begin, "on_epoch_end": on_epoch_end, "on_batch_begin": on_batch_begin,
                 "on_batch_end": on_batch_end, "on_train_begin": on_train_begin, "on_train_end": on_train_end, **kwargs}
        self.__dict__.update({name: function for name, function in given.items() if function is not None})
