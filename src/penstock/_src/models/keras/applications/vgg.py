"""VGG16 and VGG19 (Simonyan and Zisserman, 2014)."""
from __future__ import annotations

from typing import Any

from penstock._src.models.keras.applications.common import family, finish, image_input
from penstock.keras import layers as L


def _vgg(name: str, depths: tuple, include_top: bool, weights: Any, input_tensor: Any, input_shape: Any, pooling: Any,
         classes: int, classifier_activation: Any) -> Any:
    inputs = image_input(input_tensor, input_shape, 224, 32, include_top, weights, classes)
    x = inputs
    for block, (count, filters) in enumerate(zip(depths, (64, 128, 256, 512, 512), strict=True), 1):
        for i in range(1, count + 1):
            x = L.Conv2D(filters, 3, activation="relu", padding="same", name=f"block{block}_conv{i}")(x)
        x = L.MaxPooling2D(2, strides=2, name=f"block{block}_pool")(x)
    if include_top:
        x = L.Flatten(name="flatten")(x)
        x = L.Dense(4096, activation="relu", name="fc1")(x)
        x = L.Dense(4096, activation="relu", name="fc2")(x)
        x = L.Dense(classes, activation=classifier_activation, name="predictions")(x)
    elif pooling in ("avg", "max"):
        x = (L.GlobalAveragePooling2D if pooling == "avg" else L.GlobalMaxPooling2D)()(x)
    file = f"{name}_weights_tf_dim_ordering_tf_kernels{'' if include_top else '_notop'}.h5"
    return finish(inputs, x, name, weights, input_tensor, file, f"{name}/")


def VGG16(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
          pooling: Any = None, classes: int = 1000, classifier_activation: Any = "softmax") -> Any:
    """VGG with 16 layers of weights.

    >>> model = tf.keras.applications.VGG16(weights=None)
    """
    return _vgg("vgg16", (2, 2, 3, 3, 3), include_top, weights, input_tensor, input_shape, pooling, classes,
                classifier_activation)


def VGG19(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
          pooling: Any = None, classes: int = 1000, classifier_activation: Any = "softmax") -> Any:
    """VGG with 19 layers of weights."""
    return _vgg("vgg19", (2, 2, 4, 4, 4), include_top, weights, input_tensor, input_shape, pooling, classes,
                classifier_activation)


family("vgg16", "caffe", VGG16)
family("vgg19", "caffe", VGG19)
