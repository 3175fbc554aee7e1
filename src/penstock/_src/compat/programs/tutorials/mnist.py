"""`tensorflow.examples.tutorials.mnist.mnist`: a network with two hidden layers, its loss, training and evaluation."""
from __future__ import annotations

import math
from typing import Any

import penstock.compat.v1 as tf

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def _layer(name: str, inputs: Any, size: int) -> Any:
    count = int(inputs.shape[1])
    with tf.name_scope(name):
        weights = tf.Variable(tf.truncated_normal([count, size], stddev=1.0 / math.sqrt(count)), name="weights")
        biases = tf.Variable(tf.zeros([size]), name="biases")
        return tf.matmul(inputs, weights) + biases


def inference(images: Any, hidden1_units: int, hidden2_units: int) -> Any:
    """The logits of images."""
    hidden = tf.nn.relu(_layer("hidden1", images, hidden1_units))
    hidden = tf.nn.relu(_layer("hidden2", hidden, hidden2_units))
    return _layer("softmax_linear", hidden, NUM_CLASSES)


def loss(logits: Any, labels: Any) -> Any:
    """The mean cross-entropy."""
    return tf.losses.sparse_softmax_cross_entropy(labels=tf.cast(labels, tf.int64), logits=logits)


def training(loss: Any, learning_rate: float) -> Any:
    """An op for one step of gradient descent, which counts the steps and summarizes the loss."""
    tf.summary.scalar("loss", loss)
    step = tf.Variable(0, name="global_step", trainable=False)
    return tf.train.GradientDescentOptimizer(learning_rate).minimize(loss, global_step=step)


def evaluation(logits: Any, labels: Any) -> Any:
    """The number of correctly classified images."""
    return tf.reduce_sum(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.int32))
