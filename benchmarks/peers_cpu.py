"""Side by side on a CPU: a training step of three models in penstock, TensorFlow, PyTorch and JAX.

    python benchmarks/peers_cpu.py --tf PYTHON --jax PYTHON        # of environments with TensorFlow and tf_keras, and with JAX

The models are a dense network on 128 rows, a convolution network on 64 pictures, and a transformer of two layers on 8 × 64
words, trained with Adam. Each framework's program is what its users write for speed: a `tf.function`, `torch.compile` and plain
PyTorch, `jax.jit` with donated buffers. One process per framework, rounds in turns; printed are milliseconds of a step, the
median of the rounds, which begin after the steps that compile.
"""
from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time

import numpy as np
import turns

STEPS = {"dense": 60, "conv": 12, "transformer": 12}
WORDS, WIDTH, HEADS, LENGTH = 1000, 128, 4, 64


def data(kind):
    """Inputs and labels of one batch."""
    draw = np.random.RandomState(0)
    if kind == "dense":
        return draw.rand(128, 784).astype("float32"), draw.randint(0, 10, 128)
    if kind == "conv":
        return draw.rand(64, 28, 28, 1).astype("float32"), draw.randint(0, 10, 64)
    words = draw.randint(0, WORDS, (8, LENGTH + 1))
    return words[:, :-1], words[:, 1:]


# -- penstock and TensorFlow ---------------------------------------------------------------------------------------------
def tf_step(tf, kind):
    """A function that runs one step and returns its loss."""
    layers = tf.keras.layers
    x, y = (tf.constant(a) for a in data(kind))
    if kind == "dense":
        model = tf.keras.Sequential([layers.Dense(512, "relu"), layers.Dense(512, "relu"), layers.Dense(10)])
    elif kind == "conv":
        model = tf.keras.Sequential([layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
                                     layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(), layers.Flatten(),
                                     layers.Dense(128, "relu"), layers.Dense(10)])
    else:
        words = tf.keras.Input((LENGTH,), dtype="int64")
        h = layers.Embedding(WORDS, WIDTH)(words) + layers.Embedding(LENGTH, WIDTH)(tf.range(LENGTH))
        for _ in range(2):
            n = layers.LayerNormalization(epsilon=1e-5)(h)
            h = h + layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(n, n, use_causal_mask=True)
            n = layers.LayerNormalization(epsilon=1e-5)(h)
            h = h + layers.Dense(WIDTH)(layers.Dense(4 * WIDTH, "gelu")(n))
        model = tf.keras.Model(words, layers.Dense(WORDS)(layers.LayerNormalization(epsilon=1e-5)(h)))
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.keras.optimizers.Adam(1e-3)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    return step


# -- PyTorch ---------------------------------------------------------------------------------------------------------------
def torch_step(torch, kind, compiled):
    """The same in PyTorch, compiled or not."""
    nn, F = torch.nn, torch.nn.functional
    x, y = (torch.tensor(a) for a in data(kind))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, h):
            b, n, _ = h.shape
            q, k, v = self.qkv(self.norms[0](h)).view(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + self.out(a.transpose(1, 2).reshape(b, n, WIDTH))
            return h + self.down(F.gelu(self.up(self.norms[1](h))))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
            self.rest = nn.Sequential(Block(), Block(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS))

        def forward(self, words):
            return self.rest(self.words(words) + self.places.weight)

    if kind == "dense":
        model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    elif kind == "conv":
        x = x.permute(0, 3, 1, 2).contiguous()
        model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(),
                              nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1600, 128), nn.ReLU(), nn.Linear(128, 10))
    else:
        model = Transformer()
    forward = torch.compile(model) if compiled else model
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    y = y.flatten()

    def step():
        optimizer.zero_grad()
        out = forward(x)
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


# -- JAX -------------------------------------------------------------------------------------------------------------------
def jax_step(jax, kind):
    """The same in JAX, with Adam written out."""
    jnp, lax = jax.numpy, jax.lax
    x, y = data(kind)
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 64))

    def weight(*shape):
        return jax.random.normal(next(keys), shape) / math.sqrt(np.prod(shape[:-1]))

    def dense(p, h):
        return h @ p[0] + p[1]

    def pair(a, b):
        return [weight(a, b), jnp.zeros(b)]

    def norm(p, h):
        h = h - h.mean(-1, keepdims=True)
        return h * lax.rsqrt((h * h).mean(-1, keepdims=True) + 1e-5) * p[0] + p[1]

    def scale():
        return [jnp.ones(WIDTH), jnp.zeros(WIDTH)]

    if kind == "dense":
        p0 = [pair(784, 512), pair(512, 512), pair(512, 10)]

        def model(p, x):
            return dense(p[2], jax.nn.relu(dense(p[1], jax.nn.relu(dense(p[0], x)))))
    elif kind == "conv":
        p0 = [[weight(3, 3, 1, 32), jnp.zeros(32)], [weight(3, 3, 32, 64), jnp.zeros(64)], pair(1600, 128), pair(128, 10)]

        def model(p, h):
            for w, b in p[:2]:
                h = jax.nn.relu(lax.conv_general_dilated(h, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + b)
                h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
            return dense(p[3], jax.nn.relu(dense(p[2], h.reshape(len(h), -1))))
    else:
        p0 = [weight(WORDS, WIDTH), weight(LENGTH, WIDTH),
              [[scale(), pair(WIDTH, 3 * WIDTH), pair(WIDTH, WIDTH), scale(), pair(WIDTH, 4 * WIDTH), pair(4 * WIDTH, WIDTH)]
               for _ in range(2)], scale(), pair(WIDTH, WORDS)]

        def model(p, words):
            h = p[0][words] + p[1]
            for n1, qkv, out, n2, up, down in p[2]:
                q, k, v = jnp.moveaxis(dense(qkv, norm(n1, h)).reshape(8, LENGTH, 3, HEADS, -1), 2, 0)
                a = jax.nn.dot_product_attention(q, k, v, is_causal=True)
                h = h + dense(out, a.reshape(h.shape))
                h = h + dense(down, jax.nn.gelu(dense(up, norm(n2, h)), approximate=False))
            return dense(p[4], norm(p[3], h))

    def loss_of(p):
        logits = jax.nn.log_softmax(model(p, x))
        return -jnp.take_along_axis(logits, y[..., None], -1).mean()

    def update(state):
        p, m, v, t = state
        loss, g = jax.value_and_grad(loss_of)(p)
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        rate = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        return (jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), p, m, v), m, v, t), loss

    compiled = jax.jit(update, donate_argnums=0)
    state = p0, jax.tree.map(jnp.zeros_like, p0), jax.tree.map(jnp.zeros_like, p0), jnp.zeros(())

    def step():
        nonlocal state
        state, loss = compiled(state)
        return loss

    return step


MAKERS = {"penstock": ("penstock", tf_step), "TensorFlow": ("tensorflow", tf_step), "JAX": ("jax", jax_step),
          "torch.compile": ("torch", lambda torch, kind: torch_step(torch, kind, True)),
          "PyTorch": ("torch", lambda torch, kind: torch_step(torch, kind, False))}
made: dict = {}


def timed(side, kind):
    """A round: seconds of a step, after ten that do not count the first time."""
    def work(framework):
        if kind not in made:
            made[kind] = MAKERS[side][1](framework, kind)
            for _ in range(10):
                loss = float(made[kind]())
            assert math.isfinite(loss)
        began = time.perf_counter()
        for _ in range(STEPS[kind]):
            loss = made[kind]()
        float(loss)
        return (time.perf_counter() - began) / STEPS[kind]
    return work


def main():
    """Runs the rounds and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tf", help="python of an environment with tensorflow and tf_keras")
    parser.add_argument("--jax", help="python of an environment with jax")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        turns.serve(MAKERS[args.worker][0], {kind: timed(args.worker, kind) for kind in STEPS})
        return
    pythons = {"penstock": sys.executable, "TensorFlow": args.tf, "PyTorch": sys.executable,
               "torch.compile": sys.executable, "JAX": args.jax}
    sides = {name: (python, name) for name, python in pythons.items() if python}
    print("| model | " + " | ".join(f"{name}, ms" for name in sides) + " |\n|" + "---|" * (len(sides) + 1))
    turns.group(list(STEPS), sides, args.rounds, lambda item, seen: f"| {item} | " + " | ".join(
        f"{1e3 * statistics.median(seen[name]):.2f}" for name in sides) + " |", dict(os.environ, TF_USE_LEGACY_KERAS="1"))


if __name__ == "__main__":
    main()
