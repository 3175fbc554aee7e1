"""The networks of slim: alexnet, overfeat, vgg, resnet v1 and v2, inception v1 to v4, inception_resnet_v2, mobilenet v1 and v2.
Variables are named as in the published checkpoints.
"""
from penstock._src.compat.contrib.slim.nets import inception, inception_v4, mobilenet, plain, resnet  # noqa: F401
