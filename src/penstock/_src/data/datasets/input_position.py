"""The position in the input data, kept beside the model, so that a restarted worker continues where it was.

`InputPositionHook` writes the positions of a worker's iterators after every step, with the global step. A restarted worker
continues at the newest position; if the model was restored from a checkpoint, at the position of that step. So no batch is
skipped, and at most the batch of the lost step is read again. `CheckpointInputPipelineHook` is
TensorFlow's: it saves positions as often as an estimator saves checkpoints.
"""
from __future__ import annotations

import collections
import os
import struct
from typing import Any

from penstock._src.base import errors, tf_logging
from penstock._src.base.api import export
from penstock._src.data.datasets.positions import saveable
from penstock._src.graph import context
from penstock._src.io import paths
from penstock._src.io.record import TFRecordWriter, tf_record_iterator
from penstock._src.ops.core import group
from penstock._src.ops.registry import get
from penstock._src.state.checkpoint.saver import Saver
from penstock._src.state.checkpoint.state import latest_checkpoint
from penstock._src.training.train.hooks.base import SessionRunArgs, SessionRunHook
from penstock._src.training.train.hooks.checkpoint import CheckpointSaverHook
from penstock._src.training.train.hooks.stopping import step_tensor

ITERATORS = "iterators"             # the collection of iterators
_HEAD = struct.Struct("<qI")        # the step, the number of positions


def _iterators() -> list:
    """The iterators of the graph whose positions can be saved."""
    found = {t.op.name: t for t in context.current_graph().get_collection(ITERATORS) if not t.op.inputs}
    if not found:
        raise ValueError("The graph has no iterators whose position could be saved.")
    return [found[name] for name in sorted(found)]


@export(v1=["train.experimental.InputPositionHook"])
class InputPositionHook(SessionRunHook):
    """Keeps the positions of this worker's iterators in a file of a folder.

    `keep` is the number of steps that the model may go back, when it is restored, without reading batches again.

    >>> hook = tf.train.experimental.InputPositionHook(folder, f"worker_{task_index}")
    >>> with tf.train.MonitoredTrainingSession(hooks=[hook], ...) as sess: ...
    """

    def __init__(self, folder: str, name: str = "input", keep: int = 1000):
        self._path, self._keep = os.path.join(folder, f"{name}.positions"), keep
        self._known: collections.deque[tuple[int, list[bytes]]] = collections.deque(maxlen=keep)
        self._writer: TFRecordWriter | None = None
        self._written, self._fresh = 0, True

    def begin(self) -> None:
        """Builds the ops, and reads the file of an earlier worker."""
        self._step = step_tensor("InputPositionHook")
        iterators = _iterators()
        self._positions = [get("IteratorPosition")(it) for it in iterators]
        self._saved = [get("Placeholder")(dtype="string", shape=[]) for _ in iterators]
        self._go = group(*(get("SetIteratorPosition")(it, s) for it, s in zip(iterators, self._saved, strict=True)))
        paths.makedirs(os.path.dirname(self._path) or ".")
        self._known.extend(_read(self._path, len(iterators)))

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Positions are restored before the first step, because other hooks may initialize the iterators after this one."""
        self._fresh = True

    def before_run(self, run_context: Any) -> SessionRunArgs:
        """Restores the position of the model's step in a new session."""
        if self._fresh:
            self._restore(run_context.session)
            self._fresh = False
        return SessionRunArgs(self._step)

    def _restore(self, session: Any) -> None:
        step, now = self._look(session)
        while self._known and self._known[-1][0] > step:
            self._known.pop()
        if self._known:
            at, positions = self._known[-1]
            tf_logging.info("The input resumes at its position of step %d.", at)
            session.run(self._go, dict(zip(self._saved, positions, strict=True)))
        else:
            self._known.append((step, now))
        self._rewrite()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the current position."""
        self._known.append(self._look(run_context.session))
        if self._written > 2 * self._keep:
            self._rewrite()
            return
        self._write(*self._known[-1])
        self._writer.flush()                                     # type: ignore[union-attr]

    def _look(self, session: Any) -> tuple[int, list[bytes]]:
        step, positions = session.run([self._step, self._positions])
        return int(step), [bytes(p) for p in positions]

    def _write(self, step: int, positions: list[bytes]) -> None:
        sizes = struct.pack(f"<{len(positions)}Q", *map(len, positions))
        self._writer.write(_HEAD.pack(step, len(positions)) + sizes + b"".join(positions))    # type: ignore[union-attr]
        self._written += 1

    def _rewrite(self) -> None:
        """Rewrites the file with the retained positions, atomically."""
        self._close()
        temporary = f"{self._path}.{os.getpid()}.tmp"
        self._writer, self._written = TFRecordWriter(temporary), 0
        for step, positions in self._known:
            self._write(step, positions)
        self._writer.flush()
        paths.rename(temporary, self._path)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def end(self, session: Any) -> None:
        """Closes the file."""
        self._close()


def _read(path: str, count: int) -> list[tuple[int, list[bytes]]]:
    """The positions in a file; an incomplete last record is ignored."""
    found: list = []
    if not paths.exists(path):
        return found
    try:
        for record in tf_record_iterator(path):
            step, n = _HEAD.unpack_from(record)
            if n != count:
                raise errors.invalid(f"{path} has the positions of {n} iterators; the graph has {count}.")
            sizes, at, positions = struct.unpack_from(f"<{n}Q", record, _HEAD.size), _HEAD.size + 8 * n, []
            for size in sizes:
                positions.append(record[at:at + size])
                at += size
            found.append((step, positions))
    except errors.DataLossError:
        pass
    return found


class CheckpointInputPipelineHook(SessionRunHook):
    """Saves the positions of all iterators as often as an estimator saves checkpoints, beside these.

    >>> estimator.train(input_fn, hooks=[tf.data.experimental.CheckpointInputPipelineHook(estimator)])
    """

    def __init__(self, estimator: Any, external_state_policy: Any = None):
        config, prefix = estimator._config, "input"
        if config.num_worker_replicas > 1:
            prefix += f"_{config.task_type}_{config.task_id}"
        # Not a subclass: estimators add their own CheckpointSaverHook unless they are given one.
        self._checkpoint_saver_hook = CheckpointSaverHook(
            estimator.model_dir, save_secs=config.save_checkpoints_secs, save_steps=config.save_checkpoints_steps,
            checkpoint_basename=prefix + ".ckpt")
        self._latest_filename, self._first_run = "checkpoint_" + prefix, True

    def begin(self) -> None:
        """Creates a Saver for the iterators."""
        latest = self._latest_filename

        class _Positions(Saver):
            """A Saver with its own state file."""

            def save(self, sess: Any, save_path: Any, global_step: Any = None, latest_filename: str | None = None,
                     *args: Any, **options: Any) -> Any:
                return super().save(sess, save_path, global_step, latest_filename or latest, *args, **options)
        if self._checkpoint_saver_hook._saver is None:
            self._checkpoint_saver_hook._saver = _Positions([saveable(t, t.name) for t in _iterators()])
        self._checkpoint_saver_hook.begin()

    def before_run(self, run_context: Any) -> Any:
        """In a new session, restores the last saved position, or saves the initial one."""
        if self._first_run:
            self._restore_or_save(run_context.session)
            self._first_run = False
        return self._checkpoint_saver_hook.before_run(run_context)

    def _restore_or_save(self, session: Any) -> None:
        hook = self._checkpoint_saver_hook
        path = latest_checkpoint(hook._checkpoint_dir, self._latest_filename)
        if path:
            hook._get_saver().restore(session, path)
            return
        step = int(session.run(hook._global_step_tensor))
        hook._save(session, step)
        hook._timer.update_last_triggered_step(step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Saves if the interval has passed."""
        self._checkpoint_saver_hook.after_run(run_context, run_values)

    def end(self, session: Any) -> None:
        """Saves the final position."""
        self._checkpoint_saver_hook.end(session)
