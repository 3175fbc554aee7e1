"""Gradient compression: fewer bits or fewer elements, for parameter servers and for all-reduce.

A *codec* (`precision.py`, `quantize.py`, `sparsify.py`) encodes a vector; the *compressor* (`memory.py`) applies it between
gradient and variable, with error feedback; `optimizer.py` and `keras_optimizer.py` wrap
optimizers with it; `arrays.py` passes codecs to collectives. docs/compression.md has bytes and accuracies.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.compression.codec import Codec, NoCompression, as_codec
from penstock._src.models.compression.keras_optimizer import CompressedKerasOptimizer
from penstock._src.models.compression.optimizer import CompressedOptimizer
from penstock._src.models.compression.precision import Bfloat16, Float16
from penstock._src.models.compression.quantize import Int8, OneBit, Ternary
from penstock._src.models.compression.sparsify import Threshold, TopK
from penstock._src.training.train.optimizer import Optimizer

__all__ = ["Bfloat16", "Codec", "CompressedOptimizer", "Float16", "Int8", "NoCompression", "OneBit", "Ternary", "Threshold",
           "TopK", "as_codec", "compress"]


@export("distribute.experimental.compression.compress")
def compress(optimizer: Any, codec: Any, **options: Any) -> Any:
    """An optimizer of tf.train or tf.keras that sends its gradients through a codec (or one named by its kind).

    >>> opt = tf.distribute.experimental.compression.compress(tf.keras.optimizers.SGD(0.1), "int8")
    """
    if isinstance(optimizer, Optimizer):
        return CompressedOptimizer(optimizer, codec, **options)
    return CompressedKerasOptimizer(optimizer, codec, **options)
