"""Batches of elements of about the same size: a queue for each bucket, and one for their batches."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf

_CLOSED = (tf.errors.OutOfRangeError, tf.errors.CancelledError)


@export(v1=["contrib.training.bucket"])
def bucket(tensors: Any, which_bucket: Any, batch_size: Any, num_buckets: int, num_threads: int = 1, capacity: int = 32,
           bucket_capacities: Any = None, shapes: Any = None, dynamic_pad: bool = False,
           allow_smaller_final_batch: bool = False, keep_input: Any = True, shared_name: str | None = None,
           name: str | None = None) -> tuple[Tensor, Any]:
    """Batches of elements with the same `which_bucket`: returns the bucket and the batch.

    >>> bucket, batch = tf.contrib.training.bucket([x], which_bucket=length // 10, batch_size=32, num_buckets=5)
    """
    if num_buckets < 1:
        raise ValueError("num_buckets must be >= 1")
    sizes = list(batch_size) if isinstance(batch_size, (list, tuple)) else [batch_size] * num_buckets
    if len(sizes) != num_buckets:
        raise ValueError(f"A list of batch sizes needs one for each bucket, got {len(sizes)} of {num_buckets}")
    capacities = [capacity] * num_buckets if bucket_capacities is None else list(bucket_capacities)
    if len(capacities) != num_buckets:
        raise ValueError(f"The list bucket_capacities must have exactly num_buckets ({num_buckets}) elements.")
    names = sorted(tensors) if isinstance(tensors, dict) else None
    flat = [tf.convert_to_tensor(t) for t in ([tensors[n] for n in names] if names else tensors)]
    with tf.name_scope(name, "bucket", flat):
        static = [t.shape for t in flat] if shapes is None else [tf.TensorShape(s) for s in shapes]
        types = [t.dtype for t in flat]
        kind = tf.PaddingFIFOQueue if dynamic_pad else tf.FIFOQueue
        queues = [kind(c, types, shapes=static, name=f"bucket_queue_{i}") for i, c in enumerate(capacities)]
        batched = [tf.TensorShape([None if allow_smaller_final_batch or len(set(sizes)) > 1 else sizes[0]]).concatenate(s)
                   for s in static]
        top = tf.FIFOQueue(capacity, [tf.int32, *types], shared_name=shared_name, name="top_queue")
        _fill(queues, flat, which_bucket, keep_input, num_threads)
        _empty(queues, top, sizes, allow_smaller_final_batch)
        tf.summary.scalar(f"bucket/{top.name}/fraction_of_{capacity}_full", tf.cast(top.size(), tf.float32) * (1.0 / capacity))
        which, *out = top.dequeue(name=name)
        which.set_shape([])
        for t, shape in zip(out, batched, strict=True):
            t.set_shape(shape)
        return which, dict(zip(names, out, strict=True)) if names else out


def _fill(queues: list, flat: list[Tensor], which_bucket: Any, keep_input: Any, num_threads: int) -> None:
    """Runners that put each element into the queue of its bucket."""
    which = tf.convert_to_tensor(which_bucket, tf.int32)

    def put() -> Any:
        cases = [(tf.equal(which, i), lambda q=q: q.enqueue(flat)) for i, q in enumerate(queues)]
        chosen = [tf.cond(condition, lambda e=enqueue: tf.group(e()), tf.no_op) for condition, enqueue in cases]
        return tf.group(*chosen)

    keep = tf.convert_to_tensor(keep_input)
    enqueue = put() if tf.get_static_value(keep) else tf.cond(keep, lambda: tf.group(put()), tf.no_op)
    tf.train.add_queue_runner(tf.train.QueueRunner(
        queues[0], [enqueue] * num_threads, close_op=tf.group(*[q.close() for q in queues]),
        cancel_op=tf.group(*[q.close(cancel_pending_enqueues=True) for q in queues]), queue_closed_exception_types=_CLOSED))


def _empty(queues: list, top: Any, sizes: list, smaller: bool) -> None:
    """Runners that move full batches to the queue on top."""
    moves = []
    for i, (queue, size) in enumerate(zip(queues, sizes, strict=True)):
        batch = queue.dequeue_up_to(size) if smaller else queue.dequeue_many(size)
        moves.append(top.enqueue([tf.constant(i), *(batch if isinstance(batch, (list, tuple)) else [batch])]))
    tf.train.add_queue_runner(tf.train.QueueRunner(top, moves, queue_closed_exception_types=_CLOSED))


@export(v1=["contrib.training.bucket_by_sequence_length"])
def bucket_by_sequence_length(input_length: Any, tensors: Any, batch_size: Any, bucket_boundaries: Any, num_threads: int = 1,
                              capacity: int = 32, bucket_capacities: Any = None, shapes: Any = None,
                              dynamic_pad: bool = False, allow_smaller_final_batch: bool = False, keep_input: Any = True,
                              shared_name: str | None = None, name: str | None = None) -> tuple[Tensor, Any]:
    """Batches of sequences whose lengths are between the same boundaries: returns their lengths and the batch."""
    if not isinstance(bucket_boundaries, (list, tuple)):
        raise TypeError(f"bucket_boundaries must be a list or tuple, but received: {bucket_boundaries}")
    if not bucket_boundaries:
        raise ValueError("bucket_boundaries must not be empty")
    if any(b >= a for b, a in zip(bucket_boundaries, bucket_boundaries[1:], strict=False)):
        raise ValueError(f"Bucket boundaries must increase: {bucket_boundaries}")
    with tf.name_scope(name, "bucket_by_sequence_length"):
        length = tf.cast(tf.convert_to_tensor(input_length), tf.int32)
        which = tf.reduce_sum(tf.cast(length >= np.array(bucket_boundaries, np.int32), tf.int32))
        named = isinstance(tensors, dict)
        keys = sorted(tensors) if named else None
        flat = [length, *([tensors[k] for k in keys] if named else tensors)]
        _, out = bucket(flat, which, batch_size, len(bucket_boundaries) + 1, num_threads, capacity, bucket_capacities,
                        None if shapes is None else [tf.TensorShape([]), *shapes], dynamic_pad, allow_smaller_final_batch,
                        keep_input, shared_name)
        return out[0], dict(zip(keys, out[1:], strict=True)) if named else out[1:]
