"""Names of `tensorflow.python.keras` that are not public."""
from penstock._src.models.keras.engine import node
from penstock.compat import v1 as tf

KerasTensor = node.KerasTensor
OptimizerV2 = tf.keras.optimizers.Optimizer
