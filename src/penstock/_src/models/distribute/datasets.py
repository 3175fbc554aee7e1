"""Datasets for replicas: global batches that are split, or batches that are assigned to the replicas in turn.

There is one input pipeline per process. `DistributedDataset` maps every global batch to a tuple of parts, one per replica, so
that one element of the pipeline is one step. `DistributedDatasetsFromFunction` takes one element for each replica; if the last
step has too few, the remaining replicas get empty batches.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes, errors, nest
from penstock._src.base.api import export
from penstock._src.data.datasets import iterators, structure
from penstock._src.data.datasets.dataset_v1 import DatasetV1
from penstock._src.data.datasets.loops import for_elements
from penstock._src.data.datasets.optional import Optional, from_next
from penstock._src.graph import context
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import control_dependencies, device
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.models.distribute.cross_device_ops import copy_to
from penstock._src.models.distribute.values import PerReplicaSpec, regroup
from penstock._src.ops.control.control_flow import cond
from penstock._src.ops.core import group
from penstock._src.ops.registry import get
from penstock._src.ops.sparse.sparse_parts import sparse_slice


# -- cutting batches --------------------------------------------------------------------------------------------------
def _rows_of(x: Any, begin: Any, end: Any) -> Any:
    if isinstance(x, SparseTensor):
        shape = x.dense_shape
        rest = get("ZerosLike")(shape[1:])
        size = get("ConcatV2")([get("Reshape")(get("Cast")(end - begin, DstT=shape.dtype), [1]), shape[1:]], 0)
        return sparse_slice(x, get("ConcatV2")([get("Reshape")(get("Cast")(begin, DstT=shape.dtype), [1]), rest], 0), size)
    return x[begin:end]


def _check_batched(spec: Any) -> None:
    for s in structure.flatten(spec):
        shape = getattr(s, "shape", None) if hasattr(s, "shape") else getattr(s, "_shape", None)
        if shape is not None and shape.rank == 0:
            raise ValueError("Input shape should have at least one dimension. Perhaps your input dataset is not batched? Its "
                             f"elements are {spec}; to distribute them, batch the dataset by the global batch size first.")


def split_batches(dataset: Any, count: int) -> Any:
    """A dataset of tuples with one part of each batch for each of `count` replicas.

    A batch that does not divide assigns the first replicas one row more, and the last ones fewer, or none.
    """
    spec = dataset.element_spec
    _check_batched(spec)
    known = {s.shape.as_list()[0] for s in structure.flatten(spec) if isinstance(s, TensorSpec) and s.shape.rank}
    known = {getattr(d, "value", d) for d in known}
    fixed = next(iter(known)) if len(known) == 1 and None not in known else None

    def split(*element: Any) -> tuple:
        value = element[0] if len(element) == 1 and not isinstance(spec, tuple) else element
        flat = nest.flatten(value)
        if fixed is not None and fixed % count == 0 and all(isinstance(x, Tensor) for x in flat):
            cut = [get("Split")(0, x, num_split=count) for x in flat]
            return tuple(nest.pack_sequence_as(value, [c[i] for c in cut]) for i in range(count))
        rows = fixed if fixed is not None else _row_count(flat[0])
        each = (rows + count - 1) // count
        ends = [_least(i * each, rows) for i in range(count + 1)]
        return tuple(nest.pack_sequence_as(value, [_rows_of(x, ends[i], ends[i + 1]) for x in flat]) for i in range(count))
    return dataset.map(split)


def _row_count(x: Any) -> Any:
    if isinstance(x, Tensor):
        return get("Shape")(x)[0]
    shape = x.dense_shape if hasattr(x, "dense_shape") else x.bounding_shape()
    return get("Cast")(shape[0], DstT=dtypes.int32)


def _least(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else get("Minimum")(a, b)


def _placed(value: Any, where: str) -> Any:
    """A structure of tensors on a replica's device."""
    return nest.map_structure(lambda x: copy_to(x, where) if isinstance(x, (Tensor, IndexedSlices)) else x, value)


# -- where elements come from -----------------------------------------------------------------------------------------
class _Source:
    """A dataset for several replicas: how an iterator over it passes one element to each."""

    def __init__(self, dataset: Any, devices: tuple, cut: bool, fill: bool = True):
        self.given, self.devices, self._cut = dataset, devices, cut and len(devices) > 1
        self._fill = fill                          # whether replicas for which nothing is left get batches without rows
        self.dataset = split_batches(dataset, len(devices)) if self._cut else dataset

    @property
    def element_spec(self) -> Any:
        """The type of what the iterator returns."""
        spec = self.dataset.element_spec
        n = len(self.devices)
        if n == 1:
            return spec
        specs = spec if self._cut else (spec,) * n
        flat = [structure.flatten(s) for s in specs]
        return structure.pack(specs[0], [PerReplicaSpec(*column) for column in zip(*flat, strict=True)])

    def next(self, iterator: Any) -> Any:
        """The next element of each replica; OutOfRangeError when there is none."""
        return self.begun(iterator, iterator.get_next())

    def begun(self, iterator: Any, element: Any) -> Any:
        """The next element of each replica, when the iterator has given its first."""
        if len(self.devices) == 1:
            return _placed(element, self.devices[0])
        parts = list(element) if self._cut else self._following(iterator, element)
        return regroup([_placed(p, d) for p, d in zip(parts, self.devices, strict=True)])

    def _following(self, iterator: Any, first: Any) -> list:
        """One element for each replica. At the end, some get batches without rows, or what is left is dropped."""
        parts = [first]
        spec = self.dataset.element_spec
        fill = self._fill and all(isinstance(s, TensorSpec) and s.shape.rank and s.shape.static_dims[0] is None
                                  for s in structure.flatten(spec))
        for _ in self.devices[1:]:
            with control_dependencies(_tensors(parts[-1])):
                parts.append(_next_or_empty(iterator, spec, first) if fill else iterator.get_next())
        return parts


def _tensors(value: Any) -> list:
    if context.executing_eagerly():
        return []
    return [t for t in nest.flatten(value, expand_composites=True) if isinstance(t, Tensor)]


def _next_or_empty(iterator: Any, spec: Any, like: Any) -> Any:
    def empty() -> Any:
        return nest.map_structure(lambda x: x[:0], like)
    if context.executing_eagerly():
        try:
            return iterator.get_next()
        except errors.OutOfRangeError:
            return empty()
    found = from_next(iterator)
    value = cond(found.has_value(), found.get_value, empty)
    for t, s in zip(nest.flatten(value), structure.flatten(spec), strict=True):
        t.set_shape(s.shape)
    return value


# -- 2.x: iterables ---------------------------------------------------------------------------------------------------
class _Elements:
    """The base of iterators over the elements of a source."""

    _source: _Source
    _iterator: Any
    element_spec = property(lambda self: self._source.element_spec, doc="The type of the elements.")

    def get_next(self, name: str | None = None) -> Any:
        """The next element for each replica; OutOfRangeError at the end."""
        return self._source.next(self._iterator)

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        try:
            return self.get_next()
        except errors.OutOfRangeError:
            raise StopIteration from None

    next = __next__


@export("distribute.DistributedIterator")
class DistributedIterator(_Elements):
    """An iterator over values for each replica."""

    def __init__(self, source: _Source, strategy: Any):
        self._source, self._strategy = source, strategy
        with device("/device:CPU:0"):
            self._iterator = iterators.OwnedIterator(source.dataset)

    def get_next_as_optional(self) -> Any:
        """The next element as an Optional, which is empty at the end."""
        if context.executing_eagerly():
            try:
                return Optional.from_value(self.get_next())
            except errors.OutOfRangeError:
                return Optional.none_from_structure(self.element_spec)
        first = from_next(self._iterator)
        whole = cond(first.has_value(),
                     lambda: Optional.from_value(self._source.begun(self._iterator, first.get_value()))._variant_tensor,
                     lambda: Optional.none_from_structure(self.element_spec)._variant_tensor)
        return Optional(whole, self.element_spec)

    def _autograph_for(self, go_on: Any, body: Any, state: Any, options: dict[str, Any]) -> None:
        """How AutoGraph builds a loop over the remaining elements."""
        for_elements(self._iterator, go_on, lambda element: body(self._source.begun(self._iterator, element)), state, options)


@export("distribute.DistributedDataset")
class DistributedDataset:
    """A dataset whose elements are one part of a global batch for each replica.

    >>> for batch in strategy.experimental_distribute_dataset(dataset.batch(64)): ...
    """

    _cut = True

    def __init__(self, dataset: Any, strategy: Any):
        if not hasattr(dataset, "element_spec"):
            raise TypeError(f"A strategy distributes a tf.data.Dataset, not {type(dataset).__name__} ({dataset!r}).")
        self._strategy = strategy
        self._source = _Source(dataset, strategy.extended._input_devices(), self._cut)

    element_spec = property(lambda self: self._source.element_spec, doc="The type of the elements.")

    def __iter__(self) -> DistributedIterator:
        if not context.executing_eagerly() and not context.current_graph().building_function:
            raise RuntimeError("__iter__() is only supported inside of tf.function or when eager execution is enabled.")
        return DistributedIterator(self._source, self._strategy)

    def _autograph_for(self, go_on: Any, body: Any, state: Any, options: dict[str, Any]) -> None:
        """How AutoGraph builds a loop over the elements."""
        iter(self)._autograph_for(go_on, body, state, options)

    def cardinality(self) -> Any:
        """The number of elements."""
        found = self._source.dataset.cardinality()
        return found if self._cut else -(-found // len(self._source.devices))

    # -- graphs -------------------------------------------------------------------------------------------------------
    def make_initializable_iterator(self) -> Any:
        """An iterator for graphs, to be initialized."""
        return self._make_initializable_iterator()

    def make_one_shot_iterator(self) -> Any:
        """An iterator that needs no initialization."""
        return self._make_one_shot_iterator()

    def _make_initializable_iterator(self, shared_name: Any = None) -> Any:
        return DistributedIteratorV1(self._source, self._strategy)

    def _make_one_shot_iterator(self) -> Any:
        return DistributedIteratorV1(self._source, self._strategy, one_shot=True)


class DistributedDatasetsFromFunction(DistributedDataset):
    """A dataset whose elements are one element of an input pipeline for each replica."""

    _cut = False

    def __init__(self, dataset_fn: Any, strategy: Any):
        made = dataset_fn(strategy.extended._input_context())
        if not hasattr(made, "element_spec"):
            raise ValueError(f"The dataset function must return a tf.data.Dataset, but it returned {made!r}.")
        super().__init__(made, strategy)


# -- 1.x: iterators ---------------------------------------------------------------------------------------------------
class DistributedIteratorV1(_Elements):
    """An iterator that can be initialized again: in graphs by running `initializer`, eagerly by calling `initialize()`."""

    def __init__(self, source: _Source, strategy: Any, one_shot: bool = False):
        self._source, self._strategy, self._one_shot = source, strategy, one_shot
        self._iterator: Any = None
        if not context.executing_eagerly():
            make = iterators.one_shot if one_shot else (lambda d: iterators.initializable(d, None))
            with device("/device:CPU:0"):
                self._iterator = make(source.dataset)
        else:
            self.initialize()

    output_types = property(lambda self: structure.legacy(self._source.given.element_spec, "types"), doc="Their dtypes.")
    output_shapes = property(lambda self: structure.legacy(self._source.given.element_spec, "shapes"), doc="Their shapes.")
    output_classes = property(lambda self: structure.legacy(self._source.given.element_spec, "classes"), doc="Their classes.")
    _initializer = property(lambda self: self.initializer)

    @property
    def initializer(self) -> Any:
        """The op that starts it."""
        if context.executing_eagerly():
            return self.initialize()
        return self._iterator.initializer

    def initialize(self) -> Any:
        """Starts or restarts it: at once in eager mode, else by running the returned op."""
        if not context.executing_eagerly():
            return group(self._iterator.initializer)
        with device("/device:CPU:0"):
            self._iterator = iterators.OwnedIterator(self._source.dataset)
        return []


class DatasetIterator(DistributedIteratorV1):
    """An iterator over global batches, cut into one part for each replica."""

    def __init__(self, dataset: Any, strategy: Any):
        super().__init__(_Source(dataset, strategy.extended._input_devices(), True), strategy)


class InputFunctionIterator:
    """An iterator over what an input function returns: a dataset, or a function of no arguments that returns an element."""

    def __init__(self, input_fn: Any, strategy: Any, fill: bool = False):
        made = input_fn(strategy.extended._input_context())
        self._devices = strategy.extended._input_devices()
        self._from: Any = None
        if hasattr(made, "element_spec"):
            self._from = DistributedIteratorV1(_Source(made, self._devices, False, fill), strategy)
        elif not callable(made):
            raise ValueError("input_fn must return a tf.data.Dataset or a callable.")
        self._call = made

    initializer = property(lambda self: self.initialize(), doc="The op that starts it.")

    def initialize(self) -> Any:
        """Starts it."""
        if self._from is not None:
            return self._from.initialize()
        return [] if context.executing_eagerly() else group()

    def get_next(self, name: str | None = None) -> Any:
        """The next element for each replica."""
        if self._from is not None:
            return self._from.get_next()
        return regroup([_placed(self._call(), d) for d in self._devices])


class PlainIterator:
    """An iterator of the default strategy: over the dataset as it is."""

    def __init__(self, dataset: Any):
        self._dataset = dataset
        self._iterator: Any = iterators.OwnedIterator(dataset) if context.executing_eagerly() else \
            iterators.initializable(dataset, None)

    initializer = property(lambda self: self.initialize(), doc="The op that starts it.")

    def initialize(self) -> Any:
        """Starts or restarts it."""
        if not context.executing_eagerly():
            return self._iterator.initializer
        self._iterator = iterators.OwnedIterator(self._dataset)
        return []

    def get_next(self, name: str | None = None) -> Any:
        """The next element."""
        return self._iterator.get_next()


def numpy_dataset(numpy_input: Any) -> Any:
    """A dataset over the rows of arrays, in any structure; a list is a row-wise array only inside of a structure."""
    flat = [x if hasattr(x, "shape") else _array(x) for x in nest.flatten(numpy_input)]
    return DatasetV1.from_tensor_slices(nest.pack_sequence_as(numpy_input, flat))


def _array(x: Any) -> Any:
    import numpy as np
    return np.asarray(x)


