"""The four convolutional networks of the TensorFlow paper's Table 1, as descriptions.

AlexNet-OWT and Overfeat-fast with batches of 128, VGG-A with 64, GoogLeNet-v1 with 128: without dropout, local response
normalization and auxiliary heads, as in the convnet benchmarks that the table was taken from.
"""
from __future__ import annotations

from typing import NamedTuple


class Conv(NamedTuple):
    """A square convolution with bias and ReLU."""
    channels: int
    size: int
    stride: int = 1
    pad: int = 0


class Pool(NamedTuple):
    """A max pool."""
    size: int
    stride: int
    pad: int = 0


class Inception(NamedTuple):
    """Four towers side by side: 1x1, 3x3, 5x5 and a pool; `_in` are the 1x1 convolutions before them."""
    one: int
    three_in: int
    three: int
    five_in: int
    five: int
    pool: int


class Network(NamedTuple):
    """What is convolved, and the widths of the dense layers after it."""
    batch: int
    image: int
    layers: list
    dense: list[int]


NETWORKS = {
    "alexnet": Network(128, 224, [
        Conv(64, 11, 4, 2), Pool(3, 2), Conv(192, 5, 1, 2), Pool(3, 2), Conv(384, 3, 1, 1), Conv(256, 3, 1, 1),
        Conv(256, 3, 1, 1), Pool(3, 2)], [4096, 4096, 1000]),
    "overfeat": Network(128, 231, [
        Conv(96, 11, 4), Pool(2, 2), Conv(256, 5), Pool(2, 2), Conv(512, 3, 1, 1), Conv(1024, 3, 1, 1),
        Conv(1024, 3, 1, 1), Pool(2, 2)], [3072, 4096, 1000]),
    "vgga": Network(64, 224, [
        Conv(64, 3, 1, 1), Pool(2, 2), Conv(128, 3, 1, 1), Pool(2, 2), Conv(256, 3, 1, 1), Conv(256, 3, 1, 1), Pool(2, 2),
        Conv(512, 3, 1, 1), Conv(512, 3, 1, 1), Pool(2, 2), Conv(512, 3, 1, 1), Conv(512, 3, 1, 1), Pool(2, 2)],
        [4096, 4096, 1000]),
    "googlenet": Network(128, 224, [
        Conv(64, 7, 2, 3), Pool(3, 2, 1), Conv(64, 1), Conv(192, 3, 1, 1), Pool(3, 2, 1),
        Inception(64, 96, 128, 16, 32, 32), Inception(128, 128, 192, 32, 96, 64), Pool(3, 2, 1),
        Inception(192, 96, 208, 16, 48, 64), Inception(160, 112, 224, 24, 64, 64), Inception(128, 128, 256, 24, 64, 64),
        Inception(112, 144, 288, 32, 64, 64), Inception(256, 160, 320, 32, 128, 128), Pool(3, 2, 1),
        Inception(256, 160, 320, 32, 128, 128), Inception(384, 192, 384, 48, 128, 128)], [1000]),
}
