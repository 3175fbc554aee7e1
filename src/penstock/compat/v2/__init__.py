"""TensorFlow 2's names, the same as `penstock` itself."""
import penstock  # noqa: F401
from penstock import api as _api
from penstock.version import __version__ as __version__

_api.install(__name__, "v2")
