"""Preemption in training loops: a checkpoint is written, and the process exits, after the step in which a termination notice
arrives.

The notice is SIGTERM, or comes from a function of the user program. Training continues after a restart: the newest checkpoint
is restored when the handler is created.
"""
from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base import clock, dtypes, errors
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.state.checkpoint.checkpoint import CheckpointManager, _Checkpoint, add_variable

RESTART_CODE = 42                                  # TensorFlow's, on platforms that it does not know
_SECONDS = 1.0                                     # between two calls of termination_watcher_fn


@export("distribute.experimental.TerminationConfig")
class TerminationConfig:
    """How a termination is detected and handled.

    `termination_watcher_fn` returns True once the end is near (by default, SIGTERM announces it); `exit_fn` ends the process
    (by default with status 42); training continues for `grace_period` seconds before the checkpoint is written by `save_fn`.
    """

    def __init__(self, termination_watcher_fn: Callable[[], bool] | None = None, exit_fn: Callable[[], Any] | None = None,
                 grace_period: float | None = None, save_fn: Callable | None = None):
        self.termination_watcher_fn, self.exit_fn = termination_watcher_fn, exit_fn
        self.grace_period, self.save_fn = grace_period, save_fn


@export("distribute.experimental.PreemptionCheckpointHandler")
class PreemptionCheckpointHandler:
    """Saves and exits when the process is about to end, and restores when it is started again.

    >>> handler = tf.distribute.experimental.PreemptionCheckpointHandler(resolver, checkpoint, "/tmp/model")
    >>> for step in range(handler.total_run_calls, STEPS): handler.run(train_step, next(iterator))
    """

    def __init__(self, cluster_resolver: Any, checkpoint_or_checkpoint_manager: Any, checkpoint_dir: Any = None,
                 termination_config: TerminationConfig | None = None):
        given = checkpoint_or_checkpoint_manager
        if isinstance(given, _Checkpoint) and not checkpoint_dir:
            raise errors.invalid("A checkpoint needs a checkpoint_dir.")
        if _workers(cluster_resolver) > 1:
            raise errors.UnimplementedError(None, None, "A PreemptionCheckpointHandler watches one process. In a cluster, use "
                                            "tf.train.MonitoredTrainingSession, or tf.keras.callbacks.BackupAndRestore.")
        config = termination_config or TerminationConfig()
        self._exit: Callable[[], Any] = config.exit_fn or (lambda: sys.exit(RESTART_CODE))
        self._grace, self._save_fn = config.grace_period or 0, config.save_fn
        self._manager = given if isinstance(given, CheckpointManager) else CheckpointManager(given, checkpoint_dir, 1)
        self._counter = _run_counter(self._manager._checkpoint)
        self._manager._checkpoint.restore(self._manager.latest_checkpoint)
        self._calls = int(self._counter.numpy())
        self._notice: float | None = None          # when the notice came
        self._scope = False
        self._before: Any = None
        self._ended = threading.Event()
        if config.termination_watcher_fn is not None:
            threading.Thread(target=self._watch, args=(config.termination_watcher_fn,), daemon=True,
                             name="preemption watcher").start()
        elif threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._on_signal)

    def _watch(self, noticed: Callable[[], bool]) -> None:
        while not self._ended.wait(_SECONDS):
            if noticed():
                self._noticed("termination_watcher_fn")
                return

    def _on_signal(self, number: int, frame: Any) -> None:
        self._noticed("SIGTERM")
        if callable(self._before):
            self._before(number, frame)

    def _noticed(self, by: str) -> None:
        if self._notice is None:
            logging.warning("Preemption announced by %s: a checkpoint is saved after this step.", by)
            self._notice = clock.steady()

    @property
    def total_run_calls(self) -> int:
        """How often `run` has been called, before a restart as well."""
        if self._scope:
            raise NotImplementedError("total_run_calls is not counted inside of watch_preemption_scope.")
        return self._calls

    def run(self, distributed_train_function: Callable, *args: Any, **kwargs: Any) -> Any:
        """Calls a training function; then, if the end is near, saves and exits."""
        result = distributed_train_function(*args, **kwargs)
        self._calls += 1
        self._counter.assign(self._calls)
        self.save_checkpoint_if_preempted()
        return result

    def save_checkpoint_if_preempted(self, *args: Any, **kwargs: Any) -> None:
        """Saves, with these arguments of `save`, and exits if the end is near and the grace period is over."""
        if self._notice is None or clock.steady() < self._notice + self._grace:
            return
        (self._save_fn or self._manager.save)(*args, **kwargs)
        self._manager._checkpoint.sync()
        self.close()
        self._exit()

    @contextlib.contextmanager
    def watch_preemption_scope(self) -> Iterator[None]:
        """A block whose calls of tf.train.CheckpointManager.save may be the last: after it, the process exits if asked to.

        >>> with handler.watch_preemption_scope(): train()
        """
        self._scope = True
        try:
            yield
            self.save_checkpoint_if_preempted()
        finally:
            self._scope = False

    def close(self) -> None:
        """Stops watching."""
        self._ended.set()
        if self._before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._before)
            self._before = None


def _workers(resolver: Any) -> int:
    spec = resolver.cluster_spec() if resolver is not None else None
    return sum(len(spec.job_tasks(job)) for job in spec.jobs) if spec else 0


def _run_counter(checkpoint: Any) -> Any:
    """The variable of a checkpoint that counts calls of `run`."""
    known = checkpoint._lookup_dependency("total_run_calls")
    return known if known is not None else add_variable(checkpoint, name="total_run_calls", initializer=0, dtype=dtypes.int64,
                                                        trainable=False)


@export("distribute.experimental.PreemptionWatcher")
class PreemptionWatcher:
    """Watches for SIGTERM: `preemption_message` says that it came.

    >>> watcher = tf.distribute.experimental.PreemptionWatcher()
    >>> while not watcher.preemption_message: train_step()
    """

    def __init__(self) -> None:
        self._message: str | None = None
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, number: int, frame: Any) -> None:
        self._message = f"Process {os.getpid()} received SIGTERM."
        if callable(self._before):
            self._before(number, frame)

    @property
    def preemption_message(self) -> str | None:
        """The message of the notice; None before it."""
        return self._message

    def block_until_worker_exit(self) -> None:
        """Does nothing: a watcher of one process has no other workers to wait for."""
