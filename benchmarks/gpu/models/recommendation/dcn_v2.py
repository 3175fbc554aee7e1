"""DCN-v2, 26 tables of 20,000 × 16, batch 8,192, Adam, TF32, 1.x session."""

from __future__ import annotations

from typing import Any

FULL = {"n": 8192, "tables": 26, "rows": 20000, "d": 16}
SMALL = {"n": 8, "tables": 3, "rows": 50, "d": 4}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Numbers, categories, and clicks."""
    return r.randn(s.n, 13).astype("f"), r.randint(0, s.rows, [s.n, s.tables]), r.randint(0, 2, s.n).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """Products of features with themselves, as a graph of 1.x."""
    import penstock.compat.v1 as tf
    from benchmarks.gpu.penstock_side import DEVICE

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        numbers, ids, y = (
            tf.get_variable(n, initializer=tf.constant(a), trainable=False) for n, a in zip("xiy", arrays, strict=True)
        )
        rows = [tf.nn.embedding_lookup(tf.get_variable(f"table{i}", [s.rows, s.d]), ids[:, i]) for i in range(s.tables)]
        first = tf.concat([numbers, *rows], 1)
        x = first
        for i in range(3):
            x = first * tf.layers.dense(x, first.shape[1], name=f"cross{i}") + x
        deep = first
        for i, width in enumerate((512, 256)):
            deep = tf.nn.relu(tf.layers.dense(deep, width, name=f"deep{i}"))
        logits = tf.layers.dense(tf.concat([x, deep], 1), 1)[:, 0]
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
        train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    run = session.make_callable([loss, train])
    return lambda: run()[0]


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Crosses(nn.Module):
        """Products of features with themselves."""

        def __init__(self, s: Any):
            super().__init__()
            d = 13 + s.tables * s.d
            self.tables = nn.ModuleList(nn.Embedding(s.rows, s.d) for _ in range(s.tables))
            self.cross = nn.ModuleList(nn.Linear(d, d) for _ in range(3))
            self.deep, self.out = (
                nn.Sequential(nn.Linear(d, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU()),
                nn.Linear(d + 256, 1),
            )

        def forward(self, numbers: Any, ids: Any) -> Any:
            first = torch.cat([numbers, *[t(ids[:, i]) for i, t in enumerate(self.tables)]], 1)
            x = first
            for layer in self.cross:
                x = first * layer(x) + x
            return self.out(torch.cat([x, self.deep(first)], 1))[:, 0]

    numbers, ids, y = given
    return trained(Crosses(s), lambda m: F.binary_cross_entropy_with_logits(m(numbers, ids), y), adam(1e-3), short, compiled)
