"""penstock: TensorFlow's dataflow system as a Python library.

`penstock` has TensorFlow 2's names and executes eagerly; `penstock.compat.v1` has TensorFlow 1's names, and builds
graphs after `disable_v2_behavior()`. Both are views over one set of functions (see `penstock.api`).

    >>> import penstock as tf
    >>> tf.reduce_sum(tf.constant([1., 2.]))
"""
import sys as _sys

from penstock import api as _api
from penstock import ops as _ops  # noqa: F401  (declares every op)
from penstock import session as _session  # noqa: F401
from penstock.eager import tape as _tape  # noqa: F401
from penstock.graph import graph_util as _graph_util  # noqa: F401
from penstock.graph import importer as _importer  # noqa: F401
from penstock.graph import messages as _messages  # noqa: F401
from penstock.graph import sparse_tensor as _sparse_tensor  # noqa: F401
from penstock.graph import type_spec as _type_spec  # noqa: F401
from penstock.version import __version__ as __version__

_api.install(__name__, "v2")
for _name in ("errors", "dtypes", "nest", "data", "train", "keras", "layers", "estimator", "distribute", "saved_model",
              "summary"):
    if f"{__name__}.{_name}" in _sys.modules:
        _api.install(f"{__name__}.{_name}", "v2", _name + ".")
