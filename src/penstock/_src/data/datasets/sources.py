"""Methods of tf.data.Dataset that create datasets from tensors, numbers, files and other datasets."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base import dtypes
from penstock._src.base.static_shape import as_dimension
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.arguments import int64, seeds
from penstock._src.data.datasets.dataset_base import DatasetBase, methods
from penstock._src.data.datasets.generator import from_generator
from penstock._src.graph.convert import convert
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.ops.registry import get


class Sources(DatasetBase):
    """Datasets that do not transform one dataset."""

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
        if args and datasets is not None:
            raise TypeError("Both `*args` and `datasets` cannot be set.")
        if datasets is not None:
            args = (datasets,)
        if not args:
            raise TypeError("Must pass at least one dataset to `zip`.")
        nested = args[0] if len(args) == 1 else args
        flat = structure.flatten(nested)
        for d in flat:
            if not isinstance(d, DatasetBase):
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
        return methods().list_files(cls, file_pattern, shuffle, seed)

    @classmethod
    def random(cls, seed: Any = None, rerandomize_each_iteration: Any = None, name: str | None = None) -> Any:
        """An infinite dataset of pseudo-random 32-bit numbers.

        Args:
            seed: An integer that fixes the numbers.
            rerandomize_each_iteration: Whether each iteration in eager execution has other numbers, which the seed fixes, too.
            name: Name of the operation; not used.

        Returns:
            A dataset of scalars.

        >>> dataset = tf.data.Dataset.random(seed=4).take(3)
        >>> list(dataset) == list(dataset)
        True
        """
        spec = TensorSpec([], dtypes.int64)
        if not rerandomize_each_iteration:
            return cls._made(get("RandomDataset")(*seeds(seed), **structure.outputs(spec)), spec)
        return cls._made(get("RandomDatasetV2")(*seeds(seed), get("DummySeedGenerator")(), rerandomize_each_iteration=True,
                                                **structure.outputs(spec)), spec)

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
        return methods().choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)

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
        return methods().sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)
