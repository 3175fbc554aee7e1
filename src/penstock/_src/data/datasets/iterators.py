"""The public iterator classes: Iterator of graphs (1.x), and OwnedIterator of eager execution and functions."""
from __future__ import annotations

import warnings
from typing import Any

from penstock._src.base import dtypes, errors, tf_logging
from penstock._src.base.api import export
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.factory import dataset_factory
from penstock._src.data.datasets.loops import for_iterator
from penstock._src.data.datasets.optional import from_next
from penstock._src.data.datasets.positions import saveable
from penstock._src.data.datasets.stats import with_statistics
from penstock._src.execute.context import eager_context
from penstock._src.graph import context
from penstock._src.graph.collections import add_to_collection
from penstock._src.graph.convert import convert
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.trackable import Trackable
from penstock._src.graph.type_spec import TensorSpec, TypeSpec
from penstock._src.ops.control.functional import add_calling_op
from penstock._src.ops.registry import get

GET_NEXT_CALL_WARNING_THRESHOLD = 32
GET_NEXT_CALL_WARNING_MESSAGE = (
    "An unusually high number of `Iterator.get_next()` calls was detected. This often indicates that `Iterator.get_next()` is "
    "being called inside a training loop, which will cause gradual slowdown and eventual resource exhaustion. If this is the "
    "case, restructure your code to call `next_element = iterator.get_next()` once outside the loop, and use `next_element` "
    "as the input to some computation that is invoked inside the loop.")


class _Typed(Trackable):
    """The element types of both kinds of iterators."""

    _spec: Any

    element_spec = property(lambda self: self._spec, doc="The type of the elements.")
    output_types = property(lambda self: structure.legacy(self._spec, "types"), doc="The dtypes of an element.")
    output_shapes = property(lambda self: structure.legacy(self._spec, "shapes"), doc="The static shapes of an element.")
    output_classes = property(lambda self: structure.legacy(self._spec, "classes"), doc="The classes of an element.")


@export(v1=["data.Iterator"])
class Iterator(_Typed):
    """A position in a dataset, in graphs.

    >>> it = tf.data.make_initializable_iterator(ds)
    >>> x = it.get_next()
    >>> sess.run(it.initializer)
    """

    def __init__(self, iterator_resource: Any, initializer: Any, output_types: Any, output_shapes: Any, output_classes: Any):
        self._iterator_resource, self._initializer = iterator_resource, initializer
        if iterator_resource is None or isinstance(iterator_resource, str):
            raise ValueError("`iterator_resource` must be a tensor")
        self._spec = structure.from_legacy(output_types, output_shapes, output_classes)
        self._calls, self._handle = 0, get("IteratorToStringHandle")(iterator_resource)
        add_to_collection("iterators", iterator_resource)

    @classmethod
    def _of(cls, resource: Any, initializer: Any, spec: Any) -> Iterator:
        out = cls.__new__(cls)
        out._iterator_resource, out._initializer, out._spec, out._calls = resource, initializer, spec, 0
        out._handle = get("IteratorToStringHandle")(resource)
        add_to_collection("iterators", resource)
        return out

    @staticmethod
    def from_structure(output_types: Any, output_shapes: Any = None, shared_name: str | None = None,
                       output_classes: Any = None) -> Iterator:
        """An iterator without a dataset, for elements of a given type; see `make_initializer`."""
        types = structure.map_structure(dtypes.as_dtype, output_types) if not _has_specs(output_types) else output_types
        spec = structure.from_legacy(types, output_shapes, output_classes)
        resource = get("IteratorV2")(container="", shared_name=shared_name or "", **structure.outputs(spec))
        return Iterator._of(resource, None, spec)

    @staticmethod
    def from_string_handle(string_handle: Any, output_types: Any, output_shapes: Any = None,
                           output_classes: Any = None) -> Iterator:
        """The iterator that a string names when the step runs."""
        types = structure.map_structure(dtypes.as_dtype, output_types) if not _has_specs(output_types) else output_types
        spec = structure.from_legacy(types, output_shapes, output_classes)
        handle = convert(string_handle, dtypes.string, "string_handle")
        return Iterator._of(get("IteratorFromStringHandleV2")(handle, **structure.outputs(spec)), None, spec)

    @property
    def initializer(self) -> Any:
        """The op that starts the iterator at the beginning of its dataset."""
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer.")
        return self._initializer

    def make_initializer(self, dataset: Any, name: str | None = None) -> Any:
        """An op that starts the iterator at the beginning of a dataset of the same type."""
        mine, other = self._spec, dataset.element_spec
        structure.assert_same(structure.legacy(mine, "types"), structure.legacy(other, "types"))
        for what in ("classes", "types"):
            for a, b in zip(structure.flatten(structure.legacy(mine, what)), structure.flatten(structure.legacy(other, what)),
                            strict=True):
                if a != b:
                    raise TypeError(f"Expected output {what} {a!r} but got dataset with output {what} {b!r}.")
        for a, b in zip(structure.flat_shapes(mine), structure.flat_shapes(other), strict=True):
            if not a.is_compatible_with(b):
                raise TypeError(f"Expected output shapes compatible with {a!r} but got dataset with output shapes {b!r}.")
        return get("MakeIterator")(with_statistics(dataset), self._iterator_resource, name=name)

    def get_next(self, name: str | None = None) -> Any:
        """The next element, as tensors with a new value in every step."""
        self._calls += 1
        if self._calls > GET_NEXT_CALL_WARNING_THRESHOLD:
            warnings.warn(GET_NEXT_CALL_WARNING_MESSAGE, stacklevel=2)
        return structure.from_tensors(self._spec, get("IteratorGetNext")(
            self._iterator_resource, name=name, **structure.outputs(self._spec)))

    def string_handle(self, name: str | None = None) -> Any:
        """A string that names this iterator in its session."""
        return self._handle if name is None else get("IteratorToStringHandle")(self._iterator_resource, name=name)

    def _gather_saveables_for_checkpoint(self) -> dict:
        return {"ITERATOR": lambda name="iterator": saveable(self._iterator_resource, name, self._initializer)}


def _has_specs(types: Any) -> bool:
    return any(isinstance(t, TypeSpec) for t in structure.flatten(types))


class OwnedIterator(_Typed):
    """A position in a dataset, in eager execution and functions: it exists as long as this object.

    >>> it = iter(tf.data.Dataset.range(3))
    >>> next(it)
    """

    def __init__(self, dataset: Any = None, components: Any = None, element_spec: Any = None):
        if dataset is None:
            if components is None or element_spec is None:
                raise ValueError("When `dataset` is not provided, both `components` and `element_spec` must be specified.")
            self._iterator_resource, self._deleter = components
            self._spec = element_spec
            return
        if components is not None or element_spec is not None:
            raise ValueError("When `dataset` is provided, `element_spec` and `components` must not be specified.")
        self._spec, self._dataset = dataset.element_spec, dataset
        self._iterator_resource, self._deleter = get("AnonymousIteratorV2")(**structure.outputs(self._spec))
        get("MakeIterator")(with_statistics(dataset), self._iterator_resource)

    def __iter__(self) -> OwnedIterator:
        return self

    def __next__(self) -> Any:
        try:
            return self._next_internal()
        except errors.OutOfRangeError:
            raise StopIteration from None

    next = __next__

    def _next_internal(self) -> Any:
        spec = self._spec
        if not context.executing_eagerly() or not hasattr(self._iterator_resource, "_value"):
            return structure.from_tensors(spec, get("IteratorGetNext")(self._iterator_resource, **structure.outputs(spec)))
        values = self._iterator_resource._value.next(eager_context())
        if type(spec) is TensorSpec:
            return EagerTensor(values[0], spec.dtype)
        types = structure.flat_types(spec)
        return structure.from_tensors(spec, [EagerTensor(v, t) for v, t in zip(values, types, strict=True)])

    def _autograph_for(self, go_on: Any, body: Any, state: Any, options: dict[str, Any]) -> None:
        """How AutoGraph builds a loop over the remaining elements."""
        for_iterator(self, go_on, body, state, options)

    def get_next(self, name: str | None = None) -> Any:
        """The next element; OutOfRangeError at the end."""
        return self._next_internal()

    def get_next_as_optional(self) -> Any:
        """The next element as an Optional, which is empty at the end."""
        return from_next(self)

    @property
    def _type_spec(self) -> IteratorSpec:
        return IteratorSpec(self._spec)

    def _gather_saveables_for_checkpoint(self) -> dict:
        return {"ITERATOR": lambda name="iterator": saveable(self._iterator_resource, name)}


export.value(OwnedIterator, v2=["data.Iterator"])
IteratorV2 = OwnedIterator


@export("data.IteratorSpec")
class IteratorSpec(TypeSpec):
    """The type of an iterator: that of its elements."""

    __slots__ = ("_element_spec",)

    def __init__(self, element_spec: Any):
        self._element_spec = element_spec

    value_type = property(lambda self: OwnedIterator, doc="The class of the values.")
    element_spec = property(lambda self: self._element_spec, doc="The type of the elements.")

    @staticmethod
    def from_value(value: Any) -> IteratorSpec:
        """The type of an iterator."""
        return IteratorSpec(value.element_spec)

    def _serialize(self) -> tuple:
        return (self._element_spec,)

    @property
    def _component_specs(self) -> tuple:
        return TensorSpec([], dtypes.resource), TensorSpec([], dtypes.variant)

    def _to_components(self, value: Any) -> tuple:
        return value._iterator_resource, value._deleter

    def _from_components(self, components: Any) -> Any:
        return OwnedIterator(components=tuple(components), element_spec=self._element_spec)


# -- making them in graphs ------------------------------------------------------------------------------------------------
@export(v1=["data.make_one_shot_iterator"])
def make_one_shot_iterator(dataset: Any) -> Any:
    """An iterator that needs no initialization and goes through a dataset once per session.

    Args:
        dataset: Dataset.

    Returns:
        An iterator with `get_next()`.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     x = tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
    ...     print(sess.run(x), sess.run(x))
    0 1
    """
    made = getattr(dataset, "_make_one_shot_iterator", None)
    return made() if made is not None else one_shot(dataset)


@export(v1=["data.make_initializable_iterator"])
def make_initializable_iterator(dataset: Any, shared_name: str | None = None) -> Iterator:
    """An iterator that starts when its initializer is run, and again each time.

    Args:
        dataset: Dataset.
        shared_name: Name under which other sessions of the same cluster find the resource.

    Returns:
        An iterator with `initializer` and `get_next()`.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(3))
    ...     x = iterator.get_next()
    ...     sess.run(iterator.initializer)
    ...     print(sess.run(x), sess.run(x))
    0 1
    """
    made = getattr(dataset, "_make_initializable_iterator", None)
    return made(shared_name) if made is not None else initializable(dataset, shared_name)


def one_shot(dataset: Any) -> Any:
    """A one-shot iterator over a dataset."""
    if context.executing_eagerly():
        return OwnedIterator(dataset)
    _check_graph(dataset)
    factory = dataset_factory(dataset)
    spec = dataset.element_spec
    made = add_calling_op(get("OneShotIterator"), (), {"dataset_factory": factory, **structure.outputs(spec)}, [factory], None)
    return Iterator._of(made.outputs[0], None, spec)


def initializable(dataset: Any, shared_name: str | None) -> Iterator:
    """An initializable iterator over a dataset."""
    if context.executing_eagerly():
        raise RuntimeError("dataset.make_initializable_iterator is not supported when eager execution is enabled. Use `for "
                           "element in dataset` instead.")
    _check_graph(dataset)
    spec = dataset.element_spec
    graph = dataset._variant_tensor.graph if not hasattr(dataset._variant_tensor, "_value") else context.current_graph()
    with graph.colocate_with(dataset._variant_tensor.op):
        resource = get("IteratorV2")(container="", shared_name=shared_name or "", **structure.outputs(spec))
        initializer = get("MakeIterator")(with_statistics(dataset), resource)
    return Iterator._of(resource, initializer, spec)


def _check_graph(dataset: Any) -> None:
    """Warns if the datasets of a pipeline come from different graphs."""
    todo = [dataset]
    graph = context.current_graph()
    while todo:
        d = todo.pop()
        if getattr(d, "_graph", graph) is not graph:
            tf_logging.warning("The graph (%s) of the iterator is different from the graph (%s) the dataset: %s was "
                               "created in. If you are using the Estimator API, make sure that no part of the dataset "
                               "returned by the `input_fn` function is defined outside the `input_fn` function. "
                               "Please ensure that all datasets in the pipeline are created in the same graph as the iterator.",
                               graph, d._graph, d)
        todo.extend(d._inputs())


# -- types, for datasets and iterators -------------------------------------------------------------------------------------
@export(v1=["data.get_output_types"])
def get_legacy_output_types(dataset_or_iterator: Any) -> Any:
    """The dtypes of an element, in its structure."""
    return structure.legacy(get_structure(dataset_or_iterator), "types")


@export(v1=["data.get_output_shapes"])
def get_legacy_output_shapes(dataset_or_iterator: Any) -> Any:
    """The static shapes of an element, in its structure."""
    return structure.legacy(get_structure(dataset_or_iterator), "shapes")


@export(v1=["data.get_output_classes"])
def get_legacy_output_classes(dataset_or_iterator: Any) -> Any:
    """The classes of an element, in its structure."""
    return structure.legacy(get_structure(dataset_or_iterator), "classes")


@export("data.experimental.get_structure")
def get_structure(dataset_or_iterator: Any) -> Any:
    """The type of an element: a structure of TypeSpecs."""
    try:
        return dataset_or_iterator.element_spec
    except AttributeError:
        raise TypeError(f"Invalid `dataset_or_iterator`. It must be a dataset or iterator, got "
                        f"{type(dataset_or_iterator)}.") from None

