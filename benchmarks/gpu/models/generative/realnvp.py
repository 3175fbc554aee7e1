"""RealNVP, 12 couplings, batch 1,024, TF32, 1.x session."""

from __future__ import annotations

from typing import Any

FULL = {"n": 1024, "d": 64, "wide": 512, "layers": 12}
SMALL = {"n": 4, "d": 8, "wide": 8, "layers": 2}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Points."""
    return (r.randn(s.n, s.d).astype("f"),)


def ours(s: Any, arrays: tuple) -> Any:
    """Affine couplings (RealNVP), as a graph of 1.x."""
    import penstock.compat.v1 as tf
    from benchmarks.gpu.penstock_side import DEVICE

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        x = tf.get_variable("x", initializer=tf.constant(arrays[0]), trainable=False)
        h, total, half = x, 0.0, s.d // 2
        for i in range(s.layers):
            a, b = h[:, :half], h[:, half:]
            z = tf.layers.dense(tf.layers.dense(a, s.wide, tf.nn.relu, name=f"a{i}"), s.wide, tf.nn.relu, name=f"b{i}")
            scale, shift = tf.split(tf.layers.dense(z, s.d, name=f"c{i}"), 2, 1)
            scale = tf.tanh(scale)
            h, total = tf.concat([b * tf.exp(scale) + shift, a], 1), total + tf.reduce_sum(scale, 1)
        loss = tf.reduce_mean(0.5 * tf.reduce_sum(tf.square(h), 1) - total)
        train = tf.train.AdamOptimizer(1e-4).minimize(loss)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    run = session.make_callable([loss, train])
    return lambda: run()[0]


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(
                [
                    nn.Sequential(
                        nn.Linear(s.d // 2, s.wide), nn.ReLU(), nn.Linear(s.wide, s.wide), nn.ReLU(), nn.Linear(s.wide, s.d)
                    )
                    for _ in range(s.layers)
                ]
            )

        def forward(self, h: Any) -> Any:
            total: Any = 0.0
            for part in self.parts:
                a, b = h.chunk(2, 1)
                scale, shift = part(a).chunk(2, 1)
                scale = scale.tanh()
                h, total = torch.cat([b * scale.exp() + shift, a], 1), total + scale.sum(1)
            return (0.5 * h.square().sum(1) - total).mean()

    x = given[0]
    return trained(Net(), lambda m: m(x), adam(1e-4), short, compiled)
