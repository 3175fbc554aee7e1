"""slim.evaluation: evaluating the checkpoints of a directory."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.compat.contrib.training import evaluation
from penstock.compat import v1 as tf

_USE_DEFAULT = 0


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.slim.evaluation.{name}"])


_export("checkpoints_iterator")(evaluation.checkpoints_iterator)
_export("wait_for_new_checkpoint")(evaluation.wait_for_new_checkpoint)


def _hooks(num_evals: int | None, logdir: str | None, summary_op: Any, feed_dict: Any, hooks: Any) -> list:
    summary_op = tf.summary.merge_all() if summary_op is _USE_DEFAULT else summary_op
    found: list = [evaluation.StopAfterNEvalsHook(num_evals)]
    if summary_op is not None:
        found.append(evaluation.SummaryAtEndHook(log_dir=logdir, summary_op=summary_op, feed_dict=feed_dict))
    return [*found, *(hooks or ())]


@_export("evaluate_once")
def evaluate_once(master: str, checkpoint_path: str, logdir: str | None, num_evals: int | None = 1, initial_op: Any = None,
                  initial_op_feed_dict: Any = None, eval_op: Any = None, eval_op_feed_dict: Any = None, final_op: Any = None,
                  final_op_feed_dict: Any = None, summary_op: Any = _USE_DEFAULT, summary_op_feed_dict: Any = None,
                  variables_to_restore: Any = None, session_config: Any = None, hooks: Any = None) -> Any:
    """Evaluates one checkpoint: `num_evals` runs of `eval_op`, then the values of `final_op`."""
    all_hooks = _hooks(num_evals, logdir, summary_op, summary_op_feed_dict, hooks)
    saver = None if variables_to_restore is None else tf.train.Saver(variables_to_restore)
    scaffold = tf.train.Scaffold(init_op=initial_op, init_feed_dict=initial_op_feed_dict, saver=saver)
    return evaluation.evaluate_once(checkpoint_path, master=master, scaffold=scaffold, eval_ops=eval_op,
                                    feed_dict=eval_op_feed_dict, final_ops=final_op, final_ops_feed_dict=final_op_feed_dict,
                                    hooks=all_hooks, config=session_config)


@_export("evaluation_loop")
def evaluation_loop(master: str, checkpoint_dir: str, logdir: str | None, num_evals: int | None = 1, initial_op: Any = None,
                    initial_op_feed_dict: Any = None, init_fn: Callable | None = None, eval_op: Any = None,
                    eval_op_feed_dict: Any = None, final_op: Any = None, final_op_feed_dict: Any = None,
                    summary_op: Any = _USE_DEFAULT, summary_op_feed_dict: Any = None, variables_to_restore: Any = None,
                    eval_interval_secs: float = 60, max_number_of_evaluations: int | None = None, session_config: Any = None,
                    timeout: float | None = None, timeout_fn: Callable | None = None, hooks: Any = None) -> Any:
    """Evaluates each new checkpoint of a directory."""
    all_hooks = _hooks(num_evals, logdir, summary_op, summary_op_feed_dict, hooks)
    saver = None if variables_to_restore is None else tf.train.Saver(variables_to_restore)
    scaffold = tf.train.Scaffold(init_op=initial_op, init_feed_dict=initial_op_feed_dict, init_fn=init_fn, saver=saver)
    return evaluation.evaluate_repeatedly(
        checkpoint_dir, master=master, scaffold=scaffold, eval_ops=eval_op, feed_dict=eval_op_feed_dict, final_ops=final_op,
        final_ops_feed_dict=final_op_feed_dict, eval_interval_secs=eval_interval_secs, hooks=all_hooks, config=session_config,
        max_number_of_evaluations=max_number_of_evaluations, timeout=timeout, timeout_fn=timeout_fn)


@_export("evaluation")
def evaluation_(sess: Any, num_evals: int = 1, init_op: Any = None, init_op_feed_dict: Any = None, eval_op: Any = None,
                eval_op_feed_dict: Any = None, final_op: Any = None, final_op_feed_dict: Any = None, summary_op: Any = None,
                summary_op_feed_dict: Any = None, summary_writer: Any = None, global_step: Any = None) -> Any:
    """Evaluates in an existing session."""
    if init_op is not None:
        sess.run(init_op, init_op_feed_dict)
    for _ in range(num_evals if eval_op is not None else 0):
        sess.run(eval_op, eval_op_feed_dict)
    value = None if final_op is None else sess.run(final_op, final_op_feed_dict)
    if summary_op is not None and summary_writer is not None:
        step = tf.train.get_global_step() if global_step is None else global_step
        summary_writer.add_summary(sess.run(summary_op, summary_op_feed_dict), tf.train.global_step(sess, step))
        summary_writer.flush()
    return value
