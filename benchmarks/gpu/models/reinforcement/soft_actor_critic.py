"""Soft actor-critic, three optimizers, slow copies, batch 1,024, TF32, tf.function."""

from __future__ import annotations

import copy
import math
from typing import Any

FULL = {"n": 1024, "seen": 64, "acts": 16, "d": 512}
SMALL = {"n": 8, "seen": 6, "acts": 2, "d": 16}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """What was seen, done and paid, and what was seen then."""
    seen, then = r.randn(2, s.n, s.seen).astype("f")
    return seen, r.uniform(-1, 1, [s.n, s.acts]).astype("f"), r.randn(s.n).astype("f"), then


def ours(s: Any, arrays: tuple) -> Any:
    """A policy, two critics with slow copies, and a temperature."""
    from benchmarks.gpu.penstock_side import K, L, tf

    def network(inputs: int, out: int) -> Any:
        model = K.Sequential([L.Dense(s.d, "relu"), L.Dense(s.d, "relu"), L.Dense(out)])
        model.build([None, inputs])
        return model

    policy = network(s.seen, 2 * s.acts)
    critics, slow = ([network(s.seen + s.acts, 1) for _ in range(2)] for _ in range(2))
    heat = tf.Variable(0.0)
    for a, b in zip(slow, critics, strict=True):
        a.set_weights(b.get_weights())
    optimizers = [K.optimizers.Adam(3e-4) for _ in range(3)]

    def act(seen: Any) -> Any:
        mean, spread = tf.split(policy(seen), 2, -1)
        spread = tf.clip_by_value(spread, -20.0, 2.0)
        noise = tf.random.normal(tf.shape(mean))
        raw = mean + tf.exp(spread) * noise
        likely = -0.5 * tf.square(noise) - spread - 0.919
        likely -= 2.0 * (math.log(2.0) - raw - tf.math.softplus(-2.0 * raw))
        return tf.tanh(raw), tf.reduce_sum(likely, -1)

    def rated(pair: list, seen: Any, act: Any) -> list:
        return [c(tf.concat([seen, act], -1))[:, 0] for c in pair]

    @tf.function
    def step(seen: Any, done: Any, reward: Any, then: Any) -> Any:
        following, likely = act(then)
        goal = reward + 0.99 * (tf.minimum(*rated(slow, then, following)) - tf.exp(heat) * likely)
        ours = [v for c in critics for v in c.trainable_variables]
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_mean(tf.square(q - tf.stop_gradient(goal))) for q in rated(critics, seen, done)])
        optimizers[0].apply_gradients(zip(tape.gradient(loss, ours), ours, strict=True))
        with tf.GradientTape() as tape:
            chosen, likely = act(seen)
            cost = tf.reduce_mean(tf.exp(heat) * likely - tf.minimum(*rated(critics, seen, chosen)))
        own = policy.trainable_variables
        optimizers[1].apply_gradients(zip(tape.gradient(cost, own), own, strict=True))
        with tf.GradientTape() as tape:
            third = -tf.reduce_mean(heat * tf.stop_gradient(likely - s.acts))
        optimizers[2].apply_gradients([(tape.gradient(third, heat), heat)])
        for a, b in zip(slow, critics, strict=True):
            for v, w in zip(a.variables, b.variables, strict=True):
                v.assign(0.995 * v + 0.005 * w)
        return loss

    held = tuple(map(tf.constant, arrays))
    return lambda: step(*held)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import DEVICE

    def network(i: int, o: int) -> nn.Module:
        return nn.Sequential(nn.Linear(i, s.d), nn.ReLU(), nn.Linear(s.d, s.d), nn.ReLU(), nn.Linear(s.d, o)).to(DEVICE)

    policy, critics = network(s.seen, 2 * s.acts), nn.ModuleList(network(s.seen + s.acts, 1) for _ in range(2))
    slow, heat = copy.deepcopy(critics).requires_grad_(False), torch.zeros([], device=DEVICE, requires_grad=True)
    optimizers = [torch.optim.Adam(p, 3e-4, fused=True) for p in (critics.parameters(), policy.parameters(), [heat])]
    seen, done, reward, then = given

    def act(seen: Any) -> Any:
        mean, spread = policy(seen).chunk(2, -1)
        spread = spread.clamp(-20, 2)
        noise = torch.randn_like(mean)
        raw = mean + spread.exp() * noise
        likely = -0.5 * noise.square() - spread - 0.919 - 2 * (math.log(2) - raw - F.softplus(-2 * raw))
        return raw.tanh(), likely.sum(-1)

    def rated(pair: Any, seen: Any, act: Any) -> list:
        return [c(torch.cat([seen, act], -1))[:, 0] for c in pair]

    def first() -> Any:
        with torch.no_grad():
            following, likely = act(then)
            goal = reward + 0.99 * (torch.minimum(*rated(slow, then, following)) - heat.exp() * likely)
        return sum((q - goal).square().mean() for q in rated(critics, seen, done))

    def second() -> Any:
        chosen, likely = act(seen)
        cost = (heat.exp().detach() * likely - torch.minimum(*rated(critics, seen, chosen))).mean()
        return cost, -(heat * (likely.detach() - s.acts)).mean()

    if compiled:
        first, second = torch.compile(first), torch.compile(second)

    def step() -> Any:
        loss = first()
        for o in optimizers:
            o.zero_grad(set_to_none=True)
        loss.backward()
        optimizers[0].step()
        cost, third = second()
        (cost + third).backward()
        optimizers[1].step()
        optimizers[2].step()
        with torch.no_grad():
            torch._foreach_lerp_(list(slow.parameters()), list(critics.parameters()), 0.005)
        return loss.detach()

    return step
