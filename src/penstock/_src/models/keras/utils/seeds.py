"""One seed for all random numbers of a process."""
from __future__ import annotations

import random

import numpy as np

from penstock._src.base.api import export
from penstock._src.graph.random_seed import seed_initializers, set_seed


@export("keras.utils.set_random_seed")
def set_random_seed(seed: int) -> None:
    """Seeds Python, NumPy, the ops and the initializers of layers.

    Args:
        seed: An integer.

    Returns:
        None.

    >>> tf.keras.utils.set_random_seed(812)
    >>> a = tf.random.uniform([3])
    >>> tf.keras.utils.set_random_seed(812)
    >>> print(bool(tf.reduce_all(a == tf.random.uniform([3]))))
    True
    """
    if not isinstance(seed, int):
        raise ValueError(f"Expected `seed` argument to be an integer. Received: seed={seed} (of type {type(seed)})")
    random.seed(seed)
    np.random.seed(seed)
    set_seed(seed)
    seed_initializers(seed)
