"""The base of preprocessing layers: learning from data before training (`adapt`), and forms of categories."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph.convert import is_tensor
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.engine.base_layer import Layer
from penstock.compat import v1 as tf

_PREFIXES = ("keras.layers.", "keras.layers.experimental.preprocessing.")


def names(*layers: str) -> list[str]:
    """The public names of preprocessing layers: where they are now, and where they were."""
    return [prefix + layer for layer in layers for prefix in _PREFIXES]


@export("keras.layers.experimental.preprocessing.PreprocessingLayer")
class PreprocessingLayer(Layer):
    """A layer that may learn from data, once, before it is used. Called with a list of Python values, it takes one tensor."""

    _takes_several = False           # whether a list is one of inputs
    _adapted_batch: int | None = None            # how many rows of an array `adapt` learns from at a time; None for all

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer."""
        if args and isinstance(args[0], (list, tuple)) and not self._takes_several and \
                not any(map(is_tensor, nest.flatten(args[0]))):
            args = (tf.convert_to_tensor(args[0]), *args[1:])
        return super().__call__(*args, **kwargs)

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None, reset_state: bool = True) -> None:
        """Learns from data: an array, a tensor, or a Dataset of batches.

        >>> layer = tf.keras.layers.Normalization(); layer.adapt(np.array([[1.], [2.], [3.]]))
        """
        if reset_state:
            self.reset_state()
        shape, was_built = None, self.built
        for i, batch in enumerate(batches(data, batch_size or self._adapted_batch)):
            if steps is not None and i >= steps:
                break
            shape = batch.shape if shape is None else shape
            self.update_state(batch)
        if shape is None:
            raise ValueError(f"{type(self).__name__}.adapt() was given no data.")
        if not was_built and not hasattr(self, "_batch_input_shape"):
            self._batch_input_shape = (None,) * len(shape)
        if not self.built:
            self.build(tf.TensorShape([None, *shape[1:]]))
            self.built = True
        self.finalize_state()

    def reset_state(self) -> None:
        """Resets the state that `adapt` computed."""

    def update_state(self, data: Any) -> None:
        """Learns from an array."""
        raise NotImplementedError(f"{type(self).__name__} has no state that adapt() could compute.")

    def finalize_state(self) -> None:
        """Finalizes the state that `adapt` computed."""

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape."""
        return tf.TensorShape(input_shape)


class Categories(PreprocessingLayer):
    """A layer whose outputs are indices of categories (int64), or rows that encode them."""

    def __init__(self, output_mode: str, dtype: Any = None, **kwargs: Any):
        super().__init__(dtype=dtype or (tf.int64 if output_mode == "int" else K.floatx()), **kwargs)
        self.output_mode = output_mode


def batches(data: Any, size: int | None = None) -> Iterator[np.ndarray]:
    """The arrays in an array, a tensor, a list, or a dataset; arrays in batches of a size, if there is one."""
    if hasattr(data, "element_spec") and hasattr(data, "__iter__"):
        for batch in data:
            yield as_array(batch)
        return
    whole = as_array(data)
    if size is None or not whole.ndim:
        yield whole
        return
    for first in range(0, len(whole), size):
        yield whole[first:first + size]


def as_array(data: Any) -> np.ndarray:
    """A tensor or list as an array."""
    if isinstance(data, tf.RaggedTensor):
        data = data.flat_values
    return np.asarray(K.get_value(data))


def on_values(function: Callable, inputs: Any) -> Any:
    """An elementwise function of the values of dense, sparse and ragged inputs."""
    if isinstance(inputs, tf.SparseTensor):
        return tf.SparseTensor(tf.identity(inputs.indices), function(inputs.values), tf.identity(inputs.dense_shape))
    if isinstance(inputs, tf.RaggedTensor):
        return tf.ragged.map_flat_values(function, inputs)
    return function(inputs)


def encoded(indices: Any, depth: int, output_mode: str, weights: Any = None, sparse: bool = False,
            count_weights: Any = None, dtype: Any = None) -> Any:
    """Indices as `one_hot`, `multi_hot`, `count` or `tf_idf` rows; negative ones count nowhere. A vector is one sample."""
    rank = K.ndim(indices)
    if output_mode == "one_hot":
        single = rank != 0 and K.int_shape(indices)[-1] == 1
        rows = tf.one_hot(tf.squeeze(indices, -1) if single else indices, depth)
    else:
        wide = tf.one_hot(indices, depth)                           # [..., tokens, depth]
        if count_weights is not None:
            wide *= tf.expand_dims(tf.cast(count_weights, wide.dtype), -1)
        if rank == 0:
            wide = tf.expand_dims(wide, -2)
        rows = tf.reduce_sum(wide, axis=-2)
        rows = tf.minimum(rows, 1.) if output_mode == "multi_hot" else rows
        if output_mode == "tf_idf":
            rows = rows * weights
    rows = rows if dtype is None else tf.cast(rows, dtype)
    return tf.sparse.from_dense(rows) if sparse else rows
