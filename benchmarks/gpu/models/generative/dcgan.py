"""DCGAN, both players in one step, batch 128 of 64×64, bf16, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 128, "z": 100, "c": 64}
SMALL = {"n": 4, "c": 8}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Images and noise."""
    return r.randn(s.n, 64, 64, 3).astype("f"), r.randn(s.n, s.z).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """Both players of a DCGAN in one function."""
    from benchmarks.gpu.penstock_side import K, L, tf

    g = K.Sequential([L.Dense(16 * 8 * s.c, use_bias=False), L.Reshape([4, 4, 8 * s.c]), L.BatchNormalization(), L.ReLU()])
    for c in (4 * s.c, 2 * s.c, s.c):
        for layer in (L.Conv2DTranspose(c, 4, 2, padding="same", use_bias=False), L.BatchNormalization(), L.ReLU()):
            g.add(layer)
    g.add(L.Conv2DTranspose(3, 4, 2, padding="same", activation="tanh"))
    d = K.Sequential([L.Conv2D(s.c, 4, 2, padding="same"), L.LeakyReLU(0.2)])
    for c in (2 * s.c, 4 * s.c, 8 * s.c):
        for layer in (L.Conv2D(c, 4, 2, padding="same", use_bias=False), L.BatchNormalization(), L.LeakyReLU(0.2)):
            d.add(layer)
    for layer in (L.Flatten(), L.Dense(1, dtype="float32")):
        d.add(layer)
    of_g, of_d = (K.optimizers.Adam(2e-4, beta_1=0.5) for _ in range(2))
    real, z = (tf.constant(a) for a in arrays)
    entropy = K.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def step(real: Any, z: Any) -> Any:
        with tf.GradientTape() as tg, tf.GradientTape() as td:
            fake = g(z, training=True)
            r, f = d(real, training=True), d(fake, training=True)
            lg, ld = entropy(tf.ones_like(f), f), entropy(tf.ones_like(r), r) + entropy(tf.zeros_like(f), f)
        gg, gd = tg.gradient(lg, g.trainable_variables), td.gradient(ld, d.trainable_variables)
        of_g.apply_gradients(zip(gg, g.trainable_variables, strict=True))
        of_d.apply_gradients(zip(gd, d.trainable_variables, strict=True))
        return lg + ld

    return lambda: step(real, z)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import DEVICE, images

    real, z = given
    real = images(real)

    class Generator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, parts, i = nn.Linear(s.z, 16 * 8 * s.c, bias=False), [nn.BatchNorm2d(8 * s.c), nn.ReLU()], 8 * s.c
            for c in (4 * s.c, 2 * s.c, s.c):
                parts += [nn.ConvTranspose2d(i, c, 4, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU()]
                i = c
            self.net = nn.Sequential(*parts, nn.ConvTranspose2d(i, 3, 4, 2, 1), nn.Tanh())

        def forward(self, z: Any) -> Any:
            return self.net(self.first(z).view(-1, 8 * s.c, 4, 4).contiguous(memory_format=torch.channels_last))

    parts, i = [nn.Conv2d(3, s.c, 4, 2, 1), nn.LeakyReLU(0.2)], s.c
    for c in (2 * s.c, 4 * s.c, 8 * s.c):
        parts += [nn.Conv2d(i, c, 4, 2, 1, bias=False), nn.BatchNorm2d(c), nn.LeakyReLU(0.2)]
        i = c
    g = Generator().to(DEVICE).to(memory_format=torch.channels_last)
    d = nn.Sequential(*parts, nn.Flatten(), nn.Linear(16 * i, 1)).to(DEVICE).to(memory_format=torch.channels_last)
    of_g, of_d = (torch.optim.Adam(m.parameters(), 2e-4, (0.5, 0.999), fused=True) for m in (g, d))
    entropy = F.binary_cross_entropy_with_logits
    run_g, run_d = (torch.compile(m) if compiled else m for m in (g, d))

    def step() -> Any:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=short):
            fake = run_g(z)
            r, f = run_d(real).float(), run_d(fake.detach()).float()
            ld = entropy(r, torch.ones_like(r)) + entropy(f, torch.zeros_like(f))
        of_d.zero_grad(set_to_none=True)
        ld.backward()
        of_d.step()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=short):
            f = run_d(fake).float()
            lg = entropy(f, torch.ones_like(f))
        of_g.zero_grad(set_to_none=True)
        lg.backward()
        of_g.step()
        return (lg + ld).detach()

    return step
