"""tf.data.Dataset of 1.x: the same datasets with more names, and iterators for graphs."""
from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.data.datasets import moving, structure
from penstock._src.data.datasets.dataset import DatasetV2, VariantDataset
from penstock._src.data.datasets.dataset_spec import Classes
from penstock._src.data.datasets.iterators import initializable, one_shot
from penstock._src.graph import context
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.ops.registry import get


@export(v1=["data.Dataset"])
class DatasetV1(DatasetV2):
    """A sequence of elements, and how they are produced.

    Args:
        variant_tensor: Used by subclasses.

    >>> ds = tf.data.Dataset.from_tensor_slices([1, 2, 3, 4, 5]).map(lambda x: x * x).batch(2)
    >>> [batch.numpy().tolist() for batch in ds]
    [[1, 4], [9, 16], [25]]
    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     next_batch = tf.data.Dataset.range(5).batch(2).make_one_shot_iterator().get_next()
    ...     print(sess.run(next_batch), sess.run(next_batch))
    [0 1] [2 3]
    """

    _label = "DatasetV1Adapter"
    _preserve = False

    def __init__(self, variant_tensor: Any = None):
        super().__init__(self._as_variant_tensor() if variant_tensor is None else variant_tensor)

    @property
    def _variant_tensor(self) -> Any:
        """The tensor in the current graph."""
        return moving.here(self.__dict__["_variant"], self.__dict__["_copies"])

    @_variant_tensor.setter
    def _variant_tensor(self, value: Any) -> None:
        self.__dict__.update(_variant=value, _copies=weakref.WeakKeyDictionary())

    def _as_variant_tensor(self) -> Any:
        """The variant tensor of a subclass that creates it."""
        raise NotImplementedError("Dataset._as_variant_tensor")

    @classmethod
    def _made(cls, variant: Any, spec: Any, inputs: Any = (), functions: Any = ()) -> Any:
        return VariantDatasetV1(variant, spec, inputs, functions)

    @classmethod
    def _public(cls) -> Any:
        return DatasetV1

    # -- iterators ------------------------------------------------------------------------------------------------------
    def make_one_shot_iterator(self) -> Any:
        """An iterator that needs no initialization and goes through the dataset once per session."""
        return self._make_one_shot_iterator()

    def _make_one_shot_iterator(self) -> Any:
        return one_shot(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        """An iterator that starts when its initializer is run."""
        return self._make_initializable_iterator(shared_name)

    def _make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        return initializable(self, shared_name)

    output_types = property(lambda self: structure.legacy(self.element_spec, "types"), doc="The dtypes of an element.")
    output_shapes = property(lambda self: structure.legacy(self.element_spec, "shapes"), doc="The static shapes of an element.")
    output_classes = property(lambda self: structure.legacy(self.element_spec, "classes"), doc="The classes of an element.")

    @property
    def element_spec(self) -> Any:
        """The type of the elements, from a subclass's types, shapes and classes."""
        names = ("output_types", "output_shapes", "output_classes")
        own = [next(k.__dict__[n] for k in type(self).__mro__ if n in k.__dict__) for n in names]
        if own[0] is DatasetV1.__dict__["output_types"]:
            raise NotImplementedError("Dataset.element_spec")
        return structure.from_legacy(self.output_types, self.output_shapes, self.output_classes)

    # -- what only 1.x has --------------------------------------------------------------------------------------------
    @classmethod
    def from_sparse_tensor_slices(cls, sparse_tensor: Any) -> Any:
        """A dataset of the rows of a sparse tensor: the indices, values and dense shape of each.

        >>> tf.data.Dataset.from_sparse_tensor_slices(x).map(tf.SparseTensor)
        """
        if not isinstance(sparse_tensor, SparseTensor):
            raise TypeError(f"`sparse_tensor` must be a `tf.SparseTensor` object. Was {sparse_tensor!r}.")
        shape = sparse_tensor.dense_shape.shape
        rank = None if shape.ndims is None or shape.static_dims[0] is None else shape.static_dims[0] - 1
        variant = get("SparseTensorSliceDataset")(sparse_tensor.indices, sparse_tensor.values, sparse_tensor.dense_shape)
        parts = (TensorSpec([None, rank], dtypes.int64), TensorSpec([None], sparse_tensor.dtype),
                 TensorSpec([rank], dtypes.int64))
        return VariantDatasetV1(variant, parts)

    def map_with_legacy_function(self, map_func: Callable, num_parallel_calls: Any = None,
                                 deterministic: bool | None = None) -> Any:
        """The same as `map`."""
        return self.map(map_func, num_parallel_calls, deterministic)

    def filter_with_legacy_function(self, predicate: Callable) -> Any:
        """The same as `filter`."""
        return self.filter(predicate)


class VariantDatasetV1(DatasetV1):
    """A dataset of 1.x from a variant tensor and the type of its elements."""

    def __init__(self, variant_tensor: Any, element_spec: Any, inputs: Any = (), functions: Any = ()):
        self._spec, self._from, self._called = element_spec, list(inputs), list(functions)
        super().__init__(variant_tensor)

    _inputs = VariantDataset._inputs
    _functions = VariantDataset._functions
    element_spec = property(lambda self: self._spec, doc="The type of the elements.")


def as_v1(dataset: DatasetV2) -> Any:
    """A dataset under the 1.x API."""
    if isinstance(dataset, DatasetV1):
        return dataset
    out = VariantDatasetV1(dataset._variant_tensor, dataset.element_spec, dataset._inputs(), dataset._functions())
    out._options = dataset._options
    return out


class _VariantDataset(VariantDatasetV1):
    """A dataset argument of a function; it has the methods of both APIs."""

    _label = "_VariantDataset"

    @property
    def _preserve(self) -> bool:                 # type: ignore[override]
        return context.process.eager


Classes.made = _VariantDataset
