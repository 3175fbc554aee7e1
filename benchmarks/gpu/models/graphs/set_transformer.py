"""Set Transformer, induced points, sets of three sizes in turns, bf16, tf.function."""

from __future__ import annotations

import itertools
from typing import Any

FULL = {"n": 64, "d": 256, "heads": 8, "points": 32, "lengths": (256, 512, 1024)}
SMALL = {"n": 2, "d": 16, "heads": 2, "points": 3, "lengths": (4, 8)}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Sets and their classes."""
    return r.randn(s.n, max(s.lengths), 4).astype("f"), r.randint(0, 10, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Attention through a few learned points; the size of the sets changes from step to step."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf

    class Attends(L.Layer):
        """Attention with residual and feed-forward part."""

        def __init__(self) -> None:
            super().__init__()
            self.attention, self.feed = L.MultiHeadAttention(s.heads, s.d // s.heads), L.Dense(s.d, "relu")
            self.norms = [L.LayerNormalization() for _ in range(2)]

        def call(self, x: Any, y: Any) -> Any:
            """Of x over y."""
            h = self.norms[0](x + self.attention(x, y))
            return self.norms[1](h + self.feed(h))

    class Induced(L.Layer):
        """Through points, and back."""

        def __init__(self) -> None:
            super().__init__()
            self.there, self.back = Attends(), Attends()

        def build(self, shape: Any) -> None:
            """The points."""
            self.points = self.add_weight(name="points", shape=[1, s.points, s.d])

        def call(self, x: Any) -> Any:
            """Of a set."""
            points = tf.repeat(tf.cast(self.points, x.dtype), tf.shape(x)[0], 0)
            return self.back(x, self.there(points, x))

    class Network(K.Model):
        """Two of them, and a mean."""

        def __init__(self) -> None:
            super().__init__()
            self.enter, self.parts = L.Dense(s.d), [Induced() for _ in range(3)]
            self.out = K.Sequential([L.Dense(s.d, "relu"), L.Dense(10)])

        def call(self, x: Any) -> Any:
            """Scores of classes."""
            x = self.enter(x)
            for part in self.parts:
                x = part(x)
            return self.out(tf.reduce_mean(x, 1))

    model, opt, (x, y) = Network(), K.optimizers.Adam(1e-3), arrays
    held, labels = itertools.cycle([tf.constant(x[:, :n]) for n in s.lengths]), tf.constant(y)

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4]), tf.TensorSpec([None], tf.int64)])
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = cross_entropy(y, model(x))
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return loss

    return lambda: step(next(held), labels)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """Sets of several sizes in turns."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import DEVICE, adam

    class Attends(nn.Module):
        """Attention with residual and feed-forward part."""

        def __init__(self, s: Any):
            super().__init__()
            self.heads, self.q, self.kv, self.out = s.heads, nn.Linear(s.d, s.d), nn.Linear(s.d, 2 * s.d), nn.Linear(s.d, s.d)
            self.feed, self.norms = nn.Linear(s.d, s.d), nn.ModuleList(nn.LayerNorm(s.d) for _ in range(2))

        def forward(self, x: Any, y: Any) -> Any:
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(x), *self.kv(y).chunk(2, -1)))
            h = self.norms[0](x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)))
            return self.norms[1](h + F.relu(self.feed(h)))

    class Sets(nn.Module):
        """Through points and back, and a mean."""

        def __init__(self, s: Any):
            super().__init__()
            self.enter = nn.Linear(4, s.d)
            self.there, self.back = (nn.ModuleList(Attends(s) for _ in range(3)) for _ in range(2))
            self.points = nn.ParameterList(torch.randn(1, s.points, s.d) * 0.1 for _ in range(3))
            self.out = nn.Sequential(nn.Linear(s.d, s.d), nn.ReLU(), nn.Linear(s.d, 10))

        def forward(self, x: Any) -> Any:
            x = self.enter(x)
            for there, back, points in zip(self.there, self.back, self.points, strict=True):
                x = back(x, there(points.to(x.dtype).expand(x.shape[0], -1, -1), x))
            return self.out(x.mean(1))

    x, y = given
    held = itertools.cycle([x[:, :n].contiguous() for n in s.lengths])
    model = Sets(s).to(DEVICE)
    opt, run = adam(1e-3)(model.parameters()), torch.compile(model, dynamic=False) if compiled else model

    def step() -> Any:
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = F.cross_entropy(run(next(held)).float(), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    return step
