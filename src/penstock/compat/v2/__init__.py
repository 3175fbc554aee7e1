"""TensorFlow 2's names, the same as `penstock` itself."""
import penstock  # noqa: F401
from penstock._src.base import api as _api
from penstock._src.base.version import __version__ as __version__

_api.install(__name__, "v2")
