"""Softmax and the cross entropies that go with it.

The two fused cross entropies return the gradient of the loss as their second output, `backprop`, so that the backward
pass costs one multiplication.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import pointwise
from penstock._src.ops import rules
from penstock._src.ops.arguments import named_only, renamed
from penstock._src.ops.array.array import known, shape_of
from penstock._src.ops.composite import dispatched
from penstock._src.ops.core import static
from penstock._src.ops.math.cast import cast
from penstock._src.ops.math.math import unbroadcast
from penstock._src.ops.parts import Parts
from penstock._src.ops.registry import OpDef, get, op

_FLOAT = "T: type in {half bfloat16 float32 float64}"

# -- softmax and log softmax -----------------------------------------------------------------------------------------
softmax_op = op("Softmax", "logits: T -> softmax: T", _FLOAT)
log_softmax_op = op("LogSoftmax", "logits: T -> logsoftmax: T", _FLOAT)
rules.batching.leading.update({softmax_op: (0,), log_softmax_op: (0,)})
for _op in (softmax_op, log_softmax_op):
    _op.shape(lambda logits: shapes.rank_at_least(logits, 1))


def _vectors(logits: torch.Tensor) -> torch.Tensor:
    if logits.ndim < 1:
        raise errors.invalid("logits must have >= 1 dimension, got 0")
    return logits


rules.attention.softmax.add(softmax_op)
softmax_op.kernel(lambda logits: torch.softmax(_vectors(logits), -1))
log_softmax_op.kernel(lambda logits: pointwise.log_softmax(_vectors(logits)))


@rules.pointwise.formula(softmax_op)
def _softmax_terms(terms: Any, op: Any, x: int) -> int:
    x = terms.step_of("EXP", terms.step_of("SUB", x, terms.step_of("ROW_MAXIMUM", x)))
    return terms.step_of("MUL", x, terms.step_of("RECIPROCAL", terms.step_of("ROW_SUM", x)))


@rules.pointwise.formula(log_softmax_op)
def _log_softmax_terms(terms: Any, op: Any, x: int) -> int:
    x = terms.step_of("SUB", x, terms.step_of("ROW_MAXIMUM", x))
    return terms.step_of("SUB", x, terms.step_of("LOG", terms.step_of("ROW_SUM", terms.step_of("EXP", x))))


rules.pointwise.over_rows |= {softmax_op, log_softmax_op}


def _sum_last(x: Any) -> Any:
    return get("Sum")(x, np.int32(-1), keep_dims=True)


@softmax_op.gradient
def _softmax_gradient(op, grad):
    y = op.outputs[0]
    return (grad - _sum_last(grad * y)) * y


@log_softmax_op.gradient
def _log_softmax_gradient(op, grad):
    return grad - _sum_last(grad) * get("Exp")(op.outputs[0])


def _over_axis(compute: OpDef, logits: Any, axis: Any, name: str | None) -> Tensor:
    """`compute` (which works on the last axis) along any axis."""
    logits = convert(logits, name="logits")
    rank = logits.shape.rank
    value = static(axis) if isinstance(axis, Tensor) else axis
    if value is not None:
        value = int(value)
        if value == -1 or rank is not None and value == rank - 1:
            return compute(logits, name=name)
        if rank is not None and not -rank <= value < rank:
            raise errors.invalid(f"Dimension ({value}) must be in the range [{-rank}, {rank}) where {rank} is the "
                                 "number of dimensions in the input.")
    perm = _swapped_with_last(logits, rank, axis if value is None else value)
    transpose = get("Transpose")
    out = transpose(compute(transpose(logits, perm)), perm, name=name)
    if not hasattr(out, "_value"):
        out.set_shape(logits.shape)
    return out


def _swapped_with_last(x: Tensor, rank: int | None, axis: Any) -> Any:
    """The permutation that swaps `axis` and the last one."""
    if rank is not None and isinstance(axis, int):
        perm = list(range(rank))
        perm[axis % rank], perm[-1] = rank - 1, axis % rank
        return np.array(perm, np.int32)
    n = get("Rank")(x) if rank is None else np.int32(rank)
    swap = get("SelectV2")
    last, axis = n - 1, swap(get("Less")(axis, 0), n + axis, axis)
    axes = get("Range")(0, n, 1)
    return swap(get("Equal")(axes, axis), last, swap(get("Equal")(axes, last), axis, axes))


@export(v1=["nn.softmax", "math.softmax"])
@dispatched
def softmax(logits: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """exp(logits) / sum(exp(logits), axis).

    Args:
        logits: Tensor of floating-point numbers.
        axis: Axis whose values sum to 1, by default the last one.
        name: Name of the operation.
        dim: Old name of `axis`.

    Returns:
        A tensor of the type and shape of `logits`.

    >>> tf.nn.softmax([[0., 0.]]).numpy()
    array([[0.5, 0.5]], dtype=float32)
    """
    axis = renamed("axis", axis, "dim", dim)
    return _over_axis(softmax_op, logits, -1 if axis is None else axis, name)


@export(v2=["nn.softmax", "math.softmax"])
@dispatched
def softmax_v2(logits: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """exp(logits) / sum(exp(logits), axis).

    Args:
        logits: Tensor of floating point numbers.
        axis: The axis of classes, by default the last.
        name: Name of the operation.

    Returns:
        Tensor of the same shape, whose elements along the axis sum to 1.

    Raises:
        InvalidArgumentError: for an axis outside the rank.

    >>> tf.nn.softmax([[0., 0.]]).numpy().tolist()
    [[0.5, 0.5]]
    """
    return _over_axis(softmax_op, logits, -1 if axis is None else axis, name)


@export(v1=["nn.log_softmax", "math.log_softmax"])
@dispatched
def log_softmax(logits: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """logits - log(sum(exp(logits), axis)).

    Args:
        logits: Tensor.
        axis: Axis of the classes; the last one by default.
        name: Name of the operation.
        dim: Old name of `axis`.

    Returns:
        A tensor of the shape of `logits`.

    >>> tf.nn.log_softmax([[0., 0.]]).numpy()
    array([[-0.6931472, -0.6931472]], dtype=float32)
    """
    axis = renamed("axis", axis, "dim", dim)
    return _over_axis(log_softmax_op, logits, -1 if axis is None else axis, name)


@export(v2=["nn.log_softmax", "math.log_softmax"])
@dispatched
def log_softmax_v2(logits: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """logits - log(sum(exp(logits), axis)).

    Args:
        logits: Tensor of floating point numbers.
        axis: The axis of classes, by default the last.
        name: Name of the operation.

    Returns:
        The logarithm of the softmax.

    Raises:
        InvalidArgumentError: for an axis outside the rank.

    >>> round(float(tf.nn.log_softmax([[0., 0.]])[0, 0]), 3)
    -0.693
    """
    return _over_axis(log_softmax_op, logits, -1 if axis is None else axis, name)


# -- cross entropy with a distribution -------------------------------------------------------------------------------
xent = op("SoftmaxCrossEntropyWithLogits", "features: T, labels: T -> loss: T, backprop: T", _FLOAT)
rules.batching.first[xent] = (0, 1)


@xent.shape
def _xent_shape(features, labels):
    both = shapes.broadcast(features, labels)
    if both is not None and len(both) != 2:
        raise ValueError(f"Shape must be broadcasted with rank 2, but is rank {len(both)}: {shapes.show(both)}")
    return [(None,), (None, None)] if both is None else [both[:1], both]


@xent.kernel
def _xent_kernel(features, labels):
    try:
        features, labels = torch.broadcast_tensors(features, labels)
    except RuntimeError:
        raise errors.invalid(f"logits and labels must be broadcastable: logits_size={list(features.shape)} "
                             f"labels_size={list(labels.shape)}") from None
    if features.ndim != 2:
        raise errors.invalid("logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional")
    log_p = pointwise.log_softmax(features)
    return (labels * log_p).sum(1).neg_(), log_p.exp_().sub_(labels)


@xent.gradient
def _xent_gradient(op, grad_loss, grad_grad):
    logits, labels = op.inputs
    to_labels = _per_row(grad_loss) * -log_softmax_op(logits)
    if not _is_zero(grad_grad):
        to_labels = to_labels - grad_grad
    to_logits = _to_logits(op, grad_loss, grad_grad)
    if not shapes.compatible(logits.static_dims, labels.static_dims):
        return unbroadcast(to_logits, logits, labels), unbroadcast(to_labels, labels, logits)
    return to_logits, to_labels


def _per_row(vector: Any) -> Any:
    return get("ExpandDims")(vector, np.int32(-1))


def _to_logits(op: Any, grad_loss: Any, grad_grad: Any) -> Any:
    """The gradient of the logits from the loss and (second order) from `backprop`, which is softmax(logits) - labels."""
    first = _per_row(grad_loss) * op.outputs[1]
    if _is_zero(grad_grad):
        return first
    p = softmax_op(op.inputs[0])
    dot = get("BatchMatMulV2")(get("ExpandDims")(grad_grad, np.int32(1)), get("ExpandDims")(p, np.int32(2)))
    return first + (grad_grad - get("Squeeze")(dot, squeeze_dims=[1])) * p


def _is_zero(x: Any) -> bool:
    """Whether a gradient is known to be all zeros, because its output is unused."""
    if x is None:
        return True
    if hasattr(x, "_value"):
        return getattr(x, "_is_zeros", False)
    if x.op.type == "ZerosLike":
        return True
    value = static(x)
    return value is not None and not value.any()


# -- cross entropy with class numbers --------------------------------------------------------------------------------
sparse_xent = op("SparseSoftmaxCrossEntropyWithLogits", "features: T, labels: Tlabels -> loss: T, backprop: T",
                 _FLOAT + ", Tlabels: type in {index} = int64")
rules.batching.first[sparse_xent] = (0, 1)


@sparse_xent.shape
def _sparse_xent_shape(features, labels):
    first, classes = shapes.rank_is(features, 2)
    rows = shapes.merge((first,), shapes.rank_is(labels, 1))
    return [rows, (*rows, classes)]


@sparse_xent.kernel
def _sparse_xent_kernel(features, labels):
    if features.ndim != 2:
        raise errors.invalid(f"logits must be 2-D, but got shape {list(features.shape)}")
    if labels.ndim != 1:
        raise errors.invalid(f"labels must be 1-D, but got shape {list(labels.shape)}")
    if labels.shape[0] != features.shape[0]:
        raise errors.invalid(f"logits and labels must have the same first dimension, got logits shape "
                             f"{list(features.shape)} and labels shape {list(labels.shape)}")
    labels = labels.to(torch.int64)
    log_p = pointwise.log_softmax(features)
    if not labels.numel():
        return features.new_zeros(0), log_p
    if not features.shape[1]:
        raise errors.invalid("Must have at least one class")
    if not labels.is_cpu:
        return _loss_without_waiting(log_p, labels)
    index = labels.unsqueeze(1)
    try:
        loss = log_p.gather(1, index).squeeze(1).neg_()          # reads the labels
    except (IndexError, RuntimeError):
        raise _wrong_label(labels, features.shape[1]) from None
    return loss, log_p.exp_().scatter_(1, index, -1.0, reduce="add")


def _over_logits(features: torch.Tensor, labels: torch.Tensor) -> tuple:
    """The same, written over the logits: with many classes no other values of a step are as large."""
    if features.is_cpu or features.ndim != 2 or labels.ndim != 1 or labels.shape[0] != features.shape[0] or \
            not features.numel() or not features.is_contiguous():
        return _sparse_xent_kernel(features, labels)
    return _loss_without_waiting(torch.ops.aten._log_softmax.out(features, 1, False, out=features), labels.to(torch.int64))


rules.program.overwrites(sparse_xent, 0, _over_logits)


def _loss_without_waiting(log_p: torch.Tensor, labels: torch.Tensor) -> tuple:
    """On an accelerator, which must not wait, a label out of range yields NaN."""
    wrong = (labels < 0) | (labels >= log_p.shape[1])
    index = labels.masked_fill(wrong, 0).unsqueeze(1)
    loss = log_p.gather(1, index).squeeze(1).neg_()
    if tracing.lowering():                                       # a comparison can be fused
        backprop = log_p.exp() - (torch.arange(log_p.shape[1], device=log_p.device) == index).to(log_p.dtype)
    else:
        backprop = log_p.exp_().scatter_(1, index, -1.0, reduce="add")
    return loss.masked_fill_(wrong, math.nan), backprop.masked_fill_(wrong.unsqueeze(1), math.nan)


def _wrong_label(labels: torch.Tensor, classes: int) -> Exception:
    """The error for the first extreme that is out of range."""
    low, high = (t.item() for t in torch.aminmax(labels))
    return errors.invalid(f"Received a label value of {low if low < 0 else high} which is outside the valid range of "
                          f"[0, {classes}).  Label values: {' '.join(str(v) for v in labels[:64].tolist())}")


@sparse_xent.gradient
def _sparse_xent_gradient(op, grad_loss, grad_grad):
    return _to_logits(op, grad_loss, grad_grad), None


# -- on GPUs, as ops that are joined with others (step/optimize/on_device.py) ------------------------------------------
_MOST_CLASSES = 1 << 24              # numbers that are exact in single precision


class _Parts(Parts):
    """Writes a cross entropy as elementwise ops and reductions of rows.

    The gradient converts the logits again, so that only they and two numbers per row are kept for it, not an array of single
    precision.
    """

    def __init__(self, op: Any, f: Any):
        super().__init__(op, f)
        self.dims = tuple(op.inputs[0].static_dims)
        self.rows = (self.dims[0], 1)
        logits = self._before_cast(f.source(op.inputs[0]))
        one, two = self.cast(logits), self.cast(logits)
        largest = self.reduced("Max", one)
        self.scores = self.each("Sub", one, largest)
        self.log_sum = self.each("Log", self.reduced("Sum", self.each("Exp", self.scores)))
        self.p = self.each("Exp", self.each("Sub", self.each("Sub", two, largest), self.log_sum))

    def _before_cast(self, t: Any) -> Any:
        """Logits before they were converted to single precision, in the shape of the op."""
        shape, made = None, self.f.maker(t, self.op)
        if made is not None and made.opdef in rules.arithmetic.takes_shape:
            shape, made = made.inputs[1], self.f.maker(made.inputs[0], self.op)
        if made is None or made.opdef is not get("Cast") or made.inputs[0].dtype not in (dtypes.bfloat16, dtypes.float16):
            return t
        source = self.f.source(made.inputs[0])
        return source if shape is None else self.make("Reshape", [source, shape], self.dims, source.dtype, T=source.dtype)

    def reduced(self, name: str, x: Any) -> Any:
        """One number per row."""
        axis = self.constant(np.array([-1], np.int32))
        return self.make(name, [x, axis], self.rows, T=dtypes.float32, Tidx=dtypes.int32, keep_dims=True)

    def results(self, loss: Any, backprop: Any) -> list:
        """In the types and shapes of the op."""
        loss = self.reshaped(loss, self.dims[:1])
        return [self.cast(t, out.dtype) for t, out in zip((loss, backprop), self.op.outputs, strict=True)]


def _is_apart(op: Any, f: Any) -> bool:
    dims = op.inputs[0].static_dims
    return not f.on_host(op) and dims is not None and len(dims) == 2 and None not in dims and dims[0] > 1 and \
        1 < dims[1] <= _MOST_CLASSES and op.attrs["T"] != dtypes.float64


@rules.fusion.fuse(xent)
def _xent_apart(op, f):
    labels = f.source(op.inputs[1])
    if not _is_apart(op, f) or labels.static_dims != op.inputs[0].static_dims:
        return None
    parts = _Parts(op, f)
    labels = parts.cast(labels)
    loss = parts.reduced("Sum", parts.each("Mul", labels, parts.each("Sub", parts.log_sum, parts.scores)))
    return parts.results(loss, parts.each("Sub", parts.p, labels))


@rules.fusion.fuse(sparse_xent)
def _sparse_xent_apart(op, f):
    """A label out of range yields NaN."""
    labels = f.source(op.inputs[1])
    if not _is_apart(op, f) or labels.static_dims != op.inputs[0].static_dims[:1]:
        return None
    parts = _Parts(op, f)
    column = parts.make("Reshape", [labels, parts.constant(np.array(parts.rows, np.int32))], parts.rows, labels.dtype,
                        T=labels.dtype)
    label = parts.make("Cast", [column], parts.rows, SrcT=labels.dtype, DstT=dtypes.float32)
    places = parts.constant(np.arange(parts.dims[1], dtype=np.float32))

    def is_label() -> Any:                               # twice, so that it is not stored
        return parts.each("Equal", places, label, dtype=dtypes.bool)
    zero, one, nan = (parts.constant(np.float32(v)) for v in (0.0, 1.0, math.nan))
    wrong = parts.each("LogicalOr", parts.each("Less", label, zero, dtype=dtypes.bool), parts.each(
        "GreaterEqual", label, parts.constant(np.float32(parts.dims[1])), dtype=dtypes.bool), dtype=dtypes.bool)
    loss = parts.each("Sub", parts.log_sum, parts.reduced("Sum", parts.each("SelectV2", is_label(), parts.scores, zero)))
    backprop = parts.each("SelectV2", is_label(), parts.each("Sub", parts.p, one), parts.p)
    return parts.results(parts.each("SelectV2", wrong, nan, loss), parts.each("SelectV2", wrong, nan, backprop))


# -- public functions ------------------------------------------------------------------------------------------------
def _precise(logits: Tensor, half_types: tuple) -> Tensor:
    """Logits in float32 if they are of a type too short to sum exponentials in."""
    return cast(logits, dtypes.float32) if logits.dtype.base_dtype in half_types else logits


def _rows(x: Tensor) -> Tensor:
    """Merges all axes except the last."""
    dims = x.static_dims
    if dims is not None and len(dims) == 2:
        return x
    if dims is not None and dims and dims[-1]:
        return get("Reshape")(x, np.array([-1, dims[-1]], np.int32))
    if known(dims) and dims:
        return get("Reshape")(x, np.array([shapes.num_elements(dims[:-1]), dims[-1]], np.int32))
    return get("Reshape")(x, get("ConcatV2")([[-1], get("Shape")(x)[-1:]], 0))


def _axis_to_end(x: Tensor, axis: int) -> Tensor:
    rank = x.shape.rank
    if rank is not None:
        axes = [a for a in range(rank) if a != axis % rank]
        return get("Transpose")(x, np.array([*axes, axis % rank], np.int32))
    n = get("Rank")(x)
    at = axis if axis >= 0 else n + axis
    between = get("Range")
    return get("Transpose")(x, get("ConcatV2")([between(0, at, 1), between(at + 1, n, 1), get("Pack")([at])], 0))


def _cross_entropy(labels: Any, logits: Any, axis: int, name: str | None) -> Tensor:
    with name_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]) as scope:
        logits = convert(logits, name="logits")
        labels = convert(labels, name="labels")
        precise = _precise(logits, (dtypes.float16, dtypes.bfloat16))
        labels = cast(labels, precise.dtype.base_dtype)
        rank = precise.shape.rank
        if axis != -1 and axis != (rank or 0) - 1:
            precise, labels = _axis_to_end(precise, axis), _axis_to_end(labels, axis)
        cost = xent(_rows(precise), _rows(labels), name=scope).loss
        if rank != 2:
            dims = precise.static_dims
            shape = np.array(dims[:-1], np.int32) if dims is not None and known(dims[:-1]) else shape_of(precise)[:-1]
            cost = get("Reshape")(cost, shape)
        if logits.static_dims is not None and not hasattr(cost, "_value"):
            rest = list(logits.static_dims)
            del rest[axis]
            cost.set_shape(rest)
        return cast(cost, logits.dtype.base_dtype)


@export(v2=["nn.softmax_cross_entropy_with_logits"])
@dispatched
def softmax_cross_entropy_with_logits_v2(labels: Any, logits: Any, axis: int = -1, name: str | None = None) -> Tensor:
    """Cross entropy between distributions `labels` and softmax(logits), along `axis`.

    Args:
        labels: Distributions, of the shape of `logits`.
        logits: Scores before the softmax.
        axis: Dimension of the classes.
        name: Name of the operation.

    Returns:
        Losses: the shape of `logits` without `axis`.

    >>> tf.nn.softmax_cross_entropy_with_logits(labels=[[0., 1.]], logits=[[0., 2.]]).numpy().round(3).tolist()
    [0.127]
    """
    return _cross_entropy(labels, logits, axis, name)


@export(v1=["nn.softmax_cross_entropy_with_logits_v2"])
@dispatched
def softmax_cross_entropy_with_logits_v2_helper(labels: Any, logits: Any, axis: int | None = None,
                                                name: str | None = None, dim: int | None = None) -> Tensor:
    """Cross entropy between distributions `labels` and softmax(logits), along `axis`; gradients flow into both.

    Args:
        labels: Probabilities of the classes, which sum to 1 along `axis`.
        logits: Unnormalized log-probabilities.
        axis: Axis of the classes, by default the last one.
        name: Name of the operation.
        dim: Old name of `axis`.

    Returns:
        A tensor without `axis`: one loss per example.

    >>> tf.nn.softmax_cross_entropy_with_logits_v2(labels=[[0., 1.]], logits=[[0., 0.]]).numpy()
    array([0.6931472], dtype=float32)
    """
    axis = renamed("axis", axis, "dim", dim)
    return _cross_entropy(labels, logits, -1 if axis is None else axis, name)


@export(v1=["nn.softmax_cross_entropy_with_logits"])
@dispatched
def softmax_cross_entropy_with_logits(_sentinel: Any = None, labels: Any = None, logits: Any = None, dim: int = -1,
                                      name: str | None = None, axis: int | None = None) -> Tensor:
    """Cross entropy between distributions `labels` and softmax(logits); gradients flow into the logits alone.

    Args:
        _sentinel: Unused. It forces the arguments to be given by keyword.
        labels: Probabilities of the classes, which sum to 1 along `axis`.
        logits: Unnormalized log-probabilities.
        dim: Old name of `axis`.
        name: Name of the operation.
        axis: Axis of the classes.

    Returns:
        A tensor without `axis`: one loss per example.

    Raises:
        ValueError: if arguments are not given by keyword.

    >>> tf.nn.softmax_cross_entropy_with_logits(labels=[[0., 1.]], logits=[[0., 0.]]).numpy()
    array([0.6931472], dtype=float32)
    """
    named_only("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    if axis is not None:
        dim = axis
    with name_scope(name, "softmax_cross_entropy_with_logits_sg", [logits, labels]) as scope:
        labels = get("StopGradient")(labels, name="labels_stop_gradient")
    return _cross_entropy(labels, logits, dim, scope)


@export(v1=["nn.sparse_softmax_cross_entropy_with_logits"])
@dispatched
def sparse_softmax_cross_entropy_with_logits(_sentinel: Any = None, labels: Any = None, logits: Any = None,
                                             name: str | None = None) -> Tensor:
    """Cross entropy of softmax(logits) when `labels` holds the number of the true class.

    Args:
        _sentinel: Unused. It forces the arguments to be given by keyword.
        labels: Class numbers in [0, classes), of the shape of `logits` without the last axis.
        logits: Unnormalized log-probabilities.
        name: Name of the operation.

    Returns:
        A tensor of the shape of `labels`. On a CPU a label out of range raises; on a GPU its loss is NaN.

    Raises:
        ValueError: if arguments are not given by keyword or the ranks do not fit.

    >>> tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1], logits=[[0., 0.]]).numpy()
    array([0.6931472], dtype=float32)
    """
    named_only("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    with name_scope(name, "SparseSoftmaxCrossEntropyWithLogits", [labels, logits]):
        labels, logits = convert(labels), convert(logits)
        static_rows = _check_sparse_shapes(labels, logits)
        precise = _precise(logits, (dtypes.float16,))
        if logits.shape.rank == 2:
            return cast(sparse_xent(precise, labels, name=name).loss, logits.dtype.base_dtype)
        flat = get("Reshape")(labels, np.array([-1], np.int32))
        cost = sparse_xent(_rows(precise), flat, name=name).loss
        cost = get("Reshape")(cost, shape_of(labels) if static_rows else shape_of(precise)[:-1])
        if not hasattr(cost, "_value"):
            cost.set_shape(labels.shape)
        return cast(cost, logits.dtype.base_dtype)


def _check_sparse_shapes(labels: Tensor, logits: Tensor) -> bool:
    """Whether the shapes of both are known (and then they agree); ValueError if they cannot."""
    rank = logits.shape.rank
    if rank == 0:
        raise ValueError(f"`logits` cannot be a scalar. Received logits={logits} with shape={logits.shape}")
    if rank is not None and labels.shape.rank not in (None, rank - 1):
        raise ValueError(f"`labels.shape.rank` must equal `logits.shape.rank - 1`. Received: labels.shape={labels.shape} "
                         f"of rank {labels.shape.rank} and logits.shape={logits.shape} of rank {rank}")
    both = known(labels.static_dims) and rank is not None and known(logits.static_dims[:-1])
    if both and labels.static_dims != logits.static_dims[:-1]:
        raise ValueError(f"`labels.shape` must equal `logits.shape` except for the last dimension. Received: labels.shape="
                         f"{labels.shape} and logits.shape={logits.shape}")
    return both


@export(v2=["nn.sparse_softmax_cross_entropy_with_logits"])
@dispatched
def sparse_softmax_cross_entropy_with_logits_v2(labels: Any, logits: Any, name: str | None = None) -> Tensor:
    """Cross entropy of softmax(logits) when `labels` holds the number of the true class.

    Args:
        labels: Numbers of the classes: integers of the shape of `logits` without the last dimension.
        logits: Scores before the softmax, with a class for each column.
        name: Name of the operation.

    Returns:
        Losses of the shape of `labels`.

    >>> tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1], logits=[[0., 2.]]).numpy().round(3).tolist()
    [0.127]
    """
    return sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


# -- logistic and Poisson losses -------------------------------------------------------------------------------------
def _same_shapes(a: Tensor, b: Tensor, names: str) -> None:
    if not shapes.compatible(a.static_dims, b.static_dims):
        raise ValueError(f"{names} must have the same shape ({a.shape} vs {b.shape})")


@export(v1=["nn.sigmoid_cross_entropy_with_logits"])
@dispatched
def sigmoid_cross_entropy_with_logits(_sentinel: Any = None, labels: Any = None, logits: Any = None,
                                      name: str | None = None) -> Tensor:
    """Cross entropy of sigmoid(logits) with `labels` in [0, 1], elementwise: max(x, 0) - x z + log(1 + exp(-|x|)).

    Args:
        _sentinel: Unused. It forces the arguments to be given by keyword.
        labels: Probabilities, of the type and shape of `logits`.
        logits: Unnormalized log-probabilities.
        name: Name of the operation.

    Returns:
        A tensor of the shape of `logits`.

    Raises:
        ValueError: if the shapes differ.

    >>> tf.nn.sigmoid_cross_entropy_with_logits(labels=[1., 0.], logits=[0., 0.]).numpy()
    array([0.6931472, 0.6931472], dtype=float32)
    """
    named_only("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        logits = convert(logits, name="logits")
        labels = convert(labels, name="labels")
        _same_shapes(logits, labels, "logits and labels")
        zeros = get("ZerosLike")(logits)
        positive = get("GreaterEqual")(logits, zeros)
        select = get("Select")
        tail = get("Log1p")(get("Exp")(select(positive, -logits, logits)))
        return get("AddV2")(select(positive, logits, zeros) - logits * labels, tail, name=scope)


@export(v2=["nn.sigmoid_cross_entropy_with_logits"])
@dispatched
def sigmoid_cross_entropy_with_logits_v2(labels: Any = None, logits: Any = None, name: str | None = None) -> Tensor:
    """Cross entropy of sigmoid(logits) with `labels` in [0, 1], elementwise.

    Args:
        labels: Probabilities, of the shape and type of `logits`.
        logits: Scores before the sigmoid.
        name: Name of the operation.

    Returns:
        Losses of the shape of `logits`.

    >>> tf.nn.sigmoid_cross_entropy_with_logits(labels=[1., 0.], logits=[2., 2.]).numpy().round(3).tolist()
    [0.127, 2.127]
    """
    return sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


@export(v2=["nn.weighted_cross_entropy_with_logits"])
@dispatched
def weighted_cross_entropy_with_logits_v2(labels: Any, logits: Any, pos_weight: Any, name: str | None = None) -> Tensor:
    """The logistic loss with errors on positive labels counted `pos_weight` times.

    Args:
        labels: Probabilities, of the shape and type of `logits`.
        logits: Scores before the sigmoid.
        pos_weight: Weight of positive labels: above 1 for fewer misses, below for fewer false alarms.
        name: Name of the operation.

    Returns:
        Losses of the shape of `logits`.

    >>> tf.nn.weighted_cross_entropy_with_logits([1., 0.], [2., 2.], pos_weight=3.0).numpy().round(3).tolist()
    [0.381, 2.127]
    """
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        logits = convert(logits, name="logits")
        labels = convert(labels, name="labels")
        _same_shapes(logits, labels, "logits and labels")
        weight = 1 + (pos_weight - 1) * labels
        tail = get("Log1p")(get("Exp")(-get("Abs")(logits))) + get("Relu")(-logits)
        return get("AddV2")((1 - labels) * logits, weight * tail, name=scope)


@export(v1=["nn.weighted_cross_entropy_with_logits"])
@dispatched
def weighted_cross_entropy_with_logits(labels: Any = None, logits: Any = None, pos_weight: Any = None,
                                       name: str | None = None, targets: Any = None) -> Tensor:
    """The logistic loss with errors on positive labels counted `pos_weight` times.

    Args:
        labels: Probabilities of the classes.
        logits: Tensor of the same type and shape.
        pos_weight: Factor of the loss of positive labels.
        name: Name of the operation.
        targets: Old name of `labels`.

    Returns:
        The loss of each element.

    >>> tf.nn.weighted_cross_entropy_with_logits(labels=[1., 0.], logits=[0., 0.], pos_weight=2.).numpy()
    array([1.3862944, 0.6931472], dtype=float32)
    """
    labels = renamed("labels", labels, "targets", targets)
    return weighted_cross_entropy_with_logits_v2(labels, logits, pos_weight, name)


@export("nn.log_poisson_loss")
@dispatched
def log_poisson_loss(targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None) -> Tensor:
    """exp(log_input) - log_input * targets, with Stirling's approximation of log(targets!) if requested."""
    with name_scope(name, "log_poisson_loss", [log_input, targets]):
        log_input = convert(log_input, name="log_input")
        targets = convert(targets, name="targets")
        _same_shapes(log_input, targets, "log_input and targets")
        loss = get("Exp")(log_input) - log_input * targets
        if not compute_full_loss:
            return loss
        log = get("Log")
        stirling = targets * log(targets) - targets + 0.5 * log(2 * math.pi * targets)
        small = get("LogicalAnd")(get("GreaterEqual")(targets, 0.0), get("LessEqual")(targets, 1.0))
        return loss + get("Select")(small, get("ZerosLike")(targets), stirling)


l2_loss = op("L2Loss", "t: T -> output: T", _FLOAT, export_as="nn.l2_loss", doc="""\
Half the sum of squares of all elements.

Args:
    t: Tensor of floating-point numbers.
    name: Name of the operation.

Returns:
    A scalar.

>>> tf.nn.l2_loss([3., 4.]).numpy()
np.float32(12.5)
""")


@rules.batching.rule(l2_loss)
def _l2_loss_batching(op, rows, t):
    rank = rows.rank(t)
    if rank is None:
        return None
    return [get("Sum")(get("Square")(t.tensor), np.arange(1, rank + 1, dtype=np.int32)) / 2]

l2_loss.shape(lambda t: ())


@rules.regions.lower(l2_loss)
def _l2_loss_in_region(op, r):
    squares = r.terms(r.view(op.inputs[0]).dims, [r.view(op.inputs[0])], lambda terms, x: terms.step_of("SQUARE", x))
    return [r.reshaped(r.reduced(r.reshaped(squares, [r.count(squares)]), [0], scale=0.5), ())]


l2_loss.gradient(lambda op, grad: op.inputs[0] * grad)


@l2_loss.kernel
def _l2_loss_kernel(t):
    return torch.dot(t.reshape(-1), t.reshape(-1)) / 2 if t.dtype in (torch.float32, torch.float64) \
        else (t.float().square().sum() / 2).to(t.dtype)
