"""Two levels of dynamic_rnn with attention, 32 documents of 16 × 24 words, TF32, 1.x session."""

from __future__ import annotations

from typing import Any

FULL = {"n": 32, "lines": 16, "t": 24, "d": 128, "words": 20000}
SMALL = {"n": 2, "lines": 3, "t": 4, "d": 8, "words": 50}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Words of lines, lengths of lines, and classes of documents."""
    lengths = r.randint(s.t // 2, s.t + 1, s.n * s.lines)
    return r.randint(0, s.words, [s.n * s.lines, s.t]), lengths, r.randint(0, 5, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Words to lines and lines to documents, as a graph of 1.x."""
    import penstock.compat.v1 as tf
    from benchmarks.gpu.penstock_side import DEVICE

    tf.disable_v2_behavior()

    def level(x: Any, lengths: Any, scope: str) -> Any:
        with tf.variable_scope(scope):
            cells = [tf.nn.rnn_cell.GRUCell(s.d) for _ in range(2)]
            both, _ = tf.nn.bidirectional_dynamic_rnn(*cells, x, sequence_length=lengths, dtype=tf.float32)
            h = tf.concat(both, 2)
            u = tf.layers.dense(h, s.d, tf.tanh)
            scores = tf.reduce_sum(u * tf.get_variable("context", [s.d]), -1)
            if lengths is not None:
                scores += tf.log(tf.sequence_mask(lengths, x.shape[1].value, tf.float32) + 1e-9)
            return tf.reduce_sum(h * tf.nn.softmax(scores)[:, :, None], 1)

    with tf.device(DEVICE):
        ids, lengths, y = (
            tf.get_variable(n, initializer=tf.constant(a), trainable=False) for n, a in zip("iny", arrays, strict=True)
        )
        words = tf.nn.embedding_lookup(tf.get_variable("words", [s.words, s.d]), ids)
        lines = tf.reshape(level(words, lengths, "words_of_lines"), [s.n, s.lines, 2 * s.d])
        logits = tf.layers.dense(level(lines, None, "lines"), 5)
        loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
        train = tf.train.RMSPropOptimizer(1e-3).minimize(loss)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    run = session.make_callable([loss, train])
    return lambda: run()[0]


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """Packed sequences would copy; the padding is computed, too."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import trained

    class Level(nn.Module):
        """A recurrence in both directions, and attention over it."""

        def __init__(self, i: int, d: int):
            super().__init__()
            self.gru, self.key = nn.GRU(i, d, batch_first=True, bidirectional=True), nn.Linear(2 * d, d)
            self.context = nn.Parameter(torch.randn(d) * 0.1)

        def forward(self, x: Any, seen: Any) -> Any:
            h = self.gru(x)[0]
            scores = (torch.tanh(self.key(h)) * self.context).sum(-1)
            if seen is not None:
                scores = scores + (seen + 1e-9).log()
            return (h * scores.softmax(-1)[:, :, None]).sum(1)

    class Hierarchy(nn.Module):
        """Words to lines and lines to documents."""

        def __init__(self, s: Any):
            super().__init__()
            self.s, self.words, self.out = s, nn.Embedding(s.words, s.d), nn.Linear(2 * s.d, 5)
            self.lines, self.document = Level(s.d, s.d), Level(2 * s.d, s.d)

        def forward(self, ids: Any, seen: Any) -> Any:
            lines = self.lines(self.words(ids), seen).view(self.s.n, self.s.lines, -1)
            return self.out(self.document(lines, None))

    ids, lengths, y = given
    seen = (torch.arange(s.t, device=ids.device) < lengths[:, None]).float()
    return trained(
        Hierarchy(s), lambda m: F.cross_entropy(m(ids, seen), y), lambda p: torch.optim.RMSprop(p, 1e-3), short, compiled
    )
