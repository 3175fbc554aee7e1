"""Supervisor: sessions with services in threads (checkpoints, summaries, step counts), from before MonitoredSession."""
from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base import dtypes, errors, tf_logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.graph_util import write_graph
from penstock._src.graph.messages import SessionLog, Summary
from penstock._src.ops.core import group
from penstock._src.state.checkpoint.saver import Saver
from penstock._src.state.table_initializers import tables_initializer
from penstock._src.state.variables.collections import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
)
from penstock._src.training.summary.file_writer import FileWriter
from penstock._src.training.summary.graph_summaries import merge_all
from penstock._src.training.train.coordinator import Coordinator, LooperThread
from penstock._src.training.train.global_step import global_step as step_value
from penstock._src.training.train.hooks.checkpoint import graph_and_saver
from penstock._src.training.train.session_manager import SessionManager

USE_DEFAULT = 0


def _first_or_made(given: Any, collection: str, make: Callable[[], Any]) -> Any:
    """The given value, the first of a collection, or a new one, which is added to it."""
    if given is not USE_DEFAULT:
        return given
    graph = context.current_graph()
    found = graph.get_collection(collection)
    if found:
        if len(found) > 1:
            tf_logging.info("Found %d %s operations. Returning the first one.", len(found), collection)
        return found[0]
    made = make()
    if made is not None:
        graph.add_to_collection(collection, made)
    return made


def _default_local_init_op() -> Any:
    return group(local_variables_initializer(), tables_initializer())


def _default_saver() -> Any:
    return Saver() if global_variables() else None


def _default_global_step() -> Any:
    try:
        found = context.current_graph().get_tensor_by_name("global_step:0")
    except KeyError:
        return None
    if found.dtype.base_dtype in (dtypes.int32, dtypes.int64):
        return found
    tf_logging.warning("Found 'global_step' is not an int type: %s", found.dtype)
    return None


@export(v1=["train.Supervisor"])
class Supervisor:
    """Initializes or restores a model, and saves and summarizes it while it is trained.

    >>> sv = tf.train.Supervisor(logdir=folder)
    >>> with sv.managed_session() as sess:
    ...     while not sv.should_stop():
    ...         sess.run(train_op)
    """

    USE_DEFAULT = USE_DEFAULT

    def __init__(self, graph: Any = None, ready_op: Any = USE_DEFAULT, ready_for_local_init_op: Any = USE_DEFAULT,
                 is_chief: bool = True, init_op: Any = USE_DEFAULT, init_feed_dict: Any = None,
                 local_init_op: Any = USE_DEFAULT, logdir: str | None = None, summary_op: Any = USE_DEFAULT,
                 saver: Any = USE_DEFAULT, global_step: Any = USE_DEFAULT, save_summaries_secs: float = 120,
                 save_model_secs: float = 600, recovery_wait_secs: float = 30, stop_grace_secs: float = 120,
                 checkpoint_basename: str = "model.ckpt", session_manager: Any = None, summary_writer: Any = USE_DEFAULT,
                 init_fn: Any = None, local_init_run_options: Any = None):
        if context.executing_eagerly():
            raise RuntimeError("Supervisors are compatible with eager execution.")
        self._graph = graph or context.current_graph()
        with self._graph.as_default():
            keys = GraphKeys
            self._ready_op = _first_or_made(ready_op, keys.READY_OP, report_uninitialized_variables)
            self._ready_for_local_init_op = _first_or_made(
                ready_for_local_init_op, keys.READY_FOR_LOCAL_INIT_OP, lambda: None)
            self._init_op = _first_or_made(init_op, keys.INIT_OP, global_variables_initializer)
            self._local_init_op = _first_or_made(local_init_op, keys.LOCAL_INIT_OP, _default_local_init_op)
            self._saver = _first_or_made(saver, keys.SAVERS, _default_saver)
            self._summary_op = _first_or_made(summary_op, keys.SUMMARY_OP, merge_all)
            self._global_step = _first_or_made(global_step, keys.GLOBAL_STEP, _default_global_step)
        self._init_feed_dict, self._init_fn = init_feed_dict, init_fn
        self._meta_graph_def = graph_and_saver(self._graph, self._saver)
        self._is_chief, self._coord, self._stop_grace_secs = is_chief, Coordinator(), stop_grace_secs
        self._init_chief(logdir, save_summaries_secs, save_model_secs, checkpoint_basename, summary_writer)
        self._session_manager = session_manager or SessionManager(
            local_init_op=self._local_init_op, ready_op=self._ready_op,
            ready_for_local_init_op=self._ready_for_local_init_op, graph=self._graph,
            recovery_wait_secs=recovery_wait_secs, local_init_run_options=local_init_run_options)
        self._verify_setup()
        self._graph.finalize()

    def _init_chief(self, logdir: str | None, summaries: float, model: float, basename: str, writer: Any) -> None:
        """Where and how often the chief writes; the others write nothing."""
        self._logdir = self._save_path = self._summary_writer = None
        self._save_summaries_secs = self._save_model_secs = None
        self._graph_added = False
        if not self._is_chief:
            return
        self._logdir, self._save_summaries_secs, self._save_model_secs = logdir, summaries, model
        if logdir:
            self._save_path = os.path.join(logdir, basename)
        if writer is not USE_DEFAULT:
            self._summary_writer = writer
        elif logdir:
            self._summary_writer = FileWriter(logdir)

    def _verify_setup(self) -> None:
        if self._is_chief:
            return
        for op in self._graph.get_operations():
            if op.type in ("Variable", "VariableV2") and not op.device:
                raise ValueError(f"When using replicas, all Variables must have their device set: {op}")

    is_chief = property(lambda self: self._is_chief, doc="Whether this is the chief.")
    session_manager = property(lambda self: self._session_manager, doc="The session manager.")
    coord = property(lambda self: self._coord, doc="The coordinator of the threads.")
    init_op = property(lambda self: self._init_op, doc="The op that initializes the model.")
    init_feed_dict = property(lambda self: self._init_feed_dict, doc="The feeds of init_op.")
    ready_op = property(lambda self: self._ready_op, doc="The op that lists what is not initialized.")
    ready_for_local_init_op = property(lambda self: self._ready_for_local_init_op, doc="The condition of local_init_op.")
    summary_writer = property(lambda self: self._summary_writer, doc="Where summaries go.")
    summary_op = property(lambda self: self._summary_op, doc="The op that makes the summaries.")
    save_summaries_secs = property(lambda self: self._save_summaries_secs, doc="Seconds between summaries.")
    global_step = property(lambda self: self._global_step, doc="The global step.")
    saver = property(lambda self: self._saver, doc="The Saver.")
    save_model_secs = property(lambda self: self._save_model_secs, doc="Seconds between checkpoints.")
    save_path = property(lambda self: self._save_path, doc="Where checkpoints go.")

    # -- sessions ---------------------------------------------------------------------------------------------------------
    def prepare_or_wait_for_session(self, master: str = "", config: Any = None, wait_for_checkpoint: bool = False,
                                    max_wait_secs: float = 7200, start_standard_services: bool = True) -> Any:
        """A session with a ready model; the chief initializes it, others wait."""
        self._coord.clear_stop()
        if self._summary_writer:
            self._summary_writer.reopen()
        if self._is_chief:
            sess = self._session_manager.prepare_session(
                master, init_op=self.init_op, saver=self.saver, checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint, max_wait_secs=max_wait_secs, config=config,
                init_feed_dict=self._init_feed_dict, init_fn=self._init_fn)
            self._write_graph()
            if start_standard_services:
                tf_logging.info("Starting standard services.")
                self.start_standard_services(sess)
        else:
            sess = self._session_manager.wait_for_session(master, config=config, max_wait_secs=max_wait_secs)
        if start_standard_services:
            tf_logging.info("Starting queue runners.")
            self.start_queue_runners(sess)
        return sess

    @contextlib.contextmanager
    def managed_session(self, master: str = "", config: Any = None, start_standard_services: bool = True,
                        close_summary_writer: bool = True) -> Iterator[Any]:
        """A context manager with a session: at its end all threads stop, and their first exception is raised."""
        sess = None
        try:
            sess = self.prepare_or_wait_for_session(master, config, start_standard_services=start_standard_services)
            yield sess
        except Exception as e:
            self.request_stop(e)
        finally:
            try:
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                if sess is not None:
                    with contextlib.suppress(Exception):
                        sess.close()

    def _write_graph(self) -> None:
        if self._logdir:
            write_graph(self._graph.as_graph_def(add_shapes=True), self._logdir, "graph.pbtxt")
        if self._summary_writer and not self._graph_added:
            self._summary_writer.add_graph(self._graph)
            self._summary_writer.add_meta_graph(self._meta_graph_def)
            self._graph_added = True

    # -- services -----------------------------------------------------------------------------------------------------------
    def start_standard_services(self, sess: Any) -> list | None:
        """Starts the threads that save and summarize; returns them."""
        if not self._is_chief:
            raise RuntimeError("Only the chief's supervisor can start the standard services, because it alone writes events.")
        if not self._logdir:
            tf_logging.warning("Standard services need a 'logdir' passed to the SessionManager")
            return None
        if self._global_step is not None and self._summary_writer:
            self._summary_writer.add_session_log(SessionLog(status=SessionLog.START), step_value(sess, self._global_step))
        threads: list = []
        if self._save_summaries_secs and self._summary_writer:
            if self._summary_op is not None:
                threads.append(SVSummaryThread(self, sess))
            if self._global_step is not None:
                threads.append(SVStepCounterThread(self, sess))
        if self.saver and self._save_model_secs:
            threads.append(SVTimerCheckpointThread(self, sess))
        for t in threads:
            t.start()
        return threads

    def start_queue_runners(self, sess: Any, queue_runners: Any = None) -> list:
        """Starts the threads of queue runners; returns them."""
        if context.executing_eagerly():
            raise RuntimeError("Queues are not compatible with eager execution.")
        runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS) if queue_runners is None else queue_runners
        return [t for r in runners for t in r.create_threads(sess, coord=self._coord, daemon=True, start=True)]

    def loop(self, timer_interval_secs: float | None, target: Callable, args: Any = None, kwargs: Any = None) -> LooperThread:
        """A thread that calls `target` again and again."""
        looper = LooperThread(self._coord, timer_interval_secs, target=target, args=args, kwargs=kwargs)
        looper.start()
        return looper

    Loop = loop

    def stop(self, threads: Any = None, close_summary_writer: bool = True, ignore_live_threads: bool = False) -> None:
        """Stops and joins the threads."""
        self._coord.request_stop()
        try:
            self._coord.join(threads, stop_grace_period_secs=self._stop_grace_secs, ignore_live_threads=ignore_live_threads)
        finally:
            if close_summary_writer and self._summary_writer:
                self._summary_writer.add_session_log(SessionLog(status=SessionLog.STOP))
                self._summary_writer.close()
                self._graph_added = False

    def request_stop(self, ex: Any = None) -> None:
        """Asks the threads to stop."""
        self._coord.request_stop(ex=ex)

    def should_stop(self) -> bool:
        """Whether they should."""
        return self._coord.should_stop()

    def stop_on_exception(self) -> Any:
        """A `with` that requests a stop when something is raised in it."""
        return self._coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        """Waits until a stop is requested."""
        self._coord.wait_for_stop()

    def summary_computed(self, sess: Any, summary: Any, global_step: Any = None) -> None:
        """Writes a summary."""
        if not self._summary_writer:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self.global_step is not None:
            global_step = step_value(sess, self.global_step)
        self._summary_writer.add_summary(summary, global_step)

    PrepareSession, StartQueueRunners = prepare_or_wait_for_session, start_queue_runners
    StartStandardServices, Stop, RequestStop = start_standard_services, stop, request_stop
    ShouldStop, StopOnException, WaitForStop, SummaryComputed = should_stop, stop_on_exception, wait_for_stop, summary_computed


class _Service(LooperThread):
    """A thread that works on the supervisor's graph."""

    def __init__(self, sv: Supervisor, sess: Any, every: float | None):
        super().__init__(sv.coord, every)
        self._sv, self._sess = sv, sess

    def run(self) -> None:
        """The loop, in the graph: threads begin without one."""
        with self._sess.graph.as_default():
            super().run()


class SVSummaryThread(_Service):
    """Writes summaries."""

    def __init__(self, sv: Supervisor, sess: Any):
        super().__init__(sv, sess, sv.save_summaries_secs)

    def run_loop(self) -> None:
        """One round."""
        sv, step = self._sv, None
        if sv.global_step is not None:
            summary, step = self._sess.run([sv.summary_op, sv.global_step])
        else:
            summary = self._sess.run(sv.summary_op)
        if sv.summary_writer:
            tf_logging.info("Recording summary at step %s.", step)
            sv.summary_writer.add_summary(summary, step)


class SVStepCounterThread(_Service):
    """Writes steps per second."""

    def __init__(self, sv: Supervisor, sess: Any, step_counter: Any = None):
        super().__init__(sv, sess, sv.save_summaries_secs)
        self._counter = sv.global_step if step_counter is None else step_counter
        self._tag = f"{self._counter.op.name}/sec"
        self._last_time, self._last_step = 0.0, 0

    def start_loop(self) -> None:
        """Records the start."""
        self._last_time, self._last_step = time.monotonic(), step_value(self._sess, self._counter)

    def run_loop(self) -> None:
        """One round."""
        now, step = time.monotonic(), step_value(self._sess, self._counter)
        passed, steps = now - self._last_time, step - self._last_step
        rate = steps / passed if passed else float("inf")
        self._last_time, self._last_step = now, step
        if self._sv.summary_writer:
            self._sv.summary_writer.add_summary(Summary(value=[Summary.Value(tag=self._tag, simple_value=rate)]), step)
        tf_logging.info("%s: %g", self._tag, rate)


class SVTimerCheckpointThread(_Service):
    """Saves checkpoints."""

    def __init__(self, sv: Supervisor, sess: Any):
        super().__init__(sv, sess, sv.save_model_secs)

    def run_loop(self) -> None:
        """One round."""
        sv = self._sv
        tf_logging.info("Saving checkpoint to path %s", sv.save_path)
        sv.saver.save(self._sess, sv.save_path, global_step=sv.global_step)
        if sv.summary_writer and sv.global_step is not None:
            log = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=sv.save_path)
            sv.summary_writer.add_session_log(log, step_value(self._sess, sv.global_step))


@export(v1=["train.basic_train_loop"])
def basic_train_loop(supervisor: Supervisor, train_step_fn: Callable, args: Any = None, kwargs: Any = None,
                     master: str = "") -> None:
    """Calls `train_step_fn(session, *args, **kwargs)` until the supervisor stops; restarts when a task was lost."""
    while True:
        try:
            with supervisor.managed_session(master) as sess:
                while not supervisor.should_stop():
                    train_step_fn(sess, *(args or ()), **(kwargs or {}))
            return
        except (errors.AbortedError, errors.UnavailableError):
            tf_logging.info("A task was lost; training continues with a new session.")
