"""Of `estimator.canned.head` and `estimator.canned.optimizers`: building blocks of custom heads and model functions."""
from __future__ import annotations

import collections
from typing import Any

from penstock._src.models.estimator import canned
from penstock._src.models.estimator.head import Head

_Head = Head
LossSpec = collections.namedtuple("LossSpec", ("training_loss", "unreduced_loss", "weights", "processed_labels"))


def get_optimizer_instance(opt: Any, learning_rate: float | None = None) -> Any:
    """An optimizer from itself, a function that makes it, or its name and a learning rate."""
    if isinstance(opt, str) and not learning_rate:
        raise ValueError("learning_rate must be specified when opt is string.")
    return canned._optimizer(opt, learning_rate or 0.0)
