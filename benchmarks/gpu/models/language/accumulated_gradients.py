"""Gradients of four parts of a batch added up, encoder of 4 layers of 512, dropout, 4 × 8 × 256, bf16, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"parts": 4, "n": 8, "t": 256, "d": 512, "heads": 8, "layers": 4, "words": 8000}
SMALL = {"parts": 2, "n": 2, "t": 8, "d": 16, "heads": 2, "layers": 1, "words": 50}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Words and labels of each part."""
    return r.randint(0, s.words, [s.parts, s.n, s.t]), r.randint(0, s.words, [s.parts, s.n, s.t])


def ours(s: Any, arrays: tuple) -> Any:
    """Keras's own attention, added gradients in variables."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf

    class Block(L.Layer):
        def build(self, shape: Any) -> None:
            self.norms = [L.LayerNormalization() for _ in range(2)]
            self.attention = L.MultiHeadAttention(s.heads, s.d // s.heads, dropout=0.1)
            self.up, self.down, self.drop = L.Dense(4 * s.d, "relu"), L.Dense(s.d), L.Dropout(0.1)

        def call(self, x: Any, training: Any = None) -> Any:
            h = self.norms[0](x)
            x = x + self.drop(self.attention(h, h, training=training), training=training)
            return x + self.drop(self.down(self.up(self.norms[1](x))), training=training)

    model = K.Sequential(
        [L.Embedding(s.words, s.d), *[Block() for _ in range(s.layers)], L.LayerNormalization(), L.Dense(s.words)]
    )
    optimizer = K.optimizers.Adam(1e-4)
    ids, labels = map(tf.constant, arrays)
    model(ids[0])
    sums = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]

    @tf.function
    def step(ids: Any, labels: Any) -> Any:
        variables, total = model.trainable_variables, 0.0
        for sum in sums:
            sum.assign(tf.zeros_like(sum))
        for i in range(s.parts):
            with tf.GradientTape() as tape:
                loss = cross_entropy(labels[i], model(ids[i], training=True)) / s.parts
            for sum, g in zip(sums, tape.gradient(loss, variables), strict=True):
                sum.assign_add(tf.convert_to_tensor(g))
            total += loss
        optimizer.apply_gradients(zip(sums, variables, strict=True))
        return total

    return lambda: step(ids, labels)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import DEVICE, adam

    layers = [
        nn.TransformerEncoderLayer(s.d, s.heads, 4 * s.d, 0.1, batch_first=True, norm_first=True) for _ in range(s.layers)
    ]
    model = nn.Sequential(nn.Embedding(s.words, s.d), *layers, nn.LayerNorm(s.d), nn.Linear(s.d, s.words)).to(DEVICE)
    opt = adam(1e-4)(model.parameters())

    def loss(ids: Any, labels: Any) -> Any:
        return F.cross_entropy(model(ids).float().view(-1, s.words), labels.view(-1)) / s.parts

    run = torch.compile(loss) if compiled else loss

    def step() -> Any:
        opt.zero_grad(set_to_none=True)
        total = 0.0
        for ids, labels in zip(*given, strict=True):
            with torch.autocast(DEVICE, torch.bfloat16, enabled=short):
                value = run(ids, labels)
            value.backward()
            total = total + value.detach()
        opt.step()
        return total

    return step
