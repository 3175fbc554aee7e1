"""tf.layers: the layers of TensorFlow 1, which make their variables with get_variable."""
from penstock.layers import base as base
