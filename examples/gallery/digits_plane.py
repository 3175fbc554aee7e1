"""A map of the digits: stochastic neighbours in the plane, by gradients that `tf.gradients` derives in a 1.x graph.

    python examples/gallery/digits_plane.py picture.png
"""
import sys
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

import penstock.compat.v1 as tf
from penstock import digits

COLORS = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"]


def neighbours(x: Any, width: float = 9.0) -> Any:
    """How likely each picture is to take each other one for its neighbour."""
    distances = ((x[:, None] - x[None]) ** 2).sum(-1)
    p = np.exp(-distances / (2 * width**2)) * (1 - np.eye(len(x)))
    p = p / p.sum(1, keepdims=True)
    return ((p + p.T) / (2 * len(x))).astype(np.float32)


def layout(p: Any, steps: int = 600) -> Any:
    """Places in the plane whose neighbours are alike."""
    count = len(p)
    with tf.Graph().as_default(), tf.Session() as session:
        place = tf.Variable(1e-2 * np.random.RandomState(0).randn(count, 2).astype(np.float32))
        speed = tf.Variable(tf.zeros([count, 2]))
        strength = tf.placeholder(tf.float32, [])
        squares = tf.reduce_sum(place**2, 1)
        near = 1.0 / (1.0 + squares[:, None] + squares[None] - 2.0 * tf.matmul(place, place, transpose_b=True))
        near *= 1.0 - tf.eye(count)
        q = near / tf.reduce_sum(near)
        loss = -tf.reduce_sum(tf.constant(p) * strength * tf.log(q + 1e-9))
        gradient, = tf.gradients(loss, place)
        with tf.control_dependencies([tf.assign(speed, 0.8 * speed - count / 4 * gradient)]):
            step = tf.assign_add(place, speed)
        session.run(tf.global_variables_initializer())
        for i in range(steps):
            session.run(step.op, {strength: 4.0 if i < 100 else 1.0})
        return session.run(place)


def picture(count: int = 900, size: int = 480) -> Any:
    """The first digits, each as a dot in the colour of its class."""
    (images, labels), _ = digits.load()
    x = images[:count].reshape(count, -1).astype(np.float32)
    where = layout(neighbours(x / x.max() * 16))
    where = (where - where.min(0)) / (where.max(0) - where.min(0)) * (size - 30) + 15
    image = Image.new("RGB", (size, size), "white")
    draw = ImageDraw.Draw(image)
    for (a, b), label in zip(where, labels):
        draw.text((a - 3, b - 5), str(label), fill=COLORS[label])
    return image


if __name__ == "__main__":
    picture().save(sys.argv[1])
