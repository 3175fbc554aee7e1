"""tf.contrib.learn: data sets, preprocessing of text, and estimators with fit, evaluate and predict."""
from penstock._src.compat.contrib.learn import canned, datasets, estimators, experiment, models, modes, monitors, preprocessing  # noqa: F401
