"""RetinaNet with pyramid and focal loss, batch 16 of 256×256, TF32, 1.x session."""

from __future__ import annotations

from typing import Any

import numpy as np

FULL = {"n": 16, "side": 256, "c": 64}
SMALL = {"n": 2, "side": 64, "c": 4}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Images, classes of anchors, and boxes."""
    places = (s.side // 8) ** 2 + (s.side // 16) ** 2 + (s.side // 32) ** 2
    labels = np.where(r.rand(s.n, places, 9) < 0.02, r.randint(1, 21, [s.n, places, 9]), 0)
    return r.randn(s.n, s.side, s.side, 3).astype("f"), labels, r.randn(s.n, places, 9, 4).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """Boxes and classes at three scales, as a graph of 1.x."""
    import penstock.compat.v1 as tf
    from benchmarks.gpu.penstock_side import DEVICE, in_session

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        x, labels, boxes = (
            tf.get_variable(n, initializer=tf.constant(a), trainable=False) for n, a in zip("xlb", arrays, strict=True)
        )

        def unit(x: Any, c: int, stride: int) -> Any:
            h = tf.layers.conv2d(x, c, 3, stride, padding="same", use_bias=False)
            h = tf.nn.relu(tf.layers.batch_normalization(h, training=True))
            h = tf.layers.batch_normalization(tf.layers.conv2d(h, c, 3, padding="same", use_bias=False), training=True)
            if stride > 1 or x.shape[-1] != c:
                x = tf.layers.conv2d(x, c, 1, stride, padding="same")
            return tf.nn.relu(h + x)

        h, levels = tf.layers.conv2d(x, s.c, 7, 2, padding="same", activation=tf.nn.relu), []
        for c in (s.c, 2 * s.c, 4 * s.c, 8 * s.c):
            h = unit(unit(h, c, 2), c, 1)
            levels.append(h)
        top, found = None, []
        for level in levels[:0:-1]:
            side = tf.layers.conv2d(level, 4 * s.c, 1)
            top = side if top is None else side + tf.image.resize_nearest_neighbor(top, [side.shape[1], side.shape[2]])
            found.insert(0, tf.layers.conv2d(top, 4 * s.c, 3, padding="same"))

        def head(x: Any, name: str, out: int) -> Any:
            again = tf.AUTO_REUSE
            for i in range(4):
                x = tf.layers.conv2d(x, 4 * s.c, 3, padding="same", activation=tf.nn.relu, name=f"{name}{i}", reuse=again)
            x = tf.layers.conv2d(x, 9 * out, 3, padding="same", name=name, reuse=again)
            return tf.reshape(x, [s.n, -1, 9, out])

        classes, moves = (tf.concat([head(f, *k) for f in found], 1) for k in (("class", 20), ("box", 4)))
        target = tf.one_hot(labels - 1, 20)
        p = tf.sigmoid(classes)
        focus = target * 0.25 * (1 - p) ** 2 + (1 - target) * 0.75 * p**2
        own = tf.cast(labels > 0, tf.float32)
        count = tf.maximum(tf.reduce_sum(own), 1.0)
        loss = tf.reduce_sum(focus * tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=classes)) / count
        loss += tf.losses.huber_loss(boxes, moves, own[..., None], reduction=tf.losses.Reduction.SUM) / count
        variables = tf.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 10.0)
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train = tf.train.MomentumOptimizer(1e-4, 0.9).apply_gradients(zip(gradients, variables, strict=True))
    return in_session(loss, train)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import images, trained

    class Unit(nn.Module):
        """A residual unit."""

        def __init__(self, i: int, c: int, stride: int):
            super().__init__()
            self.net = nn.Sequential(
                nn.Conv2d(i, c, 3, stride, 1, bias=False),
                nn.BatchNorm2d(c),
                nn.ReLU(),
                nn.Conv2d(c, c, 3, 1, 1, bias=False),
                nn.BatchNorm2d(c),
            )
            self.skip = nn.Conv2d(i, c, 1, stride) if stride > 1 or i != c else nn.Identity()

        def forward(self, x: Any) -> Any:
            return F.relu(self.net(x) + self.skip(x))

    class Retina(nn.Module):
        """Boxes and classes at three scales."""

        def __init__(self, c: int):
            super().__init__()
            self.first, i, parts = nn.Conv2d(3, c, 7, 2, 3), c, []
            for o in (c, 2 * c, 4 * c, 8 * c):
                parts.append(nn.Sequential(Unit(i, o, 2), Unit(o, o, 1)))
                i = o
            self.levels = nn.ModuleList(parts)
            self.sides = nn.ModuleList(nn.Conv2d(o, 4 * c, 1) for o in (2 * c, 4 * c, 8 * c))
            self.smooth = nn.ModuleList(nn.Conv2d(4 * c, 4 * c, 3, 1, 1) for _ in range(3))
            self.classes, self.boxes = (
                nn.Sequential(
                    *[m for _ in range(4) for m in (nn.Conv2d(4 * c, 4 * c, 3, 1, 1), nn.ReLU())],
                    nn.Conv2d(4 * c, 9 * o, 3, 1, 1),
                )
                for o in (20, 4)
            )

        def forward(self, x: Any) -> Any:
            h, levels = F.relu(self.first(x)), []
            for level in self.levels:
                h = level(h)
                levels.append(h)
            top, found = None, []
            for level, side, smooth in zip(levels[:0:-1], self.sides[::-1], self.smooth, strict=True):
                top = side(level) if top is None else side(level) + F.interpolate(top, scale_factor=2.0)
                found.insert(0, smooth(top))
            flat = lambda head, o: torch.cat([head(f).permute(0, 2, 3, 1).reshape(len(x), -1, 9, o) for f in found], 1)  # noqa: E731
            return flat(self.classes, 20), flat(self.boxes, 4)

    x, labels, boxes = images(given[0]), given[1], given[2]

    def loss(m: Any) -> Any:
        classes, moves = m(x)
        target = F.one_hot(labels, 21)[..., 1:].float()
        p = classes.sigmoid()
        focus = target * 0.25 * (1 - p) ** 2 + (1 - target) * 0.75 * p**2
        own = (labels > 0).float()
        count = own.sum().clamp(min=1)
        value = (focus * F.binary_cross_entropy_with_logits(classes, target, reduction="none")).sum()
        return (value + (F.huber_loss(moves, boxes, reduction="none") * own[..., None]).sum()) / count

    return trained(Retina(s.c), loss, lambda p: torch.optim.SGD(p, 1e-4, momentum=0.9), short, compiled, clip=10.0, last=True)
