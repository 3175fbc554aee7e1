"""penstock: TensorFlow's dataflow system as a Python library.

`penstock` has TensorFlow 2's names and executes eagerly; `penstock.compat.v1` has TensorFlow 1's names, and builds
graphs after `disable_v2_behavior()`. Both are views over one set of functions (see `penstock.api`).

    >>> import penstock as tf
    >>> tf.reduce_sum(tf.constant([1., 2.]))
"""
import gc as _gc
import importlib as _importlib
import os as _os
import sys as _sys

from penstock import api as _api
from penstock.version import __version__ as __version__

# What torch's libraries read when they are loaded, unless the user has chosen: threads that wait for each other spin for some
# milliseconds, longer than what lies between two kernels of a step; execute/waiting.py sees to it that they do so only alone.
if "OMP_WAIT_POLICY" not in _os.environ:
    _os.environ.setdefault("GOMP_SPINCOUNT", "100000")

# The modules that export public names and are light enough to load at once; ops declares every op.
_MODULES = (
    "compat", "io", "graph.graph", "graph.collections", "graph.gradients", "graph.sparse_tensor", "graph.type_spec",
    "graph.message_names", "graph.importer", "graph.graph_util", "graph.random_seed", "place.device_spec", "session",
    "eager.tape", "eager.forward", "eager.function", "eager.wrap_function", "device_config", "ops", "variables", "tf_logging",
    "ragged", "module", "data",
)
# Those that wait until a name that begins so is asked for.
_LATER = {
    "flags": "flags", "app": "app", "test": "testing", "train": "train", "linalg": "linalg", "losses": "losses",
    "metrics": "metrics", "image": "image", "data": "data.api", "io.match_filenames_once": "train", "OptionalSpec": "data.api",
    "keras": "keras", "layers": "layers", "summary": "summary", "saved_model": "saved_model",
    "autograph": "autograph.convert", "distribute": "distribute", "data.experimental.service": "data.service",
    "distribute.experimental.compression": "distribute.compression",
    "nn.compute_average_loss": "distribute.losses", "nn.scale_regularization_loss": "distribute.losses",
    "distribute.experimental.StaggerHook": "distribute.stagger",
    "distribute.experimental.PipelineModel": "distribute.pipelining",
    "distribute.experimental.pipelined_gradients": "distribute.pipelining",
    "distribute.experimental.ColumnParallelDense": "distribute.pipelining",
    "distribute.experimental.RowParallelDense": "distribute.pipelining",
    "distribute.experimental.VocabularyParallelEmbedding": "distribute.pipelining",
    "distributions": "distributions", "contrib": "contrib",
    "nn.rnn_cell": "rnn", "nn.dynamic_rnn": "rnn", "nn.bidirectional_dynamic_rnn": "rnn", "nn.raw_rnn": "rnn",
    "nn.static_rnn": "rnn", "nn.static_state_saving_rnn": "rnn", "nn.static_bidirectional_rnn": "rnn",
    "v2:nn.RNNCellDropoutWrapper": "rnn.keras_wrappers", "v2:nn.RNNCellResidualWrapper": "rnn.keras_wrappers",
    "v2:nn.RNNCellDeviceWrapper": "rnn.keras_wrappers",
    "v2:losses": "keras.losses", "v2:metrics": "keras.metrics", "v2:optimizers": "keras.optimizers",
    "install": "programs", "profiler": "profiler", "sysconfig": "sysconfig", "CXX11_ABI_FLAG": "sysconfig",
    "MONOLITHIC_BUILD": "sysconfig", "resource_loader": "resource_loader",
    "load_op_library": "compiled_libraries", "load_library": "compiled_libraries",
    "load_file_system_library": "compiled_libraries",
    "estimator": "estimator", "keras.estimator": "estimator",
    "feature_column": "feature_column", "keras.layers.DenseFeatures": "feature_column.dense_features",
    "keras.experimental.SequenceFeatures": "feature_column.dense_features",
    "train.experimental.enable_mixed_precision_graph_rewrite": "keras.graph_rewrite",
    "train.experimental.disable_mixed_precision_graph_rewrite": "keras.graph_rewrite",
    "v1:mixed_precision": "keras.graph_rewrite",
    "xla": "xla", "config.optimizer.set_jit": "xla", "config.optimizer.get_jit": "xla", "vectorized_map": "ops.vectorized",
}


def _load() -> None:
    """Loads them without garbage collection: walking over torch's many objects would take longer than the loading."""
    collects = _gc.isenabled()
    _gc.disable()
    try:
        for name in _MODULES:
            _importlib.import_module(f"{__name__}.{name}")
    finally:
        if collects:
            _gc.enable()


_load()
_api.LAZY.update({word: f"{__name__}.{module}" for word, module in _LATER.items()})
_api.install(__name__, "v2")
for _name in sorted({n.split(".")[0] for n in _api.TABLES["v2"] if "." in n}):     # tf.io is also a package of ours
    if f"{__name__}.{_name}" in _sys.modules:
        _api.install(f"{__name__}.{_name}", "v2", _name + ".")
