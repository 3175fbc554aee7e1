"""tf.staged: tensors that threads compute ahead of the step that uses them, and the hook that starts these threads."""
from __future__ import annotations

from typing import Any

from penstock._src.base import errors, nest
from penstock._src.base.api import export
from penstock._src.training.train.hooks.base import SessionRunHook
from penstock._src.training.train.queue_runner import QueueRunner, start_queue_runners
from penstock.compat import v1 as tf

_KEPT = "staged_runners"         # the collection of a graph's runners
_CLOSING = {errors.OUT_OF_RANGE: errors.OutOfRangeError}


@export(v1=["staged"])
def staged(features: Any, feed_dict: Any = None, capacity: int = 1, num_threads: int = 1, num_clients: int = 1,
           timeout_millis: int = 300_000, closed_exception_types: Any = (errors.OUT_OF_RANGE,),
           ignored_exception_types: Any = (), use_stage_subgraph_thread_pool: bool = False,
           stage_subgraph_thread_pool_id: int = 0, stage_subgraph_stream_id: int = 0, name: str | None = None) -> Any:
    """Tensors that threads compute ahead, so that a step finds them in a queue. `tf.make_prefetch_hook` starts the threads.

    Args:
        features: A structure of tensors.
        feed_dict: None or empty.
        capacity: How many results wait at most.
        num_threads: Number of threads. With more than one, the order of results may change.
        closed_exception_types: Codes of errors after which the queue is closed: `tf.errors.OUT_OF_RANGE`.
        name: Name of the queue.

    The other arguments choose threads and limits of DeepRec, and are unused.

    >>> features = tf.staged(iterator.get_next(), capacity=4)
    >>> with tf.train.MonitoredTrainingSession(hooks=[tf.make_prefetch_hook()]) as sess: sess.run(train)
    """
    if feed_dict:
        raise ValueError("staged does not take a feed_dict: its threads run without feeds")
    unknown = [code for code in closed_exception_types if code not in _CLOSING]
    if unknown:
        raise ValueError(f"closed_exception_types must be tf.errors.OUT_OF_RANGE, got {unknown}")
    flat = nest.flatten(features, expand_composites=True)
    with tf.name_scope(name, "staged", flat):
        queue = tf.FIFOQueue(max(1, capacity), [t.dtype for t in flat])
        runner = QueueRunner(queue, [queue.enqueue(flat)] * max(1, num_threads),
                             queue_closed_exception_types=tuple(_CLOSING[c] for c in closed_exception_types))
        tf.add_to_collection(_KEPT, runner)
        found = queue.dequeue()
        found = list(found) if len(flat) > 1 else [found]
        for made, given in zip(found, flat, strict=True):
            made.set_shape(given.shape)
        return nest.pack_sequence_as(features, found, expand_composites=True)


@export(v1=["make_prefetch_hook"])
def make_prefetch_hook() -> SessionRunHook:
    """A hook that starts the threads of `tf.staged` in a session.

    >>> hooks = [tf.make_prefetch_hook()]
    """
    return _Starts()


class _Starts(SessionRunHook):
    """Starts threads when a session exists."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Starts the threads of all staged tensors."""
        start_queue_runners(session, coord, collection=_KEPT)
