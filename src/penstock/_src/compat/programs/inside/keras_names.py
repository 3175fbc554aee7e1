"""Names of `tensorflow.python.keras` that are not public."""
from penstock.compat import v1 as tf

OptimizerV2 = tf.keras.optimizers.Optimizer
