"""penstock: TensorFlow's dataflow system as a Python library.

`penstock` has TensorFlow 2's names and executes eagerly; `penstock.compat.v1` has TensorFlow 1's names, and builds
graphs after `disable_v2_behavior()`. Both are views over one set of functions (see `penstock.api`).

    >>> import penstock as tf
    >>> tf.reduce_sum(tf.constant([1., 2.]))
"""
import importlib as _importlib
import sys as _sys

from penstock import api as _api
from penstock.version import __version__ as __version__

# The modules that export public names and are light enough to load at once; ops declares every op.
for _name in (
    "compat", "io", "graph.graph", "graph.collections", "graph.gradients", "graph.sparse_tensor", "graph.type_spec",
    "graph.messages", "graph.importer", "graph.graph_util", "graph.random_seed", "place.device_spec", "session",
    "eager.tape", "eager.function", "eager.wrap_function", "device_config", "ops", "variables", "train", "linalg",
    "tf_logging", "losses", "metrics", "image", "ragged", "data",
):
    _importlib.import_module(f"{__name__}.{_name}")

_api.LAZY.update({"data": "penstock.data.api"})
_api.LAZY.update({"flags": "penstock.flags", "app": "penstock.app", "test": "penstock.testing"})     # absl is slow to load
_api.install(__name__, "v2")
for _name in sorted({n.split(".")[0] for n in _api.TABLES["v2"] if "." in n}):     # tf.linalg is also a package of ours
    if f"{__name__}.{_name}" in _sys.modules:
        _api.install(f"{__name__}.{_name}", "v2", _name + ".")
