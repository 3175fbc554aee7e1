"""Methods of tf.data.Dataset that call a function for each element."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.arguments import AUTOTUNE, check_parallel, deterministic_attr, int64
from penstock._src.data.datasets.dataset_base import DatasetBase
from penstock._src.data.datasets.dataset_spec import DatasetSpec
from penstock._src.data.datasets.functions import ElementFunction, call_op
from penstock._src.data.datasets.scanning import scan, state_function
from penstock._src.graph.type_spec import TensorSpec


class Mapping(DatasetBase):
    """Transformations by functions of elements."""

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
        check_parallel(calls)
        return self._then("ParallelMapDatasetV2", f.captured, calls, spec=f.output_spec, functions={"f": f},
                          preserve_cardinality=keep, deterministic=deterministic_attr(self, deterministic))

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
        check_parallel(calls, None if automatic else cycle)
        return self._then("ParallelInterleaveDatasetV2", f.captured, cycle, block, calls, spec=spec, functions={"f": f},
                          sloppy=deterministic_attr(self, deterministic) == "false")

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
        if not isinstance(out, DatasetBase):
            raise TypeError(f"`transformation_func` must return a `tf.data.Dataset` object. Got {type(out)}.")
        return out
