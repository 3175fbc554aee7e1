"""The libraries whose own tests `make ecosystem` runs: what is installed, and where the tests are."""
from __future__ import annotations

from typing import NamedTuple


class Library(NamedTuple):
    """A library from PyPI."""
    name: str
    install: str                 # what pip installs, without dependencies
    tests: tuple[str, ...] = ()  # folders below site-packages; none where the wheel has no tests


# What the libraries and their tests import, TensorFlow aside; both environments have the same.
SUPPORT = ("absl-py astunparse attrs certifi charset_normalizer check_shapes cloudpickle decorator deprecated dm-tree "
           "dropstackframe flatbuffers future gast gin-config google_pasta huggingface_hub==0.26.5 idna jax jaxlib kt-legacy "
           "lark mock multipledispatch namex onnx opt_einsum optree pandas parameterized python-dateutil pytz pyyaml regex "
           "requests safetensors scipy sentencepiece six tabulate termcolor tokenizers==0.20.3 toposort tqdm typeguard==2.13.3 "
           "tzdata urllib3 wrapt").split()

LIBRARIES = (
    Library("Keras 3", "keras", tuple(f"keras/src/{folder}" for folder in (
        "losses", "metrics", "optimizers", "saving", "models", "ops", "layers", "trainers", "callbacks"))),
    Library("tf_keras", "tf_keras"),
    Library("TensorFlow Probability", "tensorflow-probability"),
    Library("Sonnet", "dm-sonnet", ("sonnet/src",)),
    Library("GPflow", "gpflow"),
    Library("transformers", "transformers==4.46.3"),
    Library("tf_slim", "tf_slim", ("tf_slim",)),
    Library("keras-tuner", "keras-tuner"),
    Library("tensorflow-recommenders", "tensorflow-recommenders", ("tensorflow_recommenders",)),
    Library("tensorflow-hub", "tensorflow-hub"),
    Library("tf-models-official", "tf-models-official", ("official/nlp/modeling/layers",)),
    Library("tf2onnx", "tf2onnx"),
    Library("mesh-tensorflow", "mesh-tensorflow", ("mesh_tensorflow",)),
    Library("tf-agents", "tf-agents", ("tf_agents/utils",)),
)
