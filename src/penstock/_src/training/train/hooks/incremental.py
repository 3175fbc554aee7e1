"""Saving the rows of embedding variables that changed, between the checkpoints of a monitored session."""
from __future__ import annotations

from typing import Any

from penstock._src.state.embeddings.incremental import IncrementalSaver
from penstock._src.training.train.hooks.base import SessionRunArgs, SessionRunHook
from penstock._src.training.train.hooks.stopping import step_tensor
from penstock._src.training.train.hooks.timer import SecondOrStepTimer


class IncrementalCheckpointHook(SessionRunHook):
    """Saves an increment every so many seconds. The scaffold's saver becomes an incremental one: increments belong to the full
    checkpoints of other hooks, and a restore reads both."""

    def __init__(self, scaffold: Any, seconds: float):
        self._scaffold, self._timer = scaffold, SecondOrStepTimer(every_secs=seconds)
        self._saver: IncrementalSaver = None         # type: ignore[assignment]

    def begin(self) -> None:
        """Makes the ops that save; the graph must be complete but for them."""
        self._step = step_tensor("IncrementalCheckpointHook")
        self._saver = self._scaffold.use_saver(lambda given: IncrementalSaver(saver=given))

    def before_run(self, run_context: Any) -> SessionRunArgs:
        """Reads the step."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Saves, if it is time and there is a full checkpoint. The first interval begins with the first step."""
        step = int(run_values.results)
        if not self._timer.should_trigger_for_step(step):
            return
        first = self._timer.last_triggered_step() is None
        self._timer.update_last_triggered_step(step)
        if not first and self._saver.has_full:
            self._saver.incremental_save(run_context.session)
