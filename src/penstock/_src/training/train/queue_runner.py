"""Threads that fill queues: they run the enqueue ops until the input ends, then close the queue."""
from __future__ import annotations

import contextlib
import operator
import threading
import time
import weakref
from typing import Any

from penstock._src.base import errors, tf_logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys, add_to_collection, get_collection, register_proto_function
from penstock._src.graph.context import get_default_session
from penstock._src.graph.messages import QueueRunnerDef
from penstock._src.graph.scopes import prepend_name_scope, strip_name_scope
from penstock._src.session.session import BaseSession
from penstock._src.state.checkpoint.saver import import_meta_graph

_NOT_EAGER = "QueueRunners are not supported when eager execution is enabled. Instead, please use tf.data to get data into " \
             "your model."


@export(v1=["train.queue_runner.QueueRunner", "train.QueueRunner"])
class QueueRunner:
    """Runs each enqueue op of a queue on its own thread.

    When all of them are at the end of their input (one of `queue_closed_exception_types`), the queue is closed; when the
    coordinator stops, pending enqueues are cancelled.

    Args:
        queue: Queue to fill.
        enqueue_ops: Ops, each of which runs on a thread.
        close_op: Op that closes the queue; made by default.
        cancel_op: Op that closes the queue and cancels what waits; made by default.
        queue_closed_exception_types: Exceptions that end a thread normally; `OutOfRangeError` by default.
        queue_runner_def: Message to build the runner from, instead of the arguments above.
        import_scope: Prefix of the names in that message.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     queue = tf.FIFOQueue(10, tf.float32)
    ...     runner = tf.train.QueueRunner(queue, [queue.enqueue(1.)] * 2)
    ...     coord = tf.train.Coordinator()
    ...     threads = runner.create_threads(sess, coord=coord, start=True)
    ...     print(sess.run(queue.dequeue()))
    ...     coord.request_stop()
    ...     coord.join(threads)
    1.0
    """

    def __init__(self, queue: Any = None, enqueue_ops: Any = None, close_op: Any = None, cancel_op: Any = None,
                 queue_closed_exception_types: Any = None, queue_runner_def: Any = None, import_scope: str | None = None):
        if context.executing_eagerly():
            raise RuntimeError(_NOT_EAGER)
        if queue_runner_def is not None:
            if queue or enqueue_ops:
                raise ValueError("queue_runner_def and queue are mutually exclusive.")
            self._from_message(queue_runner_def, import_scope)
        else:
            self._from_arguments(queue, enqueue_ops, close_op, cancel_op, queue_closed_exception_types)
        self._lock = threading.Lock()
        self._runs_per_session: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._exceptions_raised: list[BaseException] = []

    def _from_arguments(self, queue: Any, enqueue_ops: Any, close_op: Any, cancel_op: Any, closed_types: Any) -> None:
        if not queue or not enqueue_ops:
            raise ValueError("A QueueRunner needs a queue and enqueue_ops.")
        if closed_types is not None and (not isinstance(closed_types, tuple) or not closed_types or not all(
                issubclass(t, errors.OpError) for t in closed_types)):
            raise TypeError("queue_closed_exception_types, when provided, must be a tuple of tf.error types, but saw: "
                            f"{closed_types}")
        self._queue, self._enqueue_ops = queue, enqueue_ops
        self._close_op = queue.close() if close_op is None else close_op
        self._cancel_op = queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
        self._closed_types = closed_types or (errors.OutOfRangeError,)

    def _from_message(self, message: Any, import_scope: str | None) -> None:
        graph = context.current_graph()

        def element(name: str) -> Any:
            return graph.as_graph_element(prepend_name_scope(name, import_scope))
        self._queue = element(message.queue_name)
        self._enqueue_ops = [element(n) for n in message.enqueue_op_name]
        self._close_op, self._cancel_op = element(message.close_op_name), element(message.cancel_op_name)
        self._closed_types = tuple(map(errors.exception_type_from_error_code, message.queue_closed_exception_types)) or \
            (errors.OutOfRangeError,)

    queue = property(operator.attrgetter("_queue"), doc="The queue.")
    enqueue_ops = property(operator.attrgetter("_enqueue_ops"), doc="The ops that fill the queue.")
    close_op = property(operator.attrgetter("_close_op"), doc="The op that closes the queue at the end of the input.")
    cancel_op = property(operator.attrgetter("_cancel_op"), doc="The op that ends pending enqueues.")
    queue_closed_exception_types = property(operator.attrgetter("_closed_types"), doc="Errors that mean the end of the input.")
    exceptions_raised = property(operator.attrgetter("_exceptions_raised"), doc="Errors of threads without a coordinator.")
    name = property(lambda self: self._queue.name, doc="The name of the queue.")

    def create_threads(self, sess: Any, coord: Any = None, daemon: bool = False, start: bool = False) -> list:
        """The threads that run the enqueue ops in `sess`; none if such threads are running already."""
        with self._lock:
            if self._runs_per_session.get(sess, 0) > 0:
                return []
            self._runs_per_session[sess] = len(self._enqueue_ops)
            self._exceptions_raised = []
        threads = [threading.Thread(target=self._run, args=(sess, op, coord), daemon=daemon,
                                    name=f"QueueRunnerThread-{self.name}-{op.name}") for op in self._enqueue_ops]
        if coord:
            threads.append(threading.Thread(target=self._close_on_stop, args=(sess, coord), daemon=daemon,
                                            name=f"QueueRunnerThread-{self.name}-close_on_stop"))
        for t in threads:
            if coord:
                coord.register_thread(t)
            if start:
                t.start()
        return threads

    def _run(self, sess: Any, enqueue_op: Any, coord: Any) -> None:
        """The work of one thread."""
        at_end = False
        try:
            enqueue = sess.make_callable(enqueue_op)
            while not (coord and coord.should_stop()):
                try:
                    enqueue()
                except self._closed_types:
                    at_end = True
                    return
        except BaseException as e:                   # also SystemExit of a Python function: others wait for this queue
            if coord:
                coord.request_stop(e)
                return
            tf_logging.error("Exception in QueueRunner: %s", e)
            with self._lock:
                self._exceptions_raised.append(e)
            raise
        finally:
            with self._lock:
                self._runs_per_session[sess] -= 1
                if at_end and not self._runs_per_session[sess]:
                    with contextlib.suppress(Exception):         # closed already, or the session is
                        sess.run(self._close_op)

    def _close_on_stop(self, sess: Any, coord: Any) -> None:
        coord.wait_for_stop()
        with contextlib.suppress(Exception):
            sess.run(self._cancel_op)
            while self._runs_per_session.get(sess, 0) > 0:       # an enqueue may have just started, and wait for another op
                time.sleep(0.1)
                sess.run(self._cancel_op)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The QueueRunnerDef message; None if the queue is not in `export_scope`."""
        if export_scope is not None and not self.queue.name.startswith(export_scope):
            return None
        return QueueRunnerDef(
            queue_name=strip_name_scope(self.queue.name, export_scope),
            enqueue_op_name=[strip_name_scope(op.name, export_scope) for op in self.enqueue_ops],
            close_op_name=strip_name_scope(self.close_op.name, export_scope),
            cancel_op_name=strip_name_scope(self.cancel_op.name, export_scope),
            queue_closed_exception_types=[errors.error_code_from_exception_type(t) for t in self._closed_types])

    @staticmethod
    def from_proto(queue_runner_def: Any, import_scope: str | None = None) -> QueueRunner:
        """The queue runner that a QueueRunnerDef describes, in the default graph."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


@export(v1=["train.queue_runner.add_queue_runner", "train.add_queue_runner"])
def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Adds a queue runner to a collection of the graph, for start_queue_runners()."""
    add_to_collection(collection, qr)


@export(v1=["train.queue_runner.start_queue_runners", "train.start_queue_runners"])
def start_queue_runners(sess: Any = None, coord: Any = None, daemon: bool = True, start: bool = True,
                        collection: str = GraphKeys.QUEUE_RUNNERS) -> list:
    """Starts the threads of all queue runners of the graph, and returns them.

    Args:
        sess: Session, by default the current one.
        coord: Coordinator that stops the threads.
        daemon: Whether the threads end with the program.
        start: Whether to start the threads or only make them.
        collection: Collection with the queue runners.

    Returns:
        A list of threads.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     x = tf.train.string_input_producer(["a", "b"], shuffle=False).dequeue()
    ...     coord = tf.train.Coordinator()
    ...     threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    ...     print(sess.run(x), sess.run(x))
    ...     coord.request_stop()
    ...     coord.join(threads)
    b'a' b'b'
    """
    if context.executing_eagerly():
        raise RuntimeError("Queues are not compatible with eager execution.")
    if sess is None:
        sess = get_default_session()
        if sess is None:
            raise ValueError("Cannot start queue runners: No default session is registered. Use `with sess.as_default()` or "
                             "pass an explicit session to tf.start_queue_runners(sess=sess)")
    if not isinstance(sess, BaseSession):
        if type(sess).__name__ in ("MonitoredSession", "SingularMonitoredSession"):
            return []                                  # it has started them itself
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {type(sess)}")
    runners = get_collection(collection)
    if not runners:
        tf_logging.warning("`tf.train.start_queue_runners()` was called when no queue runners were defined. You can safely "
                           "remove the call.")
    with sess.graph.as_default():
        return [t for qr in runners for t in qr.create_threads(sess, coord=coord, daemon=daemon, start=start)]


register_proto_function(GraphKeys.QUEUE_RUNNERS, QueueRunnerDef, QueueRunner.to_proto, QueueRunner.from_proto)
export.value(import_meta_graph, v1=["train.import_meta_graph"])       # here, because a file may have queue runners in it
