"""Callbacks that inspect a metric after each epoch: early stopping, and learning rates that change."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.callbacks.base import Callback


def comparison(monitor: str, mode: str, name: str) -> tuple[Callable, float]:
    """How a value of a metric is better than another, and the worst value. `auto` goes by the metric's name."""
    if mode not in ("auto", "min", "max"):
        logging.warning("%s: unknown mode %s; using auto.", name, mode)
        mode = "auto"
    if mode == "auto":
        mode = "max" if "acc" in monitor or monitor.startswith("fmeasure") or monitor.endswith("auc") else "min"
    return (np.greater, -np.inf) if mode == "max" else (np.less, np.inf)


def rate_of(optimizer: Any) -> str:
    """The name of an optimizer's attribute for its learning rate; ValueError if it has none."""
    for name in ("lr", "learning_rate"):
        if hasattr(optimizer, name):
            return name
    raise ValueError("Optimizer must have a \"lr\" attribute.")


@export("keras.callbacks.EarlyStopping")
class EarlyStopping(Callback):
    """Ends training when a metric has not become better by `min_delta` for `patience` epochs.

    Args:
        monitor: Name of the metric to watch.
        min_delta: Smallest change that counts as an improvement.
        patience: How many epochs without an improvement to wait.
        verbose: 0 is silent; 1 prints a line at each action.
        mode: `"min"`, `"max"`, or `"auto"`, which depends on the metric's name.
        baseline: Value that the metric has to pass.
        restore_best_weights: Whether the model gets the weights of its best epoch back.
        start_from_epoch: Number of epochs before watching begins.

    >>> stop = tf.keras.callbacks.EarlyStopping("loss", patience=3, restore_best_weights=True)
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    >>> model.compile(tf.keras.optimizers.SGD(0.0), "mse")
    >>> history = model.fit(tf.ones([4, 2]), tf.zeros([4, 1]), epochs=10, callbacks=[stop], verbose=0)
    >>> len(history.epoch)
    4
    """

    def __init__(self, monitor: str = "val_loss", min_delta: float = 0, patience: int = 0, verbose: int = 0, mode: str = "auto",
                 baseline: float | None = None, restore_best_weights: bool = False, start_from_epoch: int = 0):
        super().__init__()
        self.monitor, self.patience, self.verbose, self.baseline = monitor, patience, verbose, baseline
        self.restore_best_weights, self.start_from_epoch = restore_best_weights, start_from_epoch
        self.wait = self.stopped_epoch = self.best_epoch = 0
        self.best_weights: Any = None
        self.monitor_op, self._worst = comparison(monitor, mode, "EarlyStopping")
        self.min_delta = abs(min_delta) * (1 if self.monitor_op is np.greater else -1)

    def on_train_begin(self, logs: Any = None) -> None:
        """Resets the state."""
        self.wait = self.stopped_epoch = self.best_epoch = 0
        self.best = self._worst if self.baseline is None else self.baseline
        self.best_weights = None

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Inspects the metric."""
        current = self.get_monitor_value(logs)
        if current is None or epoch < self.start_from_epoch:
            return
        if self.restore_best_weights and self.best_weights is None:
            self.best_weights, self.best_epoch = self.model.get_weights(), epoch
        self.wait += 1
        if self.monitor_op(current - self.min_delta, self.best):
            self.best, self.wait = current, 0
            if self.restore_best_weights:
                self.best_weights, self.best_epoch = self.model.get_weights(), epoch
        elif self.wait >= self.patience and (epoch > 0 or self.baseline is not None or self.patience == 0):
            self.stopped_epoch = epoch
            self.model.stop_training = True
            if self.best_weights is not None:
                self.model.set_weights(self.best_weights)

    def on_train_end(self, logs: Any = None) -> None:
        """Logs where it stopped, and restores the best weights."""
        if self.stopped_epoch > 0 and self.verbose > 0:
            print(f"Epoch {self.stopped_epoch + 1}: early stopping")
        if self.restore_best_weights and self.best_weights is not None:
            if self.verbose > 0:
                print(f"Restoring model weights from the end of the best epoch: {self.best_epoch + 1}.")
            self.model.set_weights(self.best_weights)

    def get_monitor_value(self, logs: Any) -> Any:
        """The value of the metric, or None with a warning."""
        value = (logs or {}).get(self.monitor)
        if value is None:
            logging.warning("Early stopping conditioned on metric `%s` which is not available. Available metrics are: %s",
                            self.monitor, ",".join((logs or {}).keys()))
        return value


@export("keras.callbacks.ReduceLROnPlateau")
class ReduceLROnPlateau(Callback):
    """Multiplies the learning rate by `factor` when a metric has not become better for `patience` epochs.

    Args:
        monitor: Name of the metric to watch.
        factor: Factor of the learning rate.
        patience: How many epochs without an improvement to wait.
        verbose: 0 is silent; 1 prints a line at each action.
        mode: `"min"`, `"max"`, or `"auto"`, which depends on the metric's name.
        min_delta: Smallest change that counts as an improvement.
        cooldown: Number of epochs after a reduction in which nothing is counted.
        min_lr: Lowest learning rate.
        **kwargs: Accepted for compatibility: `epsilon` is an old name of `min_delta`.

    >>> slower = tf.keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=2)
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,), kernel_initializer="zeros")])
    >>> model.compile(tf.keras.optimizers.SGD(0.1), "mse")
    >>> history = model.fit(tf.ones([4, 2]), tf.zeros([4, 1]), epochs=4, callbacks=[slower], verbose=0)
    >>> float(model.optimizer.learning_rate)
    0.05000000074505806
    """

    def __init__(self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10, verbose: int = 0, mode: str = "auto",
                 min_delta: float = 1e-4, cooldown: int = 0, min_lr: float = 0, **kwargs: Any):
        super().__init__()
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau does not support a factor >= 1.0. Got {factor}")
        if "epsilon" in kwargs:
            min_delta = kwargs.pop("epsilon")
            logging.warning("`epsilon` argument is deprecated and will be removed, use `min_delta` instead.")
        self.monitor, self.factor, self.patience, self.verbose, self.mode = monitor, factor, patience, verbose, mode
        self.min_delta, self.cooldown, self.min_lr = min_delta, cooldown, min_lr
        self._reset()

    def _reset(self) -> None:
        self._better, self.best = comparison(self.monitor, self.mode, "Learning Rate Plateau Reducing")
        self.wait = self.cooldown_counter = 0

    def monitor_op(self, a: float, b: float) -> bool:
        """Whether `a` is better than `b` by min_delta."""
        return bool(self._better(a, b + self.min_delta if self._better is np.greater else b - self.min_delta))

    def on_train_begin(self, logs: Any = None) -> None:
        """Resets the state."""
        self._reset()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Inspects the metric."""
        logs = {} if logs is None else logs
        name = rate_of(self.model.optimizer)
        logs["lr"] = K.get_value(getattr(self.model.optimizer, name))
        current = logs.get(self.monitor)
        if current is None:
            logging.warning("Reduce LR on plateau conditioned on metric `%s` which is not available. Available metrics are: %s",
                            self.monitor, ",".join(logs.keys()))
            return
        if self.in_cooldown():
            self.cooldown_counter -= 1
            self.wait = 0
        if self.monitor_op(current, self.best):
            self.best, self.wait = current, 0
        elif not self.in_cooldown():
            self.wait += 1
            if self.wait >= self.patience:
                self._reduce(epoch, name)

    def _reduce(self, epoch: int, name: str) -> None:
        old = K.get_value(getattr(self.model.optimizer, name))
        if old <= np.float32(self.min_lr):
            return
        new = max(old * self.factor, self.min_lr)
        K.set_value(getattr(self.model.optimizer, name), new)
        if self.verbose > 0:
            print(f"\nEpoch {epoch + 1}: ReduceLROnPlateau reducing learning rate to {new}.")
        self.cooldown_counter, self.wait = self.cooldown, 0

    def in_cooldown(self) -> bool:
        """Whether the rate was reduced a moment ago."""
        return self.cooldown_counter > 0


@export("keras.callbacks.LearningRateScheduler")
class LearningRateScheduler(Callback):
    """Sets the learning rate before each epoch, to what a function of epoch and rate returns.

    Args:
        schedule: A function of the epoch (and the rate so far) that returns a rate.
        verbose: 1 to print each rate.

    Raises:
        ValueError: if the function returns no float.

    >>> slower = tf.keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9)
    """

    def __init__(self, schedule: Callable, verbose: int = 0):
        super().__init__()
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Sets the rate."""
        name = rate_of(self.model.optimizer)
        try:
            rate = self.schedule(epoch, float(K.get_value(getattr(self.model.optimizer, name))))
        except TypeError:                      # a function of the epoch alone
            rate = self.schedule(epoch)
        if hasattr(rate, "dtype") and not isinstance(rate, np.generic):
            if not rate.dtype.is_floating:
                raise ValueError("The dtype of Tensor should be float")
        elif not isinstance(rate, (float, np.float32, np.float64)):
            raise ValueError(f'The output of the "schedule" function should be float. Got: {rate}')
        K.set_value(getattr(self.model.optimizer, name), K.get_value(rate) if hasattr(rate, "shape") else rate)
        if self.verbose > 0:
            print(f"\nEpoch {epoch + 1}: LearningRateScheduler setting learning rate to {rate}.")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Adds the rate to the metrics of the epoch."""
        if logs is not None:
            logs["lr"] = K.get_value(getattr(self.model.optimizer, rate_of(self.model.optimizer)))
