"""Pointer network, LSTM over 20 points and 20 choices, batch 128 fed as a number, TF32, 1.x session."""

from __future__ import annotations

from typing import Any

import numpy as np

FULL = {"n": 128, "t": 20, "d": 256}
SMALL = {"n": 3, "t": 4, "d": 8}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Points and their orders."""
    return r.rand(s.n, s.t, 2).astype("f"), np.stack([r.permutation(s.t) for _ in range(s.n)])


def ours(s: Any, arrays: tuple) -> Any:
    """An LSTM reads points, another one points at them in turn; the size of the batch is fed."""
    import penstock.compat.v1 as tf
    from benchmarks.gpu.penstock_side import DEVICE

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        n = tf.placeholder(tf.int32, [])
        points, order = tf.placeholder(tf.float32, [None, s.t, 2]), tf.placeholder(tf.int32, [None, s.t])
        read, ask = tf.nn.rnn_cell.LSTMCell(s.d), tf.nn.rnn_cell.LSTMCell(s.d)
        states, last = tf.nn.dynamic_rnn(read, points, initial_state=read.zero_state(n, tf.float32), scope="read")
        keys = tf.layers.dense(states, s.d, use_bias=False)
        weigh = tf.get_variable("weigh", [s.d])
        question = tf.layers.Dense(s.d)
        first = tf.zeros(tf.stack([n, s.d]))

        def body(i: Any, x: Any, c: Any, h: Any, used: Any, loss: Any) -> tuple:
            _, state = ask(x, tf.nn.rnn_cell.LSTMStateTuple(c, h))
            scores = tf.reduce_sum(tf.tanh(keys + question(state.h)[:, None]) * weigh, -1) - 1e9 * used
            right = order[:, i]
            loss += tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=right, logits=scores))
            chosen = tf.one_hot(right, s.t)
            return i + 1, tf.reduce_sum(states * chosen[:, :, None], 1), state.c, state.h, used + chosen, loss

        start = (0, first, last.c, last.h, tf.zeros(tf.stack([n, s.t])), 0.0)
        loss = tf.while_loop(lambda i, *_: i < s.t, body, start)[-1] / s.t
        train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    run = session.make_callable([loss, train], [n, points, order])
    return lambda: run(s.n, *arrays)[0]


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Pointer(nn.Module):
        """An LSTM reads points, another one points at them in turn."""

        def __init__(self, s: Any):
            super().__init__()
            self.s, self.read, self.ask = s, nn.LSTM(2, s.d, batch_first=True), nn.LSTMCell(s.d, s.d)
            self.keys, self.question = nn.Linear(s.d, s.d, bias=False), nn.Linear(s.d, s.d)
            self.weigh = nn.Parameter(torch.randn(s.d) * 0.1)

        def forward(self, points: Any, order: Any) -> Any:
            states, (h, c) = self.read(points)
            keys, h, c, x = self.keys(states), h[0], c[0], torch.zeros_like(h[0])
            used, loss = torch.zeros_like(keys[:, :, 0]), 0.0
            for i in range(self.s.t):
                h, c = self.ask(x, (h, c))
                scores = (torch.tanh(keys + self.question(h)[:, None]) * self.weigh).sum(-1) - 1e9 * used
                loss = loss + F.cross_entropy(scores, order[:, i])
                chosen = F.one_hot(order[:, i], self.s.t).float()
                x, used = (states * chosen[:, :, None]).sum(1), used + chosen
            return loss / self.s.t

    return trained(Pointer(s), lambda m: m(*given), adam(1e-3), short, compiled)
