"""Hooks around the steps of a monitored session.

A hook is called before the session is created (`begin`), after it is created (`after_create_session`), before and after each
step, and at the end. Before a step it may request and feed values; after it, it receives them, and may request a stop.
"""
from __future__ import annotations

from typing import Any, NamedTuple

from penstock._src.base.api import export


@export(v1=["train.SessionRunArgs", "estimator.SessionRunArgs"], v2=["estimator.SessionRunArgs"])
class SessionRunArgs(NamedTuple):
    """The fetches and feeds that a hook adds to a step.

    Args:
        fetches: Values to evaluate with the step.
        feed_dict: Values to feed.
        options: RunOptions of the step.

    >>> with tf.Graph().as_default():
    ...     loss = tf.constant(0.5)
    ...     class PrintLoss(tf.compat.v1.train.SessionRunHook):
    ...         def before_run(self, run_context):
    ...             return tf.estimator.SessionRunArgs(loss)
    ...         def after_run(self, run_context, run_values):
    ...             print("loss", run_values.results)
    ...     with tf.compat.v1.train.MonitoredSession(hooks=[PrintLoss()]) as sess:
    ...         _ = sess.run(loss)
    loss 0.5
    """
    fetches: Any
    feed_dict: Any = None
    options: Any = None


@export(v1=["train.SessionRunValues", "estimator.SessionRunValues"], v2=["estimator.SessionRunValues"])
class SessionRunValues(NamedTuple):
    """The results of a step for a hook: the values it requested."""
    results: Any
    options: Any
    run_metadata: Any


@export(v1=["train.SessionRunContext", "estimator.SessionRunContext"], v2=["estimator.SessionRunContext"])
class SessionRunContext:
    """The step that a hook is called for: the caller's request, and a way to stop after it."""

    def __init__(self, original_args: Any, session: Any):
        self._original_args, self._session = original_args, session
        self._stop_requested = False

    @property
    def original_args(self) -> Any:
        """The fetches and feeds of the caller."""
        return self._original_args

    @property
    def session(self) -> Any:
        """The session that runs the step."""
        return self._session

    @property
    def stop_requested(self) -> bool:
        """Whether this is to be the last step."""
        return self._stop_requested

    def request_stop(self) -> None:
        """Requests the loop to end after this step."""
        self._stop_requested = True


@export(v1=["train.SessionRunHook", "estimator.SessionRunHook"], v2=["estimator.SessionRunHook"])
class SessionRunHook:
    """Base class of hooks, whose methods do nothing.

    >>> with tf.Graph().as_default():
    ...     loss = tf.constant(0.5)
    ...     class PrintLoss(tf.estimator.SessionRunHook):
    ...         def before_run(self, run_context):
    ...             return tf.compat.v1.train.SessionRunArgs(loss)
    ...         def after_run(self, run_context, run_values):
    ...             print("loss", run_values.results)
    ...     with tf.compat.v1.train.MonitoredSession(hooks=[PrintLoss()]) as sess:
    ...         _ = sess.run(loss)
    loss 0.5
    """

    def begin(self) -> None:
        """Called once, before the session is made: the graph can still grow."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Called whenever a session was created, also after a failure: the graph is final."""

    def before_run(self, run_context: Any) -> Any:
        """Called before each step; returns a SessionRunArgs, or None."""
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Called after each step, with the values that before_run requested."""

    def end(self, session: Any) -> None:
        """Called at the end, unless an error ended the loop."""
