"""Random steps: the compiled version returns what separate ops return, and leaves the same variables.

On the host the traced graphs run as they are; with the marker `gpu`, Inductor compiles them, and CUDA graphs replay them.
"""
import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.step.tiers import inductor, tiers

SHAPES = [(4, 6), (4, 1), (1, 6), (6,), (), (0, 6), (3, 4, 6)]
UNARY = [tf.tanh, tf.abs, tf.nn.relu, tf.exp, lambda x: x * 0.5, tf.math.rsqrt, tf.math.log, tf.square, tf.sign,
         tf.math.cumsum, lambda x: tf.cast(tf.cast(x, tf.bfloat16), x.dtype), tf.stop_gradient, tf.identity]
BINARY = [tf.add, tf.subtract, tf.multiply, tf.maximum, tf.divide, lambda a, b: tf.where(a > b, a, b),
          lambda a, b: tf.cast(a >= b, a.dtype), tf.math.squared_difference]
REDUCE = [tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_logsumexp]


def joined(a, b, op):
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return None
    return op(a, b)


def made(seed, dtype):
    """A random step over variables and inputs, some of which hold NaN and infinities, and its inputs."""
    r = np.random.RandomState(seed)

    def values(shape):
        x = np.array(r.randn(*shape))
        if x.size and r.rand() < 0.3:
            x.flat[r.randint(x.size)] = r.choice([np.nan, np.inf, -np.inf, 0.0])
        return x
    variables = [tf.Variable(values(SHAPES[r.randint(len(SHAPES))]), dtype=dtype) for _ in range(3)]
    inputs = [tf.constant(values(SHAPES[r.randint(len(SHAPES))]), dtype) for _ in range(2)]
    program = [(r.randint(5), r.randint(1 << 30), r.randint(1 << 30), r.randint(1 << 30)) for _ in range(24)]

    def step(*given):
        held = [*given, *[v.read_value() for v in variables]]
        for kind, a, b, c in program:
            x, y = held[a % len(held)], held[b % len(held)]
            if kind == 0:
                held.append(UNARY[c % len(UNARY)](x) if x.shape.rank else tf.tanh(x))
            elif kind == 1 and (z := joined(x, y, BINARY[c % len(BINARY)])) is not None:
                held.append(z)
            elif kind == 2 and x.shape.rank and 0 not in x.shape:
                held.append(REDUCE[c % len(REDUCE)](x, axis=c % x.shape.rank, keepdims=bool(c & 64)))
            elif kind == 3:
                v = variables[c % 3]
                if x.shape == v.shape:
                    v.assign(x) if c & 64 else v.assign_add(tf.tanh(x))
                    held.append(v.read_value())                     # the new value; the old ones in `held` stay as they are
            elif kind == 4 and x.shape.rank == 2:
                held.append(tf.transpose(x) if c & 64 else tf.reshape(x, [x.shape[1], x.shape[0]]))
        return held[len(given) + 3:]
    return step, variables, inputs


def run(seed, dtype, compiled):
    step, variables, inputs = made(seed, dtype)
    function = tf.function(step, jit_compile=compiled, autograph=False)
    for _ in range(4):
        out = function(*inputs)
    return [np.asarray(x, np.float64) for x in [*out, *variables]]


def check(seed, dtype, rtol):
    with np.errstate(all="ignore"):
        found, expected = (run(seed, dtype, compiled) for compiled in (True, None))
        for a, b in zip(found, expected, strict=True):
            size = np.max(np.abs(b[np.isfinite(b)]), initial=1.0)
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * size)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("seed", range(12))
def test_traced(seed, dtype, monkeypatch):
    seen = []
    monkeypatch.setattr(inductor, "available", lambda device: True)
    monkeypatch.setattr(inductor, "compiled", lambda graph, example: seen.append(graph) or (lambda inputs: graph(*inputs)))
    before = dict(tiers.refused)
    check(seed, dtype, 1e-5)
    assert seen and dict(tiers.refused) == before


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("seed", range(12))
def test_on_a_gpu(seed):
    with tf.device("/gpu:0"):
        check(seed, tf.float32, 1e-4)
