"""PPO, advantages by a backward loop over 64 steps of 256 environments, clipped policy and value losses, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 256, "t": 64, "seen": 64, "acts": 12, "d": 256}
SMALL = {"n": 3, "t": 4, "seen": 5, "acts": 3, "d": 8}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """What was seen, done and paid, where it ended, and how likely each action was."""
    return (
        r.randn(s.t + 1, s.n, s.seen).astype("f"),
        r.randint(0, s.acts, [s.t, s.n]),
        r.randn(s.t, s.n).astype("f"),
        (r.rand(s.t, s.n) < 0.05).astype("f"),
        -1.5 - r.rand(s.t, s.n).astype("f"),
    )


def ours(s: Any, arrays: tuple) -> Any:
    """One step over all of it."""
    from benchmarks.gpu.penstock_side import K, L, tf

    body = K.Sequential([L.Dense(s.d, "tanh"), L.Dense(s.d, "tanh")])
    policy, value = L.Dense(s.acts), L.Dense(1)
    optimizer = K.optimizers.Adam(3e-4)
    seen, acts, paid, ended, before = map(tf.constant, arrays)
    value(body(seen[0]))
    policy(body(seen[0]))

    @tf.function
    def step(seen: Any, acts: Any, paid: Any, ended: Any, before: Any) -> Any:
        values = tf.squeeze(value(body(seen)), -1)
        gained = paid + 0.99 * values[1:] * (1.0 - ended) - values[:-1]
        advantages = tf.scan(
            lambda sum, x: x[0] + 0.95 * 0.99 * (1.0 - x[1]) * sum, (gained, ended), tf.zeros([s.n]), reverse=True
        )
        returns = advantages + values[:-1]
        advantages = (advantages - tf.reduce_mean(advantages)) / (tf.math.reduce_std(advantages) + 1e-8)
        with tf.GradientTape() as tape:
            h = body(seen[:-1])
            logs = tf.nn.log_softmax(policy(h))
            now = tf.gather(logs, acts, batch_dims=2)
            ratio = tf.exp(now - before)
            clipped = tf.clip_by_value(ratio, 0.8, 1.2)
            gain = tf.reduce_mean(tf.minimum(ratio * advantages, clipped * advantages))
            entropy = -tf.reduce_mean(tf.reduce_sum(tf.exp(logs) * logs, -1))
            error = tf.reduce_mean(tf.square(tf.squeeze(value(h), -1) - returns))
            loss = 0.5 * error - gain - 0.01 * entropy
        variables = [*body.trainable_variables, *policy.trainable_variables, *value.trainable_variables]
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, variables), 0.5)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    return lambda: step(seen, acts, paid, ended, before)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    seen, acts, paid, ended, before = given

    class Agent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(s.seen, s.d), nn.Tanh(), nn.Linear(s.d, s.d), nn.Tanh())
            self.policy, self.value = nn.Linear(s.d, s.acts), nn.Linear(s.d, 1)

    def loss(m: Any) -> Any:
        with torch.no_grad():
            values = m.value(m.body(seen)).squeeze(-1)
            gained = paid + 0.99 * values[1:] * (1 - ended) - values[:-1]
            sums, total = [], torch.zeros_like(paid[0])
            for i in reversed(range(s.t)):
                total = gained[i] + 0.95 * 0.99 * (1 - ended[i]) * total
                sums.append(total)
            advantages = torch.stack(sums[::-1])
            returns = advantages + values[:-1]
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        h = m.body(seen[:-1])
        logs = torch.log_softmax(m.policy(h), -1)
        ratio = torch.exp(logs.gather(-1, acts[..., None]).squeeze(-1) - before)
        gain = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        entropy = -(logs.exp() * logs).sum(-1).mean()
        return 0.5 * (m.value(h).squeeze(-1) - returns).square().mean() - gain - 0.01 * entropy

    return trained(Agent(), loss, adam(3e-4), short, compiled, clip=0.5)
