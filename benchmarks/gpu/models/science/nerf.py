"""NeRF, 4,096 rays of 64 points through an MLP of 8 layers of 256, volume rendering, float32, Adam, GradientTape."""

from __future__ import annotations

from typing import Any

FULL = {"rays": 4096, "points": 64, "width": 256, "layers": 8, "waves": 10}
SMALL = {"rays": 4, "points": 3, "width": 8, "layers": 5, "waves": 2}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Origins and directions of rays, and colours."""
    return tuple(r.rand(s.rays, 3).astype("f") for _ in range(3))


def ours(s: Any, arrays: tuple) -> Any:
    """A custom training step."""
    from benchmarks.gpu.penstock_side import K, L, tf

    body = [L.Dense(s.width, "relu") for _ in range(s.layers)]
    head = L.Dense(4)
    optimizer = K.optimizers.Adam(5e-4)
    depths = tf.linspace(2.0, 6.0, s.points)
    given = [tf.constant(a) for a in arrays]

    def colours(points: Any) -> Any:
        waves = [f(points * 2.0**i) for i in range(s.waves) for f in (tf.sin, tf.cos)]
        x = encoded = tf.concat([points, *waves], -1)
        for i, layer in enumerate(body):
            x = layer(tf.concat([x, encoded], -1) if i == 4 else x)
        return head(x)

    @tf.function
    def step(origins: Any, directions: Any, wanted: Any) -> Any:
        with tf.GradientTape() as tape:
            points = origins[:, None] + directions[:, None] * depths[:, None]
            out = colours(points)
            alpha = 1.0 - tf.exp(-tf.nn.relu(out[..., 3]) * (4.0 / s.points))
            weights = alpha * tf.math.cumprod(1.0 - alpha + 1e-10, -1, exclusive=True)
            found = tf.reduce_sum(weights[..., None] * tf.sigmoid(out[..., :3]), 1)
            loss = tf.reduce_mean(tf.square(found - wanted))
        variables = [v for layer in [*body, head] for v in layer.trainable_variables]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: step(*given)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            first = 3 + 6 * s.waves
            sizes = [first] + [s.width] * (s.layers - 1)
            self.body = nn.ModuleList(nn.Linear(n + (first if i == 4 else 0), s.width) for i, n in enumerate(sizes))
            self.head = nn.Linear(s.width, 4)

        def forward(self, points: Any) -> Any:
            waves = [f(points * 2.0**i) for i in range(s.waves) for f in (torch.sin, torch.cos)]
            x = encoded = torch.cat([points, *waves], -1)
            for i, layer in enumerate(self.body):
                x = layer(torch.cat([x, encoded], -1) if i == 4 else x).relu()
            return self.head(x)

    origins, directions, wanted = given
    depths = torch.linspace(2.0, 6.0, s.points, device=origins.device)

    def loss(m: Any) -> Any:
        out = m(origins[:, None] + directions[:, None] * depths[:, None])
        alpha = 1.0 - torch.exp(-out[..., 3].relu() * (4.0 / s.points))
        passed = torch.cumprod(1.0 - alpha + 1e-10, -1)
        weights = alpha * torch.cat([torch.ones_like(passed[:, :1]), passed[:, :-1]], -1)
        return ((weights[..., None] * out[..., :3].sigmoid()).sum(1) - wanted).square().mean()

    return trained(Field(), loss, adam(5e-4), short, compiled)
