"""The Mandelbrot set by a graph: variables, a step of three assignments, and a session that runs it.

    python examples/gallery/mandelbrot.py picture.png
"""
import sys
from typing import Any

import numpy as np
from PIL import Image

import penstock.compat.v1 as tf


def counts(width: int = 720, height: int = 400, iterations: int = 80) -> Any:
    """How many iterations each point of the plane stays within the circle of radius 2."""
    y, x = np.mgrid[-1.2:1.2:height * 1j, -2.6:1.72:width * 1j]
    with tf.Graph().as_default(), tf.Session() as session:
        points = tf.constant((x + 1j * y).astype(np.complex64))
        z = tf.Variable(tf.zeros_like(points))
        count = tf.Variable(tf.zeros([height, width]))
        z_next = z * z + points
        stays = tf.abs(z_next) < 2.0
        step = tf.group(tf.assign(z, tf.where(stays, z_next, z)), tf.assign_add(count, tf.cast(stays, tf.float32)))
        session.run(tf.global_variables_initializer())
        for _ in range(iterations):
            session.run(step)
        return session.run(count)


def picture() -> Any:
    """The counts as colours."""
    found = counts()[..., None]
    light = np.log1p(found) / np.log(81)
    shades = np.concatenate([255 * light**4, 255 * light**1.7, 90 + 150 * np.sin(2.6 * light)], 2)
    return Image.fromarray(np.uint8(np.where(found == 80, 0, np.clip(shades, 0, 255))))


if __name__ == "__main__":
    picture().save(sys.argv[1])
