"""tf.contrib.summary: summary ops that write through the default writer while recording is on.

Writers are those of tf.summary in TensorFlow 2; recording is off until `always_record_summaries` or another of its kind.
"""
from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base.api import export
from penstock._src.ops.registry import get
from penstock._src.training.summary import writers
from penstock.compat import v1 as tf


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.summary.{name}"])


_export("SummaryWriter")(writers.SummaryWriter)
_export("initialize")(writers.initialize)
_export("flush")(writers.flush)
_export("all_summary_ops")(writers.all_v2_summary_ops)


@_export("create_file_writer")
def create_file_writer(logdir: Any, max_queue: Any = None, flush_millis: Any = None, filename_suffix: Any = None,
                       name: str | None = None) -> Any:
    """A writer of event files in a directory; None for `logdir` returns one that writes nothing.

    Args:
        logdir: Folder of the files, or None.
        max_queue: How many summaries wait before they are written.
        flush_millis: Longest time that they wait, in milliseconds.
        filename_suffix: End of the files' names.
        name: Name of the writer.

    Returns:
        A writer, to be used with `as_default()`.

    >>> writer = tf.contrib.summary.create_file_writer("log_of_writer")
    >>> with writer.as_default(), tf.contrib.summary.always_record_summaries():
    ...     _ = tf.contrib.summary.scalar("loss", 0.5, step=1)
    >>> writer.close()
    >>> len(tf.io.gfile.listdir("log_of_writer"))
    1
    """
    if logdir is None:
        return writers.create_noop_writer()
    return writers.create_file_writer(logdir, max_queue, flush_millis, filename_suffix, name)


_export("create_summary_file_writer")(create_file_writer)


@_export("summary_writer_initializer_op")
def summary_writer_initializer_op() -> list:
    """The ops that open the writers of the graph."""
    if tf.executing_eagerly():
        raise RuntimeError("tf.contrib.summary.summary_writer_initializer_op is only supported in graph mode.")
    return tf.get_collection(writers._INITIALIZERS)


@_export("always_record_summaries")
def always_record_summaries() -> Any:
    """Records every summary in the block.

    Returns:
        A context manager.

    >>> writer = tf.contrib.summary.create_file_writer("log_of_all")
    >>> with writer.as_default(), tf.contrib.summary.always_record_summaries():
    ...     _ = tf.contrib.summary.scalar("loss", 0.5, step=1)
    >>> writer.close()
    >>> len(tf.io.gfile.listdir("log_of_all"))
    1
    """
    return writers.record_if(True)


@_export("never_record_summaries")
def never_record_summaries() -> Any:
    """Records no summary in the block."""
    return writers.record_if(False)


@_export("record_summaries_if")
def record_summaries_if(condition: Any) -> Any:
    """Records summaries in the block where a condition holds."""
    return writers.record_if(condition)


@_export("record_summaries_every_n_global_steps")
@contextlib.contextmanager
def record_summaries_every_n_global_steps(n: int, global_step: Any = None) -> Iterator[None]:
    """Records summaries in the block at every n-th step.

    Args:
        n: Number of steps.
        global_step: Step to use; the global step by default.

    Returns:
        A context manager.

    >>> writer = tf.contrib.summary.create_file_writer("log_of_some")
    >>> step = tf.Variable(100, dtype=tf.int64, trainable=False)
    >>> with writer.as_default(), tf.contrib.summary.record_summaries_every_n_global_steps(100, step):
    ...     _ = tf.contrib.summary.scalar("loss", 0.5, step=step)
    >>> writer.close()
    >>> len(tf.io.gfile.listdir("log_of_some"))
    1
    """
    step = tf.train.get_or_create_global_step() if global_step is None else global_step
    with tf.device("/cpu:0"):
        wanted: Any = lambda: tf.equal(tf.floormod(tf.convert_to_tensor(step), n), 0)
        condition = wanted if tf.executing_eagerly() else wanted()
    with writers.record_if(condition):
        yield


@_export("should_record_summaries")
def should_record_summaries() -> Any:
    """Whether summaries are recorded here."""
    if writers.state.recording is None:
        return False
    return writers.should_record_summaries()


def _write(name: str, values: Any, step: Any, function: Callable) -> Any:
    """Calls `function(handle, step, tag)` where summaries are recorded."""
    if writers.state.recording is None or writers.state.writer is None:
        return tf.no_op()
    with writers.summary_scope(name, values=[values]) as (tag, _):
        number = tf.cast(tf.train.get_or_create_global_step() if step is None else step, tf.int64)
        return writers.recorded(tag, lambda handle: function(handle, number, tf.constant(tag)))


def _family(name: str, family: str | None) -> str:
    return name if family is None else f"{family}/{name}"


@_export("scalar")
def scalar(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    """A number.

    >>> with writer.as_default(), tf.contrib.summary.always_record_summaries(): tf.contrib.summary.scalar("loss", loss)
    """
    return _write(_family(name, family), tensor, step,
                  lambda handle, n, tag: get("WriteScalarSummary")(handle, n, tag, tf.convert_to_tensor(tensor)))


@_export("histogram")
def histogram(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    """A histogram."""
    return _write(_family(name, family), tensor, step,
                  lambda handle, n, tag: get("WriteHistogramSummary")(handle, n, tag, tf.convert_to_tensor(tensor)))


@_export("generic")
def generic(name: str, tensor: Any, metadata: Any = None, family: str | None = None, step: Any = None) -> Any:
    """A whole tensor."""
    data = tf.constant("" if metadata is None else metadata.SerializeToString() if hasattr(metadata, "SerializeToString")
                       else metadata)
    return _write(_family(name, family), tensor, step,
                  lambda handle, n, tag: get("WriteSummary")(handle, n, tf.convert_to_tensor(tensor), tag, data))


@_export("image")
def image(name: str, tensor: Any, bad_color: Any = None, max_images: int = 3, family: str | None = None,
          step: Any = None) -> Any:
    """Images."""
    color = tf.constant([255, 0, 0, 255], tf.uint8) if bad_color is None else bad_color
    return _write(_family(name, family), tensor, step, lambda handle, n, tag: get("WriteImageSummary")(
        handle, n, tag, tf.convert_to_tensor(tensor), color, max_images=max_images))


@_export("audio")
def audio(name: str, tensor: Any, sample_rate: float, max_outputs: int, family: str | None = None, step: Any = None) -> Any:
    """Sounds."""
    return _write(_family(name, family), tensor, step, lambda handle, n, tag: get("WriteAudioSummary")(
        handle, n, tag, tf.convert_to_tensor(tensor), tf.constant(sample_rate), max_outputs=max_outputs))


@_export("summary_test_util.events_from_file")
def events_from_file(filepath: str) -> list:
    """All events of an event file."""
    return list(tf.train.summary_iterator(filepath))


@_export("summary_test_util.events_from_logdir")
def events_from_logdir(logdir: str) -> list:
    """All events of the one event file in a directory."""
    files = tf.gfile.ListDirectory(logdir)
    if len(files) != 1:
        raise ValueError(f"Found not exactly one file in logdir: {files}")
    return events_from_file(os.path.join(logdir, files[0]))
