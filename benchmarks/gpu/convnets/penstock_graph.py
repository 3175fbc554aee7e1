"""The networks as TF1 programs."""
from __future__ import annotations

import math
import statistics
from typing import Any

import penstock.compat.v1 as tf
from benchmarks.gpu import measuring
from benchmarks.gpu.convnets.networks import NETWORKS, Conv, Inception, Pool


def variable(name: str, shape: list[int], dtype: Any) -> Any:
    """A float32 variable, read as `dtype`."""
    scale = 1 / math.sqrt(max(math.prod(shape[:-1]), 1))
    init = tf.random_normal_initializer(stddev=scale) if len(shape) > 1 else tf.zeros_initializer()
    return tf.cast(tf.get_variable(name, shape, tf.float32, init), dtype)


def conv(x: Any, layer: Conv, name: str) -> Any:
    """Convolution, bias, ReLU."""
    with tf.variable_scope(name):
        w = variable("w", [layer.size, layer.size, x.shape[-1].value, layer.channels], x.dtype)
        pad = [[0, 0], [layer.pad] * 2, [layer.pad] * 2, [0, 0]]
        y = tf.nn.conv2d(x, w, strides=[1, layer.stride, layer.stride, 1], padding=pad)
        return tf.nn.relu(tf.nn.bias_add(y, variable("b", [layer.channels], x.dtype)))


def pool(x: Any, layer: Pool) -> Any:
    """Max pool. Where the original pads, SAME produces the same sizes."""
    return tf.nn.max_pool(x, [1, layer.size, layer.size, 1], [1, layer.stride, layer.stride, 1],
                          "SAME" if layer.pad else "VALID")


def inception(x: Any, layer: Inception, name: str) -> Any:
    """The four towers, concatenated."""
    with tf.variable_scope(name):
        return tf.concat([
            conv(x, Conv(layer.one, 1), "one"),
            conv(conv(x, Conv(layer.three_in, 1), "three_in"), Conv(layer.three, 3, 1, 1), "three"),
            conv(conv(x, Conv(layer.five_in, 1), "five_in"), Conv(layer.five, 5, 1, 2), "five"),
            conv(pool(x, Pool(3, 1, 1)), Conv(layer.pool, 1), "pool")], axis=-1)


def build(name: str, dtype: Any = tf.float32) -> tuple[Any, Any]:
    """The graph of one network, on data that is already on the device: (training op, loss)."""
    network = NETWORKS[name]
    x = tf.get_variable("images", [network.batch, network.image, network.image, 3], dtype,
                        tf.random_normal_initializer(dtype=dtype), trainable=False)
    labels = tf.get_variable("labels", [network.batch], tf.int64, tf.zeros_initializer(), trainable=False)
    for i, layer in enumerate(network.layers):
        x = pool(x, layer) if isinstance(layer, Pool) else \
            (conv if isinstance(layer, Conv) else inception)(x, layer, f"layer{i}")
    if name == "googlenet":
        x = tf.reduce_mean(x, [1, 2])
    x = tf.reshape(x, [network.batch, -1])
    for i, width in enumerate(network.dense):
        with tf.variable_scope(f"dense{i}"):
            x = tf.nn.bias_add(tf.matmul(x, variable("w", [x.shape[-1].value, width], x.dtype)),
                               variable("b", [width], x.dtype))
            x = tf.nn.relu(x) if i < len(network.dense) - 1 else x
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.cast(x, tf.float32))
    loss = tf.reduce_mean(losses)
    return tf.train.GradientDescentOptimizer(1e-3).minimize(loss), loss


def step_time(name: str, precision: str) -> float:
    """Milliseconds of a training step on the GPU."""
    tf.disable_v2_behavior()
    tf.config.experimental.enable_tensor_float_32_execution(precision != "fp32")
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        train, loss = build(name, tf.bfloat16 if precision == "bf16" else tf.float32)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            step, last = session.make_callable(train), tf.trainable_variables()[-1]
            times = measuring.rounds_of(step, lambda: session.run(last), rounds=10, steps=5, warm=8)
            if not math.isfinite(session.run(loss)):
                raise ValueError(f"the loss of {name} is {session.run(loss)}")
    return statistics.median(times)
