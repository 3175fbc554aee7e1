"""tf.contrib.learn: data sets, preprocessing of text, and estimators with fit, evaluate and predict."""
from penstock._src.compat.contrib.learn import (  # noqa: F401
    canned,
    datasets,
    estimators,
    experiment,
    io,
    models,
    modes,
    monitors,
    preprocessing,
)
