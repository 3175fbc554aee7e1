"""The names of one version of TensorFlow's API: `compat.v1`, `compat.v2`; and text as every Python has it."""
import penstock  # noqa: F401
from penstock._src.base import api as _api

_api.install(__name__, "v2", "compat.")
