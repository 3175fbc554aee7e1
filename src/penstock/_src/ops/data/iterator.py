"""The ops of iterators: create, initialize, get elements. The classes over them are in `data.datasets`."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.data.pipelines.iterator import Handles, IteratorResource
from penstock._src.data.pipelines.values import check_types
from penstock._src.graph.functions import as_function
from penstock._src.ops import rules
from penstock._src.ops.data.dataset_base import OUTPUTS, body, on_host, stage_of
from penstock._src.ops.registry import internal, op

_SHARED = "shared_name: string, container: string"


def iterator_of(handle: Any) -> IteratorResource:
    """The iterator of a handle."""
    if isinstance(handle, np.ndarray) and handle.size == 1:
        handle = handle.reshape(-1)[0]
    if not isinstance(handle, IteratorResource):
        raise errors.invalid(f"an iterator was expected, got {type(handle).__name__}")
    return handle


def _new(output_types: list, output_shapes: list, name: str = "") -> IteratorResource:
    return IteratorResource(tuple(output_types), tuple(s.static_dims for s in output_shapes), name)


# -- making iterators -----------------------------------------------------------------------------------------------------
for _name in ("Iterator", "IteratorV2"):
    _made = op(_name, "-> handle: resource", f"{_SHARED}, {OUTPUTS}", stateful=True, per_session=True).no_gradient()
    _made.shape(lambda: ())

    @_made.kernel(device="cpu")
    def _made_kernel(*, shared_name, container, output_types, output_shapes, ctx, node):
        name = shared_name or node.name
        if node.graph is None and not shared_name:
            return _new(output_types, output_shapes, name)
        return ctx.resources.get_or_create(container, name, IteratorResource, lambda: _new(output_types, output_shapes, name))


anonymous = op("AnonymousIterator", "-> handle: resource", OUTPUTS, stateful=True).no_gradient()
anonymous_v2 = op("AnonymousIteratorV2", "-> handle: resource, deleter: variant", OUTPUTS, stateful=True).no_gradient()
anonymous_v3 = op("AnonymousIteratorV3", "-> handle: resource", OUTPUTS, stateful=True).no_gradient()
anonymous.shape(lambda: ())
anonymous_v3.shape(lambda: ())
anonymous_v2.shape(lambda: [(), ()])


@anonymous_v3.kernel(device="cpu")
@anonymous.kernel(device="cpu")
def _anonymous_kernel(*, output_types, output_shapes):
    return _new(output_types, output_shapes)


@anonymous_v2.kernel(device="cpu")
def _anonymous_v2_kernel(*, output_types, output_shapes):
    made = _new(output_types, output_shapes)
    return made, made


one_shot = op("OneShotIterator", "-> handle: resource", f"dataset_factory: func, {OUTPUTS}, container: string = '', "
              "shared_name: string = ''", stateful=True, per_session=True).no_gradient()
one_shot.shape(lambda: ())


class _OneShot(IteratorResource):
    """An iterator that creates its dataset on first use."""

    def __init__(self, types: tuple, shapes: tuple, name: str, factory: Any):
        super().__init__(types, shapes, name)
        self._factory = factory

    def _enter(self, ctx: Any) -> None:
        super()._enter(ctx)
        factory, self._factory = self._factory, None
        if factory is None:
            return
        try:
            self._stage = stage_of(factory.run(ctx, ())[0])
            self._cursor = self._stage.iterate(ctx.within(self._streams))
        except Exception as e:
            self.fail(e)


# The same, but it belongs to its task: sessions that name it share its elements (data/datasets/service.py).
shared_one_shot = internal("_SharedOneShotIterator", "-> handle: resource", f"dataset_factory: func, {OUTPUTS}, "
                           "container: string = '', shared_name: string = ''", stateful=True).no_gradient()
shared_one_shot.shape(lambda: ())


@shared_one_shot.kernel(device="cpu")
@one_shot.kernel(device="cpu")
def _shared_one_shot_kernel(*, dataset_factory, output_types, output_shapes, container, shared_name, ctx, node):
    name = shared_name or node.name
    shapes = tuple(s.static_dims for s in output_shapes)
    return ctx.resources.get_or_create(container, name, IteratorResource, lambda: _OneShot(
        tuple(output_types), shapes, name, as_function(dataset_factory, node.graph)))


make_iterator = op("MakeIterator", "dataset: variant, iterator: resource ->", stateful=True).no_gradient()


@make_iterator.kernel(device="cpu")
def _make_iterator_kernel(dataset, iterator, *, ctx):
    iterator_of(iterator).start(stage_of(dataset), ctx)


delete_iterator = op("DeleteIterator", "handle: resource, deleter: variant ->", stateful=True).no_gradient()


@delete_iterator.kernel(device="cpu")
def _delete_iterator_kernel(handle, deleter):
    iterator_of(handle).close()


# -- taking elements --------------------------------------------------------------------------------------------------------
get_next = op("IteratorGetNext", "iterator: resource -> components: output_types", OUTPUTS, stateful=True).no_gradient()
get_next_sync = op("IteratorGetNextSync", "iterator: resource -> components: output_types", OUTPUTS,
                   stateful=True).no_gradient()
rules.arriving.takes |= {get_next, get_next_sync}
for _op in (get_next, get_next_sync):
    _op.shape(lambda iterator, *, output_shapes: [s.static_dims for s in output_shapes])

    @_op.kernel(device="cpu")
    def _op_kernel(iterator, *, ctx):
        return list(iterator_of(iterator).next(ctx))


# -- string handles -----------------------------------------------------------------------------------------------------------
to_string = op("IteratorToStringHandle", "resource_handle: resource -> string_handle: string", stateful=True).no_gradient()
to_string.shape(lambda resource_handle: ())


@to_string.kernel(device="cpu")
def _to_string_kernel(resource_handle, *, ctx):
    return np.array(Handles.of(ctx).name(iterator_of(resource_handle)), dtype=object)


_ANY = "output_types: list(type) >= 0 = [], output_shapes: list(shape) >= 0 = []"
from_string = op("IteratorFromStringHandle", "string_handle: string -> resource_handle: resource", _ANY,
                 stateful=True).no_gradient()
from_string_v2 = op("IteratorFromStringHandleV2", "string_handle: string -> resource_handle: resource", _ANY,
                    stateful=True).no_gradient()
for _op in (from_string, from_string_v2):
    _op.shape(lambda string_handle: ())

    @_op.kernel(device="cpu")
    def _op_kernel_2(string_handle, *, output_types, output_shapes, ctx):
        if string_handle.size != 1:
            raise errors.invalid("string_handle must be a scalar")
        found = Handles.of(ctx).find(string_handle.reshape(-1)[0])
        if output_types:
            check_types(tuple(output_types), tuple(s.static_dims for s in output_shapes) or (None,) * len(output_types),
                        found.types, found.shapes)
        return found


# -- datasets as values -----------------------------------------------------------------------------------------------------
cardinality = op("DatasetCardinality", "input_dataset: variant -> cardinality: int64", foldable=False).no_gradient()
cardinality_old = op("ExperimentalDatasetCardinality", "input_dataset: variant -> cardinality: int64",
                     foldable=False).no_gradient()
for _op in (cardinality, cardinality_old):
    _op.shape(lambda input_dataset: ())
    _op.kernel(lambda input_dataset: torch.tensor(stage_of(input_dataset).cardinality(), dtype=torch.int64), device="cpu")

single_element = op("DatasetToSingleElement", "dataset: variant -> components: output_types", OUTPUTS,
                    stateful=True).no_gradient()
single_element.shape(lambda dataset, *, output_shapes: [s.static_dims for s in output_shapes])


@single_element.kernel(device="cpu")
def _single_element_kernel(dataset, *, ctx):
    ctx = ctx.within(ctx.streams)
    cursor = stage_of(dataset).iterate(ctx)
    try:
        element = cursor.next(ctx)
        if element is None:
            raise errors.invalid("Dataset was empty.")
        if cursor.next(ctx) is not None:
            raise errors.invalid("Dataset had more than one element.")
    finally:
        cursor.close()
    return list(element)


reduce_dataset = op("ReduceDataset", "input_dataset: variant, initial_state: Tstate, other_arguments: Targuments -> "
                    "components: output_types", f"f: func, Tstate: list(type) >= 1, Targuments: list(type) >= 0, {OUTPUTS}, "
                    "use_inter_op_parallelism: bool = True", stateful=True).no_gradient()
reduce_dataset.shape(lambda input_dataset, initial_state, other_arguments, *, output_shapes:
                     [s.static_dims for s in output_shapes])


@reduce_dataset.kernel(device="cpu")
def _reduce_dataset_kernel(input_dataset, initial_state, other_arguments, *, f, ctx, node):
    ctx = ctx.within(ctx.streams)
    run = body(f, node, other_arguments).runner(ctx)
    cursor = stage_of(input_dataset).iterate(ctx)
    state = tuple(on_host(initial_state))
    try:
        while (element := cursor.next(ctx)) is not None:
            state = run(ctx, (*state, *element))
            ctx.remaining()                       # ends with the step's cancellation or deadline
    finally:
        cursor.close()
    return list(state)


for _name in ("WrapDatasetVariant", "UnwrapDatasetVariant"):      # which let datasets pass through memory of other devices
    _made = op(_name, "input_handle: variant -> output_handle: variant", foldable=False).no_gradient()
    _made.shape(lambda input_handle: ())
    _made.kernel(lambda input_handle: stage_of(input_handle), device="cpu")

# -- where an iterator is -----------------------------------------------------------------------------------------------------
for _name in ("IteratorGetDevice", "ExperimentalIteratorGetDevice"):
    _made = op(_name, "resource: resource -> device: string", stateful=True).no_gradient()
    _made.shape(lambda resource: ())

    @_made.kernel(device="cpu")
    def _get_device_kernel(resource, *, node):
        iterator_of(resource)
        return np.array((node.device or "/job:localhost/replica:0/task:0/device:CPU:0").encode(), dtype=object)
