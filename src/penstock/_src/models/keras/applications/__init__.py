"""tf.keras.applications: well-known image models, with weights from local files.

`common.py` has what they share; each family is one file, with Keras' names of layers, so that its files of weights fit.
"""
from penstock._src.base import api as _api
from penstock._src.models.keras.applications import (
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

for _module in (densenet, efficientnet, inception, inception_resnet, mobilenet, mobilenet_v3, nasnet, resnet, vgg, xception):
    _api.install(_module.__name__, "v2", f"keras.applications.{_module.__name__.rsplit('.', 1)[-1]}.")
