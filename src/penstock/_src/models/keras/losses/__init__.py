"""Losses of tf.keras: functions (`functions.py`), objects (`classes.py`), and how they become one number (`reduction.py`)."""
from penstock._src.models.keras.losses import classes, functions, reduction, replica_losses  # noqa: F401
from penstock._src.models.keras.losses.classes import Loss, LossFunctionWrapper  # noqa: F401
from penstock._src.models.keras.losses.reduction import Reduction, compute_weighted_loss  # noqa: F401
from penstock._src.models.keras.losses.serialization import deserialize, get, is_categorical_crossentropy, serialize  # noqa: F401
