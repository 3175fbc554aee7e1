"""Click-through models on embeddings by key: wide and deep, DeepFM, DLRM and DIN, in the style of DeepRec's model zoo.

    python examples/recommenders/ctr.py --model dlrm --steps 300

The data is generated: features of the shape of Criteo's (13 numbers, 26 categories with keys of any value), or of Taobao's for
DIN (a user, an item, and the items that the user has seen). Clicks depend on the keys, so that a model has to learn embeddings;
the AUC on held-out examples rises from a half. Keys are admitted when they were seen twice, and leave at checkpoints when they
were not used for a thousand steps.
"""
from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import penstock.compat.v1 as tf

NUMBERS, CATEGORIES, KEYS, HISTORY = 13, 26, 200, 10


# -- data ---------------------------------------------------------------------------------------------------------------
def criteo(rng: np.random.Generator, batch: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Numbers and categories. A hidden weight of each key decides about the click."""
    keys = (rng.random((batch, CATEGORIES)) ** 2 * KEYS).astype(np.int64)
    numbers = rng.lognormal(size=(batch, NUMBERS)).astype(np.float32)
    hidden = np.sin(keys * 12.9898 + np.arange(CATEGORIES) * 78.233) * 2.0
    score = hidden[:, :8].sum(1) + 0.3 * (np.log(numbers[:, :3]).sum(1))
    clicks = (score + rng.logistic(size=batch) > 0).astype(np.float32)
    return {"numbers": numbers, "keys": keys * 1_000_003 + np.arange(CATEGORIES)}, clicks


def taobao(rng: np.random.Generator, batch: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A user, an item, and a history. A user clicks on items of the kinds that are in the history."""
    kinds = 20
    liked = rng.integers(0, kinds, batch)
    history = liked[:, None] + kinds * rng.integers(0, 25, (batch, HISTORY))
    strange = rng.random((batch, HISTORY)) < 0.3
    history = np.where(strange, rng.integers(0, kinds * 25, (batch, HISTORY)), history)
    same = rng.random(batch) < 0.5
    item = np.where(same, liked, rng.integers(0, kinds, batch)) + kinds * rng.integers(0, 25, batch)
    clicks = (item % kinds == liked) ^ (rng.random(batch) < 0.05)
    features = {"user": rng.integers(0, 5000, batch) * 7919, "item": item * 104_729, "history": history * 104_729}
    return features, clicks.astype(np.float32)


# -- models -------------------------------------------------------------------------------------------------------------
def table(name: str, dim: int) -> Any:
    """An embedding variable with admission and eviction."""
    option = tf.EmbeddingVariableOption(filter_option=tf.CounterFilter(filter_freq=2),
                                        evict_option=tf.GlobalStepEvict(steps_to_live=1000))
    return tf.get_embedding_variable(name, dim, initializer=tf.random_normal_initializer(0.0, 0.05), ev_option=option)


def mlp(x: Any, sizes: tuple[int, ...], name: str) -> Any:
    """Dense layers, the last one without activation."""
    for i, size in enumerate(sizes):
        x = tf.layers.dense(x, size, tf.nn.relu if i + 1 < len(sizes) else None, name=f"{name}_{i}")
    return x


def wdl(features: dict[str, Any]) -> Any:
    """A linear model of the keys, and a network of their embeddings."""
    wide = tf.reduce_sum(tf.nn.embedding_lookup(table("wide", 1), features["keys"]), [1, 2])
    rows = tf.nn.embedding_lookup(table("deep", 8), features["keys"])
    deep = tf.concat([tf.log1p(features["numbers"]), tf.reshape(rows, [-1, CATEGORIES * 8])], 1)
    return wide + tf.squeeze(mlp(deep, (64, 32, 1), "deep"), 1)


def deepfm(features: dict[str, Any]) -> Any:
    """Pairs of keys by the products of their embeddings, and a network."""
    first = tf.reduce_sum(tf.nn.embedding_lookup(table("first", 1), features["keys"]), [1, 2])
    rows = tf.nn.embedding_lookup(table("factors", 8), features["keys"])
    pairs = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(rows, 1)) - tf.reduce_sum(tf.square(rows), 1), 1)
    deep = tf.concat([tf.log1p(features["numbers"]), tf.reshape(rows, [-1, CATEGORIES * 8])], 1)
    return first + pairs + tf.squeeze(mlp(deep, (64, 32, 1), "deep"), 1)


def dlrm(features: dict[str, Any]) -> Any:
    """Products of all pairs of embeddings, of keys and of the numbers."""
    bottom = tf.nn.relu(mlp(tf.log1p(features["numbers"]), (32, 8), "bottom"))
    rows = tf.nn.embedding_lookup(table("keys", 8), features["keys"])
    every = tf.concat([bottom[:, None], rows], 1)
    count = CATEGORIES + 1
    products = tf.reshape(tf.matmul(every, every, transpose_b=True), [-1, count * count])
    pairs = tf.gather(products, np.flatnonzero(np.tril(np.ones([count, count]), -1)), axis=1)
    top = tf.concat([bottom, pairs, tf.reshape(rows, [-1, CATEGORIES * 8])], 1)
    return tf.squeeze(mlp(top, (64, 32, 1), "top"), 1)


def din(features: dict[str, Any]) -> Any:
    """The items of the history, weighted by how they fit the item in question."""
    items = table("items", 8)
    item, history = tf.nn.embedding_lookup(items, features["item"]), tf.nn.embedding_lookup(items, features["history"])
    query = tf.tile(item[:, None], [1, HISTORY, 1])
    fit = mlp(tf.concat([query, history, query - history, query * history], -1), (16, 1), "attention")
    interest = tf.reduce_sum(history * tf.nn.softmax(fit, 1), 1)
    user = tf.nn.embedding_lookup(table("users", 8), features["user"])
    return tf.squeeze(mlp(tf.concat([user, item, interest, item * interest], 1), (32, 16, 1), "top"), 1)


MODELS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "wdl": (wdl, criteo), "deepfm": (deepfm, criteo), "dlrm": (dlrm, criteo), "din": (din, taobao)}


# -- training -----------------------------------------------------------------------------------------------------------
def auc(scores: np.ndarray, clicks: np.ndarray) -> float:
    """The area under the ROC curve: how often a click has a higher score than another example."""
    ranks = np.argsort(np.argsort(scores)) + 1
    positive = clicks.sum()
    return float((ranks[clicks > 0].sum() - positive * (positive + 1) / 2) / (positive * (len(clicks) - positive)))


def train(model: str, steps: int, batch: int = 256, rate: float = 0.02, seed: int = 0, reports: int = 4) -> list[float]:
    """Trains a model; returns the AUC on held-out examples, at the beginning and after each report."""
    build, data = MODELS[model]
    rng = np.random.default_rng(seed)
    held_out, expected = data(np.random.default_rng(seed + 1), 2000)
    found = []
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.set_random_seed(seed)
        features = {n: tf.placeholder(v.dtype, [None, *v.shape[1:]], n) for n, v in held_out.items()}
        clicks = tf.placeholder(tf.float32, [None])
        logits = build(features)
        loss = tf.losses.sigmoid_cross_entropy(clicks, logits)
        step = tf.train.get_or_create_global_step()
        optimize = tf.train.AdamOptimizer(rate).minimize(loss, step)
        sess.run(tf.global_variables_initializer())
        for number in range(steps + 1):
            if number % max(1, steps // reports) == 0:
                scores = sess.run(logits, {features[n]: v for n, v in held_out.items()})
                found.append(auc(scores, expected))
                print(f"{model}: step {number}, AUC {found[-1]:.4f}", flush=True)
            values, labels = data(rng, batch)
            sess.run(optimize, {clicks: labels, **{features[n]: v for n, v in values.items()}})
    return found


def main() -> None:
    """Trains the model of the arguments, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", choices=[*MODELS, "all"], default="all")
    parser.add_argument("--steps", type=int, default=300)
    given = parser.parse_args()
    for model in MODELS if given.model == "all" else [given.model]:
        train(model, given.steps)


if __name__ == "__main__":
    main()
