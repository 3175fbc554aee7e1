"""NASNet-A (Zoph et al., 2017): two kinds of cells that a search has found, stacked; large, and for mobiles."""
from __future__ import annotations

from typing import Any

from penstock._src.models.keras import backend as K
from penstock._src.models.keras.applications.common import channel_axis, correct_pad, family, finish, image_input, norm, top
from penstock.keras import layers as L


def _norm(x: Any, name: str) -> Any:
    return norm(x, name, momentum=0.9997, epsilon=1e-3)


def _conv(x: Any, filters: int, name: str) -> Any:
    return L.Conv2D(filters, 1, padding="same", use_bias=False, kernel_initializer="he_normal", name=name)(x)


def _separable(x: Any, filters: int, kernel: int, name: str, strides: int = 1) -> Any:
    """ReLU, separable convolution and batch norm, twice; the first of them strides."""
    for i, stride in ((1, strides), (2, 1)):
        x = L.Activation("relu")(x)
        if stride == 2:
            x = L.ZeroPadding2D(correct_pad(x, kernel), name=f"separable_conv_{i}_pad_{name}")(x)
        x = L.SeparableConv2D(filters, kernel, strides=stride, padding="same" if stride == 1 else "valid", use_bias=False,
                              kernel_initializer="he_normal", name=f"separable_conv_{i}_{name}")(x)
        x = _norm(x, f"separable_conv_{i}_bn_{name}")
    return x


def _pool(kind: Any, x: Any, strides: int, name: str) -> Any:
    return kind(3, strides=strides, padding="same" if strides == 1 else "valid", name=name)(x)


def _fitted(p: Any, x: Any, filters: int, block: str) -> Any:
    """The output of the cell before the last one, in the size of that of the last one."""
    if p is None:
        return x
    side = 2 if channel_axis() == 1 else -2
    if K.int_shape(p)[side] != K.int_shape(x)[side]:
        p = L.Activation("relu", name=f"adjust_relu_1_{block}")(p)
        shifted = L.Cropping2D(((1, 0), (1, 0)))(L.ZeroPadding2D(((0, 1), (0, 1)))(p))
        halves = [_conv(L.AveragePooling2D(1, strides=2, name=f"adjust_avg_pool_{i}_{block}")(part), filters // 2,
                        f"adjust_conv_{i}_{block}") for i, part in ((1, p), (2, shifted))]
        return _norm(L.concatenate(halves, axis=channel_axis()), f"adjust_bn_{block}")
    if K.int_shape(p)[channel_axis()] != filters:
        p = _conv(L.Activation("relu")(p), filters, f"adjust_conv_projection_{block}")
        return _norm(p, f"adjust_bn_{block}")
    return p


def _normal(x: Any, p: Any, filters: int, block: str) -> tuple:
    p = _fitted(p, x, filters, block)
    h = _norm(_conv(L.Activation("relu")(x), filters, f"normal_conv_1_{block}"), f"normal_bn_1_{block}")

    def convolved(y: Any, kernel: int, side: str) -> Any:
        return _separable(y, filters, kernel, f"normal_{side}_{block}")

    def added(i: int, *parts: Any) -> Any:
        return L.add(list(parts), name=f"normal_add_{i}_{block}")

    def averaged(y: Any, side: str) -> Any:
        return _pool(L.AveragePooling2D, y, 1, f"normal_{side}_{block}")
    x1 = added(1, convolved(h, 5, "left1"), convolved(p, 3, "right1"))
    x2 = added(2, convolved(p, 5, "left2"), convolved(p, 3, "right2"))
    x3 = added(3, averaged(h, "left3"), p)
    x4 = added(4, averaged(p, "left4"), averaged(p, "right4"))
    x5 = added(5, convolved(h, 3, "left5"), h)
    return L.concatenate([p, x1, x2, x3, x4, x5], axis=channel_axis(), name=f"normal_concat_{block}"), x


def _reduction(x: Any, p: Any, filters: int, block: str) -> tuple:
    p = _fitted(p, x, filters, block)
    h = _norm(_conv(L.Activation("relu")(x), filters, f"reduction_conv_1_{block}"), f"reduction_bn_1_{block}")
    padded = L.ZeroPadding2D(correct_pad(h, 3), name=f"reduction_pad_1_{block}")(h)

    def convolved(y: Any, kernel: int, side: str, strides: int = 2) -> Any:
        return _separable(y, filters, kernel, f"reduction_{side}_{block}", strides)
    x1 = L.add([convolved(h, 5, "left1"), convolved(p, 7, "right1")], name=f"reduction_add_1_{block}")
    x2 = L.add([_pool(L.MaxPooling2D, padded, 2, f"reduction_left2_{block}"), convolved(p, 7, "right2")],
               name=f"reduction_add_2_{block}")
    x3 = L.add([_pool(L.AveragePooling2D, padded, 2, f"reduction_left3_{block}"), convolved(p, 5, "right3")],
               name=f"reduction_add3_{block}")
    x4 = L.add([x2, _pool(L.AveragePooling2D, x1, 1, f"reduction_left4_{block}")])
    x5 = L.add([convolved(x1, 3, "left4", 1), _pool(L.MaxPooling2D, padded, 2, f"reduction_right5_{block}")],
               name=f"reduction_add4_{block}")
    return L.concatenate([x2, x3, x4, x5], axis=channel_axis(), name=f"reduction_concat_{block}"), x


def _nasnet(kind: str, size: int, last: int, blocks: int, stem: int, skip: bool, include_top: bool, weights: Any,
            input_tensor: Any, input_shape: Any, pooling: Any, classes: int, activation: Any) -> Any:
    """`last` is the width at the end, `blocks` the number of normal cells between reductions; each of those doubles filters."""
    inputs = image_input(input_tensor, input_shape, size, 32, include_top, weights, classes)
    filters = last // 24
    x = L.Conv2D(stem, 3, strides=2, use_bias=False, kernel_initializer="he_normal", name="stem_conv1")(inputs)
    x, p = _reduction(_norm(x, "stem_bn1"), None, filters // 4, "stem_1")
    x, p = _reduction(x, p, filters // 2, "stem_2")
    for stage in range(3):
        if stage:
            x, before = _reduction(x, p, filters * 2 ** stage, f"reduce_{stage * blocks}")
            p = p if skip else before
        for i in range(blocks):
            x, p = _normal(x, p, filters * 2 ** stage, str(stage * blocks + i + (stage > 0)))
    x = top(L.Activation("relu")(x), include_top, pooling, classes, activation, None)
    file = f"NASNet-{kind}{'' if include_top else '-no-top'}.h5"
    return finish(inputs, x, "NASNet", weights, input_tensor, file, "nasnet/")


def NASNetMobile(input_shape: Any = None, include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None,
                 pooling: Any = None, classes: int = 1000, classifier_activation: Any = "softmax") -> Any:
    """NASNet-A (4 @ 1056).

    >>> model = tf.keras.applications.NASNetMobile(weights=None)
    """
    return _nasnet("mobile", 224, 1056, 4, 32, False, include_top, weights, input_tensor, input_shape, pooling, classes,
                   classifier_activation)


def NASNetLarge(input_shape: Any = None, include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None,
                pooling: Any = None, classes: int = 1000, classifier_activation: Any = "softmax") -> Any:
    """NASNet-A (6 @ 4032)."""
    return _nasnet("large", 331, 4032, 6, 96, True, include_top, weights, input_tensor, input_shape, pooling, classes,
                   classifier_activation)


family("nasnet", "tf", NASNetMobile, NASNetLarge)
