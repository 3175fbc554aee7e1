"""Text to numbers: vocabularies, and the processor that makes and applies one."""
from __future__ import annotations

import collections
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock.compat import v1 as tf

_TOKENS = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+", re.UNICODE)


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.learn.preprocessing.{name}", f"contrib.learn.python.learn.preprocessing.{name}"])


@_export("tokenizer")
def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """The words of each text."""
    for value in iterator:
        yield _TOKENS.findall(value)


@_export("CategoricalVocabulary")
class CategoricalVocabulary:
    """Numbers for categories, in the order in which they come; 0 is for unknown ones."""

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True):
        self._unknown_token, self._support_reverse = unknown_token, support_reverse
        self._mapping: dict[Any, int] = {unknown_token: 0}
        self._reverse_mapping = [unknown_token]
        self._freq: dict[Any, int] = collections.defaultdict(int)
        self._freeze = False

    def __len__(self) -> int:
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """Freezes the vocabulary: new categories are not added."""
        self._freeze = freeze

    def get(self, category: Any) -> int:
        """The number of a category; a new one, unless frozen."""
        if category not in self._mapping:
            if self._freeze:
                return 0
            self._mapping[category] = len(self._mapping)
            if self._support_reverse:
                self._reverse_mapping.append(category)
        return self._mapping[category]

    def add(self, category: Any, count: int = 1) -> None:
        """Counts a category."""
        if self.get(category) > 0:
            self._freq[category] += count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Removes rare and, if requested, frequent categories; the others are renumbered, frequent ones first."""
        ranked = sorted(sorted(self._freq.items(), key=lambda x: (isinstance(x[0], str), x[0])), key=lambda x: x[1],
                        reverse=True)
        self._mapping, kept = {self._unknown_token: 0}, [self._unknown_token]
        for category, count in ranked:
            if count <= min_frequency and max_frequency < 0:
                break
            if max_frequency > 0 and count >= max_frequency:
                continue
            if count <= min_frequency:
                break
            self._mapping[category] = len(kept)
            kept.append(category)
        self._freq = collections.defaultdict(int, {c: n for c, n in ranked if c in self._mapping})
        if self._support_reverse:
            self._reverse_mapping = kept

    def reverse(self, class_id: int) -> Any:
        """The category of a number."""
        if not self._support_reverse:
            raise ValueError("This vocabulary wasn't initialized with support_reverse to support reverse() function.")
        return self._reverse_mapping[class_id]


@_export("VocabularyProcessor")
class VocabularyProcessor:
    """Turns texts into rows of numbers of words, `max_document_length` long, and learns the vocabulary from them.

    Args:
        max_document_length: Length of the rows; longer texts are cut, shorter ones end with zeros.
        min_frequency: Words that are rarer become unknown.
        vocabulary: A vocabulary to use instead of an empty one.
        tokenizer_fn: Function of texts that yields lists of words.

    >>> processor = tf.contrib.learn.preprocessing.VocabularyProcessor(4)
    >>> [row.tolist() for row in processor.fit_transform(["a small cat", "a cat"])]
    [[1, 2, 3, 0], [1, 3, 0, 0]]
    """

    def __init__(self, max_document_length: int, min_frequency: int = 0, vocabulary: Any = None,
                 tokenizer_fn: Callable | None = None):
        self.max_document_length, self.min_frequency = max_document_length, min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> VocabularyProcessor:
        """Learns the vocabulary."""
        for tokens in self._tokenizer(raw_documents):
            for token in tokens:
                self.vocabulary_.add(token)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents: Any, unused_y: Any = None) -> Iterator[np.ndarray]:
        """Learns the vocabulary, then returns the rows."""
        raw_documents = list(raw_documents)
        self.fit(raw_documents)
        return self.transform(raw_documents)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[np.ndarray]:
        """A row of numbers for each text, with zeros at the end."""
        for tokens in self._tokenizer(raw_documents):
            row = np.zeros(self.max_document_length, np.int64)
            for i, token in enumerate(tokens[:self.max_document_length]):
                row[i] = self.vocabulary_.get(token)
            yield row

    def reverse(self, documents: Iterable[Any]) -> Iterator[str]:
        """The words of rows, with blanks between them."""
        for row in documents:
            yield " ".join(self.vocabulary_.reverse(int(i)) for i in row)

    def save(self, filename: str) -> None:
        """Writes the vocabulary as JSON."""
        v = self.vocabulary_
        state = {"max_document_length": self.max_document_length, "min_frequency": self.min_frequency,
                 "words": v._reverse_mapping, "counts": [v._freq.get(w, 0) for w in v._reverse_mapping]}
        with tf.gfile.Open(filename, "w") as f:
            f.write(json.dumps(state))

    @classmethod
    def restore(cls, filename: str) -> VocabularyProcessor:
        """A processor with a vocabulary that `save` wrote.

        Args:
            filename: File that `save` wrote.

        Returns:
            A VocabularyProcessor.

        >>> VocabularyProcessor = tf.contrib.learn.preprocessing.VocabularyProcessor
        >>> processor = VocabularyProcessor(4)
        >>> _ = list(processor.fit_transform(["a small cat"]))
        >>> processor.save("words")
        >>> [row.tolist() for row in VocabularyProcessor.restore("words").transform(["a cat"])]
        [[1, 3, 0, 0]]
        """
        with tf.gfile.Open(filename, "r") as f:
            state = json.loads(f.read())
        made = cls(state["max_document_length"], state["min_frequency"])
        v = made.vocabulary_
        v._reverse_mapping = state["words"]
        v._mapping = {w: i for i, w in enumerate(state["words"])}
        v._freq.update({w: n for w, n in zip(state["words"], state["counts"], strict=True) if n})
        v.freeze()
        return made
