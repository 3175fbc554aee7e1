"""The networks of slim: alexnet, overfeat, vgg, resnet v1 and v2, inception v1 and v3. Variables are named as in the
published checkpoints.
"""
from penstock.contrib.slim.nets import inception, plain, resnet  # noqa: F401
