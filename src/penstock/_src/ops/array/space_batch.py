"""Space to batch and to depth, and back: each is a reshape and a transpose."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dims, rank_at_least, rank_is, show
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import arrays
from penstock._src.ops import rules
from penstock._src.ops.array.concat import stack
from penstock._src.ops.array.fill import zeros
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import op

# -- space and batch --------------------------------------------------------------
space_to_batch_nd = op("SpaceToBatchND", "input: T, block_shape: Tblock_shape, paddings: Tpaddings -> output: T",
                       "T: type, Tblock_shape: type in {index} = int32, Tpaddings: type in {index} = int32",
                       export_as="space_to_batch_nd", v1_as="manip.space_to_batch_nd",
                       doc="Divides the padded spatial axes into blocks; the position in the block becomes part of the batch.")
batch_to_space_nd = op("BatchToSpaceND", "input: T, block_shape: Tblock_shape, crops: Tcrops -> output: T",
                       "T: type, Tblock_shape: type in {index} = int32, Tcrops: type in {index} = int32",
                       v1_as="batch_to_space_nd manip.batch_to_space_nd",
                       doc="The reverse of space_to_batch_nd; the spatial axes are cropped in the end.")
space_to_batch_op = op("SpaceToBatch", "input: T, paddings: Tpaddings -> output: T",
                       "T: type, Tpaddings: type in {index} = int32, block_size: int >= 2")
batch_to_space_op = op("BatchToSpace", "input: T, crops: Tidx -> output: T",
                       "T: type, block_size: int >= 2, Tidx: type in {index} = int32")


def _static_amounts(dims: Dims, blocks: int, value: Any) -> Any:
    rows, cols = rank_is(dims, 2)
    if cols not in (None, 2) or rows not in (None, blocks):
        raise ValueError(f"paddings and crops must have shape [{blocks}, 2], not {show(dims)}")
    if value is None:
        return None
    if (value < 0).any():
        raise ValueError(f"paddings and crops must be non-negative: {value.tolist()}")
    return value.tolist()


def _blocks(block_shape: Dims, value: Any) -> tuple[int | None, list | None]:
    (n,) = rank_is(block_shape, 1)
    if value is None:
        return n, None
    if (value < 1).any():
        raise ValueError(f"block_shape must be positive: {value.tolist()}")
    return len(value), value.tolist()


def _to_batch_shape(input: Dims, n: int | None, block: list | None, paddings: Dims, value: Any) -> Dims:
    if n is None:
        return None
    amounts = _static_amounts(paddings, n, value)
    rank_at_least(input, n + 1)
    if input is None:
        return None
    if block is None:
        return (None,) * (n + 1) + input[n + 1:]
    batch = None if input[0] is None else input[0] * math.prod(block)
    out: list[Any] = []
    for d, b, p in zip(input[1:n + 1], block, amounts or [None] * n, strict=True):
        if d is None or p is None:
            out.append(None)
            continue
        if (d + sum(p)) % b:
            raise ValueError(f"Dimension size must be evenly divisible by {b} but is {d + sum(p)}: {show(input)}")
        out.append((d + sum(p)) // b)
    return (batch, *out, *input[n + 1:])


def _to_space_shape(input: Dims, n: int | None, block: list | None, crops: Dims, value: Any) -> Dims:
    if n is None:
        return None
    amounts = _static_amounts(crops, n, value)
    rank_at_least(input, n + 1)
    if input is None:
        return None
    if block is None:
        return (None,) * (n + 1) + input[n + 1:]
    whole = math.prod(block)
    if input[0] is not None and input[0] % whole:
        raise ValueError(f"Dimension size must be evenly divisible by {whole} but is {input[0]}: {show(input)}")
    out = []
    for d, b, p in zip(input[1:n + 1], block, amounts or [None] * n, strict=True):
        out.append(None if d is None or p is None else d * b - sum(p))
        if out[-1] is not None and out[-1] < 0:
            raise ValueError(f"cropped size cannot be negative: {show(input)} with blocks {block} and crops {amounts}")
    return (None if input[0] is None else input[0] // whole, *out, *input[n + 1:])


space_to_batch_nd.shape(lambda input, block_shape, paddings, *, c: _to_batch_shape(
    input, *_blocks(block_shape, c.const("block_shape")), paddings, c.const("paddings")))
batch_to_space_nd.shape(lambda input, block_shape, crops, *, c: _to_space_shape(
    input, *_blocks(block_shape, c.const("block_shape")), crops, c.const("crops")))
space_to_batch_op.shape(lambda input, paddings, *, block_size, c: _to_batch_shape(
    rank_is(input, 4), 2, [block_size] * 2, paddings, c.const("paddings")))
batch_to_space_op.shape(lambda input, crops, *, block_size, c: _to_space_shape(
    rank_is(input, 4), 2, [block_size] * 2, crops, c.const("crops")))


def _checked(input: torch.Tensor, block_shape: torch.Tensor, amounts: torch.Tensor, what: str) -> tuple[list, list]:
    block = arrays.ints(block_shape)
    if block_shape.dim() != 1 or input.dim() < len(block) + 1:
        raise errors.invalid(f"input rank should be >= {len(block) + 1} instead of {input.dim()}")
    if tuple(amounts.shape) != (len(block), 2):
        raise errors.invalid(f"{what} should have shape [{len(block)}, 2] instead of {arrays.show(amounts.shape)}")
    for b in block:
        if b < 1:
            raise errors.invalid(f"All values in block_shape must be positive, got value, {b}")
    rows = amounts.tolist()
    if any(a < 0 for row in rows for a in row):
        raise errors.invalid(f"All {what} must be non-negative, got {rows}")
    return block, rows


def to_batch(input: torch.Tensor, block_shape: torch.Tensor, paddings: torch.Tensor) -> torch.Tensor:
    """The kernel of SpaceToBatchND."""
    block, amounts = _checked(input, block_shape, paddings, "paddings")
    n = len(block)
    tail = input.dim() - n - 1
    flat = [0, 0] * tail + [a for row in reversed(amounts) for a in row]
    x = torch.nn.functional.pad(input, flat) if any(flat) else input
    split: list[int] = []
    for d, b in zip(x.shape[1:n + 1], block, strict=True):
        if d % b:
            raise errors.invalid(f"padded_shape={d} is not divisible by block_shape={b}")
        split += [d // b, b]
    x = x.reshape(x.shape[0], *split, *x.shape[n + 1:])
    order = [2 * i + 2 for i in range(n)] + [0] + [2 * i + 1 for i in range(n)] + list(range(2 * n + 1, x.dim()))
    return x.permute(order).reshape(-1 if x.numel() else input.shape[0] * math.prod(block),
                                    *split[::2], *input.shape[n + 1:])


def to_space(input: torch.Tensor, block_shape: torch.Tensor, crops: torch.Tensor) -> torch.Tensor:
    """The kernel of BatchToSpaceND."""
    block, amounts = _checked(input, block_shape, crops, "crops")
    n, whole = len(block), math.prod(block)
    if input.shape[0] % whole:
        raise errors.invalid(f"Input batch dimension ({input.shape[0]}) is not divisible by product of block sizes "
                             f"({whole})")
    x = input.reshape(*block, input.shape[0] // whole, *input.shape[1:])
    order = [n] + [axis for i in range(n) for axis in (n + 1 + i, i)] + list(range(2 * n + 1, x.dim()))
    sizes = [d * b for d, b in zip(input.shape[1:n + 1], block, strict=True)]
    x = x.permute(order).reshape(input.shape[0] // whole, *sizes, *input.shape[n + 1:])
    index = [slice(None)]
    for size, (before, after) in zip(sizes, amounts, strict=True):
        if before + after > size:
            raise errors.invalid(f"cropped_shape={size - before - after} must be non-negative")
        index.append(slice(before, size - after))
    return x[tuple(index)]


space_to_batch_nd.kernel(to_batch)
batch_to_space_nd.kernel(to_space)
space_to_batch_op.kernel(lambda input, paddings, *, block_size: to_batch(
    input, torch.tensor([block_size] * 2), paddings))
batch_to_space_op.kernel(lambda input, crops, *, block_size: to_space(input, torch.tensor([block_size] * 2), crops))

space_to_batch_nd.gradient(lambda op, grad: (batch_to_space_nd(grad, op.inputs[1], op.inputs[2]), None, None))
batch_to_space_nd.gradient(lambda op, grad: (space_to_batch_nd(grad, op.inputs[1], op.inputs[2]), None, None))
space_to_batch_op.gradient(lambda op, grad: (
    batch_to_space_op(grad, op.inputs[1], block_size=op.attrs["block_size"]), None))
batch_to_space_op.gradient(lambda op, grad: (
    space_to_batch_op(grad, op.inputs[1], block_size=op.attrs["block_size"]), None))


@export(v1=["nn.space_to_batch", "space_to_batch"])
@dispatched
def space_to_batch(input: Any, paddings: Any, block_size: int | None = None, name: str | None = None,
                   block_shape: int | None = None) -> Tensor:
    """space_to_batch_nd for images, with square blocks."""
    size = block_size if block_shape is None else block_shape
    out = space_to_batch_nd(input, np.array([size, size], np.int64), paddings, name=name)
    out.set_shape(out.shape.with_rank(4))
    return out


@export(v2=["space_to_batch", "nn.space_to_batch"])
@dispatched
def space_to_batch_v2(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Tensor:
    """Divides the padded spatial axes into blocks; the position in the block becomes part of the batch."""
    return space_to_batch_nd(input, block_shape, paddings, name=name)


@export(v1=["batch_to_space"])
@dispatched
def batch_to_space(input: Any, crops: Any, block_size: int | None, name: str | None = None,
                   block_shape: int | None = None) -> Tensor:
    """batch_to_space_nd for images, with square blocks."""
    size = block_size if block_shape is None else block_shape
    out = batch_to_space_nd(input, np.array([size, size], np.int64), crops, name=name)
    out.set_shape(out.shape.with_rank(4))
    return out


@export(v2=["batch_to_space"])
@dispatched
def batch_to_space_v2(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """The reverse of space_to_batch; the spatial axes are cropped in the end."""
    if isinstance(block_shape, int):
        block_shape = np.array([block_shape, block_shape], np.int64)
    return batch_to_space_nd(input, block_shape, crops, name=name)


@export("required_space_to_batch_paddings")
@dispatched
def required_space_to_batch_paddings(input_shape: Any, block_shape: Any, base_paddings: Any = None,
                                     name: str | None = None) -> tuple[Tensor, Tensor]:
    """Paddings (and the crops that undo them) that make `block_shape` divide `input_shape`."""
    with name_scope(name, "required_space_to_batch_paddings", [input_shape, block_shape]):
        size = convert(input_shape, dtypes.int32, "input_shape")
        block = convert(block_shape, dtypes.int32, "block_shape")
        block.shape.assert_is_fully_defined()
        block.shape.assert_has_rank(1)
        n = block.static_dims[0]
        if n == 0:
            return zeros([0, 2], dtypes.int32), zeros([0, 2], dtypes.int32)
        size.shape.assert_is_compatible_with([n])
        base = zeros([n, 2], dtypes.int32) if base_paddings is None else \
            convert(base_paddings, dtypes.int32, "base_paddings")
        base.shape.assert_is_compatible_with([n, 2])
        values = [constant_value(t) for t in (size, block, base)]
        if all(v is not None for v in values):
            size, block, base = values  # type: ignore[assignment]
        start, end = base[:, 0], base[:, 1]
        extra = (block - (size + start + end) % block) % block
        end = end + extra
        paddings = stack([stack([start[i], end[i]]) for i in range(n)], name="paddings")
        crops = stack([stack([0, extra[i]]) for i in range(n)], name="crops")
        return paddings, crops


# -- space and depth --------------------------------------------------------------
_DEPTH = "T: type, block_size: int >= 2, data_format: string in {NHWC NCHW NCHW_VECT_C} = 'NHWC'"
space_to_depth_op = op("SpaceToDepth", "input: T -> output: T", _DEPTH)
rules.batching.first[space_to_depth_op] = (0,)
depth_to_space_op = op("DepthToSpace", "input: T -> output: T", _DEPTH)
rules.batching.first[depth_to_space_op] = (0,)


def _axes(data_format: str) -> tuple[int, int, int]:
    if data_format == "NCHW_VECT_C":
        raise errors.UnimplementedError(None, None, "data_format NCHW_VECT_C is a layout of one kind of GPU library: "
                                                    "use NHWC or NCHW")
    return (1, 2, 3) if data_format == "NHWC" else (2, 3, 1)


def _space_to_depth_shape(input: Dims, *, block_size: int, data_format: str) -> Dims:
    if data_format == "NCHW_VECT_C":
        return None
    dims = list(rank_is(input, 4))
    h, w, depth = _axes(data_format)
    for a in (h, w):
        if dims[a] is not None:
            if dims[a] % block_size:  # type: ignore[operator]
                raise ValueError(f"Dimension size must be evenly divisible by {block_size} but is {dims[a]}: "
                                 f"{show(input)}")
            dims[a] //= block_size  # type: ignore[operator]
    dims[depth] = None if dims[depth] is None else dims[depth] * block_size ** 2  # type: ignore[operator]
    return tuple(dims)


def _depth_to_space_shape(input: Dims, *, block_size: int, data_format: str) -> Dims:
    if data_format == "NCHW_VECT_C":
        return None
    dims = list(rank_is(input, 4))
    h, w, depth = _axes(data_format)
    if dims[depth] is not None:
        if dims[depth] % block_size ** 2:  # type: ignore[operator]
            raise ValueError(f"Dimension size must be evenly divisible by {block_size ** 2} but is {dims[depth]}: "
                             f"{show(input)}")
        dims[depth] //= block_size ** 2  # type: ignore[operator]
    for a in (h, w):
        dims[a] = None if dims[a] is None else dims[a] * block_size  # type: ignore[operator]
    return tuple(dims)


space_to_depth_op.shape(_space_to_depth_shape)
depth_to_space_op.shape(_depth_to_space_shape)


def _image(input: torch.Tensor) -> None:
    if input.dim() != 4:
        raise errors.invalid(f"Input rank should be: 4 instead of: {input.dim()}")


@space_to_depth_op.kernel
def _space_to_depth_kernel(input, *, block_size, data_format):
    _axes(data_format)
    _image(input)
    x = input if data_format == "NHWC" else input.permute(0, 2, 3, 1)
    n, h, w, c = x.shape
    b = block_size
    if h % b or w % b:
        raise errors.invalid(f"Image width {w} and height {h} should be divisible by block_size: {b}")
    x = x.reshape(n, h // b, b, w // b, b, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h // b, w // b, b * b * c)
    return x if data_format == "NHWC" else x.permute(0, 3, 1, 2)


@depth_to_space_op.kernel
def _depth_to_space_kernel(input, *, block_size, data_format):
    _axes(data_format)
    _image(input)
    x = input if data_format == "NHWC" else input.permute(0, 2, 3, 1)
    n, h, w, c = x.shape
    b = block_size
    if c % (b * b):
        raise errors.invalid(f"Input depth dimension {c} should be divisible by: {b * b}")
    depth = c // (b * b)
    x = x.reshape(n, h, w, b, b, depth).permute(0, 1, 3, 2, 4, 5).reshape(n, h * b, w * b, depth)
    return x if data_format == "NHWC" else x.permute(0, 3, 1, 2)


def _same(op: Any) -> dict[str, Any]:
    return {"block_size": op.attrs["block_size"], "data_format": op.attrs["data_format"]}


space_to_depth_op.gradient(lambda op, grad: depth_to_space_op(grad, **_same(op)))
depth_to_space_op.gradient(lambda op, grad: space_to_depth_op(grad, **_same(op)))


@export(v1=["nn.space_to_depth", "space_to_depth"])
@dispatched
def space_to_depth(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    """Blocks of an image moved into its depth: height and width shrink, the depth grows."""
    return space_to_depth_op(input, block_size=block_size, data_format=data_format, name=name)


@export(v2=["nn.space_to_depth"])
@dispatched
def space_to_depth_v2(input: Any, block_size: int, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Blocks of an image moved into its depth: height and width shrink, the depth grows.

    Args:
        input: Images [batch, height, width, depth].
        block_size: Height and width of a block.
        data_format: `"NHWC"` or `"NCHW"`.
        name: Name of the operation.

    Returns:
        Images [batch, height / block, width / block, depth * block²].

    >>> tf.nn.space_to_depth([[[[1], [2]], [[3], [4]]]], 2).numpy().tolist()
    [[[[1, 2, 3, 4]]]]
    """
    return space_to_depth_op(input, block_size=block_size, data_format=data_format, name=name)


@export(v1=["nn.depth_to_space", "depth_to_space"])
@dispatched
def depth_to_space(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    """The reverse of space_to_depth: the depth becomes blocks of a larger image."""
    return depth_to_space_op(input, block_size=block_size, data_format=data_format, name=name)


@export(v2=["nn.depth_to_space"])
@dispatched
def depth_to_space_v2(input: Any, block_size: int, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """The reverse of space_to_depth: the depth becomes blocks of a larger image.

    Args:
        input: Images [batch, height, width, depth].
        block_size: Height and width of a block.
        data_format: `"NHWC"` or `"NCHW"`.
        name: Name of the operation.

    Returns:
        Images [batch, height * block, width * block, depth / block²].

    >>> tf.nn.depth_to_space([[[[1, 2, 3, 4]]]], 2).numpy().tolist()
    [[[[1], [2]], [[3], [4]]]]
    """
    return depth_to_space_op(input, block_size=block_size, data_format=data_format, name=name)
