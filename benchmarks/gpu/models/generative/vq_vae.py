"""VQ-VAE, 512 codes with moving averages, finite values asserted, batch 64 of 64×64, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 64, "side": 64, "c": 128, "codes": 512}
SMALL = {"n": 2, "side": 16, "c": 8, "codes": 16}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Images."""
    return (r.rand(s.n, s.side, s.side, 3).astype("f"),)


def ours(s: Any, arrays: tuple) -> Any:
    """The nearest codes of an encoder's vectors; the codes follow the vectors by moving averages."""
    from benchmarks.gpu.penstock_side import K, L, tf

    def residual(x: Any) -> Any:
        return L.Add()([x, L.Conv2D(s.c, 1)(L.ReLU()(L.Conv2D(s.c // 2, 3, padding="same")(L.ReLU()(x))))])

    i = K.Input([s.side, s.side, 3])
    x = L.Conv2D(s.c, 4, 2, padding="same", activation="relu")(i)
    x = L.Conv2D(s.c, 4, 2, padding="same")(x)
    encoder = K.Model(i, L.Conv2D(64, 1)(residual(residual(x))))
    i = K.Input([s.side // 4, s.side // 4, 64])
    x = residual(residual(L.Conv2D(s.c, 3, padding="same")(i)))
    x = L.Conv2DTranspose(s.c, 4, 2, padding="same", activation="relu")(x)
    decoder = K.Model(i, L.Conv2DTranspose(3, 4, 2, padding="same")(x))
    table = tf.Variable(tf.random.stateless_normal([s.codes, 64], [1, 2]), trainable=False)
    counts, sums = tf.Variable(tf.ones([s.codes]), trainable=False), tf.Variable(table, trainable=False)
    optimizer, variables = K.optimizers.Adam(3e-4), encoder.trainable_variables + decoder.trainable_variables
    held = tf.constant(arrays[0])

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            z = encoder(x)
            flat = tf.reshape(z, [-1, 64])
            far = tf.reduce_sum(flat**2, 1, keepdims=True) - 2 * tf.matmul(flat, table, transpose_b=True)
            chosen = tf.argmin(far + tf.reduce_sum(table**2, 1), 1)
            q = tf.reshape(tf.gather(table, chosen), tf.shape(z))
            out = decoder(z + tf.stop_gradient(q - z))
            loss = tf.reduce_mean((out - x) ** 2) + 0.25 * tf.reduce_mean((tf.stop_gradient(q) - z) ** 2)
        tf.debugging.assert_all_finite(loss, "the loss")
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        hot = tf.one_hot(chosen, s.codes)
        counts.assign(0.99 * counts + 0.01 * tf.reduce_sum(hot, 0))
        sums.assign(0.99 * sums + 0.01 * tf.matmul(hot, flat, transpose_a=True))
        table.assign(sums / (counts[:, None] + 1e-5))
        return loss

    return lambda: step(held)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, images, trained

    class Residual(nn.Module):
        """Two convolutions beside the input."""

        def __init__(self, c: int):
            super().__init__()
            self.net = nn.Sequential(nn.ReLU(), nn.Conv2d(c, c // 2, 3, 1, 1), nn.ReLU(), nn.Conv2d(c // 2, c, 1))

        def forward(self, x: Any) -> Any:
            return x + self.net(x)

    class Codes(nn.Module):
        """An encoder, codes, and a decoder."""

        def __init__(self, s: Any):
            super().__init__()
            c = s.c
            self.encoder = nn.Sequential(
                nn.Conv2d(3, c, 4, 2, 1), nn.ReLU(), nn.Conv2d(c, c, 4, 2, 1), Residual(c), Residual(c), nn.Conv2d(c, 64, 1)
            )
            self.decoder = nn.Sequential(
                nn.Conv2d(64, c, 3, 1, 1),
                Residual(c),
                Residual(c),
                nn.ConvTranspose2d(c, c, 4, 2, 1),
                nn.ReLU(),
                nn.ConvTranspose2d(c, 3, 4, 2, 1),
            )
            table = torch.randn(s.codes, 64)
            self.register_buffer("table", table)
            self.register_buffer("sums", table.clone())
            self.register_buffer("counts", torch.ones(s.codes))

        def forward(self, x: Any) -> Any:
            z = self.encoder(x)
            flat = z.permute(0, 2, 3, 1).reshape(-1, 64)
            far = (flat**2).sum(1, keepdim=True) - 2 * flat @ self.table.T + (self.table**2).sum(1)
            chosen = far.argmin(1)
            q = self.table[chosen].view(z.shape[0], z.shape[2], z.shape[3], 64).permute(0, 3, 1, 2)
            out = self.decoder(z + (q - z).detach())
            with torch.no_grad():
                hot = F.one_hot(chosen, self.table.shape[0]).float()
                self.counts.mul_(0.99).add_(hot.sum(0), alpha=0.01)
                self.sums.mul_(0.99).add_(hot.T @ flat, alpha=0.01)
                self.table.copy_(self.sums / (self.counts[:, None] + 1e-5))
            return F.mse_loss(out, x) + 0.25 * F.mse_loss(z, q.detach())

    x = images(given[0])
    return trained(Codes(s), lambda m: m(x), adam(3e-4), short, compiled, last=True)
