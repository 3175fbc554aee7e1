"""FT-Transformer on 13 numbers and 26 categories, batch 1024, bf16, Adam with decoupled decay, Keras fit step."""

from __future__ import annotations

from typing import Any

FULL = {"n": 1024, "numbers": 13, "kinds": 26, "values": 1000, "width": 192, "heads": 8, "layers": 3}
SMALL = {"n": 4, "numbers": 2, "kinds": 3, "values": 5, "width": 8, "heads": 2, "layers": 1}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Numbers, categories and labels."""
    kinds = r.randint(0, s.values, (s.n, s.kinds)) + offsets(s)
    return r.randn(s.n, s.numbers).astype("f"), kinds, r.randint(0, 2, (s.n, 1)).astype("f")


def offsets(s: Any) -> Any:
    """Where the values of each category begin in the table that all share."""
    import numpy as np

    return np.arange(s.kinds) * s.values


def ours(s: Any, arrays: tuple) -> Any:
    """A custom training step."""
    from benchmarks.gpu.penstock_side import K, L, tf

    class Tokens(L.Layer):
        def build(self, shapes: Any) -> None:
            self.scale = self.add_weight(name="scale", shape=[s.numbers, s.width])
            self.bias = self.add_weight(name="bias", shape=[s.numbers + s.kinds, s.width])
            self.first = self.add_weight(name="first", shape=[1, 1, s.width])
            self.table = L.Embedding(s.kinds * s.values, s.width)

        def call(self, both: Any) -> Any:
            numbers, kinds = both
            tokens = tf.concat([tf.cast(numbers, self.scale.dtype)[..., None] * self.scale, self.table(kinds)], 1) + self.bias
            return tf.concat([tf.repeat(self.first, tf.shape(tokens)[0], 0), tokens], 1)

    numbers, kinds = K.Input([s.numbers]), K.Input([s.kinds], dtype="int32")
    x = Tokens()([numbers, kinds])
    for _ in range(s.layers):
        h = L.LayerNormalization()(x)
        x = x + L.MultiHeadAttention(s.heads, s.width // s.heads, dropout=0.1)(h, h)
        h = L.Dense(2 * s.width)(L.LayerNormalization()(x))
        a, gate = tf.split(h, 2, -1)
        x = x + L.Dropout(0.1)(L.Dense(s.width)(a * tf.nn.relu(gate)))
    model = K.Model([numbers, kinds], L.Dense(1, dtype="float32")(L.ReLU()(L.LayerNormalization()(x[:, 0]))))
    optimizer = K.optimizers.AdamW(1e-4, weight_decay=1e-5)
    given = tf.constant(arrays[0]), tf.constant(arrays[1], tf.int32), tf.constant(arrays[2])

    @tf.function
    def step(numbers: Any, kinds: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model([numbers, kinds], training=True)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    return lambda: step(*given)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import trained

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(s.width), nn.LayerNorm(s.width)
            self.qkv, self.out = nn.Linear(s.width, 3 * s.width), nn.Linear(s.width, s.width)
            self.wide, self.back = nn.Linear(s.width, 2 * s.width), nn.Linear(s.width, s.width)

        def forward(self, x: Any) -> Any:
            b, t, _ = x.shape
            q, k, v = self.qkv(self.n1(x)).view(b, t, 3, s.heads, -1).permute(2, 0, 3, 1, 4)
            x = x + self.out(F.scaled_dot_product_attention(q, k, v, dropout_p=0.1).transpose(1, 2).reshape(b, t, -1))
            a, gate = self.wide(self.n2(x)).chunk(2, -1)
            return x + F.dropout(self.back(a * F.relu(gate)), 0.1)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.randn(s.numbers, s.width) * 0.1)
            self.bias = nn.Parameter(torch.zeros(s.numbers + s.kinds, s.width))
            self.first = nn.Parameter(torch.zeros(1, 1, s.width))
            self.table = nn.Embedding(s.kinds * s.values, s.width)
            self.blocks = nn.Sequential(*(Block() for _ in range(s.layers)))
            self.norm, self.head = nn.LayerNorm(s.width), nn.Linear(s.width, 1)

        def forward(self, numbers: Any, kinds: Any) -> Any:
            tokens = torch.cat([numbers[..., None] * self.scale, self.table(kinds)], 1) + self.bias
            x = self.blocks(torch.cat([self.first.expand(len(tokens), -1, -1), tokens], 1))
            return self.head(F.relu(self.norm(x[:, 0])))

    numbers, kinds, y = given
    return trained(
        Model(),
        lambda m: F.binary_cross_entropy_with_logits(m(numbers, kinds).float(), y),
        lambda p: torch.optim.AdamW(p, 1e-4, weight_decay=1e-5, fused=True),
        short,
        compiled,
    )
