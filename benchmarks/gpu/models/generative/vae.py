"""Variational autoencoder, batch 256 of 32×32, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 256, "side": 32, "c": 32, "z": 32}
SMALL = {"n": 4, "side": 8, "c": 4, "z": 4}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Images."""
    return (r.rand(s.n, s.side, s.side, 1).astype("f"),)


def ours(s: Any, arrays: tuple) -> Any:
    """A variational autoencoder of images."""
    from benchmarks.gpu.penstock_side import K, L, tf

    encoder = K.Sequential(
        [
            L.Conv2D(s.c, 4, 2, padding="same", activation="relu"),
            L.Conv2D(2 * s.c, 4, 2, padding="same", activation="relu"),
            L.Flatten(),
            L.Dense(2 * s.z),
        ]
    )
    side = s.side // 4
    decoder = K.Sequential(
        [
            L.Dense(side * side * 2 * s.c, "relu"),
            L.Reshape([side, side, 2 * s.c]),
            L.Conv2DTranspose(s.c, 4, 2, padding="same", activation="relu"),
            L.Conv2DTranspose(1, 4, 2, padding="same"),
        ]
    )
    x, opt = tf.constant(arrays[0]), K.optimizers.Adam(1e-3)
    decoder(encoder(x)[:, : s.z])
    variables = encoder.trainable_variables + decoder.trainable_variables

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            mean, log = tf.split(encoder(x), 2, 1)
            logits = decoder(mean + tf.exp(0.5 * log) * tf.random.normal(tf.shape(mean)))
            loss = tf.reduce_mean(
                tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), [1, 2, 3])
                - 0.5 * tf.reduce_sum(1 + log - tf.square(mean) - tf.exp(log), 1)
            )
        opt.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: step(x)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, images, trained

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            side, c = s.side // 4, s.c
            self.encoder = nn.Sequential(
                nn.Conv2d(1, c, 4, 2, 1),
                nn.ReLU(),
                nn.Conv2d(c, 2 * c, 4, 2, 1),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(side * side * 2 * c, 2 * s.z),
            )
            self.decoder = nn.Sequential(
                nn.Linear(s.z, side * side * 2 * c),
                nn.ReLU(),
                nn.Unflatten(1, (2 * c, side, side)),
                nn.ConvTranspose2d(2 * c, c, 4, 2, 1),
                nn.ReLU(),
                nn.ConvTranspose2d(c, 1, 4, 2, 1),
            )

        def forward(self, x: Any) -> Any:
            mean, log = self.encoder(x).chunk(2, 1)
            logits = self.decoder(mean + torch.exp(0.5 * log) * torch.randn_like(mean))
            return (
                F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum((1, 2, 3))
                - 0.5 * (1 + log - mean.square() - log.exp()).sum(1)
            ).mean()

    x = images(given[0])
    return trained(Net(), lambda m: m(x), adam(1e-3), short, compiled, last=True)
