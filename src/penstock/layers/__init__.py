"""tf.layers: the layers of TensorFlow 1, which make their variables with get_variable."""
from penstock.layers import base as base
from penstock.layers import convolutional as convolutional
from penstock.layers import core as core
from penstock.layers import normalization as normalization
from penstock.layers import pooling as pooling
