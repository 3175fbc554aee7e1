"""Methods of tf.data.Dataset that choose, order and join elements."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.arguments import int64, seeds, shard_arguments
from penstock._src.data.datasets.dataset_base import DatasetBase, methods
from penstock._src.data.datasets.functions import call_op
from penstock._src.graph.type_spec import TensorSpec


class Selecting(DatasetBase):
    """Transformations that keep elements as they are, but change which ones come, and when."""

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
        return self._then("ShardDataset", *shard_arguments(num_shards, index))

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
        return methods().rejection_resample(class_func, target_dist, initial_dist, seed)(self)

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
