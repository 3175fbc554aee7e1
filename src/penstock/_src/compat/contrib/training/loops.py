"""A training op from a loss and an optimizer, and the loop that runs it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf

_USE_GLOBAL_STEP = 0


def on_values(gradient: Any, function: Callable) -> Any:
    """Changes the values of a gradient, dense or sparse."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.training.{name}"])


def summarize_gradients(grads_and_vars: Any, separator: str) -> list:
    """A histogram and the norm of each gradient."""
    summaries = []
    for grad, var in grads_and_vars:
        if grad is None:
            logging.info("Var %s has no gradient", var.op.name)
            continue
        values = grad.values if isinstance(grad, tf.IndexedSlices) else grad
        summaries.append(tf.summary.histogram(f"{var.op.name}{separator}gradient", values))
        summaries.append(tf.summary.scalar(f"{var.op.name}{separator}gradient_norm", tf.global_norm([values])))
    return summaries


@_export("add_gradients_summaries")
def add_gradients_summaries(grads_and_vars: Any) -> list:
    """A histogram and the norm of each gradient."""
    return summarize_gradients(grads_and_vars, "_")


@_export("clip_gradient_norms")
def clip_gradient_norms(gradients_to_variables: Any, max_norm: float) -> list:
    """Clips each gradient by its own norm."""
    return [(g if g is None else on_values(g, lambda v: tf.clip_by_norm(v, max_norm)), v) for g, v in gradients_to_variables]


@_export("clip_gradient_norms_fn")
def clip_gradient_norms_fn(max_norm: float) -> Callable:
    """The same as a function of gradients."""
    return lambda gradients_to_variables: clip_gradient_norms(gradients_to_variables, max_norm)


@_export("multiply_gradients")
def multiply_gradients(grads_and_vars: Any, gradient_multipliers: Any) -> list:
    """Multiplies the gradients of some variables, given on their own or by name."""
    if not isinstance(grads_and_vars, list):
        raise ValueError("`grads_and_vars` must be a list.")
    if not gradient_multipliers:
        raise ValueError("`gradient_multipliers` is empty.")
    if not isinstance(gradient_multipliers, dict):
        raise ValueError("`gradient_multipliers` must be a dict.")
    by_name = {k if isinstance(k, str) else k.op.name: m for k, m in gradient_multipliers.items()}
    multiplied = []
    for grad, var in grads_and_vars:
        if var.op.name in by_name:
            if grad is None:
                raise ValueError("Requested multiple of `None` gradient.")
            grad = on_values(grad, lambda v, var=var: v * tf.cast(by_name[var.op.name], v.dtype))
        multiplied.append((grad, var))
    return multiplied


@_export("create_train_op")
def create_train_op(total_loss: Any, optimizer: Any, global_step: Any = _USE_GLOBAL_STEP, update_ops: Any = None,
                    variables_to_train: Any = None, transform_grads_fn: Callable | None = None,
                    summarize_gradients: bool = False, gate_gradients: int = 1, aggregation_method: Any = None,
                    colocate_gradients_with_ops: bool = False, check_numerics: bool = True) -> Tensor:
    """A tensor of the loss whose evaluation is a training step, with the updates that layers requested.

    >>> train_op = tf.contrib.training.create_train_op(loss, tf.train.AdamOptimizer())
    """
    return make_train_op(total_loss, optimizer, global_step, update_ops, variables_to_train, transform_grads_fn,
                         summarize_gradients, gate_gradients, aggregation_method, colocate_gradients_with_ops, check_numerics,
                         "_")


def make_train_op(total_loss: Any, optimizer: Any, global_step: Any, update_ops: Any, variables_to_train: Any,
                  transform_grads_fn: Callable | None, summarize: bool, gate_gradients: int, aggregation_method: Any,
                  colocate_gradients_with_ops: bool, check_numerics: bool, separator: str) -> Tensor:
    """The common part of `create_train_op` here and in slim."""
    if global_step is _USE_GLOBAL_STEP:
        global_step = tf.train.get_or_create_global_step()
    collected = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    update_ops = collected if update_ops is None else list(update_ops)
    if {id(u) for u in collected} - {id(u) for u in update_ops}:
        logging.warning("update_ops in create_train_op does not contain all the update_ops in GraphKeys.UPDATE_OPS")
    if update_ops:
        with tf.control_dependencies(update_ops):
            barrier = tf.no_op(name="update_barrier")
        with tf.control_dependencies([barrier]):
            total_loss = tf.identity(total_loss)
    variables_to_train = tf.trainable_variables() if variables_to_train is None else list(variables_to_train)
    if not variables_to_train:
        raise ValueError("there are no variables to train")
    grads = optimizer.compute_gradients(total_loss, variables_to_train, gate_gradients=gate_gradients,
                                        aggregation_method=aggregation_method,
                                        colocate_gradients_with_ops=colocate_gradients_with_ops)
    if transform_grads_fn:
        grads = transform_grads_fn(grads)
    if summarize:
        with tf.name_scope("summarize_grads"):
            summarize_gradients(grads, separator)
    applied = optimizer.apply_gradients(grads, global_step=global_step)
    with tf.name_scope("train_op"):
        if check_numerics:
            total_loss = tf.check_numerics(total_loss, "LossTensor is inf or nan")
        with tf.control_dependencies([applied]):
            train_op = tf.identity(total_loss)
    tf.add_to_collection(tf.GraphKeys.TRAIN_OP, train_op)
    return train_op


@_export("train")
def train(train_op: Any, logdir: str | None, master: str = "", is_chief: bool = True, scaffold: Any = None, hooks: Any = None,
          chief_only_hooks: Any = None, save_checkpoint_secs: float | None = 600, save_summaries_steps: int | None = 100,
          config: Any = None, max_wait_secs: int = 7200, run_metadata: Any = None) -> Any:
    """Runs the training op in a monitored session until a hook stops it; returns the last loss."""
    if logdir is None and is_chief:
        if save_summaries_steps:
            raise ValueError("logdir cannot be None when save_summaries_steps is not None")
        if save_checkpoint_secs:
            raise ValueError("logdir cannot be None when save_checkpoint_secs is not None")
    loss = None
    with tf.train.MonitoredTrainingSession(
            master=master, is_chief=is_chief, checkpoint_dir=logdir, scaffold=scaffold, hooks=hooks,
            chief_only_hooks=chief_only_hooks, save_checkpoint_secs=save_checkpoint_secs,
            save_summaries_steps=save_summaries_steps, config=config, max_wait_secs=max_wait_secs) as session:
        while not session.should_stop():
            loss = session.run(train_op, run_metadata=run_metadata)
    return loss
