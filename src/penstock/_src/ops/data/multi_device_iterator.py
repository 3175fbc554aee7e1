"""The ops of iterators whose elements go to several devices in turn (see `data.pipelines.devices`)."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.data.pipelines.devices import MultiDeviceIterator
from penstock._src.data.pipelines.iterator import Handles
from penstock._src.data.pipelines.values import check_types
from penstock._src.ops.data.dataset_base import OUTPUTS, integer, stage_of
from penstock._src.ops.data.iterator import iterator_of
from penstock._src.ops.registry import op

_DEVICES = "devices: list(string) >= 1"


def _iterator(handle: Any) -> MultiDeviceIterator:
    if not isinstance(handle, MultiDeviceIterator):
        raise errors.invalid(f"a multi-device iterator was expected, got {type(handle).__name__}")
    return handle


def _new(devices: list, output_types: list, output_shapes: list, name: str = "") -> MultiDeviceIterator:
    return MultiDeviceIterator(devices, tuple(output_types), tuple(s.static_dims for s in output_shapes), name)


named = op("MultiDeviceIterator", "-> handle: resource", f"{_DEVICES}, shared_name: string, container: string, {OUTPUTS}",
           stateful=True, per_session=True).no_gradient()
anonymous = op("AnonymousMultiDeviceIterator", "-> handle: resource, deleter: variant", f"{_DEVICES}, {OUTPUTS}",
               stateful=True).no_gradient()
anonymous_v3 = op("AnonymousMultiDeviceIteratorV3", "-> handle: resource", f"{_DEVICES}, {OUTPUTS}",
                  stateful=True).no_gradient()
named.shape(lambda: ())
anonymous.shape(lambda: [(), ()])
anonymous_v3.shape(lambda: ())
anonymous_v3.kernel(lambda *, devices, output_types, output_shapes: _new(devices, output_types, output_shapes), device="cpu")


@named.kernel(device="cpu")
def _named_kernel(*, devices, shared_name, container, output_types, output_shapes, ctx, node):
    name = shared_name or node.name
    if node.graph is None and not shared_name:
        return _new(devices, output_types, output_shapes, name)
    return ctx.resources.get_or_create(container, name, MultiDeviceIterator,
                                       lambda: _new(devices, output_types, output_shapes, name))


@anonymous.kernel(device="cpu")
def _anonymous_kernel(*, devices, output_types, output_shapes):
    made = _new(devices, output_types, output_shapes)
    return made, made


initialize = op("MultiDeviceIteratorInit", "dataset: variant, multi_device_iterator: resource, max_buffer_size: int64 -> "
                "incarnation_id: int64", stateful=True).no_gradient()
initialize.shape(lambda dataset, multi_device_iterator, max_buffer_size: ())


@initialize.kernel(device="cpu")
def _initialize_kernel(dataset, multi_device_iterator, max_buffer_size, *, ctx):
    number = _iterator(multi_device_iterator).start(stage_of(dataset), integer(max_buffer_size, "max_buffer_size"), ctx)
    return torch.tensor(number, dtype=torch.int64)


get_next = op("MultiDeviceIteratorGetNextFromShard", "multi_device_iterator: resource, shard_num: int32, incarnation_id: int64 "
              "-> components: output_types", OUTPUTS, stateful=True).no_gradient()
get_next.shape(lambda multi_device_iterator, shard_num, incarnation_id, *, output_shapes:
               [s.static_dims for s in output_shapes])


@get_next.kernel(device="cpu")
def _get_next_kernel(multi_device_iterator, shard_num, incarnation_id, *, ctx):
    return list(_iterator(multi_device_iterator).next(integer(shard_num, "shard_num"),
                                                      integer(incarnation_id, "incarnation_id"), ctx))


to_string = op("MultiDeviceIteratorToStringHandle", "multi_device_iterator: resource -> string_handle: string",
               stateful=True).no_gradient()
to_string.shape(lambda multi_device_iterator: ())


@to_string.kernel(device="cpu")
def _to_string_kernel(multi_device_iterator, *, ctx):
    return np.array(Handles.of(ctx).name(_iterator(multi_device_iterator)), dtype=object)


from_string = op("MultiDeviceIteratorFromStringHandle", "string_handle: string -> multi_device_iterator: resource",
                 "output_types: list(type) >= 0 = [], output_shapes: list(shape) >= 0 = []", stateful=True).no_gradient()
from_string.shape(lambda string_handle: ())


@from_string.kernel(device="cpu")
def _from_string_kernel(string_handle, *, output_types, output_shapes, ctx):
    if string_handle.size != 1:
        raise errors.invalid("string_handle must be a scalar")
    found = _iterator(Handles.of(ctx).find(string_handle.reshape(-1)[0]))
    if output_types:
        check_types(tuple(output_types), tuple(s.static_dims for s in output_shapes) or (None,) * len(output_types),
                    found.types, found.shapes)
    return found


delete = op("DeleteMultiDeviceIterator", "multi_device_iterator: resource, iterators: N * resource, deleter: variant ->",
            "N: int >= 0", stateful=True).no_gradient()
delete.shape(lambda multi_device_iterator, iterators, deleter: [])


@delete.kernel(device="cpu")
def _delete_kernel(multi_device_iterator, iterators, deleter):
    for one in iterators:
        iterator_of(one).close()
    _iterator(multi_device_iterator).close()
