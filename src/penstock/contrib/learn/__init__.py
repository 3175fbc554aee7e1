"""tf.contrib.learn: data sets, preprocessing of text, and the modes of estimators."""
from penstock.contrib.learn import datasets, modes, preprocessing  # noqa: F401
