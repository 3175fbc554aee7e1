"""FNet, 8 layers that mix 512 tokens of 512 numbers by Fourier transforms, batch 32, float32, clipped Adam, GradientTape."""

from __future__ import annotations

from typing import Any

FULL = {"n": 32, "steps": 512, "width": 512, "layers": 8, "words": 8000}
SMALL = {"n": 2, "steps": 8, "width": 8, "layers": 1, "words": 20}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Sentences."""
    return (r.randint(0, s.words, (s.n, s.steps)),)


def ours(s: Any, arrays: tuple) -> Any:
    """A custom training step that predicts the words themselves."""
    from benchmarks.gpu.penstock_side import K, L, tf

    class Mixer(L.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.n1, self.n2 = L.LayerNormalization(epsilon=1e-6), L.LayerNormalization(epsilon=1e-6)
            self.wide, self.back = L.Dense(4 * s.width, "gelu"), L.Dense(s.width)

        def call(self, x: Any) -> Any:
            mixed = tf.math.real(tf.signal.fft2d(tf.cast(x, tf.complex64)))
            x = self.n1(x + mixed)
            return self.n2(x + self.back(self.wide(x)))

    x = i = K.Input([s.steps], dtype="int32")
    x = L.Embedding(s.words, s.width)(x)
    for _ in range(s.layers):
        x = Mixer()(x)
    model = K.Model(i, L.Dense(s.words)(x))
    optimizer = K.optimizers.Adam(1e-4, global_clipnorm=1.0)
    ids = tf.constant(arrays[0], tf.int32)

    @tf.function
    def step(ids: Any) -> Any:
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(ids, model(ids))
            loss = tf.reduce_mean(each)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    return lambda: step(ids)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(s.width, 1e-6), nn.LayerNorm(s.width, 1e-6)
            self.wide, self.back = nn.Linear(s.width, 4 * s.width), nn.Linear(4 * s.width, s.width)

        def forward(self, x: Any) -> Any:
            x = self.n1(x + torch.fft.fft2(x).real)
            return self.n2(x + self.back(F.gelu(self.wide(x))))

    ids = given[0]
    layers = [nn.Embedding(s.words, s.width), *(Mixer() for _ in range(s.layers)), nn.Linear(s.width, s.words)]
    return trained(
        nn.Sequential(*layers),
        lambda m: F.cross_entropy(m(ids).flatten(0, 1), ids.flatten()),
        adam(1e-4),
        short,
        compiled,
        clip=1.0,
    )
