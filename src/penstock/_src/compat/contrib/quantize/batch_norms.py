"""Batch normalizations moved into the weights before them, as they will be when the model is deployed.

`norm(conv(x, w))` becomes `conv(x, w * scale) + shift`. In training the scale of a batch varies, and with it the range of the
weights; so weights are scaled by the moving average's scale, and the result is corrected to that of the batch (Krishnamoorthi,
https://arxiv.org/abs/1806.08342, 3.2.2).
"""
from __future__ import annotations

from typing import Any, NamedTuple

from penstock._src.compat.contrib.quantize.edges import ADDS, LAYERS, quantization_step, readers, reroute, scope_of
from penstock._src.ops.registry import RegisterGradient
from penstock.compat import v1 as tf

_FUSED = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")


class Norm(NamedTuple):
    """A batch normalization behind a layer: statistics of the batch, or stored ones; moving averages in training."""
    layer: Any
    output: Any                 # the tensor that others read
    gamma: Any
    beta: Any
    mean: Any
    variance: Any
    epsilon: Any
    moving: tuple | None        # (mean, its decay), (variance, its decay)
    between: Any                # a BatchToSpaceND between the layer and the normalization, or None
    flat: bool                  # of a MatMul: the normalization sees its output reshaped


@RegisterGradient("FoldFusedBatchNormGrad")
def _statistics_gradient(op: Any, grad_y: Any, grad_mean: Any, grad_variance: Any, *rest: Any) -> tuple:
    """The gradient of the mean and the variance of a batch; nothing else of the op is used when it is folded."""
    x = op.inputs[0]
    n = tf.cast(tf.size(x) / tf.size(grad_mean), tf.float32)
    return (grad_mean / n + 2.0 * grad_variance * (x - op.outputs[1]) / (n - 1.0), None, None, None, None)


def fold(graph: Any, freeze_delay: int | None) -> None:
    """Folds every batch normalization of a graph that follows a layer and has consumers."""
    for norm in [n for op in graph.get_operations() for n in (_fused(op), _unfused(op)) if n is not None]:
        _fold(graph, norm, freeze_delay)


# -- finding ---------------------------------------------------------------------------------------------------------
def _layer_behind(tensor: Any) -> tuple[Any, Any, bool]:
    """The layer whose output a normalization reads, through identities and what dilation and dense layers put between."""
    op, between, flat = tensor.op, None, False
    while op.type in ("Identity", "BatchToSpaceND", "Reshape"):
        between = op if op.type == "BatchToSpaceND" else between
        flat = flat or op.type == "Reshape"
        op = op.inputs[0].op
    if op.type not in LAYERS or flat and op.type != "MatMul":
        return None, None, False
    return op, between, flat


def _fused(op: Any) -> Norm | None:
    if op.type not in _FUSED:
        return None
    layer, between, flat = _layer_behind(op.inputs[0])
    output = op.outputs[0]
    if layer is not None and flat:
        back = readers(output, "Reshape")
        output = back[0].outputs[0] if back else output
    if layer is None or not output.consumers() or (layer.type == "MatMul") != flat:
        return None
    _, gamma, beta, mean, variance = op.inputs[:5]
    moving = None
    if op.get_attr("is_training"):
        op._extra["_gradient_op_type"] = "FoldFusedBatchNormGrad"
        mean, variance = op.outputs[1], op.outputs[2]
        moving = _moving(mean), _moving(variance)
        with tf.name_scope(scope_of(op.name) + "/" if scope_of(op.name) else None):
            n = tf.cast(tf.size(layer.outputs[0]) / tf.size(mean), tf.float32)
            variance = tf.multiply(variance, (n - 1.0) / n, name="Undo_Bessel_Correction")
    return Norm(layer, output, gamma, beta, mean, variance, op.get_attr("epsilon"),
                moving if moving and None not in moving else None, between, flat)


def _unfused(op: Any) -> Norm | None:
    """`x * scale + (beta - mean * scale)` with `scale = rsqrt(variance + epsilon) * gamma`, as tf.nn.batch_normalization is."""
    if op.type not in ADDS or not op.outputs[0].consumers():
        return None
    scaled, shift = op.inputs[0].op, op.inputs[1].op
    if scaled.type != "Mul" or shift.type != "Sub" or shift.inputs[1].op.type != "Mul":
        return None
    layer, between, flat = _layer_behind(scaled.inputs[0])
    root, scale = scaled.inputs[1].op, scaled.inputs[1].op
    gamma = None
    if scale.type == "Mul":
        root, gamma = scale.inputs[0].op, scale.inputs[1]
    if layer is None or flat or root.type != "Rsqrt" or root.inputs[0].op.type not in ADDS:
        return None
    variance, epsilon = root.inputs[0].op.inputs
    mean = shift.inputs[1].op.inputs[0]
    moving = _moving(mean), _moving(variance)
    gamma = tf.ones_like(mean) if gamma is None else gamma
    return Norm(layer, op.outputs[0], gamma, shift.inputs[0], mean, variance, epsilon,
                moving if None not in moving else None, between, False)


def _moving(tensor: Any) -> tuple | None:
    """The moving average that a statistic of the batch feeds, and its decay: `average -= (average - statistic) * decay`."""
    for sub in readers(tensor, "Sub"):
        for mul in readers(sub.outputs[0], "Mul"):
            if sub.inputs[1] is tensor:
                return sub.inputs[0], mul.inputs[1], mul
    for between in readers(tensor, "Identity", "Squeeze", "Cast"):
        found = _moving(between.outputs[0])
        if found is not None:
            return found
    return None


# -- folding ---------------------------------------------------------------------------------------------------------
def _fold(graph: Any, norm: Norm, freeze_delay: int | None) -> None:
    layer = norm.layer
    scope = scope_of(layer.name) + "/" if scope_of(layer.name) else ""
    with graph.name_scope(scope or None):
        with graph.name_scope(scope + "BatchNorm_Fold/"):
            scale = norm.gamma * tf.rsqrt(norm.variance + norm.epsilon)
            bias = tf.subtract(norm.beta, norm.mean * scale, name="bias")
            correction = None if norm.moving is None else _correction(norm, freeze_delay)
        weights = layer.inputs[1]
        if correction is not None:
            weights = tf.multiply(_as_weights(correction[0], layer), weights, name="correction_mult")
        folded = _again(norm, tf.multiply(weights, _as_weights(scale, layer), name="mul_fold"))
        if correction is not None:
            folded = tf.multiply(_as_output(correction[1], layer), folded, name="post_conv_mul")
            folded = tf.add(folded, _as_output(correction[2], layer), name="correction_add")
        folded = tf.add(folded, _as_output(bias, layer), name="add_fold")
    if not reroute(folded, norm.output):
        raise ValueError(f"Folding batch norms failed, {norm.output.name} had no outputs.")


def _as_weights(vector: Any, layer: Any) -> Any:
    """A number for each output channel, in the shape of the weights' last dimensions."""
    if layer.type != "DepthwiseConv2dNative":
        return vector
    return tf.reshape(vector, layer.inputs[1].shape.as_list()[2:])


def _as_output(vector: Any, layer: Any) -> Any:
    if layer.type == "MatMul" or layer.get_attr("data_format") not in (b"NCHW", "NCHW"):
        return vector
    return tf.reshape(vector, [1, -1, 1, 1])


def _again(norm: Norm, weights: Any) -> Any:
    """The layer again, with other weights."""
    layer = norm.layer
    made = tf.get_default_graph().create_op(layer.type, [layer.inputs[0], weights], [o.dtype for o in layer.outputs],
                                            name=layer.name.rpartition("/")[2] + "_Fold", attrs=layer.node_def.attr)
    output = made.outputs[0]
    if norm.between is not None:
        output = tf.batch_to_space_nd(output, *norm.between.inputs[1:], name=norm.between.name.rpartition("/")[2] + "_Fold")
    return output


def _correction(norm: Norm, freeze_delay: int | None) -> tuple[Any, Any, Any]:
    """The factors of weights and of outputs, and the offset of outputs. When the statistics are frozen, outputs use the moving
    averages, which are not updated."""
    (mean, mean_decay, mean_mul), (variance, variance_decay, variance_mul) = norm.moving
    with tf.name_scope("batch_norm_correction"):
        of_moving, of_batch = tf.rsqrt(variance + norm.epsilon), tf.rsqrt(norm.variance + norm.epsilon)
        scale = tf.identity(of_moving / of_batch, name="correction_scale")
        undo = tf.reciprocal(scale)
        if freeze_delay is None:
            return scale, undo, tf.zeros_like(norm.mean)
        frozen = tf.greater_equal(quantization_step(), freeze_delay, name="use_moving_average")
        for decay, mul in ((mean_decay, mean_mul), (variance_decay, variance_mul)):
            stopped = tf.cond(frozen, lambda decay=decay: tf.zeros_like(decay), lambda decay=decay: tf.identity(decay))
            reroute(stopped, decay, [mul])
        offset = norm.gamma * (norm.mean * of_batch - mean * of_moving)
        return (scale, tf.cond(frozen, lambda: tf.ones_like(undo), lambda: tf.identity(undo), name="correction_recip"),
                tf.cond(frozen, lambda: tf.identity(offset), lambda: tf.zeros_like(offset), name="correction_offset"))
