"""tf.layers: the layers of TensorFlow 1, which create their variables with get_variable."""
from penstock._src.models.layers import base as base
from penstock._src.models.layers import convolutional as convolutional
from penstock._src.models.layers import core as core
from penstock._src.models.layers import normalization as normalization
from penstock._src.models.layers import pooling as pooling
