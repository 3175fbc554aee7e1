"""Gradients of the recurrent cells that are single ops, against numeric ones."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.graph import context
from penstock._src.ops.registry import get

_rng = np.random.RandomState(3)


def u(*shape):
    return _rng.uniform(-0.7, 0.7, shape).astype(np.float32)


B, I, N = 2, 3, 2  # noqa: E741
CELL = [u(B, I), u(B, N), u(B, N), u(I + N, 4 * N), u(N), u(N), u(N), u(4 * N)]
CASES = {
    "LSTMBlockCell": (CELL, {"cell_clip": 0.0, "use_peephole": True}, (1, 6)),
    "BlockLSTM": ([np.int64(2), u(3, B, I), *CELL[1:]], {"cell_clip": 0.0, "use_peephole": True}, (1, 6)),
    "BlockLSTMV2": ([np.int64(3), u(3, B, I), *CELL[1:]], {"use_peephole": True}, (1, 6)),
    "GRUBlockCell": ([u(B, I), u(B, N), u(I + N, 2 * N), u(I + N, N), u(2 * N), u(N)], {}, (3,)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    arrays, attrs, used = CASES[name]

    def value(tensors):
        out = get(name)(*tensors, **attrs)
        return tf.add_n([tf.reduce_sum(out[k] * (k + 1.0)) for k in used])
    with context.enter(None):
        xs = [tf.constant(a) for a in arrays]
        floats = [i for i, a in enumerate(arrays) if a.dtype == np.float32]
        with tf.GradientTape() as tape:
            tape.watch([xs[i] for i in floats])
            y = value(xs)
        for i, g in zip(floats, tape.gradient(y, [xs[i] for i in floats]), strict=True):
            for k in _rng.choice(arrays[i].size, min(3, arrays[i].size), replace=False):
                found = []
                for e in (1e-2, -1e-2):
                    moved = arrays[i].copy()
                    moved.flat[k] += e
                    found.append(float(value([*xs[:i], tf.constant(moved), *xs[i + 1:]])))
                np.testing.assert_allclose(g.numpy().flat[k], (found[0] - found[1]) / 2e-2, rtol=2e-2, atol=2e-2)


def test_wrong_shapes_are_told():
    with context.enter(None), pytest.raises(tf.errors.InvalidArgumentError, match="w has shape"):
        get("LSTMBlockCell")(*[tf.constant(a) for a in (*CELL[:3], u(2, 2), *CELL[4:])])


def test_a_cell_without_units_or_rows_is_refused():
    def zeros(*shape):
        return tf.zeros(shape)

    for batch, n in ((2, 0), (0, 3)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="cs_prev_tensor is empty, has shape"):
            tf.raw_ops.LSTMBlockCell(x=zeros(batch, 4), cs_prev=zeros(batch, n), h_prev=zeros(batch, n), w=zeros(4 + n, 4 * n),
                                     wci=zeros(n), wcf=zeros(n), wco=zeros(n), b=zeros(4 * n))
