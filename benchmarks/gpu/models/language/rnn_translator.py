"""`dynamic_rnn` over lengths, `while_loop` with additive attention, batch 64 of 30 words, TF32, 1.x session, fed."""

from __future__ import annotations

from typing import Any

FULL = {"n": 64, "t": 30, "d": 256, "words": 8000}
SMALL = {"n": 3, "t": 5, "d": 8, "words": 40}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Words, their lengths, and words of the target."""
    lengths = r.randint(s.t // 2, s.t + 1, s.n).astype("int32")
    lengths[0] = s.t
    return r.randint(0, s.words, [s.n, s.t]), lengths, r.randint(0, s.words, [s.n, s.t + 1])


def ours(s: Any, arrays: tuple) -> Any:
    """An encoder over lengths, and a decoder that looks at its states, in a second loop."""
    import penstock.compat.v1 as tf
    from benchmarks.gpu.penstock_side import DEVICE

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        ids, lengths = tf.placeholder(tf.int32, [s.n, s.t]), tf.placeholder(tf.int32, [s.n])
        target = tf.placeholder(tf.int32, [s.n, s.t + 1])
        words = tf.get_variable("words", [s.words, s.d])
        x = tf.nn.embedding_lookup(words, ids)
        states, last = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(s.d), x, lengths, dtype=tf.float32, scope="encoder")
        keys = tf.layers.dense(states, s.d, use_bias=False)
        seen = tf.sequence_mask(lengths, s.t)
        cell, ask = tf.nn.rnn_cell.GRUCell(s.d), tf.layers.Dense(s.d)
        weigh = tf.get_variable("weigh", [s.d])
        given = tf.TensorArray(tf.float32, s.t).unstack(tf.transpose(tf.nn.embedding_lookup(words, target[:, :-1]), [1, 0, 2]))

        def body(i: Any, h: Any, out: Any) -> tuple:
            scores = tf.reduce_sum(tf.tanh(keys + ask(h)[:, None]) * weigh, -1)
            shares = tf.nn.softmax(tf.where(seen, scores, tf.fill([s.n, s.t], -1e9)))
            seen_now = tf.reduce_sum(shares[:, :, None] * states, 1)
            _, h = cell(tf.concat([given.read(i), seen_now], 1), h)
            return i + 1, h, out.write(i, tf.concat([h, seen_now], 1))

        start = (tf.constant(0), last, tf.TensorArray(tf.float32, s.t))
        _, _, out = tf.while_loop(lambda i, h, out: i < s.t, body, start)
        logits = tf.layers.dense(tf.transpose(out.stack(), [1, 0, 2]), s.words)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target[:, 1:], logits=logits)
        loss = tf.reduce_sum(each * tf.cast(seen, tf.float32)) / tf.reduce_sum(tf.cast(lengths, tf.float32))
        optimizer = tf.train.AdamOptimizer(1e-3)
        gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
        train = optimizer.apply_gradients(zip(tf.clip_by_global_norm(gradients, 5.0)[0], variables, strict=True))
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    run = session.make_callable([loss, train], [ids, lengths, target])
    return lambda: run(*arrays)[0]


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Translator(nn.Module):
        """An encoder over lengths, and a decoder that looks at its states."""

        def __init__(self, s: Any):
            super().__init__()
            self.s, self.words, self.encoder = s, nn.Embedding(s.words, s.d), nn.GRU(s.d, s.d, batch_first=True)
            self.keys, self.ask, self.weigh = (
                nn.Linear(s.d, s.d, bias=False),
                nn.Linear(s.d, s.d),
                nn.Parameter(torch.randn(s.d)),
            )
            self.cell, self.out = nn.GRUCell(2 * s.d, s.d), nn.Linear(2 * s.d, s.words)

        def forward(self, ids: Any, lengths: Any, target: Any) -> Any:
            states, _ = self.encoder(self.words(ids))
            seen = torch.arange(self.s.t, device=ids.device) < lengths[:, None]
            states = states * seen[:, :, None]
            h = states[torch.arange(self.s.n, device=ids.device), (lengths - 1).long()]
            keys, given, out = self.keys(states), self.words(target[:, :-1]), []
            for i in range(self.s.t):
                scores = (torch.tanh(keys + self.ask(h)[:, None]) * self.weigh).sum(-1)
                now = (scores.masked_fill(~seen, -1e9).softmax(-1)[:, :, None] * states).sum(1)
                h = self.cell(torch.cat([given[:, i], now], 1), h)
                out.append(torch.cat([h, now], 1))
            logits = self.out(torch.stack(out, 1))
            each = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), reduction="none").view(seen.shape)
            return (each * seen).sum() / lengths.sum()

    return trained(Translator(s), lambda m: m(*given), adam(1e-3), short, compiled, clip=5.0)
