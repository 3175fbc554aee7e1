"""The libraries whose own tests `make ecosystem` runs: what is installed, and where the tests are."""
from __future__ import annotations

from typing import NamedTuple


class Library(NamedTuple):
    """A library from PyPI, and its tests: in the wheel, or in the repository at a tag."""
    name: str
    install: str                 # what pip installs, without dependencies
    tests: tuple[str, ...]       # folders of tests, in site-packages or in the repository
    repository: str = ""         # owner/name on GitHub, where the wheel has no tests
    tag: str = ""
    files: str = "*_test.py"     # what pytest takes for a file of tests
    needs: tuple[str, ...] = ()  # other folders and files of the repository that the tests import
    inner: str = ""              # the folder of the wheel's package that has what the repository has at its top
    settings: tuple[str, ...] = ()  # environment variables, NAME=value, for both sides
    root: str = ""               # a folder beside this file with what the tests import from the root of the repository
    beside: bool = False         # the tests are in folders of the package: they are copied without the package
    own: str = ""                # a package of the tests that penstock has itself: its modules are penstock's


# What the libraries and their tests import, TensorFlow aside; both environments have the same.
SUPPORT = ("absl-py astunparse attrs certifi charset_normalizer check_shapes cloudpickle decorator deprecated dm-tree "
           "dropstackframe filelock flatbuffers fsspec future gast gin-config google_pasta huggingface_hub==0.26.5 idna jax "
           "jaxlib kt-legacy lark mock multipledispatch namex onnx opt_einsum optree pandas parameterized python-dateutil "
           "pytz pyyaml regex requests safetensors scipy sentencepiece setuptools<80 six tabulate termcolor "
           "tokenizers==0.20.3 toposort tqdm typeguard==2.13.3 tzdata urllib3 wrapt datasets==3.1.0 multiprocess==0.70.16 "
           "dill==0.3.8 pyarrow xxhash aiohttp aiosignal frozenlist multidict yarl propcache aiohappyeyeballs onnxruntime "
           "coloredlogs humanfriendly grain etils array_record more-itertools importlib_resources zipp portpicker "
           "psutil").split()

_KERAS_2 = ("layers", "metrics", "optimizers", "engine", "saving", "utils")

LIBRARIES = (
    Library("Keras 3", "keras==3.15.1", tuple(f"keras/src/{folder}" for folder in (
        "losses", "metrics", "optimizers", "saving", "models", "ops", "layers", "layers/preprocessing", "trainers",
        "callbacks", "export")), root="keras_root"),
    Library("TensorFlow Probability", "tensorflow-probability==0.25.0", tuple(
        f"tensorflow_probability/python/{folder}" for folder in (
            "distributions", "bijectors", "mcmc", "sts", "vi", "optimizer", "math", "layers")),
        "tensorflow/probability", "v0.25.0"),
    Library("Sonnet", "dm-sonnet", ("sonnet/src",)),
    Library("GPflow", "gpflow==2.11.2", ("tests/gpflow",), "GPflow/GPflow", "v2.9.2", "test_*.py"),
    Library("transformers", "transformers==4.46.3", tuple(f"tests/models/{model}" for model in (
        "bert gpt2 t5 vit albert bart blenderbot blenderbot_small blip camembert clip convbert convnext convnextv2 ctrl cvt "
        "data2vec deberta deberta_v2 deit distilbert dpr electra encoder_decoder esm flaubert funnel gptj groupvit hubert "
        "idefics layoutlm layoutlmv3 led longformer lxmert marian mbart mistral mobilebert mobilevit mpnet mt5 openai opt "
        "pegasus rag regnet rembert resnet roberta roberta_prelayernorm roformer sam segformer speech_to_text swiftformer swin "
        "tapas vision_encoder_decoder vision_text_dual_encoder vit_mae wav2vec2 whisper xglm xlm xlm_roberta xlnet").split()),
            "huggingface/transformers", "v4.46.3", "test_modeling_tf_*.py", needs=("utils", "src", "conftest.py"),
            settings=("USE_TF=1",)),                                # without PyTorch, which one side has
    Library("tf_slim", "tf_slim", ("tf_slim",)),
    Library("tf_keras", "tf_keras==2.21.0", tuple(f"tf_keras/{folder}" for folder in _KERAS_2),
            "keras-team/tf-keras", "v2.21.0", inner="src", beside=True),
    Library("tf.keras", "tf_keras==2.21.0", tuple(f"tf_keras/{folder}" for folder in (
        *_KERAS_2, "callbacks_test.py", "losses_test.py", "constraints_test.py", "regularizers_test.py", "activations_test.py",
        "initializers", "models", "mixed_precision", "preprocessing", "premade_models", "feature_column", "tests")),
        "keras-team/tf-keras", "v2.21.0", inner="src", beside=True, own="tf_keras"),
    Library("keras-tuner", "keras-tuner==1.4.8", ("keras_tuner",), "keras-team/keras-tuner", "v1.4.7", beside=True),
    Library("tensorflow-recommenders", "tensorflow-recommenders", ("tensorflow_recommenders",),
            settings=("TF_USE_LEGACY_KERAS=1",)),                   # they want Keras 2, which tf.keras is here
    Library("tensorflow-hub", "tensorflow-hub==0.16.1", ("tensorflow_hub",), "tensorflow/hub", "v0.16.1", beside=True),
    Library("tf-models-official", "tf-models-official", ("official/nlp/modeling/layers",),
            settings=("TF_USE_LEGACY_KERAS=1",)),
    Library("tf2onnx", "tf2onnx==1.17.0", ("tests",), "onnx/tensorflow-onnx", "v1.17.0", "test_*.py",
            settings=("TF2ONNX_SKIP_TFLITE_TESTS=True", "TF_USE_LEGACY_KERAS=1")),   # the converter reads Keras 2
    Library("mesh-tensorflow", "mesh-tensorflow", ("mesh_tensorflow",)),
    Library("tf-agents", "tf-agents", ("tf_agents/utils",)),
)
