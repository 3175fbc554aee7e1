"""Reductions: sums, products, extrema and the like over some axes, or all of them."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export, with_sections
from penstock._src.graph import context
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import sums, unsigned
from penstock._src.ops import rules
from penstock._src.ops.arguments import renamed
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import OpDef, get, internal, op

_NUMBERS = "numeric quantized"


# -- what all of them share -------------------------------------------------------------------------------------------
def _reduced_dims(input, reduction_indices, *, keep_dims, c):
    if reduction_indices is not None and len(reduction_indices) > 1:
        raise ValueError(f"Shape must be at most rank 1 but is rank {len(reduction_indices)}: reduction indices are a "
                         "scalar or a vector")
    axes = c.const("reduction_indices")
    if axes is None:
        return (None,) * len(input) if keep_dims and input is not None else None
    if input is None:
        return None
    gone = _normalized(axes.reshape(-1).tolist(), len(input), ValueError)
    if keep_dims:
        return tuple(1 if i in gone else d for i, d in enumerate(input))
    return tuple(d for i, d in enumerate(input) if i not in gone)


def _normalized(axes: list[int], rank: int, error: Callable) -> list[int]:
    """Axes counted from the front, checked."""
    out = []
    for a in axes:
        if not -rank <= a < rank:
            raise error(f"Invalid reduction dimension {a} for input with {rank} dimension(s)")
        out.append(a + rank if a < 0 else a)
    if len(set(out)) != len(out):
        raise error(f"Invalid reduction arguments: Axes contains duplicate dimension: {axes}")
    return out


def _reduction(name: str, args: str, types: str) -> OpDef:
    made = op(name, args, f"keep_dims: bool = False, {types}Tidx: type in {{index}} = int32")
    rules.batching.axis[made] = 1
    rules.raw_ops.arguments[made] = {"reduction_indices": "axis"}
    made.shape(_reduced_dims)
    return made


def _numeric(name: str, reduce: Callable, wide: Callable | None = None, single: Callable | None = None,
             numbers: str = "numeric quantized") -> OpDef:
    """A reduction of `numbers`; reduce(x, axes, keep) gets at least one axis. `single` is what it does to single numbers, where
    there are no axes; by default they stay."""
    made = _reduction(name, "input: T, reduction_indices: Tidx -> output: T", f"T: type in {{{numbers}}}, ")
    made.kernel(_kernel(reduce, single))
    if single is None:
        rules.arithmetic.reduces.add(made)

    @rules.program.prepare(made)
    def _made_prepare(known):
        axes, rank = known.const(1), known.rank(0)
        if axes is None or rank is None or not known.floating():
            return None
        axes, keep = _normalized(axes.reshape(-1).tolist(), rank, errors.invalid), known.attrs["keep_dims"]
        if not axes:
            return lambda input, reduction_indices: input if single is None else single(input)
        return lambda input, reduction_indices: reduce(input, axes, keep)
    if wide is not None:
        made.kernel(_kernel(wide(reduce)), types=unsigned.TYPES)
    return made


def _kernel(reduce: Callable, single: Callable | None = None) -> Callable:
    def run(input, reduction_indices, *, keep_dims):
        axes = _normalized(reduction_indices.reshape(-1).tolist(), input.ndim, errors.invalid)
        if not axes:
            return input if single is None else single(input)
        return reduce(input, axes, keep_dims)
    return run


def _folded(x: torch.Tensor, axes: list[int]) -> torch.Tensor:
    """The axes moved to the end and made one, for ATen functions that take a single one."""
    rest = [i for i in range(x.ndim) if i not in axes]
    return x.permute(rest + axes).reshape([x.shape[i] for i in rest] + [_count(x, axes)])


def _count(x: torch.Tensor, axes: list[int]) -> int:
    n = 1
    for a in axes:
        n *= x.shape[a]
    return n


def _kept(out: torch.Tensor, x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    return out.reshape([1 if i in axes else d for i, d in enumerate(x.shape)]) if keep else out


# -- kernels ----------------------------------------------------------------------------------------------------------
def _prod(x, axes, keep):
    if len(axes) == 1:
        return torch.prod(x, axes[0], keep, dtype=x.dtype)
    return _kept(torch.prod(_folded(x, axes), -1, dtype=x.dtype), x, axes, keep)


def _extremum(reduce: Callable, limit: Callable) -> Callable:
    def run(x, axes, keep):
        if _count(x, axes) == 0:
            dims = [1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes]
            return torch.full(dims, limit(x.dtype), dtype=x.dtype, device=x.device)
        return reduce(x, axes, keep)
    return run


def _lowest(dtype: torch.dtype) -> Any:
    return -float("inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def _highest(dtype: torch.dtype) -> Any:
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


def _mean(x, axes, keep):
    if x.is_floating_point() or x.is_complex():
        return sums.over(x, axes, keep, mean=True)
    n = _count(x, axes)
    total = torch.sum(x, axes, keep, dtype=torch.int64)
    return torch.div(total, n, rounding_mode="trunc").to(x.dtype) if n else total.to(x.dtype)


def _euclidean(x, axes, keep):
    if x.is_floating_point():
        return torch.linalg.vector_norm(x, dim=axes, keepdim=keep)
    if x.is_complex():
        return torch.linalg.vector_norm(x, dim=axes, keepdim=keep).to(x.dtype)
    squares = torch.sum(x.to(torch.int64).square(), axes, keep).to(x.dtype)          # wraps, as TensorFlow's does
    return squares.to(torch.float64).sqrt().to(x.dtype)


sum_op = _numeric("Sum", sums.over, unsigned.wrapping)
rules.loops.sums_rows[sum_op] = lambda op: not op.attrs["keep_dims"] and len(op.inputs[0].static_dims or ()) == 2 and \
    op.inputs[1].op.opdef.constant and op.inputs[1].op.attrs["value"].reshape(-1).tolist() == [0]
prod_op = _numeric("Prod", _prod, unsigned.wrapping)
max_op = _numeric("Max", _extremum(torch.amax, _lowest), unsigned.ordered, numbers="real quantized")
min_op = _numeric("Min", _extremum(torch.amin, _highest), unsigned.ordered, numbers="real quantized")
mean_op = _numeric("Mean", _mean)
euclidean_norm = _numeric("EuclideanNorm", _euclidean, single=lambda x: torch.abs(x).to(x.dtype))
mean_op.kernel(_kernel(lambda x, axes, keep: _unsigned_mean(x, axes, keep)), types=unsigned.TYPES)


def _unsigned_mean(x, axes, keep):
    n = _count(x, axes)
    if x.dtype is torch.uint64:
        total = unsigned.unsigned(torch.sum(unsigned.signed(x), axes, keep))
        return unsigned.divide(total, torch.full((), max(n, 1), dtype=torch.uint64, device=x.device))
    return _mean(x.to(torch.int64), axes, keep).to(x.dtype)


all_op = _reduction("All", "input: bool, reduction_indices: Tidx -> output: bool", "").no_gradient()
any_op = _reduction("Any", "input: bool, reduction_indices: Tidx -> output: bool", "").no_gradient()
all_op.kernel(_kernel(torch.all))
any_op.kernel(_kernel(torch.any))


# -- gradients --------------------------------------------------------------------------------------------------------
def reduced_shape(input_shape: Any, axes: Any) -> Tensor:
    """The shape of a reduction of `input_shape` over `axes` that keeps its rank: 1 where it reduces."""
    shape = get("Cast")(input_shape, DstT=dtypes.int32) if input_shape.dtype != dtypes.int32 else input_shape
    known, rank = constant_value(axes), input_shape.static_dims[0] if input_shape.static_dims is not None else None
    if known is not None and rank is not None:
        gone = np.zeros(rank, np.int32)
        gone[known.reshape(-1)] = 1
        return shape * convert(1 - gone) + convert(gone)
    axes = get("Cast")(axes, DstT=dtypes.int32) if axes.dtype != dtypes.int32 else axes
    rank = get("Size")(shape)
    axes = get("Reshape")((axes + rank) % rank, [-1])
    return get("DynamicStitch")([get("Range")(0, rank, 1), axes], [shape, get("Fill")(get("Shape")(axes), 1)])


class _Reduced:
    """A reduction op for its gradient: maps values of the output's shape to the input's."""

    def __init__(self, op: Any):
        self.op, self.keep = op, op.attrs["keep_dims"]
        x, axes = op.inputs[0], constant_value(op.inputs[1])
        self.dims = x.static_dims if x.static_dims is not None and None not in x.static_dims else None
        self.axes = None
        if axes is not None and x.static_dims is not None:
            self.axes = sorted(_normalized(axes.reshape(-1).tolist(), len(x.static_dims), ValueError))
        self._shape: Any = None

    def input_shape(self) -> Tensor:
        if self._shape is None:
            x = self.op.inputs[0]
            self._shape = convert(np.array(self.dims, np.int32)) if self.dims is not None else get("Shape")(x)
        return self._shape

    def kept(self, value: Tensor) -> Tensor:
        """`value`, of the output's shape, with size 1 in the reduced axes."""
        if self.keep:
            return value
        if self.axes is not None and self.dims is not None:
            sizes = [1 if i in self.axes else d for i, d in enumerate(self.dims)]
            return get("Reshape")(value, convert(np.array(sizes, np.int32)))
        return get("Reshape")(value, reduced_shape(self.input_shape(), self.op.inputs[1]))

    def spread(self, value: Tensor) -> Tensor:
        """`value`, of the output's shape, broadcast to the input's."""
        if self.axes is None or self.axes != list(range(len(self.axes))):    # leading axes need no reshape
            value = self.kept(value)
        return get("BroadcastTo")(value, self.input_shape())

    def count(self, dtype: Any) -> Tensor:
        """The number of elements per output."""
        if self.axes is not None and all(self.op.inputs[0].static_dims[i] is not None for i in self.axes):
            return convert(int(np.prod([self.op.inputs[0].static_dims[i] for i in self.axes], dtype=np.int64)), dtype)
        size = get("Size")(self.op.inputs[0])
        return get("Cast")(size // get("Maximum")(get("Size")(self.op.outputs[0]), 1), DstT=dtype)


rules.pointwise.instruction.update({sum_op: "ROW_SUM", max_op: "ROW_MAXIMUM"})
rules.pointwise.formula[mean_op] = lambda terms, op, x: terms.step_of(
    "DIV", terms.step_of("ROW_SUM", x), terms.number(float(terms.columns)))
rules.regions.folds.update({sum_op: "ADD", prod_op: "MUL", max_op: "MAXIMUM", min_op: "MINIMUM", all_op: "AND", any_op: "OR"})
rules.pointwise.reduces |= {sum_op, max_op, mean_op}
rules.pointwise.over_rows |= rules.pointwise.reduces
sum_op.gradient(lambda op, grad: (_Reduced(op).spread(grad), None))


# -- sums of all axes but the last, which on GPUs are joined with elementwise ops (step/optimize/on_device.py) ------------
def _of_columns(name: str, of: OpDef, reduce: Callable) -> OpDef:
    made = internal(name, "input: T -> output: T", "T: type in {float32 bfloat16 half}, keep_dims: bool = False")
    made.shape(lambda input, *, keep_dims: None if input is None else (*[1] * (len(input) - 1 if keep_dims else 0), input[-1]))
    made.kernel(lambda input, *, keep_dims: reduce(input, list(range(input.ndim - 1)), keep_dims))
    rules.pointwise.columns.add(made)
    rules.pointwise.of_columns[of] = made
    return made


column_sum = _of_columns("_ColumnSum", sum_op, torch.sum)
column_mean = _of_columns("_ColumnMean", mean_op, torch.mean)
rules.pointwise.on_device.update({column_sum: "COLUMN_SUM", column_mean: "COLUMN_MEAN"})


@mean_op.gradient
def _mean_gradient(op, grad):
    r = _Reduced(op)
    return r.spread(grad / r.count(grad.dtype.base_dtype)), None


@max_op.gradient
@min_op.gradient
def _max_gradient(op, grad):
    """The gradient goes to the extreme elements, in equal parts."""
    r = _Reduced(op)
    hit = get("Cast")(get("Equal")(r.kept(op.outputs[0]), op.inputs[0]), DstT=grad.dtype.base_dtype)
    share = hit / sum_op(hit, op.inputs[1], keep_dims=True)
    return share * r.kept(grad), None


@euclidean_norm.gradient
def _euclidean_norm_gradient(op, grad):
    r = _Reduced(op)
    return op.inputs[0] * r.kept(grad / op.outputs[0]), None


@prod_op.gradient
def _prod_gradient(op, grad):
    """The product of all the other elements: from the left, times from the right."""
    r = _Reduced(op)
    x = op.inputs[0]
    perm, flat_shape = _folding(r)
    moved = get("Transpose")(x, perm)
    flat = get("Reshape")(moved, flat_shape)
    left = get("Cumprod")(flat, 0, exclusive=True)
    right = get("Cumprod")(flat, 0, exclusive=True, reverse=True)
    others = left * right
    if others.dtype.is_complex:
        others = get("Conj")(others)
    others = get("Transpose")(get("Reshape")(others, get("Shape")(moved)), get("InvertPermutation")(perm))
    return r.kept(grad) * others, None


def _folding(r: _Reduced) -> tuple[Any, Any]:
    """The permutation that brings the reduced axes to the front, and the shape [reduced, other]."""
    x = r.op.inputs[0]
    if r.axes is not None and r.dims is not None:
        rest = [i for i in range(len(r.dims)) if i not in r.axes]
        n = int(np.prod([r.dims[i] for i in r.axes], dtype=np.int64))
        m = int(np.prod([r.dims[i] for i in rest], dtype=np.int64))
        return convert(np.array(r.axes + rest, np.int32)), convert(np.array([n, m], np.int32))
    rank = get("Rank")(x)
    axes = get("Cast")(r.op.inputs[1], DstT=dtypes.int32) if r.op.inputs[1].dtype != dtypes.int32 else r.op.inputs[1]
    axes = get("Reshape")((axes + rank) % rank, [-1])
    rest = get("ListDiff")(get("Range")(0, rank, 1), axes)[0]
    sizes = [prod_op(get("GatherV2")(get("Shape")(x), which, 0), [0]) for which in (axes, rest)]
    return get("ConcatV2")([axes, rest], 0), get("Pack")(sizes)


# -- public functions -------------------------------------------------------------------------------------------------
def reduction_axes(x: Tensor, axis: Any) -> Any:
    """The axis argument; all axes if it is None."""
    if axis is not None:
        return axis
    if x.static_dims is None:
        return get("Range")(0, get("Rank")(x), 1)
    rank = len(x.static_dims)
    if not context.executing_eagerly():
        return convert(np.arange(rank, dtype=np.int32))
    if rank not in _ALL:
        _ALL[rank] = convert(np.arange(rank, dtype=np.int32))
    return _ALL[rank]


_ALL: dict[int, Tensor] = {}          # all axes of a rank, for eager execution


def reduce(definition: OpDef, input_tensor: Any, axis: Any, keepdims: Any, name: str | None,
           dtype: Any = None) -> Tensor:
    """Applies a reduction op over `axis`, or over all axes."""
    keep = False if keepdims is None else bool(keepdims)
    x = convert(input_tensor, dtype, "input_tensor") if not isinstance(input_tensor, Tensor) else input_tensor
    axes = reduction_axes(x, axis)
    out = definition(x, axes, keep_dims=keep, name=name)
    if axis is None and not keep and out.static_dims is None:
        out.set_shape(())
    return out


_ARGUMENTS = """\
Args:
    input_tensor: Tensor to reduce.
    axis: Axis or list of axes; negative numbers count from the end. All axes by default.
    keepdims: Whether reduced axes stay, with size 1.
    name: Name of the operation."""
_OLD_NAMES = """
    reduction_indices: Old name of `axis`.
    keep_dims: Old name of `keepdims`."""
_RESULT = """\
Returns:
    A tensor without the reduced axes."""


def _publish(name: str, compute: Callable, doc: str) -> Callable:
    """Exports a reduction under its two signatures; compute(input_tensor, axis, keepdims, name)."""
    def v2(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
        return compute(input_tensor, axis, keepdims, name)

    def v1(input_tensor: Any, axis: Any = None, keepdims: Any = None, name: str | None = None,
           reduction_indices: Any = None, keep_dims: Any = None) -> Tensor:
        axis = renamed("axis", axis, "reduction_indices", reduction_indices)
        return compute(input_tensor, axis, renamed("keepdims", keepdims, "keep_dims", keep_dims), name)

    for f, old in ((v1, _OLD_NAMES), (v2, "")):
        f.__name__ = f.__qualname__ = name
        f.__doc__ = with_sections(doc, f"{_ARGUMENTS}{old}\n\n{_RESULT}")
    second = dispatched(v2)
    export.value(dispatched(v1), v1=[f"math.{name}", name])
    export.value(second, v2=[f"math.{name}", name])
    return second


def _plain(definition: OpDef, dtype: Any = None) -> Callable:
    return lambda x, axis, keepdims, name: reduce(definition, x, axis, keepdims, name, dtype)


reduce_sum = _publish("reduce_sum", _plain(sum_op), """The sum of elements over `axis` (all axes by default).

    >>> tf.reduce_sum([[1, 2], [3, 4]], axis=1).numpy()
    array([3, 7], dtype=int32)
    """)
reduce_prod = _publish("reduce_prod", _plain(prod_op), """The product of elements over `axis` (all axes by default).

    >>> tf.math.reduce_prod([[1, 2], [3, 4]], axis=1).numpy()
    array([ 2, 12], dtype=int32)
    """)
reduce_max = _publish("reduce_max", _plain(max_op), """The largest element over `axis` (all axes by default).

    >>> tf.reduce_max([[1, 2], [3, 4]], axis=1).numpy()
    array([2, 4], dtype=int32)
    """)
reduce_min = _publish("reduce_min", _plain(min_op), """The smallest element over `axis` (all axes by default).

    >>> tf.reduce_min([[1, 2], [3, 4]], axis=1).numpy()
    array([1, 3], dtype=int32)
    """)
reduce_mean = _publish("reduce_mean", _plain(mean_op), """The mean of elements over `axis` (all axes by default).

    >>> tf.reduce_mean([[1., 2.], [3., 4.]], axis=0).numpy()
    array([2., 3.], dtype=float32)
    """)
reduce_all = _publish("reduce_all", _plain(all_op, dtypes.bool), """Whether all elements over `axis` are true.

    >>> tf.reduce_all([[True, True], [True, False]], axis=1).numpy()
    array([ True, False])
    """)
reduce_any = _publish("reduce_any", _plain(any_op, dtypes.bool), """Whether any element over `axis` is true.

    >>> tf.reduce_any([[True, False], [False, False]], axis=1).numpy()
    array([ True, False])
    """)


def _logsumexp(x: Any, axis: Any, keepdims: Any, name: str | None) -> Tensor:
    with name_scope(name, "ReduceLogSumExp", [x]) as scope:
        x = convert(x)
        top = reduce(max_op, x, axis, True, None)
        finite = get("IsFinite")(top)
        top = get("StopGradient")(get("Select")(finite, top, get("ZerosLike")(top)))
        total = get("Log")(reduce(sum_op, get("Exp")(x - top), axis, True, None))
        if keepdims:
            return get("AddV2")(total, top, name=scope)
        return reduce(sum_op, total + top, axis, False, scope)


reduce_logsumexp = _publish("reduce_logsumexp", _logsumexp,
                            """log(sum(exp(x))) over `axis`, without overflow or underflow.

    >>> tf.reduce_logsumexp([[0., 0.], [1., 1.]], axis=1).numpy()
    array([0.6931472, 1.6931472], dtype=float32)
    """)


@export("math.reduce_euclidean_norm")
@dispatched
def reduce_euclidean_norm(input_tensor: Any, axis: Any = None, keepdims: bool = False,
                          name: str | None = None) -> Tensor:
    """The square root of the sum of squares over `axis`.

    Args:
        input_tensor: Tensor of floating point or complex numbers.
        axis: The axes to reduce, by default all.
        keepdims: Whether these axes stay, with size 1.
        name: Name of the operation.

    Returns:
        The root of the sum of squares.

    >>> float(tf.math.reduce_euclidean_norm([3., 4.]))
    5.0
    """
    return reduce(euclidean_norm, input_tensor, axis, keepdims, name)


@export("math.reduce_variance")
@dispatched
def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The mean squared distance from the mean over `axis`.

    Args:
        input_tensor: Tensor of floating point or complex numbers.
        axis: The axes to reduce, by default all.
        keepdims: Whether these axes stay, with size 1.
        name: Name of the operation.

    Returns:
        The mean squared distance from the mean.

    >>> float(tf.math.reduce_variance([1., 5.]))
    4.0
    """
    with name_scope(name or "reduce_variance"):
        x = convert(input_tensor)
        mean = reduce(mean_op, x, axis, True, None)
        if mean.dtype.is_integer:
            raise TypeError("Input must be either real or complex")
        diff = x - mean
        squared = get("Square")(diff)
        if diff.dtype.is_complex:
            part = diff.dtype.real_dtype
            squared = get("Real")(diff * get("Conj")(diff), Tout=part)
        return reduce(mean_op, squared, axis, keepdims, None)


@export("math.reduce_std")
@dispatched
def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The standard deviation over `axis`.

    Args:
        input_tensor: Tensor of floating point or complex numbers.
        axis: The axes to reduce, by default all.
        keepdims: Whether these axes stay, with size 1.
        name: Name of the operation.

    Returns:
        The root of the mean squared distance from the mean.

    >>> float(tf.math.reduce_std([1., 3.]))
    1.0
    """
    with name_scope(name or "reduce_std"):
        return get("Sqrt")(reduce_variance(input_tensor, axis=axis, keepdims=keepdims))


# -- counting ---------------------------------------------------------------------------------------------------------
def _count_nonzero(input: Any, axis: Any, keepdims: Any, dtype: Any, name: str | None) -> Tensor:
    keep = False if keepdims is None else keepdims
    with name_scope(name, "count_nonzero", [input]):
        x = convert(input, name="input")
        zero = convert("" if x.dtype == dtypes.string else 0, x.dtype.base_dtype) if x.dtype != dtypes.bool \
            else convert(False)
        hits = get("Cast")(get("NotEqual")(x, zero), DstT=dtypes.int64)
        total = reduce(sum_op, hits, axis, keep, None)
        return get("Cast")(total, DstT=dtypes.as_dtype(dtype)) if dtypes.as_dtype(dtype) != dtypes.int64 else total


@export(v1=["math.count_nonzero", "count_nonzero"])
@dispatched
def count_nonzero(input_tensor: Any = None, axis: Any = None, keepdims: Any = None, dtype: Any = dtypes.int64,
                  name: str | None = None, reduction_indices: Any = None, keep_dims: Any = None,
                  input: Any = None) -> Tensor:
    """How many elements over `axis` are not zero (not empty, for strings)."""
    return _count_nonzero(renamed("input", input, "input_tensor", input_tensor),
                          renamed("axis", axis, "reduction_indices", reduction_indices),
                          renamed("keepdims", keepdims, "keep_dims", keep_dims), dtype, name)


@export(v2=["math.count_nonzero"])
@dispatched
def count_nonzero_v2(input: Any, axis: Any = None, keepdims: Any = None, dtype: Any = dtypes.int64,
                     name: str | None = None) -> Tensor:
    """How many elements over `axis` are not zero (not empty, for strings).

    Args:
        input: Tensor of numbers, booleans or strings.
        axis: The axes to count along, by default all.
        keepdims: Whether these axes stay, with size 1.
        dtype: Type of the counts.
        name: Name of the operation.

    Returns:
        How many elements are not zero, or not empty.

    >>> int(tf.math.count_nonzero([0, 2, 3]))
    2
    """
    return _count_nonzero(input, axis, keepdims, dtype, name)


# -- positions of extrema ---------------------------------------------------------------------------------------------
def _position(name: str, find: Callable) -> OpDef:
    made = op(name, "input: T, dimension: Tidx -> output: output_type",
              f"T: type in {{{_NUMBERS} bool}}, Tidx: type in {{int16 int32 int64}} = int32, "
              "output_type: type in {int16 uint16 int32 int64} = int64").no_gradient()
    rules.batching.axis[made] = 1

    @made.shape
    def _made_shape(input, dimension, *, c):
        axis = c.const("dimension")
        shapes.rank_is(dimension, 0)
        if axis is None or input is None:
            return None if input is None else (None,) * max(len(input) - 1, 0)
        rank, axis = len(input), int(axis)
        if rank == 0:
            return ()
        if not -rank <= axis < rank:
            raise ValueError(f"Dimension ({axis}) must be in the range [{-rank}, {rank})")
        axis %= rank
        return input[:axis] + input[axis + 1:]

    @made.kernel
    def _made_kernel(input, dimension, *, output_type):
        return _find(find, input, dimension, output_type)
    made.kernel(lambda input, dimension, *, output_type: _find(find, input.to(torch.uint8), dimension, output_type),
                types="bool")
    made.kernel(lambda input, dimension, *, output_type: _find(find, unsigned.flip(input), dimension, output_type),
                types=unsigned.TYPES)

    @rules.program.prepare(made)
    def _made_prepare(known):
        """Along a known axis that is not empty there is nothing to check."""
        dims, axis = known.dims(0), known.const(1)
        if not dims or not known.plain() or axis is None or axis.ndim or not -len(dims) <= axis < len(dims) or not dims[axis]:
            known.used.clear()
            return None
        at, dtype = int(axis), known.attrs["output_type"].torch
        return (lambda x, _: find(x, at)) if dtype is torch.int64 else lambda x, _: find(x, at).to(dtype)
    return made


def _without_nan(find: Callable, last: float) -> Callable:
    """The position of an extremum: ATen returns that of a NaN, TensorFlow passes over them."""
    def position(x: torch.Tensor, axis: int) -> torch.Tensor:
        if not x.dtype.is_floating_point:
            return find(x, axis)
        if x.is_cuda:                               # where a look at the result would wait for it
            return find(x.nan_to_num(last, math.inf, -math.inf), axis)
        found = find(x, axis)
        if x.gather(axis, found.unsqueeze(axis)).isnan().any():
            found = find(x.nan_to_num(last, math.inf, -math.inf), axis)
        return found
    return position


def _find(find: Callable, x: torch.Tensor, dimension: torch.Tensor, output_type: Any) -> torch.Tensor:
    if dimension.numel() != 1:
        raise errors.invalid(f"dim must be a scalar, but received tensor of shape: {list(dimension.shape)}")
    axis, rank = int(dimension), x.ndim
    if rank == 0:
        return torch.zeros((), dtype=output_type.torch, device=x.device)
    if not -rank <= axis < rank:
        raise errors.invalid(f"Expected dimension in the range [{-rank}, {rank}), but got {axis}")
    if x.shape[axis] == 0:
        raise errors.invalid(f"Reduction axis {axis} is empty in shape {list(x.shape)}")
    return find(x, axis).to(output_type.torch)


arg_max = _position("ArgMax", _without_nan(torch.argmax, -math.inf))
arg_min = _position("ArgMin", _without_nan(torch.argmin, math.inf))


@rules.regions.lower(arg_max, arg_min)
def _position_in_region(op, r):
    view, axis = r.view(op.inputs[0]), int(r.constant(op.inputs[1]))
    if not view.dims:
        raise r.Unfit("a scalar")
    return [r.position(view, axis, op.opdef is arg_min, r.kind(op.outputs[0]))]


def _axis(axis: Any) -> Any:
    """An axis of any integer type, for ops that take some of them."""
    if not isinstance(axis, Tensor):
        return axis
    if not axis.dtype.is_integer:
        raise TypeError(f"The axis must be an integer, got a tensor of type {axis.dtype.name}")
    return axis if axis.dtype.base_dtype in (dtypes.int32, dtypes.int64) else get("Cast")(axis, DstT=dtypes.int32)


def _argument(definition: OpDef, name: str, what: str) -> None:
    doc = f"""The index of the {what} element along `axis`; of the first, if there are several.

    Args:
        input: Tensor of numbers.
        axis: Axis to search, 0 by default. `dimension` is its old name.
        output_type: Type of the result: `tf.int64` or `tf.int32`.
        name: Name of the operation.

    Returns:
        An integer tensor of the shape of `input` without `axis`.

    >>> tf.{name}([[1, 5, 3], [9, 2, 4]], axis=1).numpy()
    array({[1, 0] if name == "argmax" else [0, 1]})
    """

    def v2(input: Any, axis: Any = None, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
        return definition(input, 0 if axis is None else _axis(axis), output_type=output_type, name=name)

    def v1(input: Any, axis: Any = None, name: str | None = None, dimension: Any = None,
           output_type: Any = dtypes.int64) -> Tensor:
        return v2(input, renamed("axis", axis, "dimension", dimension), output_type, name)

    def old(input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
        return definition(input, dimension, output_type=output_type, name=name)

    for f, n in ((v1, name), (v2, name), (old, f"{name[:3]}_{name[3:]}")):
        f.__name__ = f.__qualname__ = n
        f.__doc__ = doc
    export.value(dispatched(v1), v1=[f"math.{name}", name])
    export.value(dispatched(v2), v2=[f"math.{name}", name])
    export.value(old, v1=[f"{name[:3]}_{name[3:]}"])


_argument(arg_max, "argmax", "largest")
_argument(arg_min, "argmin", "smallest")
