"""tf.contrib.timeseries: series of values with times, models of them, and estimators that train, filter and predict.

`input.py` reads series and cuts windows; `windows.py` (autoregressive) and `state_space.py` (Kalman filters) are the models;
`estimators.py` puts a model into an estimator; `saved.py` uses exported ones.
"""
from penstock._src.compat.contrib import deeper
from penstock._src.compat.contrib.timeseries import estimators, input, keys, saved, state_space, windows  # noqa: F401

deeper("timeseries", "timeseries", "timeseries.estimators", "timeseries.feature_keys", "timeseries.input_pipeline",
       "timeseries.ar_model")
