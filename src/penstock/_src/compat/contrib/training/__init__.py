"""tf.contrib.training: hyperparameters, training and evaluation loops, buckets, samples, placement of variables."""
from penstock._src.compat.contrib import deeper
from penstock._src.compat.contrib.training import buckets, evaluation, hyperparameters, loops, placement, sampling  # noqa: F401

deeper("training", "training.hparam", "training.evaluation", "training.training", "training.bucket_ops",
       "training.device_setter", "training.resample", "training.sampling_ops")
