"""gMLP, 8 layers of 512 with spatial gates over 256 words, batch 16, AdamW, bf16, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 16, "t": 256, "d": 512, "wide": 2048, "layers": 8, "words": 16000}
SMALL = {"n": 2, "t": 8, "d": 16, "wide": 32, "layers": 2, "words": 50}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Words, and the hidden ones."""
    return r.randint(0, s.words, [s.n, s.t]), r.randint(0, s.words, [s.n, s.t])


def ours(s: Any, arrays: tuple) -> Any:
    """Half of the channels gate the others along the sequence."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf

    class Block(L.Layer):
        def build(self, shape: Any) -> None:
            self.norm, self.inner = L.LayerNormalization(), L.LayerNormalization()
            self.up, self.down, self.mix = L.Dense(s.wide, "gelu"), L.Dense(s.d), L.Dense(s.t, bias_initializer="ones")

        def call(self, x: Any) -> Any:
            u, v = tf.split(self.up(self.norm(x)), 2, -1)
            v = tf.transpose(self.mix(tf.transpose(self.inner(v), [0, 2, 1])), [0, 2, 1])
            return x + self.down(u * v)

    model = K.Sequential(
        [
            K.Input([s.t]),
            L.Embedding(s.words, s.d),
            *[Block() for _ in range(s.layers)],
            L.LayerNormalization(),
            L.Dense(s.words),
        ]
    )
    optimizer = K.optimizers.AdamW(1e-3)
    ids, labels = map(tf.constant, arrays)
    model(ids)

    @tf.function
    def step(ids: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, model(ids, training=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: step(ids, labels)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import trained

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.inner = nn.LayerNorm(s.d), nn.LayerNorm(s.wide // 2)
            self.up, self.down, self.mix = nn.Linear(s.d, s.wide), nn.Linear(s.wide // 2, s.d), nn.Linear(s.t, s.t)

        def forward(self, x: Any) -> Any:
            u, v = F.gelu(self.up(self.norm(x))).chunk(2, -1)
            return x + self.down(u * self.mix(self.inner(v).transpose(1, 2)).transpose(1, 2))

    model = nn.Sequential(
        nn.Embedding(s.words, s.d), *[Block() for _ in range(s.layers)], nn.LayerNorm(s.d), nn.Linear(s.d, s.words)
    )
    ids, labels = given
    return trained(
        model,
        lambda m: F.cross_entropy(m(ids).float().view(-1, s.words), labels.view(-1)),
        lambda p: torch.optim.AdamW(p, 1e-3, fused=True),
        short,
        compiled,
    )
