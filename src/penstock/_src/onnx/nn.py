"""Rules of neural networks: activations, convolutions, pools, normalization, resizing.

ONNX's spatial ops have the channels second. If ours have them last, the rule writes a transpose before and after;
`transposes.py` removes inverse pairs.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.onnx.builder import Builder, Unsupported, ints
from penstock._src.onnx.rules import rule
from penstock._src.step.ir import Node, Value

rule = functools.partial(rule, "Neural networks")

_ACTIVATIONS = {"Relu": "Relu", "Elu": "Elu", "Selu": "Selu", "Softplus": "Softplus", "Softsign": "Softsign"}


@rule(*_ACTIVATIONS)
def _activation(b: Builder, op: Node) -> str:
    return b(_ACTIVATIONS[op.type], op.inputs[0])


@rule("Relu6")
def _relu6(b: Builder, op: Node) -> str:
    x = op.inputs[0]
    return b("Clip", x, b.like(x, 0), b.like(x, 6))


@rule("LeakyRelu")
def _leaky(b: Builder, op: Node) -> str:
    return b("LeakyRelu", op.inputs[0], alpha=float(op.attrs["alpha"]))


@rule("Softmax", "LogSoftmax")
def _softmax(b: Builder, op: Node) -> str:
    return b(op.type, op.inputs[0], axis=-1)


@rule("BiasAdd", "BiasAddV1")
def _bias_add(b: Builder, op: Node) -> str:
    x, bias = op.inputs
    if _text(op.attrs.get("data_format", "NHWC")) != "NCHW" or b.rank(x) == 2:
        return b("Add", x, bias)
    return b("Add", x, b("Reshape", bias, ints(-1, *[1] * (b.rank(x) - 2))))


# -- layouts ------------------------------------------------------------------------------------------------------------
def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else value


class Layout:
    """Where the channels and the spatial axes of an op are."""

    def __init__(self, op: Node, rank: int):
        self.last = not _text(op.attrs.get("data_format", "NHWC")).startswith("NC")
        self.rank = rank
        self.spatial = list(range(1, rank - 1)) if self.last else list(range(2, rank))

    def enter(self, b: Builder, x: Any) -> str:
        """A value with its channels second."""
        return b.transpose(x, [0, self.rank - 1, *range(1, self.rank - 1)]) if self.last else b.name(x)

    def leave(self, b: Builder, name: str) -> str:
        """A result with its channels where the op has them."""
        return b.transpose(name, [0, *range(2, self.rank), 1]) if self.last else name

    def of(self, values: Any) -> list[int]:
        """The part of a list with one number per axis that belongs to the spatial axes."""
        return [int(values[i]) for i in self.spatial]

    def sizes(self, x: Value) -> list[int | None]:
        """The spatial sizes of a value."""
        return [None] * len(self.spatial) if x.static_dims is None else [x.static_dims[i] for i in self.spatial]


def _padding(op: Node, layout: Layout, sizes: list[int | None], window: list[int], strides: list[int]) -> dict[str, Any]:
    """The padding attributes of an input. `window` has the sizes of the dilated window."""
    kind = _text(op.attrs["padding"])
    if kind == "VALID":
        return {}
    if kind == "EXPLICIT":
        pairs = np.reshape(op.attrs["explicit_paddings"], (-1, 2))[layout.spatial]
        return {"pads": [int(p) for p in pairs.T.reshape(-1)]}
    pads = [_same(n, k, s) for n, k, s in zip(sizes, window, strides, strict=True)]
    if None in pads:
        return {"auto_pad": "SAME_UPPER"}
    return {"pads": [total // 2 for total in pads] + [total - total // 2 for total in pads]}       # type: ignore[operator]


def _same(size: int | None, window: int, stride: int) -> int | None:
    """How much padding SAME adds to an axis; None if that depends on a size that is not known."""
    if size is None:
        return window - 1 if stride == 1 else None
    return max((-(-size // stride) - 1) * stride + window - size, 0)


# -- convolutions -------------------------------------------------------------------------------------------------------
def _filters(b: Builder, x: Value, change: Callable[[np.ndarray], np.ndarray], perm: list[int]) -> str:
    """Filters in ONNX's order; a constant stays a constant."""
    found = b.value(x)
    return b.transpose(x, perm) if found is None else b.constant(np.ascontiguousarray(change(found)), x.op.name)


@rule("Conv2D", "Conv3D")
def _conv(b: Builder, op: Node) -> str:
    x, filters = op.inputs
    rank = b.rank(x)
    layout, dims = Layout(op, rank), filters.static_dims
    channels = None if x.static_dims is None else x.static_dims[-1 if layout.last else 1]
    if dims is None or None in dims:
        raise Unsupported("the shape of the filters is not known")
    group = 1 if channels is None else channels // dims[-2]
    perm = [rank - 1, rank - 2, *range(rank - 2)]
    weights = _filters(b, filters, lambda w: w.transpose(perm), perm)
    return _convolved(b, op, layout, x, weights, list(dims[:-2]), group)


@rule("DepthwiseConv2dNative")
def _depthwise(b: Builder, op: Node) -> str:
    x, filters = op.inputs
    dims = filters.static_dims
    if dims is None or None in dims or b.value(filters) is None:
        raise Unsupported("its filters are not constants")
    height, width, channels, times = dims
    weights = _filters(b, filters, lambda w: w.transpose(2, 3, 0, 1).reshape(channels * times, 1, height, width), [])
    return _convolved(b, op, Layout(op, 4), x, weights, [height, width], channels)


def _convolved(b: Builder, op: Node, layout: Layout, x: Value, weights: str, kernel: list[int], group: int) -> str:
    strides, dilations = layout.of(op.attrs["strides"]), layout.of(op.attrs.get("dilations") or [1] * layout.rank)
    window = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    padding = _padding(op, layout, layout.sizes(x), window, strides)
    made = b("Conv", layout.enter(b, x), weights, kernel_shape=kernel, strides=strides, dilations=dilations, group=group,
             **padding)
    return layout.leave(b, made)


@rule("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def _conv_transpose(b: Builder, op: Node) -> str:
    """The whole transposed convolution, of which the part that padding does not cut off is kept."""
    sizes, filters, x = op.inputs
    rank = b.rank(x)
    layout, dims = Layout(op, rank), filters.static_dims
    if dims is None or None in dims:
        raise Unsupported("the shape of the filters is not known")
    strides, dilations = layout.of(op.attrs["strides"]), layout.of(op.attrs.get("dilations") or [1] * rank)
    window = [(k - 1) * d + 1 for k, d in zip(dims[:-2], dilations, strict=True)]
    perm = [rank - 1, rank - 2, *range(rank - 2)]
    weights = _filters(b, filters, lambda w: w.transpose(perm), perm)
    inner: dict[str, Any] = {"kernel_shape": list(dims[:-2]), "strides": strides, "dilations": dilations}
    sides = list(zip(layout.sizes(x), layout.sizes(op.outputs[0]), window, strides, strict=True))
    cut = [_cut(op, layout, i, n, m, k, s) for i, (n, m, k, s) in enumerate(sides) if n is not None and m is not None]
    if len(cut) == len(sides):
        made = b("ConvTranspose", layout.enter(b, x), weights, **inner, pads=[c[0] for c in cut] + [c[1] for c in cut],
                 output_padding=[c[2] for c in cut])
        return layout.leave(b, made)
    whole = b("ConvTranspose", layout.enter(b, x), weights, **inner)
    return layout.leave(b, _cropped(b, op, layout, whole, sizes))


def _cut(op: Node, layout: Layout, i: int, given: int, wanted: int, window: int, stride: int) -> tuple[int, int, int]:
    """The sizes cut off an axis of a full transposed convolution at both ends, and the size added at its end."""
    whole = stride * (given - 1) + window
    kind = _text(op.attrs["padding"])
    if kind == "EXPLICIT":
        before, after = (int(p) for p in np.reshape(op.attrs["explicit_paddings"], (-1, 2))[layout.spatial[i]])
    else:
        total = max(whole - wanted, 0) if kind == "SAME" else 0
        before, after = total // 2, total - total // 2
    return before, after, max(wanted - (whole - before - after), 0)


def _cropped(b: Builder, op: Node, layout: Layout, whole: str, sizes: Value) -> str:
    """The part of a whole transposed convolution that has the sizes of a tensor, which are known when it runs."""
    kind, n = _text(op.attrs["padding"]), len(layout.spatial)
    if kind == "EXPLICIT":
        raise Unsupported("it has explicit padding and a size that is not known")
    places, axes = ints(*layout.spatial), ints(*range(2, 2 + n))
    given = b.int64(sizes)
    short = sizes.static_dims == (n,)
    wanted = given if short else b("Gather", given, places, axis=0)
    made = b("Gather", b.shape(whole), axes, axis=0)
    zeros = ints(*[0] * n)
    start: Any = zeros if kind == "VALID" else b("Div", b("Max", b("Sub", made, wanted), zeros), ints(2))
    more = b("Max", b("Sub", wanted, made), zeros)
    longer = b("Pad", whole, b("Concat", zeros, more, axis=0), b.like(op.inputs[2], 0), axes, mode="constant")
    return b("Slice", longer, start, b("Add", start, wanted), axes)


# -- pools --------------------------------------------------------------------------------------------------------------
@rule("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D")
def _pool(b: Builder, op: Node) -> str:
    x = op.inputs[0]
    layout = Layout(op, b.rank(x))
    window, strides = layout.of(op.attrs["ksize"]), layout.of(op.attrs["strides"])
    other = [i for i in range(layout.rank) if i not in layout.spatial]
    if any(int(op.attrs[k][i]) != 1 for k in ("ksize", "strides") for i in other):
        raise Unsupported("ONNX has no pools over the batch or the channels")
    padding = _padding(op, layout, layout.sizes(x), window, strides)
    more = {"count_include_pad": 0} if op.type.startswith("Avg") else {}
    made = b("AveragePool" if more else "MaxPool", layout.enter(b, x), kernel_shape=window, strides=strides, **padding, **more)
    return layout.leave(b, made)


# -- normalization ------------------------------------------------------------------------------------------------------
@rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(b: Builder, op: Node) -> list[str]:
    x, scale, offset, mean, variance = op.inputs
    if op.attrs["is_training"]:
        raise Unsupported("it normalizes by the statistics of its batch, as in training")
    layout = Layout(op, b.rank(x))
    made = b("BatchNormalization", layout.enter(b, x), scale, offset, mean, variance, epsilon=float(op.attrs["epsilon"]))
    unused = [b.name(mean), b.name(variance)] * 2
    return [layout.leave(b, made), *unused, *unused][:len(op.outputs)]


@rule("LRN")
def _lrn(b: Builder, op: Node) -> str:
    size = 2 * op.attrs["depth_radius"] + 1
    layout = Layout(op, 4)
    return layout.leave(b, b("LRN", layout.enter(b, op.inputs[0]), size=size, alpha=float(op.attrs["alpha"] * size),
                             beta=float(op.attrs["beta"]), bias=float(op.attrs["bias"])))


# -- resizing -----------------------------------------------------------------------------------------------------------
@rule("ResizeNearestNeighbor", "ResizeBilinear")
def _resize(b: Builder, op: Node) -> str:
    x, size = op.inputs
    nearest = op.type == "ResizeNearestNeighbor"
    layout = Layout(op, 4)
    centers, corners = op.attrs.get("half_pixel_centers"), op.attrs["align_corners"]
    where = "align_corners" if corners else "half_pixel" if centers else "asymmetric"
    given = layout.enter(b, x)
    sizes = b("Concat", b("Slice", b.shape(given), ints(0), ints(2), ints(0)), b.int64(size), axis=0)
    mode: dict[str, Any] = {"mode": "nearest", "nearest_mode": "round_prefer_ceil" if corners or centers else "floor"} \
        if nearest else {"mode": "linear"}
    if nearest and centers and not corners:
        where, mode["nearest_mode"] = "half_pixel", "round_prefer_ceil"
    made = b("Resize", given, None, None, sizes, coordinate_transformation_mode=where, **mode)
    if not x.dtype.is_floating and not nearest:
        raise Unsupported("it interpolates integers")
    return layout.leave(b, made)


@rule("DepthToSpace", "SpaceToDepth")
def _depth_to_space(b: Builder, op: Node) -> str:
    layout = Layout(op, 4)
    size = op.attrs["block_size"]
    given = layout.enter(b, op.inputs[0])
    made = b("DepthToSpace", given, blocksize=size, mode="DCR") if op.type == "DepthToSpace" else \
        b("SpaceToDepth", given, blocksize=size)
    return layout.leave(b, made)
