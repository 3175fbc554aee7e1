"""tf.contrib: what programs of TensorFlow 1 found there, one package of ours for each of its packages.

A package is loaded when one of its names is asked for. All are written in terms of public functions, and export their names
under `contrib` in the 1.x API only.
"""
from penstock._src.base import api

_PACKAGES = ("boosted_trees", "crf", "cudnn_rnn", "data", "distribute", "distributions", "eager", "factorization", "framework",
             "graph_editor", "image", "keras", "layers", "learn", "legacy_seq2seq", "losses", "metrics", "nccl", "opt",
             "predictor", "quantize", "rnn", "seq2seq", "session_bundle", "slim", "summary", "tensor_forest", "tensorboard",
             "timeseries", "tpu", "training")
_MOVED = ("autograph", "framework.python")
_SMALL = ("checkpoint", "compiler", "memory_stats", "nn", "proto", "resampler", "staging", "stateless",
          "util")       # a few names each

api.LAZY.update({f"contrib.{name}": f"{__name__}.{name}" for name in _PACKAGES})
api.LAZY.update({f"contrib.{name}": f"{__name__}.small" for name in _SMALL})
api.LAZY["contrib.cluster_resolver"] = f"{__name__}.tpu"
api.LAZY.update({f"contrib.{name}": f"{__name__}.aliases" for name in _MOVED})


def deeper(package: str, *paths: str) -> None:
    """Gives the names of a package also under the paths of TensorFlow's modules (`layers.python.layers.initializers`)."""
    prefix, table = f"contrib.{package}.", api.TABLES["v1"]
    found = {n[len(prefix):]: v for n, v in table.items() if n.startswith(prefix) and ".python." not in n}
    for path in paths:
        table.update({f"{prefix}python.{path}.{name}": v for name, v in found.items()})
