"""Rules of ops that arrange elements: shapes, slices, gathers, padding."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.onnx.builder import Builder, Unsupported, axis_of, ints
from penstock._src.onnx.rules import rule
from penstock._src.step.ir import Node, Value

rule = functools.partial(rule, "Arrays")
END = np.iinfo(np.int64).max


# -- shapes -------------------------------------------------------------------------------------------------------------
@rule("Shape", "ShapeN")
def _shape(b: Builder, op: Node) -> list[str]:
    return [_as(b, b.shape(x), t) for x, t in zip(op.inputs, op.outputs, strict=True)]


def _as(b: Builder, name: str, t: Value) -> str:
    return name if t.dtype == dtypes.int64 else b.cast(name, t.dtype)


@rule("Size")
def _size(b: Builder, op: Node) -> str:
    return _as(b, b("Size", op.inputs[0]), op.outputs[0])


@rule("Rank")
def _rank(b: Builder, op: Node) -> str:
    return _as(b, b("Squeeze", b.shape(b.shape(op.inputs[0])), ints(0)), op.outputs[0])


@rule("Reshape")
def _reshape(b: Builder, op: Node) -> str:
    sizes = b.value(op.inputs[1])
    zeros = sizes is None or 0 in sizes              # a zero is a size here, not a size to be copied
    return b("Reshape", op.inputs[0], b.int64(op.inputs[1], vector=True), allowzero=1 if zeros else None)


@rule("ExpandDims")
def _expand_dims(b: Builder, op: Node) -> str:
    return b("Unsqueeze", op.inputs[0], b.int64(op.inputs[1], vector=True))


@rule("Squeeze")
def _squeeze(b: Builder, op: Node) -> str:
    axes = op.attrs["squeeze_dims"]
    return b("Squeeze", op.inputs[0], ints(*axes) if axes else None)


@rule("Transpose", "ConjugateTranspose")
def _transpose(b: Builder, op: Node) -> str:
    return b("Transpose", op.inputs[0], perm=b.required(op.inputs[1], "permutation").tolist())


@rule("BroadcastTo")
def _broadcast_to(b: Builder, op: Node) -> str:
    return b("Expand", op.inputs[0], b.int64(op.inputs[1]))


@rule("Fill")
def _fill(b: Builder, op: Node) -> str:
    return b("Expand", op.inputs[1], b.int64(op.inputs[0]))


@rule("ZerosLike", "OnesLike")
def _fill_like(b: Builder, op: Node) -> str:
    x = op.inputs[0]
    return b("Expand", b.like(x, 0 if op.type == "ZerosLike" else 1), b.shape(x))


@rule("Range")
def _range(b: Builder, op: Node) -> str:
    return b("Range", *op.inputs)


@rule("Tile")
def _tile(b: Builder, op: Node) -> str:
    return b("Tile", op.inputs[0], b.int64(op.inputs[1]))


# -- joining and splitting ----------------------------------------------------------------------------------------------
@rule("ConcatV2", "Concat")
def _concat(b: Builder, op: Node) -> str:
    *parts, axis = op.inputs if op.type == "ConcatV2" else (*op.inputs[1:], op.inputs[0])
    return b("Concat", *parts, axis=int(b.required(axis, "axis")))


@rule("Pack")
def _pack(b: Builder, op: Node) -> str:
    axis = op.attrs["axis"]
    parts = [b("Unsqueeze", x, ints(axis)) for x in op.inputs]
    return b("Concat", *parts, axis=axis)


@rule("Unpack")
def _unpack(b: Builder, op: Node) -> list[str]:
    axis = op.attrs["axis"]
    return [b("Squeeze", part, ints(axis)) for part in _parts(b, op.inputs[0], axis, [1] * len(op.outputs))]


@rule("Split")
def _split(b: Builder, op: Node) -> list[str]:
    axis = int(b.required(op.inputs[0], "axis"))
    n = len(op.outputs)
    return b("Split", op.inputs[1], axis=axis, num_outputs=n, outputs=n)


@rule("SplitV")
def _split_v(b: Builder, op: Node) -> list[str]:
    x, sizes, axis = op.inputs
    along, wanted = int(b.required(axis, "axis")), b.required(sizes, "sizes").tolist()
    if -1 in wanted:
        whole = None if x.static_dims is None else x.static_dims[along]
        if whole is None:
            raise Unsupported("one size is left open, and the size of the whole is not known")
        wanted = [whole - sum(wanted) - 1 if s == -1 else s for s in wanted]
    return _parts(b, x, along, wanted)


def _parts(b: Builder, x: Value, axis: int, sizes: list[int]) -> list[str]:
    return b("Split", x, ints(*sizes), axis=axis, outputs=len(sizes))


# -- slices -------------------------------------------------------------------------------------------------------------
@rule("Slice")
def _slice(b: Builder, op: Node) -> str:
    x, begin, size = op.inputs
    axes = np.arange(b.rank(x), dtype=np.int64)
    first, sizes = b.value(begin), b.value(size)
    if first is not None and sizes is not None:
        ends: Any = np.where(sizes == -1, END, first.astype(np.int64) + sizes).astype(np.int64)
    else:
        given = b.int64(size)
        ends = b("Where", b("Equal", given, ints(-1)), ints(END), b("Add", b.int64(begin), given))
    return b("Slice", x, b.int64(begin), ends, axes)


@rule("StridedSlice")
def _strided_slice(b: Builder, op: Node) -> str:
    """Slices with the masks of Python's indexing: parts that are left out, single elements, new axes."""
    x, begin, end, strides = op.inputs
    steps = b.required(strides, "strides").tolist()
    masks = {k: int(op.attrs[f"{k}_mask"]) for k in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    starts, stops = _elements(b, begin, len(steps)), _elements(b, end, len(steps))
    places = _places(b, x, len(steps), masks)
    first: list[Any] = []
    last: list[Any] = []
    axes, by, gone, new = [], [], [], []
    for i, place in enumerate(places):
        if place is None:
            continue
        axis, added, position = place
        bit = 1 << i
        if added:
            new.append(position)
            continue
        if masks["shrink_axis"] & bit:
            gone.append(axis)
            first.append(starts[i])
            last.append(_after(b, starts[i]))
            by.append(1)
        else:
            down = steps[i] < 0
            first.append(np.int64(END if down else 0) if masks["begin"] & bit else starts[i])
            last.append(np.int64(-END if down else END) if masks["end"] & bit else stops[i])
            by.append(steps[i])
        axes.append(axis)
    made = b.name(x)
    if axes:
        made = b("Slice", made, _vector(b, first), _vector(b, last), ints(*axes), ints(*by))
    if gone:
        made = b("Squeeze", made, ints(*gone))
    return b("Unsqueeze", made, ints(*new)) if new else made


def _places(b: Builder, x: Value, count: int, masks: dict[str, int]) -> list[tuple[int, bool, int] | None]:
    """For each part of an index: its axis, whether that is new, and its axis in the result; None for the ellipsis."""
    found: list[tuple[int, bool, int] | None] = []
    axis = position = 0
    for i in range(count):
        bit = 1 << i
        if masks["ellipsis"] & bit:
            rest = sum(1 for j in range(i + 1, count) if not masks["new_axis"] & (1 << j))
            skipped = b.rank(x) - rest - axis
            axis, position = axis + skipped, position + skipped
            found.append(None)
        elif masks["new_axis"] & bit:
            found.append((axis, True, position))
            position += 1
        else:
            found.append((axis, False, position))
            axis += 1
            position += 0 if masks["shrink_axis"] & bit else 1
    return found


def _elements(b: Builder, x: Value, count: int) -> list[Any]:
    """The elements of a vector: numbers, or names of values that are not known."""
    found = b.value(x)
    if found is not None:
        return [np.int64(v) for v in found.reshape(-1)]
    name = b.int64(x)
    return [b("Slice", name, ints(i), ints(i + 1), ints(0)) for i in range(count)]


def _after(b: Builder, start: Any) -> Any:
    """The end of a slice of one element."""
    if not isinstance(start, str):
        return np.int64(END if start == -1 else start + 1)
    following = b("Add", start, ints(1))
    return b("Where", b("Equal", following, ints(0)), ints(END), following)


def _vector(b: Builder, elements: list[Any]) -> Any:
    if not any(isinstance(e, str) for e in elements):
        return ints(*elements)
    return b("Concat", *(e if isinstance(e, str) else ints(e) for e in elements), axis=0)


@rule("ReverseV2")
def _reverse(b: Builder, op: Node) -> str:
    axes = b.required(op.inputs[1], "axes").tolist()
    n = len(axes)
    return b("Slice", op.inputs[0], ints(*[-1] * n), ints(*[-END] * n), ints(*axes), ints(*[-1] * n)) if n else \
        b.name(op.inputs[0])


@rule("ReverseSequence")
def _reverse_sequence(b: Builder, op: Node) -> str:
    time, batch = op.attrs["seq_dim"], op.attrs["batch_dim"]
    if {time, batch} != {0, 1}:
        raise Unsupported("ONNX reverses sequences along the first two axes only")
    return b("ReverseSequence", op.inputs[0], b.int64(op.inputs[1]), time_axis=time, batch_axis=batch)


# -- gathers ------------------------------------------------------------------------------------------------------------
@rule("Gather", "GatherV2")
def _gather(b: Builder, op: Node) -> str:
    x, places = op.inputs[:2]
    axis = int(b.required(op.inputs[2], "axis")) if op.type == "GatherV2" else 0
    batch = op.attrs.get("batch_dims", 0) or 0
    if batch == 0:
        return b("Gather", x, places, axis=axis)
    rank = b.rank(places)
    batch, axis = axis_of(batch, rank), axis_of(axis, b.rank(x))
    if axis != batch:
        raise Unsupported("it gathers along an axis that does not follow the batch axes")
    deeper = b("Unsqueeze", b.int64(places), ints(rank))
    return b("GatherND", x, deeper, batch_dims=batch)


@rule("GatherNd")
def _gather_nd(b: Builder, op: Node) -> str:
    return b("GatherND", op.inputs[0], b.int64(op.inputs[1]))


@rule("OneHot")
def _one_hot(b: Builder, op: Node) -> str:
    """Compares indices with all classes: ONNX's OneHot counts negative indices from the end."""
    indices, depth, on, off = op.inputs
    rank = b.rank(indices)
    axis = axis_of(op.attrs["axis"], rank + 1)
    classes = b("Range", np.int64(0), b.int64(depth), np.int64(1))
    classes = b("Reshape", classes, ints(*[-1 if i == axis else 1 for i in range(rank + 1)]))
    given = b("Unsqueeze", b.int64(indices), ints(axis))
    return b("Where", b("Equal", given, classes), on, off)


@rule("Where")
def _where(b: Builder, op: Node) -> str:
    x = op.inputs[0]
    given = b.name(x) if x.dtype == dtypes.bool else b("Not", b("Equal", x, b.like(x, 0)))
    return b("Transpose", b("NonZero", given), perm=[1, 0])


@rule("ScatterNd")
def _scatter_nd(b: Builder, op: Node) -> str:
    indices, updates, shape = op.inputs
    zeros = b("Expand", b.like(updates, 0), b.int64(shape))
    return b("ScatterND", zeros, b.int64(indices), updates, reduction="add")


_SCATTERS = {"TensorScatterUpdate": "none", "TensorScatterAdd": "add", "TensorScatterMax": "max", "TensorScatterMin": "min"}


@rule(*_SCATTERS)
def _tensor_scatter(b: Builder, op: Node) -> str:
    x, indices, updates = op.inputs
    return b("ScatterND", x, b.int64(indices), updates, reduction=_SCATTERS[op.type])


@rule("UnsortedSegmentSum")
def _segment_sum(b: Builder, op: Node) -> str:
    """Rows with a negative number are added to one more row, which is cut off."""
    x, ids, count = op.inputs
    rank = b.rank(ids)
    sizes, segments = b.shape(x), b.int64(count, vector=True)
    inner = b("Slice", sizes, ints(rank), ints(END), ints(0))
    zeros = b("Expand", b.like(x, 0), b("Concat", b("Add", segments, ints(1)), inner, axis=0))
    given = b.int64(ids)
    given = b("Where", b("Less", given, np.int64(0)), segments, given)
    total = b("ScatterND", zeros, b("Unsqueeze", given, ints(rank)), x, reduction="add")
    return b("Slice", total, ints(0), segments, ints(0))


# -- padding ------------------------------------------------------------------------------------------------------------
@rule("Pad", "PadV2", "MirrorPad")
def _pad(b: Builder, op: Node) -> str:
    x, paddings = op.inputs[:2]
    mode = "constant"
    if op.type == "MirrorPad":
        wanted = op.attrs["mode"]
        if (wanted.decode() if isinstance(wanted, bytes) else wanted) != "REFLECT":
            raise Unsupported("ONNX has no padding that repeats the edge")
        mode = "reflect"
    found = b.value(paddings)
    pads = ints(*found.T.reshape(-1)) if found is not None else \
        b("Reshape", b("Transpose", b.int64(paddings), perm=[1, 0]), ints(-1))
    value = op.inputs[2] if op.type == "PadV2" else b.like(x, 0) if mode == "constant" else None
    return b("Pad", x, pads, value, mode=mode) if value is not None else b("Pad", x, pads, mode=mode)


@rule("MatrixBandPart")
def _band(b: Builder, op: Node) -> str:
    x, lower, upper = op.inputs
    low, high = (int(b.required(t, "band")) for t in (lower, upper))
    made = b.name(x)
    if high >= 0:
        made = b("Trilu", made, np.int64(high), upper=0)
    return b("Trilu", made, np.int64(-low), upper=1) if low >= 0 else made


@rule("ListDiff")
def _list_diff(b: Builder, op: Node) -> list[str]:
    x, y = op.inputs
    same = b.cast(b("Equal", b("Unsqueeze", x, ints(1)), b("Unsqueeze", y, ints(0))), dtypes.int32)
    kept = b("Equal", b("ReduceSum", same, ints(1), keepdims=0), np.int32(0))
    places = b("Squeeze", b("NonZero", kept), ints(0))
    return [b("Gather", x, places, axis=0), _as(b, places, op.outputs[1])]
