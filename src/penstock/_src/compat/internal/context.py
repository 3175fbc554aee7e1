"""`tf.__internal__.eager_context` and other queries of the execution state by libraries."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.compat.programs.inside import eager
from penstock._src.graph import context

export.value(tf.config.set_soft_device_placement, "__internal__.eager_context.set_soft_device_placement")
export.value(tf.data.Dataset, "__internal__.types.data.Dataset")
export.value(tf.compat.v1.saved_model.Builder, "__internal__.saved_model.SavedModelBuilder")
export.value(eager.record_gradient, "__internal__.record_gradient")


@export("__internal__.eager_context.get_device_name")
def get_device_name() -> str | None:
    """The device of the innermost scope, or None."""
    return context.state.device


@export("__internal__.eager_context.get_config")
def get_config() -> Any:
    """The ConfigProto of eager execution: its threads and its placement."""
    threads = tf.config.threading
    return tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads.get_intra_op_parallelism_threads(),
                                    inter_op_parallelism_threads=threads.get_inter_op_parallelism_threads(),
                                    allow_soft_placement=bool(tf.config.get_soft_device_placement()),
                                    log_device_placement=tf.debugging.get_log_device_placement())


class Executor:
    """The executor of eager operations. They run in the calling thread, so there is never anything to wait for."""

    def is_async(self) -> bool:
        """Whether operations may run after their call has returned."""
        return False

    def wait(self) -> None:
        """Waits for the operations that were called."""

    def clear_error(self) -> None:
        """Clears the errors of asynchronous operations."""


@export("__internal__.eager_context.get_executor")
def get_executor() -> Executor:
    """The executor of this thread's eager operations."""
    return Executor()


@export("__internal__.get_enclosing_xla_context")
def get_enclosing_xla_context() -> None:
    """The context of XLA around the operations that are being built: there is none."""
    return None


@export("__internal__.is_tfrt_enabled")
def is_tfrt_enabled() -> bool:
    """Whether operations run in TensorFlow's newer runtime."""
    return False


@export("test.experimental.sync_devices")
def sync_devices() -> None:
    """Waits for all devices. In eager execution only."""
    if not tf.executing_eagerly():
        raise RuntimeError("sync_devices() must only be called in Eager mode, outside tf functions")
    for device in tf.config.list_logical_devices("GPU"):
        with tf.device(device.name):
            tf.zeros([]).numpy()
