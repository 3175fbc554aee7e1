"""Wasserstein GAN with gradient penalty, batch 128 of 32×32, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 128, "c": 64, "z": 128}
SMALL = {"n": 4, "c": 4, "z": 8}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Images, noise, and shares of both."""
    return r.randn(s.n, 32, 32, 3).astype("f"), r.randn(s.n, s.z).astype("f"), r.rand(s.n, 1, 1, 1).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """A gradient of the critic is part of its loss."""
    from benchmarks.gpu.penstock_side import K, L, tf

    make = K.Sequential(
        [
            L.Dense(16 * 4 * s.c, "relu"),
            L.Reshape([4, 4, 4 * s.c]),
            *[L.Conv2DTranspose(c, 4, 2, "same", activation="relu") for c in (2 * s.c, s.c)],
            L.Conv2DTranspose(3, 4, 2, "same", activation="tanh"),
        ]
    )
    judge = K.Sequential(
        [*[L.Conv2D(c, 4, 2, "same", activation=tf.nn.leaky_relu) for c in (s.c, 2 * s.c, 4 * s.c)], L.Flatten(), L.Dense(1)]
    )
    ours, theirs = K.optimizers.Adam(1e-4, 0.5), K.optimizers.Adam(1e-4, 0.5)
    images, z, mix = map(tf.constant, arrays)
    judge(make(z))

    @tf.function
    def step(images: Any, z: Any, mix: Any) -> Any:
        with tf.GradientTape() as tape:
            made = make(z)
            between = mix * images + (1 - mix) * made
            with tf.GradientTape() as inner:
                inner.watch(between)
                value = judge(between)
            size = tf.sqrt(tf.reduce_sum(tf.square(inner.gradient(value, between)), [1, 2, 3]) + 1e-12)
            loss = tf.reduce_mean(judge(made)) - tf.reduce_mean(judge(images)) + 10 * tf.reduce_mean(tf.square(size - 1))
        theirs.apply_gradients(zip(tape.gradient(loss, judge.trainable_variables), judge.trainable_variables, strict=True))
        with tf.GradientTape() as tape:
            cost = -tf.reduce_mean(judge(make(z)))
        ours.apply_gradients(zip(tape.gradient(cost, make.trainable_variables), make.trainable_variables, strict=True))
        return loss

    return lambda: step(images, z, mix)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """A gradient of the critic is part of its loss."""
    import torch
    from torch import nn

    from benchmarks.gpu.torch_side import DEVICE, images

    c = s.c
    make = nn.Sequential(
        nn.Linear(s.z, 64 * c),
        nn.ReLU(),
        nn.Unflatten(1, (4 * c, 4, 4)),
        nn.ConvTranspose2d(4 * c, 2 * c, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * c, c, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(c, 3, 4, 2, 1),
        nn.Tanh(),
    )
    judge = nn.Sequential(
        nn.Conv2d(3, c, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(c, 2 * c, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(2 * c, 4 * c, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(64 * c, 1),
    )
    make, judge = make.to(DEVICE), judge.to(DEVICE)
    ours, theirs = (torch.optim.Adam(m.parameters(), 1e-4, (0.5, 0.999), fused=True) for m in (make, judge))
    real, z, mix = images(given[0]).contiguous(), given[1], given[2]

    def first() -> Any:
        made = make(z)
        between = (mix * real + (1 - mix) * made).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(judge(between).sum(), between, create_graph=True)
        size = (gradient.square().sum((1, 2, 3)) + 1e-12).sqrt()
        return judge(made.detach()).mean() - judge(real).mean() + 10 * (size - 1).square().mean()

    def second() -> Any:
        return -judge(make(z)).mean()

    if compiled:
        first, second = torch.compile(first), torch.compile(second)

    def step() -> Any:
        loss = first()
        theirs.zero_grad(set_to_none=True)
        loss.backward()
        theirs.step()
        cost = second()
        ours.zero_grad(set_to_none=True)
        cost.backward()
        ours.step()
        return loss.detach()

    return step
