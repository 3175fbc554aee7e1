"""Neural differential equation, Runge-Kutta, number of steps is an argument, batch 512 of 64, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 512, "d": 64, "h": 256, "steps": 20}
SMALL = {"n": 4, "d": 4, "h": 8, "steps": 3}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Where curves start and end."""
    return r.randn(s.n, s.d).astype("f"), r.randn(s.n, s.d).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """A network is the slope of a curve through x and y."""
    from benchmarks.gpu.penstock_side import K, L, tf

    slope = K.Sequential([L.Dense(s.h, "tanh"), L.Dense(s.h, "tanh"), L.Dense(s.d)])
    slope.build([s.n, s.d])
    optimizer = K.optimizers.Adam(1e-3)
    x, y = map(tf.constant, arrays)
    steps = tf.constant(s.steps)

    @tf.function
    def step(x: Any, y: Any, steps: Any) -> Any:
        with tf.GradientTape() as tape:
            width = 1.0 / tf.cast(steps, tf.float32)
            for _ in tf.range(steps):
                a = slope(x)
                b = slope(x + 0.5 * width * a)
                c = slope(x + 0.5 * width * b)
                x += width / 6.0 * (a + 2.0 * b + 2.0 * c + slope(x + width * c))
            loss = tf.reduce_mean(tf.square(x - y))
        variables = slope.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: step(x, y, steps)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """A network is the slope of a curve through x and y."""
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    x, y = given
    slope = nn.Sequential(nn.Linear(s.d, s.h), nn.Tanh(), nn.Linear(s.h, s.h), nn.Tanh(), nn.Linear(s.h, s.d))

    def loss(m: Any) -> Any:
        now, width = x, 1.0 / s.steps
        for _ in range(s.steps):
            a = m(now)
            b = m(now + 0.5 * width * a)
            c = m(now + 0.5 * width * b)
            now = now + width / 6.0 * (a + 2.0 * b + 2.0 * c + m(now + width * c))
        return F.mse_loss(now, y)

    return trained(slope, loss, adam(1e-3), short, compiled)
