"""Evaluating a model once, or again for each new checkpoint."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock.compat import v1 as tf


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.training.{name}"])


@_export("get_or_create_eval_step")
def get_or_create_eval_step() -> Any:
    """The local variable that counts evaluations."""
    found = tf.get_collection(tf.GraphKeys.EVAL_STEP)
    if len(found) > 1:
        raise ValueError("The collection tf.GraphKeys.EVAL_STEP has several elements")
    if found:
        return found[0]
    return tf.get_variable("eval_step", shape=[], dtype=tf.int64, initializer=tf.zeros_initializer(), trainable=False,
                           collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.EVAL_STEP])


@_export("StopAfterNEvalsHook")
class StopAfterNEvalsHook(tf.train.SessionRunHook):
    """Stops after a number of evaluations."""

    def __init__(self, num_evals: int | None, log_progress: bool = True):
        self._num_evals, self._log_progress, self._done = num_evals, log_progress, None

    def _set_evals_completed_tensor(self, updated_eval_step: Any) -> None:
        self._done = updated_eval_step

    def before_run(self, run_context: Any) -> Any:
        """Requests the number of evaluations."""
        return tf.train.SessionRunArgs({"evals_completed": self._done})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops, if it is reached."""
        done = run_values.results["evals_completed"]
        if self._log_progress:
            logging.info("Evaluation [%d]" if self._num_evals is None else "Evaluation [%d/%d]",
                         *((done,) if self._num_evals is None else (done, self._num_evals)))
        if self._num_evals is not None and done >= self._num_evals:
            run_context.request_stop()


@_export("SummaryAtEndHook")
class SummaryAtEndHook(tf.train.SessionRunHook):
    """Writes summaries when the session ends."""

    def __init__(self, log_dir: str | None = None, summary_writer: Any = None, summary_op: Any = None, feed_dict: Any = None):
        if log_dir is None and summary_writer is None:
            raise ValueError("One of log_dir or summary_writer should be used.")
        self._summary_op, self._all, self._feed_dict = summary_op, summary_op is None, feed_dict
        self._summary_writer, self._log_dir = summary_writer, log_dir

    def begin(self) -> None:
        """Finds what to summarize."""
        if self._all:
            self._summary_op = tf.summary.merge_all()
        self._global_step = tf.train.get_or_create_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Opens the writer."""
        if self._summary_writer is None and self._log_dir:
            self._summary_writer = tf.summary.FileWriterCache.get(self._log_dir)

    def end(self, session: Any) -> None:
        """Writes."""
        if self._summary_op is not None and self._summary_writer:
            step = tf.train.global_step(session, self._global_step)
            self._summary_writer.add_summary(session.run(self._summary_op, self._feed_dict), step)
        if self._summary_writer:
            self._summary_writer.flush()


@_export("checkpoints_iterator")
def checkpoints_iterator(checkpoint_dir: str, min_interval_secs: float = 0, timeout: float | None = None,
                         timeout_fn: Callable | None = None) -> Iterator[str]:
    """The paths of checkpoints as they appear in a directory."""
    return tf.train.checkpoints_iterator(checkpoint_dir, min_interval_secs, timeout, timeout_fn)


@_export("wait_for_new_checkpoint")
def wait_for_new_checkpoint(checkpoint_dir: str, last_checkpoint: str | None = None, seconds_to_sleep: float = 1,
                            timeout: float | None = None) -> str | None:
    """The path of the newest checkpoint, as soon as it is not the last one; None after the time is up."""
    import time
    logging.info("Waiting for new checkpoint at %s", checkpoint_dir)
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        path = tf.train.latest_checkpoint(checkpoint_dir)
        if path is not None and path != last_checkpoint:
            logging.info("Found new checkpoint at %s", path)
            return path
        if end is not None and time.monotonic() + seconds_to_sleep > end:
            return None
        time.sleep(seconds_to_sleep)


def _with_counter(eval_ops: Any, hooks: list) -> Any:
    """The ops of a step, with one that counts it."""
    if eval_ops is None:
        return None
    count = tf.assign_add(get_or_create_eval_step(), 1)
    for hook in hooks:
        if hasattr(hook, "_set_evals_completed_tensor"):
            hook._set_evals_completed_tensor(count)
    if isinstance(eval_ops, dict):
        return {**eval_ops, "update_eval_step": count}
    return [*eval_ops, count] if isinstance(eval_ops, (tuple, list)) else [eval_ops, count]


def _evaluate(path: str | None, master: str, scaffold: Any, eval_ops: Any, feed_dict: Any, hooks: list, config: Any) -> None:
    creator = tf.train.ChiefSessionCreator(scaffold=scaffold, checkpoint_filename_with_path=path, master=master, config=config)
    with tf.train.MonitoredSession(session_creator=creator, hooks=hooks) as session:
        logging.info("Starting evaluation")
        while eval_ops is not None and not session.should_stop():
            session.run(eval_ops, feed_dict)
        logging.info("Finished evaluation")


@_export("evaluate_once")
def evaluate_once(checkpoint_path: str | None, master: str = "", scaffold: Any = None, eval_ops: Any = None,
                  feed_dict: Any = None, final_ops: Any = None, final_ops_feed_dict: Any = None, hooks: Any = None,
                  config: Any = None) -> Any:
    """Evaluates the model of a checkpoint; returns the values of `final_ops`."""
    get_or_create_eval_step()
    hooks = list(hooks or [])
    eval_ops = _with_counter(eval_ops, hooks)
    final = tf.train.FinalOpsHook(final_ops, final_ops_feed_dict)
    _evaluate(checkpoint_path, master, scaffold, eval_ops, feed_dict, [*hooks, final], config)
    return final.final_ops_values


@_export("evaluate_repeatedly")
def evaluate_repeatedly(checkpoint_dir: str, master: str = "", scaffold: Any = None, eval_ops: Any = None,
                        feed_dict: Any = None,
                        final_ops: Any = None, final_ops_feed_dict: Any = None, eval_interval_secs: float = 60,
                        hooks: Any = None, config: Any = None, max_number_of_evaluations: int | None = None,
                        timeout: float | None = None, timeout_fn: Callable | None = None) -> Any:
    """Evaluates each new checkpoint of a directory; returns the last values of `final_ops`."""
    get_or_create_eval_step()
    hooks = list(hooks or [])
    eval_ops = _with_counter(eval_ops, hooks)
    final = tf.train.FinalOpsHook(final_ops, final_ops_feed_dict)
    for count, path in enumerate(checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn), 1):
        _evaluate(path, master, scaffold, eval_ops, feed_dict, [*hooks, final], config)
        if max_number_of_evaluations is not None and count >= max_number_of_evaluations:
            break
    return final.final_ops_values
