"""DiT, 8 layers of 384 with adaptive norms, 64 × 256 patches, AdamW and moving average, bf16, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 64, "t": 256, "d": 384, "heads": 6, "layers": 8}
SMALL = {"n": 2, "t": 16, "d": 32, "heads": 2, "layers": 1}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Patches, noise, times, and classes."""
    noise = r.randn(s.n, s.t, 16).astype("f")
    return r.randn(s.n, s.t, 16).astype("f"), noise, r.rand(s.n).astype("f"), r.randint(0, 1000, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Patches of noise to velocity; time and class scale and shift every norm. Slow copies follow the weights."""
    from benchmarks.gpu.penstock_side import K, L, tf

    class Block(L.Layer):
        """Attention and a feed-forward part, both adapted."""

        def __init__(self) -> None:
            super().__init__()
            self.norms = [L.LayerNormalization(center=False, scale=False, epsilon=1e-6) for _ in range(2)]
            self.adapt = L.Dense(6 * s.d, kernel_initializer="zeros")
            self.attention = L.MultiHeadAttention(s.heads, s.d // s.heads)
            self.up, self.down = L.Dense(4 * s.d), L.Dense(s.d)

        def call(self, x: Any, c: Any) -> Any:
            """With a condition."""
            a, b, g, d, e, f = (t[:, None] for t in tf.split(self.adapt(tf.nn.silu(c)), 6, -1))
            h = self.norms[0](x) * (1 + b) + a
            x = x + g * self.attention(h, h)
            h = self.norms[1](x) * (1 + e) + d
            return x + f * self.down(tf.nn.gelu(self.up(h), approximate=True))

    class Dit(K.Model):
        """All of it."""

        def __init__(self) -> None:
            super().__init__()
            self.enter, self.classes = L.Dense(s.d), L.Embedding(1000, s.d)
            self.time = K.Sequential([L.Dense(s.d, "swish"), L.Dense(s.d)])
            self.blocks, self.out = [Block() for _ in range(s.layers)], L.Dense(16, dtype="float32")
            self.places = self.add_weight(name="places", shape=[s.t, s.d], initializer=K.initializers.RandomNormal(stddev=0.02))

        def call(self, x: Any, t: Any, label: Any) -> Any:
            """The velocity."""
            waves = t[:, None] * 1000.0 * tf.exp(tf.linspace(0.0, -9.2, 128))
            c = self.time(tf.concat([tf.sin(waves), tf.cos(waves)], -1)) + self.classes(label)
            x = self.enter(x) + tf.cast(self.places, tf.bfloat16)
            for block in self.blocks:
                x = block(x, c)
            return self.out(x)

    model, opt = Dit(), K.optimizers.AdamW(1e-4, weight_decay=0.0)
    held = tuple(map(tf.constant, arrays))
    model(held[0], held[2], held[3])
    slow = [tf.Variable(v, trainable=False) for v in model.trainable_variables]

    @tf.function
    def step(x: Any, noise: Any, t: Any, label: Any) -> Any:
        part = t[:, None, None]
        with tf.GradientTape() as tape:
            found = model((1.0 - part) * x + part * noise, t, label)
            loss = tf.reduce_mean(tf.square(found - (noise - x)))
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        for a, v in zip(slow, model.trainable_variables, strict=True):
            a.assign(0.999 * a + 0.001 * v)
        return loss

    return lambda: step(*held)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """Slow copies follow the weights."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import DEVICE

    class DitBlock(nn.Module):
        """Attention and a feed-forward part, both adapted."""

        def __init__(self, s: Any):
            super().__init__()
            self.heads, self.d = s.heads, s.d
            self.adapt, self.qkv, self.out = nn.Linear(s.d, 6 * s.d), nn.Linear(s.d, 3 * s.d), nn.Linear(s.d, s.d)
            self.up, self.down = nn.Linear(s.d, 4 * s.d), nn.Linear(4 * s.d, s.d)
            nn.init.zeros_(self.adapt.weight)
            nn.init.zeros_(self.adapt.bias)

        def forward(self, x: Any, c: Any) -> Any:
            a, b, g, d, e, f = self.adapt(F.silu(c))[:, None].chunk(6, -1)
            h = F.layer_norm(x, [self.d], eps=1e-6) * (1 + b) + a
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
            x = x + g * self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
            h = F.layer_norm(x, [self.d], eps=1e-6) * (1 + e) + d
            return x + f * self.down(F.gelu(self.up(h), approximate="tanh"))

    class Dit(nn.Module):
        """All of it."""

        def __init__(self, s: Any):
            super().__init__()
            self.enter, self.classes, self.out = nn.Linear(16, s.d), nn.Embedding(1000, s.d), nn.Linear(s.d, 16)
            self.time = nn.Sequential(nn.Linear(256, s.d), nn.SiLU(), nn.Linear(s.d, s.d))
            self.blocks = nn.ModuleList(DitBlock(s) for _ in range(s.layers))
            self.places = nn.Parameter(torch.randn(s.t, s.d) * 0.02)

        def forward(self, x: Any, t: Any, label: Any) -> Any:
            waves = t[:, None] * 1000.0 * torch.linspace(0.0, -9.2, 128, device=t.device).exp()
            c = self.time(torch.cat([waves.sin(), waves.cos()], -1)) + self.classes(label)
            x = self.enter(x) + self.places
            for block in self.blocks:
                x = block(x, c)
            return self.out(x)

    x, noise, t, label = given
    part, model = t[:, None, None], Dit(s).to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), 1e-4, weight_decay=0.0, fused=True)
    slow = [p.detach().clone() for p in model.parameters()]

    def loss() -> Any:
        return (model((1.0 - part) * x + part * noise, t, label).float() - (noise - x)).square().mean()

    run = torch.compile(loss) if compiled else loss

    def step() -> Any:
        with torch.autocast(DEVICE, torch.bfloat16):
            value = run()
        opt.zero_grad(set_to_none=True)
        value.backward()
        opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(slow, list(model.parameters()), 0.001)
        return value.detach()

    return step
