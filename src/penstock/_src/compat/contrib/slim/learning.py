"""slim.learning: a training op, and a loop under a supervisor that runs it."""
from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.compat.contrib.training import loops
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf

_USE_DEFAULT = 0


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.slim.learning.{name}"])


_export("clip_gradient_norms")(loops.clip_gradient_norms)
_export("multiply_gradients")(loops.multiply_gradients)


@_export("add_gradients_summaries")
def add_gradients_summaries(grads_and_vars: Any) -> list:
    """A histogram and the norm of each gradient."""
    return loops.summarize_gradients(grads_and_vars, "/")


@_export("create_train_op")
def create_train_op(total_loss: Any, optimizer: Any, global_step: Any = 0, update_ops: Any = None,
                    variables_to_train: Any = None, clip_gradient_norm: float = 0, summarize_gradients: bool = False,
                    gate_gradients: int = 1, aggregation_method: Any = None, colocate_gradients_with_ops: bool = False,
                    gradient_multipliers: Any = None, check_numerics: bool = True) -> Tensor:
    """A tensor of the loss whose evaluation is a training step.

    >>> train_op = slim.learning.create_train_op(slim.losses.get_total_loss(), tf.train.AdamOptimizer())
    """
    def transform(grads: list) -> list:
        if gradient_multipliers:
            with tf.name_scope("multiply_grads"):
                grads = loops.multiply_gradients(grads, gradient_multipliers)
        if clip_gradient_norm > 0:
            with tf.name_scope("clip_grads"):
                grads = loops.clip_gradient_norms(grads, clip_gradient_norm)
        return grads

    return loops.make_train_op(total_loss, optimizer, global_step, update_ops, variables_to_train, transform,
                               summarize_gradients, gate_gradients, aggregation_method, colocate_gradients_with_ops,
                               check_numerics, "/")


@_export("train_step")
def train_step(sess: Any, train_op: Any, global_step: Any, train_step_kwargs: dict) -> tuple[Any, bool]:
    """One step: returns the loss, and whether to stop. `train_step_kwargs` has what to log and trace."""
    start, options, metadata = time.monotonic(), None, None
    if "should_trace" in train_step_kwargs:
        if "logdir" not in train_step_kwargs:
            raise ValueError("logdir must be present in train_step_kwargs when should_trace is present")
        if sess.run(train_step_kwargs["should_trace"]):
            options, metadata = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
    loss, step = sess.run([train_op, global_step], options=options, run_metadata=metadata)
    elapsed = time.monotonic() - start
    if metadata is not None:
        path = os.path.join(train_step_kwargs["logdir"], f"run_metadata-{step}.pb")
        with tf.gfile.Open(path, "wb") as f:
            f.write(metadata.SerializeToString())
        if "summary_writer" in train_step_kwargs:
            train_step_kwargs["summary_writer"].add_run_metadata(metadata, f"run_metadata-{step}")
    if "should_log" in train_step_kwargs and sess.run(train_step_kwargs["should_log"]):
        logging.info("global step %d: loss = %.4f (%.3f sec/step)", step, loss, elapsed)
    return loss, bool(sess.run(train_step_kwargs["should_stop"])) if "should_stop" in train_step_kwargs else False


def _check(train_op: Any, logdir: Any, summary_op: Any, saver: Any, trace_every: Any, steps: Any) -> None:
    if train_op is None:
        raise ValueError("train_op cannot be None.")
    if logdir is None:
        for name, given in (("summary_op", summary_op is not _USE_DEFAULT and summary_op is not None), ("saver",
                                                                                                        saver is not None),
                            ("trace_every_n_steps", trace_every is not None)):
            if given:
                raise ValueError(f"Cannot provide {name} because logdir=None")
    if steps is not None and steps <= 0:
        raise ValueError("`number_of_steps` must be either None or a positive number.")


@_export("train")
def train(train_op: Any, logdir: str | None, train_step_fn: Callable = train_step, train_step_kwargs: Any = _USE_DEFAULT,
          log_every_n_steps: int = 1, graph: Any = None, master: str = "", is_chief: bool = True, global_step: Any = None,
          number_of_steps: int | None = None, init_op: Any = _USE_DEFAULT, init_feed_dict: Any = None,
          local_init_op: Any = _USE_DEFAULT, init_fn: Callable | None = None, ready_op: Any = _USE_DEFAULT,
          summary_op: Any = _USE_DEFAULT, save_summaries_secs: float = 600, summary_writer: Any = _USE_DEFAULT,
          startup_delay_steps: int = 0, saver: Any = None, save_interval_secs: float = 600, sync_optimizer: Any = None,
          session_config: Any = None, session_wrapper: Callable | None = None, trace_every_n_steps: int | None = None,
          ignore_live_threads: bool = False) -> Any:
    """Trains until `number_of_steps` or the end of the data, with checkpoints and summaries in `logdir`; returns the last loss.

    >>> slim.learning.train(train_op, "/tmp/model", number_of_steps=1000, save_summaries_secs=60)
    """
    _check(train_op, logdir, summary_op, saver, trace_every_n_steps, number_of_steps)
    if sync_optimizer is not None and not isinstance(sync_optimizer, list):
        sync_optimizer = [sync_optimizer]
    if sync_optimizer is not None and startup_delay_steps > 0:
        raise ValueError("With sync_optimizer, startup_delay_steps must be 0.")
    graph = graph or tf.get_default_graph()
    chief_runners, tokens = [], []
    with graph.as_default():
        global_step = tf.train.get_or_create_global_step() if global_step is None else global_step
        saver = saver or tf.train.Saver()
        ops = _init_ops(init_op, ready_op, local_init_op, sync_optimizer, is_chief)
        if is_chief and sync_optimizer is not None:
            tokens = [o.get_init_tokens_op() for o in sync_optimizer]
            chief_runners = [o.get_chief_queue_runner() for o in sync_optimizer]
        summary_op = tf.summary.merge_all() if summary_op is _USE_DEFAULT else summary_op
        if train_step_kwargs is _USE_DEFAULT:
            train_step_kwargs = _step_arguments(global_step, number_of_steps, log_every_n_steps, is_chief, trace_every_n_steps,
                                                logdir)
    writer = tf.train.Supervisor.USE_DEFAULT if summary_writer is _USE_DEFAULT else summary_writer
    supervisor = tf.train.Supervisor(
        graph=graph, is_chief=is_chief, logdir=logdir, init_feed_dict=init_feed_dict, summary_op=summary_op,
        summary_writer=writer, global_step=global_step, saver=saver, save_summaries_secs=save_summaries_secs,
        save_model_secs=save_interval_secs, init_fn=init_fn, **ops)
    if supervisor.summary_writer is not None:
        train_step_kwargs["summary_writer"] = supervisor.summary_writer

    while True:
        try:
            with supervisor.managed_session(master, start_standard_services=False, config=session_config) as session:
                logging.info("Starting Session.")
                session = session if session_wrapper is None else session_wrapper(session)
                if is_chief and logdir:
                    supervisor.start_standard_services(session)
                elif not is_chief and startup_delay_steps > 0:
                    _wait_for_step(session, global_step, min(startup_delay_steps, number_of_steps or sys.maxsize))
                threads = supervisor.start_queue_runners(session)
                logging.info("Starting Queues.")
                if chief_runners:
                    supervisor.start_queue_runners(session, chief_runners)
                    session.run(tokens)
                step = functools.partial(train_step_fn, session, train_op, global_step, train_step_kwargs)
                loss = _steps(supervisor, step)
                if logdir and is_chief:
                    logging.info("Training has ended; saving the model.")
                    supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)
                supervisor.coord.request_stop()
                supervisor.coord.join(threads, stop_grace_period_secs=120, ignore_live_threads=ignore_live_threads)
                return loss
        except tf.errors.AbortedError:
            logging.info("Retrying training!")


def _init_ops(init_op: Any, ready_op: Any, local_init_op: Any, sync_optimizers: list | None, is_chief: bool) -> dict[str, Any]:
    """The arguments of a Supervisor that initialize variables and tables, and the state of synchronous optimizers."""
    ready_for_local_init_op = None
    with tf.name_scope("init_ops"):
        init_op = tf.global_variables_initializer() if init_op is _USE_DEFAULT else init_op
        ready_op = tf.report_uninitialized_variables() if ready_op is _USE_DEFAULT else ready_op
        if local_init_op is _USE_DEFAULT:
            local_init_op = tf.group(tf.local_variables_initializer(), tf.tables_initializer())
        if sync_optimizers is not None:
            with tf.control_dependencies([] if local_init_op is None else [local_init_op]):
                local_init_op = tf.group(*[o.chief_init_op if is_chief else o.local_step_init_op for o in sync_optimizers])
            ready_for_local_init_op = tf.group(*[o.ready_for_local_init_op for o in sync_optimizers])
    return {"init_op": init_op, "ready_op": ready_op, "local_init_op": local_init_op,
            "ready_for_local_init_op": ready_for_local_init_op}


def _steps(supervisor: Any, step: Callable[[], tuple[Any, bool]]) -> Any:
    """Runs steps until one says that it was the last, the data ends or the supervisor stops; returns the last loss."""
    loss = None
    try:
        while not supervisor.should_stop():
            loss, stop = step()
            if stop:
                logging.info("Stopping Training.")
                supervisor.request_stop()
                break
    except tf.errors.OutOfRangeError as e:
        logging.info("Caught OutOfRangeError. Stopping Training. %s", e)
    return loss


def _step_arguments(global_step: Any, number_of_steps: Any, log_every: int, is_chief: bool, trace_every: Any,
                    logdir: Any) -> dict:
    with tf.name_scope("train_step"):
        arguments = {"should_stop": tf.greater_equal(global_step, number_of_steps) if number_of_steps else tf.constant(False)}
        if log_every > 0:
            arguments["should_log"] = tf.equal(tf.floormod(global_step, log_every), 0)
        if is_chief and trace_every is not None:
            arguments["should_trace"] = tf.equal(tf.floormod(global_step, trace_every), 0)
            arguments["logdir"] = logdir
        return arguments


def _wait_for_step(session: Any, global_step: Any, step: int) -> None:
    while tf.train.global_step(session, global_step) < step:
        time.sleep(1.0)
