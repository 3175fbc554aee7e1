"""TextVectorization: lines of text as indices of their words, or as bags of words."""
from __future__ import annotations

from typing import Any

import numpy as np

import penstock
from penstock._src.base.api import export
from penstock._src.models.keras.layers.parts import dims_of
from penstock._src.models.keras.layers.preprocessing.base import PreprocessingLayer, names
from penstock._src.models.keras.layers.preprocessing.lookup import StringLookup
from penstock.compat import v1 as tf

_PUNCTUATION = r'[!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']'
_STANDARDIZE = ("lower_and_strip_punctuation", "lower", "strip_punctuation", None)
_SPLIT = ("whitespace", "character", None)


@export(*names("TextVectorization"))
class TextVectorization(PreprocessingLayer):
    """Text made lower case, split into words (and n-grams), and looked up in a vocabulary.

    Inputs are strings [batch] or [batch, 1]. Set the vocabulary here or by `adapt`.

    Args:
        max_tokens: Maximum size of the vocabulary, including special tokens; unlimited by default.
        standardize: `"lower_and_strip_punctuation"`, `"lower"`, `"strip_punctuation"`, a function, or None.
        split: `"whitespace"`, `"character"`, a function, or None.
        ngrams: Maximum length of n-grams, or a tuple of lengths.
        output_mode: `"int"` for indices, or rows: `"one_hot"`, `"multi_hot"`, `"count"` or `"tf_idf"`.
        output_sequence_length: Length to which indices are padded or truncated.
        pad_to_max_tokens: Whether rows have `max_tokens` columns even if the vocabulary is smaller.
        vocabulary: List of words, or the path of a file with one per line.
        idf_weights: Inverse document frequencies of the tokens, for `output_mode="tf_idf"`.
        sparse: Whether to return a SparseTensor.
        ragged: Whether to return indices as a RaggedTensor.
        encoding: Encoding of the strings.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> layer = tf.keras.layers.TextVectorization(output_sequence_length=4)
    >>> layer.adapt(["the cat", "the dog sat"])
    >>> layer(tf.constant(["the cat sat"]))
    """

    def __init__(self, max_tokens: int | None = None, standardize: Any = "lower_and_strip_punctuation",
                 split: Any = "whitespace",
                 ngrams: Any = None, output_mode: str = "int", output_sequence_length: int | None = None,
                 pad_to_max_tokens: bool = False, vocabulary: Any = None, idf_weights: Any = None, sparse: bool = False,
                 ragged: bool = False, encoding: str = "utf-8", **kwargs: Any):
        kwargs.pop("dtype", None)
        kwargs.pop("vocabulary_size", None)
        super().__init__(dtype="string", **kwargs)
        if standardize not in _STANDARDIZE and not callable(standardize):
            raise ValueError(f"Unsupported value for `standardize`: {standardize!r}; one of {_STANDARDIZE}, or a function, is "
                             "expected.")
        if split not in _SPLIT and not callable(split):
            raise ValueError(f"Unsupported value for `split`: {split!r}; one of {_SPLIT}, or a function, is expected.")
        if output_mode != "int" and output_sequence_length is not None:
            raise ValueError(f"`output_sequence_length` must not be set if `output_mode` is not 'int'. Got {output_mode!r}.")
        if ragged and output_mode != "int":
            raise ValueError(f"`ragged` must not be true if `output_mode` is not 'int'. Got {output_mode!r}.")
        if ragged and output_sequence_length is not None:
            raise ValueError(f"`output_sequence_length` must not be set if `ragged` is True. Got {output_sequence_length}.")
        self.standardize, self.split, self.ragged = standardize, split, ragged
        self.output_sequence_length = output_sequence_length
        self.ngrams = tuple(range(1, ngrams + 1)) if isinstance(ngrams, int) else None if ngrams is None else tuple(ngrams)
        self._ngrams_given = ngrams
        self.max_tokens, self.output_mode = max_tokens, output_mode
        self._lookup = StringLookup(max_tokens=max_tokens, mask_token="" if output_mode == "int" else None,
                                    vocabulary=vocabulary, idf_weights=idf_weights, output_mode=output_mode,
                                    pad_to_max_tokens=pad_to_max_tokens, sparse=sparse, encoding=encoding)

    # -- vocabularies -------------------------------------------------------------------------------------------------------
    def get_vocabulary(self, include_special_tokens: bool = True) -> list:
        """The words, in the order of their indices."""
        return self._lookup.get_vocabulary(include_special_tokens)

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Sets the words: a list, or the path of a file with one in each line."""
        self._lookup.set_vocabulary(vocabulary, idf_weights)

    def vocabulary_size(self) -> int:
        """The number of indices."""
        return self._lookup.vocabulary_size()

    def reset_state(self) -> None:
        """Resets the counts."""
        self._lookup.reset_state()

    def update_state(self, data: Any) -> None:
        """Counts the words of a batch of texts."""
        with tf.init_scope():
            words = self._words(tf.constant(np.asarray(data, object).ravel(), tf.string))
        rows = words.to_list() if isinstance(words, tf.RaggedTensor) else words.numpy().tolist()
        for row in rows:
            found = np.array([row if isinstance(row, list) else [row]], object)
            self._lookup.update_state(found) if found.size else None

    def finalize_state(self) -> None:
        """Makes the vocabulary of what was counted."""
        self._lookup.finalize_state()

    # -- calling ------------------------------------------------------------------------------------------------------------
    def _words(self, text: Any) -> Any:
        """The words (and n-grams) of each text, ragged."""
        if callable(self.standardize):
            text = self.standardize(text)
        else:
            if self.standardize in ("lower_and_strip_punctuation", "lower"):
                text = tf.strings.lower(text)
            if self.standardize in ("lower_and_strip_punctuation", "strip_punctuation"):
                text = tf.strings.regex_replace(text, _PUNCTUATION, "")
        if self.split is not None and len(text.shape) > 1:
            if text.shape[-1] not in (None, 1):
                raise ValueError("When using `TextVectorization` to tokenize strings, the input rank must be 1 or the last "
                                 f"shape dimension must be 1: one text per row. Received: inputs.shape={text.shape} with "
                                 f"rank={len(text.shape)}")
            text = tf.squeeze(text, axis=-1)
        if callable(self.split):
            text = self.split(text)
        elif self.split == "whitespace":
            text = penstock.strings.split(text)
        elif self.split == "character":
            text = penstock.strings.unicode_split(text, "UTF-8")
        return text if self.ngrams is None else penstock.strings.ngrams(text, ngram_width=self.ngrams, separator=" ")

    def call(self, inputs: Any) -> Any:
        """The indices of the words, or a row for each text."""
        if isinstance(inputs, (list, tuple, np.ndarray)):
            inputs = tf.convert_to_tensor(np.asarray(inputs, object), tf.string)
        words = self._words(inputs)
        if self.output_mode != "int":
            if isinstance(words, tf.RaggedTensor):
                return self._bags(words)
            return self._lookup(words)
        found = self._lookup(words)
        if self.ragged or not isinstance(found, tf.RaggedTensor):
            return found
        n = self.output_sequence_length
        return found.to_tensor(0, shape=None if n is None else [None] * (len(found.shape) - 1) + [n])

    def _bags(self, words: Any) -> Any:
        """Rows of how many of each word there are; the ends of shorter texts count nowhere."""
        self._lookup._check_columns()
        indices = words.with_flat_values(self._lookup._indices(words.flat_values))
        return self._lookup._rows(indices.to_tensor(-1))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """[batch, words], or [batch, indices]."""
        dims = dims_of(input_shape)
        if self.output_mode != "int":
            return tf.TensorShape([dims[0], self._lookup._depth()])
        return tf.TensorShape([dims[0], self.output_sequence_length])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        own = self._lookup.get_config()
        return {**super().get_config(), "max_tokens": self.max_tokens, "standardize": self.standardize, "split": self.split,
                "ngrams": self._ngrams_given, "output_mode": self.output_mode,
                "output_sequence_length": self.output_sequence_length, "pad_to_max_tokens": own["pad_to_max_tokens"],
                "sparse": own["sparse"], "ragged": self.ragged, "vocabulary": own["vocabulary"],
                "idf_weights": own["idf_weights"], "encoding": own["encoding"], "vocabulary_size": self.vocabulary_size()}
