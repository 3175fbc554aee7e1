"""DeepFM, 20 fields of 50,000 × 16, batch 8,192, lazy sparse Adam, TF32, 1.x session."""

from __future__ import annotations

from typing import Any

FULL = {"n": 8192, "fields": 20, "rows": 50000, "d": 16}
SMALL = {"n": 8, "fields": 3, "rows": 50, "d": 4}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Categories and clicks."""
    return r.randint(0, s.rows, [s.n, s.fields]), r.randint(0, 2, s.n).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """Products of pairs of fields, and layers over all; Adam changes the rows that were used."""
    import penstock.compat.v1 as tf
    from benchmarks.gpu.penstock_side import DEVICE

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        ids, y = tf.placeholder(tf.int32, [s.n, s.fields]), tf.placeholder(tf.float32, [s.n])
        places = ids + tf.range(s.fields) * s.rows
        table = tf.get_variable("table", [s.fields * s.rows, s.d], initializer=tf.random_normal_initializer(stddev=0.01))
        single = tf.get_variable("single", [s.fields * s.rows, 1], initializer=tf.zeros_initializer())
        rows = tf.nn.embedding_lookup(table, places)
        pairs = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(rows, 1)) - tf.reduce_sum(tf.square(rows), 1), 1)
        h = tf.reshape(rows, [s.n, s.fields * s.d])
        for width in (400, 400, 400):
            h = tf.layers.dropout(tf.layers.dense(h, width, tf.nn.relu), 0.1, training=True)
        logits = tf.reduce_sum(tf.nn.embedding_lookup(single, places), [1, 2]) + pairs + tf.layers.dense(h, 1)[:, 0]
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
        train = tf.train.AdamOptimizer(1e-3).minimize(loss, tf.train.get_or_create_global_step())
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    run = session.make_callable([loss, train], [ids, y])
    return lambda: run(*arrays)[0]


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """Clicks; the tables have an optimizer for the rows that were used."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import DEVICE

    class Factors(nn.Module):
        """Products of pairs of fields, and layers over all."""

        def __init__(self, s: Any):
            super().__init__()
            self.s = s
            self.table = nn.Embedding(s.fields * s.rows, s.d, sparse=True)
            self.single = nn.Embedding(s.fields * s.rows, 1, sparse=True)
            nn.init.normal_(self.table.weight, std=0.01)
            nn.init.zeros_(self.single.weight)
            parts: list = []
            for i in (s.fields * s.d, 400, 400):
                parts += [nn.Linear(i, 400), nn.ReLU(), nn.Dropout(0.1)]
            self.deep = nn.Sequential(*parts, nn.Linear(400, 1))

        def forward(self, ids: Any, y: Any) -> Any:
            places = ids + torch.arange(self.s.fields, device=ids.device) * self.s.rows
            rows = self.table(places)
            pairs = 0.5 * (rows.sum(1) ** 2 - (rows**2).sum(1)).sum(1)
            logits = self.single(places).sum((1, 2)) + pairs + self.deep(rows.flatten(1))[:, 0]
            return F.binary_cross_entropy_with_logits(logits, y)

    model = Factors(s).to(DEVICE)
    rare = torch.optim.SparseAdam([model.table.weight, model.single.weight], 1e-3)
    often = torch.optim.Adam(model.deep.parameters(), 1e-3, fused=DEVICE == "cuda")
    run = torch.compile(model) if compiled else model

    def step() -> Any:
        loss = run(*given)
        model.zero_grad(set_to_none=True)
        loss.backward()
        rare.step()
        often.step()
        return loss.detach()

    return step
