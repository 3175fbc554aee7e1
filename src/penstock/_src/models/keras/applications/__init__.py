"""tf.keras.applications: well-known image models, with weights from local files.

`common.py` has what they share; each family is one file, with Keras' names of layers, so that its files of weights fit.
"""
from penstock._src.models.keras.applications import (  # noqa: F401
    densenet,
    efficientnet,
    inception,
    inception_resnet,
    mobilenet,
    mobilenet_v3,
    nasnet,
    resnet,
    vgg,
    xception,
)
