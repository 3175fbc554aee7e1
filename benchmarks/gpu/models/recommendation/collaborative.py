"""Neural collaborative filtering, tables of 100,000 × 32, sparse Adam, batches of three sizes in turns, TF32, 1.x session."""

from __future__ import annotations

import itertools
from typing import Any

FULL = {"sizes": (8192, 6144, 4096), "rows": 100000, "d": 32}
SMALL = {"sizes": (4, 3), "rows": 50, "d": 4}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Users, items, and whether they met."""
    n = max(s.sizes)
    return r.randint(0, s.rows, n), r.randint(0, s.rows, n), r.randint(0, 2, n).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """A product of factors beside a network."""
    import penstock.compat.v1 as tf

    tf.disable_v2_behavior()
    users, items = (tf.placeholder(tf.int64, [None]) for _ in range(2))
    met = tf.placeholder(tf.float32, [None])
    tables = [tf.get_variable(f"t{i}", [s.rows, s.d], initializer=tf.random_normal_initializer(stddev=0.05)) for i in range(4)]
    u, v, p, q = (tf.nn.embedding_lookup(t, i) for t, i in zip(tables, (users, items, users, items), strict=True))
    h = tf.concat([p, q], 1)
    for width in (256, 128, 64):
        h = tf.layers.dense(h, width, tf.nn.relu)
    logits = tf.squeeze(tf.layers.dense(tf.concat([u * v, h], 1), 1), 1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=met, logits=logits))
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    session = tf.Session(config=tf.ConfigProto(allow_soft_placement=True))
    session.run(tf.global_variables_initializer())
    run = session.make_callable([loss, train], [users, items, met])
    turns = itertools.cycle([tuple(a[:n] for a in arrays) for n in s.sizes])
    return lambda: run(*next(turns))[0]


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch; its gradients of tables are dense."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(s.rows, s.d) for _ in range(4))
            parts: list = []
            for i, c in ((2 * s.d, 256), (256, 128), (128, 64)):
                parts += [nn.Linear(i, c), nn.ReLU()]
            self.body, self.last = nn.Sequential(*parts), nn.Linear(s.d + 64, 1)

        def forward(self, users: Any, items: Any, met: Any) -> Any:
            u, v, p, q = (t(i) for t, i in zip(self.tables, (users, items, users, items), strict=True))
            logits = self.last(torch.cat([u * v, self.body(torch.cat([p, q], 1))], 1)).squeeze(1)
            return F.binary_cross_entropy_with_logits(logits, met)

    turns = itertools.cycle([tuple(a[:n] for a in given) for n in s.sizes])
    steps = trained(Model(), lambda m: m(*next(turns)), adam(1e-3), short, False)
    if not compiled:
        return steps
    model = Model().to(given[0].device)
    run, opt = torch.compile(model), adam(1e-3)(model.parameters())

    def step() -> Any:
        loss = run(*next(turns))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    return step
