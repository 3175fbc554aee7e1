"""The version, and the one of TensorFlow's API that penstock implements."""
from penstock._src.base.api import export

__version__ = "0.1.0"

export.value(__version__, "version.VERSION", "__version__", v1=["VERSION"])
export.value("penstock-" + __version__, "version.GIT_VERSION", v1=["GIT_VERSION", "__git_version__"], v2=["__git_version__"])
export.value("ATen", "version.COMPILER_VERSION", v1=["COMPILER_VERSION", "__compiler_version__"],
             v2=["__compiler_version__"])
export.value(134, "version.GRAPH_DEF_VERSION", v1=["GRAPH_DEF_VERSION"])
export.value(0, "version.GRAPH_DEF_VERSION_MIN_CONSUMER", v1=["GRAPH_DEF_VERSION_MIN_CONSUMER"])
export.value(0, "version.GRAPH_DEF_VERSION_MIN_PRODUCER", v1=["GRAPH_DEF_VERSION_MIN_PRODUCER"])
KERAS_VERSIONS = {"v1": "2.2.4-tf", "v2": "2.15.0"}       # of the Keras that tf.keras is, by API
