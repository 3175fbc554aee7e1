"""Fully connected layers, bias, dropout, and layers repeated or put on top of each other."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from penstock._src.compat.contrib.layers.initializers import xavier_initializer
from penstock._src.compat.contrib.layers.support import (
    check_format,
    collect_named_outputs,
    finish,
    last_dimension,
    layer,
    public,
    smart_cond,
    weight,
)
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf

_XAVIER, _ZEROS = xavier_initializer(), tf.zeros_initializer()


@layer("fully_connected")
def fully_connected(inputs: Any, num_outputs: int, activation_fn: Any = tf.nn.relu, normalizer_fn: Any = None,
                    normalizer_params: Any = None, weights_initializer: Any = _XAVIER, weights_regularizer: Any = None,
                    biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
                    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
                    scope: Any = None) -> Tensor:
    """`activation_fn(inputs * weights + biases)` along the last axis; with a normalizer instead of the biases, if there is
    one.

    Args:
        inputs: Tensor of at least two dimensions; the last one must be known.
        num_outputs: Number of outputs of each example.
        activation_fn: Function applied to the result, or None for a linear layer.
        normalizer_fn: Function, such as `batch_norm`, applied instead of a bias.
        normalizer_params: Arguments of `normalizer_fn`.
        weights_initializer: Initializer of the weights.
        weights_regularizer: Function of the weights whose result is added to the losses.
        biases_initializer: Initializer of the biases; None for a layer without.
        biases_regularizer: Function of the biases whose result is added to the losses.
        reuse: Whether to use the variables of an earlier layer of this name: True, False, or `tf.AUTO_REUSE`.
        variables_collections: Collections that variables are added to: a list, or a dictionary of lists by the name of a
            variable.
        outputs_collections: Collections that the result is added to.
        trainable: Whether the variables are added to the collection of trainable variables.
        scope: Prefix of the names of the layer's variables and operations.

    Returns:
        A tensor like `inputs` with `num_outputs` in its last dimension.

    >>> with tf.Graph().as_default():
    ...     hidden = tf.contrib.layers.fully_connected(tf.ones([2, 3]), 4)
    >>> hidden.shape
    TensorShape([2, 4])
    """
    if not isinstance(num_outputs, int):
        raise ValueError(f"num_outputs type should be one of [<class 'int'>], got {type(num_outputs)}.")
    with tf.variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        dtype, depth, rank = inputs.dtype.base_dtype, last_dimension(inputs.shape, min_rank=2), inputs.shape.ndims
        weights = weight("weights", "weights", [depth, num_outputs], dtype, weights_initializer, weights_regularizer,
                         variables_collections, trainable)
        outputs = tf.matmul(inputs, weights) if rank == 2 else tf.tensordot(inputs, weights, [[rank - 1], [0]])
        outputs.set_shape([*inputs.shape.as_list()[:-1], num_outputs])
        if normalizer_fn is not None:
            outputs = normalizer_fn(outputs, **normalizer_params or {})
        elif biases_initializer is not None:
            outputs = tf.nn.bias_add(outputs, weight("biases", "biases", [num_outputs], dtype, biases_initializer,
                                                     biases_regularizer, variables_collections, trainable))
        return finish(outputs, activation_fn, outputs_collections, sc.name)


public("relu")(functools.partial(fully_connected, activation_fn=tf.nn.relu))
public("relu6")(functools.partial(fully_connected, activation_fn=tf.nn.relu6))
public("elu")(functools.partial(fully_connected, activation_fn=tf.nn.elu))
public("linear")(functools.partial(fully_connected, activation_fn=None))
public("legacy_linear")(functools.partial(fully_connected, activation_fn=None))
public("legacy_relu")(functools.partial(fully_connected, activation_fn=tf.nn.relu))
public("legacy_fully_connected")(fully_connected)


@layer("bias_add")
def bias_add(inputs: Any, activation_fn: Any = None, initializer: Any = _ZEROS, regularizer: Any = None, reuse: Any = None,
             variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
             data_format: str = "NHWC", scope: Any = None) -> Tensor:
    """Adds a variable to each channel."""
    check_format(data_format)
    with tf.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        if inputs.shape.ndims is None:
            raise ValueError("Dims of shape must be known but is None")
        if inputs.shape.ndims != 4 and data_format == "NCHW":
            raise ValueError("NCHW needs a tensor of rank 4")
        channels = inputs.shape.dims[1 if data_format == "NCHW" else -1].value
        if channels is None:
            raise ValueError("`C` dimension must be known but is None")
        biases = weight("biases", "biases", [channels], inputs.dtype.base_dtype, initializer, regularizer,
                        variables_collections, trainable)
        return finish(tf.nn.bias_add(inputs, biases, data_format=data_format), activation_fn, outputs_collections, sc.name)


@layer("dropout")
def dropout(inputs: Any, keep_prob: Any = 0.5, noise_shape: Any = None, is_training: Any = True,
            outputs_collections: Any = None, scope: Any = None, seed: int | None = None) -> Tensor:
    """Keeps each element with probability `keep_prob`, in training.

    Args:
        inputs: Tensor.
        keep_prob: Probability that an element is kept. Kept ones are divided by it.
        noise_shape: Shape of the random mask, which broadcasts to that of `inputs`.
        is_training: Whether the layer is used for training: a boolean, or a tensor of one.
        outputs_collections: Collections that the result is added to.
        scope: Prefix of the names of the layer's variables and operations.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.

    Returns:
        A tensor of the shape of `inputs`.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     print(sess.run(tf.contrib.slim.dropout(tf.ones([3]), keep_prob=0.8, is_training=False)))
    [1. 1. 1.]
    """
    with tf.variable_scope(scope, "Dropout", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        outputs = smart_cond(is_training, lambda: tf.nn.dropout(inputs, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed),
                             lambda: tf.identity(inputs))
        return collect_named_outputs(outputs_collections, sc.name, outputs)


def _name_of(function: Any, default: str) -> str:
    return getattr(function, "__name__", None) or getattr(getattr(function, "func", None), "__name__", default)


@public("repeat")
def repeat(inputs: Any, repetitions: int, layer: Callable, *args: Any, **kwargs: Any) -> Tensor:
    """Applies a layer several times, in scopes with numbers.

    >>> tf.contrib.layers.repeat(x, 3, tf.contrib.layers.conv2d, 64, [3, 3], scope="conv1")
    """
    scope = kwargs.pop("scope", None)
    with tf.variable_scope(scope, "Repeat", [inputs]):
        outputs = tf.convert_to_tensor(inputs)
        name = _name_of(layer, "repeat") if scope is None else scope
        for i in range(repetitions):
            outputs = layer(outputs, *args, **{**kwargs, "scope": f"{name}_{i + 1}"})
        return outputs


@public("stack")
def stack(inputs: Any, layer: Callable, stack_args: Any, **kwargs: Any) -> Tensor:
    """Applies a layer once for each of a list of arguments.

    >>> tf.contrib.layers.stack(x, tf.contrib.layers.fully_connected, [32, 64, 128], scope="fc")
    """
    scope = kwargs.pop("scope", None)
    if not isinstance(stack_args, (list, tuple)):
        raise ValueError("stack_args need to be a list or tuple")
    with tf.variable_scope(scope, "Stack", [inputs]):
        outputs = tf.convert_to_tensor(inputs)
        name = _name_of(layer, "stack") if scope is None else scope
        for i, args in enumerate(stack_args):
            args = args if isinstance(args, (list, tuple)) else [args]
            outputs = layer(outputs, *args, **{**kwargs, "scope": f"{name}_{i + 1}"})
        return outputs
