"""The values that penstock and TensorFlow exchange in files; both sides import this, so it imports neither."""
from __future__ import annotations

import numpy as np

DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "bool", "complex64", "complex128"]
RECORDS = [b"", b"a", b"\x00" * 5000, bytes(range(256)) * 300]
EXAMPLE = {"b": ("bytes_list", [b"x", b""]), "f": ("float_list", [0.5, -1.0]), "i": ("int64_list", [1 << 40, -3])}


def array(dtype, shape=(2, 3)):
    """Some numbers of a dtype, always the same."""
    data = np.arange(int(np.prod(shape))).reshape(shape) % 7
    if dtype == "bool":
        return data % 2 == 0
    if dtype == "bfloat16":
        import ml_dtypes
        return data.astype(ml_dtypes.bfloat16)
    return (data * (1 + 2j) if dtype.startswith("complex") else data).astype(dtype)


LARGE = ["part0", "part1", "part2", "part3"]            # a gigabyte in all


def large(name):
    """One of the four: 2 ** 26 float32, different in each."""
    return (np.arange(1 << 26, dtype=np.uint32) * np.uint32(2654435761 + LARGE.index(name))).view(np.float32)


def same_bits(a, b):
    """Whether two large arrays are equal bit by bit."""
    return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a.view(np.uint32), b.view(np.uint32))


def same(a, b):
    """Whether two arrays are equal, text and bfloat16 too."""
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.tolist() == b.tolist()


def frozen_graph(v1):
    """A small convolutional classifier with constants for weights, in the default graph of a v1 API; its output."""
    rng = np.random.RandomState(3)
    x = v1.placeholder(v1.float32, [None, 8, 8, 3], name="x")
    h = v1.nn.conv2d(x, v1.constant(rng.randn(3, 3, 3, 8).astype(np.float32)), strides=[1, 2, 2, 1], padding="SAME")
    h = v1.nn.relu(v1.nn.bias_add(h, v1.constant(rng.randn(8).astype(np.float32))))
    h = v1.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    h = v1.matmul(v1.reshape(h, [-1, 32]), v1.constant(rng.randn(32, 5).astype(np.float32)))
    return v1.nn.softmax(h, name="y")
