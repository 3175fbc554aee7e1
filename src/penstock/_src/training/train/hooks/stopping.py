"""Hooks that end or delay a training loop: the last step, NaN losses, workers that start later."""
from __future__ import annotations

import time
from typing import Any

import numpy as np

from penstock._src.base import errors, tf_logging
from penstock._src.base.api import export
from penstock._src.training.train.global_step import get_global_step
from penstock._src.training.train.hooks.base import SessionRunArgs, SessionRunHook


def step_tensor(who: str) -> Any:
    """The global step; RuntimeError if there is none."""
    step = get_global_step()
    if step is None:
        raise RuntimeError(f"Global step should be created to use {who}.")
    return step


@export(v1=["train.StopAtStepHook", "estimator.StopAtStepHook"], v2=["estimator.StopAtStepHook"])
class StopAtStepHook(SessionRunHook):
    """Stops after `num_steps` more steps, or when the global step reaches `last_step`.

    Args:
        num_steps: Number of steps from the start of the session.
        last_step: Value of the global step at which to stop.

    Raises:
        ValueError: if both or neither are given.

    >>> with tf.Graph().as_default():
    ...     step = tf.compat.v1.train.create_global_step()
    ...     count = tf.compat.v1.assign_add(step, 1)
    ...     with tf.compat.v1.train.MonitoredSession(hooks=[tf.estimator.StopAtStepHook(last_step=3)]) as sess:
    ...         while not sess.should_stop():
    ...             last = sess.run(count)
    ...     print(last)
    3
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None):
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps, self._last_step = num_steps, last_step

    def begin(self) -> None:
        """Finds the global step."""
        self._global_step = step_tensor("StopAtStepHook")

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Computes the last step."""
        if self._last_step is None:
            self._last_step = int(session.run(self._global_step)) + self._num_steps  # type: ignore[operator]

    def before_run(self, run_context: Any) -> Any:
        """Requests the global step."""
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops after the last step. Reads the step again, because the fetched value may be from before the update."""
        if int(run_values.results) + 1 >= self._last_step:                            # type: ignore[operator]
            if int(run_context.session.run(self._global_step)) >= self._last_step:    # type: ignore[operator]
                run_context.request_stop()


@export(v1=["train.NanLossDuringTrainingError", "estimator.NanLossDuringTrainingError"],
        v2=["estimator.NanLossDuringTrainingError"])
class NanLossDuringTrainingError(RuntimeError):
    """The loss became NaN."""

    def __str__(self) -> str:
        return "NaN loss during training."


@export(v1=["train.NanTensorHook", "estimator.NanTensorHook"], v2=["estimator.NanTensorHook"])
class NanTensorHook(SessionRunHook):
    """Stops when a tensor is NaN; raises NanLossDuringTrainingError, or only logs it."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True):
        self._loss_tensor, self._fail_on_nan_loss = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: Any) -> Any:
        """Requests the tensor."""
        return SessionRunArgs(self._loss_tensor)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Inspects it."""
        if np.isnan(run_values.results):
            message = "Model diverged with loss = NaN."
            if self._fail_on_nan_loss:
                tf_logging.error(message)
                raise NanLossDuringTrainingError
            tf_logging.warning(message)
            run_context.request_stop()


@export(v1=["train.GlobalStepWaiterHook", "estimator.GlobalStepWaiterHook"], v2=["estimator.GlobalStepWaiterHook"])
class GlobalStepWaiterHook(SessionRunHook):
    """Delays the first step until the global step reaches a value, so that workers join in sequence."""

    def __init__(self, wait_until_step: int):
        self._wait_until_step, self._worker_is_started = wait_until_step, False

    def begin(self) -> None:
        """Finds the global step."""
        self._global_step = step_tensor("_GlobalStepWaiterHook")

    def before_run(self, run_context: Any) -> None:
        """Waits, before the first step."""
        if self._worker_is_started:
            return
        if self._wait_until_step > 0:
            tf_logging.info("Waiting for global step %d before starting training.", self._wait_until_step)
            said = 0
            while (now := int(run_context.session.run(self._global_step))) < self._wait_until_step:
                if now - said > 1000:
                    tf_logging.info("Waiting for global step %d before starting training. Current step is %d.",
                              self._wait_until_step, now)
                    said = now
                time.sleep(0.5)
        self._worker_is_started = True


@export(v1=["train.FinalOpsHook", "estimator.FinalOpsHook"], v2=["estimator.FinalOpsHook"])
class FinalOpsHook(SessionRunHook):
    """Runs ops at the end; `final_ops_values` has their results."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None):
        self._final_ops, self._final_ops_feed_dict, self._final_ops_values = final_ops, final_ops_feed_dict, None

    @property
    def final_ops_values(self) -> Any:
        """The values of the final ops."""
        return self._final_ops_values

    def end(self, session: Any) -> None:
        """Runs the final ops."""
        if self._final_ops is None:
            return
        try:
            self._final_ops_values = session.run(self._final_ops, feed_dict=self._final_ops_feed_dict)
        except (errors.OutOfRangeError, StopIteration):
            tf_logging.warning("An OutOfRangeError or StopIteration exception is raised by the code in FinalOpsHook. This "
                         "typically means the Ops running by the FinalOpsHook have a dependency back to some input source, "
                         "which should not happen.")
            raise


@export(v1=["train.FeedFnHook", "estimator.FeedFnHook"], v2=["estimator.FeedFnHook"])
class FeedFnHook(SessionRunHook):
    """Feeds the result of `feed_fn()` to each step."""

    def __init__(self, feed_fn: Any):
        self.feed_fn = feed_fn

    def before_run(self, run_context: Any) -> Any:
        """Adds the feeds."""
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())


