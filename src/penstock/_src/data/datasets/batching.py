"""Methods of tf.data.Dataset that combine elements to batches, windows and groups."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.arguments import int64, static_size
from penstock._src.data.datasets.dataset_base import methods
from penstock._src.data.datasets.dataset_spec import DatasetSpec
from penstock._src.data.datasets.mapping import Mapping
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.ops.registry import get


class Batching(Mapping):
    """Transformations that change how many rows make an element."""

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
        return methods().padded_batch(self, batch_size, padded_shapes, padding_values, drop_remainder)

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
        return methods().dense_to_ragged_batch(batch_size, drop_remainder, row_splits_dtype)(self)

    def sparse_batch(self, batch_size: Any, row_shape: Any, name: str | None = None) -> Any:
        """A dataset of batches of elements of several shapes, as sparse tensors."""
        return methods().sparse_batch(self, batch_size, row_shape)

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

    def _normalized_for_unbatch(self) -> Any:
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
        return methods().group_by_window(key_func, reduce_func, window_size, window_size_func)(self)

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
        return methods().bucket_by_sequence_length(element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes,
                                         padding_values, pad_to_bucket_boundary, no_padding, drop_remainder)(self)
