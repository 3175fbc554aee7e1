"""MonitoredSession: a session for training loops, with hooks, threads, and recovery from lost tasks.

    with tf.train.MonitoredTrainingSession(checkpoint_dir=folder, hooks=hooks) as sess:
        while not sess.should_stop():
            sess.run(train_op)

Three wrappers are between the loop and the session: `_HookedSession` calls the hooks around each step, `_Coordinated` ends the
threads of queue runners and raises their exceptions, and `_Recoverable` makes a new session, restored from the last checkpoint,
when a task was lost (AbortedError, UnavailableError).
"""
from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Callable
from typing import Any

from penstock._src.base import errors, tf_logging
from penstock._src.base.api import export
from penstock._src.cluster.recovery import Recovery
from penstock._src.graph import context, messages
from penstock._src.graph.collections import GraphKeys
from penstock._src.training.train.coordinator import Coordinator
from penstock._src.training.train.hooks.base import SessionRunArgs, SessionRunContext, SessionRunValues
from penstock._src.training.train.hooks.checkpoint import CheckpointSaverHook
from penstock._src.training.train.hooks.incremental import IncrementalCheckpointHook
from penstock._src.training.train.hooks.preemption import PreemptionHook
from penstock._src.training.train.hooks.reporting import StepCounterHook, SummarySaverHook
from penstock._src.training.train.queue_runner import start_queue_runners
from penstock._src.training.train.scaffold import ChiefSessionCreator, Scaffold, SessionCreator, WorkerSessionCreator

LOST = (errors.AbortedError, errors.UnavailableError)      # errors of a step when a task is lost
USE_DEFAULT = object()


# -- between the loop and the session ------------------------------------------------------------------------------
class _Wrapped:
    """A session, or another wrapper around one."""

    def __init__(self, sess: Any):
        self._sess = sess

    @property
    def graph(self) -> Any:
        return self._sess.graph

    @property
    def sess_str(self) -> Any:
        return self._sess.sess_str

    def should_stop(self) -> bool:
        """Whether this wrapper, or one inside it, requests the end of the loop."""
        if self._check_stop():
            return True
        return self._sess is None or isinstance(self._sess, _Wrapped) and self._sess.should_stop()

    def _check_stop(self) -> bool:
        return False

    def close(self) -> None:
        if self._sess is None:
            return
        try:
            self._sess.close()
        except LOST as e:
            tf_logging.warning("The session could not be closed cleanly, perhaps because a task is gone: %s", e)
        finally:
            self._sess = None

    def run(self, *args: Any, **kwargs: Any) -> Any:
        return self._sess.run(*args, **kwargs)

    def run_step_fn(self, step_fn: Callable, raw_session: Any, run_with_hooks: Callable | None) -> Any:
        return step_fn(_MonitoredSession.StepContext(raw_session, run_with_hooks or self.run))


class _Recoverable(_Wrapped):
    """Makes a new session whenever one was lost, and runs the step again."""

    def __init__(self, sess_creator: SessionCreator):
        self._sess_creator = sess_creator
        super().__init__(self._create())

    def _create(self) -> Any:
        recovery = Recovery()
        while True:
            try:
                return self._sess_creator.create_session()
            except LOST as e:
                tf_logging.info("A task was lost while a session was created; retrying: %s", e)
                time.sleep(recovery.failed())

    def _check_stop(self) -> bool:
        try:
            return self._sess is None or self._sess._check_stop()
        except LOST as e:
            self._lose(e)
            self._sess = self._create()
            return False
        except Exception:            # a thread failed: the next run raises its exception
            return True

    def _lose(self, error: Exception) -> None:
        tf_logging.info("A task was lost; the session is closed and a new one is created: %s", error)
        self.close()

    def _retried(self, call: Callable[[Any], Any]) -> Any:
        while True:
            try:
                if self._sess is None:
                    self._sess = self._create()
                return call(self._sess)
            except LOST as e:
                self._lose(e)

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        return self._retried(lambda s: s.run(fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata))

    def run_step_fn(self, step_fn: Callable, raw_session: Any, run_with_hooks: Callable | None) -> Any:
        return self._retried(lambda s: s.run_step_fn(step_fn, raw_session, s.run))


class _Coordinated(_Wrapped):
    """Stops and joins the threads of a coordinator, and raises their exceptions."""

    def __init__(self, sess: Any, coord: Any, stop_grace_period_secs: float = 120):
        super().__init__(sess)
        self._coord, self._stop_grace_period_secs = coord, stop_grace_period_secs

    def _check_stop(self) -> bool:
        self._coord.raise_requested_exception()
        return self._coord.should_stop()

    def close(self) -> None:
        self._coord.request_stop()
        try:
            self._coord.join(stop_grace_period_secs=self._stop_grace_period_secs, ignore_live_threads=True)
        finally:
            with contextlib.suppress(Exception):
                super().close()

    def run(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._sess.run(*args, **kwargs)
        except LOST:
            raise
        except Exception as mine:
            # A thread may have lost its task first; only that error takes precedence over the present one.
            try:
                self._coord.raise_requested_exception()
            except LOST:
                raise
            except Exception:
                raise mine from None
            raise


class _HookedSession(_Wrapped):
    """Calls hooks around each step; what they request is fetched in the same step."""

    def __init__(self, sess: Any, hooks: list):
        super().__init__(sess)
        self._hooks, self._should_stop = hooks, False

    def _check_stop(self) -> bool:
        return self._should_stop

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        if self.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        step = SessionRunContext(SessionRunArgs(fetches, feed_dict), self._sess)
        options = options or messages.RunOptions()
        asked = [hook.before_run(step) for hook in self._hooks]
        wanted: dict[str | int, Any] = {"caller": fetches}
        wanted.update({i: a.fetches for i, a in enumerate(asked) if a is not None and a.fetches is not None})
        feeds = _merged_feeds(feed_dict, [a.feed_dict for a in asked if a is not None and a.feed_dict])
        for a in asked:
            if a is not None and a.options:
                _merge_options(options, a.options)
        run_metadata = run_metadata or messages.RunMetadata()
        outputs = self._sess.run(fetches=wanted, feed_dict=feeds, options=options, run_metadata=run_metadata)
        for i, hook in enumerate(self._hooks):
            hook.after_run(step, SessionRunValues(outputs.get(i), options, run_metadata))
        self._should_stop = self._should_stop or step.stop_requested
        return outputs["caller"]


def _merged_feeds(of_caller: Any, of_hooks: list[dict]) -> Any:
    merged: dict = {}
    for feeds in of_hooks:
        _check_apart(merged, feeds, "Same tensor is fed by two hooks.")
        merged.update(feeds)
    if not merged or not of_caller:
        return merged or of_caller
    _check_apart(of_caller, merged, "Same tensor is fed by a SessionRunHook and user.")
    return {**merged, **of_caller}


def _check_apart(a: dict, b: dict, message: str) -> None:
    both = [k for k in b if any(k is o for o in a)]
    if both:
        raise RuntimeError(f"{message} Conflict(s): {both}")


def _merge_options(options: Any, more: Any) -> None:
    """Merges options: the more detailed value of each."""
    for field in ("trace_level", "timeout_in_ms", "inter_op_thread_pool", "output_partition_graphs",
                  "report_tensor_allocations_upon_oom"):
        setattr(options, field, max(getattr(options, field), getattr(more, field)))
    options.debug_options.debug_tensor_watch_opts.extend(more.debug_options.debug_tensor_watch_opts)
    options.debug_options.reset_disk_byte_usage |= more.debug_options.reset_disk_byte_usage


# -- the sessions that programs use ----------------------------------------------------------------------------------
class _CoordinatedSessionCreator(SessionCreator):
    """Makes a session with its queue runners started and its hooks called."""

    def __init__(self, session_creator: Any, hooks: list, stop_grace_period_secs: float):
        self._session_creator, self._hooks = session_creator, hooks
        self._stop_grace_period_secs = stop_grace_period_secs
        self.tf_sess: Any = None
        self.coord: Any = None

    def create_session(self) -> Any:
        self.tf_sess = self._session_creator.create_session()
        self.coord = Coordinator(clean_stop_exception_types=[])
        if context.current_graph().get_collection(GraphKeys.QUEUE_RUNNERS):
            start_queue_runners(sess=self.tf_sess, coord=self.coord)
        for hook in self._hooks:
            hook.after_create_session(self.tf_sess, self.coord)
        return _Coordinated(_HookedSession(self.tf_sess, self._hooks), self.coord, self._stop_grace_period_secs)


class _MonitoredSession:
    """The common part of monitored sessions."""

    def __init__(self, session_creator: Any, hooks: Any, should_recover: bool, stop_grace_period_secs: float = 120):
        self._graph_was_finalized = context.current_graph().finalized
        self._hooks = list(hooks or ())
        self._preemption = [h for h in self._hooks if isinstance(h, PreemptionHook)]
        for hook in self._hooks:
            hook.begin()
        self._coordinated_creator = _CoordinatedSessionCreator(
            session_creator or ChiefSessionCreator(), self._hooks, stop_grace_period_secs)
        self._sess: Any = _Recoverable(self._coordinated_creator) if should_recover else \
            self._coordinated_creator.create_session()

    class StepContext:
        """The argument of a step function of `run_step_fn`: the session without hooks, and steps with hooks."""

        def __init__(self, session: Any, run_with_hooks_fn: Callable):
            self._session, self._run_with_hooks_fn = session, run_with_hooks_fn

        @property
        def session(self) -> Any:
            """The session without hooks."""
            return self._session

        def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
            """A step with hooks."""
            return self._run_with_hooks_fn(*args, **kwargs)

        def request_stop(self) -> None:
            """Ends the loop."""
            raise StopIteration("step_fn has requested the iterations to stop.")

    @property
    def graph(self) -> Any:
        """The session's graph; None when it is closed."""
        return None if self._tf_sess() is None else self._tf_sess().graph

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """A step, as Session.run."""
        return self._sess.run(fetches, feed_dict=feed_dict, options=options, run_metadata=run_metadata)

    def run_step_fn(self, step_fn: Callable) -> Any:
        """Runs a step that is a Python function of a `step_context`.

        >>> def step(step_context):
        ...     step_context.session.run(warm_up)              # no hooks
        ...     return step_context.run_with_hooks(train_op)
        >>> sess.run_step_fn(step)
        """
        names = tuple(inspect.signature(step_fn).parameters)
        if inspect.ismethod(step_fn):
            names = ("self", *names)
        if names not in (("step_context",), ("self", "step_context")):
            raise ValueError("`step_fn` may either have one `step_context` argument, or `self` and `step_context` arguments if "
                             f"it's an instance method. Got {names} instead.")
        return self._sess.run_step_fn(step_fn, self._tf_sess(), run_with_hooks=None)

    def should_stop(self) -> bool:
        """Whether the loop should end."""
        return self._sess is None or self._sess.should_stop() or any(h.requested for h in self._preemption)

    def close(self) -> None:
        """Closes hooks, threads and the session."""
        self._close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> bool:
        if kind in (errors.OutOfRangeError, StopIteration):
            kind = None
        self._close(kind)
        return kind is None

    def _close(self, failed: Any = None) -> None:
        try:
            if not failed:
                for hook in sorted(self._hooks, key=lambda h: not getattr(h, "ends_first", False)):
                    hook.end(self._tf_sess())
        except BaseException as e:
            failed = e
            raise
        finally:
            try:
                if self._sess is None:
                    raise RuntimeError("Session is already closed.")
                self._sess.close()
            finally:
                self._sess = self._coordinated_creator.tf_sess = self._coordinated_creator.coord = None
                if not self._graph_was_finalized:
                    context.current_graph()._unsafe_unfinalize()
                for hook in self._preemption:
                    hook.leave(bool(failed))

    def _is_closed(self) -> bool:
        return self._tf_sess() is None

    def _tf_sess(self) -> Any:
        return self._coordinated_creator.tf_sess


@export(v1=["train.MonitoredSession"])
class MonitoredSession(_MonitoredSession):
    """A session with hooks that recovers when a task is lost.

    Args:
        session_creator: Creator of the session, such as `ChiefSessionCreator`.
        hooks: `SessionRunHook` objects.
        stop_grace_period_secs: Seconds that threads have to end in.

    >>> with tf.Graph().as_default():
    ...     y = tf.get_variable("w", initializer=1.) + 1
    ...     with tf.train.MonitoredSession() as sess:      # runs the initializers
    ...         print(sess.run(y))
    2.0
    """

    def __init__(self, session_creator: Any = None, hooks: Any = None, stop_grace_period_secs: float = 120):
        super().__init__(session_creator, hooks, True, stop_grace_period_secs)


@export(v1=["train.SingularMonitoredSession"])
class SingularMonitoredSession(_MonitoredSession):
    """A session with hooks that does not recover; `raw_session()` can be passed to savers."""

    def __init__(self, hooks: Any = None, scaffold: Any = None, master: str = "", config: Any = None,
                 checkpoint_dir: str | None = None, stop_grace_period_secs: float = 120,
                 checkpoint_filename_with_path: str | None = None):
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path)
        super().__init__(creator, hooks, False, stop_grace_period_secs)

    def raw_session(self) -> Any:
        """The session inside."""
        return self._tf_sess()


@export(v1=["train.MonitoredTrainingSession"])
def MonitoredTrainingSession(  # noqa: N802
        master: str = "", is_chief: bool = True, checkpoint_dir: str | None = None, scaffold: Any = None, hooks: Any = None,
        chief_only_hooks: Any = None, save_checkpoint_secs: Any = USE_DEFAULT, save_summaries_steps: Any = USE_DEFAULT,
        save_summaries_secs: Any = USE_DEFAULT, config: Any = None, stop_grace_period_secs: float = 120,
        log_step_count_steps: int | None = 100, max_wait_secs: float = 7200, save_checkpoint_steps: Any = USE_DEFAULT,
        summary_dir: str | None = None, save_graph_def: bool = True,
        save_incremental_checkpoint_secs: float | None = None) -> MonitoredSession:
    """A MonitoredSession for training: the chief restores or initializes, and saves; other workers wait for it. With
    `save_incremental_checkpoint_secs`, it saves the rows of embedding variables that changed that often, between checkpoints.

    Args:
        master: Address of the server; empty for this process.
        is_chief: Whether this process initializes, saves and writes summaries.
        checkpoint_dir: Folder of checkpoints.
        scaffold: How the model is initialized and saved; made by default.
        hooks: `SessionRunHook` objects of every worker.
        chief_only_hooks: Hooks of the chief alone.
        save_checkpoint_secs: Seconds between checkpoints; 600 by default. None for none.
        save_summaries_steps: Steps between summaries; 100 by default.
        save_summaries_secs: Seconds between summaries, instead of steps.
        config: ConfigProto of the session.
        stop_grace_period_secs: Seconds that threads have to end in.
        log_step_count_steps: Steps between messages with the rate of steps.
        max_wait_secs: Seconds that a worker waits for the chief.
        save_checkpoint_steps: Steps between checkpoints, instead of seconds.
        summary_dir: Folder of summaries; that of checkpoints by default.
        save_graph_def: Whether to write the graph beside the checkpoints.
        save_incremental_checkpoint_secs: Seconds between incremental checkpoints of embedding variables; none by default.

    Returns:
        A MonitoredSession, to be used in a `with` statement.

    >>> with tf.Graph().as_default():
    ...     count = tf.assign_add(tf.train.create_global_step(), 1)
    ...     hooks = [tf.train.StopAtStepHook(last_step=3)]
    ...     with tf.train.MonitoredTrainingSession(checkpoint_dir="train", hooks=hooks) as sess:
    ...         while not sess.should_stop():
    ...             last = sess.run(count)
    >>> last, tf.train.latest_checkpoint("train")
    (np.int64(3), 'train/model.ckpt-3')
    """
    scaffold = scaffold or Scaffold()
    if not is_chief:
        worker = WorkerSessionCreator(scaffold, master, config, max_wait_secs)
        return MonitoredSession(worker, hooks, stop_grace_period_secs)
    summaries = _steps_and_secs(save_summaries_steps, save_summaries_secs, (100, None))
    checkpoints = _steps_and_secs(save_checkpoint_steps, save_checkpoint_secs, (None, 600))
    every: list = list(chief_only_hooks or ())
    summary_dir = summary_dir or checkpoint_dir
    if summary_dir and log_step_count_steps and log_step_count_steps > 0:
        every.append(StepCounterHook(output_dir=summary_dir, every_n_steps=log_step_count_steps))
    if summary_dir and any(n and n > 0 for n in summaries):
        every.append(SummarySaverHook(summaries[0], summaries[1], summary_dir, scaffold=scaffold))
    if checkpoint_dir and any(n and n > 0 for n in checkpoints):
        steps, secs = checkpoints
        every.append(CheckpointSaverHook(checkpoint_dir, save_secs=secs, save_steps=steps, scaffold=scaffold,
                                         save_graph_def=save_graph_def))
    last = [IncrementalCheckpointHook(scaffold, save_incremental_checkpoint_secs)] \
        if checkpoint_dir and save_incremental_checkpoint_secs else []
    if checkpoint_dir:
        every.append(PreemptionHook())
    creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    return MonitoredSession(creator, [*every, *(hooks or ()), *last], stop_grace_period_secs)


def _steps_and_secs(steps: Any, secs: Any, default: tuple) -> tuple:
    """An interval in steps or seconds; giving one disables the default of the other."""
    if steps is USE_DEFAULT and secs is USE_DEFAULT:
        return default
    return (None if steps is USE_DEFAULT else steps), (None if secs is USE_DEFAULT else secs)
