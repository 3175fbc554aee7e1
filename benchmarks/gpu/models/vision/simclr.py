"""SimCLR, two views of 256 images of 32×32, convolutions of 64 to 256, bf16, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 256, "side": 32, "c": 64}
SMALL = {"n": 4, "side": 8, "c": 4}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Two views of images."""
    return tuple(r.rand(s.n, s.side, s.side, 3).astype("f") for _ in range(2))


def ours(s: Any, arrays: tuple) -> Any:
    """Two views of an image are nearer to each other than to those of other images."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf

    x = i = K.Input([s.side, s.side, 3])
    for j, width in enumerate((s.c, s.c, 2 * s.c, 4 * s.c)):
        x = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(width, 3, 1 + (j > 1), padding="same", use_bias=False)(x)))
    x = L.Dense(128, dtype="float32")(L.Dense(512, "relu")(L.GlobalAveragePooling2D()(x)))
    model, optimizer = K.Model(i, x), K.optimizers.SGD(0.1, 0.9, nesterov=True)
    a, b = map(tf.constant, arrays)

    @tf.function
    def step(a: Any, b: Any) -> Any:
        def changed(x: Any) -> Any:
            x = tf.image.random_flip_left_right(x, seed=1)
            return x * tf.random.uniform([s.n, 1, 1, 3], 0.6, 1.4) + tf.random.normal([s.n, 1, 1, 3], stddev=0.1)

        with tf.GradientTape() as tape:
            z = tf.math.l2_normalize(model(tf.concat([changed(a), changed(b)], 0), training=True), 1)
            near = tf.matmul(z, z, transpose_b=True) / 0.2
            near = tf.linalg.set_diag(near, tf.fill([2 * s.n], -1e9))
            loss = cross_entropy(tf.concat([tf.range(s.n, 2 * s.n), tf.range(s.n)], 0), near)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: step(a, b)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import images, trained

    parts: list = []
    for j, (i, c) in enumerate(((3, s.c), (s.c, s.c), (s.c, 2 * s.c), (2 * s.c, 4 * s.c))):
        parts += [nn.Conv2d(i, c, 3, 1 + (j > 1), 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(True)]
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * s.c, 512), nn.ReLU(), nn.Linear(512, 128)]
    a, b = map(images, given)
    right = torch.cat([torch.arange(s.n, 2 * s.n), torch.arange(s.n)]).to(a.device)

    def changed(x: Any) -> Any:
        x = torch.where(torch.rand(s.n, 1, 1, 1, device=x.device) < 0.5, x.flip(3), x)
        return x * (0.6 + 0.8 * torch.rand(s.n, 3, 1, 1, device=x.device)) + 0.1 * torch.randn(s.n, 3, 1, 1, device=x.device)

    def loss(m: Any) -> Any:
        z = F.normalize(m(torch.cat([changed(a), changed(b)])).float(), dim=1)
        near = (z @ z.T / 0.2).masked_fill(torch.eye(2 * s.n, dtype=torch.bool, device=z.device), -1e9)
        return F.cross_entropy(near, right)

    def optimizer(p: Any) -> Any:
        return torch.optim.SGD(p, 0.1, 0.9, nesterov=True)

    return trained(nn.Sequential(*parts), loss, optimizer, short, compiled, last=True)
