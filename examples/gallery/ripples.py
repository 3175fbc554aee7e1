"""Rain on a pond: a wave equation whose Laplacian is a convolution, in one `tf.function` with a loop.

    python examples/gallery/ripples.py picture.png
"""
import sys
from typing import Any

import numpy as np
from PIL import Image

import penstock as tf

KERNEL = tf.constant([[0.5, 1.0, 0.5], [1.0, -6.0, 1.0], [0.5, 1.0, 0.5]])[..., None, None]


@tf.function
def simulate(height: Any, speed: Any, steps: Any) -> Any:
    """The height of the water after a number of steps."""
    for _ in tf.range(steps):
        bend = tf.nn.conv2d(height[None, ..., None], KERNEL, 1, "SAME")[0, ..., 0]
        height, speed = height + 0.03 * speed, speed + 0.03 * (bend - 0.04 * speed)
    return height


def picture(size: int = 360, steps: int = 900) -> Any:
    """Twenty-five drops, some time later."""
    draw = np.random.RandomState(0)
    height = np.zeros((size, size), np.float32)
    y, x = np.mgrid[:size, :size]
    for a, b, force in draw.rand(25, 3):
        height += 4 * force * np.exp(-((y - size * a) ** 2 + (x - size * b) ** 2) / 18)
    found = simulate(tf.constant(height), tf.zeros([size, size]), tf.constant(steps)).numpy()
    slope = np.clip(128 + 600 * (found - np.roll(found, 2, (0, 1))), 0, 255)
    return Image.fromarray(np.stack([slope * 0.55, slope * 0.8, 60 + slope * 0.75], -1).astype(np.uint8))


if __name__ == "__main__":
    picture().save(sys.argv[1])
