"""tf.contrib.training: hyperparameters, training and evaluation loops, buckets, samples, placement of variables."""
from penstock.contrib.training import buckets, evaluation, hyperparameters, loops, placement, sampling  # noqa: F401
