"""tf.estimator.inputs: functions that feed arrays and data frames to an estimator, a batch at a time.

The arrays become a tf.data pipeline of indices, so that a batch is one gather from each array.
"""
from __future__ import annotations

import collections
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.base.api import export


def _batches(count: int, arrays: list, batch_size: int, num_epochs: int | None, shuffle: bool, seed: int | None = None) -> list:
    """Tensors with the next rows of each array."""
    indices = tf.data.Dataset.range(count)
    if shuffle:
        indices = indices.shuffle(count, seed=seed)
    indices = indices.repeat(num_epochs).batch(batch_size)
    types = [tf.as_dtype(a.dtype) if a.dtype.kind not in "OUS" else tf.string for a in arrays]

    def rows(at: np.ndarray) -> list:
        return [np.asarray(a[at], dtype=object if t == tf.string else None) for a, t in zip(arrays, types, strict=True)]

    def take(at: Any) -> tuple:
        found = tf.numpy_function(rows, [at], types)
        for value, a in zip(found, arrays, strict=True):
            value.set_shape([None, *a.shape[1:]])
        return tuple(found)
    return list(tf.data.make_one_shot_iterator(indices.map(take).prefetch(1)).get_next())


@export(v1=["estimator.inputs.numpy_input_fn"])
def numpy_input_fn(x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1, shuffle: bool | None = None,
                   queue_capacity: int = 1000, num_threads: int = 1) -> Any:
    """A function that returns batches of a dictionary of arrays (or one array), and of labels.

    Args:
        x: Array, or dictionary of arrays with one length.
        y: Labels: array or dictionary.
        batch_size: Number of examples in a batch.
        num_epochs: How often to go over the data; None for no end.
        shuffle: Whether to mix the examples; it must be given.
        queue_capacity: Number of examples in the queue.
        num_threads: How many threads add to the queue.

    Returns:
        A function without arguments, for `train`, `evaluate` and `predict`.

    >>> import numpy as np
    >>> input_fn = tf.estimator.inputs.numpy_input_fn({"x": np.arange(4.)}, np.arange(4), batch_size=2, shuffle=False)
    >>> with tf.Graph().as_default():
    ...     features, labels = input_fn()
    ...     with tf.train.MonitoredSession() as sess:
    ...         print(sess.run([features["x"], labels]))
    [array([0., 1.]), array([0, 1])]
    """
    if not isinstance(shuffle, bool):
        raise ValueError(f"shuffle must be provided and explicitly set as boolean (it is recommended to set it as True for "
                         f"training); got {shuffle}")

    def input_fn() -> Any:
        features = collections.OrderedDict(sorted(x.items())) if isinstance(x, dict) else {"": x}
        if isinstance(x, dict) and not x:
            raise ValueError("x cannot be an empty dict")
        if not isinstance(x, (dict, np.ndarray)):
            raise TypeError(f"x must be a dict or array; got {type(x).__name__}")
        labels = collections.OrderedDict() if y is None else \
            collections.OrderedDict(sorted(y.items())) if isinstance(y, dict) else {None: y}
        if isinstance(y, dict) and not y:
            raise ValueError("y cannot be an empty dict")
        arrays = [np.asarray(a) for a in (*features.values(), *labels.values())]
        if len({len(a) for a in arrays}) != 1:
            shapes = {k: np.shape(v) for k, v in (*features.items(), *labels.items())}
            raise ValueError(f"Length of tensors in x and y is mismatched. All elements in x and y must have the same length. "
                             f"Shapes: {shapes}")
        out = _batches(len(arrays[0]), arrays, batch_size, num_epochs, shuffle)
        made: Any = collections.OrderedDict(zip(features, out, strict=False))
        given = made if isinstance(x, dict) else out[0]
        if y is None:
            return given
        rest = out[len(features):]
        return given, (collections.OrderedDict(zip(labels, rest, strict=True)) if isinstance(y, dict) else rest[0])
    return input_fn


@export(v1=["estimator.inputs.pandas_input_fn"])
def pandas_input_fn(x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1, shuffle: bool | None = None,
                    queue_capacity: int = 1000, num_threads: int = 1, target_column: str = "target") -> Any:
    """A function that returns batches of the columns of a pandas DataFrame, and of labels.

    >>> tf.estimator.inputs.pandas_input_fn(frame, frame.pop("label"), shuffle=True)
    """
    if not isinstance(shuffle, bool):
        raise ValueError(f"shuffle must be provided and explicitly set as boolean (it is recommended to set it as True for "
                         f"training); got {shuffle}")
    if not hasattr(x, "columns") or not hasattr(x, "index"):
        raise TypeError("x must be pandas.DataFrame.")
    labels: dict[str, Any] = {}
    if y is not None:
        labels = {c: y[c] for c in y.columns} if hasattr(y, "columns") else {target_column: y}
        both = set(labels) & set(x.columns)
        if both:
            raise ValueError(f"Cannot use name {sorted(both)[0]} for target column: DataFrame already has a column with that "
                             f"name: {list(x.columns)}")
        if not np.array_equal(x.index, y.index):
            raise ValueError(f"Index for x and y are mismatched.\nIndex for x: {x.index}\nIndex for y: {y.index}")

    def input_fn() -> Any:
        arrays = [np.asarray(c.values) for c in (*(x[n] for n in x.columns), *labels.values())]
        out = _batches(len(x), arrays, batch_size, num_epochs, shuffle)
        features = dict(zip(x.columns, out, strict=False))
        if y is None:
            return features
        rest = dict(zip(labels, out[len(features):], strict=True))
        return features, rest if hasattr(y, "columns") else rest[target_column]
    return input_fn
