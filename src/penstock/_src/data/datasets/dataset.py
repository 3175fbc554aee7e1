"""tf.data.Dataset, as both APIs have it: DatasetV2 here, the additions of 1.x in `dataset_v1`.

A dataset object is a variant tensor (the output of a dataset op) and the type of its elements. Methods add one op each; nothing
is computed until an iterator runs, in `data.pipelines`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.base import dtypes, errors, html, nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape, as_dimension
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.functions import ElementFunction, call_op
from penstock._src.data.datasets.generator import from_generator
from penstock._src.data.datasets.iterators import OwnedIterator
from penstock._src.data.datasets.loops import for_elements
from penstock._src.data.datasets.options import Options, merged
from penstock._src.data.datasets.scanning import scan, state_function
from penstock._src.data.pipelines.ordering import SHARD_HINT
from penstock._src.eager.function import function
from penstock._src.graph import context
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.random_seed import get_seed
from penstock._src.graph.trackable import Trackable
from penstock._src.graph.type_spec import BatchableTypeSpec, TensorSpec
from penstock._src.ops.data.dataset_recipe import rebuilt
from penstock._src.ops.registry import get

AUTOTUNE = -1
INFINITE, UNKNOWN = -1, -2
export.value(AUTOTUNE, "data.experimental.AUTOTUNE", v2=["data.AUTOTUNE"], v1=["data.AUTOTUNE"])
export.value(INFINITE, "data.experimental.INFINITE_CARDINALITY", v1=["data.INFINITE_CARDINALITY"],
             v2=["data.INFINITE_CARDINALITY"])
export.value(UNKNOWN, "data.experimental.UNKNOWN_CARDINALITY", v1=["data.UNKNOWN_CARDINALITY"],
             v2=["data.UNKNOWN_CARDINALITY"])


def int64(value: Any, name: str) -> Any:
    """A number as an int64 tensor of the current graph."""
    return convert(value, dtypes.int64, name)


def seeds(seed: Any) -> tuple[Any, Any]:
    """The two seed tensors of a dataset op; both are 0 without a seed."""
    first, second = get_seed(seed)
    a = int64(0 if first is None else first, "seed")
    if second is None:
        return a, int64(0, "seed2")
    b = int64(second, "seed2")
    if constant_value(a) == 0 and constant_value(b) == 0:
        b = int64(2**31 - 1, "seed2")                       # a seed of 0 was requested, which differs from no seed
    return a, b


def _methods() -> Any:
    """The functions that methods call, imported late because their modules import this one."""
    from penstock._src.data.datasets import methods
    return methods


@export(v2=["data.Dataset"])
class DatasetV2(Trackable):
    """A sequence of elements, and how they are produced.

    >>> ds = tf.data.Dataset.range(10).map(lambda x: x * x).shuffle(5).batch(4)
    >>> for batch in ds: print(batch)
    """

    def __init__(self, variant_tensor: Any):
        self._variant_tensor = variant_tensor
        self._graph = context.current_graph()
        self._options: Options | None = None
        for d in self._inputs():
            if d._options is not None:
                self._options = d._options if self._options is None else merged(self._options, d._options)

    # -- what subclasses say ------------------------------------------------------------------------------------------
    def _inputs(self) -> list:
        """The datasets that this one is created from."""
        raise NotImplementedError("Dataset._inputs")

    @property
    def element_spec(self) -> Any:
        """The type of the elements: a structure of TypeSpecs."""
        raise NotImplementedError("Dataset.element_spec")

    def _functions(self) -> list:
        """The functions that it calls."""
        return []

    # -- making others --------------------------------------------------------------------------------------------------
    @classmethod
    def _made(cls, variant: Any, spec: Any, inputs: Any = (), functions: Any = ()) -> DatasetV2:
        """A dataset of the API that this one belongs to."""
        return VariantDataset(variant, spec, inputs, functions)

    def _then(self, op: str, *args: Any, spec: Any = None, functions: dict[str, ElementFunction] | None = None,
              inputs: Any = None, **attrs: Any) -> DatasetV2:
        """The dataset produced by an op whose first input is this one."""
        spec = self.element_spec if spec is None else spec
        variant = call_op(op, self._variant_tensor, *args, functions=functions, **structure.outputs(spec), **attrs)
        return self._made(variant, spec, (self,) if inputs is None else inputs, list((functions or {}).values()))

    def _function(self, function: Callable, where: str, spec: Any = None) -> ElementFunction:
        return ElementFunction(function, where, self.element_spec if spec is None else spec)

    @property
    def _type_spec(self) -> DatasetSpec:
        return DatasetSpec(self.element_spec)

    @staticmethod
    def _stacked(datasets: list) -> Any:
        """Several datasets of one type as one value."""
        spec = datasets[0].element_spec
        for d in datasets[1:]:
            spec = structure.map_structure(lambda a, b: a.most_specific_compatible_type(b), spec, d.element_spec)
        return _NestedVariant(tf.stack([d._variant_tensor for d in datasets]), spec, TensorShape([len(datasets)]))

    @property
    def _flat_types(self) -> list:
        return structure.flat_types(self.element_spec)

    @property
    def _flat_shapes(self) -> list:
        return structure.flat_shapes(self.element_spec)

    @property
    def _flat_structure(self) -> dict[str, list]:
        return structure.outputs(self.element_spec)

    # -- iterating ----------------------------------------------------------------------------------------------------
    def __iter__(self) -> Any:
        if context.executing_eagerly() or context.current_graph().building_function:
            return OwnedIterator(self)
        raise RuntimeError("__iter__() is only supported inside of tf.function or when eager execution is enabled.")

    def _autograph_for(self, go_on: Any, body: Any, state: Any, options: dict[str, Any]) -> None:
        """How AutoGraph builds a loop over this dataset."""
        for_elements(iter(self), go_on, body, state, options)

    def as_numpy_iterator(self) -> Any:
        """An iterator over the elements as numpy arrays (eager execution)."""
        if not context.executing_eagerly():
            raise RuntimeError("as_numpy_iterator() is not supported while tracing functions")
        return NumpyIterator(self)

    def __len__(self) -> int:
        if not context.executing_eagerly():
            raise TypeError("`tf.data.Dataset` only supports `len` in eager mode. Use `tf.data.Dataset.cardinality()` "
                            "instead.")
        n = int(self.cardinality())
        if n == INFINITE:
            raise TypeError("The dataset is infinite.")
        if n == UNKNOWN:
            raise TypeError("The dataset length is unknown.")
        return n

    def _repr_html_(self) -> str:
        rows = [[type(spec).__name__, getattr(spec, "shape", ""), getattr(getattr(spec, "dtype", None), "name", "")]
                for spec in nest.flatten(self.element_spec)]
        return html.table(f"{type(self).__name__}: components of an element", ["kind", "shape", "type"], rows)

    def __bool__(self) -> bool:
        return True

    __nonzero__ = __bool__

    def cardinality(self) -> Any:
        """The number of elements as a tensor; negative if it is infinite (-1) or unknown (-2).

        >>> tf.data.Dataset.range(42).cardinality().numpy()
        42
        """
        return get("DatasetCardinality")(self._variant_tensor)

    # -- sources ------------------------------------------------------------------------------------------------------
    @classmethod
    def from_tensors(cls, tensors: Any, name: str | None = None) -> Any:
        """A dataset of one element.

        Args:
            tensors: A tensor, or tensors nested in tuples and dicts.
            name: Name of the operation; not used.

        Returns:
            A dataset with this element.

        >>> print(*tf.data.Dataset.from_tensors([1, 2]).as_numpy_iterator())
        [1 2]
        """
        element = structure.normalize(tensors)
        spec = structure.spec_of(element)
        variant = get("TensorDataset")(structure.to_tensors(spec, element), output_shapes=structure.flat_shapes(spec))
        return cls._made(variant, spec)

    @classmethod
    def from_tensor_slices(cls, tensors: Any, name: str | None = None) -> Any:
        """A dataset of the slices of tensors along their first axis.

        Args:
            tensors: A tensor, or tensors nested in tuples and dicts, all of the same length.
            name: Name of the operation; not used.

        Returns:
            A dataset with one element per row.

        Raises:
            ValueError: if lengths differ, or a tensor is a scalar.

        >>> data = tf.data.Dataset.from_tensor_slices({"x": [1, 2], "y": [0.5, 1.5]})
        >>> [(int(e["x"]), float(e["y"])) for e in data]
        [(1, 0.5), (2, 1.5)]
        """
        element = structure.normalize(tensors)
        whole = structure.spec_of(element)
        flat = structure.to_batched_tensors(whole, element)
        if not flat:
            raise ValueError("Invalid `tensors`: it must have at least one component.")
        spec = structure.unbatched(whole)
        size = as_dimension(flat[0].shape[0])
        for t in flat[1:]:
            size.assert_is_compatible_with(as_dimension(t.shape[0]))
        variant = get("TensorSliceDataset")(flat, output_shapes=structure.flat_shapes(spec))
        return cls._made(variant, spec)

    @classmethod
    def from_generator(cls, generator: Callable, output_types: Any = None, output_shapes: Any = None, args: Any = None,
                       output_signature: Any = None, name: str | None = None) -> Any:
        """A dataset of the values that a Python generator yields.

        Args:
            generator: Function that returns an iterable; called again for every iteration.
            output_types: Types of a value, nested as the values are; older than `output_signature`.
            output_shapes: Their shapes; without it, any.
            args: Arguments of `generator`, tensors that it receives as arrays.
            output_signature: `tf.TensorSpec` (or another spec) of a value, nested as the values are.
            name: Name of the operation; not used.

        Returns:
            A dataset of the values.

        Raises:
            TypeError: while iterating, if a value does not fit the signature.

        >>> spec = tf.TensorSpec([], tf.int32)
        >>> print(*tf.data.Dataset.from_generator(range, args=[3], output_signature=spec).as_numpy_iterator())
        0 1 2
        """
        return from_generator(cls, generator, output_types, output_shapes, args, output_signature)

    @classmethod
    def range(cls, *args: Any, **kwargs: Any) -> Any:
        """A dataset of numbers: range(stop), range(start, stop) or range(start, stop, step).

        Args:
            *args: The bounds and the step, as of Python's `range`.
            **kwargs: `output_type` (int64 by default) and `name`.

        Returns:
            A dataset of scalars.

        >>> print(*tf.data.Dataset.range(1, 6, 2).as_numpy_iterator())
        1 3 5
        """
        kwargs.pop("name", None)
        output_type = dtypes.as_dtype(kwargs.pop("output_type", dtypes.int64))
        if kwargs:
            raise TypeError(f"range() got unexpected keyword arguments {sorted(kwargs)}")
        if not 1 <= len(args) <= 3:
            raise ValueError(f"Invalid `args`: the number of arguments must be 1, 2 or 3, got {len(args)}.")
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1) if len(args) == 2 else args
        spec = TensorSpec([], output_type)
        variant = get("RangeDataset")(int64(start, "start"), int64(stop, "stop"), int64(step, "step"),
                                      **structure.outputs(spec))
        return cls._made(variant, spec)

    @classmethod
    def zip(cls, *args: Any, datasets: Any = None, name: str | None = None) -> Any:
        """A dataset of tuples (or dicts, nested as the arguments are) of the elements of datasets.

        Args:
            *args: Datasets, or one structure of datasets.
            datasets: The same, by keyword.
            name: Name of the operation; not used.

        Returns:
            A dataset as long as the shortest of the datasets.

        Raises:
            TypeError: if an argument is not a dataset.

        >>> a, b = tf.data.Dataset.range(3), tf.data.Dataset.range(10, 15)
        >>> [(int(x), int(y)) for x, y in tf.data.Dataset.zip((a, b))]
        [(0, 10), (1, 11), (2, 12)]
        """
        if datasets is not None:
            args = (datasets,)
        if not args:
            raise TypeError("Must pass at least one dataset to `zip`.")
        nested = args[0] if len(args) == 1 else args
        flat = structure.flatten(nested)
        for d in flat:
            if not isinstance(d, DatasetV2):
                if isinstance(d, list):
                    raise TypeError("The argument to `Dataset.zip()` must be a nested structure of `Dataset` objects. Nested "
                                    "structures do not support Python lists; please use a tuple instead.")
                raise TypeError(f"The argument to `Dataset.zip()` must be a nested structure of `Dataset` objects, got {d!r}.")
        spec = structure.pack(nested, [d.element_spec for d in flat])
        variant = get("ZipDataset")([d._variant_tensor for d in flat], **structure.outputs(spec))
        return cls._made(variant, spec, flat)

    @classmethod
    def list_files(cls, file_pattern: Any, shuffle: Any = None, seed: Any = None, name: str | None = None) -> Any:
        """A dataset of the names of the files that match one or more patterns, shuffled by default."""
        return _methods().list_files(cls, file_pattern, shuffle, seed)

    @classmethod
    def random(cls, seed: Any = None, rerandomize_each_iteration: Any = None, name: str | None = None) -> Any:
        """An infinite dataset of pseudo-random 32-bit numbers."""
        spec = TensorSpec([], dtypes.int64)
        return cls._made(get("RandomDataset")(*seeds(seed), **structure.outputs(spec)), spec)

    @classmethod
    def counter(cls, start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64, name: str | None = None) -> Any:
        """An infinite dataset of numbers in steps.

        Args:
            start, step: The first number and the step.
            dtype: Their type.
            name: Name of the operation; not used.

        Returns:
            A dataset of scalars.

        >>> print(*tf.data.Dataset.counter(start=2, step=3).take(3).as_numpy_iterator())
        2 5 8
        """
        start, step = convert(start, dtype, "start"), convert(step, dtype, "step")
        return cls.range(0, dtypes.int64.max).map(lambda i: start + tf.cast(i, dtype) * step)

    @classmethod
    def choose_from_datasets(cls, datasets: Any, choice_dataset: Any, stop_on_empty_dataset: bool = True) -> Any:
        """A dataset that takes each element from the dataset whose index another dataset yields.

        Args:
            datasets: List of datasets with elements of one structure.
            choice_dataset: Dataset of int64 indices.
            stop_on_empty_dataset: Whether to end at the first index of a dataset that has ended; otherwise it is skipped.

        Returns:
            A dataset.

        >>> ones, tens = tf.data.Dataset.range(3), tf.data.Dataset.range(10, 13)
        >>> choice = tf.data.Dataset.from_tensor_slices(tf.constant([0, 1, 1, 0], tf.int64))
        >>> print(*tf.data.Dataset.choose_from_datasets([ones, tens], choice).as_numpy_iterator())
        0 10 11 1
        """
        return _methods().choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)

    @classmethod
    def sample_from_datasets(cls, datasets: Any, weights: Any = None, seed: Any = None, stop_on_empty_dataset: bool = False,
                             rerandomize_each_iteration: Any = None) -> Any:
        """A dataset that takes each element from a dataset chosen at random.

        Args:
            datasets: List of datasets with elements of one structure.
            weights: Probability of each dataset; equal by default.
            seed: Seed of the choices.
            stop_on_empty_dataset: Whether to end when the first dataset ends; otherwise the others go on.
            rerandomize_each_iteration: Whether later iterations draw other choices.

        Returns:
            A dataset.

        >>> mixed = tf.data.Dataset.sample_from_datasets([tf.data.Dataset.range(2), tf.data.Dataset.range(10, 12)], seed=1)
        >>> print(*sorted(mixed.as_numpy_iterator()))
        0 1 10 11
        """
        return _methods().sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)

    # -- functions of elements ----------------------------------------------------------------------------------------
    _preserve = True                        # whether map keeps the number of elements

    def map(self, map_func: Callable, num_parallel_calls: Any = None, deterministic: bool | None = None,
            synchronous: Any = None, use_unbounded_threadpool: Any = None, name: str | None = None) -> Any:
        """A dataset of the results of a function of every element.

        Args:
            map_func: Function of the components of an element. It is traced once.
            num_parallel_calls: How many elements are computed at the same time, or `tf.data.AUTOTUNE`; one
                after the other by default.
            deterministic: Whether parallel calls keep the order of the elements.
            synchronous, use_unbounded_threadpool: Accepted for compatibility.
            name: Name of the operation; not used.

        Returns:
            A dataset of the results.

        Raises:
            TypeError: if the function returns something that no tensor can hold.

        >>> print(*tf.data.Dataset.range(3).map(lambda x: x + 1).as_numpy_iterator())
        1 2 3
        """
        f = self._function(map_func, "Dataset.map()")
        keep = self._preserve
        if num_parallel_calls is None:
            return self._then("MapDataset", f.captured, spec=f.output_spec, functions={"f": f}, preserve_cardinality=keep)
        calls = int64(num_parallel_calls, "num_parallel_calls")
        _check_parallel(calls)
        return self._then("ParallelMapDatasetV2", f.captured, calls, spec=f.output_spec, functions={"f": f},
                          preserve_cardinality=keep, deterministic=_deterministic(self, deterministic))

    def flat_map(self, map_func: Callable, name: str | None = None) -> Any:
        """A dataset of the concatenated elements of the datasets that a function returns for each element.

        Args:
            map_func: Function of an element that returns a dataset.
            name: Name of the operation; not used.

        Returns:
            A dataset.

        Raises:
            TypeError: if the function does not return a dataset.

        >>> print(*tf.data.Dataset.range(1, 4).flat_map(lambda n: tf.data.Dataset.range(n)).as_numpy_iterator())
        0 0 1 0 1 2
        """
        f = self._dataset_function(map_func, "Dataset.flat_map()")
        return self._then("FlatMapDataset", f.captured, spec=f.output_spec.element_spec, functions={"f": f})

    def _dataset_function(self, function: Callable, where: str) -> ElementFunction:
        f = self._function(function, where)
        if not isinstance(f.output_spec, DatasetSpec):
            raise TypeError(f"`map_func` must return a `Dataset` object. Got {f.output_spec!r}")
        return f

    def interleave(self, map_func: Callable, cycle_length: Any = None, block_length: Any = None,
                   num_parallel_calls: Any = None, deterministic: bool | None = None, name: str | None = None) -> Any:
        """A dataset that takes elements in turn from several of the datasets that a function returns.

        Args:
            map_func: Function of an element that returns a dataset.
            cycle_length: How many datasets are open at the same time; the number of cores by default.
            block_length: How many elements are taken from a dataset before the next one's turn; 1 by default.
            num_parallel_calls: How many datasets are read at the same time, or `tf.data.AUTOTUNE`.
            deterministic: Whether parallel reads keep the order.
            name: Name of the operation; not used.

        Returns:
            A dataset.

        >>> rows = tf.data.Dataset.range(1, 3).interleave(lambda n: tf.data.Dataset.from_tensors(n).repeat(3), cycle_length=2)
        >>> print(*rows.as_numpy_iterator())
        1 2 1 2 1 2
        """
        import os
        block_length = 1 if block_length is None else block_length
        automatic = cycle_length is None or isinstance(cycle_length, int) and cycle_length == AUTOTUNE
        cycle = int64((os.cpu_count() or 1) if automatic else cycle_length, "cycle_length")
        block = int64(block_length, "block_length")
        f = self._dataset_function(map_func, "Dataset.interleave()")
        spec = f.output_spec.element_spec
        if num_parallel_calls is None:
            return self._then("InterleaveDataset", f.captured, cycle, block, spec=spec, functions={"f": f})
        calls = int64(num_parallel_calls, "num_parallel_calls")
        _check_parallel(calls)
        return self._then("ParallelInterleaveDatasetV2", f.captured, cycle, block, calls, spec=spec, functions={"f": f},
                          sloppy=_deterministic(self, deterministic) == "false")

    def filter(self, predicate: Callable, name: str | None = None) -> Any:
        """A dataset of the elements for which a function is true.

        Args:
            predicate: Function of an element that returns a scalar boolean.
            name: Name of the operation; not used.

        Returns:
            A dataset.

        Raises:
            ValueError: if the function does not return a scalar boolean.

        >>> print(*tf.data.Dataset.range(5).filter(lambda x: x % 2 == 0).as_numpy_iterator())
        0 2 4
        """
        f = self._predicate(predicate, "Dataset.filter()")
        return self._then("FilterDataset", f.captured, functions={"predicate": f})

    def _predicate(self, predicate: Callable, where: str) -> ElementFunction:
        f = self._function(predicate, where)
        if not isinstance(f.output_spec, TensorSpec) or not f.output_spec.is_compatible_with(TensorSpec([], dtypes.bool)):
            raise ValueError(f"`predicate` must return a scalar boolean, got {f.output_spec}.")
        return f

    def take_while(self, predicate: Callable, name: str | None = None) -> Any:
        """A dataset of the elements before the first for which a function is false.

        Args:
            predicate: Function of an element that returns a scalar boolean.
            name: Name of the operation; not used.

        Returns:
            A dataset.

        >>> print(*tf.data.Dataset.range(10).take_while(lambda x: x < 3).as_numpy_iterator())
        0 1 2
        """
        f = self._predicate(predicate, "tf.data.experimental.take_while()")
        return self._then("TakeWhileDataset", f.captured, functions={"predicate": f})

    def scan(self, initial_state: Any, scan_func: Callable, name: str | None = None) -> Any:
        """A dataset of the outputs of a function that also carries a state.

        Args:
            initial_state: The first state: a tensor or a structure of tensors.
            scan_func: Function of (state, element) that returns (new state, output).
            name: Name of the operation; not used.

        Returns:
            A dataset of the outputs.

        >>> start = tf.constant(0, tf.int64)
        >>> print(*tf.data.Dataset.range(5).scan(start, lambda total, x: (total + x, total + x)).as_numpy_iterator())
        0 1 3 6 10
        """
        return scan(initial_state, scan_func)(self)

    def reduce(self, initial_state: Any, reduce_func: Callable, name: str | None = None) -> Any:
        """Reduces the elements to a state.

        Args:
            initial_state: The first state: a tensor or a structure of tensors.
            reduce_func: Function of (state, element) that returns the new state.
            name: Name of the operation; not used.

        Returns:
            The last state.

        >>> tf.data.Dataset.range(5).reduce(tf.constant(0, tf.int64), lambda total, x: total + x).numpy().item()
        10
        """
        f, state, spec = state_function(self, initial_state, reduce_func, "reduce()", gives_element=False)
        out = call_op("ReduceDataset", self._variant_tensor, structure.to_tensors(spec, state), f.captured,
                      functions={"f": f}, **structure.outputs(spec))
        return structure.from_tensors(spec, out)

    def apply(self, transformation_func: Callable) -> Any:
        """Applies a function from dataset to dataset.

        Args:
            transformation_func: Function of this dataset that returns a dataset.

        Returns:
            Its result.

        Raises:
            TypeError: if the function does not return a dataset.

        >>> print(*tf.data.Dataset.range(4).apply(lambda data: data.skip(2)).as_numpy_iterator())
        2 3
        """
        out = transformation_func(self)
        if not isinstance(out, DatasetV2):
            raise TypeError(f"`transformation_func` must return a `tf.data.Dataset` object. Got {type(out)}.")
        return out

    # -- batches --------------------------------------------------------------------------------------------------------
    def batch(self, batch_size: Any, drop_remainder: Any = False, num_parallel_calls: Any = None,
              deterministic: bool | None = None, name: str | None = None) -> Any:
        """A dataset of batches of consecutive elements.

        Args:
            batch_size: How many elements make a batch.
            drop_remainder: Whether a last batch of fewer elements is left out; then the batch size is static.
            num_parallel_calls: How many batches are made at the same time.
            deterministic: Whether parallel batches keep their order.
            name: Name of the operation; not used.

        Returns:
            A dataset whose elements have one more axis, the first.

        Raises:
            tf.errors.InvalidArgumentError: while iterating, if elements of a batch have different shapes.

        >>> print(*tf.data.Dataset.range(5).batch(2).as_numpy_iterator())
        [0 1] [2 3] [4]
        """
        size, drop = int64(batch_size, "batch_size"), convert(drop_remainder, dtypes.bool, "drop_remainder")
        made: Any = self._then("BatchDatasetV2", size, drop, spec=structure.batched(self.element_spec, static_size(size, drop)))
        made._batch_size = size                  # by which Keras sees that elements are batches
        return made

    def padded_batch(self, batch_size: Any, padded_shapes: Any = None, padding_values: Any = None,
                     drop_remainder: Any = False, name: str | None = None) -> Any:
        """A dataset of batches whose elements are padded to one shape.

        Args:
            batch_size: How many elements make a batch.
            padded_shapes: Shape of each component; unknown sizes are the largest of the batch, which is the default.
            padding_values: Value of each component to pad with; zero or empty text by default.
            drop_remainder: Whether a last batch of fewer elements is left out.
            name: Name of the operation; not used.

        Returns:
            A dataset whose elements have one more axis, the first.

        >>> print(*tf.data.Dataset.range(1, 4).map(lambda n: tf.range(n)).padded_batch(3).as_numpy_iterator())
        [[0 0 0]
         [0 1 0]
         [0 1 2]]
        """
        return _methods().padded_batch(self, batch_size, padded_shapes, padding_values, drop_remainder)

    def unbatch(self, name: str | None = None) -> Any:
        """A dataset of the slices of each element along its first axis.

        Args:
            name: Name of the operation; not used.

        Returns:
            A dataset.

        >>> print(*tf.data.Dataset.range(4).batch(2).unbatch().as_numpy_iterator())
        0 1 2 3
        """
        sizes = [s.shape[:1] for s in structure.flatten(self.element_spec) if isinstance(s, TensorSpec) and s.shape.rank]
        for s in sizes[1:]:
            sizes[0].assert_is_compatible_with(s)
        plain = self._normalized_for_unbatch()
        return plain._then("UnbatchDataset", spec=structure.unbatched(self.element_spec), inputs=(self,))

    def rebatch(self, batch_size: Any, drop_remainder: Any = False, name: str | None = None) -> Any:
        """A dataset of the same rows in batches of another size.

        Args:
            batch_size: The size, or a list of sizes that repeat.
            drop_remainder: Whether a last batch of fewer rows is left out.
            name: Name of the operation; not used.

        Returns:
            A dataset.

        >>> print(*tf.data.Dataset.range(5).batch(3).rebatch(2).as_numpy_iterator())
        [0 1] [2 3] [4]
        """
        sizes = int64(batch_size, "batch_size")
        if structure.is_variant(self.element_spec):
            return self.unbatch().batch(sizes, drop_remainder)
        known = constant_value(sizes)
        total = 0 if known is None else int(known.sum())
        whole = total > 0 and (constant_value(drop_remainder) or all(        # no batch is cut short at the end
            s.shape.rank and s.shape[0] is not None and s.shape[0] % total == 0 for s in structure.flatten(self.element_spec)))
        same = int(known.flat[0]) if known is not None and whole and len(set(known.flat)) == 1 else None
        spec = structure.batched(structure.unbatched(self.element_spec), same)
        return self._then("RebatchDatasetV2", get("Reshape")(sizes, [-1]),
                          convert(drop_remainder, dtypes.bool, "drop_remainder"), spec=spec)

    def _normalized_for_unbatch(self) -> DatasetV2:
        """This dataset with composite components as variants that can be taken apart row by row."""
        spec = self.element_spec
        if not structure.is_variant(spec):
            return self

        def rows(*args: Any) -> tuple:
            element = structure.pack(spec, structure.flatten(args if type(spec) is tuple else args[0]))
            return tuple(structure.to_batched_tensors(spec, element))
        return self.map(rows)

    def window(self, size: Any, shift: Any = None, stride: Any = 1, drop_remainder: Any = False,
               name: str | None = None) -> Any:
        """A dataset of datasets of consecutive elements.

        Args:
            size: How many elements a window has.
            shift: How far the next window begins; `size` by default.
            stride: The distance between elements of a window.
            drop_remainder: Whether windows of fewer elements are left out.
            name: Name of the operation; not used.

        Returns:
            A dataset whose elements are datasets (or structures of datasets).

        >>> [[int(x) for x in window] for window in tf.data.Dataset.range(5).window(3, shift=1, drop_remainder=True)]
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        """
        shift = size if shift is None else shift
        spec = structure.map_structure(lambda s: DatasetSpec(s), self.element_spec)
        return self._then("WindowDataset", int64(size, "size"), int64(shift, "shift"), int64(stride, "stride"),
                          convert(drop_remainder, dtypes.bool, "drop_remainder"), spec=spec)

    # -- choosing and ordering ----------------------------------------------------------------------------------------
    def take(self, count: Any, name: str | None = None) -> Any:
        """A dataset of the first elements.

        Args:
            count: How many; -1 for all.
            name: Name of the operation; not used.

        Returns:
            A dataset.

        >>> print(*tf.data.Dataset.range(5).take(2).as_numpy_iterator())
        0 1
        """
        return self._then("TakeDataset", int64(count, "count"))

    def skip(self, count: Any, name: str | None = None) -> Any:
        """A dataset without the first elements.

        Args:
            count: How many are left out; -1 for all.
            name: Name of the operation; not used.

        Returns:
            A dataset.

        >>> print(*tf.data.Dataset.range(5).skip(3).as_numpy_iterator())
        3 4
        """
        return self._then("SkipDataset", int64(count, "count"))

    def repeat(self, count: Any = None, name: str | None = None) -> Any:
        """A dataset that starts again at its end.

        Args:
            count: How many times the elements come; without it, or -1, without end.
            name: Name of the operation; not used.

        Returns:
            A dataset.

        >>> print(*tf.data.Dataset.range(2).repeat(2).as_numpy_iterator())
        0 1 0 1
        """
        return self._then("RepeatDataset", int64(-1 if count is None else count, "count"))

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> Any:
        """A dataset of every `num_shards`-th element, for one of several workers.

        Args:
            num_shards: How many parts there are.
            index: Which part this is, from 0.
            name: Name of the operation; not used.

        Returns:
            A dataset.

        Raises:
            tf.errors.InvalidArgumentError: if the index is not below the number of parts.

        >>> print(*tf.data.Dataset.range(6).shard(num_shards=3, index=1).as_numpy_iterator())
        1 4
        """
        return self._then("ShardDataset", *_shard_arguments(num_shards, index))

    def shuffle(self, buffer_size: Any, seed: Any = None, reshuffle_each_iteration: bool | None = None,
                name: str | None = None) -> Any:
        """A dataset of the elements in random order: each is drawn from a buffer that is filled in order.

        Args:
            buffer_size: How many elements the buffer holds. Only a buffer as large as the dataset makes all
                orders equally likely.
            seed: Seed of the order.
            reshuffle_each_iteration: Whether later iterations have another order; true by default.
            name: Name of the operation; not used.

        Returns:
            A dataset.

        >>> print(*sorted(tf.data.Dataset.range(4).shuffle(4, seed=1).as_numpy_iterator()))
        0 1 2 3
        """
        again = True if reshuffle_each_iteration is None else bool(reshuffle_each_iteration)
        return self._then("ShuffleDataset", int64(buffer_size, "buffer_size"), *seeds(seed), reshuffle_each_iteration=again)

    def concatenate(self, dataset: Any, name: str | None = None) -> Any:
        """A dataset of the elements of this dataset, then of another.

        Args:
            dataset: Dataset with elements of the same structure and types.
            name: Name of the operation; not used.

        Returns:
            A dataset.

        Raises:
            TypeError: if structures or types differ.

        >>> print(*tf.data.Dataset.range(2).concatenate(tf.data.Dataset.range(7, 9)).as_numpy_iterator())
        0 1 7 8
        """
        mine, others = self.element_spec, dataset.element_spec
        if structure.legacy(mine, "types") != structure.legacy(others, "types"):
            raise TypeError(f"Two datasets to concatenate have different types {structure.legacy(mine, 'types')} and "
                            f"{structure.legacy(others, 'types')}")
        if structure.legacy(mine, "classes") != structure.legacy(others, "classes"):
            raise TypeError(f"Two datasets to concatenate have different classes {structure.legacy(mine, 'classes')} and "
                            f"{structure.legacy(others, 'classes')}")
        spec = structure.map_structure(lambda a, b: a.most_specific_compatible_type(b), mine, others)
        return self._then("ConcatenateDataset", dataset._variant_tensor, spec=spec, inputs=(self, dataset))

    def enumerate(self, start: Any = 0, name: str | None = None) -> Any:
        """A dataset of pairs (index, element).

        Args:
            start: The first index.
            name: Name of the operation; not used.

        Returns:
            A dataset.

        >>> [(int(i), int(x)) for i, x in tf.data.Dataset.range(10, 12).enumerate(start=5)]
        [(5, 10), (6, 11)]
        """
        public = self._public()
        return public.zip((public.range(start, dtypes.int64.max), self))

    @classmethod
    def _public(cls) -> Any:
        """The public class of the API that a dataset belongs to."""
        return DatasetV2

    def prefetch(self, buffer_size: Any, name: str | None = None) -> Any:
        """A dataset whose elements a background thread computes ahead of the program.

        Args:
            buffer_size: How many elements may wait, or `tf.data.AUTOTUNE`.
            name: Name of the operation; not used.

        Returns:
            A dataset of the same elements.

        >>> print(*tf.data.Dataset.range(3).prefetch(tf.data.AUTOTUNE).as_numpy_iterator())
        0 1 2
        """
        return self._then("PrefetchDataset", int64(AUTOTUNE if buffer_size is None else buffer_size, "buffer_size"))

    def cache(self, filename: Any = "", name: str | None = None) -> Any:
        """A dataset that keeps its elements after the first complete iteration.

        Args:
            filename: Path of files to keep them in; in memory by default.
            name: Name of the operation; not used.

        Returns:
            A dataset of the same elements.

        >>> data = tf.data.Dataset.range(3).cache()
        >>> print(*data.as_numpy_iterator(), *data.as_numpy_iterator())
        0 1 2 0 1 2
        """
        return self._then("CacheDataset", convert(filename, dtypes.string, "filename"))

    def save(self, path: str, compression: str | None = None, shard_func: Callable | None = None,
             checkpoint_args: Any = None) -> Any:
        """Writes the elements into a folder, from which `load` reads them; in graphs, an op that does so.

        >>> tf.data.Dataset.range(3).save("/tmp/three")
        >>> list(tf.data.Dataset.load("/tmp/three").as_numpy_iterator())
        [0, 1, 2]
        """
        return _methods().save(self, path, compression, shard_func, checkpoint_args)

    @staticmethod
    def load(path: str, element_spec: Any = None, compression: str | None = None, reader_func: Callable | None = None,
             wait: bool = False) -> Any:
        """Loads a dataset that `save` has written to a folder."""
        return _methods().load(path, element_spec, compression, reader_func)

    def snapshot(self, path: str, compression: str | None = "AUTO", reader_func: Callable | None = None,
                 shard_func: Callable | None = None, name: str | None = None) -> Any:
        """A dataset that caches its elements in a folder: the first complete iteration writes them, later ones read them."""
        return _methods().snapshot(path, compression, reader_func, shard_func)(self)

    # -- others -----------------------------------------------------------------------------------------------------------
    def group_by_window(self, key_func: Callable, reduce_func: Callable, window_size: Any = None,
                        window_size_func: Callable | None = None, name: str | None = None) -> Any:
        """A dataset of what a function makes of groups of elements with equal keys.

        Args:
            key_func: Function of an element that returns an int64 key.
            reduce_func: Function of (key, dataset of the group) that returns a dataset.
            window_size: How many elements make a group.
            window_size_func: Function of the key that returns this number, instead of `window_size`.
            name: Name of the operation; not used.

        Returns:
            A dataset of the elements of the results.

        Raises:
            ValueError: if both or none of `window_size` and `window_size_func` are given.

        >>> odd_even = tf.data.Dataset.range(6).group_by_window(lambda x: x % 2, lambda key, group: group.batch(3), 3)
        >>> print(*odd_even.as_numpy_iterator())
        [0 2 4] [1 3 5]
        """
        return _methods().group_by_window(key_func, reduce_func, window_size, window_size_func)(self)

    def bucket_by_sequence_length(self, element_length_func: Callable, bucket_boundaries: Any, bucket_batch_sizes: Any,
                                  padded_shapes: Any = None, padding_values: Any = None,
                                  pad_to_bucket_boundary: bool = False, no_padding: bool = False,
                                  drop_remainder: bool = False, name: str | None = None) -> Any:
        """A dataset of padded batches of elements with similar lengths.

        Args:
            element_length_func: Function of an element that returns its length.
            bucket_boundaries: Upper bounds (exclusive) of the lengths in each bucket; longer elements make one more.
            bucket_batch_sizes: Batch size of each bucket, one more than boundaries.
            padded_shapes, padding_values: As of `padded_batch`.
            pad_to_bucket_boundary: Whether to pad to the bound of the bucket (less one) instead of to the longest element.
            no_padding: Whether to make sparse batches instead.
            drop_remainder: Whether batches of fewer elements are left out.
            name: Name of the operation; not used.

        Returns:
            A dataset.

        >>> rows = tf.data.Dataset.from_tensor_slices([1, 4, 2, 5]).map(lambda n: tf.range(n))
        >>> batches = rows.bucket_by_sequence_length(lambda row: tf.shape(row)[0], [3], [2, 2])
        >>> [batch.shape.as_list() for batch in batches]
        [[2, 2], [2, 5]]
        """
        return _methods().bucket_by_sequence_length(element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes,
                                         padding_values, pad_to_bucket_boundary, no_padding, drop_remainder)(self)

    def unique(self, name: str | None = None) -> Any:
        """A dataset without repeated elements.

        Args:
            name: Name of the operation; not used.

        Returns:
            A dataset of the first of all equal elements.

        >>> print(*tf.data.Dataset.from_tensor_slices([1, 2, 1, 3]).unique().as_numpy_iterator())
        1 2 3
        """
        spec = self.element_spec
        if not isinstance(spec, TensorSpec) or spec.dtype not in (dtypes.int32, dtypes.int64, dtypes.string):
            raise TypeError(f"`tf.data.Dataset.unique` does not support elements of type {spec}: only `tf.int32`, `tf.int64`, "
                            "and `tf.string` tensors.")
        return self._then("UniqueDataset")

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Any:
        """A dataset that skips elements whose computation fails."""
        return self._then("IgnoreErrorsDataset", log_warning=log_warning)

    def rejection_resample(self, class_func: Callable, target_dist: Any, initial_dist: Any = None, seed: Any = None,
                           name: str | None = None) -> Any:
        """A dataset resampled so that its classes have a target distribution."""
        return _methods().rejection_resample(class_func, target_dist, initial_dist, seed)(self)

    def get_single_element(self, name: str | None = None) -> Any:
        """The element of a dataset that has one.

        Args:
            name: Name of the operation; not used.

        Returns:
            The element, as tensors.

        Raises:
            tf.errors.InvalidArgumentError: if the dataset has another number of elements.

        >>> tf.data.Dataset.range(3).batch(3).get_single_element().numpy().tolist()
        [0, 1, 2]
        """
        out = call_op("DatasetToSingleElement", self._variant_tensor, **structure.outputs(self.element_spec))
        return structure.from_tensors(self.element_spec, out)

    def fingerprint(self) -> Any:
        """A number (uint64) that datasets made by the same transformations of the same inputs have in common."""
        return call_op("DatasetFingerprint", self._variant_tensor)

    def ragged_batch(self, batch_size: Any, drop_remainder: bool = False, row_splits_dtype: Any = dtypes.int64,
                     name: str | None = None) -> Any:
        """A dataset of batches as ragged tensors, of elements of different lengths.

        Args:
            batch_size: How many elements make a batch.
            drop_remainder: Whether a last batch of fewer elements is left out.
            row_splits_dtype: Type of the row splits.
            name: Name of the operation; not used.

        Returns:
            A dataset of ragged tensors.

        >>> next(iter(tf.data.Dataset.range(1, 4).map(lambda n: tf.range(n)).ragged_batch(3))).to_list()
        [[0], [0, 1], [0, 1, 2]]
        """
        return _methods().dense_to_ragged_batch(batch_size, drop_remainder, row_splits_dtype)(self)

    def sparse_batch(self, batch_size: Any, row_shape: Any, name: str | None = None) -> Any:
        """A dataset of batches of elements of several shapes, as sparse tensors."""
        return _methods().sparse_batch(self, batch_size, row_shape)

    def options(self) -> Options:
        """The options that were set on this dataset and on those that it is created from."""
        return Options() if self._options is None else self._options

    def with_options(self, options: Options, name: str | None = None) -> Any:
        """The same dataset with options set."""
        variant = self._variant_tensor
        if options._serialized():
            variant = call_op("OptionsDataset", variant, serialized_options=options._serialized(),
                              **structure.outputs(self.element_spec))
        out = self._made(variant, self.element_spec, (self,))
        out._options = merged(self.options(), options)
        return out

    # -- as a graph -----------------------------------------------------------------------------------------------------
    def _as_serialized_graph(self, stateful_whitelist: Any = None) -> Any:
        """The GraphDef of the ops that make this dataset, as a string tensor."""
        return get("DatasetToGraph")(self._variant_tensor)

    def _trace_variant_creation(self) -> Any:
        """A concrete function without arguments that creates the variant tensor of this dataset (eager execution only)."""
        return _VariantTracker(self._variant_tensor).creator.get_concrete_function()

    def _list_extra_dependencies_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        if self._tracker is None:
            self._tracker = _VariantTracker(self._variant_tensor)
        return {"_variant_tracker": self._tracker}

    _tracker: Any = None

    def __repr__(self) -> str:
        names = structure.map_structure(lambda s: s, self.element_spec)
        return f"<{type(self)._label} element_spec={names}>"

    _label = "Dataset"


def _as_numpy(x: Any) -> Any:
    """The value of a component, which cannot be written to: it may share the tensor's memory."""
    value = x._numpy() if not isinstance(x, tf.Tensor) and hasattr(x, "_numpy") else x.numpy()
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value


@export("data.NumpyIterator")
class NumpyIterator(Trackable):
    """The elements of a dataset as numpy arrays, see `tf.data.Dataset.as_numpy_iterator`."""

    def __init__(self, dataset: DatasetV2):
        self._iterator = iter(dataset)

    def __repr__(self) -> str:
        return f"NumpyIterator(iterator={self._iterator!r})"

    def __iter__(self) -> NumpyIterator:
        return self

    def __next__(self) -> Any:
        return structure.map_structure(_as_numpy, next(self._iterator))

    def next(self) -> Any:
        """The next element."""
        return next(self)

    def _gather_saveables_for_checkpoint(self) -> dict:
        return self._iterator._gather_saveables_for_checkpoint()


def static_size(size: Any, drop: Any) -> int | None:
    """The size of batches, if it is static."""
    known = constant_value(size)
    return int(known) if constant_value(drop) and known is not None else None


def _check_parallel(calls: Any) -> None:
    value = constant_value(calls)
    if value is not None and value < 1 and value != AUTOTUNE:
        raise errors.invalid("num_parallel_calls must be greater than zero.")


def _deterministic(dataset: DatasetV2, asked: bool | None) -> str:
    if asked is None:
        asked = dataset.options().deterministic
    return "default" if asked is None else "true" if asked else "false"


def _shard_arguments(num_shards: Any, index: Any) -> tuple[Any, Any]:
    shards, i = int64(num_shards, "num_shards"), int64(index, "index")
    n, k = constant_value(shards), constant_value(i)
    if n == k == SHARD_HINT:
        return shards, i
    if n is not None and n < 1:
        raise errors.invalid(f"num_shards must be >= 1; got: {n}")
    if k is not None and k < 0 or n is not None and k is not None and k >= n:
        raise errors.invalid(f"Index must be between 0 and {None if n is None else n - 1} (currently index = {k}).")
    return shards, i


class VariantDataset(DatasetV2):
    """A dataset from a variant tensor and the type of its elements."""

    def __init__(self, variant_tensor: Any, element_spec: Any, inputs: Any = (), functions: Any = ()):
        self._spec, self._from, self._called = element_spec, list(inputs), list(functions)
        super().__init__(variant_tensor)

    def _inputs(self) -> list:
        return list(self._from)

    def _functions(self) -> list:
        return list(self._called)

    element_spec = property(lambda self: self._spec, doc="The type of the elements.")


class _VariantTracker(Trackable):
    """The variant of a dataset in a SavedModel: a function recreates it where the model is loaded."""

    def __init__(self, variant: Any):
        self.resource_handle = variant

    @property
    def creator(self) -> Any:
        """A function without arguments that creates the variant."""
        if not hasattr(self.resource_handle, "_value"):
            raise NotImplementedError("Only eager datasets can be converted to a function.")
        return function(lambda: rebuilt(self.resource_handle._value), input_signature=[], autograph=False)

    def _list_functions_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        return {"_create_resource": self.creator} if hasattr(self.resource_handle, "_value") else {}


@export("data.DatasetSpec", v1=["data.experimental.DatasetStructure"], v2=["data.experimental.DatasetStructure"])
class DatasetSpec(BatchableTypeSpec):
    """The type of a dataset: that of its elements.

    >>> tf.data.DatasetSpec(tf.TensorSpec([], tf.int64))
    """

    __slots__ = ("_element_spec", "_dataset_shape")

    def __init__(self, element_spec: Any, dataset_shape: Any = ()):
        self._element_spec, self._dataset_shape = element_spec, TensorShape(dataset_shape)

    value_type = property(lambda self: DatasetV2, doc="The class of the values.")
    element_spec = property(lambda self: self._element_spec, doc="The type of the elements.")

    def _serialize(self) -> tuple:
        return self._element_spec, self._dataset_shape

    @property
    def _component_specs(self) -> Any:
        return TensorSpec(self._dataset_shape, dtypes.variant)

    @property
    def _flat_tensor_specs(self) -> list:
        return [self._component_specs]

    def _to_components(self, value: Any) -> Any:
        return value._variant_tensor

    def _to_tensor_list(self, value: Any) -> list:
        return [value._variant_tensor]

    def _to_batched_tensor_list(self, value: Any) -> list:
        return [value._variant_tensor]

    def _from_components(self, components: Any) -> Any:
        if self._dataset_shape.ndims == 0:
            return _current_api()(components, self._element_spec)
        return _NestedVariant(components, self._element_spec, self._dataset_shape)

    def _from_compatible_tensor_list(self, tensor_list: list) -> Any:
        return self._from_components(tensor_list[0])

    @classmethod
    def from_value(cls, value: Any) -> DatasetSpec:
        """The type of a dataset."""
        return cls(value.element_spec)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether the elements fit."""
        other = spec_or_value._type_spec if isinstance(spec_or_value, DatasetV2) else spec_or_value
        return isinstance(other, DatasetSpec) and structure.compatible(self._element_spec, other._element_spec) and \
            self._dataset_shape.is_compatible_with(other._dataset_shape)

    def most_specific_compatible_type(self, other: Any) -> Any:
        """The narrowest type that covers both."""
        if not self.is_compatible_with(other):
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        return DatasetSpec(structure.map_structure(lambda a, b: a.most_specific_compatible_type(b), self._element_spec,
                                                   other._element_spec), self._dataset_shape)

    def _batch(self, batch_size: Any) -> DatasetSpec:
        return DatasetSpec(self._element_spec, TensorShape([batch_size]).concatenate(self._dataset_shape))

    def _unbatch(self) -> DatasetSpec:
        if self._dataset_shape.ndims == 0:
            raise ValueError("Slicing dataset elements is not supported for rank 0.")
        return DatasetSpec(self._element_spec, self._dataset_shape[1:])

    def _to_legacy_output_types(self) -> Any:
        return self

    def _to_legacy_output_shapes(self) -> Any:
        return self

    def _to_legacy_output_classes(self) -> Any:
        return self


class _NestedVariant:
    """Several datasets in one tensor, which can only be sliced into datasets."""

    def __init__(self, variant_tensor: Any, element_spec: Any, dataset_shape: Any):
        self._variant_tensor, self._element_spec, self._shape = variant_tensor, element_spec, dataset_shape

    @property
    def _type_spec(self) -> DatasetSpec:
        return DatasetSpec(self._element_spec, self._shape)


class _Api:
    made: Any = VariantDataset             # the class of datasets that functions get as arguments


def _current_api() -> Any:
    return _Api.made


