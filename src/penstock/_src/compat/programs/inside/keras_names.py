"""Names of `tensorflow.python.keras` that are not public."""
from penstock._src.models.keras.engine import node
from penstock._src.models.keras.engine.op_layer import TensorFlowOpLayer  # noqa: F401
from penstock._src.models.keras.layers.convolutional import Conv  # noqa: F401
from penstock._src.models.keras.saving.saved_model import trace_model_call  # noqa: F401
from penstock.compat import v1 as tf

KerasTensor, Node = node.KerasTensor, node.Node
Functional = tf.keras.Model                      # one class is both
BatchNormalizationV1 = BatchNormalizationV2 = tf.keras.layers.BatchNormalization
OptimizerV2 = tf.keras.optimizers.Optimizer
ReductionV2 = tf.keras.losses.Reduction
