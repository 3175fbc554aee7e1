"""Shared by the image models: inputs, the classifier, weights from files, preprocessing and class names.

Weights are files: `weights="imagenet"` finds Keras' files in the usual cache (`~/.keras/models`); other values are paths.
"""
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.engine.training import Model
from penstock._src.models.keras.utils.file_cache import get_file
from penstock._src.models.keras.utils.layer_utils import get_source_inputs
from penstock.keras import layers as L

ORIGIN = "https://storage.googleapis.com/tensorflow/keras-applications/"


def channel_axis() -> int:
    """The axis of channels."""
    return 1 if K.image_data_format() == "channels_first" else -1


def norm(x: Any, name: str | None = None, **options: Any) -> Any:
    """Batch normalization over the channels."""
    axis = 3 if channel_axis() == -1 else 1
    return L.BatchNormalization(axis=axis, name=name, **options)(x)


def image_input(input_tensor: Any, input_shape: Any, size: int, least: int, include_top: bool, weights: Any,
                classes: int) -> Any:
    """The input of an image model; ValueError for shapes that it cannot have."""
    if weights == "imagenet" and include_top and classes != 1000:
        raise ValueError(f"If using `weights=\"imagenet\"` with `include_top=True`, `classes` should be 1000. Received "
                         f"`classes={classes}`")
    first = channel_axis() == 1
    if input_shape is None:
        sides = (size, size) if include_top else (None, None)
        input_shape = (3, *sides) if first else (*sides, 3)
    input_shape = tuple(input_shape)
    if len(input_shape) != 3:
        raise ValueError("`input_shape` must be a tuple of three integers.")
    sides = input_shape[1:] if first else input_shape[:2]
    if weights == "imagenet" and (input_shape[0] if first else input_shape[2]) != 3:
        raise ValueError(f"The input must have 3 channels; Received `input_shape={input_shape}`")
    if any(s is not None and s < least for s in sides):
        raise ValueError(f"Input size must be at least {least}x{least}; Received: input_shape={input_shape}")
    if include_top and None in sides:
        raise ValueError(f"With `include_top` the sizes in `input_shape` must be known; got input_shape={input_shape}")
    if input_tensor is None:
        return L.Input(shape=input_shape)
    return input_tensor if K.is_keras_tensor(input_tensor) else L.Input(tensor=input_tensor, shape=input_shape)


def top(x: Any, include_top: bool, pooling: Any, classes: int, activation: Any, avg_name: str | None = "avg_pool",
        before: Callable | None = None) -> Any:
    """The classifier, or its replacement."""
    if include_top:
        x = L.GlobalAveragePooling2D(name=avg_name)(x)
        x = x if before is None else before(x)
        return L.Dense(classes, activation=activation, name="predictions")(x)
    if pooling == "avg":
        return L.GlobalAveragePooling2D(name=avg_name)(x)
    return L.GlobalMaxPooling2D(name="max_pool" if avg_name else None)(x) if pooling == "max" else x


def finish(inputs: Any, outputs: Any, name: str, weights: Any, input_tensor: Any, file: str, folder: str = "") -> Any:
    """The model, with its weights."""
    model = Model(inputs if input_tensor is None else get_source_inputs(input_tensor), outputs, name=name)
    if weights == "imagenet":
        weights = get_file(file, ORIGIN + folder + file, cache_subdir="models")
    if weights is not None:
        model.load_weights(weights)
    return model


def correct_pad(x: Any, kernel_size: int) -> tuple:
    """Zeros around an image before a convolution with stride 2, to match the padding of other libraries."""
    shape = K.int_shape(x)
    sides = shape[2:4] if channel_axis() == 1 else shape[1:3]
    more = (1, 1) if sides[0] is None else (1 - sides[0] % 2, 1 - sides[1] % 2)
    half = kernel_size // 2
    return ((half - more[0], half), (half - more[1], half))


def divisible(value: float, divisor: int = 8, least: int | None = None) -> int:
    """The multiple of `divisor` that is nearest, and not more than a tenth below."""
    made = max(least or divisor, int(value + divisor / 2) // divisor * divisor)
    return made + divisor if made < 0.9 * value else made


# -- images in, words out ---------------------------------------------------------------------------------------------
def preprocess(x: Any, data_format: str | None, mode: str) -> Any:
    """Preprocesses pixels 0 … 255 for a model: `tf` from -1 to 1, `torch` with ImageNet's mean and deviation, `caffe` BGR
    without the mean."""
    if mode not in ("caffe", "tf", "torch"):
        raise ValueError(f"mode must be `caffe`, `tf` or `torch`, got {mode}")
    data_format = data_format or K.image_data_format()
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError("Expected data_format to be one of `channels_first` or `channels_last`. "
                         f"Received: data_format={data_format}")
    array = isinstance(x, np.ndarray)
    x = x.astype(K.floatx() if not np.issubdtype(x.dtype, np.floating) else x.dtype) if array else K.cast(x, K.floatx())
    if mode == "tf":
        return x / 127.5 - 1.0
    first = data_format == "channels_first"
    shape = [3, 1, 1] if first else [3]
    if mode == "torch":
        mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
        return (x / 255.0 - mean.reshape(shape).astype("float32")) / deviation.reshape(shape).astype("float32")
    mean = np.array([103.939, 116.779, 123.68], dtype="float32").reshape(shape)
    if first:
        x = x[::-1] if len(x.shape) == 3 else x[:, ::-1]
    else:
        x = x[..., ::-1]
    return x - mean


@export("keras.applications.imagenet_utils.preprocess_input")
def preprocess_input(x: Any, data_format: str | None = None, mode: str = "caffe") -> Any:
    """Preprocesses pixels 0 … 255 for a model."""
    return preprocess(x, data_format, mode)


@export("keras.applications.imagenet_utils.decode_predictions")
def decode_predictions(preds: Any, top: int = 5) -> list:
    """The best classes of each row: (WordNet's id, name, score). Needs `imagenet_class_index.json` in the cache.

    >>> tf.keras.applications.resnet50.decode_predictions(model.predict(x), top=3)
    """
    preds = np.asarray(preds)
    if preds.ndim != 2 or preds.shape[1] != 1000:
        raise ValueError("`decode_predictions` expects a batch of predictions (i.e. a 2D array of shape (samples, 1000)). "
                         f"Received array with shape: {preds.shape}")
    file = "imagenet_class_index.json"
    with open(get_file(file, "https://storage.googleapis.com/download.tensorflow.org/data/" + file,
                       cache_subdir="models")) as f:
        names = json.load(f)
    return [[(*names[str(i)], float(row[i])) for i in row.argsort()[-top:][::-1]] for row in preds]


def family(module: str, mode: str, *builders: Callable) -> None:
    """Exports models as keras.applications.<name> and in their module, with that module's preprocess_input."""
    def own_preprocess_input(x: Any, data_format: str | None = None) -> Any:
        return x if mode == "none" else preprocess(x, data_format, mode)
    own_preprocess_input.__name__ = "preprocess_input"
    own_preprocess_input.__doc__ = f"Pixels 0 … 255 as the models of {module} take them."
    for build in builders:
        export.value(build, f"keras.applications.{build.__name__}", f"keras.applications.{module}.{build.__name__}")
    export.value(own_preprocess_input, f"keras.applications.{module}.preprocess_input")
    export.value(decode_predictions, f"keras.applications.{module}.decode_predictions")


def warn_size(name: str, rows: Any, sizes: tuple) -> int:
    """The image size whose weights are loaded: that of the input if any, else 224."""
    if rows in sizes:
        return rows
    logging.warning("`input_shape` of %s is undefined or not in %s. Weights for input shape (224, 224) will be loaded as the "
                    "default.", name, list(sizes))
    return 224
