"""Shapes of tensors, and changes of shape: reshape, expand, squeeze, transpose.

The other array families build on this one: gradients get shapes from `shape_of` (a list if it is static, else a Shape op).
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dims, TensorShape, num_elements, rank_is, show
from penstock._src.graph import context
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import constant, convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import arrays
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get, op

export.value(None, "newaxis")


def known(dims: Dims) -> bool:
    """Whether a static shape is fully known."""
    return dims is not None and None not in dims


def shape_of(x: Any, out_type: Any = dtypes.int32) -> Any:
    """The shape of `x` for use as an input of another op: a list if it is static, else a tensor."""
    if known(x.static_dims) and out_type is dtypes.int32 and all(d < 2**31 for d in x.static_dims):
        return np.array(x.static_dims, np.int32)
    if known(x.static_dims) and out_type is dtypes.int64:
        return np.array(x.static_dims, np.int64)
    return shape_op(x, out_type=out_type)


def canonical(axis: int, rank: int) -> int:
    """A possibly negative axis, counted from the front; ValueError outside of the rank."""
    if not -rank <= axis < rank:
        raise ValueError(f"Invalid axis {axis} for a tensor of rank {rank}: must be in [{-rank}, {rank})")
    return axis + rank if axis < 0 else axis


def is_sparse(x: Any) -> bool:
    """Whether `x` is a SparseTensor (or its value)."""
    return not isinstance(x, Tensor) and hasattr(x, "dense_shape") and hasattr(x, "indices") and hasattr(x, "values") \
        and type(x).__name__.startswith("Sparse")


# -- shape, size, rank --------------------------------------------------------------
_OUT_TYPE = "T: type, out_type: type in {index} = int32"
shape_op = op("Shape", "input: T -> output: out_type", _OUT_TYPE).no_gradient()
shape_op.shape(lambda input: (None,) if input is None else (len(input),))
shape_op.value(lambda op, values: op.inputs[0].static_dims)


def _shape_tensor(dims: Any, out_type: Any) -> torch.Tensor:
    if out_type is dtypes.int32 and any(d >= 2**31 for d in dims):
        raise errors.invalid(f"Shape output type is 32-bit but a dimension of {arrays.show(dims)} is larger")
    return torch.tensor(dims, dtype=out_type.torch)


@shape_op.kernel
def _shape_kernel(input, *, out_type):
    return _shape_tensor(arrays.dims_of(input), out_type)


shape_n_op = op("ShapeN", "input: N * T -> output: N * out_type",
                f"N: int >= 1, {_OUT_TYPE}").no_gradient()
shape_n_op.shape(lambda input: [(None,) if s is None else (len(s),) for s in input])
shape_n_op.kernel(lambda input, *, out_type: [_shape_tensor(arrays.dims_of(x), out_type) for x in input])

size_op = op("Size", "input: T -> output: out_type", _OUT_TYPE).no_gradient()
size_op.shape(lambda input: ())
size_op.value(lambda op, values: (num_elements(op.inputs[0].static_dims),))


@size_op.kernel
def _size_kernel(input, *, out_type):
    n = math.prod(arrays.dims_of(input))
    if out_type is dtypes.int32 and n >= 2**31:
        raise errors.invalid(f"Number of elements was larger than representable by 32-bit output type: {n}")
    return torch.scalar_tensor(n, dtype=out_type.torch)


rank_op = op("Rank", "input: T -> output: int32", "T: type").no_gradient()
rules.algebra.metadata.update((shape_op, shape_n_op, size_op, rank_op))
rules.batching.shared[shape_op] = lambda op, x: [shape_op(x.tensor, out_type=op.attrs["out_type"])[1:]]
rules.batching.shared[shape_n_op] = lambda op, *inputs: [
    shape_op(x.tensor, out_type=op.attrs["out_type"])[int(x.stacked):] for x in inputs]
rules.batching.shared[size_op] = lambda op, x: [get("Prod")(shape_op(x.tensor, out_type=op.attrs["out_type"])[1:], np.int32(0))]
rules.batching.shared[rank_op] = lambda op, x: [rank_op(x.tensor) - 1]
rank_op.shape(lambda input: ())
rank_op.value(lambda op, values: (None if op.inputs[0].static_dims is None else len(op.inputs[0].static_dims),))
rank_op.kernel(lambda input: torch.scalar_tensor(len(arrays.dims_of(input)), dtype=torch.int32))


def _cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    return get("Cast")(x, DstT=dtype, name=name)


def shape_internal(input: Any, name: str | None = None, optimize: bool = True, out_type: Any = dtypes.int32) -> Any:
    """tf.shape; with `optimize`, a constant where the shape is static."""
    out_type = dtypes.as_dtype(out_type)
    with name_scope(name, "Shape", [input]) as scope:
        if is_sparse(input):
            return _cast(convert(input.dense_shape), out_type)
        input = convert(input)
        if optimize and known(input.static_dims) and not context.executing_eagerly():
            out_type = dtypes.int64 if max(input.static_dims, default=0) > dtypes.int32.max else out_type
            return constant(list(input.static_dims), out_type, name=scope, shape=[len(input.static_dims)])
        return shape_op(input, out_type=out_type, name=scope)


@export(v1=["shape"])
@dispatched
def shape(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """The shape of a tensor, as a vector.

    Args:
        input: Tensor or SparseTensor.
        name: Name of the operation.
        out_type: `tf.int32` or `tf.int64`.

    Returns:
        A vector of integers, computed when the step runs. For the static shape use `x.shape`.

    >>> tf.shape(tf.zeros([2, 3])).numpy()
    array([2, 3], dtype=int32)
    """
    return shape_internal(input, name, True, out_type)


@export(v2=["shape"])
@dispatched
def shape_v2(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """The shape of a tensor, as a vector.

    Args:
        input: Tensor.
        out_type: int32 or int64.
        name: Name of the operation.

    Returns:
        A vector with the sizes of the axes, as they are when the step runs.

    >>> tf.shape(tf.ones([2, 3])).numpy().tolist()
    [2, 3]
    """
    return shape_internal(input, name, True, out_type)


@export("shape_n")
@dispatched
def shape_n(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> list:
    """The shapes of several tensors of one type.

    Args:
        input: A list of tensors.
        out_type: int32 or int64.
        name: Name of the operation.

    Returns:
        A list of their shapes.

    >>> [s.numpy().tolist() for s in tf.shape_n([tf.ones([2]), tf.ones([3, 1])])]
    [[2], [3, 1]]
    """
    return shape_n_op(input, out_type=out_type, name=name)


def size_internal(input: Any, name: str | None = None, optimize: bool = True, out_type: Any = dtypes.int32) -> Any:
    """tf.size; with `optimize`, a constant where the shape is static."""
    out_type = dtypes.as_dtype(out_type)
    with name_scope(name, "Size", [input]) as scope:
        if is_sparse(input):
            return get("Prod")(_cast(convert(input.dense_shape), out_type), 0, name=scope)
        input = convert(input)
        if optimize and known(input.static_dims) and not context.executing_eagerly():
            return constant(num_elements(input.static_dims), out_type, name=scope)
        return size_op(input, out_type=out_type, name=scope)


@export(v1=["size"])
@dispatched
def size(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """The number of elements of a tensor.

    Args:
        input: Tensor or SparseTensor.
        name: Name of the operation.
        out_type: `tf.int32` or `tf.int64`.

    Returns:
        A scalar.

    >>> tf.size(tf.zeros([2, 3])).numpy()
    np.int32(6)
    """
    return size_v2(input, out_type, name)


@export(v2=["size"])
@dispatched
def size_v2(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """The number of elements of a tensor.

    Args:
        input: Tensor.
        out_type: int32 or int64.
        name: Name of the operation.

    Returns:
        A scalar: the number of elements.

    >>> int(tf.size(tf.ones([2, 3])))
    6
    """
    return size_internal(input, name, True, out_type)


@export("rank")
@dispatched
def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of dimensions of a tensor.

    Args:
        input: Tensor.
        name: Name of the operation.

    Returns:
        An int32 scalar: the number of axes.

    >>> int(tf.rank(tf.ones([2, 3])))
    2
    """
    with name_scope(name, "Rank", [input]) as scope:
        if is_sparse(input):
            return size_internal(input.dense_shape, name=scope)
        input = convert(input)
        if input.static_dims is not None and not context.executing_eagerly():
            return constant(len(input.static_dims), dtypes.int32, name=scope)
        return rank_op(input, name=scope)


# -- reshape --------------------------------------------------------------
reshape_op = op("Reshape", "tensor: T, shape: Tshape -> output: T", "T: type, Tshape: type in {index} = int32")


@rules.batching.rule(reshape_op)
def _reshape_batching(op, rows, tensor, shape):
    dims = op.outputs[0].static_dims
    known = None if dims is None or None in dims else np.array(dims, np.int32)
    if shape.stacked and known is None:
        return None
    return [reshape_op(rows.stack(tensor), rows.shape(shape.tensor if known is None else known))]

rules.arithmetic.reshapes.add(reshape_op)
rules.arithmetic.takes_shape.add(reshape_op)


@reshape_op.shape
def _reshape_shape(tensor, shape, *, c):
    if shape is not None and len(shape) != 1 and c.dims("shape") is None:
        raise ValueError(f"Shape must be rank 1 but is rank {len(shape)}")
    wanted = c.dims("shape")
    if wanted is None:
        return None
    return reshaped(tensor, wanted)


def reshaped(source: Dims, wanted: tuple) -> tuple:
    """The static result of reshaping: one unknown size follows from the number of elements."""
    total = 0 if source is not None and 0 in source else num_elements(source)
    if source is None or total is None:
        return wanted
    rest = math.prod(d for d in wanted if d is not None)
    unknown = wanted.count(None)
    if not unknown and rest != total:
        raise ValueError(f"Cannot reshape a tensor with {total} elements to shape {_brackets(wanted)} "
                         f"({rest} elements)")
    if unknown and rest and total % rest:
        raise ValueError(f"Dimension size must be evenly divisible by {rest} but is {total}: cannot reshape "
                         f"{show(source)} to {_brackets(wanted)}")
    if unknown != 1 or not rest and (None in source or 0 not in source):
        return wanted
    if not rest:                                     # as at run time: the other sizes are matched without the zeros
        total, rest = math.prod(d for d in source if d), math.prod(d for d in wanted if d)
    return wanted if total % rest else tuple(total // rest if d is None else d for d in wanted)


def _brackets(dims: tuple) -> str:
    return "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


@reshape_op.kernel
def _reshape_kernel(tensor, shape):
    if shape.dim() > 1:
        raise errors.invalid(f"sizes input must be 1-D, not {arrays.show(shape.shape)}")
    dims = arrays.ints(shape)
    total = math.prod(arrays.dims_of(tensor))
    missing = [i for i, d in enumerate(dims) if d == -1]
    if len(missing) > 1:
        raise errors.invalid(f"Only one input size may be -1, not both {missing[0]} and {missing[1]}")
    for i, d in enumerate(dims):
        if d < -1:
            raise errors.invalid(f"Size {i} must be non-negative, not {d}")
    if missing:
        dims[missing[0]] = _missing_size(arrays.dims_of(tensor), dims)
    elif math.prod(dims) != total:
        raise errors.invalid(f"Input to reshape is a tensor with {total} values, but the requested shape has "
                             f"{math.prod(dims)}")
    return (tensor if hasattr(tensor, "shape") else arrays.boxed(tensor)).reshape(dims)


@rules.program.prepare(reshape_op)
def _reshape_prepare(known):
    dims, shape = known.out(), known.const(1)
    if shape is None or not known.plain():
        return None
    if known.dims(0) is not None and dims is not None:
        return lambda tensor, shape: tensor.reshape(dims)
    wanted = tuple(map(int, shape.reshape(-1)))
    total = math.prod(abs(d) for d in wanted)
    if shape.ndim != 1 or not total or min(wanted, default=0) < -1 or wanted.count(-1) > 1:
        return None
    again = torch.from_numpy(np.array(shape))

    def run(tensor: torch.Tensor, shape: Any) -> torch.Tensor:
        count = tensor.numel()
        if count % total if -1 in wanted else count != total:
            _reshape_kernel(tensor, again)               # raises the error
        return tensor.reshape(wanted)
    return run


def _missing_size(source: tuple, dims: list[int]) -> int:
    """The size that -1 represents. Where sizes of 0 are requested, the other sizes are matched without them."""
    empty = 0 in dims
    rest = math.prod(d for d in dims if d > 0)
    total = math.prod(d for d in source if d > 0 or not empty)
    if total % rest or empty and 0 not in source:
        raise errors.invalid(f"Input to reshape is a tensor with {math.prod(source)} values, but the requested shape "
                             f"requires a multiple of {0 if empty and 0 not in source else rest}")
    return total // rest


@reshape_op.gradient
def _reshape_gradient(op, grad):
    return reshape_op(convert(grad), shape_of(op.inputs[0])), None


def _vector_value(op: Any, values: Any) -> Any:
    """The value rule of ops that keep the elements of an integer scalar or vector in order."""
    dims = op.outputs[0].static_dims
    if not op.inputs[0].dtype.is_integer or dims is None or len(dims) > 1:
        return None
    return values(0)


reshape_op.value(_vector_value)


@export("reshape", v1=["manip.reshape"])
@dispatched
def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The elements of `tensor` in another shape; one size may be -1, and is computed.

    Args:
        tensor: Tensor of any shape.
        shape: Sizes of the new axes: a list or an integer vector. One size may be -1.
        name: Name of the operation.

    Returns:
        A tensor of the type and with the elements of `tensor`, in row-major order. Memory is shared where possible.

    Raises:
        ValueError: if the numbers of elements differ and both are known; InvalidArgumentError when the step runs otherwise.

    >>> tf.reshape([1, 2, 3, 4], [2, -1]).numpy()
    array([[1, 2],
           [3, 4]], dtype=int32)
    """
    return reshape_op(tensor, shape, name=name)


# -- expand_dims, squeeze --------------------------------------------------------------
expand_dims_op = op("ExpandDims", "input: T, dim: Tdim -> output: T", "T: type, Tdim: type in {index} = int32")
rules.batching.axis[expand_dims_op] = 1
rules.raw_ops.arguments[expand_dims_op] = {"dim": "axis"}
rules.arithmetic.reshapes.add(expand_dims_op)
expand_dims_op.value(_vector_value)


@expand_dims_op.shape
def _expand_dims_shape(input, dim, *, c):
    value = c.const("dim")
    if value is not None and value.size != 1:
        raise ValueError(f"'dim' input must be a tensor with a single value, not {value.tolist()}")
    if input is None:
        return None
    if value is None:
        return (None,) * (len(input) + 1)
    at, rank = int(value.reshape(())), len(input)
    if not -rank - 1 <= at <= rank:
        raise ValueError(f"dim {at} not in the interval [{-rank - 1}, {rank}]")
    at += rank + 1 if at < 0 else 0
    return input[:at] + (1,) + input[at:]


@rules.program.prepare(expand_dims_op)
def _expand_dims_prepare(known):
    at, rank = known.const(1), known.rank(0)
    if at is None or at.size != 1 or rank is None or not -rank - 1 <= int(at.reshape(-1)[0]) <= rank or not known.floating():
        return None
    axis = int(at.reshape(-1)[0])
    return lambda input, dim: input.unsqueeze(axis)


@expand_dims_op.kernel
def _expand_dims_kernel(input, dim):
    rank = len(arrays.dims_of(input))
    at = arrays.ints(dim)
    if len(at) != 1:
        raise errors.invalid(f"'dim' must be a tensor with a single value, but has {len(at)}")
    if not -rank - 1 <= at[0] <= rank:
        raise errors.invalid(f"Tried to expand dim index {at[0]} for tensor with {rank} dimensions.")
    return arrays.unsqueeze(input, at[0])


@expand_dims_op.gradient
def _expand_dims_gradient(op, grad):
    return reshape_op(convert(grad), shape_of(op.inputs[0])), None


@export(v1=["expand_dims"])
@dispatched
def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """`input` with an axis of size 1 inserted at `axis`.

    Args:
        input: Tensor.
        axis: Position of the new axis; -1 is the end.
        name: Name of the operation.
        dim: Old name of `axis`.

    Returns:
        A tensor with the same elements.

    Raises:
        ValueError: if `axis` is out of range.

    >>> tf.expand_dims([1, 2], 0).numpy()
    array([[1, 2]], dtype=int32)
    """
    if dim is not None:
        if axis is not None:
            raise ValueError("Cannot specify both 'axis' and 'dim'")
        axis = dim
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    return expand_dims_v2(input, axis, name)


@export(v2=["expand_dims"])
@dispatched
def expand_dims_v2(input: Any, axis: Any, name: str | None = None) -> Tensor:
    """`input` with an axis of size 1 inserted at `axis`.

    Args:
        input: Tensor.
        axis: Position of the new axis; negative ones count from the end.
        name: Name of the operation.

    Returns:
        Tensor with one more axis, of size 1.

    Raises:
        InvalidArgumentError: for a position outside the rank.

    >>> tf.expand_dims(tf.ones([2, 3]), 0).shape
    TensorShape([1, 2, 3])
    """
    return expand_dims_op(input, axis, name=name)


squeeze_op = op("Squeeze", "input: T -> output: T", "T: type, squeeze_dims: list(int) = []")


@rules.batching.rule(squeeze_op)
def _squeeze_batching(op, rows, input):
    dims, axes = op.inputs[0].static_dims, op.attrs["squeeze_dims"]
    if not axes:
        if dims is None or None in dims:
            return None
        axes = [i for i, d in enumerate(dims) if d == 1]
    if not axes:
        return [input.tensor]
    return [squeeze_op(input.tensor, squeeze_dims=[a + (a >= 0) for a in axes])]

rules.raw_ops.arguments[squeeze_op] = {"squeeze_dims": "axis"}
rules.arithmetic.reshapes.add(squeeze_op)
squeeze_op.value(_vector_value)


@squeeze_op.shape
def _squeeze_shape(input, *, squeeze_dims):
    if input is None:
        return None
    rank = len(input)
    if not squeeze_dims:
        return tuple(d for d in input if d != 1) if known(input) else None
    gone = {canonical(a, rank) for a in squeeze_dims}
    for a in gone:
        if input[a] not in (None, 1):
            raise ValueError(f"Can not squeeze dim[{a}], expected a dimension of 1, got {input[a]}")
    return tuple(d for i, d in enumerate(input) if i not in gone)


@squeeze_op.kernel
def _squeeze_kernel(input, *, squeeze_dims):
    dims = arrays.dims_of(input)
    text = f"Tried to squeeze dim index {squeeze_dims} for tensor with {len(dims)} dimensions."
    gone = {arrays.canonical_axis(a, len(dims), text) for a in squeeze_dims}
    for a in gone:
        if dims[a] != 1:
            raise errors.invalid(f"Can not squeeze dim[{a}], expected a dimension of 1, got {dims[a]}")
    return input.reshape([d for i, d in enumerate(dims) if (i not in gone if squeeze_dims else d != 1)])


@squeeze_op.gradient
def _squeeze_gradient(op, grad):
    return reshape_op(convert(grad), shape_of(op.inputs[0]))


@export(v1=["squeeze"])
@dispatched
def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Tensor:
    """`input` without its axes of size 1, or without those in `axis`.

    Args:
        input: Tensor.
        axis: Axes to remove; each must have size 1. By default all of size 1.
        name: Name of the operation.
        squeeze_dims: Old name of `axis`.

    Returns:
        A tensor with the same elements.

    Raises:
        ValueError: if an axis in `axis` has another size.

    >>> tf.squeeze([[1], [2]]).numpy()
    array([1, 2], dtype=int32)
    """
    if squeeze_dims is not None:
        if axis is not None:
            raise ValueError("Cannot specify both 'axis' and 'squeeze_dims'")
        axis = squeeze_dims
    return squeeze_v2(input, axis, name)


@export(v2=["squeeze"])
@dispatched
def squeeze_v2(input: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """`input` without its axes of size 1, or without those in `axis`.

    Args:
        input: Tensor.
        axis: The axes of size 1 to remove, by default all of them.
        name: Name of the operation.

    Returns:
        Tensor without these axes.

    Raises:
        InvalidArgumentError: if such an axis has another size.

    >>> tf.squeeze(tf.ones([1, 2, 1]), axis=[0]).shape
    TensorShape([2, 1])
    """
    axes = [] if axis is None else [axis] if np.ndim(axis) == 0 else list(axis)
    return squeeze_op(input, squeeze_dims=axes, name=name)


# -- transpose --------------------------------------------------------------
transpose_op = op("Transpose", "x: T, perm: Tperm -> y: T", "T: type, Tperm: type in {index} = int32")


@rules.batching.rule(transpose_op)
def _transpose_batching(op, rows, x, perm):
    return None if perm.stacked else [transpose_op(x.tensor, rows.prefixed(perm._replace(tensor=perm.tensor + 1), [0]))]

rules.arithmetic.permutes.add(transpose_op)


@rules.fusion.fuse(transpose_op)
def _transpose_fuse(op, f):
    """On a GPU, stacked tensors are transposed before, as views, so that stacking is the only copy."""
    made = None if f.on_host(op) else f.only(op.inputs[0], op)
    perm = f.source(op.inputs[1])
    if made is None or made.opdef is not get("Pack") or not perm.op.opdef.constant or \
            id(perm) in f.step.fed or made.inputs[0].static_dims is None:
        return None
    rank = len(made.inputs[0].static_dims) + 1
    at, order = made.attrs["axis"] % rank, [int(p) % rank for p in perm.op.attrs["value"].reshape(-1)]
    inner = np.array([p - (p > at) for p in order if p != at], np.int32)
    axes = f.add(f.make("Const", [], {"value": inner, "dtype": dtypes.int32}, op,
                        outputs=[f.result(dtypes.int32, inner.shape)]))[0]
    turned = []
    for t in made.inputs:
        dims = tuple(t.static_dims[i] for i in inner)
        turned += f.add(f.make("Transpose", [t, axes], {"T": t.dtype, "Tperm": dtypes.int32}, op,
                               outputs=[f.result(t.dtype, dims)]))
    return f.make("Pack", turned, {**made.attrs, "axis": order.index(at)}, op, (len(turned),))


conjugate_transpose_op = op("ConjugateTranspose", "x: T, perm: Tperm -> y: T",
                            "T: type, Tperm: type in {index} = int32")


def _transposed_shape(x: Dims, perm: Dims, *, c: Any) -> Dims:
    value = c.const("perm")
    if value is None:
        if x is None and perm is not None and len(perm) == 1 and perm[0] is not None:
            return (None,) * perm[0]
        return None if x is None else (None,) * len(x)
    order = value.reshape(-1).tolist()
    if x is None and len(order) < 2:
        return None                       # one axis or none: there is nothing to permute
    x = rank_is(x, len(order))
    return tuple(x[canonical(p, len(order))] for p in order)


transpose_op.shape(_transposed_shape)
conjugate_transpose_op.shape(_transposed_shape)


def _checked_perm(rank: int, perm: Any) -> list[int]:
    order = arrays.ints(perm)
    if len(order) != rank:
        raise errors.invalid(f"transpose expects a vector of size {rank}. But input(1) is a vector of size "
                             f"{len(order)}")
    for p in order:
        if not -rank <= p < rank:
            raise errors.invalid(f"{p} is out of range [0 .. {rank})")
    order = [p + rank if p < 0 else p for p in order]
    for p in range(rank):
        if p not in order:
            raise errors.invalid(f"{p} is missing from {{{','.join(map(str, order))}}}.")
    return order


@rules.program.prepare(transpose_op)
def _transpose_prepare(known):
    perm, dims = known.const(1), known.dims(0)
    if perm is None or dims is None or not known.floating():
        return None
    order = _checked_perm(len(dims), torch.from_numpy(perm))
    return lambda x, perm: x.permute(order)


transpose_op.kernel(lambda x, perm: arrays.permute(x, _checked_perm(len(arrays.dims_of(x)), perm)))


@conjugate_transpose_op.kernel
def _conjugate_transpose_kernel(x, perm):
    y = arrays.permute(x, _checked_perm(x.dim(), perm))
    return y.conj().resolve_conj() if y.is_complex() else y


def _inverse(perm: Any) -> Any:
    value = constant_value(perm)
    return np.argsort(value).astype(np.int32) if value is not None else get("InvertPermutation")(perm)


@transpose_op.gradient
def _transpose_gradient(op, grad):
    return transpose_op(grad, _inverse(op.inputs[1])), None


@conjugate_transpose_op.gradient
def _conjugate_transpose_gradient(op, grad):
    return conjugate_transpose_op(grad, _inverse(op.inputs[1])), None


@export(v1=["transpose"])
@dispatched
def transpose(a: Any, perm: Any = None, name: str | None = "transpose", conjugate: bool = False) -> Tensor:
    """`a` with its axes in the order `perm`, or in reverse; conjugated if requested.

    Args:
        a: Tensor.
        perm: Order of the axes: axis i of the result is axis `perm[i]` of `a`.
        name: Name of the operation.
        conjugate: Whether to conjugate complex elements.

    Returns:
        A tensor of the type of `a`.

    >>> tf.transpose([[1, 2], [3, 4]]).numpy()
    array([[1, 3],
           [2, 4]], dtype=int32)
    """
    with name_scope(name, "transpose", [a]) as scope:
        a = convert(a)
        fn = conjugate_transpose_op if conjugate and a.dtype.is_complex else transpose_op
        if perm is None:
            perm = np.arange(a.ndim - 1, -1, -1, dtype=np.int32) if a.ndim is not None else _reversed_axes(a)
        return fn(a, perm, name=scope)


def _reversed_axes(a: Tensor) -> Tensor:
    n = rank_op(a)
    return (n - 1) - get("Range")(0, n, 1)


@export(v2=["transpose"])
@dispatched
def transpose_v2(a: Any, perm: Any = None, conjugate: bool = False, name: str | None = "transpose") -> Tensor:
    """`a` with its axes in the order `perm`, or in reverse; conjugated if requested.

    Args:
        a: Tensor.
        perm: The axes of `a` in the order of the result; by default reversed.
        conjugate: Whether to conjugate complex numbers.
        name: Name of the operation.

    Returns:
        The transposed tensor.

    Raises:
        InvalidArgumentError: if `perm` is not a permutation.

    >>> tf.transpose([[1, 2], [3, 4]]).numpy().tolist()
    [[1, 3], [2, 4]]
    """
    return transpose(a, perm, name, conjugate)


@export(v1=["matrix_transpose", "linalg.transpose", "linalg.matrix_transpose"])
@dispatched
def matrix_transpose(a: Any, name: str | None = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """`a` with its two last axes exchanged."""
    with name_scope(name, "matrix_transpose", [a]) as scope:
        a = convert(a, name="a")
        if a.ndim is not None:
            if a.ndim < 2:
                raise ValueError(f"Argument 'a' should be a (batch) matrix, with rank >= 2.  Found: {a.shape}")
            perm: Any = [*range(a.ndim - 2), a.ndim - 1, a.ndim - 2]
        else:
            n = rank_op(a)
            perm = get("ConcatV2")([get("Range")(0, n - 2, 1), get("Pack")([n - 1, n - 2])], 0)
        return transpose(a, perm, scope, conjugate)


@export(v2=["linalg.matrix_transpose"])
@dispatched
def matrix_transpose_v2(a: Any, name: str | None = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """`a` with its two last axes exchanged.

    Args:
        a: Matrices [..., m, n].
        name: Name of the operation.
        conjugate: Whether to conjugate the elements, too.

    Returns:
        Matrices [..., n, m].

    >>> tf.linalg.matrix_transpose([[1, 2], [3, 4]]).numpy().tolist()
    [[1, 3], [2, 4]]
    """
    return matrix_transpose(a, name, conjugate)


# -- shape checks --------------------------------------------------------------
ensure_shape_op = op("EnsureShape", "input: T -> output: T", "shape: shape, T: type")
rules.batching.rule[ensure_shape_op] = lambda op, rows, x: rows.again(
    op, [x.tensor], shape=op.attrs["shape"] if op.attrs["shape"].rank is None else [None, *op.attrs["shape"].as_list()])


@ensure_shape_op.shape
def _ensure_shape_shape(input, *, shape):
    return TensorShape.of(input).merge_with(shape).static_dims


@ensure_shape_op.kernel
def _ensure_shape_kernel(input, *, shape, node):
    if not shape.is_compatible_with(arrays.dims_of(input)):
        name = "" if node.graph is None else f"{node.inputs[0].op.name} "
        raise errors.invalid(f"Shape of tensor {name}{arrays.show(arrays.dims_of(input))} is not compatible with expected "
                             f"shape {_brackets(shape.static_dims)}.")
    return input


ensure_shape_op.gradient(lambda op, grad: grad)


@export("ensure_shape")
@dispatched
def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """`x` with the static shape `shape`, which is checked at run time.

    Args:
        x: Tensor.
        shape: Its shape; None for sizes that do not matter.
        name: Name of the operation.

    Returns:
        `x` with this static shape.

    Raises:
        InvalidArgumentError: if a step finds another shape; ValueError: if it is known before.

    >>> tf.ensure_shape(tf.ones([2, 3]), [None, 3]).shape
    TensorShape([2, 3])
    """
    return ensure_shape_op(x, shape=shape, name=name)


guarantee_const = op("GuaranteeConst", "input: T -> output: T", "T: type", stateful=True,
                     export_as="guarantee_const").no_gradient()
guarantee_const.shape(lambda input: input)


@guarantee_const.kernel
def _guarantee_const_kernel(input, *, T):
    if T is dtypes.resource:
        raise errors.invalid("Input tensor cannot be a resource variable handle.")
    return input


