"""tf.contrib.layers: layers as functions, with variables named as TensorFlow 1 named them (weights, biases, beta, gamma, ...).

`support.py` has their common part: variables of a scope with their collections, and outputs under the name of their scope.
"""
from penstock._src.compat.contrib import deeper
from penstock._src.compat.contrib.layers import (  # noqa: F401
       convolutions,
       dense,
       embeddings,
       feature_columns,
       initializers,
       normalization,
       optimize,
       pooling,
       regularizers,
       reshaping,
       summaries,
)

deeper("layers", "layers.layers", "layers.initializers", "layers.regularizers", "layers.utils", "layers.summaries",
       "layers.optimizers", "layers.encoders", "layers.feature_column", "layers")
