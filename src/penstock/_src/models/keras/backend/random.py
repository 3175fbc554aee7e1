"""Random tensors. Without a seed, one is drawn from numpy's generator when the op is made."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.models.keras.backend.config import floatx
from penstock.compat import v1 as tf


def _seed(seed: int | None) -> int:
    return int(np.random.randint(10 ** 7)) if seed is None else seed


@export("keras.backend.random_normal")
def random_normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: int | None = None) -> Any:
    """Normally distributed values."""
    return tf.random_normal(shape, mean=mean, stddev=stddev, dtype=dtype or floatx(), seed=_seed(seed))


@export("keras.backend.random_uniform")
def random_uniform(shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: int | None = None) -> Any:
    """Uniform values from [minval, maxval)."""
    return tf.random_uniform(shape, minval=minval, maxval=maxval, dtype=dtype or floatx(), seed=_seed(seed))


@export("keras.backend.random_binomial", v2=["keras.backend.random_bernoulli"])
def random_binomial(shape: Any, p: Any = 0.0, dtype: Any = None, seed: int | None = None) -> Any:
    """Ones with probability `p`, else zeros."""
    draw = tf.random_uniform(shape, dtype=dtype or floatx(), seed=_seed(seed))
    return tf.cast(tf.less_equal(draw, p), draw.dtype)


@export("keras.backend.truncated_normal")
def truncated_normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: int | None = None) -> Any:
    """Normally distributed values, without those beyond two standard deviations."""
    return tf.truncated_normal(shape, mean, stddev, dtype=dtype or floatx(), seed=_seed(seed))
