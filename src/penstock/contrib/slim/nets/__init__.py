"""The networks of slim: alexnet, overfeat, vgg, resnet v1 and v2. Variables are named as in the published checkpoints."""
from penstock.contrib.slim.nets import plain, resnet  # noqa: F401
