"""Vocabularies: StringLookup and IntegerLookup, tokens as indices and back.

The indices begin with the mask token, if any; then those of tokens that are not in the vocabulary; then the
vocabulary, from the most frequent token on.
"""
from __future__ import annotations

import collections
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.scopes import init_scope
from penstock._src.graph.trackable import no_automatic_dependency_tracking
from penstock._src.io.paths import read_bytes
from penstock._src.models.keras.layers.parts import described, dims_of
from penstock._src.models.keras.layers.preprocessing.base import Categories, encoded, names
from penstock._src.models.keras.utils.function_code import check_file
from penstock._src.state.table_initializers import TableInitializerBase
from penstock.compat import v1 as tf

_MODES = ("int", "one_hot", "multi_hot", "count", "tf_idf")


class _Unfilled(TableInitializerBase):
    """Leaves a table without entries: lookups fail until the layer has a vocabulary."""

    def initialize(self, table: Any) -> None:
        """Does nothing."""


class IndexLookup(Categories):
    """The base of both layers."""

    def __init__(self, max_tokens: Any, num_oov_indices: int, mask_token: Any, oov_token: Any, vocabulary: Any,
                 vocabulary_dtype: Any, idf_weights: Any, invert: bool, output_mode: str, sparse: bool, pad_to_max_tokens: bool,
                 vocabulary_size: Any = None, **kwargs: Any):
        output_mode = {"binary": "multi_hot", "tf-idf": "tf_idf"}.get(output_mode, output_mode)
        super().__init__(output_mode, **kwargs)
        if max_tokens is not None and max_tokens <= 1:
            raise ValueError("If set, `max_tokens` must be greater than 1. You passed {max_tokens}")
        if num_oov_indices < 0:
            raise ValueError(f"`num_oov_indices` must be greater than or equal to 0. You passed {num_oov_indices}")
        if output_mode not in _MODES:
            raise ValueError(f"Unknown `output_mode` {output_mode!r}; one of {_MODES} is expected.")
        if invert and output_mode != "int":
            raise ValueError(f"`output_mode` must be `'int'` when `invert` is true. You passed {output_mode}")
        self.max_tokens, self.num_oov_indices = max_tokens, num_oov_indices
        self.mask_token, self.oov_token = mask_token, oov_token
        self.invert, self.sparse, self.pad_to_max_tokens = invert, sparse, pad_to_max_tokens
        self.vocabulary_dtype = tf.as_dtype(vocabulary_dtype)
        if not self._is_text() and context.eager_outside_functions():
            self.oov_token = self.vocabulary_dtype.as_numpy_dtype(oov_token)
        self._set_tokens(None, None)
        self.reset_state()
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)

    # -- vocabularies -------------------------------------------------------------------------------------------------------
    @no_automatic_dependency_tracking
    def _set_tokens(self, tokens: Any, weights: Any) -> None:
        self._tables: dict[Any, Any]
        self._tokens, self._idf, self._tables = tokens, weights, {}

    def _first(self) -> int:
        """The index of the first token of the vocabulary."""
        return self.num_oov_indices + (self.mask_token is not None)

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Sets the tokens: a list, an array, or the path of a file with one in each line."""
        if isinstance(vocabulary, str):
            check_file(vocabulary)
            vocabulary = [self._parsed(line) for line in read_bytes(vocabulary).decode().splitlines() if line]
        tokens = [self._plain(t) for t in np.asarray(vocabulary, object if self._is_text() else None).ravel().tolist()]
        special = ([self.mask_token] if self.mask_token is not None else []) + [self.oov_token] * self.num_oov_indices
        if special and tokens[:len(special)] == special:
            tokens = tokens[len(special):]
        repeated = [t for t, n in collections.Counter(tokens).items() if n > 1]
        if repeated:
            raise ValueError(f"The passed vocabulary has at least one repeated term. The repeated terms are: {repeated[:20]}")
        if self.max_tokens is not None and self._first() + len(tokens) > self.max_tokens:
            raise ValueError(f"Attempted to set a vocabulary larger than the maximum vocab size. Passed vocab size is "
                             f"{self._first() + len(tokens)}, max vocab size is {self.max_tokens}.")
        if self.output_mode == "tf_idf" and idf_weights is None:
            raise ValueError("The output mode TF_IDF needs `idf_weights`")
        self._set_tokens(tokens, self._all_weights(idf_weights, len(tokens)))

    def _all_weights(self, weights: Any, n: int) -> Any:
        if weights is None:
            return None
        found = np.asarray(weights, np.float32).ravel()
        if len(found) == n:                                 # tokens outside weigh as much as the mean
            found = np.concatenate([np.full(self._first(), found.mean() if n else 0., np.float32), found])
        return found

    def get_vocabulary(self, include_special_tokens: bool = True) -> list:
        """The tokens, in the order of their indices."""
        own = list(self._tokens or [])
        if context.eager_outside_functions():                # NumPy's scalars, as a table of tf_keras exports them
            own = [np.str_(t) if self._is_text() else self.vocabulary_dtype.as_numpy_dtype(t) for t in own]
        if not include_special_tokens:
            return own
        mask = [self.mask_token] if self.mask_token is not None else []
        return mask + [self.oov_token] * self.num_oov_indices + own

    def vocabulary_size(self) -> int:
        """The number of indices."""
        return self._first() + len(self._tokens or [])

    vocab_size = vocabulary_size

    def _is_text(self) -> bool:
        return self.vocabulary_dtype == tf.string

    def _plain(self, token: Any) -> Any:
        if not self._is_text():
            return int(token)
        return token.decode() if isinstance(token, bytes) else str(token)

    def _parsed(self, line: str) -> Any:
        return line if self._is_text() else int(line)

    # -- learning -----------------------------------------------------------------------------------------------------------
    @no_automatic_dependency_tracking
    def reset_state(self) -> None:
        """Resets the counts."""
        self._counts: Any = collections.Counter()
        self._documents: Any = collections.Counter()
        self._seen = 0

    def update_state(self, data: Any) -> None:
        """Counts the tokens of a batch, and in how many rows each is."""
        flat = [self._plain(t) for t in np.asarray(data).ravel().tolist()]
        self._counts.update(flat)
        if self.output_mode == "tf_idf":
            rows = np.asarray(data).reshape(len(data), -1) if np.ndim(data) else [data]
            self._seen += len(rows)
            for row in rows:
                self._documents.update({self._plain(t) for t in np.asarray(row).ravel().tolist()})

    def finalize_state(self) -> None:
        """Makes the vocabulary of what was counted, the most frequent first."""
        known = [t for t in self._counts if t not in (self.mask_token, self.oov_token)]
        tokens = sorted(known, key=lambda t: (self._counts[t], t), reverse=True)
        if self.max_tokens is not None:
            tokens = tokens[:self.max_tokens - self._first()]
        weights = None
        if self.output_mode == "tf_idf":
            weights = [np.log(1 + self._seen / (1 + self._documents[t])) for t in tokens]
        self._set_tokens(tokens, self._all_weights(weights, len(tokens)))

    # -- calling ------------------------------------------------------------------------------------------------------------
    def _table(self) -> Any:
        """The table of the vocabulary, in the graph in use. Without a vocabulary, a graph can be built but not run."""
        if self._tokens is None and tf.executing_eagerly():
            raise tf.errors.FailedPreconditionError(None, None, self._unset())
        with init_scope():
            where = None if tf.executing_eagerly() else tf.get_default_graph()
            found = self._tables.get(where)
            if found is None:
                found = self._tables[where] = self._made_table()
                if where is None:
                    self._track_trackable(found, "lookup_table", overwrite=True)        # SavedModels need what functions use
        return found

    def _unset(self) -> str:
        return (f"The vocabulary of {self.name} has not been set: pass `vocabulary`, or call `adapt` or `set_vocabulary` "
                "first.")

    def _made_table(self) -> Any:
        tokens = np.array(self._tokens or [], object if self._is_text() else self.vocabulary_dtype.as_numpy_dtype)
        indices = np.arange(len(tokens), dtype=np.int64) + self._first()
        if self.invert:
            keys, values, default = tf.constant(indices), tf.constant(tokens, self.vocabulary_dtype), self.oov_token
        else:
            keys, values, default = tf.constant(tokens, self.vocabulary_dtype), tf.constant(indices), -1
        if self._tokens is None:
            return tf.lookup.StaticHashTable(_Unfilled(keys.dtype, values.dtype), default)
        return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default)

    def call(self, inputs: Any) -> Any:
        """The indices of tokens (or rows of them); the tokens of indices, if the layer is inverted."""
        if isinstance(inputs, tf.RaggedTensor) and self.output_mode == "int":
            return inputs.with_flat_values(self.call(inputs.flat_values))
        if isinstance(inputs, tf.SparseTensor) and self.output_mode == "int":
            return tf.SparseTensor(inputs.indices, self.call(inputs.values), inputs.dense_shape)
        if isinstance(inputs, tf.RaggedTensor):
            inputs = inputs.to_tensor(self.mask_token if self.mask_token is not None else self._filler())
        if self.invert:
            return self._inverted(inputs)
        if inputs.dtype.base_dtype != self.vocabulary_dtype:
            inputs = tf.cast(inputs, self.vocabulary_dtype)
        if self.output_mode == "int":
            return self._indices(inputs)
        self._check_columns()
        return self._rows(self._indices(inputs))

    def _filler(self) -> Any:
        return "" if self._is_text() else 0

    def _inverted(self, inputs: Any) -> Any:
        tokens = self._table().lookup(tf.cast(inputs, tf.int64))
        if self.mask_token is None:
            return tokens
        return tf.where(tf.equal(inputs, 0), tf.fill(tf.shape(inputs), tf.constant(self.mask_token, self.vocabulary_dtype)),
                        tokens)

    def _indices(self, inputs: Any) -> Any:
        found = self._table().lookup(inputs)
        first = int(self.mask_token is not None)
        if self.num_oov_indices == 0:
            check = tf.debugging.assert_non_negative(found, message=(
                "When `num_oov_indices=0` all inputs should be in vocabulary, but some are not; consider setting "
                "`num_oov_indices=1`."))
            with tf.control_dependencies([] if check is None else [check]):
                outside = tf.identity(found)
        elif self.num_oov_indices == 1:
            outside = tf.fill(tf.shape(found), tf.constant(first, tf.int64))
        elif self._is_text():
            outside = tf.strings.to_hash_bucket_fast(inputs, self.num_oov_indices) + first
        else:
            outside = tf.math.floormod(tf.cast(inputs, tf.int64), self.num_oov_indices) + first
        indices = tf.where(tf.less(found, 0), outside, found)
        if self.mask_token is not None:
            masked = tf.equal(inputs, tf.constant(self.mask_token, self.vocabulary_dtype))
            indices = tf.where(masked, tf.zeros_like(indices), indices)
        return indices

    def _rows(self, indices: Any) -> Any:
        """Rows with a column for each index but that of the mask."""
        masked = int(self.mask_token is not None)
        depth = self._depth()
        weights = None
        if self.output_mode == "tf_idf":
            weights = np.zeros(depth, np.float32)
            weights[:len(self._idf) - masked] = self._idf[masked:]
        return encoded(indices - masked, depth, self.output_mode, weights, self.sparse)

    def _check_columns(self) -> None:
        if self._tokens is None and (self.output_mode == "tf_idf" or not self.pad_to_max_tokens):
            raise RuntimeError(f"{self._unset()} The number of columns depends on it, unless `pad_to_max_tokens=True`.")

    def _depth(self) -> int:
        n = self.max_tokens if self.pad_to_max_tokens else self.vocabulary_size()
        return n - (self.mask_token is not None)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape, or rows with a column for each index."""
        dims = dims_of(input_shape)
        if self.output_mode == "int":
            return tf.TensorShape(dims)
        if self.output_mode == "one_hot" and dims[-1] != 1:
            return tf.TensorShape([*dims, self._depth()])
        return tf.TensorShape([*dims[:-1], self._depth()])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        config = described(self, super().get_config(), (
            "invert", "max_tokens", "num_oov_indices", "oov_token", "mask_token", "output_mode", "sparse", "pad_to_max_tokens"))
        if not self._is_text():
            config["vocabulary_dtype"] = self.vocabulary_dtype.name
        weights = None if self._idf is None else self._idf[self._first():].tolist()
        return {**config, "idf_weights": weights, "vocabulary": self._tokens,
                "vocabulary_size": None if self._tokens is None else self.vocabulary_size()}


@export(*names("StringLookup"))
class StringLookup(IndexLookup):
    """Strings as indices into a vocabulary, or indices as strings, if `invert`.

    Set the vocabulary here, by `adapt`, or by `set_vocabulary`.

    Args:
        max_tokens: Maximum size of the vocabulary, including special tokens; unlimited by default.
        num_oov_indices: Number of indices for tokens outside of the vocabulary, which are hashed to them.
        mask_token: Token that masks an element; it gets index 0.
        oov_token: Token returned for unknown indices if `invert`.
        vocabulary: List of strings, or the path of a file with one per line.
        idf_weights: Inverse document frequencies of the tokens, for `output_mode="tf_idf"`.
        encoding: Encoding of the strings.
        invert: Whether to map indices to tokens.
        output_mode: `"int"` for indices, or rows: `"one_hot"`, `"multi_hot"`, `"count"` or `"tf_idf"`.
        pad_to_max_tokens: Whether rows have `max_tokens` columns even if the vocabulary is smaller.
        sparse: Whether to return a SparseTensor.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.StringLookup(vocabulary=["a", "b"])(tf.constant([["b", "z"]]))      # [[2, 0]]
    """

    def __init__(self, max_tokens: int | None = None, num_oov_indices: int = 1, mask_token: Any = None,
                 oov_token: str = "[UNK]",
                 vocabulary: Any = None, idf_weights: Any = None, encoding: str = "utf-8", invert: bool = False,
                 output_mode: str = "int", pad_to_max_tokens: bool = False, sparse: bool = False, **kwargs: Any):
        self.encoding = encoding
        kwargs.pop("vocabulary_dtype", None)
        super().__init__(max_tokens, num_oov_indices, mask_token, oov_token, vocabulary, tf.string, idf_weights, invert,
                         output_mode, sparse, pad_to_max_tokens, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return {**super().get_config(), "encoding": self.encoding}


@export(*names("IntegerLookup"))
class IntegerLookup(IndexLookup):
    """Integers as indices into a vocabulary, or indices as integers, if `invert`.

    Set the vocabulary here, by `adapt`, or by `set_vocabulary`.

    Args:
        max_tokens: Maximum size of the vocabulary, including special tokens; unlimited by default.
        num_oov_indices: Number of indices for tokens outside of the vocabulary, which are hashed to them.
        mask_token: Token that masks an element; it gets index 0.
        oov_token: Token returned for unknown indices if `invert`.
        vocabulary: List of integers, or the path of a file with one per line.
        vocabulary_dtype: Type of the tokens.
        idf_weights: Inverse document frequencies of the tokens, for `output_mode="tf_idf"`.
        invert: Whether to map indices to tokens.
        output_mode: `"int"` for indices, or rows: `"one_hot"`, `"multi_hot"`, `"count"` or `"tf_idf"`.
        sparse: Whether to return a SparseTensor.
        pad_to_max_tokens: Whether rows have `max_tokens` columns even if the vocabulary is smaller.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    def __init__(self, max_tokens: int | None = None, num_oov_indices: int = 1, mask_token: Any = None, oov_token: int = -1,
                 vocabulary: Any = None, vocabulary_dtype: Any = "int64", idf_weights: Any = None, invert: bool = False,
                 output_mode: str = "int", sparse: bool = False, pad_to_max_tokens: bool = False, **kwargs: Any):
        super().__init__(max_tokens, num_oov_indices, mask_token, oov_token, vocabulary, vocabulary_dtype, idf_weights, invert,
                         output_mode, sparse, pad_to_max_tokens, **kwargs)
