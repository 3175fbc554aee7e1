"""group_by_window, group_by_reducer and bucket_by_sequence_length."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.dataset_spec import DatasetSpec
from penstock._src.data.datasets.functions import ElementFunction, call_op
from penstock._src.graph.type_spec import TensorSpec

_KEY = TensorSpec([], dtypes.int64)


def _key_function(dataset: Any, key_func: Callable, where: str) -> ElementFunction:
    """The traced key function, which returns a scalar int64."""
    def call(*args: Any) -> Any:
        key = key_func(*args)
        return tf.convert_to_tensor(key, dtype=dtypes.int64 if isinstance(key, int) else None)
    f = ElementFunction(call if not _plain(dataset) else (lambda x: call(x)), where, dataset.element_spec)
    if not isinstance(f.output_spec, TensorSpec) or not f.output_spec.is_compatible_with(_KEY):
        kind = "scalar tensor" if "window" in where else "tensor"
        raise ValueError(f"`key_func` must return a single tf.int64 {kind}.")
    return f


def _plain(dataset: Any) -> bool:
    return type(dataset.element_spec) is not tuple


@export("data.experimental.group_by_window")
def group_by_window(key_func: Callable, reduce_func: Callable, window_size: Any = None,
                    window_size_func: Callable | None = None) -> Callable:
    """A transformation: applies `reduce_func(key, window)` to windows (datasets) of elements with the same key.

    Args:
        key_func: Function of an element that returns its key, an int64.
        reduce_func: Function of a key and a dataset of elements that returns a dataset.
        window_size: Number of elements of a window.
        window_size_func: Function of a key that returns that number, instead.

    Returns:
        A function for `Dataset.apply`.

    >>> windows = tf.data.experimental.group_by_window(lambda x: x % 2, lambda key, window: window.batch(5), window_size=5)
    >>> [batch.numpy().tolist() for batch in tf.data.Dataset.range(6).apply(windows)]
    [[0, 2, 4], [1, 3, 5]]
    """
    if window_size is not None and window_size_func or not (window_size is not None or window_size_func):
        raise ValueError("Either the `window_size` or the `window_size_func` argument must be specified, and not both.")
    if window_size is not None:
        def window_size_func(unused_key: Any) -> Any:
            return tf.convert_to_tensor(window_size, dtype=dtypes.int64)

    def apply(dataset: Any) -> Any:
        where = "tf.data.experimental.group_by_window()"
        key = _key_function(dataset, key_func, where)

        def size_of(k: Any) -> Any:
            return tf.convert_to_tensor(window_size_func(k), dtype=dtypes.int64)         # type: ignore[misc]
        size = ElementFunction(size_of, where, _KEY)
        if not size.output_spec.is_compatible_with(_KEY):
            raise ValueError("`window_size_func` must return a single tf.int64 scalar tensor.")
        reduce = ElementFunction(reduce_func, where, (_KEY, DatasetSpec(dataset.element_spec)))
        if not isinstance(reduce.output_spec, DatasetSpec):
            raise TypeError("`reduce_func` must return a `Dataset` object.")
        return dataset._then("GroupByWindowDataset", key.captured, reduce.captured, size.captured,
                             spec=reduce.output_spec.element_spec,
                             functions={"key_func": key, "reduce_func": reduce, "window_size_func": size})
    return apply


@export("data.experimental.Reducer")
class Reducer:
    """Reduces the elements of a key to one: an initial state, a function of (state, element), and a function of the final
    state."""

    def __init__(self, init_func: Callable, reduce_func: Callable, finalize_func: Callable):
        self._init_func, self._reduce_func, self._finalize_func = init_func, reduce_func, finalize_func

    init_func = property(lambda self: self._init_func, doc="Returns the initial state of a key.")
    reduce_func = property(lambda self: self._reduce_func, doc="Returns the next state, from a state and an element.")
    finalize_func = property(lambda self: self._finalize_func, doc="Returns the element, from the last state.")


@export("data.experimental.group_by_reducer")
def group_by_reducer(key_func: Callable, reducer: Reducer) -> Callable:
    """A transformation: reduces elements with the same key to one element."""
    def apply(dataset: Any) -> Any:
        where = "tf.data.experimental.group_by_reducer()"
        key = _key_function(dataset, key_func, where)
        first = ElementFunction(reducer.init_func, where, _KEY)
        spec = first.output_spec
        while True:
            reduce = ElementFunction(reducer.reduce_func, where, (spec, dataset.element_spec))
            _same_state(spec, reduce.output_spec)
            wider = structure.map_structure(
                lambda a, b: TensorSpec(a.shape.most_specific_compatible_shape(b.shape), a.dtype)
                if isinstance(a, TensorSpec) else a, spec, reduce.output_spec)
            if structure.flat_specs(wider) == structure.flat_specs(spec):
                break
            spec = wider
        last = ElementFunction(reducer.finalize_func, where, spec)
        functions = {"key_func": key, "init_func": first, "reduce_func": reduce, "finalize_func": last}
        out = last.output_spec
        variant = call_op("GroupByReducerDataset", dataset._variant_tensor, key.captured, first.captured, reduce.captured,
                          last.captured, functions=functions, **structure.outputs(out))
        return dataset._made(variant, out, (dataset,), list(functions.values()))
    return apply


def _same_state(spec: Any, new: Any) -> None:
    for what in ("classes", "types"):
        a, b = structure.legacy(spec, what), structure.legacy(new, what)
        if a != b:
            raise TypeError(f"The element {what} for the new state must match the initial state. Expected {a}; got {b}.")


@export("data.experimental.bucket_by_sequence_length")
def bucket_by_sequence_length(element_length_func: Callable, bucket_boundaries: Any, bucket_batch_sizes: Any,
                              padded_shapes: Any = None, padding_values: Any = None, pad_to_bucket_boundary: bool = False,
                              no_padding: bool = False, drop_remainder: bool = False) -> Callable:
    """A transformation: batches of elements of similar length, padded to the longest of them.

    >>> ds.apply(tf.data.experimental.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [10, 20], [32, 16, 8]))
    """
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError("len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1, but they have "
                         f"{len(bucket_batch_sizes)} and {len(bucket_boundaries)} elements.")
    sizes = np.array(bucket_batch_sizes, np.int64)
    low = np.array([np.iinfo(np.int32).min, *bucket_boundaries], np.int32)
    high = np.array([*bucket_boundaries, np.iinfo(np.int32).max], np.int32)

    def bucket(*args: Any) -> Any:
        length = tf.cast(element_length_func(*args), dtypes.int32)
        return tf.reduce_min(tf.where(tf.logical_and(tf.less_equal(low, length), tf.less(length, high))))

    def size(number: Any) -> Any:
        return tf.constant(sizes)[number]

    def shapes(spec: Any, number: Any) -> Any:
        if padded_shapes is not None:
            given = padded_shapes
        else:
            given = structure.map_structure(lambda s: s.shape, spec)
        if not pad_to_bucket_boundary:
            return given
        return structure.pack(spec, [_filled(s, number) for s in structure.flatten_up_to(spec, given)])

    def _filled(shape: Any, number: Any) -> Any:
        top = tf.cast(tf.constant(np.array(bucket_boundaries, np.int64) - 1)[number], dtypes.int64)
        return tf.stack([top if d is None else tf.constant(d, dtypes.int64) for d in TensorShape(shape).as_list()]) \
            if TensorShape(shape).ndims else tf.constant([], dtypes.int64)

    def reduce(number: Any, grouped: Any) -> Any:
        if no_padding:
            return grouped.batch(size(number), drop_remainder=drop_remainder)
        if pad_to_bucket_boundary:
            fits = tf.debugging.assert_less(number, tf.constant(len(bucket_batch_sizes) - 1, dtypes.int64), message=(
                "When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries)."))
            with tf.control_dependencies([fits] if fits is not None else []):
                number = tf.identity(number)
        return grouped.padded_batch(size(number), shapes(grouped.element_spec, number), padding_values, drop_remainder)

    def apply(dataset: Any) -> Any:
        return dataset.apply(group_by_window(bucket, reduce, window_size_func=size))
    return apply
