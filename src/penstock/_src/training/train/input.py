"""Input pipelines of queues: producers of names, numbers and slices; batches, shuffled or not, of one or several readers.

    filenames = tf.train.string_input_producer(["a.csv", "b.csv"], num_epochs=10)      queue of names, filled by a thread
    _, line = tf.TextLineReader().read(filenames)
    x, y = tf.train.shuffle_batch(tf.decode_csv(line, …), 32, 2000, 1000, num_threads=4)   queue of examples, four threads

Every queue here has a QueueRunner in the graph's collection; `start_queue_runners` starts them. Sparse tensors are queued as
handles of a map that holds them (`SparseColumns`).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.ops.sparse import sparse_map
from penstock._src.ops.state.queue_classes import FIFOQueue, PaddingFIFOQueue, RandomShuffleQueue
from penstock._src.training.train.queue_runner import QueueRunner, add_queue_runner
from penstock.compat import v1 as tf

_NOT_EAGER = "Input pipelines based on Queues are not supported when eager execution is enabled. Please use tf.data to " \
             "ingest data into your model instead."


# -- producers --------------------------------------------------------------------------------------------------------
@export("io.match_filenames_once", v1=["train.match_filenames_once"])
def match_filenames_once(pattern: Any, name: str | None = None) -> Any:
    """A local variable with the names of the files that match `pattern` when it is initialized.

    Args:
        pattern: Pattern of file names, or a list of them.
        name: Name of the operation.

    Returns:
        A variable. It belongs to the local variables, so run `tf.local_variables_initializer()` first.

    >>> for name in ("a.csv", "b.csv"):
    ...     open(name, "w").close()
    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     names = tf.io.match_filenames_once("./*.csv")
    ...     sess.run(tf.compat.v1.local_variables_initializer())
    ...     print(sorted(sess.run(names)))
    [b'./a.csv', b'./b.csv']
    """
    with tf.name_scope(name, "matching_filenames", [pattern]) as name:
        return tf.Variable(tf.matching_files(pattern), trainable=False, validate_shape=False, name=name,
                           collections=[GraphKeys.LOCAL_VARIABLES])


@export(v1=["train.limit_epochs"])
def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Any:
    """`tensor`, `num_epochs` times; then OutOfRangeError. Counts in a local variable, which must be initialized."""
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with tf.name_scope(name, "limit_epochs", [tensor]) as name:
        epochs = tf.Variable(tf.constant(0, tf.int64), name="epochs", trainable=False,
                             collections=[GraphKeys.LOCAL_VARIABLES])
        with tf.control_dependencies([epochs.count_up_to(num_epochs)]):
            return tf.identity(tensor, name=name)


@export(v1=["train.input_producer"])
def input_producer(input_tensor: Any, element_shape: Any = None, num_epochs: int | None = None, shuffle: bool = True,
                   seed: int | None = None, capacity: int = 32, shared_name: str | None = None,
                   summary_name: str | None = None, name: str | None = None, cancel_op: Any = None) -> FIFOQueue:
    """A queue of the rows of a tensor, repeated without end or for `num_epochs`, shuffled again in each epoch."""
    if context.executing_eagerly():
        raise RuntimeError(_NOT_EAGER)
    with tf.name_scope(name, "input_producer", [input_tensor]):
        rows = convert(input_tensor, name="input_tensor")
        shape = rows.shape[1:].merge_with(element_shape)
        if not shape.is_fully_defined():
            raise ValueError("Either `input_tensor` must have a fully defined shape or `element_shape` must be specified")
        rows = limit_epochs(tf.random_shuffle(rows, seed=seed) if shuffle else rows, num_epochs)
        queue = FIFOQueue(capacity, [rows.dtype.base_dtype], [shape], shared_name=shared_name, name=name or "fifo_queue")
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([rows])], cancel_op=cancel_op))
        if summary_name is not None:
            _report(summary_name, tf.cast(queue.size(), tf.float32) * (1. / capacity))
        return queue


@export(v1=["train.string_input_producer"])
def string_input_producer(string_tensor: Any, num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None,
                          capacity: int = 32, shared_name: str | None = None, name: str | None = None,
                          cancel_op: Any = None) -> FIFOQueue:
    """A queue of strings (names of files), repeated without end or for `num_epochs`.

    Args:
        string_tensor: Vector of strings.
        num_epochs: How many times to go over the data; without end by default.
        shuffle: Whether to mix the strings in each epoch.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        capacity: The largest number of elements in the queue.
        shared_name: Name under which other sessions of the same cluster find the resource.
        name: Name of the operation.
        cancel_op: Op that cancels the queue.

    Returns:
        A queue, filled by a queue runner.

    Raises:
        ValueError: if `string_tensor` is an empty list.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     name = tf.train.string_input_producer(["a.csv", "b.csv"], shuffle=False).dequeue()
    ...     coord = tf.train.Coordinator()
    ...     threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    ...     print(sess.run(name), sess.run(name), sess.run(name))
    ...     coord.request_stop()
    ...     coord.join(threads)
    b'a.csv' b'b.csv' b'a.csv'
    """
    if context.executing_eagerly():
        raise RuntimeError(_NOT_EAGER)
    missing = "string_input_producer requires a non-null input tensor"
    if not isinstance(string_tensor, Tensor) and not hasattr(string_tensor, "value") and not len(string_tensor):
        raise ValueError(missing)
    with tf.name_scope(name, "input_producer", [string_tensor]) as name:
        strings = convert(string_tensor, tf.string)
        with tf.control_dependencies([tf.Assert(tf.greater(tf.size(strings), 0), [missing])]):
            strings = tf.identity(strings)
        return input_producer(strings, [], num_epochs, shuffle, seed, capacity, shared_name, f"fraction_of_{capacity}_full",
                              name, cancel_op)


@export(v1=["train.range_input_producer"])
def range_input_producer(limit: Any, num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None,
                         capacity: int = 32, shared_name: str | None = None, name: str | None = None) -> FIFOQueue:
    """A queue of the numbers from 0 to limit - 1, repeated without end or for `num_epochs`.

    Args:
        limit: End of the numbers, which is not included.
        num_epochs: How many times to go over the data; without end by default.
        shuffle: Whether to mix the numbers in each epoch.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        capacity: The largest number of elements in the queue.
        shared_name: Name under which other sessions of the same cluster find the resource.
        name: Name of the operation.

    Returns:
        A queue, filled by a queue runner.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     i = tf.train.range_input_producer(3, shuffle=False).dequeue()
    ...     coord = tf.train.Coordinator()
    ...     threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    ...     print(sess.run(i), sess.run(i), sess.run(i), sess.run(i))
    ...     coord.request_stop()
    ...     coord.join(threads)
    0 1 2 0
    """
    with tf.name_scope(name, "input_producer", [limit]) as name:
        return input_producer(tf.range(limit), [], num_epochs, shuffle, seed, capacity, shared_name,
                              f"fraction_of_{capacity}_full", name)


@export(v1=["train.slice_input_producer"])
def slice_input_producer(tensor_list: Any, num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None,
                         capacity: int = 32, shared_name: str | None = None, name: str | None = None) -> list:
    """One row of each tensor, in each step another; repeated without end or for `num_epochs`.

    Args:
        tensor_list: Tensors with a common first axis.
        num_epochs: How many times to go over the data; without end by default.
        shuffle: Whether to mix the rows in each epoch.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        capacity: The largest number of elements in the queue.
        shared_name: Name under which other sessions of the same cluster find the resource.
        name: Name of the operation.

    Returns:
        A list of tensors: one row of each.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     x, y = tf.train.slice_input_producer([[1, 2, 3], [10, 20, 30]], shuffle=False)
    ...     coord = tf.train.Coordinator()
    ...     threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    ...     print(sess.run([x, y]), sess.run([x, y]))
    ...     coord.request_stop()
    ...     coord.join(threads)
    [np.int32(1), np.int32(10)] [np.int32(2), np.int32(20)]
    """
    with tf.name_scope(name, "input_producer", tensor_list):
        tensors = [convert(t) for t in tensor_list]
        if not tensors:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        queue = range_input_producer(tf.shape(tensors[0])[0], num_epochs, shuffle, seed, capacity, shared_name)
        index = queue.dequeue()
        return [tf.gather(t, index) for t in tensors]


def _report(name: str, value: Tensor) -> None:
    """A summary of the fill level of a queue."""
    tf.summary.scalar(name, value)


# -- sparse tensors in queues -------------------------------------------------------------------------------------------
class SparseColumns:
    """Which columns of an example are sparse, and the op whose map keeps them. Several readers share the maps."""

    def __init__(self, row: list, enqueue_many: bool):
        self._enqueue_many = enqueue_many
        self._ranks = [self._rank(t) for t in row]
        self._maps: list = [None] * len(row)

    def _rank(self, t: Any) -> int | None:
        """The rank of an element; -1 if the column is not sparse, None if it is not known."""
        if not isinstance(t, SparseTensor):
            return -1
        size = t.dense_shape.shape.with_rank(1).as_list()[0]
        return None if size is None else size - 1 if self._enqueue_many else size

    def store(self, row: list, keep: Tensor) -> list:
        """The row with handles, shaped [.., 1], in place of sparse tensors."""
        ranks = [self._rank(t) for t in row]
        if any((a == -1) != (b == -1) or None not in (a, b) and a != b for a, b in zip(ranks, self._ranks, strict=True)):
            raise ValueError(f"Inconsistent SparseTensors list: {row} has sparse tensors of ranks {ranks}, the first has "
                             f"{self._ranks}")
        self._ranks = [a if b is None else b for a, b in zip(ranks, self._ranks, strict=True)]
        return [self._store(i, t, keep) if isinstance(t, SparseTensor) else t for i, t in enumerate(row)]

    def _store(self, i: int, t: SparseTensor, keep: Tensor) -> Tensor:
        shared = self._maps[i].name if self._maps[i] is not None else None
        many = self._enqueue_many
        put = sparse_map.add_many_sparse_to_tensors_map if many else sparse_map.add_sparse_to_tensors_map
        made: list = []

        def stored() -> Tensor:
            made.append(put(t, shared_name=shared))
            return made[-1]

        def nothing() -> Tensor:
            return -tf.ones(tf.shape(t)[:1], tf.int64) if many else tf.constant(-1, tf.int64)
        if keep.shape.rank == 1:
            t = tf.sparse_retain(t, tf.gather(keep, t.indices[:, 0]))
        handles = stored() if keep.shape.rank == 1 else _if(keep, stored, nothing)
        if self._maps[i] is None and made:
            self._maps[i] = made[0].op
        if many:
            handles.set_shape([None])
        return tf.expand_dims(handles, [-1])

    def restore(self, columns: Any) -> Any:
        """Columns out of the queue, sparse tensors again."""
        if not any(r != -1 for r in self._ranks):
            return columns
        single = not isinstance(columns, (list, tuple))
        found = [c if rank == -1 else sparse_map.take_many_sparse_from_tensors_map(
            made_by, tf.squeeze(c, [1]), rank=None if rank is None else rank + 1)
            for c, rank, made_by in zip([columns] if single else columns, self._ranks, self._maps, strict=True)]
        # A step that needs one column takes all of them, so that nothing stays in a map.
        with tf.control_dependencies([c.values if isinstance(c, SparseTensor) else c for c in found]):
            found = [SparseTensor(*map(tf.identity, (c.indices, c.values, c.dense_shape))) if isinstance(c, SparseTensor)
                     else tf.identity(c) for c in found]
        return found[0] if single else found


def _if(condition: Tensor, then: Callable, other: Callable) -> Any:
    """A conditional, unless the condition is known."""
    known = constant_value(condition)
    return tf.cond(condition, then, other) if known is None else then() if known else other()


# -- batches ----------------------------------------------------------------------------------------------------------
def _rows(tensors_list: Any) -> list[list]:
    """The tensors of each reader as a list; those of dictionaries in the order of their keys."""
    if not tensors_list:
        raise ValueError("Expected at least one set of tensors")
    first = tensors_list[0]
    if isinstance(first, dict):
        if any(set(t) != set(first) for t in tensors_list):
            raise ValueError("All dictionaries in tensors_list must have the same keys")
        tensors_list = [[t[k] for k in sorted(t, key=str)] for t in tensors_list]
    rows = [[t if isinstance(t, SparseTensor) else convert(t) for t in row] for row in tensors_list]
    if not rows[0]:
        raise ValueError("Expected at least one tensor in batch().")
    return rows


def _keep(keep_input: Any, enqueue_many: bool) -> Tensor:
    keep = convert(keep_input)
    if keep.shape.rank is None:
        raise ValueError("`keep_input` dimensions must be known at graph construction.")
    if keep.shape.rank == 1 and not enqueue_many:
        raise ValueError("`keep_input` cannot be a vector when `enqueue_many=False`.")
    if keep.shape.rank > 1:
        raise ValueError("`keep_input` must be 0 or 1 dimensions.")
    return keep


def _types(rows: list[list]) -> list:
    first, *others = [[t.dtype.base_dtype for t in row] for row in rows]
    for types in others:
        if types != first:
            raise TypeError(f"Expected types to be consistent: {', '.join(t.name for t in first)} vs. "
                            f"{', '.join(t.name for t in types)}.")
    return first


def _shapes(rows: list[list], enqueue_many: bool) -> list:
    """The shapes of elements, as the first reader has them; those of the others must fit."""
    shapes = []
    for column in zip(*rows, strict=True):
        for t in column:
            if t.shape.rank is None:
                raise ValueError(f"Cannot infer Tensor's rank: {t}")
        known = [t.shape.with_rank_at_least(1)[1:] if enqueue_many else t.shape for t in column]
        for s in known[1:]:
            known[0].merge_with(s)
        shapes.append(known[0].as_list())
    return shapes


def _enqueue(queue: Any, row: list, keep: Tensor, enqueue_many: bool) -> Any:
    put = queue.enqueue_many if enqueue_many else queue.enqueue
    if keep.shape.rank == 1:
        which = tf.cast(keep, tf.int32)
        return put([tf.dynamic_partition(t, which, 2)[1] for t in row])
    return _if(keep, lambda: put(row), tf.no_op)


class _Plan:
    """The arguments that all functions below have in common."""

    def __init__(self, scope: str, batch_size: Any, keep_input: Any, capacity: int, enqueue_many: bool, shapes: Any,
                 allow_smaller_final_batch: bool, shared_name: str | None, name: str | None, threads: int = 1):
        self.scope, self.batch_size, self.keep_input, self.capacity = scope, batch_size, keep_input, capacity
        self.enqueue_many, self.shapes, self.smaller = enqueue_many, shapes, allow_smaller_final_batch
        self.shared_name, self.name, self.threads = shared_name, name, threads

    def fifo(self, tensors_list: Any, dynamic_pad: bool) -> Any:
        """Batches in the order in which elements come."""
        kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        return self._build(tensors_list, lambda types, shapes: kind(self.capacity, types, shapes, shared_name=self.shared_name),
                           f"fraction_of_{self.capacity}_full", lambda size: tf.cast(size, tf.float32) * (1. / self.capacity))

    def shuffled(self, tensors_list: Any, min_after_dequeue: int, seed: int | None) -> Any:
        """Batches in random order."""
        room = self.capacity - min_after_dequeue
        if room <= 0:
            raise ValueError(f"capacity {self.capacity} must be bigger than min_after_dequeue {min_after_dequeue}.")
        return self._build(tensors_list, lambda types, shapes: RandomShuffleQueue(
            self.capacity, min_after_dequeue, types, shapes, seed=seed, shared_name=self.shared_name),
            f"fraction_over_{min_after_dequeue}_of_{room}_full",
            lambda size: tf.cast(tf.maximum(0, size - min_after_dequeue), tf.float32) * (1. / room))

    def _build(self, tensors_list: Any, make_queue: Callable, summary: str, fullness: Callable) -> Any:
        if context.executing_eagerly():
            raise ValueError(_NOT_EAGER)
        with tf.name_scope(self.name, self.scope) as scope:
            rows = _rows(tensors_list)
            keep = _keep(self.keep_input, self.enqueue_many)
            columns = SparseColumns(rows[0], self.enqueue_many)
            rows = [columns.store(row, keep) for row in rows]
            queue = make_queue(_types(rows), _shapes(rows, self.enqueue_many) if self.shapes is None else self.shapes)
            ops = [_enqueue(queue, row, keep, self.enqueue_many) for row in rows]
            add_queue_runner(QueueRunner(queue, ops * self.threads))
            _report(summary, fullness(queue.size()))
            take = queue.dequeue_up_to if self.smaller else queue.dequeue_many
            return self._like(tensors_list[0], columns.restore(take(self.batch_size, name=scope)))

    @staticmethod
    def _like(given: Any, columns: Any) -> Any:
        if not isinstance(given, dict):
            return columns
        columns = [columns] if len(given) == 1 else columns
        return dict(zip(sorted(given, key=str), columns, strict=True))


@export(v1=["train.batch"])
def batch(tensors: Any, batch_size: Any, num_threads: int = 1, capacity: int = 32, enqueue_many: bool = False,
          shapes: Any = None, dynamic_pad: bool = False, allow_smaller_final_batch: bool = False,
          shared_name: str | None = None, name: str | None = None) -> Any:
    """Batches of examples, which `num_threads` threads put into a queue.

    Args:
        tensors: Tensors of one example: a list or a dictionary.
        batch_size: Number of examples in a batch.
        num_threads: How many threads add to the queue.
        capacity: The largest number of elements in the queue.
        enqueue_many: Whether the tensors hold several examples, along their first axis.
        shapes: Static shapes of the components, if they are known.
        dynamic_pad: Whether examples of different shapes are padded with zeros.
        allow_smaller_final_batch: Whether the last batch may be smaller than the others.
        shared_name: Name under which other sessions of the same cluster find the resource.
        name: Name of the operation.

    Returns:
        Tensors with a batch axis, in the structure of `tensors`.

    Raises:
        OutOfRangeError: when the input ends and fewer than `batch_size` examples are left.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     x = tf.train.range_input_producer(6, shuffle=False).dequeue()
    ...     batch = tf.train.batch([x], batch_size=3)
    ...     coord = tf.train.Coordinator()
    ...     threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    ...     print(sess.run(batch), sess.run(batch))
    ...     coord.request_stop()
    ...     coord.join(threads)
    [0 1 2] [3 4 5]
    """
    return maybe_batch(tensors, True, batch_size, num_threads, capacity, enqueue_many, shapes, dynamic_pad,
                       allow_smaller_final_batch, shared_name, name)


@export(v1=["train.maybe_batch"])
def maybe_batch(tensors: Any, keep_input: Any, batch_size: Any, num_threads: int = 1, capacity: int = 32,
                enqueue_many: bool = False, shapes: Any = None, dynamic_pad: bool = False,
                allow_smaller_final_batch: bool = False, shared_name: str | None = None, name: str | None = None) -> Any:
    """`batch` of the examples for which `keep_input` is true."""
    return _Plan("batch", batch_size, keep_input, capacity, enqueue_many, shapes, allow_smaller_final_batch, shared_name, name,
                 num_threads).fifo([tensors], dynamic_pad)


@export(v1=["train.batch_join"])
def batch_join(tensors_list: Any, batch_size: Any, capacity: int = 32, enqueue_many: bool = False, shapes: Any = None,
               dynamic_pad: bool = False, allow_smaller_final_batch: bool = False, shared_name: str | None = None,
               name: str | None = None) -> Any:
    """Batches of the examples of several readers, each of which has a thread."""
    return maybe_batch_join(tensors_list, True, batch_size, capacity, enqueue_many, shapes, dynamic_pad,
                            allow_smaller_final_batch, shared_name, name)


@export(v1=["train.maybe_batch_join"])
def maybe_batch_join(tensors_list: Any, keep_input: Any, batch_size: Any, capacity: int = 32, enqueue_many: bool = False,
                     shapes: Any = None, dynamic_pad: bool = False, allow_smaller_final_batch: bool = False,
                     shared_name: str | None = None, name: str | None = None) -> Any:
    """`batch_join` of the examples for which `keep_input` is true."""
    return _Plan("batch_join", batch_size, keep_input, capacity, enqueue_many, shapes, allow_smaller_final_batch, shared_name,
                 name).fifo(tensors_list, dynamic_pad)


@export(v1=["train.shuffle_batch"])
def shuffle_batch(tensors: Any, batch_size: Any, capacity: int, min_after_dequeue: int, num_threads: int = 1,
                  seed: int | None = None, enqueue_many: bool = False, shapes: Any = None,
                  allow_smaller_final_batch: bool = False, shared_name: str | None = None, name: str | None = None) -> Any:
    """Batches of examples in random order: each is drawn from a queue that keeps `min_after_dequeue` examples to mix.

    Args:
        tensors: Tensors of one example: a list or a dictionary.
        batch_size: Number of examples in a batch.
        capacity: The largest number of elements in the queue.
        min_after_dequeue: Number of examples that stay in the queue: the more, the better they are mixed.
        num_threads: How many threads add to the queue.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        enqueue_many: Whether the tensors hold several examples, along their first axis.
        shapes: Static shapes of the components, if they are known.
        allow_smaller_final_batch: Whether the last batch may be smaller than the others.
        shared_name: Name under which other sessions of the same cluster find the resource.
        name: Name of the operation.

    Returns:
        Tensors with a batch axis, in the structure of `tensors`.

    Raises:
        OutOfRangeError: when the input ends and fewer than `batch_size` examples are left.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     pair = tf.train.slice_input_producer([[1, 2, 3, 4], [10, 20, 30, 40]])
    ...     x, y = tf.train.shuffle_batch(pair, batch_size=2, capacity=100, min_after_dequeue=4)
    ...     coord = tf.train.Coordinator()
    ...     threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    ...     a, b = sess.run([x, y])
    ...     coord.request_stop()
    ...     coord.join(threads)
    ...     print((b == 10 * a).all())
    True
    """
    return maybe_shuffle_batch(tensors, batch_size, capacity, min_after_dequeue, True, num_threads, seed, enqueue_many, shapes,
                               allow_smaller_final_batch, shared_name, name)


@export(v1=["train.maybe_shuffle_batch"])
def maybe_shuffle_batch(tensors: Any, batch_size: Any, capacity: int, min_after_dequeue: int, keep_input: Any,
                        num_threads: int = 1, seed: int | None = None, enqueue_many: bool = False, shapes: Any = None,
                        allow_smaller_final_batch: bool = False, shared_name: str | None = None,
                        name: str | None = None) -> Any:
    """`shuffle_batch` of the examples for which `keep_input` is true."""
    return _Plan("shuffle_batch", batch_size, keep_input, capacity, enqueue_many, shapes, allow_smaller_final_batch,
                 shared_name, name, num_threads).shuffled([tensors], min_after_dequeue, seed)


@export(v1=["train.shuffle_batch_join"])
def shuffle_batch_join(tensors_list: Any, batch_size: Any, capacity: int, min_after_dequeue: int, seed: int | None = None,
                       enqueue_many: bool = False, shapes: Any = None, allow_smaller_final_batch: bool = False,
                       shared_name: str | None = None, name: str | None = None) -> Any:
    """Batches in random order of the examples of several readers, each of which has a thread."""
    return maybe_shuffle_batch_join(tensors_list, batch_size, capacity, min_after_dequeue, True, seed, enqueue_many, shapes,
                                    allow_smaller_final_batch, shared_name, name)


@export(v1=["train.maybe_shuffle_batch_join"])
def maybe_shuffle_batch_join(tensors_list: Any, batch_size: Any, capacity: int, min_after_dequeue: int, keep_input: Any,
                             seed: int | None = None, enqueue_many: bool = False, shapes: Any = None,
                             allow_smaller_final_batch: bool = False, shared_name: str | None = None,
                             name: str | None = None) -> Any:
    """`shuffle_batch_join` of the examples for which `keep_input` is true."""
    return _Plan("shuffle_batch_join", batch_size, keep_input, capacity, enqueue_many, shapes, allow_smaller_final_batch,
                 shared_name, name).shuffled(tensors_list, min_after_dequeue, seed)
