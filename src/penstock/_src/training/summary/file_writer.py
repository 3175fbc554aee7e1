"""tf.summary.FileWriter: writes summaries, graphs, session logs and run metadata to an event file."""
from __future__ import annotations

import threading
import time
import warnings
from typing import Any

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.graph import Graph
from penstock._src.graph.messages import Event, GraphDef, SessionLog, Summary, TaggedRunMetadata
from penstock._src.graph.meta_graph import create_meta_graph_def
from penstock._src.graph.node import Tensor
from penstock._src.io import paths
from penstock._src.io.events import EventsWriter
from penstock._src.ops.io.summary_writer import SummaryWriterResource

_PLUGINS_DIR = "plugins"


@export(v1=["summary.FileWriter"])
class FileWriter:
    """Writes an event file in a directory.

    Args:
        logdir: Directory for the event file.
        graph: Graph to write at once.
        max_queue: How many events may wait before `add_summary` writes them.
        flush_secs: Seconds after which waiting events are written.
        graph_def: Old form of `graph`.
        filename_suffix: End of the file's name.
        session: Session whose ops write the events.

    >>> with tf.Graph().as_default(), tf.Session() as sess, tf.summary.FileWriter("log", sess.graph) as writer:
    ...     merged = tf.summary.scalar("loss", 0.5)
    ...     writer.add_summary(sess.run(merged), global_step=10)
    >>> len(tf.io.gfile.listdir("log"))
    1

    Writers with the same directory and `session` write to the same file.
    """

    def __init__(self, logdir: Any, graph: Any = None, max_queue: int = 10, flush_secs: float = 120, graph_def: Any = None,
                 filename_suffix: str | None = None, session: Any = None):
        if context.executing_eagerly():
            raise RuntimeError("tf.summary.FileWriter is not compatible with eager execution. Use "
                               "tf.summary.create_file_writer instead.")
        if session is not None:
            name = f"logdir:{paths.as_text(logdir)}"
            shared = session._resources.get_or_create("", name, SummaryWriterResource, lambda: SummaryWriterResource(name))
            if shared.events is None:
                shared.events = EventsWriter(logdir, max_queue, flush_secs, filename_suffix or "")
            self.event_writer: EventsWriter = shared.events
        else:
            self.event_writer = EventsWriter(logdir, max_queue, flush_secs, filename_suffix or "")
        self._closed = False
        self._tags: set[str] = set()
        if graph is not None or graph_def is not None:
            self.add_graph(graph=graph, graph_def=graph_def)
            given = graph if isinstance(graph, Graph) else None
            message = given.as_graph_def(add_shapes=True) if given is not None else graph_def or graph
            self.add_meta_graph(create_meta_graph_def(graph_def=message))

    def get_logdir(self) -> str:
        """The directory."""
        return self.event_writer.logdir

    def _warn_if_closed(self) -> None:
        if self._closed:
            warnings.warn("Attempting to use a closed FileWriter. The operation will be a noop unless the FileWriter is "
                          "explicitly reopened.", UserWarning, stacklevel=3)

    def add_event(self, event: Any) -> None:
        """Adds an Event message."""
        self._warn_if_closed()
        self.event_writer.add(event)

    def _add(self, event: Any, global_step: Any) -> None:
        event.wall_time = time.time()
        if global_step is not None:
            event.step = int(global_step)
        self.event_writer.add(event)

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Adds a summary: the value of a summary op, or a Summary message."""
        self._warn_if_closed()
        if isinstance(summary, bytes):
            summary = Summary.FromString(summary)
        if isinstance(summary, Tensor):
            raise AttributeError(f"add_summary takes the value of a summary, not the op that computes it ({summary.name}): "
                                 "pass session.run(summary).")
        if not isinstance(summary, Summary):
            summary = Summary.FromString(summary.SerializeToString())
        self.event_writer.add_summary(summary, global_step)

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Adds a SessionLog message."""
        self._warn_if_closed()
        self._add(Event(session_log=SessionLog.FromString(session_log.SerializeToString())), global_step)

    def add_graph(self, graph: Any = None, global_step: Any = None, graph_def: Any = None) -> None:
        """Adds a graph."""
        self._warn_if_closed()
        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        if isinstance(graph, Graph):
            message = graph.as_graph_def(add_shapes=True)
            self._write_plugin_assets(graph)
        elif isinstance(graph, GraphDef) or isinstance(graph_def, GraphDef):
            logging.warning("Passing a `GraphDef` to the SummaryWriter is deprecated. Pass a `Graph` object instead, such as "
                            "`sess.graph`.")
            message = graph_def if graph is None else graph
        else:
            raise TypeError("The passed graph must be an instance of `Graph` or the deprecated `GraphDef`")
        self._add(Event(graph_def=message.SerializeToString()), global_step)

    def _write_plugin_assets(self, graph: Any) -> None:
        for name in graph.get_collection("__tensorflow_plugin_asset_names") or ():
            for asset in graph.get_collection(f"__tensorflow_plugin_asset_{name}"):
                for file, content in asset.assets().items():
                    data = content.encode() if isinstance(content, str) else content
                    folder = paths.join(paths.join(self.get_logdir(), _PLUGINS_DIR), asset.plugin_name)
                    paths.write_atomically(paths.join(folder, file), data)

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        """Adds a MetaGraphDef message."""
        self._warn_if_closed()
        if getattr(getattr(meta_graph_def, "DESCRIPTOR", None), "name", None) != "MetaGraphDef":
            raise TypeError(f"meta_graph_def must be type MetaGraphDef, saw type: {type(meta_graph_def)}")
        self._add(Event(meta_graph_def=meta_graph_def.SerializeToString()), global_step)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Adds the RunMetadata of a step, under a tag that is used once."""
        self._warn_if_closed()
        if tag in self._tags:
            raise ValueError("The provided tag was already used for this event type")
        self._tags.add(tag)
        self._add(Event(tagged_run_metadata=TaggedRunMetadata(tag=tag, run_metadata=run_metadata.SerializeToString())),
                  global_step)

    def flush(self) -> None:
        """Flushes pending events to the file."""
        self._warn_if_closed()
        self.event_writer.flush()

    def close(self) -> None:
        """Closes the file."""
        if not self._closed:
            self.event_writer.close()
            self._closed = True

    def reopen(self) -> None:
        """Starts a new file after close."""
        self.event_writer.reopen()
        self._closed = False

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self.close()


@export(v1=["summary.FileWriterCache"])
class FileWriterCache:
    """One FileWriter per directory, for the whole process."""

    _cache: dict[str, FileWriter] = {}
    _lock = threading.RLock()

    @staticmethod
    def clear() -> None:
        """Closes and removes all writers."""
        with FileWriterCache._lock:
            for writer in FileWriterCache._cache.values():
                if writer:
                    writer.close()
            FileWriterCache._cache = {}

    @staticmethod
    def get(logdir: str) -> FileWriter:
        """The writer of a directory."""
        with FileWriterCache._lock:
            if logdir not in FileWriterCache._cache:
                FileWriterCache._cache[logdir] = FileWriter(logdir, graph=context.current_graph())
            return FileWriterCache._cache[logdir]
