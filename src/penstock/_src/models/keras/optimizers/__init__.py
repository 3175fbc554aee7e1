"""Optimizers of tf.keras.

`optimizer.py` has the base class; each family is one file on the ops of `ops/nn/training.py`. Names with V1 at their end in
this package are the optimizers of the 1.x API, where formulas or the moment of clipping differ (`modern.py`).
"""
from penstock._src.models.keras.optimizers import newer, schedules  # noqa: F401
from penstock._src.models.keras.optimizers.optimizer import Optimizer  # noqa: F401
from penstock._src.models.keras.optimizers.serialization import deserialize, get, serialize  # noqa: F401
