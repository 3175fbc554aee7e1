"""Callbacks of tf.keras, called around epochs and batches.

`base.py` has Callback and the list that loops call; `progress.py` the progress bar; `monitoring.py` callbacks that monitor a
metric; `checkpoint.py` those that save the model; `records.py` and `tensorboard.py` those that log metrics.
"""
from penstock._src.models.keras.callbacks import checkpoint, monitoring, progress, records, tensorboard  # noqa: F401
from penstock._src.models.keras.callbacks.base import Callback, CallbackList, History  # noqa: F401
from penstock._src.models.keras.callbacks.progress import ProgbarLogger  # noqa: F401
