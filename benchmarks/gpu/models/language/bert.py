"""BERT encoder, 6 layers of 512, dropout and padding, TF32, 1.x session."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FULL = {"n": 32, "t": 256, "d": 512, "heads": 8, "layers": 6, "words": 30000}
SMALL = {"n": 2, "t": 16, "d": 64, "layers": 1, "words": 100}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Words, which of them count, and labels."""
    ids, length = r.randint(0, s.words, [s.n, s.t]), r.randint(s.t // 2, s.t + 1, s.n)
    return ids, (np.arange(s.t) < length[:, None]).astype("f"), r.randint(0, s.words, [s.n, s.t])


def ours(s: Any, arrays: tuple) -> Any:
    """An encoder as BERT's own code writes it, in a session."""
    import penstock.compat.v1 as tf
    from benchmarks.gpu.penstock_side import DEVICE, in_session

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        ids, mask, labels = (
            tf.get_variable(n, initializer=tf.constant(a), trainable=False)
            for n, a in zip(("ids", "mask", "labels"), arrays, strict=True)
        )

        def var(n: str, shape: list, init: Any = None) -> Any:
            return tf.get_variable(n, shape, tf.float32, init or tf.truncated_normal_initializer(stddev=0.02))

        def dense(x: Any, n: int, scope: str) -> Any:
            with tf.variable_scope(scope):
                return tf.nn.bias_add(tf.matmul(x, var("w", [x.shape[-1].value, n])), var("b", [n], tf.zeros_initializer()))

        def norm(x: Any, scope: str) -> Any:
            with tf.variable_scope(scope):
                mean, variance = tf.nn.moments(x, [-1], keepdims=True)
                return tf.nn.batch_normalization(
                    x, mean, variance, var("b", [s.d], tf.zeros_initializer()), var("g", [s.d], tf.ones_initializer()), 1e-12
                )

        def split(x: Any) -> Any:
            return tf.transpose(tf.reshape(x, [s.n, s.t, s.heads, s.d // s.heads]), [0, 2, 1, 3])

        table = var("words", [s.words, s.d])
        x = tf.reshape(tf.nn.embedding_lookup(table, ids) + var("places", [s.t, s.d]), [s.n * s.t, s.d])
        x = tf.nn.dropout(norm(x, "n"), rate=0.1)
        adder = (1.0 - tf.ones([s.n, s.t, 1]) * mask[:, None, :])[:, None] * -10000.0
        for i in range(s.layers):
            with tf.variable_scope(f"layer{i}"):
                q, k, v = (split(dense(x, s.d, n)) for n in "qkv")
                scores = tf.matmul(q, k, transpose_b=True) * (1 / math.sqrt(s.d // s.heads)) + adder
                p = tf.nn.dropout(tf.nn.softmax(scores), rate=0.1)
                h = tf.reshape(tf.transpose(tf.matmul(p, v), [0, 2, 1, 3]), [s.n * s.t, s.d])
                x = norm(x + tf.nn.dropout(dense(h, s.d, "o"), rate=0.1), "n1")
                h = dense(x, 4 * s.d, "f1")
                h = h * 0.5 * (1.0 + tf.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * tf.pow(h, 3))))
                x = norm(x + tf.nn.dropout(dense(h, s.d, "f2"), rate=0.1), "n2")
        logits = tf.matmul(x, table, transpose_b=True) + var("out", [s.words], tf.zeros_initializer())
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(labels, [-1]), logits=logits)
        weights = tf.reshape(mask, [-1])
        loss = tf.reduce_sum(entropy * weights) / tf.reduce_sum(weights)
        variables = tf.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
        train = tf.train.AdamOptimizer(1e-4).apply_gradients(zip(gradients, variables, strict=True))
    return in_session(loss, train)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Encoder(nn.Module):
        """A layer of BERT."""

        def __init__(self, s: Any):
            super().__init__()
            self.heads, self.qkv, self.o = s.heads, nn.Linear(s.d, 3 * s.d), nn.Linear(s.d, s.d)
            self.f1, self.f2 = nn.Linear(s.d, 4 * s.d), nn.Linear(4 * s.d, s.d)
            self.n1, self.n2, self.drop = nn.LayerNorm(s.d, 1e-12), nn.LayerNorm(s.d, 1e-12), nn.Dropout(0.1)

        def forward(self, x: Any, adder: Any) -> Any:
            n, t, d = x.shape
            q, k, v = self.qkv(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, adder, 0.1).transpose(1, 2).reshape(n, t, d)
            x = self.n1(x + self.drop(self.o(y)))
            return self.n2(x + self.drop(self.f2(F.gelu(self.f1(x), approximate="tanh"))))

    class Bert(nn.Module):
        """An encoder with the loss of masked words."""

        def __init__(self, s: Any):
            super().__init__()
            self.words, self.places = nn.Embedding(s.words, s.d), nn.Parameter(torch.randn(s.t, s.d) * 0.02)
            nn.init.normal_(self.words.weight, std=0.02)
            self.n, self.drop, self.out = nn.LayerNorm(s.d, 1e-12), nn.Dropout(0.1), nn.Parameter(torch.zeros(s.words))
            self.layers = nn.ModuleList(Encoder(s) for _ in range(s.layers))

        def forward(self, ids: Any, mask: Any, labels: Any) -> Any:
            x = self.drop(self.n(self.words(ids) + self.places))
            adder = ((1.0 - mask) * -10000.0)[:, None, None].expand(-1, 1, ids.shape[1], -1)
            for layer in self.layers:
                x = layer(x, adder)
            logits = x @ self.words.weight.T + self.out
            entropy = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
            return (entropy * mask.flatten()).sum() / mask.sum()

    return trained(Bert(s), lambda m: m(*given), adam(1e-4), short, compiled, clip=1.0)
