"""tf.__internal__: what TensorFlow shows to libraries of its ecosystem (Keras, TensorFlow Probability) only.

Most of these names stand with what they name, in modules that load late; they are loaded here. The modules of this folder
have what only libraries ask for.
"""
from penstock._src.compat.internal import decorators, modes  # noqa: F401
from penstock._src.models import distribute, feature_column  # noqa: F401
from penstock._src.models.distribute import merging, sharded  # noqa: F401
from penstock._src.state.checkpoint import checkpoint, containers  # noqa: F401
from penstock._src.state.saved_model import model_loader  # noqa: F401
from penstock._src.training import train  # noqa: F401
