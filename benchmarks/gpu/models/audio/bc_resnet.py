"""Spectrogram in the step, BC-ResNet, batch 128 of one second of sound, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 128, "t": 16000, "c": 32}
SMALL = {"n": 2, "t": 4000, "c": 4}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Samples of sound and words."""
    return r.randn(s.n, s.t).astype("f") * 0.1, r.randint(0, 12, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Sound to a spectrogram on a mel scale, then convolutions over time and over frequency apart."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf, trained

    mel = tf.signal.linear_to_mel_weight_matrix(40, 257, 16000)

    class Broadcast(L.Layer):
        """A two-dimensional part, and a one-dimensional one that is added to every frequency."""

        def __init__(self, c: int, stride: int):
            super().__init__()
            self.wide = L.Conv2D(c, 1, use_bias=False) if stride > 1 else None
            self.deep, self.norm = L.DepthwiseConv2D((1, 3), padding="same", use_bias=False), L.BatchNormalization()
            self.along = L.DepthwiseConv2D((3, 1), padding="same", use_bias=False)
            self.mix, self.second, self.drop = L.Conv2D(c, 1, use_bias=False), L.BatchNormalization(), L.Dropout(0.1)
            self.stride = stride

        def call(self, x: Any, training: bool = True) -> Any:
            """Of [batch, time, frequency, channels]."""
            if self.wide is not None:
                x = tf.nn.avg_pool2d(self.wide(x), [1, self.stride], [1, self.stride], "VALID")
            h = self.norm(self.deep(x), training=training)
            mean = tf.reduce_mean(h, 2, keepdims=True)
            mean = tf.nn.silu(self.second(self.along(mean), training=training))
            return tf.nn.relu(x + h + self.drop(self.mix(mean), training=training))

    class Network(K.Model):
        """Everything, from samples to words."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.out = L.Conv2D(s.c, 5, (2, 1), padding="same"), L.Dense(12)
            self.parts = [Broadcast(s.c * c, stride) for c, stride in ((1, 1), (1, 1), (2, 2), (2, 1), (4, 2), (4, 1))]

        def call(self, x: Any, training: bool = True) -> Any:
            """Scores of words."""
            power = tf.square(tf.abs(tf.signal.stft(x, 400, 160, 512)))
            h = tf.math.log(tf.tensordot(power, mel, 1) + 1e-6)[..., None]
            h = self.first(h)
            for part in self.parts:
                h = part(h, training=training)
            return self.out(tf.reduce_mean(h, [1, 2]))

    return trained(Network(), lambda m, x, y: cross_entropy(y, m(x)), K.optimizers.Adam(1e-3), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Broadcast(nn.Module):
        """A two-dimensional part, and a one-dimensional one that is added to every frequency."""

        def __init__(self, i: int, c: int, stride: int):
            super().__init__()
            self.wide = (
                nn.Sequential(nn.Conv2d(i, c, 1, bias=False), nn.AvgPool2d((1, stride))) if stride > 1 else nn.Identity()
            )
            self.deep, self.norm = nn.Conv2d(c, c, (1, 3), 1, (0, 1), groups=c, bias=False), nn.BatchNorm2d(c)
            self.along, self.mix = nn.Conv2d(c, c, (3, 1), 1, (1, 0), groups=c, bias=False), nn.Conv2d(c, c, 1, bias=False)
            self.second = nn.BatchNorm2d(c)

        def forward(self, x: Any) -> Any:
            x = self.wide(x)
            h = self.norm(self.deep(x))
            mean = F.silu(self.second(self.along(h.mean(3, keepdim=True))))
            return F.relu(x + h + F.dropout(self.mix(mean), 0.1))

    class Keywords(nn.Module):
        """Everything, from samples to words."""

        def __init__(self, s: Any):
            super().__init__()
            self.register_buffer("mel", torch.rand(257, 40))
            self.register_buffer("window", torch.hann_window(400))
            self.first, self.out = nn.Conv2d(1, s.c, 5, (2, 1), 2), nn.Linear(4 * s.c, 12)
            shapes = ((1, 1, 1), (1, 1, 1), (1, 2, 2), (2, 2, 1), (2, 4, 2), (4, 4, 1))
            self.parts = nn.Sequential(*[Broadcast(s.c * i, s.c * c, stride) for i, c, stride in shapes])

        def forward(self, x: Any) -> Any:
            frames = x.unfold(1, 400, 160) * self.window
            power = torch.fft.rfft(frames, 512).abs().square()
            return self.out(self.parts(self.first((power @ self.mel + 1e-6).log()[:, None])).mean((2, 3)))

    x, y = given
    return trained(Keywords(s), lambda m: F.cross_entropy(m(x), y), adam(1e-3), short, compiled, last=True)
