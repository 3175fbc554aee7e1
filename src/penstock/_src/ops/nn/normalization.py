"""Normalization: batch norm (fused ops and compositions), local response norm, moments, unit vectors.

The fused ops follow TensorFlow's CPU convention on every device: in training, `reserve_space_1` and `reserve_space_2` hold
the mean and the biased variance of the batch, while `batch_variance` has Bessel's correction (it feeds the moving
average).
"""
from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.graph.tape import Tape
from penstock._src.kernels import images
from penstock._src.ops import rules
from penstock._src.ops.arguments import renamed
from penstock._src.ops.composite import dispatched
from penstock._src.ops.linalg.linalg_functions import norm_v2
from penstock._src.ops.math.cast import cast
from penstock._src.ops.math.reduction import reduce_sum
from penstock._src.ops.nn import batch_norm_parts, conv, windows
from penstock._src.ops.nn.windows import channels_first, from_channels_first, to_channels_first
from penstock._src.ops.registry import OpDef, get, internal, op

aten = torch.ops.aten

# -- fused batch norm ------------------------------------------------------------------------------------------------
_ATTRS = "epsilon: float = 0.0001, data_format: string in {NHWC NCHW} = 'NHWC', is_training: bool = True"
_ATTRS_3 = _ATTRS.replace("NHWC NCHW}", "NHWC NCHW NDHWC NCDHW}")
_MIXED = "T: type in {half bfloat16 float32}, U: type in {float32}, "
_ARGS = ("x: T, scale: U, offset: U, mean: U, variance: U -> "
         "y: T, batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U")
_GRAD_IN = "y_backprop: T, x: T, scale: float32, reserve_space_1: U, reserve_space_2: U"
_GRAD_OUT = "x_backprop: T, scale_backprop: U, offset_backprop: U"

batch_norm_v1 = op("FusedBatchNorm", _ARGS.replace(": U", ": T"), "T: type in {float32}, " + _ATTRS)
batch_norm_v2 = op("FusedBatchNormV2", _ARGS, _MIXED + _ATTRS)
_FACTOR = ", exponential_avg_factor: float = None"          # of TensorFlow 2: not written unless it was given
batch_norm_v3 = op("FusedBatchNormV3", _ARGS + ", reserve_space_3: U", _MIXED + _ATTRS_3 + _FACTOR)
batch_norm_grad_v1 = op(
    "FusedBatchNormGrad", f"{_GRAD_IN} -> {_GRAD_OUT}, reserve_space_3: U, reserve_space_4: U"
    .replace(": U", ": T").replace("float32", "T"), "T: type in {float32}, " + _ATTRS)
batch_norm_grad_v2 = op("FusedBatchNormGradV2", f"{_GRAD_IN} -> {_GRAD_OUT}, reserve_space_3: U, reserve_space_4: U",
                        _MIXED + _ATTRS)
batch_norm_grad_v3 = op("FusedBatchNormGradV3",
                        f"{_GRAD_IN}, reserve_space_3: U -> {_GRAD_OUT}, reserve_space_4: U, reserve_space_5: U",
                        _MIXED + _ATTRS_3)


def _vectors_shape(x: Any, data_format: str, vectors: tuple) -> tuple:
    """The shapes of x and of its channels, each refined by the other."""
    x = shapes.rank_is(x, len(data_format))
    axis = windows.channel_axis(data_format)
    channels = x[axis:axis + 1]
    for v in vectors:
        channels = shapes.merge(channels, shapes.rank_is(v, 1))
    return (*x[:axis], *channels, *x[axis + 1:]), channels


def _batch_norm_shape(x, scale, offset, mean, variance, *, data_format, is_training):
    used = (scale, offset) if is_training else (scale, offset, mean, variance)
    x, channels = _vectors_shape(x, data_format, used)
    return [x, channels, channels, channels, channels]


def _batch_norm_grad_shape(y_backprop, x, scale, reserve_space_1, reserve_space_2, *rest, data_format):
    x, channels = _vectors_shape(shapes.merge(x, y_backprop), data_format, (scale, reserve_space_1, reserve_space_2))
    return [x, channels, channels, (0,), (0,)]


def _check_vectors(channels: int, **vectors: torch.Tensor) -> None:
    for name, v in vectors.items():
        if v.ndim != 1 or v.shape[0] != channels:
            raise errors.invalid(f"{name} must have the same number of elements as the channels of x, got "
                                 f"{list(v.shape)} and {channels}")


def _batch_norm(x, scale, offset, mean, variance, *, epsilon, data_format, is_training, relu=False):
    if relu and not (is_training and x.numel() and images.normalizes(x, scale)):
        out = _batch_norm(x, scale, offset, mean, variance, epsilon=epsilon, data_format=data_format, is_training=is_training)
        return out[0].relu(), *out[1:]
    if x.ndim != len(data_format):
        raise errors.invalid(f"input must be {len(data_format)}-dimensional, got {list(x.shape)}")
    planes = to_channels_first(x, data_format)
    channels = planes.shape[1]
    _check_vectors(channels, scale=scale, offset=offset)
    if not is_training:
        _check_vectors(channels, mean=mean, variance=variance)
        y = _normalized(planes, scale, offset, mean, variance, epsilon)
        return from_channels_first(y, data_format), mean, variance, mean, variance
    if not x.numel():
        nan = scale.new_full((channels,), math.nan)
        return x, nan, nan, nan, nan
    count = planes.numel() // channels
    if tracing.lowering():
        y, mean, variance = _composed(planes, scale, offset, epsilon)
        return from_channels_first(y, data_format), mean, variance * (count / max(1, count - 1)), mean, variance
    if data_format[1] != "C" and images.normalizes(x, scale):
        y, mean, variance = images.batch_norm(x, scale, offset, epsilon, relu)
        return y, mean, variance * (count / max(1, count - 1)), mean, variance
    if x.is_cpu and x.dtype is scale.dtype and count > 1:        # no averaging: this batch replaces the statistics
        mean, unbiased = scale.new_zeros((2, channels)).unbind()
        y = aten.native_batch_norm(planes, scale, offset, mean, unbiased, True, 1.0, epsilon)[0]
        return from_channels_first(y, data_format), mean, unbiased, mean, unbiased * ((count - 1) / count)
    mean, variance = aten.batch_norm_update_stats(planes if x.is_cuda else planes.float(), None, None, 0.0)   # sums are wide
    y = _normalized(planes, scale, offset, mean, variance, epsilon)
    return from_channels_first(y, data_format), mean, variance * (count / max(1, count - 1)), mean, variance


def _composed(x: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor, epsilon: float) -> tuple:
    """Batch norm as separate ops, which a compiler can fuse with neighbouring ops: result, mean and variance."""
    wide, shape = x.to(scale.dtype), (1, -1, *[1] * (x.ndim - 2))
    variance, mean = torch.var_mean(wide, [0, *range(2, x.ndim)], correction=0)
    factor = (variance + epsilon).rsqrt() * scale
    return ((wide - mean.view(shape)) * factor.view(shape) + offset.view(shape)).to(x.dtype), mean, variance


def _normalized(x: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor,
                epsilon: float) -> torch.Tensor:
    if not x.numel():
        return x
    return aten.native_batch_norm(x, scale, offset, mean, variance, False, 0.0, epsilon)[0]


def _batch_norm_grad(y_backprop, x, scale, reserve_space_1, reserve_space_2, *rest, epsilon, data_format, is_training,
                     after=None):
    if x.ndim != len(data_format) or y_backprop.shape != x.shape:
        raise errors.invalid(f"x and y_backprop must be {len(data_format)}-dimensional and of one shape, got "
                             f"{list(x.shape)} and {list(y_backprop.shape)}")
    planes, grad = to_channels_first(x, data_format), to_channels_first(y_backprop, data_format)
    mean, variance = reserve_space_1, reserve_space_2
    _check_vectors(planes.shape[1], scale=scale, mean=mean, variance=variance)
    nothing = scale.new_zeros(0)
    if not x.numel():
        zeros = torch.zeros_like(scale)
        return x, zeros, zeros, nothing, nothing
    if is_training and data_format[1] != "C" and y_backprop.dtype is x.dtype and not tracing.lowering() and \
            images.normalizes(x, scale):
        return *images.batch_norm_grad(y_backprop, x, scale, mean, variance, epsilon, after), nothing, nothing
    if after is not None:
        grad = aten.threshold_backward(grad, to_channels_first(after, data_format), 0)
    deviation = (variance + epsilon).rsqrt_()
    out = aten.native_batch_norm_backward(grad, planes, scale, mean, variance, mean, deviation, is_training, epsilon,
                                          (True, True, True))
    return from_channels_first(out[0], data_format), out[1], out[2], nothing, nothing


batch_norm_v1.shape(_batch_norm_shape)
batch_norm_v1.kernel(_batch_norm)
batch_norm_v2.shape(_batch_norm_shape)
batch_norm_v2.kernel(_batch_norm)


@batch_norm_v3.shape
def _batch_norm_v3_shape(x, scale, offset, mean, variance, *, data_format, is_training):
    return [*_batch_norm_shape(x, scale, offset, mean, variance, data_format=data_format, is_training=is_training), (0,)]


def _batch_norm_with_average(x, scale, offset, mean, variance, *, epsilon, data_format, is_training, exponential_avg_factor,
                             relu=False):
    out = _batch_norm(x, scale, offset, mean, variance, epsilon=epsilon, data_format=data_format, is_training=is_training,
                      relu=relu)
    if is_training and exponential_avg_factor not in (None, 1.0):
        _check_vectors(len(scale), mean=mean, variance=variance)
        out = (out[0], mean.lerp(out[1], exponential_avg_factor), variance.lerp(out[2], exponential_avg_factor), *out[3:])
    return (*out, scale.new_zeros(0))


batch_norm_v3.kernel(_batch_norm_with_average)
batch_norm_relu = internal("_FusedBatchNormRelu", _ARGS + ", reserve_space_3: U", _MIXED + _ATTRS_3 + _FACTOR)
batch_norm_relu.kernel(functools.partial(_batch_norm_with_average, relu=True))


def fuse_relu(op: Any, f: Any) -> Tensor | None:
    """Fuses a ReLU into the preceding normalization in training mode on the CPU, if the normalized values have no other
    consumer."""
    x = op.inputs[0]
    made = f.maker(x, op)
    if made is None or made.opdef is not batch_norm_v3 or f.users(x) != [op] or not f.on_host(op) or \
            op.attrs["T"] is not dtypes.float32 or not made.attrs["is_training"] or f.source(x) is not made.outputs[0] or \
            channels_first(made.attrs["data_format"]):
        return None
    both = f.make("_FusedBatchNormRelu", made.inputs, made.attrs, made)
    f.put(both, made)
    return both.outputs[0]


@rules.fusion.fuse(batch_norm_v3)
def _batch_norm_v3_fuse(op, f):
    if op.attrs["is_training"]:
        return batch_norm_parts.forward(op, f) if batch_norm_parts.is_apart(op, f) else None
    return conv.fuse_batch_norm(op, f)


@rules.fusion.simplify(batch_norm_v3)
def _without_bias(op, f):
    """On a GPU, a bias before batch norm in training moves the mean, and nothing else: it is added there alone."""
    made = None if f.on_host(op) or not op.attrs["is_training"] else f.maker(op.inputs[0], op)
    if made is None or made.opdef is not get("BiasAdd") or op.attrs["exponential_avg_factor"] not in (None, 1.0) or \
            made.attrs["data_format"] != ("NCHW" if channels_first(op.attrs["data_format"]) else "NHWC"):
        return None
    biased, (x, bias) = f.source(op.inputs[0]), (f.source(t) for t in made.inputs)
    users = f.takers(biased)
    if users is None or bias.static_dims is None or not all(
            u is op or u.opdef is batch_norm_grad_v3 and u.inputs[1] is biased and u.inputs[3] is op.outputs[3] and
            u.inputs[0] is not biased for u in users):
        return None
    f.give([x], made)
    plain = f.make(op.type, [x, *op.inputs[1:]], op.attrs, op)
    wide = bias
    if bias.dtype != op.outputs[1].dtype:
        cast = f.make("Cast", [bias], {"SrcT": bias.dtype, "DstT": op.outputs[1].dtype}, op,
                      outputs=[f.result(op.outputs[1].dtype, bias.static_dims)])
        wide = f.add(cast)[0]
    moved = f.make("AddV2", [plain.outputs[1], wide], {"T": wide.dtype}, op,
                   outputs=[f.result(wide.dtype, op.outputs[1].static_dims)])
    return [plain.outputs[0], f.add(moved)[0], *plain.outputs[2:]]


for _op in (batch_norm_grad_v1, batch_norm_grad_v2, batch_norm_grad_v3):
    _op.shape(_batch_norm_grad_shape)
    _op.kernel(_batch_norm_grad)


batch_norm_grad_relu = internal("_FusedBatchNormGradRelu", f"{_GRAD_IN}, reserve_space_3: U, after: T -> {_GRAD_OUT}, "
                                "reserve_space_4: U, reserve_space_5: U", _MIXED + _ATTRS_3)


@batch_norm_grad_relu.kernel
def _batch_norm_grad_relu_kernel(y_backprop, x, scale, reserve_space_1, reserve_space_2, reserve_space_3, after, *, epsilon,
                                 data_format, is_training):
    return _batch_norm_grad(y_backprop, x, scale, reserve_space_1, reserve_space_2, epsilon=epsilon, data_format=data_format,
                            is_training=is_training, after=after)


@rules.fusion.fuse(batch_norm_grad_v3)
def _batch_norm_grad_v3_fuse(op, f):
    """Fuses the preceding ReLU gradient on the CPU, if it has no other consumer."""
    if batch_norm_parts.is_apart(op, f):
        return batch_norm_parts.backward(op, f)
    made = f.only(op.inputs[0], op)
    if made is None or made.opdef is not get("ReluGrad") or not f.on_host(op) or op.attrs["T"] is not dtypes.float32 or \
            not op.attrs["is_training"] or channels_first(op.attrs["data_format"]):
        return None
    return f.make("_FusedBatchNormGradRelu", [made.inputs[0], *op.inputs[1:], made.inputs[1]], op.attrs, op)


def _add_batch_norm_gradients(forward: OpDef, backward: OpDef) -> None:
    """First and second derivatives of one version of the op."""
    @forward.gradient
    def _forward_gradient(op, grad_y, *_unused):
        training = op.attrs["is_training"]
        saved = op.outputs[3:5] if training else op.inputs[3:5]
        dx, dscale, doffset, *_ = backward(grad_y, op.inputs[0], op.inputs[1], *saved, *op.outputs[5:],
                                           epsilon=op.attrs["epsilon"], data_format=op.attrs["data_format"],
                                           is_training=training)
        return dx, dscale, doffset, None, None

    @backward.gradient
    def _backward_gradient(op, grad_x, grad_scale, grad_offset, *_unused):
        dy, x, scale, mean, variance = op.inputs[:5]
        with Tape() as tape:
            for t in (dy, x, scale):
                tape.watch(t)
            results = _batch_norm_grad_composed(dy, x, scale, mean, variance, op.attrs)
        second = tape.gradient(list(results), [dy, x, scale], [grad_x, grad_scale, grad_offset])
        return (*second, *[None] * (len(op.inputs) - 3))


_add_batch_norm_gradients(batch_norm_v1, batch_norm_grad_v1)
_add_batch_norm_gradients(batch_norm_v2, batch_norm_grad_v2)
_add_batch_norm_gradients(batch_norm_v3, batch_norm_grad_v3)


def _batch_norm_grad_composed(dy: Tensor, x: Tensor, scale: Tensor, mean: Tensor, variance: Tensor,
                              attrs: dict[str, Any]) -> tuple:
    """The gradient of batch norm from ops that have gradients themselves."""
    data_format, rank = attrs["data_format"], len(attrs["data_format"])
    axis = windows.channel_axis(data_format)
    others = [a for a in range(rank) if a != axis]
    flat = windows.assemble(1, [1] * (rank - 2), -1, data_format)
    per_channel = [get("Reshape")(v, np.array(flat, np.int32)) for v in (scale, mean, variance)]
    scale_b, mean_b, variance_b = per_channel
    half_type = x.dtype.base_dtype
    dy, x = cast(dy, dtypes.float32), cast(x, dtypes.float32)
    if attrs["is_training"]:
        mean_b = _mean(x, others)
        variance_b = _mean(get("SquaredDifference")(x, get("StopGradient")(mean_b)), others)
    centered = x - mean_b
    deviation = get("Rsqrt")(variance_b + attrs["epsilon"])
    dx = dy
    if attrs["is_training"]:
        covariance = _mean(dy * centered, others)
        dx = dy - _mean(dy, others) - get("Square")(deviation) * covariance * centered
    dx = scale_b * deviation * dx
    dscale = get("Sum")(dy * centered * deviation, others)
    return cast(dx, half_type), dscale, get("Sum")(dy, others)


def _mean(x: Any, axes: Any) -> Any:
    return get("Mean")(x, axes, keep_dims=True)


_MIN_EPSILON = 1.001e-5      # cuDNN's minimum


@export(v1=["nn.fused_batch_norm"])
@dispatched
def fused_batch_norm(x: Any, scale: Any, offset: Any, mean: Any = None, variance: Any = None, epsilon: float = 0.001,
                     data_format: str = "NHWC", is_training: bool = True, name: str | None = None,
                     exponential_avg_factor: float | None = 1.0) -> tuple:
    """Batch normalization of images in one op; returns y, the mean and the variance of the batch (or those given).

    Args:
        x: Images.
        scale: Vector [channels].
        offset: Vector [channels].
        mean: Mean to normalize with, if `is_training` is False.
        variance: Variance to normalize with, if `is_training` is False.
        epsilon: Small number added to a denominator.
        data_format: `"NHWC"` (channels last) or `"NCHW"` (channels first).
        is_training: Whether to use the moments of the batch.
        name: Name of the operation.
        exponential_avg_factor: Weight of the batch in the returned moments; None is 1.0, with moments that are unused.

    Returns:
        The images, the mean and the variance.

    >>> y, mean, variance = tf.nn.fused_batch_norm(tf.ones([2, 4, 4, 3]), scale=tf.ones([3]), offset=tf.zeros([3]))
    >>> y.shape, mean.numpy()
    (TensorShape([2, 4, 4, 3]), array([1., 1., 1.], dtype=float32))
    """
    x, scale, offset = convert(x, name="input"), convert(scale, name="scale"), convert(offset, name="offset")
    if is_training and exponential_avg_factor == 1.0 and (mean is not None or variance is not None):
        raise ValueError("Both 'mean' and 'variance' must be None if is_training is True.")
    mean = convert([], dtypes.float32) if mean is None else mean
    variance = convert([], dtypes.float32) if variance is None else variance
    out = batch_norm_v3(x, scale, offset, mean, variance, epsilon=max(float(epsilon), _MIN_EPSILON),
                        data_format=data_format, is_training=is_training, name=name)
    if not is_training or exponential_avg_factor in (None, 1.0):
        return out[0], out[1], out[2]
    kept = 1.0 - exponential_avg_factor
    return out[0], mean * kept + out[1] * exponential_avg_factor, variance * kept + out[2] * exponential_avg_factor


# -- batch norm composed ---------------------------------------------------------------------------------------------
@export("nn.batch_normalization")
@dispatched
def batch_normalization(x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: float,
                        name: str | None = None) -> Tensor:
    """(x - mean) / sqrt(variance + variance_epsilon) * scale + offset; `scale` and `offset` may be None.

    Args:
        x: Tensor.
        mean: Mean, whose shape broadcasts with that of `x`.
        variance: Variance.
        offset: Added at the end, or None.
        scale: Factor, or None.
        variance_epsilon: Added to the variance before the division.
        name: Name of the operation.

    Returns:
        A tensor of the shape of `x`.

    >>> x = tf.constant([[1., 2.], [3., 6.]])
    >>> mean, variance = tf.nn.moments(x, [0])
    >>> tf.nn.batch_normalization(x, mean, variance, None, None, variance_epsilon=0.).numpy()
    array([[-1., -1.],
           [ 1.,  1.]], dtype=float32)
    """
    with name_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        x = convert(x)
        inverse = get("Rsqrt")(variance + variance_epsilon)
        if scale is not None:
            inverse = inverse * scale
        shift = offset - mean * inverse if offset is not None else -mean * inverse
        return x * cast(inverse, x.dtype.base_dtype) + cast(shift, x.dtype.base_dtype)


@export(v1=["nn.batch_norm_with_global_normalization"])
@dispatched
def batch_norm_with_global_normalization(t: Any = None, m: Any = None, v: Any = None, beta: Any = None,
                                         gamma: Any = None, variance_epsilon: Any = None,
                                         scale_after_normalization: Any = None, name: str | None = None,
                                         input: Any = None, mean: Any = None, variance: Any = None) -> Tensor:
    """`batch_normalization` under an older name."""
    return batch_normalization(renamed("input", input, "t", t), renamed("mean", mean, "m", m),
                               renamed("variance", variance, "v", v), beta,
                               gamma if scale_after_normalization else None, variance_epsilon, name)


@export(v2=["nn.batch_norm_with_global_normalization"])
@dispatched
def batch_norm_with_global_normalization_v2(input: Any, mean: Any, variance: Any, beta: Any, gamma: Any,
                                            variance_epsilon: float, scale_after_normalization: bool,
                                            name: str | None = None) -> Tensor:
    """`batch_normalization` under an older name."""
    return batch_normalization(input, mean, variance, beta, gamma if scale_after_normalization else None,
                               variance_epsilon, name)


_GLOBAL_ATTRS = ("T: type in {float32 float64 int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 uint16 "
                 "complex128 half uint32 uint64}, variance_epsilon: float, scale_after_normalization: bool")
global_norm = op("BatchNormWithGlobalNormalization", "t: T, m: T, v: T, beta: T, gamma: T -> result: T", _GLOBAL_ATTRS)
global_norm_grad = op("BatchNormWithGlobalNormalizationGrad",
                      "t: T, m: T, v: T, gamma: T, backprop: T -> dx: T, dm: T, dv: T, db: T, dg: T", _GLOBAL_ATTRS)


@global_norm.shape
def _global_norm_shape(t, m, v, beta, gamma):
    return _vectors_shape(t, "NHWC", (m, v, beta, gamma))[0]


@global_norm_grad.shape
def _global_norm_grad_shape(t, m, v, gamma, backprop):
    x, channels = _vectors_shape(shapes.merge(t, backprop), "NHWC", (m, v, gamma))
    return [x, channels, channels, channels, channels]


def _check_image(t: torch.Tensor, **vectors: torch.Tensor) -> None:
    if t.ndim != 4:
        raise errors.invalid(f"input must be 4-dimensional, got {list(t.shape)}")
    _check_vectors(t.shape[3], **vectors)


@global_norm.kernel
def _global_norm_kernel(t, m, v, beta, gamma, *, variance_epsilon, scale_after_normalization):
    _check_image(t, mean=m, variance=v, beta=beta, gamma=gamma)
    scale = (v + variance_epsilon).rsqrt()
    if scale_after_normalization:
        scale = scale * gamma
    return (t - m) * scale + beta


@global_norm_grad.kernel
def _global_norm_grad_kernel(t, m, v, gamma, backprop, *, variance_epsilon, scale_after_normalization):
    _check_image(t, mean=m, variance=v, gamma=gamma)
    if backprop.shape != t.shape:
        raise errors.invalid(f"backprop must have the shape of t, got {list(backprop.shape)} and {list(t.shape)}")
    inverse = (v + variance_epsilon).rsqrt()
    outer = gamma if scale_after_normalization else torch.ones_like(gamma)
    offset = backprop.sum((0, 1, 2))
    scaled = (backprop * (t - m)).sum((0, 1, 2))
    dg = scaled * inverse if scale_after_normalization else torch.zeros_like(gamma)
    return (backprop * (inverse * outer), -offset * inverse * outer, scaled * outer * -0.5 * inverse.pow(3), offset, dg)


@global_norm.gradient
def _global_norm_gradient(op, grad):
    t, m, v, _, gamma = op.inputs
    out = global_norm_grad(t, m, v, gamma, grad, variance_epsilon=op.attrs["variance_epsilon"],
                           scale_after_normalization=op.attrs["scale_after_normalization"])
    return tuple(out)


# -- local response normalization ------------------------------------------------------------------------------------
_LRN = ("depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5, "
        "T: type in {half bfloat16 float32} = float32")
lrn = op("LRN", "input: T -> output: T", _LRN, export_as="nn.local_response_normalization nn.lrn", doc="""\
Divides each element by (bias + alpha * sum of squares of neighbouring channels) ** beta.

Args:
    input: Images [n, height, width, channels].
    depth_radius: How many channels on either side are neighbours.
    bias: Offset, which avoids a division by 0.
    alpha: Factor of the sum.
    beta: Exponent.
    name: Name of the operation.

Returns:
    A tensor of the type and shape of `input`.

>>> tf.nn.lrn(tf.ones([1, 1, 1, 3]), depth_radius=1).numpy().round(4)
array([[[[0.5774, 0.5   , 0.5774]]]], dtype=float32)
""")
lrn_grad = op("LRNGrad", "input_grads: T, input_image: T, output_image: T -> output: T", _LRN)
lrn.shape(lambda input: shapes.rank_is(input, 4))


@lrn_grad.shape
def _lrn_grad_shape(input_grads, input_image, output_image):
    return shapes.rank_is(shapes.merge(shapes.merge(input_grads, input_image), output_image), 4)


def _neighbour_sum(x: torch.Tensor, radius: int) -> torch.Tensor:
    """The sum over the channels at most `radius` away."""
    r = min(radius, x.shape[3])
    rows = x.reshape(-1, 1, 1, x.shape[3])
    return aten.avg_pool2d(rows, [1, 2 * r + 1], [1, 1], [0, r], False, True, 1).view(x.shape)


def _check_lrn(x: torch.Tensor, radius: int) -> None:
    if x.ndim != 4:
        raise errors.invalid(f"in must be 4-dimensional, got {list(x.shape)}")
    if radius < 0:
        raise errors.invalid(f"depth_radius = {radius} must be nonnegative")


@lrn.kernel
def _lrn_kernel(input, *, depth_radius, bias, alpha, beta):
    _check_lrn(input, depth_radius)
    if not input.numel():
        return input
    x = input.float()
    norm = _neighbour_sum(x.square(), depth_radius).mul_(alpha).add_(bias)
    return (x * norm.pow_(-beta)).to(input.dtype)


@lrn_grad.kernel
def _lrn_grad_kernel(input_grads, input_image, output_image, *, depth_radius, bias, alpha, beta):
    _check_lrn(input_image, depth_radius)
    if not input_grads.shape == input_image.shape == output_image.shape:
        raise errors.invalid("input_grads, input_image, and out_image should have the same shape")
    if not input_image.numel():
        return input_image
    x, y, grad = input_image.float(), output_image.float(), input_grads.float()
    norm = _neighbour_sum(x.square(), depth_radius).mul_(alpha).add_(bias)
    back = _neighbour_sum(grad * y / norm, depth_radius)
    return (grad * norm.pow(-beta) - (2 * alpha * beta) * x * back).to(input_image.dtype)


@lrn.gradient
def _lrn_gradient(op, grad):
    attrs = {a: op.attrs[a] for a in ("depth_radius", "bias", "alpha", "beta")}
    return lrn_grad(grad, op.inputs[0], op.outputs[0], **attrs)


# -- moments ---------------------------------------------------------------------------------------------------------
def _moments(x: Any, axes: Any, keepdims: bool | None, name: str | None) -> tuple:
    with name_scope(name, "moments", [x, axes]):
        x = convert(x, name="x")
        short = x.dtype.base_dtype
        y = cast(x, dtypes.float32) if short == dtypes.float16 else x
        mean = get("Mean")(y, axes, keep_dims=True, name="mean")
        distance = get("SquaredDifference")(y, get("StopGradient")(mean))
        variance = get("Mean")(distance, axes, keep_dims=True, name="variance")
        if not keepdims:
            mean, variance = _squeezed(mean, axes), _squeezed(variance, axes)
        return cast(mean, short), cast(variance, short)


def _squeezed(x: Any, axes: Any) -> Any:
    known = constant_value(axes) if isinstance(axes, Tensor) else axes
    if known is None:
        raise ValueError("Without keepdims, the axes of moments have to be known when the graph is built.")
    return get("Squeeze")(x, squeeze_dims=[int(a) for a in np.atleast_1d(known)])


@export(v1=["nn.moments"])
@dispatched
def moments(x: Any, axes: Any, shift: Any = None, name: str | None = None, keep_dims: bool | None = None,
            keepdims: bool | None = None) -> tuple:
    """The mean and the variance of `x` along `axes` (`shift` is not used).

    Args:
        x: Tensor of numbers.
        axes: Axes to reduce. For batch normalization of images: [0, 1, 2].
        shift: Unused.
        name: Name of the operation.
        keep_dims: Old name of `keepdims`.
        keepdims: Whether reduced axes stay, with size 1.

    Returns:
        Mean and variance. float16 is computed in float32.

    >>> mean, variance = tf.nn.moments(tf.constant([[1., 2.], [3., 6.]]), [0])
    >>> mean.numpy(), variance.numpy()
    (array([2., 4.], dtype=float32), array([1., 4.], dtype=float32))
    """
    return _moments(x, axes, renamed("keepdims", keepdims, "keep_dims", keep_dims), name)


@export(v2=["nn.moments"])
@dispatched
def moments_v2(x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: str | None = None) -> tuple:
    """The mean and the variance of `x` along `axes` (`shift` is not used).

    Args:
        x: Tensor.
        axes: Dimensions to compute over.
        shift: Not used.
        keepdims: Whether these dimensions stay, with size 1.
        name: Name of the operation.

    Returns:
        The mean and the variance.

    >>> [m.numpy().tolist() for m in tf.nn.moments(tf.constant([1., 3.]), axes=[0])]
    [2.0, 1.0]
    """
    return _moments(x, axes, keepdims, name)


def _weighted_moments(x: Any, axes: Any, weights: Any, keepdims: bool | None, name: str | None) -> tuple:
    with name_scope(name, "weighted_moments", [x, weights, axes]):
        x = convert(x, name="x")
        weights = convert(weights, name="frequency_weights")
        short = x.dtype.base_dtype
        x = cast(x, dtypes.float32) if short == dtypes.float16 else x
        weights = cast(weights, x.dtype.base_dtype)
        total = get("Sum")
        all_weights = total(weights + get("ZerosLike")(x), axes, keep_dims=True, name="sum_of_weights")
        divisor = get("DivNoNan")(get("OnesLike")(all_weights), all_weights, name="inv_weight_sum")      # without weights, 0
        mean = total(weights * x, axes, keep_dims=True, name="weighted_input_sum") * divisor
        distance = weights * get("SquaredDifference")(x, mean)
        variance = total(distance, axes, keep_dims=True, name="weighted_distsq") * divisor
        if not keepdims:
            mean, variance = _squeezed(mean, axes), _squeezed(variance, axes)
        return cast(mean, short), cast(variance, short)


@export(v1=["nn.weighted_moments"])
@dispatched
def weighted_moments(x: Any, axes: Any, frequency_weights: Any, name: str | None = None, keep_dims: bool | None = None,
                     keepdims: bool | None = None) -> tuple:
    """The mean and the variance of `x` along `axes`, each element counted `frequency_weights` times."""
    return _weighted_moments(x, axes, frequency_weights, renamed("keepdims", keepdims, "keep_dims", keep_dims), name)


@export(v2=["nn.weighted_moments"])
@dispatched
def weighted_moments_v2(x: Any, axes: Any, frequency_weights: Any, keepdims: bool = False,
                        name: str | None = None) -> tuple:
    """The mean and the variance of `x` along `axes`, each element counted `frequency_weights` times."""
    return _weighted_moments(x, axes, frequency_weights, keepdims, name)


def _statistics(x: Any, axes: Any, shift: Any, keepdims: bool | None, name: str | None) -> tuple:
    axes = list(set(axes))
    with name_scope(name, "sufficient_statistics", [x, shift]):
        x = convert(x, name="x")
        dtype = x.dtype.base_dtype
        dims = None if x.static_dims is None else [x.static_dims[a] for a in axes]
        if dims is not None and None not in dims:
            counts = convert(math.prod(dims), dtype)
        else:
            places = np.array(axes, np.int32)
            places = places if (places >= 0).all() else places + (places < 0) * get("Rank")(x)
            sizes = get("GatherV2")(cast(get("Shape")(x), dtype), places, np.int32(0))
            counts = get("Prod")(sizes, np.array([0], np.int32), name="count")
        first, second = x, get("Square")(x) if shift is None else None
        if shift is not None:
            shift = convert(shift, None if isinstance(shift, Tensor) else dtype, name="shift")
            first, second = x - shift, get("SquaredDifference")(x, shift)
        keep = bool(keepdims)
        return (counts, get("Sum")(first, axes, keep_dims=keep, name="mean_ss"),
                get("Sum")(second, axes, keep_dims=keep, name="var_ss"), shift)


@export(v1=["nn.sufficient_statistics"])
@dispatched
def sufficient_statistics(x: Any, axes: Any, shift: Any = None, keep_dims: bool | None = None, name: str | None = None,
                          keepdims: bool | None = None) -> tuple:
    """The count, the sum and the sum of squares of `x - shift` along `axes`, and `shift`."""
    return _statistics(x, axes, shift, renamed("keepdims", keepdims, "keep_dims", keep_dims), name)


@export(v2=["nn.sufficient_statistics"])
@dispatched
def sufficient_statistics_v2(x: Any, axes: Any, shift: Any = None, keepdims: bool = False,
                             name: str | None = None) -> tuple:
    """The count, the sum and the sum of squares of `x - shift` along `axes`, and `shift`."""
    return _statistics(x, axes, shift, keepdims, name)


@export("nn.normalize_moments")
@dispatched
def normalize_moments(counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None) -> tuple:
    """The mean and the variance from the results of `sufficient_statistics`."""
    with name_scope(name, "normalize", [counts, mean_ss, variance_ss, shift]):
        divisor = get("Reciprocal")(counts, name="divisor")
        shifted = get("Mul")(mean_ss, divisor, name="mean" if shift is None else "shifted_mean")
        mean = shifted if shift is None else get("AddV2")(shifted, shift, name="mean")
        variance = get("Sub")(get("Mul")(variance_ss, divisor), get("Square")(shifted), name="variance")
        return mean, variance


# -- unit vectors ----------------------------------------------------------------------------------------------------
@export("math.l2_normalize", "linalg.l2_normalize", "nn.l2_normalize")
@dispatched
def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Tensor:
    """x / sqrt(max(sum(x ** 2, axis), epsilon)).

    Args:
        x: Tensor of floating point or complex numbers.
        axis: Axis, or axes, of the vectors; all by default.
        epsilon: Smallest square of a norm that is divided by.
        name: Name of the operation.
        dim: Old name of `axis`.

    Returns:
        `x` divided by its norm.

    >>> tf.nn.l2_normalize([3., 4.], axis=0).numpy()
    array([0.6, 0.8], dtype=float32)
    """
    axis = renamed("axis", axis, "dim", dim)
    with name_scope(name, "l2_normalize", [x]) as scope:
        x = convert(x, name="x")
        if x.dtype.is_complex:
            squares = get("Real")(x * get("Conj")(x), Tout=x.dtype.real_dtype)
            inverse = get("Rsqrt")(get("Maximum")(reduce_sum(squares, axis, keepdims=True), epsilon))
            return get("Mul")(x, get("Cast")(inverse, DstT=x.dtype.base_dtype), name=scope)
        total = reduce_sum(get("Square")(x), axis, keepdims=True)
        return get("Mul")(x, get("Rsqrt")(get("Maximum")(total, epsilon)), name=scope)


@export("linalg.normalize")
@dispatched
def normalize(tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None) -> tuple:
    """A tensor divided by its norm along `axis`, and the norm (with the axis kept).

    Args:
        tensor: Tensor of floats.
        ord: Order of the norm: `"euclidean"`, `"fro"`, 1, 2, infinity or another positive number.
        axis: Dimension, or a pair of them for norms of matrices; all by default.
        name: Name of the operation.

    Returns:
        The tensor divided by its norm, and the norm.

    >>> [t.numpy().round(2).tolist() for t in tf.linalg.normalize([3., 4.])]
    [[0.6, 0.8], [5.0]]
    """
    with name_scope(name, "normalize", [tensor]):
        tensor = convert(tensor)
        size = cast(norm_v2(tensor, ord, axis, keepdims=True), tensor.dtype.base_dtype)
        return tensor / size, size
