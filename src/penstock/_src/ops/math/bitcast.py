"""The bits of a tensor seen as another type."""
from __future__ import annotations

from penstock._src.base import errors
from penstock._src.base.static_shape import show
from penstock._src.kernels import arrays
from penstock._src.ops import rules
from penstock._src.ops.registry import op

_TYPES = ("bfloat16 half float32 float64 int64 int32 uint8 uint16 uint32 uint64 int8 int16 complex64 complex128 qint8 "
          "quint8 qint16 quint16 qint32")

bitcast = op("Bitcast", "input: T -> output: type", f"T: type in {{{_TYPES}}}, type: type in {{{_TYPES}}}",
             export_as="bitcast", doc="The same bits as another type. A smaller type adds an axis, a larger one takes "
                                      "the last axis away.").no_gradient()
rules.batching.leading[bitcast] = (0,)


@bitcast.shape
def _bitcast_shape(input, *, T, type):
    if input is None:
        return None
    old, new = T.size, type.size
    if old == new:
        return input
    if old > new:
        return (*input, old // new)
    if not input or input[-1] not in (None, new // old):
        last = input[-1] if input else "no dimension"
        raise ValueError(f"Cannot bitcast from {T.as_datatype_enum} to {type.as_datatype_enum} due to shape. {last} does not "
                         f"match {new // old}: {T.name} becomes {type.name}, and the shape is {show(input)}")
    return input[:-1]


@bitcast.kernel
def _bitcast_kernel(input, *, T, type):
    old, new = T.size, type.size
    input = input.contiguous()
    if old == new:
        return input.view(type.torch)
    if old > new:
        return input.unsqueeze(-1).view(type.torch)
    if not input.dim() or input.shape[-1] != new // old:
        raise errors.invalid(f"Cannot bitcast from {T.as_datatype_enum} to {type.as_datatype_enum}: {T.name} becomes "
                             f"{type.name}, and the shape is {arrays.show(input.shape)}")
    if not input.numel():
        return input.new_empty(input.shape[:-1], dtype=type.torch)
    return input.view(type.torch).squeeze(-1)
