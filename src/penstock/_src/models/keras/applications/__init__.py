"""tf.keras.applications: well-known image models, with weights from local files.

`common.py` is shared; each family is one file, with Keras' names of layers, so that Keras' weight files can be loaded.
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
