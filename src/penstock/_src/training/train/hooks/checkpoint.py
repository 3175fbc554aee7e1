"""Saving checkpoints while training continues."""
from __future__ import annotations

import os
from typing import Any

from penstock._src.base import tf_logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.graph_util import write_graph
from penstock._src.graph.messages import SessionLog
from penstock._src.graph.meta_graph import create_meta_graph_def
from penstock._src.training.train.hooks.base import SessionRunArgs, SessionRunHook
from penstock._src.training.train.hooks.reporting import writer_for
from penstock._src.training.train.hooks.stopping import step_tensor
from penstock._src.training.train.hooks.timer import SecondOrStepTimer, step_if_due


@export(v1=["train.CheckpointSaverListener", "estimator.CheckpointSaverListener"], v2=["estimator.CheckpointSaverListener"])
class CheckpointSaverListener:
    """Called when a CheckpointSaverHook saves. `after_save` may return True to end the training."""

    def begin(self) -> None:
        """The training begins."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """A checkpoint is about to be written."""

    def after_save(self, session: Any, global_step_value: int) -> Any:
        """A checkpoint was written."""

    def end(self, session: Any, global_step_value: int) -> None:
        """The training ends."""


@export(v1=["train.CheckpointSaverHook", "estimator.CheckpointSaverHook"], v2=["estimator.CheckpointSaverHook"])
class CheckpointSaverHook(SessionRunHook):
    """Saves a checkpoint at the first step, every `save_steps` steps or `save_secs` seconds, and at the end."""

    def __init__(self, checkpoint_dir: str, save_secs: float | None = None, save_steps: int | None = None, saver: Any = None,
                 checkpoint_basename: str = "model.ckpt", scaffold: Any = None, listeners: Any = None,
                 save_graph_def: bool = True):
        tf_logging.info("Create CheckpointSaverHook.")
        if saver is not None and scaffold is not None:
            raise ValueError("Pass a saver or a scaffold, not both.")
        self._saver, self._checkpoint_dir, self._scaffold = saver, checkpoint_dir, scaffold
        self._save_path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners = list(listeners or ())
        self._steps_per_run = 1
        self._save_graph_def = save_graph_def
        self._summary_writer: Any = None

    def _set_steps_per_run(self, steps_per_run: int) -> None:
        self._steps_per_run = steps_per_run

    def begin(self) -> None:
        """Finds the global step and the writer."""
        self._summary_writer = writer_for(None, self._checkpoint_dir)
        self._global_step_tensor = step_tensor("CheckpointSaverHook")
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Writes the graph, and the first checkpoint."""
        step = int(session.run(self._global_step_tensor))
        graph = context.current_graph()
        if self._save_graph_def:
            self._write_graph(graph)
        saver = self._get_saver()
        meta = graph_and_saver(graph, saver)
        if self._summary_writer is not None:
            self._summary_writer.add_graph(graph)
            self._summary_writer.add_meta_graph(meta)
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def _write_graph(self, graph: Any) -> None:
        write_graph(graph.as_graph_def(add_shapes=True), self._checkpoint_dir, "graph.pbtxt")

    def before_run(self, run_context: Any) -> Any:
        """Requests the global step."""
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Saves when it is time."""
        step = step_if_due(self._timer, run_context.session, int(run_values.results), self._steps_per_run,
                           self._global_step_tensor)
        if step is not None:
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def end(self, session: Any) -> None:
        """Saves the last step if it was not saved yet."""
        last = int(session.run(self._global_step_tensor))
        if last != self._timer.last_triggered_step():
            self._save(session, last)
        for listener in self._listeners:
            listener.end(session, last)

    def _save(self, session: Any, step: int) -> bool:
        """Saves; whether a listener requests a stop."""
        tf_logging.info("Saving checkpoints for %d into %s.", step, self._save_path)
        for listener in self._listeners:
            listener.before_save(session, step)
        self._get_saver().save(session, self._save_path, global_step=step, write_meta_graph=self._save_graph_def)
        if self._summary_writer is not None:
            log = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=self._save_path)
            self._summary_writer.add_session_log(log, step)
        stop = False
        for listener in self._listeners:
            if listener.after_save(session, step):
                tf_logging.info("A CheckpointSaverListener requested that training be stopped. listener: %s", listener)
                stop = True
        return stop

    def _get_saver(self) -> Any:
        if self._saver is not None:
            return self._saver
        if self._scaffold is not None:
            return self._scaffold.saver
        savers = context.current_graph().get_collection(GraphKeys.SAVERS)
        if not savers:
            raise RuntimeError(f"No items in collection {GraphKeys.SAVERS}. Please add a saver to the collection or provide "
                               "a saver or scaffold.")
        if len(savers) > 1:
            raise RuntimeError(f"More than one item in collection {GraphKeys.SAVERS}. Please indicate which one to use by "
                               "passing it to the constructor.")
        self._saver = savers[0]
        return savers[0]


def graph_and_saver(graph: Any, saver: Any) -> Any:
    """The MetaGraphDef of a graph with its SaverDef."""
    return create_meta_graph_def(graph_def=graph.as_graph_def(add_shapes=True), saver_def=saver.saver_def if saver else None)


