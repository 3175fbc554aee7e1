"""Factorization machine and deep network, 1,000,000 rows, sparse Adagrad, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 8192, "fields": 39, "rows": 1000000, "d": 16}
SMALL = {"n": 8, "fields": 4, "rows": 100, "d": 4}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Categories and clicks."""
    return r.randint(0, s.rows, [s.n, s.fields]), r.randint(0, 2, s.n).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """Factorization machine and a deep network over the same embeddings."""
    from benchmarks.gpu.penstock_side import K, L, tf

    table = tf.Variable(tf.random.normal([s.rows, s.d], stddev=0.01))
    first = tf.Variable(tf.zeros([s.rows, 1]))
    deep = K.Sequential([L.Dense(400, "relu"), L.Dense(400, "relu"), L.Dense(1)])
    deep.build([None, s.fields * s.d])
    opt, held = K.optimizers.Adagrad(0.01), tuple(tf.constant(a) for a in arrays)
    variables = [table, first, *deep.trainable_variables]

    @tf.function
    def step(ids: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            e = tf.nn.embedding_lookup(table, ids)
            pairs = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(e, 1)) - tf.reduce_sum(tf.square(e), 1), 1)
            logits = (
                pairs
                + tf.reduce_sum(tf.nn.embedding_lookup(first, ids), [1, 2])
                + deep(tf.reshape(e, [-1, s.fields * s.d]))[:, 0]
            )
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
        opt.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: step(*held)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import trained

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.first = (nn.Embedding(s.rows, d, sparse=not compiled) for d in (s.d, 1))
            self.deep = nn.Sequential(
                nn.Linear(s.fields * s.d, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 1)
            )

        def forward(self, ids: Any) -> Any:
            e = self.table(ids)
            pairs = 0.5 * (e.sum(1).square() - e.square().sum(1)).sum(1)
            return pairs + self.first(ids).sum((1, 2)) + self.deep(e.flatten(1))[:, 0]

    ids, y = given
    return trained(
        Net(), lambda m: F.binary_cross_entropy_with_logits(m(ids), y), lambda p: torch.optim.Adagrad(p, 0.01), short, compiled
    )
