"""Writers of the 2.x kind: resources that summary ops write through, a default one per thread, and whether to record."""
from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.context import get_default_session
from penstock._src.graph.convert import constant, convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import control_dependencies, device, init_scope, name_scope
from penstock._src.graph.strategies import beyond_first_replica
from penstock._src.io import paths
from penstock._src.ops.control.control_flow import cond
from penstock._src.ops.registry import get

_INVALID = re.compile(r"[^-_/.A-Za-z0-9]")
_INITIALIZERS = "_SUMMARY_WRITER_V2"


class _State(threading.local):
    """The settings for summaries of this thread."""

    writer: Any = None
    step: Any = None
    recording: Any = None                # None: yes, if there is a writer
    recording_strategy: Any = True


state = _State()


# -- writers ---------------------------------------------------------------------------------------------------------
@export(v2=["summary.SummaryWriter"])
class SummaryWriter:
    """A writer of summaries.

    >>> writer = tf.summary.create_file_writer("/tmp/log")
    >>> with writer.as_default(): tf.summary.scalar("loss", 0.1, step=1)
    """

    def set_as_default(self, step: Any = None) -> None:
        """Makes this the writer of this thread's summaries."""
        if self._closed():
            raise RuntimeError("SummaryWriter is already closed")
        state.writer = self
        if step is not None:
            state.step = step

    @contextlib.contextmanager
    def as_default(self, step: Any = None) -> Iterator[Any]:
        """Makes this the writer of summaries for a block; flushes it afterwards."""
        if self._closed():
            raise RuntimeError("SummaryWriter is already closed")
        before = state.writer, state.step
        state.writer = self
        if step is not None:
            state.step = step
        try:
            yield self
            if context.executing_eagerly() or context.current_graph().building_function:
                self.flush()
        finally:
            state.writer = before[0]
            if step is not None:
                state.step = before[1]

    def _closed(self) -> bool:
        return False

    def init(self) -> Any:
        """An op that opens the file (in graphs)."""
        raise NotImplementedError

    def flush(self) -> Any:
        """Flushes pending events to the file."""
        raise NotImplementedError

    def close(self) -> Any:
        """Closes the file."""
        raise NotImplementedError


class ResourceSummaryWriter(SummaryWriter):
    """A writer behind a handle."""

    def __init__(self, shared_name: str, make: Any, name: str | None = None):
        self._resource = get("SummaryWriter")(shared_name=shared_name, name=name)
        self._init_op = make(self._resource)
        self._ended = False
        if not context.executing_eagerly():
            context.current_graph().add_to_collection(_INITIALIZERS, self._init_op)

    def _closed(self) -> bool:
        return self._ended

    def init(self) -> Any:
        """The op that opens the file."""
        if self._ended:
            raise RuntimeError("SummaryWriter is already closed")
        return self._init_op

    def flush(self) -> Any:
        """Flushes pending events to the file."""
        if self._ended and context.executing_eagerly():
            return None
        return get("FlushSummaryWriter")(self._resource)

    def close(self) -> Any:
        """Closes the file."""
        if context.executing_eagerly():
            if not self._ended:
                self.flush()
                get("CloseSummaryWriter")(self._resource)
                self._ended = True
            return None
        with control_dependencies([self.flush()]):
            return get("CloseSummaryWriter")(self._resource)


class NoopSummaryWriter(SummaryWriter):
    """A writer that writes nothing."""

    def set_as_default(self, step: Any = None) -> None:
        """Discards summaries of this thread."""
        state.writer = None

    @contextlib.contextmanager
    def as_default(self, step: Any = None) -> Iterator[Any]:
        """Discards summaries in a block."""
        before, state.writer = state.writer, None
        try:
            yield self
        finally:
            state.writer = before

    def init(self) -> Any:
        """Nothing."""

    flush = close = init


export.value(NoopSummaryWriter, v2=["summary.experimental.NoopSummaryWriter"])


@export(v2=["summary.create_file_writer"])
def create_file_writer_v2(logdir: Any, max_queue: Any = None, flush_millis: Any = None, filename_suffix: Any = None,
                          name: str | None = None, experimental_trackable: bool = False, experimental_mesh: Any = None) -> Any:
    """A writer of an event file in a directory.

    >>> writer = tf.summary.create_file_writer("/tmp/log")
    """
    if isinstance(logdir, (str, bytes)) or hasattr(logdir, "__fspath__"):
        logdir = paths.as_text(logdir)
    with name_scope(name or "create_file_writer"), init_scope():
        if context.executing_eagerly():
            for what, value in (("logdir", logdir), ("max_queue", max_queue), ("flush_millis", flush_millis),
                                ("filename_suffix", filename_suffix)):
                if isinstance(value, Tensor) and not hasattr(value, "_value"):
                    raise ValueError(f'Invalid graph Tensor argument "{what}={value}" to create_file_writer() inside an '
                                     "initialization scope. The initialization scope will attempt to execute eagerly outside "
                                     "graph contexts, but graph Tensors won't have a value.")
        return _make(logdir, max_queue, flush_millis, ".v2" if filename_suffix is None else filename_suffix, "", name)


def create_file_writer(logdir: Any, max_queue: Any = None, flush_millis: Any = None, filename_suffix: Any = None,
                       name: str | None = None) -> Any:
    """A writer of the older kind: writers of one name, by default that of the directory, share a file in a session."""
    if logdir is None:
        return NoopSummaryWriter()
    logdir = paths.as_text(logdir)
    return _make(logdir, max_queue, flush_millis, "" if filename_suffix is None else filename_suffix,
                 name or f"logdir:{logdir}", None)


def _make(logdir: Any, max_queue: Any, flush_millis: Any, suffix: Any, shared_name: str, name: str | None) -> Any:
    with device("cpu:0"):
        queue = constant(10 if max_queue is None else max_queue, dtype=dtypes.int32)
        flush = constant(2 * 60 * 1000 if flush_millis is None else flush_millis, dtype=dtypes.int32)
        return ResourceSummaryWriter(shared_name, lambda handle: get("CreateSummaryFileWriter")(
            handle, logdir, queue, flush, suffix), name)


@export(v2=["summary.create_noop_writer"])
def create_noop_writer() -> Any:
    """A writer that writes nothing."""
    return NoopSummaryWriter()


@export(v2=["summary.flush"])
def flush(writer: Any = None, name: str | None = None) -> Any:
    """Flushes the pending events of a writer (by default the current one) to its file."""
    writer = state.writer if writer is None else writer
    if writer is None:
        return None if context.executing_eagerly() else get("NoOp")()
    return get("FlushSummaryWriter")(writer) if isinstance(writer, Tensor) else writer.flush()


@export(v2=["summary.experimental.get_step"])
def get_step() -> Any:
    """The default step of this thread's summaries, or None."""
    return state.step


@export(v2=["summary.experimental.set_step"])
def set_step(step: Any) -> None:
    """Sets the default step of this thread's summaries: a number, or a variable."""
    state.step = step


# -- whether to record -----------------------------------------------------------------------------------------------
@export(v2=["summary.record_if"])
@contextlib.contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """Records summaries in a block only if a condition (a value, tensor or function) holds.

    >>> with tf.summary.record_if(lambda: step % 100 == 0): ...
    """
    before, state.recording = state.recording, condition
    try:
        yield
    finally:
        state.recording = before


@export(v2=["summary.should_record_summaries"])
def should_record_summaries() -> Any:
    """Whether summaries are recorded now: False without a writer."""
    if state.writer is None:
        return False
    found = state.recording() if callable(state.recording) else state.recording
    return True if found is None else found


def recorded(name: str, write: Any) -> Any:
    """Calls `write(handle)` if summaries are recorded; returns a boolean tensor, whether they were."""
    writer = state.writer
    if writer is None or beyond_first_replica():
        return constant(False)
    wanted = should_record_summaries()

    def do() -> Any:
        op = write(writer._resource)
        if context.executing_eagerly() or op is None:
            return constant(True)
        with control_dependencies([op]):
            return constant(True)
    if isinstance(wanted, bool) or context.executing_eagerly():
        done = do() if bool(wanted) else constant(False)
    else:
        done = cond(convert(wanted, dtypes.bool), do, lambda: constant(False), name="summary_cond")
    if not context.executing_eagerly():
        context.current_graph().add_to_collection(GraphKeys._SUMMARY_COLLECTION, done)
    return done


def _silent() -> bool:
    """Whether it is certain that nothing is written: then no step is needed."""
    wanted = True if state.recording is None or callable(state.recording) else state.recording     # a function is called once
    if state.writer is None or wanted is False:
        return True
    return isinstance(wanted, Tensor) and context.executing_eagerly() and not bool(wanted)


def chosen_step(step: Any) -> Any:
    """The step to write with; ValueError if there is none."""
    if step is None:
        step = state.step
        if step is None:
            raise ValueError("No step set. Please specify one either through the `step` argument or through "
                             "tf.summary.experimental.set_step()")
    return step


def _number(step: Any) -> Any:
    """The step as a tensor, read only if the summary is written."""
    return get("Cast")(convert(step), DstT=dtypes.int64)


@export(v2=["summary.write"])
def write(tag: str, tensor: Any, step: Any = None, metadata: Any = None, name: str | None = None) -> Any:
    """Writes a tensor under a tag, with the metadata of a plugin of TensorBoard; whether it was written."""
    with name_scope(name or "write_summary"):
        if _silent():
            return constant(False)
        step = chosen_step(step)
        data = b"" if metadata is None else metadata.SerializeToString() if hasattr(metadata, "SerializeToString") else metadata

        def do(handle: Any) -> Any:
            value = tensor() if callable(tensor) else tensor
            return get("WriteSummary")(handle, _number(step), convert(value), tag, data)
        return recorded(tag, do)


@export(v2=["summary.experimental.write_raw_pb"])
def write_raw_pb(tensor: Any, step: Any = None, name: str | None = None) -> Any:
    """Writes a serialized Summary message; whether it was written."""
    with name_scope(name or "write_raw_pb"):
        if _silent():
            return constant(False)
        step = chosen_step(step)
        return recorded("raw", lambda handle: get("WriteRawProtoSummary")(handle, _number(step), convert(tensor)))


@export(v2=["summary.graph"])
def graph(graph_data: Any) -> Any:
    """Writes a graph (a Graph or GraphDef); whether it was written."""
    if not context.executing_eagerly():
        raise NotImplementedError("graph() must be invoked in eager mode.")
    message = graph_data.as_graph_def(add_shapes=True) if hasattr(graph_data, "as_graph_def") else graph_data
    if getattr(getattr(message, "DESCRIPTOR", None), "name", None) != "GraphDef":
        raise ValueError("'graph_data' is not tf.Graph or tf.compat.v1.GraphDef")
    data = message.SerializeToString()
    return recorded("graph", lambda handle: get("WriteGraphSummary")(handle, constant(0, dtype=dtypes.int64), data))


@export(v2=["summary.experimental.summary_scope"])
@contextlib.contextmanager
def summary_scope(name: str | None, default_name: str = "summary", values: Any = None) -> Iterator[tuple[str, str]]:
    """A name scope for a summary; returns the tag and the scope's name."""
    name = name or default_name
    outer = (context.state.scope_name or "").rstrip("/") if context.executing_eagerly() else \
        context.current_graph().get_name_scope()
    tag = f"{outer}/{name}" if outer else name
    with name_scope(_INVALID.sub("", name) or None, default_name, values) as scope:
        yield tag, scope


# -- in graphs of the 1.x API ----------------------------------------------------------------------------------------
@export(v1=["summary.all_v2_summary_ops"])
def all_v2_summary_ops() -> Any:
    """The ops of 2.x summaries in the default graph; None in eager mode.

    Returns:
        A list of ops, or None.

    >>> with tf.Graph().as_default(), tf.contrib.summary.always_record_summaries():
    ...     with tf.contrib.summary.create_file_writer("log").as_default():
    ...         _ = tf.contrib.summary.scalar("loss", 0.5, step=1)
    ...     print(len(tf.contrib.summary.all_summary_ops()))
    1
    """
    if context.executing_eagerly():
        return None
    return context.current_graph().get_collection(GraphKeys._SUMMARY_COLLECTION)


@export(v1=["summary.initialize"])
def initialize(graph: Any = None, session: Any = None) -> None:
    """Opens the files of the default graph's writers in a session, and writes `graph`."""
    if context.executing_eagerly():
        return
    if state.writer is None:
        raise RuntimeError("No default tf.contrib.summary.SummaryWriter found")
    if session is None:
        session = get_default_session()
        if session is None:
            raise ValueError("Argument `session must be passed if no default session exists")
    session.run(context.current_graph().get_collection(_INITIALIZERS))
    if graph is not None:
        data = graph.as_graph_def(add_shapes=True).SerializeToString()
        handle = state.writer._resource
        session.run(get("WriteGraphSummary")(handle, constant(0, dtype=dtypes.int64), data))
