"""Kernels that read and add rows by index, compiled for the host by a C++ compiler, and on a GPU."""
import ctypes
import shutil

import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.kernels import device_rows
from tests.kernels.cuda_on_host import compiled

NAMES = {torch.int32: "int", torch.int64: "long long"}
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")


def run(library, name, arrays, numbers, total):
    library.run(*[ctypes.c_void_p(a.data_ptr()) for a in arrays], *map(ctypes.c_longlong, numbers),
                ctypes.c_uint(-(-total // 256)))


def driver(source, name, arguments, given):
    return source + f"""
extern "C" void run({arguments}, i64 a, i64 b, i64 c, i64 d, u32 blocks) {{
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < 256; ++threadIdx.x) {name}({given});
}}"""


@needs_compiler
@pytest.mark.parametrize("index", NAMES, ids=str)
@pytest.mark.parametrize("piece, width", [(16, 48), (8, 8), (4, 12), (2, 6), (1, 5)])
def test_gather(piece, width, index, tmp_path):
    draw = torch.Generator().manual_seed(0)
    outer, size, count = 3, 7, 401
    table = torch.randint(0, 255, (outer, size, width), dtype=torch.uint8, generator=draw)
    indices = torch.randint(-3, size + 3, (count,), dtype=index, generator=draw)
    out = torch.full((outer, count, width), 7, dtype=torch.uint8)
    text = driver(device_rows.gather_source(piece, index), "gather", f"void *o, void *t, {NAMES[index]} *i",
                  f"(Piece<{piece}> *)o, (Piece<{piece}> *)t, i, a, b, c, d")
    total = outer * count * width // piece
    run(compiled(text, tmp_path), "gather", [out, table, indices], [total, count, width // piece, size], total)
    good = (indices >= 0) & (indices < size)
    expected = torch.where(good[None, :, None], table[:, indices.clamp(0, size - 1).long()], 0)
    assert torch.equal(out, expected)


@needs_compiler
@pytest.mark.parametrize("index", NAMES, ids=str)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
def test_add(kind, index, tmp_path):
    draw = torch.Generator().manual_seed(0)
    rows, size = torch.randn(300, 3, dtype=kind, generator=draw), 11
    indices = torch.randint(-2, size + 2, (300,), dtype=index, generator=draw)
    out = torch.ones(size, 3, dtype=kind)
    name = device_rows._ADDED[kind]
    text = driver(device_rows.add_source(kind, index), "add", f"{name} *o, {name} *r, {NAMES[index]} *i", "o, r, i, a, b, c")
    run(compiled(text, tmp_path), "add", [out, rows, indices], [rows.numel(), 3, size, 0], rows.numel())
    good = (indices >= 0) & (indices < size)
    expected = torch.ones(size, 3, dtype=kind).index_add_(0, indices[good].long(), rows[good])
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.int64, tf.bool])
def test_a_gpu_agrees_with_the_host(dtype):
    draw = np.random.RandomState(0)
    table, indices = tf.cast(draw.randn(5, 20, 3) * 4, dtype), draw.randint(0, 20, [4, 50])

    def found(device):
        with tf.device(device):
            out = [tf.gather(tf.identity(table), tf.constant(indices, t), axis=axis) for t in (tf.int32, tf.int64)
                   for axis in (0, 1, 2) if indices.max() < table.shape[axis]]
            if dtype.is_floating:
                out += [tf.math.unsorted_segment_sum(tf.identity(table), tf.constant(draw_ids, t), 9)
                        for t in (tf.int32, tf.int64)]
                v = tf.Variable(tf.zeros([20, 3], dtype))
                v.scatter_add(tf.IndexedSlices(tf.ones([50, 3], dtype), tf.constant(indices[0])))
                out.append(v.read_value())
            return [x.numpy() for x in out]
    draw_ids = draw.randint(-2, 9, [5, 20])
    for a, b in zip(found("GPU:0"), found("CPU:0"), strict=True):
        np.testing.assert_allclose(a.astype("f8"), b.astype("f8"), rtol=1e-2 if dtype is tf.float16 else 1e-5, atol=1e-4)
