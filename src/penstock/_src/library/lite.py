"""tf.lite as a namespace. There is no converter to, or interpreter of, TensorFlow Lite models.

Libraries refer to `tf.lite` when they are imported, to compare types or to offer a conversion: the options are complete; the
constructors of converters and interpreters raise UnimplementedError.
"""
from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NoReturn

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export

_ELSEWHERE = ("{} is not implemented: penstock neither reads nor writes TensorFlow Lite's models. Save the model with "
              "tf.saved_model.save, which TensorFlow's own tf.lite.TFLiteConverter.from_saved_model reads; run SavedModels "
              "with tf.saved_model.load or `penstock serve`.")


def _refuse(name: str) -> NoReturn:
    raise errors.UnimplementedError(None, None, _ELSEWHERE.format(name))


@export("lite.Optimize")
class Optimize(enum.Enum):
    """What a converter optimizes."""
    DEFAULT = "DEFAULT"
    OPTIMIZE_FOR_SIZE = "OPTIMIZE_FOR_SIZE"
    OPTIMIZE_FOR_LATENCY = "OPTIMIZE_FOR_LATENCY"
    EXPERIMENTAL_SPARSITY = "EXPERIMENTAL_SPARSITY"

    def __str__(self) -> str:
        return str(self.value)


@export("lite.OpsSet")
class OpsSet(enum.Enum):
    """Which ops a converted model may have."""
    TFLITE_BUILTINS = "TFLITE_BUILTINS"
    SELECT_TF_OPS = "SELECT_TF_OPS"
    TFLITE_BUILTINS_INT8 = "TFLITE_BUILTINS_INT8"
    EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8 = "EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8"
    EXPERIMENTAL_STABLEHLO_OPS = "EXPERIMENTAL_STABLEHLO_OPS"

    def __str__(self) -> str:
        return str(self.value)

    @staticmethod
    def get_options() -> list[str]:
        """The names that command lines offer."""
        return [str(option) for option in OpsSet]


@export("lite.experimental.OpResolverType")
class OpResolverType(enum.Enum):
    """Which kernels an interpreter takes."""
    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


@export("lite.RepresentativeDataset")
class RepresentativeDataset:
    """A function whose elements show a converter the range of the inputs."""

    def __init__(self, input_gen: Callable):
        self.input_gen = input_gen


@export("lite.TargetSpec")
class TargetSpec:
    """What the device of a converted model can do."""

    def __init__(self, supported_ops: Any = None, supported_types: Any = None, experimental_select_user_tf_ops: Any = None,
                 experimental_supported_backends: Any = None):
        self.supported_ops = {OpsSet.TFLITE_BUILTINS} if supported_ops is None else supported_ops
        self.supported_types = {dtypes.as_dtype(t) for t in supported_types or ()}
        self.experimental_select_user_tf_ops = set(experimental_select_user_tf_ops or ())
        self.experimental_supported_backends = experimental_supported_backends


@export(v2=["lite.TFLiteConverter"])
class TFLiteConverter:
    """Would convert models for TensorFlow Lite: the constructor raises UnimplementedError, which names the alternative."""

    def __init__(self, funcs: Any, trackable_obj: Any = None):
        _refuse("tf.lite.TFLiteConverter")

    @classmethod
    def from_concrete_functions(cls, funcs: Any, trackable_obj: Any = None) -> NoReturn:
        """Raises UnimplementedError."""
        _refuse("tf.lite.TFLiteConverter")

    @classmethod
    def from_saved_model(cls, saved_model_dir: Any, signature_keys: Any = None, tags: Any = None) -> NoReturn:
        """Raises UnimplementedError."""
        _refuse("tf.lite.TFLiteConverter")

    @classmethod
    def from_keras_model(cls, model: Any) -> NoReturn:
        """Raises UnimplementedError."""
        _refuse("tf.lite.TFLiteConverter")


@export(v1=["lite.TFLiteConverter"])
class TFLiteConverterV1(TFLiteConverter):
    """Would convert models for TensorFlow Lite: the constructor raises UnimplementedError, which names the alternative."""

    @classmethod
    def from_session(cls, sess: Any, input_tensors: Any, output_tensors: Any) -> NoReturn:
        """Raises UnimplementedError."""
        _refuse("tf.lite.TFLiteConverter")

    @classmethod
    def from_frozen_graph(cls, graph_def_file: Any, input_arrays: Any, output_arrays: Any, input_shapes: Any = None,
                          ) -> NoReturn:
        """Raises UnimplementedError."""
        _refuse("tf.lite.TFLiteConverter")

    @classmethod
    def from_keras_model_file(cls, model_file: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises UnimplementedError."""
        _refuse("tf.lite.TFLiteConverter")


@export("lite.Interpreter")
class Interpreter:
    """Would run models of TensorFlow Lite: the constructor raises UnimplementedError, which names the alternative."""

    def __init__(self, model_path: Any = None, model_content: Any = None, *args: Any, **kwargs: Any):
        _refuse("tf.lite.Interpreter")


@export("lite.experimental.load_delegate")
def load_delegate(library: Any, options: Any = None) -> NoReturn:
    """Raises UnimplementedError."""
    _refuse("tf.lite.experimental.load_delegate")


@export("lite.experimental.Analyzer")
class Analyzer:
    """Would describe models of TensorFlow Lite."""

    @staticmethod
    def analyze(model_path: Any = None, model_content: Any = None, gpu_compatibility: bool = False, **kwargs: Any) -> NoReturn:
        """Raises UnimplementedError."""
        _refuse("tf.lite.experimental.Analyzer")
