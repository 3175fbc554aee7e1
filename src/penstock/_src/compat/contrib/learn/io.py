"""tf.contrib.learn.io: functions that feed arrays, data frames, generators and files of examples to estimators."""
from __future__ import annotations

import types
from collections.abc import Callable, Container
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock.compat import v1 as tf

_NUMBERS = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
                      "float64", "bool"))


def _export(*paths: str) -> Callable:
    """Exports a function in tf.contrib.learn.io, its folder, and further paths below tf.contrib.learn."""
    def apply(function: Callable) -> Callable:
        return export(v1=[f"contrib.learn.{p}{function.__name__}" for p in ("io.", "python.learn.learn_io.", *paths)])(function)
    return apply


def _frame(x: Any) -> bool:
    return hasattr(x, "columns") and hasattr(x, "values")


# -- arrays and data frames -----------------------------------------------------------------------------------------------
@_export("python.learn.learn_io.numpy_io.")
def numpy_input_fn(x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1, shuffle: bool = True,
                   queue_capacity: int = 1000, num_threads: int = 1) -> Callable:
    """`tf.estimator.inputs.numpy_input_fn`, which shuffles by default.

    >>> input_fn = tf.contrib.learn.io.numpy_input_fn({"x": x_train}, y_train, batch_size=4, num_epochs=1000)
    """
    return tf.estimator.inputs.numpy_input_fn(x, y, batch_size, num_epochs, shuffle, queue_capacity, num_threads)


@_export("python.learn.learn_io.pandas_io.")
def pandas_input_fn(x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1, shuffle: bool = True,
                    queue_capacity: int = 1000, num_threads: int = 1, target_column: str = "target") -> Callable:
    """`tf.estimator.inputs.pandas_input_fn`, which shuffles by default."""
    return tf.estimator.inputs.pandas_input_fn(x, y, batch_size, num_epochs, shuffle, queue_capacity, num_threads,
                                               target_column)


def _numeric(frame: Any, what: str) -> None:
    wrong = [f"'{c}' type='{frame[c].dtype.name}'" for c in frame if frame[c].dtype.name not in _NUMBERS]
    if wrong:
        raise ValueError(f"Data types for extracting {what} must be int, float, or bool. Found: {', '.join(wrong)}")


@_export("", "python.learn.learn_io.pandas_io.")
def extract_pandas_data(data: Any) -> Any:
    """The values of a data frame as floats; other data as they are."""
    if not _frame(data):
        return data
    _numeric(data, "pandas data")
    return data.values.astype("float")


@_export("", "python.learn.learn_io.pandas_io.")
def extract_pandas_matrix(data: Any) -> Any:
    """The values of a data frame; other data as they are."""
    return data.values if _frame(data) else data


@_export("", "python.learn.learn_io.pandas_io.")
def extract_pandas_labels(labels: Any) -> Any:
    """The values of a data frame with one column; other labels as they are."""
    if not _frame(labels):
        return labels
    if len(labels.columns) > 1:
        raise ValueError("Only one column for labels is allowed.")
    _numeric(labels, "labels")
    return labels.values


# -- generators -----------------------------------------------------------------------------------------------------------
def _target_keys(target_key: Any, known: list[str]) -> list[str]:
    if target_key is None:
        return []
    if isinstance(target_key, str):
        return [target_key]
    if not isinstance(target_key, Container):
        raise TypeError(f"target_key must be str or Container of str; got {type(target_key).__name__}")
    keys: list[str] = list(target_key)         # type: ignore[call-overload]
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"target_key must be str or Container of str; got {type(key).__name__}")
        if key not in known:
            raise KeyError(f"target_key not in yielded dict. Expected {known} keys; got {key}")
    return keys


@_export("python.learn.learn_io.generator_io.")
def generator_input_fn(x: Callable, target_key: Any = None, batch_size: int = 128, num_epochs: int | None = 1,
                       shuffle: bool = True, queue_capacity: int = 1000, num_threads: int = 1, pad_value: Any = None
                       ) -> Callable:
    """A function that returns batches of the dictionaries that a generator yields, and of those that are targets.

    Args:
        x: A function that returns a generator of dictionaries of arrays, one for each example.
        target_key: A key, or several, of targets.
        batch_size: Number of examples in a batch.
        num_epochs: How often to go over the data; None for no end.
        shuffle: Whether to mix the examples.
        queue_capacity: Number of examples that are mixed.
        num_threads: Accepted; one thread reads.
        pad_value: With what to pad examples of several shapes; None if all have one.

    Returns:
        A function without arguments, for `train`, `evaluate` and `predict`.
    """
    if not isinstance(x, types.FunctionType):
        raise TypeError(f"x must be generator function; got {type(x).__name__}")
    generator = x()
    if not isinstance(generator, types.GeneratorType):
        raise TypeError(f"x() must be generator; got {type(generator).__name__}")
    first = next(generator)
    if not isinstance(first, dict):
        raise TypeError(f"x() must yield dict; got {type(first).__name__}")
    known = sorted(first)
    targets = _target_keys(target_key, known)

    def rows() -> Any:
        for row in x():
            if sorted(row) != known:
                raise KeyError(f"key mismatch between dicts emitted by GenFun Expected {known} keys; got {sorted(row)}")
            yield {k: np.asarray(v) for k, v in row.items()}

    def input_fn() -> Any:
        arrays = {k: np.asarray(v) for k, v in first.items()}
        shapes = {k: tf.TensorShape([None] * v.ndim if pad_value is not None else v.shape) for k, v in arrays.items()}
        dataset = tf.data.Dataset.from_generator(rows, {k: tf.as_dtype(v.dtype) for k, v in arrays.items()}, shapes)
        if shuffle:
            dataset = dataset.shuffle(queue_capacity)
        dataset = dataset.repeat(num_epochs)
        if pad_value is None:
            dataset = dataset.batch(batch_size)
        else:
            padding = {k: np.asarray(pad_value, v.dtype)[()] for k, v in arrays.items()}
            dataset = dataset.padded_batch(batch_size, shapes, padding)
        features = tf.data.make_one_shot_iterator(dataset).get_next()
        labels = {k: features.pop(k) for k in targets}
        if not targets:
            return features
        return features, labels if len(targets) > 1 else labels[targets[0]]
    return input_fn


# -- files of examples ----------------------------------------------------------------------------------------------------
def _files(file_pattern: Any, randomize: bool) -> list[str]:
    patterns = file_pattern if isinstance(file_pattern, list) else [file_pattern]
    if not patterns:
        raise ValueError("No files given to dequeue_examples.")
    found = [name for pattern in patterns for name in tf.gfile.Glob(pattern)]
    if not found:
        raise ValueError(f"No files match {file_pattern}.")
    return found if randomize else sorted(found)


@_export("", "python.learn.learn_io.graph_io.")
def read_keyed_batch_examples(file_pattern: Any, batch_size: int, reader: Callable, randomize_input: bool = True,
                              num_epochs: int | None = None, queue_capacity: int = 10000, num_threads: int = 1,
                              read_batch_size: int = 1, parse_fn: Callable | None = None, name: str | None = None,
                              seed: int | None = None) -> tuple[Any, Any]:
    """Batches of keys and records of the files of a pattern, through queues whose runners are in the graph's collection."""
    files = _files(file_pattern, randomize_input)
    if not queue_capacity or queue_capacity <= 0:
        raise ValueError(f"Invalid queue_capacity {queue_capacity}.")
    if batch_size is None or (not tf.is_tensor(batch_size) and not 0 < batch_size < queue_capacity):
        raise ValueError(f"Invalid batch_size {batch_size}, with queue_capacity {queue_capacity}.")
    for what, value in (("read_batch_size", read_batch_size), ("num_threads", num_threads)):
        if value is None or value <= 0:
            raise ValueError(f"Invalid {what} {value}.")
    if num_epochs is not None and num_epochs <= 0:
        raise ValueError(f"Invalid num_epochs {num_epochs}.")
    with tf.name_scope(name, "read_batch_examples", [file_pattern]) as scope:
        queue = tf.train.string_input_producer(files, num_epochs, randomize_input, seed, name="file_name_queue")
        read = []
        for _ in range(num_threads):
            if read_batch_size > 1:
                keys, records = reader().read_up_to(queue, read_batch_size)
            else:
                keys, records = reader().read(queue)
            read.append({"__keys": keys, "__records": records} if parse_fn is None else
                        {"__keys": keys, **_parsed(parse_fn, records)})
        many, last = read_batch_size > 1, num_epochs is not None
        if randomize_input:
            keep = max(queue_capacity - 3 * batch_size, batch_size) if not tf.is_tensor(batch_size) else \
                int(queue_capacity * 0.4)
            out = tf.train.shuffle_batch_join(read, batch_size, queue_capacity, keep, seed, many,
                                              allow_smaller_final_batch=last, name=scope)
        else:
            out = tf.train.batch_join(read, batch_size, queue_capacity, many, allow_smaller_final_batch=last, name=scope)
        keys = out.pop("__keys")
        return keys, out["__records"] if "__records" in out else out


def _parsed(parse_fn: Callable, records: Any) -> dict:
    found = parse_fn(records)
    return found if isinstance(found, dict) else {"__records": found}


@_export("", "python.learn.learn_io.graph_io.")
def read_batch_examples(file_pattern: Any, batch_size: int, reader: Callable, randomize_input: bool = True,
                        num_epochs: int | None = None, queue_capacity: int = 10000, num_threads: int = 1,
                        read_batch_size: int = 1, parse_fn: Callable | None = None, name: str | None = None,
                        seed: int | None = None) -> Any:
    """Batches of records of the files of a pattern."""
    return read_keyed_batch_examples(file_pattern, batch_size, reader, randomize_input, num_epochs, queue_capacity,
                                     num_threads, read_batch_size, parse_fn, name, seed)[1]


@_export("", "python.learn.learn_io.graph_io.")
def read_keyed_batch_features(file_pattern: Any, batch_size: int, features: dict, reader: Callable,
                              randomize_input: bool = True, num_epochs: int | None = None, queue_capacity: int = 10000,
                              reader_num_threads: int = 1, feature_queue_capacity: int = 100, num_enqueue_threads: int = 2,
                              parse_fn: Callable | None = None, name: str | None = None, read_batch_size: int | None = None
                              ) -> tuple[Any, dict]:
    """Batches of keys and of the features of examples in the files of a pattern."""
    with tf.name_scope(name, "read_batch_features", [file_pattern]) as scope:
        keys, records = read_keyed_batch_examples(file_pattern, batch_size, reader, randomize_input, num_epochs, queue_capacity,
                                                  reader_num_threads, read_batch_size or batch_size, parse_fn, scope)
        return keys, tf.parse_example(records, features)


@_export("", "python.learn.learn_io.graph_io.")
def read_batch_features(file_pattern: Any, batch_size: int, features: dict, reader: Callable, randomize_input: bool = True,
                        num_epochs: int | None = None, queue_capacity: int = 10000, feature_queue_capacity: int = 100,
                        reader_num_threads: int = 1, num_enqueue_threads: int = 2, parse_fn: Callable | None = None,
                        name: str | None = None, read_batch_size: int | None = None) -> dict:
    """Batches of the features of examples in the files of a pattern."""
    return read_keyed_batch_features(file_pattern, batch_size, features, reader, randomize_input, num_epochs, queue_capacity,
                                     reader_num_threads, feature_queue_capacity, num_enqueue_threads, parse_fn, name,
                                     read_batch_size)[1]


@_export("", "python.learn.learn_io.graph_io.")
def read_batch_record_features(file_pattern: Any, batch_size: int, features: dict, randomize_input: bool = True,
                               num_epochs: int | None = None, queue_capacity: int = 10000, reader_num_threads: int = 1,
                               name: str = "dequeue_record_examples") -> dict:
    """Batches of the features of examples in the record files of a pattern."""
    return read_batch_features(file_pattern, batch_size, features, tf.TFRecordReader, randomize_input, num_epochs,
                               queue_capacity, reader_num_threads=reader_num_threads, name=name)
