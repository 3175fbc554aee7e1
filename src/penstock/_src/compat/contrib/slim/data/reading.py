"""Reading records of many files through one queue, and queues that hold what comes next."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


@export(v1=["contrib.slim.prefetch_queue.prefetch_queue"])
def prefetch_queue(tensors: Any, capacity: int = 8, num_threads: int = 1, dynamic_pad: bool = False,
                   shared_name: str | None = None, name: str | None = None) -> Any:
    """A queue that is kept filled with the tensors.

    >>> batches = slim.prefetch_queue.prefetch_queue([images, labels]).dequeue()
    """
    names = sorted(tensors) if isinstance(tensors, dict) else None
    flat = [tensors[n] for n in names] if names else list(tensors)
    with tf.name_scope(name, "prefetch_queue", flat):
        kind = tf.PaddingFIFOQueue if dynamic_pad else tf.FIFOQueue
        queue = kind(capacity=capacity, dtypes=[t.dtype for t in flat], shapes=[t.shape for t in flat], names=names,
                     shared_name=shared_name)
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(tensors)] * num_threads))
        tf.summary.scalar(f"fraction_of_{capacity}_full", tf.cast(queue.size(), tf.float32) * (1.0 / capacity))
        return queue


@export(v1=["contrib.slim.parallel_reader.get_data_files"])
def get_data_files(data_sources: Any) -> list[str]:
    """The files that paths and patterns name."""
    if isinstance(data_sources, (list, tuple)):
        files = [f for source in data_sources for f in get_data_files(source)]
    elif any(c in data_sources for c in "*?["):
        files = tf.gfile.Glob(data_sources)
    else:
        files = [data_sources]
    if not files:
        raise ValueError(f"No data files found in {data_sources}")
    return files


@export(v1=["contrib.slim.parallel_reader.ParallelReader"])
class ParallelReader:
    """Several readers that fill one queue of keys and values."""

    def __init__(self, reader_class: Any, common_queue: Any, num_readers: int = 4, reader_kwargs: Any = None):
        if len(common_queue.dtypes) != 2 or any(not d.is_compatible_with(tf.string) for d in common_queue.dtypes):
            raise TypeError("common_queue.dtypes must be [tf.string, tf.string]")
        self._readers = [reader_class(**reader_kwargs or {}) for _ in range(num_readers)]
        self._common_queue = common_queue

    num_readers = property(lambda self: len(self._readers))
    common_queue = property(lambda self: self._common_queue)

    def _start(self, queue: Any) -> None:
        enqueues = [self._common_queue.enqueue(reader.read(queue)) for reader in self._readers]
        tf.train.add_queue_runner(tf.train.QueueRunner(self._common_queue, enqueues))

    def read(self, queue: Any, name: str | None = None) -> Any:
        """The next key and value of the files in `queue`."""
        self._start(queue)
        return self._common_queue.dequeue(name=name)

    def read_up_to(self, queue: Any, num_records: int, name: str | None = None) -> Any:
        """Up to so many of them."""
        self._start(queue)
        return self._common_queue.dequeue_up_to(num_records, name)

    def num_records_produced(self, name: str | None = None) -> Any:
        """How many records were read."""
        return tf.add_n([r.num_records_produced() for r in self._readers], name=name)

    def num_work_units_completed(self, name: str | None = None) -> Any:
        """How many files were read."""
        return tf.add_n([r.num_work_units_completed() for r in self._readers], name=name)


@export(v1=["contrib.slim.parallel_reader.parallel_read"])
def parallel_read(data_sources: Any, reader_class: Any, num_epochs: int | None = None, num_readers: int = 4,
                  reader_kwargs: Any = None, shuffle: bool = True, dtypes: Any = None, capacity: int = 256,
                  min_after_dequeue: int = 128, seed: int | None = None, scope: Any = None) -> Any:
    """Keys and values of records, read by several readers and shuffled."""
    files = get_data_files(data_sources)
    with tf.name_scope(scope, "parallel_read"):
        filenames = tf.train.string_input_producer(files, num_epochs=num_epochs, shuffle=shuffle, seed=seed, name="filenames")
        dtypes = dtypes or [tf.string, tf.string]
        if shuffle:
            queue = tf.RandomShuffleQueue(capacity=capacity, min_after_dequeue=min_after_dequeue, dtypes=dtypes, seed=seed,
                                          name="common_queue")
        else:
            queue = tf.FIFOQueue(capacity=capacity, dtypes=dtypes, name="common_queue")
        tf.summary.scalar(f"fraction_of_{capacity}_full", tf.cast(queue.size(), tf.float32) * (1.0 / capacity))
        return ParallelReader(reader_class, queue, num_readers=num_readers, reader_kwargs=reader_kwargs).read(filenames)


@export(v1=["contrib.slim.parallel_reader.single_pass_read"])
def single_pass_read(data_sources: Any, reader_class: Any, reader_kwargs: Any = None, scope: Any = None) -> Any:
    """Keys and values of records, once, in order."""
    files = get_data_files(data_sources)
    with tf.name_scope(scope, "single_pass_read"):
        filenames = tf.train.string_input_producer(files, num_epochs=1, shuffle=False, capacity=1, name="filenames")
        return reader_class(**reader_kwargs or {}).read(filenames)
