"""TensorFlow 1's names: `import penstock.compat.v1 as tf; tf.disable_v2_behavior()`."""
import penstock  # noqa: F401
from penstock._src.base import api as _api
from penstock._src.base.version import __version__ as __version__

_api.install(__name__, "v1")
