"""Callbacks of tf.keras: what happens around epochs and batches of training.

`base.py` has Callback and the list that loops tell; `progress.py` the bar; `monitoring.py` what inspects a metric;
`checkpoint.py` what saves the model; `records.py` and `tensorboard.py` what writes metrics down.
"""
from penstock._src.models.keras.callbacks import checkpoint, monitoring, progress, records, tensorboard  # noqa: F401
from penstock._src.models.keras.callbacks.base import Callback, CallbackList, History  # noqa: F401
from penstock._src.models.keras.callbacks.progress import ProgbarLogger  # noqa: F401
