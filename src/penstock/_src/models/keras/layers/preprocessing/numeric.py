"""Numbers: Normalization, Rescaling, Discretization, CategoryEncoding, Hashing, HashedCrossing."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.layers.parts import described, dims_of
from penstock._src.models.keras.layers.preprocessing.base import (
    Categories,
    PreprocessingLayer,
    encoded,
    names,
    on_values,
)
from penstock.compat import v1 as tf


@export(*names("Normalization"))
class Normalization(PreprocessingLayer):
    """(x - mean) / standard deviation, with statistics from `adapt`, or as given.

    Args:
        axis: Axes with separate statistics; None for one mean and variance of all elements.
        mean: Known mean, instead of `adapt`.
        variance: Known variance, instead of `adapt`.
        invert: Whether to undo the normalization.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> layer = tf.keras.layers.Normalization(mean=3., variance=2.)
    """

    def __init__(self, axis: Any = -1, mean: Any = None, variance: Any = None, invert: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self.axis = () if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
        if (mean is None) != (variance is None):
            raise ValueError("When setting values directly, both `mean` and `variance` must be set. Got mean: "
                             f"{mean} and variance: {variance}")
        self.input_mean, self.input_variance, self.invert = mean, variance, invert
        self.reset_state()

    def build(self, input_shape: Any) -> None:
        """Creates the statistics, one for each index along the axes with separate statistics."""
        dims = dims_of(input_shape)
        kept = sorted(a % len(dims) for a in self.axis)
        if any(dims[a] is None for a in kept):
            raise ValueError(f"The sizes of the axes in `axis` must be known, got axis {self.axis}, input shape: {dims}")
        self._over = tuple(i for i in range(len(dims)) if i not in kept)
        self._wide = [dims[i] if i in kept else 1 for i in range(len(dims))]
        if self.input_mean is None:
            shape = tuple(dims[a] for a in kept)
            self.adapt_mean = self.add_weight("mean", shape=shape, initializer="zeros", trainable=False)
            self.adapt_variance = self.add_weight("variance", shape=shape, initializer="ones", trainable=False)
            self.count = self.add_weight("count", shape=(), dtype=tf.int64, initializer="zeros", trainable=False)
        Layer.build(self, input_shape)

    def reset_state(self) -> None:
        """Resets the statistics."""
        self._total: Any = None                         # count, mean, sum of squared differences

    def update_state(self, data: Any) -> None:
        """Updates the statistics with a batch."""
        if self.input_mean is not None:
            raise ValueError("This Normalization layer has a fixed `mean` and `variance`: it cannot be adapted.")
        if data.ndim == 1:
            data = data[:, None]
        if not self.built:
            self.build(tf.TensorShape([None, *data.shape[1:]]))
            self.built = True
        data = data.astype(np.float64)
        n = int(np.prod([data.shape[i] for i in self._over]))
        mean, var = data.mean(self._over), data.var(self._over)
        if self._total is None:
            self._total = n, mean, var * n
            return
        before, old, squares = self._total
        both = before + n
        shift = mean - old
        self._total = both, old + shift * n / both, squares + var * n + shift ** 2 * before * n / both

    def finalize_state(self) -> None:
        """Keeps the statistics in the layer's weights."""
        n, mean, squares = self._total
        K.batch_set_value([(self.adapt_mean, mean), (self.adapt_variance, squares / n), (self.count, n)])

    @property
    def mean(self) -> Any:
        """The mean, in a shape that the inputs can be compared with."""
        given = self.input_mean
        return tf.reshape(self.adapt_mean, self._wide) if given is None else tf.constant(given,
                                                                                         self._compute_dtype or K.floatx())

    @property
    def variance(self) -> Any:
        """The variance, in a shape that the inputs can be compared with."""
        given = self.input_variance
        return tf.reshape(self.adapt_variance, self._wide) if given is None else \
            tf.constant(given, self._compute_dtype or K.floatx())

    def call(self, inputs: Any) -> Any:
        """The normalized inputs."""
        inputs = tf.cast(inputs, self._compute_dtype or K.floatx())
        mean, variance = self.mean, self.variance
        if self.input_mean is None and not self.axis:               # one number each, for inputs of any rank
            mean, variance = tf.reshape(mean, []), tf.reshape(variance, [])
        elif self.input_mean is None and len(inputs.shape) == 1:
            inputs = tf.expand_dims(inputs, -1)
        mean = tf.cast(mean, inputs.dtype)
        spread = tf.maximum(tf.sqrt(tf.cast(variance, inputs.dtype)), K.epsilon())
        return mean + inputs * spread if self.invert else (inputs - mean) / spread

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        def plain(v: Any) -> Any:
            return v.tolist() if isinstance(v, np.ndarray) else v
        return {**super().get_config(), "axis": self.axis, "invert": self.invert, "mean": plain(self.input_mean),
                "variance": plain(self.input_variance)}


@export(*names("Rescaling"))
class Rescaling(PreprocessingLayer):
    """inputs * scale + offset.

    Args:
        scale: Factor.
        offset: Added after the multiplication.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.Rescaling(1. / 255)
    """

    def __init__(self, scale: Any, offset: Any = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.scale, self.offset = scale, offset

    def call(self, inputs: Any) -> Any:
        """The rescaled inputs."""
        dtype = self._compute_dtype or K.floatx()
        return tf.cast(inputs, dtype) * tf.cast(self.scale, dtype) + tf.cast(self.offset, dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("scale", "offset"))


def _dense(indices: Any) -> Any:
    """Indices for rows; missing ones count nowhere."""
    if isinstance(indices, tf.SparseTensor):
        return tf.sparse.to_dense(indices, default_value=-1)
    return indices.to_tensor(-1) if isinstance(indices, tf.RaggedTensor) else indices


def _checked_mode(mode: str, *allowed: str) -> str:
    if mode not in allowed:
        raise ValueError(f"Unknown `output_mode` {mode!r}; one of {allowed} is expected.")
    return mode


@export(*names("Discretization"))
class Discretization(Categories):
    """Numbers as the index of their interval; the intervals are given, or quantiles of adapted data.

    Args:
        bin_boundaries: The limits between the intervals.
        num_bins: How many intervals `adapt` computes, if there are no boundaries.
        epsilon: How far a computed boundary may be from the quantile, as a share of the data.
        output_mode: `"int"`, `"one_hot"`, `"multi_hot"` or `"count"`.
        sparse: Whether to return sparse tensors, in the modes other than `"int"`.
        **kwargs: `name` and other arguments of `Layer`.

    >>> tf.keras.layers.Discretization(bin_boundaries=[0., 1., 2.])(tf.constant([-1.0, 0.5, 5.0])).numpy()
    array([0, 1, 3])
    """

    def __init__(self, bin_boundaries: Any = None, num_bins: int | None = None, epsilon: float = 0.01, output_mode: str = "int",
                 sparse: bool = False, **kwargs: Any):
        if "bins" in kwargs:
            bin_boundaries = kwargs.pop("bins")
        super().__init__(_checked_mode(output_mode, "int", "one_hot", "multi_hot", "count"), **kwargs)
        if bin_boundaries is None and num_bins is None:
            raise ValueError("You need to set either `num_bins` or `bin_boundaries`.")
        if bin_boundaries is not None and num_bins is not None:
            raise ValueError("Both `num_bins` and `bin_boundaries` should not be set. Received: "
                             f"`num_bins={num_bins}` and `bin_boundaries={bin_boundaries}`")
        self.input_bin_boundaries, self.num_bins, self.epsilon = bin_boundaries, num_bins, epsilon
        self.sparse = sparse
        self.bin_boundaries = [] if bin_boundaries is None else [float(b) for b in bin_boundaries]
        self.reset_state()

    _adapted_batch = 32                             # on which the summary depends

    def reset_state(self) -> None:
        """Resets the data."""
        self._summary = np.zeros((2, 0))                # values, and how many elements each represents

    def update_state(self, data: Any) -> None:
        """Updates the summary of quantiles with a batch."""
        if self.input_bin_boundaries is not None:
            raise ValueError("This Discretization layer has fixed `bin_boundaries`: it cannot be adapted.")
        values = np.sort(np.asarray(data, np.float64).ravel())
        step = int(len(values) * self.epsilon)
        kept = values[step::max(step, 1)]
        merged = np.concatenate([self._summary, np.stack([kept, np.full_like(kept, max(step, 1))])], 1)
        self._summary = _compressed(merged[:, merged[0].argsort(kind="stable")], self.epsilon)

    def finalize_state(self) -> None:
        """Takes the boundaries from the summary."""
        if self.num_bins is None:                 # the boundaries are given
            return
        self.bin_boundaries = [float(b) for b in _compressed(self._summary, 1. / self.num_bins)[0, :-1]]

    def call(self, inputs: Any) -> Any:
        """The indices of the intervals."""
        indices = on_values(self._intervals, inputs)
        if self.output_mode == "int":
            return tf.cast(indices, self.compute_dtype)
        return encoded(_dense(indices), len(self.bin_boundaries) + 1, self.output_mode, sparse=self.sparse,
                       dtype=self.compute_dtype)

    def _intervals(self, values: Any) -> Any:
        if not values.dtype.base_dtype.is_floating:
            values = tf.cast(values, tf.float32)
        return tf.raw_ops.Bucketize(input=values, boundaries=self.bin_boundaries)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape, or rows of as many columns as there are intervals."""
        dims = dims_of(input_shape)
        if self.output_mode == "int":
            return tf.TensorShape(dims)
        depth = len(self.bin_boundaries) + 1
        return tf.TensorShape([*dims, depth] if self.output_mode == "one_hot" and dims[-1] != 1 else [*dims[:-1], depth])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        given = self.bin_boundaries if self.num_bins is None else None
        return described(self, {**super().get_config(), "bin_boundaries": given},
                         ("num_bins", "epsilon", "output_mode", "sparse"))


def _compressed(summary: np.ndarray, share: float) -> np.ndarray:
    """A summary of quantiles with one entry for each share of the elements."""
    if summary.shape[1] * share < 1:
        return summary
    parts = share + np.arange(0., 1., share)
    total = summary[1].cumsum()
    reached = total / total[-1]
    counts = np.interp(parts, reached, total)
    return np.stack([np.interp(parts, reached, summary[0]), np.diff(counts, prepend=0.)])


@export(*names("CategoryEncoding"))
class CategoryEncoding(PreprocessingLayer):
    """Integers as rows: one-hot, multi-hot or counts.

    Args:
        num_tokens: Number of categories: the size of the rows.
        output_mode: `"one_hot"`, `"multi_hot"` or `"count"`.
        sparse: Whether to return a SparseTensor.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.CategoryEncoding(num_tokens=4, output_mode="multi_hot")
    """

    def __init__(self, num_tokens: int | None = None, output_mode: str = "multi_hot", sparse: bool = False, **kwargs: Any):
        if "max_tokens" in kwargs:
            num_tokens = kwargs.pop("max_tokens")
        super().__init__(**kwargs)
        if num_tokens is None:
            raise ValueError("num_tokens must be set to use this layer. If the number of tokens is not known beforehand, use "
                             "the IntegerLookup layer instead.")
        if num_tokens < 1:
            raise ValueError(f"`num_tokens` must be positive, got {num_tokens}.")
        self.num_tokens, self.sparse = num_tokens, sparse
        self.output_mode = _checked_mode({"binary": "multi_hot"}.get(output_mode, output_mode), "one_hot", "multi_hot", "count")

    def call(self, inputs: Any, count_weights: Any = None) -> Any:
        """The rows."""
        if inputs.dtype.base_dtype.name not in ("int32", "int64"):
            inputs = tf.cast(inputs, tf.int64)
        checks = [tf.debugging.assert_less(inputs, tf.cast(self.num_tokens, inputs.dtype), message=(
            f"Input values must be in the range 0 <= values < num_tokens with num_tokens={self.num_tokens}")),
            tf.debugging.assert_non_negative(inputs)]
        with tf.control_dependencies([c for c in checks if c is not None]):
            inputs = tf.identity(inputs)
        if count_weights is not None:
            if self.output_mode != "count":
                raise ValueError("`count_weights` is not used when `output_mode` is not `'count'`. Received "
                                 f"`count_weights={count_weights}`.")
        return encoded(inputs, self.num_tokens, self.output_mode, sparse=self.sparse, count_weights=count_weights)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Rows of as many columns as there are tokens."""
        dims = dims_of(input_shape)
        if self.output_mode == "one_hot" and dims[-1] != 1:
            return tf.TensorShape([*dims, self.num_tokens])
        return tf.TensorShape([*dims[:-1], self.num_tokens])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("num_tokens", "output_mode", "sparse"))


@export(*names("Hashing"))
class Hashing(Categories):
    """Strings or integers as the bin that their hash falls into; a masked value is bin 0.

    Args:
        num_bins: Number of bins.
        mask_value: Value that is mapped to bin 0.
        salt: Key of the hash, one or two integers.
        output_mode: `"int"` for indices, or rows: `"one_hot"`, `"multi_hot"`, `"count"` or `"tf_idf"`.
        sparse: Whether to return a SparseTensor.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.Hashing(num_bins=3)(tf.constant([["A"], ["B"]]))
    """

    def __init__(self, num_bins: int, mask_value: Any = None, salt: Any = None, output_mode: str = "int", sparse: bool = False,
                 **kwargs: Any):
        super().__init__(_checked_mode(output_mode, "int", "one_hot", "multi_hot", "count"), **kwargs)
        if num_bins is None or num_bins <= 0:
            raise ValueError(f"The `num_bins` for `Hashing` cannot be `None` or non-positive values. Received: "
                             f"num_bins={num_bins}.")
        self.num_bins, self.mask_value, self.sparse = num_bins, mask_value, sparse
        self.salt = [salt, salt] if isinstance(salt, int) else salt if salt is None else list(salt)

    def call(self, inputs: Any) -> Any:
        """The bins."""
        found = on_values(self._bins, inputs)
        if self.output_mode == "int":
            return tf.cast(found, self.compute_dtype)
        return encoded(_dense(found), self.num_bins, self.output_mode, sparse=self.sparse, dtype=self.compute_dtype)

    def _bins(self, values: Any) -> Any:
        text = values if values.dtype.base_dtype == tf.string else tf.as_string(values)
        bins = self.num_bins - (self.mask_value is not None and self.num_bins > 1)
        if self.salt is None:
            found = tf.strings.to_hash_bucket_fast(text, bins)
        else:
            found = tf.strings.to_hash_bucket_strong(text, bins, key=self.salt)
        if self.mask_value is not None:
            found = tf.where(tf.equal(values, self.mask_value), tf.zeros_like(found), found + 1)
        return found

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("num_bins", "salt", "mask_value", "output_mode", "sparse"))


@export(*names("HashedCrossing"))
class HashedCrossing(Categories):
    """The bin of the hash of what several inputs hold together, of shape [], [batch] or [batch, 1] each.

    >>> tf.keras.layers.HashedCrossing(num_bins=5)((tf.constant(["A", "B"]), tf.constant([101, 102])))
    """

    _takes_several = True

    def __init__(self, num_bins: int, output_mode: str = "int", sparse: bool = False, **kwargs: Any):
        super().__init__(_checked_mode(output_mode, "int", "one_hot"), **kwargs)
        if num_bins is None or num_bins <= 0:
            raise ValueError(f"`num_bins` of HashedCrossing should be a positive number, got {num_bins}.")
        self.num_bins, self.sparse = num_bins, sparse

    def call(self, inputs: Any) -> Any:
        """The bins."""
        if not isinstance(inputs, (list, tuple)) or len(inputs) < 2:
            raise ValueError(f"HashedCrossing is called on a list or tuple of at least two tensors, got {inputs}.")
        columns = [tf.convert_to_tensor(x) for x in inputs]
        if any(c.dtype.base_dtype != tf.string and not c.dtype.base_dtype.is_integer for c in columns):
            raise ValueError(f"All inputs of HashedCrossing should have an integer or string dtype, got {columns}.")
        rank = len(columns[0].shape)
        wide = [tf.reshape(x, [-1, 1]) for x in columns]
        wide = [x if x.dtype.base_dtype == tf.string else tf.cast(x, tf.int64) for x in wide]
        found = tf.sparse.to_dense(tf.sparse.cross_hashed(wide, self.num_bins))
        found = tf.reshape(found, [[], [-1], [-1, 1]][rank])
        if self.output_mode == "int":
            return tf.cast(found, self.compute_dtype)
        return encoded(found, self.num_bins, "one_hot", sparse=self.sparse, dtype=self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of an input, or rows of as many columns as there are bins."""
        dims = dims_of(input_shape[0])
        if self.output_mode == "int":
            return tf.TensorShape(dims)
        return tf.TensorShape([*(dims[:-1] if dims and dims[-1] == 1 else dims), self.num_bins])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("num_bins", "output_mode", "sparse"))
