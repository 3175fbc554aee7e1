"""Wide ResNet-28-4, 32×32 images, batch 128, float32, Nesterov momentum, weight decay, label smoothing, GradientTape."""

from __future__ import annotations

from typing import Any

FULL = {"n": 128, "side": 32, "widths": (64, 128, 256), "count": 4, "classes": 100}
SMALL = {"n": 4, "side": 8, "widths": (4, 8), "count": 1, "classes": 5}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Images and classes."""
    return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, s.classes, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """A custom training step."""
    from benchmarks.gpu.penstock_side import K, L, tf

    def conv(x: Any, c: int, k: int, stride: int = 1) -> Any:
        return L.Conv2D(c, k, stride, padding="same", use_bias=False)(x)

    def block(x: Any, c: int, stride: int) -> Any:
        h = L.ReLU()(L.BatchNormalization()(x))
        same = x if stride == 1 and x.shape[-1] == c else conv(h, c, 1, stride)
        h = conv(h, c, 3, stride)
        return conv(L.Dropout(0.1)(L.ReLU()(L.BatchNormalization()(h))), c, 3) + same

    x = i = K.Input([s.side, s.side, 3])
    x = conv(x, 16, 3)
    for j, c in enumerate(s.widths):
        for n in range(s.count):
            x = block(x, c, 2 if j and not n else 1)
    x = L.GlobalAveragePooling2D()(L.ReLU()(L.BatchNormalization()(x)))
    model = K.Model(i, L.Dense(s.classes)(x))
    optimizer = K.optimizers.SGD(0.1, 0.9, nesterov=True)
    images, labels = tf.constant(arrays[0]), tf.one_hot(arrays[1], s.classes)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            smooth = y * 0.9 + 0.1 / s.classes
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(smooth, model(x, training=True)))
            loss += 5e-4 * tf.add_n([tf.nn.l2_loss(v) for v in model.trainable_variables if v.shape.rank > 1])
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return lambda: step(images, labels)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import images, trained

    class Block(nn.Module):
        def __init__(self, i: int, c: int, stride: int):
            super().__init__()
            self.n1, self.n2 = nn.BatchNorm2d(i), nn.BatchNorm2d(c)
            self.c1 = nn.Conv2d(i, c, 3, stride, 1, bias=False)
            self.c2 = nn.Conv2d(c, c, 3, 1, 1, bias=False)
            self.same = None if stride == 1 and i == c else nn.Conv2d(i, c, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            h = F.relu(self.n1(x))
            same = x if self.same is None else self.same(h)
            return self.c2(F.dropout(F.relu(self.n2(self.c1(h))), 0.1)) + same

    i, parts = 16, [nn.Conv2d(3, 16, 3, 1, 1, bias=False)]
    for j, c in enumerate(s.widths):
        for n in range(s.count):
            parts.append(Block(i, c, 2 if j and not n else 1))
            i = c
    parts += [nn.BatchNorm2d(i), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, s.classes)]
    x, y = images(given[0]), given[1]
    return trained(
        nn.Sequential(*parts),
        lambda m: F.cross_entropy(m(x), y, label_smoothing=0.1),
        lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=5e-4, nesterov=True),
        short,
        compiled,
        last=True,
    )
