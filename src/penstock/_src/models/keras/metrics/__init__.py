"""Metrics of tf.keras.

`metric.py` is their base; `averages.py` has sums and means, of values and of functions; `accuracy.py` and `wrapped_losses.py`
means of such functions; `confusion.py`, `auc.py` and `overlap.py` what is counted by label and prediction.
"""
from penstock._src.models.keras.metrics import accuracy, auc, averages, confusion, overlap, wrapped_losses  # noqa: F401
from penstock._src.models.keras.metrics.averages import Mean, MeanMetricWrapper, Reduce, Sum, SumOverBatchSizeMetricWrapper  # noqa: F401
from penstock._src.models.keras.metrics.metric import Metric, clone_metric, clone_metrics  # noqa: F401
from penstock._src.models.keras.metrics.serialization import deserialize, get, serialize  # noqa: F401
