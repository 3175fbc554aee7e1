"""Random numbers whose place only the device knows, and the kernels that draw them, compiled for the host by a C++ compiler."""
import ctypes
import shutil

import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.kernels import device_philox, draws, philox
from penstock._src.ops.random import stateful_random
from tests.kernels.cuda_on_host import compiled

HIGH = (1 << 64) - 3                       # the counter's lower half overflows
PLACES = [(0, 0, 0), (0x0123456789ABCDEF, 7, 11), ((1 << 64) - 1, 5, HIGH)]
KINDS = {"words": [torch.int64], "uniform": [torch.float32, torch.float16, torch.bfloat16],
         "normal": [torch.float32, torch.float16, torch.bfloat16]}


def signed(place):
    return [torch.tensor(philox.signed(p)) for p in place]


def filled(kind, place, count, dtype, as_tensors, folder):
    """What the kernel writes."""
    library = compiled(device_philox.source(kind, dtype) + f"""
extern "C" void run(void *out, long long count, u64 key, u64 high, u64 low, const i64 *k, const i64 *h, const i64 *l) {{
    for (blockIdx.x = 0; blockIdx.x * 1024 < count; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < 256; ++threadIdx.x)
            {kind}(({'long long' if kind == 'words' else device_philox.NAMES[dtype]} *)out, count, key, high, low, k, h, l);
}}""", folder)
    out, held = torch.full((count,), 7, dtype=dtype), signed(place)
    known = [ctypes.c_void_p(t.data_ptr() if as_tensors else None) for t in held]
    values = [ctypes.c_ulonglong(0 if as_tensors else p) for p in place]
    library.run(ctypes.c_void_p(out.data_ptr()), ctypes.c_longlong(count), *values, *known)
    return out


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("kind, dtype", [(k, t) for k, types in KINDS.items() for t in types], ids=str)
def test_kernels_draw_the_numbers_of_the_host(kind, dtype, tmp_path):
    for place in PLACES:
        here = philox.Philox(place[0], place[1] << 64 | place[2])
        count = 1028 if kind == "words" else 1031
        made = filled(kind, place, count, dtype, place is PLACES[1], tmp_path)
        if kind == "words":
            assert torch.equal(made.view(-1, 4), here.words(count // 4))
        elif kind == "uniform":
            assert torch.equal(made, philox.uniform(here, count, dtype))
        else:
            torch.testing.assert_close(made, philox.normal(here, count, dtype), rtol=2e-5 if dtype is torch.float32 else 1e-2,
                                       atol=1e-5)


@pytest.mark.parametrize("place", PLACES[:2])
def test_a_place_on_the_device_has_the_words_of_the_host(place):
    key, high, low = signed(place)
    here = philox.Philox(place[0], place[1] << 64 | place[2])
    assert torch.equal(draws.OnDevice(key, high, low).words(9), here.words(9))
    assert torch.equal(draws.OnDevice(place[0], place[1], low).words(9), here.words(9))


@pytest.mark.parametrize("seed", [(0, 0), (1, 2), (-5, 1 << 40)])
def test_seeds_on_the_device_are_scrambled_as_on_the_host(seed):
    made = draws.OnDevice.scrambled(torch.tensor(seed))
    assert torch.equal(made.words(5), philox.Philox.scrambled(*seed).words(5))


@pytest.mark.parametrize("low", [0, 1 << 62, -3, -256, (1 << 63) - 1])
def test_a_generator_advances_on_the_device_as_on_the_host(low):
    class Held:
        def __init__(self):
            self.value = torch.tensor([low, 5, -9])

        def assign(self, value):
            self.value = value
    expected, found = Held(), Held()
    here = philox.Philox(-9 & (1 << 64) - 1, 5 << 64 | low & (1 << 64) - 1).skip(3 * philox.RESERVED).counter
    position = stateful_random._advance_on_device(found, expected.value.clone(), 3)
    assert found.value.tolist() == [philox.signed(here & (1 << 64) - 1), here >> 64, -9]
    assert torch.equal(position.words(2), philox.Philox(-9 & (1 << 64) - 1, 5 << 64 | low & (1 << 64) - 1).words(2))


def drawn(device):
    """Numbers of generators, of seeds that are computed, and of ops with seeds, over some steps of a function."""
    tf.random.set_seed(3)
    with tf.device(device):
        g = tf.random.Generator.from_seed(7)

        @tf.function
        def step(i, x):
            seed = tf.stack([i, i * 3])
            y = [g.normal([5]), g.uniform([3], dtype=tf.float16), tf.random.stateless_uniform([6], seed),
                 tf.random.stateless_normal([4], seed), tf.nn.dropout(x, 0.5, seed=5), tf.random.normal([3], seed=1),
                 g.uniform([4], 0, 10, tf.int64)]
            return [tf.cast(v, tf.float32) for v in y], tf.reduce_sum(x * x)
        x = tf.ones([32])
        return [[v.numpy() for v in step(tf.constant(i, tf.int64), x)[0]] for i in range(8)]


@pytest.mark.gpu
@pytest.mark.parametrize("tier", ["1", "2", "wait"])
def test_steps_on_a_gpu_draw_the_same_numbers(tier, monkeypatch):
    monkeypatch.setenv("PENSTOCK_TIER", tier)
    for found, expected in zip(drawn("GPU:0"), drawn("CPU:0"), strict=True):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
