"""Layers without variables that reshape or map tensors: flatten, one hot, softmax, maxout, ..."""
from __future__ import annotations

import math
from typing import Any

from penstock._src.compat.contrib.layers.support import (
    check_format,
    collect_named_outputs,
    last_dimension,
    layer,
    public,
    weight,
)
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


@layer("flatten")
def flatten(inputs: Any, outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """One row of numbers for each member of the batch.

    Args:
        inputs: Tensor [batch, ...].
        outputs_collections: Collections for the output.
        scope: Prefix of the names of the layer's variables and operations.

    Returns:
        A tensor [batch, elements].

    >>> tf.contrib.layers.flatten(tf.ones([2, 3, 4])).shape
    TensorShape([2, 12])
    """
    with tf.name_scope(scope, "Flatten", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        shape = inputs.shape.as_list() if inputs.shape.ndims is not None else None
        if shape is not None and None not in shape[1:]:
            batch = shape[0] if shape[0] is not None else -1
            size = math.prod(shape[1:])
            outputs = tf.reshape(inputs, [batch, size] if size or batch != -1 else tf.stack([tf.shape(inputs)[0], 0]))
        else:
            outputs = tf.reshape(inputs, tf.stack([tf.shape(inputs)[0], -1]))
            outputs.set_shape([shape[0] if shape else None, None])
        return collect_named_outputs(outputs_collections, sc, outputs)


@layer("one_hot_encoding")
def one_hot_encoding(labels: Any, num_classes: int, on_value: float = 1.0, off_value: float = 0.0,
                     outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """Labels as rows with a one at their number.

    Args:
        labels: Class numbers.
        num_classes: Number of classes.
        on_value: Value at the class.
        off_value: Value elsewhere.
        outputs_collections: Collections that the result is added to.
        scope: Prefix of the names of variables.

    Returns:
        A tensor with one more dimension of `num_classes`.

    >>> tf.contrib.slim.one_hot_encoding([0, 2], 3).numpy()
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    with tf.name_scope(scope, "OneHotEncoding", [labels, num_classes]) as sc:
        labels = tf.convert_to_tensor(labels)
        labels = tf.cast(labels, tf.int64) if labels.dtype == tf.int32 else labels
        return collect_named_outputs(outputs_collections, sc, tf.one_hot(labels, num_classes, on_value, off_value))


@layer("softmax")
def softmax(logits: Any, scope: Any = None) -> Tensor:
    """Softmax along the last axis of logits of any rank.

    Args:
        logits: Tensor.
        scope: Name of the operation.

    Returns:
        A tensor of the shape of `logits`.

    >>> tf.contrib.slim.softmax(tf.zeros([1, 2])).numpy()
    array([[0.5, 0.5]], dtype=float32)
    """
    with tf.variable_scope(scope, "softmax", [logits]):
        logits = tf.convert_to_tensor(logits)
        classes = last_dimension(logits.shape, min_rank=2)
        predictions = tf.reshape(tf.nn.softmax(tf.reshape(logits, [-1, classes])), tf.shape(logits))
        if not context.executing_eagerly():
            predictions.set_shape(logits.shape)
        return predictions


@layer("dense_to_sparse")
def dense_to_sparse(tensor: Any, eos_token: Any = 0, outputs_collections: Any = None, scope: Any = None) -> Any:
    """A sparse tensor of the elements that are not `eos_token`."""
    with tf.variable_scope(scope, "dense_to_sparse", [tensor]) as sc:
        tensor = tf.convert_to_tensor(tensor)
        indices = tf.where(tf.not_equal(tensor, tf.constant(eos_token, tensor.dtype)))
        outputs = tf.SparseTensor(indices, tf.gather_nd(tensor, indices), tf.shape(tensor, out_type=tf.int64))
        return collect_named_outputs(outputs_collections, sc.name, outputs)


@layer("images_to_sequence")
def images_to_sequence(inputs: Any, data_format: str = "NHWC", outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """Images as sequences along their width, [width, batch * height, channels]."""
    check_format(data_format)
    with tf.name_scope(scope, "ImagesToSequence", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        if data_format == "NCHW":
            inputs = tf.transpose(inputs, [0, 2, 3, 1])
        _, _, width, depth = inputs.shape.as_list()
        size = tf.shape(inputs)
        outputs = tf.reshape(tf.transpose(inputs, [2, 0, 1, 3]), [width, size[0] * size[1], depth])
        return collect_named_outputs(outputs_collections, sc, outputs)


@layer("sequence_to_images")
def sequence_to_images(inputs: Any, height: int, output_data_format: str = "channels_last", outputs_collections: Any = None,
                       scope: Any = None) -> Tensor:
    """The inverse of `images_to_sequence`."""
    with tf.name_scope(scope, "SequenceToImages", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        width, rows, depth = inputs.shape.as_list()
        reshaped = tf.reshape(inputs, [width, -1 if rows is None else rows // height, height, depth])
        order = [1, 3, 2, 0] if output_data_format == "channels_first" else [1, 2, 0, 3]
        return collect_named_outputs(outputs_collections, sc, tf.transpose(reshaped, order))


@layer("spatial_softmax")
def spatial_softmax(features: Any, temperature: float | None = None, name: str | None = None, variables_collections: Any = None,
                    trainable: bool = True, data_format: str = "NHWC") -> Tensor:
    """The mean position, by softmax weights, of each channel in the image: [batch, channels * 2]."""
    check_format(data_format)
    with tf.variable_scope(name, "spatial_softmax"):
        features = tf.convert_to_tensor(features)
        if data_format == "NHWC":
            features = tf.transpose(features, [0, 3, 1, 2])
        channels = features.shape.dims[1].value
        if channels is None:
            raise ValueError("The num_channels dimension of the inputs to `spatial_softmax` should be defined. Found `None`.")
        height, width = tf.shape(features)[2], tf.shape(features)[3]
        x, y = tf.meshgrid(tf.linspace(-1.0, 1.0, height), tf.linspace(-1.0, 1.0, width), indexing="ij")
        initializer = tf.ones_initializer() if temperature is None else tf.constant_initializer(temperature)
        heat = weight("temperature", "temperature", (), tf.float32, initializer, None,
                      variables_collections if trainable else None, trainable)
        attention = tf.nn.softmax(tf.reshape(features, [-1, height * width]) / heat)
        means = [tf.reduce_sum(tf.reshape(p, [-1]) * attention, [1], keepdims=True) for p in (x, y)]
        points = tf.reshape(tf.concat(means, 1), [-1, channels * 2])
        points.set_shape([None, channels * 2])
        return points


@layer("unit_norm")
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: Any = None) -> Tensor:
    """Divides by the norm along an axis."""
    with tf.variable_scope(scope, "UnitNorm", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if not rank:
            raise ValueError("The input rank must be known.")
        if dim < 0 or dim >= rank:
            raise ValueError(f"dim must be positive but smaller than the input rank, got {dim} of {rank}")
        return inputs / tf.sqrt(epsilon + tf.reduce_sum(tf.square(inputs), dim, keepdims=True))


@layer("maxout")
def maxout(inputs: Any, num_units: int, axis: int = -1, scope: Any = None) -> Tensor:
    """The largest of each group of channels, `num_units` groups."""
    with tf.variable_scope(scope, "MaxOut", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        channels = inputs.shape.as_list()[axis]
        if channels % num_units:
            raise ValueError(f"number of features({channels}) is not a multiple of num_units({num_units})")
        axis = axis % inputs.shape.ndims
        shape = tf.concat([tf.shape(inputs)[:axis], [num_units, channels // num_units], tf.shape(inputs)[axis + 1:]], 0)
        outputs = tf.reduce_max(tf.reshape(inputs, shape), axis + 1)
        outputs.set_shape([*inputs.shape.as_list()[:axis], num_units, *inputs.shape.as_list()[axis + 1:]])
        return outputs


@public("scale_gradient")
def scale_gradient(inputs: Any, gradient_multiplier: Any) -> Tensor:
    """The inputs, with gradients that are multiplied on their way back."""
    @tf.custom_gradient
    def scaled(x: Tensor) -> Any:
        return tf.identity(x), lambda dy: dy * tf.cast(gradient_multiplier, dy.dtype)
    return scaled(tf.convert_to_tensor(inputs))


@public("poincare_normalize")
def poincare_normalize(x: Any, axis: Any = 1, epsilon: float = 1e-5, name: str | None = None) -> Tensor:
    """Pulls points into the open unit ball, along an axis."""
    with tf.name_scope(name, "poincare_normalize", [x]):
        x = tf.convert_to_tensor(x)
        norm = tf.sqrt(tf.maximum(tf.reduce_sum(tf.square(x), axis, keepdims=True), 1e-12))
        return x * tf.minimum((1.0 - epsilon) / norm, 1.0)
