"""Callbacks that save the model: ModelCheckpoint, and BackupAndRestore, which continues interrupted training."""
from __future__ import annotations

import os
import re
from typing import Any

from penstock._src.base import errors
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.io import file_api
from penstock._src.models.keras.callbacks.base import Callback
from penstock._src.models.keras.callbacks.monitoring import comparison
from penstock._src.state.checkpoint.checkpoint import Checkpoint, CheckpointManager
from penstock._src.state.checkpoint.state import latest_checkpoint
from penstock._src.state.variables.variable import Variable


@export("keras.callbacks.ModelCheckpoint")
class ModelCheckpoint(Callback):
    """Saves the model after every epoch, or every `save_freq` batches; names may have `{epoch}` and metrics in them.

    Args:
        filepath: Path, in which `{epoch}` and names of metrics are replaced.
        monitor: Metric by which models are compared.
        verbose: 1 to report each save.
        save_best_only: Whether to save only when the metric has become better.
        save_weights_only: Whether to save weights instead of the whole model.
        mode: `"min"`, `"max"` or `"auto"`: whether a smaller or a larger metric is better.
        save_freq: `"epoch"`, or a number of batches.
        **kwargs: `period`, the old form of `save_freq`.

    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    >>> model.compile("sgd", "mse")
    >>> keep = tf.keras.callbacks.ModelCheckpoint("model-{epoch:02d}.weights.h5", save_weights_only=True)
    >>> history = model.fit(tf.ones([4, 2]), tf.zeros([4, 1]), epochs=2, callbacks=[keep], verbose=0)
    >>> sorted(tf.io.gfile.glob("model-*"))
    ['model-01.weights.h5', 'model-02.weights.h5']
    """

    def __init__(self, filepath: Any, monitor: str = "val_loss", verbose: int = 0, save_best_only: bool = False,
                 save_weights_only: bool = False, mode: str = "auto", save_freq: Any = "epoch", **kwargs: Any):
        super().__init__()
        self.monitor, self.verbose, self.filepath = monitor, verbose, filepath and os.fspath(filepath)
        self.save_best_only, self.save_weights_only, self.save_freq = save_best_only, save_weights_only, save_freq
        self.load_weights_on_restart = kwargs.pop("load_weights_on_restart", False)
        self.period = kwargs.pop("period", 1)
        threshold = kwargs.pop("initial_value_threshold", None)
        self._options = kwargs.pop("options", None)
        if kwargs:
            raise TypeError(f"Invalid arguments: {list(kwargs)}")
        if save_freq != "epoch" and not isinstance(save_freq, int):
            raise ValueError(f"Unrecognized save_freq: {save_freq}. Expected are \"epoch\" or a number of batches.")
        self.monitor_op, self.best = comparison(monitor, mode, "ModelCheckpoint")
        self.best = self.best if threshold is None else threshold
        self.epochs_since_last_save = self._batches_since_last_save = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Loads the newest file that matches the name, if requested."""
        if self.load_weights_on_restart:
            found = self._get_most_recently_modified_file_matching_pattern(self.filepath)
            if found is not None and (os.path.exists(found) or os.path.exists(found + ".index")):
                try:
                    self.model.load_weights(found)
                except (OSError, ValueError) as e:
                    raise ValueError(f"Error loading file from {found}. Reason: {e}") from e

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Remembers the epoch."""
        self._current_epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Saves, if enough batches have passed."""
        if self._should_save_on_batch(batch):
            self._save_model(epoch=self._current_epoch, batch=batch, logs=logs)

    def _should_save_on_batch(self, batch: int) -> bool:
        """Counts a batch; whether enough have passed. Subclasses in other libraries call it, and those below."""
        if self.save_freq == "epoch":
            return False
        self._batches_since_last_save += 1
        if self._batches_since_last_save < self.save_freq:
            return False
        self._batches_since_last_save = 0
        return True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves, if enough epochs have passed."""
        self.epochs_since_last_save += 1
        if self.save_freq == "epoch" and self.epochs_since_last_save >= self.period:
            self.epochs_since_last_save = 0
            self._save_model(epoch=epoch, batch=None, logs=logs)

    def _save_model(self, epoch: int, batch: int | None = None, logs: Any = None) -> None:
        logs = logs or {}
        path = self._get_file_path(epoch, batch, logs)
        if self.save_best_only:
            current = logs.get(self.monitor)
            if current is None:
                logging.warning("save_best_only needs %s, which is not available; nothing is saved.", self.monitor)
                return
            if not self.monitor_op(current, self.best):
                if self.verbose > 0:
                    print(f"\nEpoch {epoch + 1}: {self.monitor} did not improve from {self.best:0.5f}")
                return
            if self.verbose > 0:
                print(f"\nEpoch {epoch + 1}: {self.monitor} improved from {self.best:0.5f} to {current:0.5f}, saving model "
                      f"to {path}")
            self.best = current
        elif self.verbose > 0:
            print(f"\nEpoch {epoch + 1}: saving model to {path}")
        try:
            (self.model.save_weights if self.save_weights_only else self.model.save)(path, overwrite=True)
        except IsADirectoryError as e:
            raise OSError("Please specify a non-directory filepath for ModelCheckpoint. Filepath used is an existing "
                          f"directory: {path}") from e

    def _get_file_path(self, epoch: int, batch: int | None = None, logs: Any = None) -> str:
        logs = logs or {}
        try:
            more = {} if batch is None else {"batch": batch + 1}
            return self.filepath.format(epoch=epoch + 1, **more, **logs)
        except KeyError as e:
            raise KeyError(f"The filepath of the callback cannot be formatted: \"{self.filepath}\". Reason: {e}") from e

    def _get_most_recently_modified_file_matching_pattern(self, pattern: str) -> str | None:
        """The newest file whose name fits a name with `{…}` in it; of several as new, the last by name."""
        folder, name = os.path.dirname(pattern), os.path.basename(pattern)
        wanted = re.compile("^" + re.sub(r"\\?{[^}]*\\?}", ".*", re.escape(name)) + "$")
        if not os.path.exists(folder):
            return None
        latest = latest_checkpoint(folder)
        if latest is not None and wanted.match(os.path.basename(latest)):
            return latest
        found = [os.path.join(folder, f) for f in os.listdir(folder) if wanted.match(f)]
        return max(found, key=lambda f: (os.path.getmtime(f), f), default=None)


@export("keras.callbacks.BackupAndRestore", "keras.callbacks.experimental.BackupAndRestore")
class BackupAndRestore(Callback):
    """Backs up model, optimizer and epoch, so that the same program, started again, continues after the last epoch.

    Args:
        backup_dir: The folder of the backup, which nothing else uses.
        save_freq: `"epoch"`, or a number of batches.
        delete_checkpoint: Whether to remove the backup when `fit` has ended well.

    Raises:
        ValueError: for an empty folder or a wrong `save_freq`.

    >>> backup = tf.keras.callbacks.BackupAndRestore("backup")
    """

    def __init__(self, backup_dir: Any, save_freq: Any = "epoch", delete_checkpoint: bool = True):
        super().__init__()
        if not backup_dir:
            raise ValueError("Empty `backup_dir` argument passed")
        if save_freq != "epoch" and not isinstance(save_freq, int):
            raise ValueError(f"Invalid value for argument `save_freq`. Received: save_freq={save_freq}. Expected either "
                             "'epoch' or an integer value.")
        self.backup_dir, self.save_freq, self.delete_checkpoint = os.fspath(backup_dir), save_freq, delete_checkpoint
        self._manager: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Restores the last backup; training continues with the epoch after it."""
        if not context.executing_eagerly():
            raise errors.UnimplementedError(None, None, "BackupAndRestore works in eager mode; in a graph, use "
                                                        "ModelCheckpoint and initial_epoch.")
        self._epoch = Variable(-1, dtype="int64", trainable=False)
        self._batches = 0
        parts = {"model": self.model, "epoch": self._epoch}
        if getattr(self.model, "optimizer", None) is not None:
            parts["optimizer"] = self.model.optimizer
        checkpoint = Checkpoint(**parts)
        self._manager = CheckpointManager(checkpoint, self.backup_dir, max_to_keep=1)
        if self._manager.latest_checkpoint:
            checkpoint.restore(self._manager.latest_checkpoint)
        self.model._first_epoch = int(self._epoch.value().numpy()) + 1

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Remembers the epoch."""
        self._current = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Backs up within an epoch, which is then done again."""
        if self.save_freq != "epoch":
            self._batches += 1
            if self._batches % self.save_freq == 0:
                self._back_up(self._current - 1)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Backs up."""
        if self.save_freq == "epoch":
            self._back_up(epoch)

    def _back_up(self, epoch: int) -> None:
        self._epoch.assign(epoch)
        self._manager.save()

    def on_train_end(self, logs: Any = None) -> None:
        """Removes the backup."""
        self.model._first_epoch = 0
        if self.delete_checkpoint and file_api.exists(self.backup_dir):
            file_api.rmtree(self.backup_dir)
