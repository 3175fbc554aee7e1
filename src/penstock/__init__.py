"""penstock: TensorFlow's dataflow system as a Python library.

`penstock` has TensorFlow 2's names and executes eagerly; `penstock.compat.v1` has TensorFlow 1's names, and builds
graphs after `disable_v2_behavior()`. Both are views over one set of functions (see `base.api`).

    >>> import penstock as tf
    >>> tf.reduce_sum(tf.constant([1., 2.]))
"""
import gc as _gc
import importlib as _importlib
import os as _os

from penstock._src.base import api as _api
from penstock._src.base.version import __version__ as __version__

# What torch's libraries read when they are loaded, unless the user has chosen: threads that wait for each other spin for some
# milliseconds, longer than what lies between two kernels of a step; execute/waiting.py sees to it that they do so only alone.
if "OMP_WAIT_POLICY" not in _os.environ:
    _os.environ.setdefault("GOMP_SPINCOUNT", "100000")

# The modules that export public names and are light enough to load at once; ops.families declares every op.
_MODULES = (
    "base.text", "io", "graph.graph", "graph.collections", "graph.gradients", "graph.sparse_tensor", "graph.type_spec",
    "graph.message_names", "graph.importer", "graph.graph_util", "graph.random_seed", "kernels.devices.device_spec",
    "session.session",
    "eager.tape", "eager.forward", "eager.function", "eager.wrap_function", "kernels.devices.device_config", "ops.families",
    "state.variables", "base.tf_logging",
    "library.ragged", "state.module", "data.datasets",
)
# Those that wait until a name that begins so is asked for.
_LATER = {
    "flags": "base.flags", "app": "base.app", "test": "library.testing", "train": "training.train", "linalg": "library.linalg",
    "losses": "library.losses",
    "metrics": "library.metrics", "image": "library.image", "data": "data.datasets.api",
    "io.match_filenames_once": "training.train", "OptionalSpec": "data.datasets.api",
    "keras": "models.keras", "layers": "models.layers", "summary": "training.summary", "saved_model": "state.saved_model",
    "autograph": "eager.autograph.convert", "distribute": "models.distribute", "tpu": "models.distribute.tpu",
    "data.experimental.service": "data.datasets.service",
    "distribute.experimental.compression": "models.distribute.compression",
    "nn.compute_average_loss": "models.distribute.losses", "nn.scale_regularization_loss": "models.distribute.losses",
    "distribute.experimental.StaggerHook": "models.distribute.stagger",
    "distribute.experimental.PipelineModel": "models.distribute.pipelining",
    "distribute.experimental.pipelined_gradients": "models.distribute.pipelining",
    "distribute.experimental.ColumnParallelDense": "models.distribute.pipelining",
    "distribute.experimental.RowParallelDense": "models.distribute.pipelining",
    "distribute.experimental.VocabularyParallelEmbedding": "models.distribute.pipelining",
    "distributions": "library.distributions", "contrib": "compat.contrib",
    "nn.rnn_cell": "models.rnn", "nn.dynamic_rnn": "models.rnn", "nn.bidirectional_dynamic_rnn": "models.rnn",
    "nn.raw_rnn": "models.rnn",
    "nn.static_rnn": "models.rnn", "nn.static_state_saving_rnn": "models.rnn", "nn.static_bidirectional_rnn": "models.rnn",
    "v2:nn.RNNCellDropoutWrapper": "models.rnn.keras_wrappers", "v2:nn.RNNCellResidualWrapper": "models.rnn.keras_wrappers",
    "v2:nn.RNNCellDeviceWrapper": "models.rnn.keras_wrappers",
    "v2:losses": "models.keras.losses", "v2:metrics": "models.keras.metrics", "v2:optimizers": "models.keras.optimizers",
    "__internal__": "compat.internal",
    "install": "compat.programs", "profiler": "training.profiler", "sysconfig": "base.sysconfig",
    "CXX11_ABI_FLAG": "base.sysconfig",
    "MONOLITHIC_BUILD": "base.sysconfig", "resource_loader": "base.resource_loader",
    "load_op_library": "base.compiled_libraries", "load_library": "base.compiled_libraries",
    "load_file_system_library": "base.compiled_libraries",
    "estimator": "models.estimator", "keras.estimator": "models.estimator",
    "feature_column": "models.feature_column", "keras.layers.DenseFeatures": "models.feature_column.dense_features",
    "keras.experimental.SequenceFeatures": "models.feature_column.dense_features",
    "train.experimental.enable_mixed_precision_graph_rewrite": "models.keras.graph_rewrite",
    "train.experimental.disable_mixed_precision_graph_rewrite": "models.keras.graph_rewrite",
    "v1:mixed_precision": "models.keras.graph_rewrite",
    "xla": "session.xla", "config.optimizer.set_jit": "session.xla", "config.optimizer.get_jit": "session.xla",
    "vectorized_map": "ops.control.vectorized",
}


def _load() -> None:
    """Loads them without garbage collection: walking over torch's many objects would take longer than the loading."""
    collects = _gc.isenabled()
    _gc.disable()
    try:
        for name in _MODULES:
            _importlib.import_module(f"penstock._src.{name}")
    finally:
        if collects:
            _gc.enable()


_load()
_api.LAZY.update({word: f"penstock._src.{module}" for word, module in _LATER.items()})
_api.install(__name__, "v2")
