"""A model for the cluster simulator.

    penstock simulate run examples/simulated_model.py --workers 20 --servers 4
    penstock simulate servers examples/simulated_model.py --workers 20
"""
from typing import Any

import penstock.compat.v1 as tf


def model(case: Any) -> Any:
    """The graph of one worker: a network on generated digits. Returns the op that a step runs."""
    size = case.batch or 64
    images = tf.random_normal([size, 784])
    labels = tf.random_uniform([size], maxval=10, dtype=tf.int32)
    hidden = tf.layers.dense(images, 512, tf.nn.relu)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, tf.layers.dense(hidden, 10))
    return tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())


if __name__ == "__main__":
    from penstock_cli import main
    main(["simulate", "run", __file__, "--workers", "8", "--servers", "2"])
