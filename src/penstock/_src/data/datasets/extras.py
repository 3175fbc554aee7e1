"""The smaller functions of tf.data.experimental."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.arguments import AUTOTUNE, int64, seeds, static_size
from penstock._src.data.datasets.dataset import DatasetV2, VariantDataset
from penstock._src.data.datasets.dataset_v1 import DatasetV1, VariantDatasetV1
from penstock._src.graph.convert import convert
from penstock._src.graph.sparse_tensor import SparseTensorSpec
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.library.ragged.spec import RaggedTensorSpec
from penstock._src.ops.registry import get


@export("data.experimental.cardinality")
def cardinality(dataset: Any) -> Any:
    """The number of elements of a dataset; negative if it is infinite (-1) or unknown (-2)."""
    return dataset.cardinality()


@export("data.experimental.assert_cardinality")
def assert_cardinality(expected_cardinality: Any) -> Callable:
    """A transformation: asserts the number of elements; FailedPreconditionError if it is wrong."""
    return lambda dataset: dataset._then("AssertCardinalityDataset", int64(expected_cardinality, "expected_cardinality"))


@export("data.experimental.enumerate_dataset")
def enumerate_dataset(start: Any = 0) -> Callable:
    """A transformation: pairs of a number and an element."""
    return lambda dataset: dataset.enumerate(start)


@export("data.experimental.ignore_errors")
def ignore_errors(log_warning: bool = False) -> Callable:
    """A transformation: drops the elements that fail."""
    return lambda dataset: dataset.ignore_errors(log_warning)


@export("data.experimental.unbatch")
def unbatch() -> Callable:
    """A transformation: the rows of the elements.

    Returns:
        A function for `Dataset.apply`.

    >>> ds = tf.data.Dataset.range(6).batch(3).apply(tf.data.experimental.unbatch())
    >>> [int(x) for x in ds]
    [0, 1, 2, 3, 4, 5]
    """
    return lambda dataset: dataset.unbatch()


@export("data.experimental.unique")
def unique() -> Callable:
    """A transformation: drops duplicate elements."""
    return lambda dataset: dataset.unique()


@export("data.experimental.get_single_element")
def get_single_element(dataset: Any) -> Any:
    """The one element of a dataset.

    >>> tf.data.experimental.get_single_element(tf.data.Dataset.from_tensors(42))
    """
    if not isinstance(dataset, DatasetV2):
        raise TypeError(f"`dataset` must be a `tf.data.Dataset` object, got {type(dataset)}.")
    return dataset.get_single_element()


@export("data.experimental.shuffle_and_repeat")
def shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: Any = None) -> Callable:
    """A transformation: shuffles, and repeats `count` times.

    Args:
        buffer_size: Number of elements that the next one is drawn from.
        count: Number of times; -1 or None repeats forever.
        seed: Seed of the order.

    Returns:
        A function for `Dataset.apply`.

    >>> ds = tf.data.Dataset.range(3).apply(tf.data.experimental.shuffle_and_repeat(3, count=2))
    >>> sorted(int(x) for x in ds)
    [0, 0, 1, 1, 2, 2]
    """
    return lambda dataset: dataset._then("ShuffleAndRepeatDataset", int64(buffer_size, "buffer_size"), *seeds(seed),
                                         int64(-1 if count is None else count, "count"))


@export("data.experimental.parallel_interleave")
def parallel_interleave(map_func: Callable, cycle_length: Any, block_length: Any = 1, sloppy: Any = False,
                        buffer_output_elements: Any = None, prefetch_input_elements: Any = None) -> Callable:
    """A transformation: elements of `cycle_length` datasets at a time, each read on a separate thread."""
    def apply(dataset: Any) -> Any:
        f = dataset._dataset_function(map_func, "tf.data.experimental.parallel_interleave()")
        ahead = 2 * block_length if buffer_output_elements is None else buffer_output_elements
        before = 2 * cycle_length if prefetch_input_elements is None else prefetch_input_elements
        return dataset._then("ParallelInterleaveDataset", f.captured, int64(cycle_length, "cycle_length"),
                             int64(block_length, "block_length"), convert(bool(sloppy), dtypes.bool, "sloppy"),
                             int64(ahead, "buffer_output_elements"), int64(before, "prefetch_input_elements"),
                             spec=f.output_spec.element_spec, functions={"f": f})
    return apply


@export("data.experimental.dense_to_sparse_batch")
def dense_to_sparse_batch(batch_size: Any, row_shape: Any) -> Callable:
    """A transformation: batches of elements of several shapes, as sparse tensors."""
    return lambda dataset: sparse_batch(dataset, batch_size, row_shape)


def sparse_batch(dataset: Any, batch_size: Any, row_shape: Any) -> Any:
    """See `Dataset.sparse_batch`."""
    spec = dataset.element_spec
    if not isinstance(spec, TensorSpec):
        raise TypeError(f"`dense_to_sparse_batch` requires an input of a single tensor, got {spec}.")
    if isinstance(row_shape, tf.Tensor):
        static, row = TensorShape([None] * row_shape.shape.as_list()[0]), row_shape
    else:
        static = row_shape if isinstance(row_shape, TensorShape) else TensorShape([None if d == -1 else d for d in row_shape])
        row = tf.constant([-1 if d is None else d for d in static.as_list()], dtypes.int64)
    out = SparseTensorSpec(TensorShape([None]).concatenate(static), spec.dtype)
    return dataset._then("DenseToSparseBatchDataset", int64(batch_size, "batch_size"), row, spec=out)


@export("data.experimental.dense_to_ragged_batch")
def dense_to_ragged_batch(batch_size: Any, drop_remainder: bool = False, row_splits_dtype: Any = dtypes.int64) -> Callable:
    """A transformation: batches of elements whose sizes differ, as ragged tensors."""
    def apply(dataset: Any) -> Any:
        spec = dataset.element_spec
        dense = [s for s in structure.flatten(spec)
                 if isinstance(s, TensorSpec) and s.shape.rank and not s.shape.is_fully_defined()]
        if not dense:
            return dataset.batch(batch_size, drop_remainder=drop_remainder)
        size, drop = int64(batch_size, "batch_size"), convert(drop_remainder, dtypes.bool, "drop_remainder")

        def ragged(s: Any) -> RaggedTensorSpec:
            rank = max(axis for axis, size in enumerate(s.shape.as_list()) if size is None)
            return RaggedTensorSpec(s.shape, s.dtype, rank, row_splits_dtype)
        rows = structure.map_structure(lambda s: ragged(s) if any(s is d for d in dense) else s, spec)

        def component(s: Any, x: Any) -> list:
            if isinstance(s, RaggedTensorSpec) and s.ragged_rank and tf.is_tensor(x) and isinstance(x, tf.Tensor):
                x = tf.RaggedTensor.from_tensor(x, ragged_rank=s.ragged_rank, row_splits_dtype=row_splits_dtype)
            return s._to_tensor_list(x)

        def encoded(*args: Any) -> tuple:
            flat = structure.flatten(args if type(spec) is tuple else args[0])
            return tuple(t for s, x in zip(structure.flatten(rows), flat, strict=True) for t in component(s, x))
        out = structure.batched(rows, static_size(size, drop))
        return dataset.map(encoded)._then("BatchDatasetV2", size, drop, spec=out, inputs=(dataset,))
    return apply


@export("data.experimental.map_and_batch")
def map_and_batch(map_func: Callable, batch_size: Any, num_parallel_batches: Any = None, drop_remainder: Any = False,
                  num_parallel_calls: Any = None) -> Callable:
    """A transformation: a function of every element, several at a time, then batches."""
    if num_parallel_batches is None and num_parallel_calls is None:
        num_parallel_calls = batch_size
    elif num_parallel_batches is not None and num_parallel_calls is None:
        num_parallel_calls = batch_size * num_parallel_batches
    elif num_parallel_batches is not None:
        raise ValueError("`map_and_batch_with_legacy_function` allows only one of `num_parallel_batches` and "
                         "`num_parallel_calls` to be set.")

    def apply(dataset: Any) -> Any:
        f = dataset._function(map_func, "tf.data.experimental.map_and_batch()")
        size, drop = int64(batch_size, "batch_size"), convert(drop_remainder, dtypes.bool, "drop_remainder")
        calls = int64(num_parallel_calls, "num_parallel_calls")
        spec = structure.batched(f.output_spec, static_size(size, drop))
        return dataset._then("MapAndBatchDataset", f.captured, size, calls, drop, spec=spec, functions={"f": f},
                             preserve_cardinality=True)
    return apply


export.value(map_and_batch, v1=["data.experimental.map_and_batch_with_legacy_function"])


# -- devices --------------------------------------------------------------------------------------------------------------
def _torch_device(name: str) -> str:
    """The torch device of a device name."""
    text = str(name.to_string() if hasattr(name, "to_string") else name).lower()
    if "gpu" not in text:
        return "cpu"
    index = text.rsplit(":", 1)[-1]
    return f"cuda:{index if index.isdigit() else 0}"


@export("data.experimental.copy_to_device")
def copy_to_device(target_device: Any, source_device: Any = "/cpu:0") -> Callable:
    """A transformation: the tensors of elements are copied to a device."""
    return lambda dataset: dataset._then("CopyToDeviceDataset", device=_torch_device(target_device))


@export("data.experimental.prefetch_to_device")
def prefetch_to_device(device: Any, buffer_size: Any = None) -> Callable:
    """A transformation: elements are copied to a device ahead of their use. It must be the last one.

    >>> ds = ds.apply(tf.data.experimental.prefetch_to_device("/gpu:0"))
    """
    return lambda dataset: dataset.apply(copy_to_device(device)).prefetch(AUTOTUNE if buffer_size is None else buffer_size)


# -- sources ----------------------------------------------------------------------------------------------------------------
@export(v2=["data.experimental.Counter"])
def counter(start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64) -> Any:
    """An infinite dataset of numbers in steps."""
    return DatasetV2.counter(start, step, dtype)


@export(v1=["data.experimental.Counter"])
def counter_v1(start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64) -> Any:
    """An infinite dataset of numbers in steps."""
    return DatasetV1.counter(start, step, dtype)


class _Random:
    def __init__(self, seed: Any = None):
        spec = TensorSpec([], dtypes.int64)
        super().__init__(get("RandomDataset")(*seeds(seed), **structure.outputs(spec)), spec)    # type: ignore[call-arg]


@export(v2=["data.experimental.RandomDataset"])
class RandomDatasetV2(_Random, VariantDataset):
    """A dataset of pseudo-random 32-bit numbers."""


@export(v1=["data.experimental.RandomDataset"])
class RandomDatasetV1(_Random, VariantDatasetV1):
    """A dataset of pseudo-random 32-bit numbers."""


@export("data.experimental.to_variant")
def to_variant(dataset: Any) -> Any:
    """The variant tensor of a dataset."""
    return dataset._variant_tensor


@export("data.experimental.from_variant")
def from_variant(variant: Any, structure: Any) -> Any:        # noqa: A002  the public name
    """The dataset of a variant tensor, with elements of a given type."""
    return VariantDataset(variant, structure)


class _Sql:
    def __init__(self, driver_name: Any, data_source_name: Any, query: Any, output_types: Any):
        spec = structure.map_structure(lambda t: TensorSpec([], t), output_types)
        super().__init__(get("SqlDataset")(                                                      # type: ignore[call-arg]
            convert(driver_name, dtypes.string, "driver_name"), convert(data_source_name, dtypes.string, "data_source_name"),
            convert(query, dtypes.string, "query"), **structure.outputs(spec)), spec)


@export(v2=["data.experimental.SqlDataset"])
class SqlDatasetV2(_Sql, VariantDataset):
    """The rows that a query of an SQLite database returns.

    >>> tf.data.experimental.SqlDataset("sqlite", "a.db", "SELECT name, age FROM people", (tf.string, tf.int32))
    """


@export(v1=["data.experimental.SqlDataset"])
class SqlDatasetV1(_Sql, VariantDatasetV1):
    """The rows that a query of an SQLite database returns."""


class LMDBDataset(VariantDatasetV1):
    """The (key, value) pairs of LMDB databases, as strings.

    >>> tf.contrib.data.LMDBDataset("/tmp/images.mdb").map(lambda key, value: tf.io.decode_png(value))
    """

    def __init__(self, filenames: Any):
        spec = TensorSpec([], dtypes.string), TensorSpec([], dtypes.string)
        super().__init__(get("LMDBDataset")(convert(filenames, dtypes.string, "filenames"), **structure.outputs(spec)), spec)


@export("data.experimental.from_list")
def from_list(elements: Any, name: str | None = None) -> Any:
    """A dataset of the items of a list, which all have one structure.

    >>> tf.data.experimental.from_list([(1, "a"), (2, "b")])
    """
    if not elements:
        raise ValueError("Invalid `elements`. `elements` should not be empty.")
    specs, flat = [], []
    for element in elements:
        structure.assert_same(elements[0], element)
        element = structure.normalize(element)
        specs.append(structure.spec_of(element))
        flat += structure.to_tensors(specs[-1], element)
    spec = specs[0]
    for other in specs[1:]:
        spec = structure.map_structure(lambda a, b: a.most_specific_compatible_type(b), spec, other)
    return VariantDataset(get("ListDataset")(flat, **structure.outputs(spec)), spec)


@export("data.experimental.at")
def at(dataset: Any, index: Any) -> Any:
    """The element at a position; OutOfRangeError beyond the last one."""
    out = get("GetElementAtIndex")(dataset._variant_tensor, int64(index, "index"), **structure.outputs(dataset.element_spec))
    return structure.from_tensors(dataset.element_spec, out)


@export("data.experimental.pad_to_cardinality")
def pad_to_cardinality(cardinality: Any, mask_key: str = "valid") -> Callable:
    """A transformation that appends elements of zeros up to a number; `mask_key` is True in the original elements."""
    def marked(valid: bool) -> Callable:
        return lambda element: {**element, mask_key: tf.constant(valid)}

    def apply(dataset: Any) -> Any:
        if not isinstance(dataset.element_spec, dict):
            raise ValueError("Padding to a cardinality needs elements that are dictionaries, which get the mask.")
        zeros = dataset.take(1).map(lambda element: nest.map_structure(tf.zeros_like, element)).repeat()
        return dataset.map(marked(True)).concatenate(zeros.map(marked(False))).take(cardinality)
    return apply
