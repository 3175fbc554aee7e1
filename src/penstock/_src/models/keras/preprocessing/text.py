"""Text as numbers: words, hashed words, and Tokenizer, which learns a vocabulary."""
from __future__ import annotations

import collections
import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base.api import export

FILTERS = "!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n"


@export("keras.preprocessing.text.text_to_word_sequence")
def text_to_word_sequence(text: str, filters: str = FILTERS, lower: bool = True, split: str = " ") -> list[str]:
    """The words of a text.

    >>> tf.keras.preprocessing.text.text_to_word_sequence("Hello, world!")
    ['hello', 'world']
    """
    text = text.lower() if lower else text
    return [w for w in text.translate({ord(c): split for c in filters}).split(split) if w]


@export("keras.preprocessing.text.hashing_trick")
def hashing_trick(text: str, n: int, hash_function: Any = None, filters: str = FILTERS, lower: bool = True,
                  split: str = " ") -> list[int]:
    """The words of a text as numbers 1 … n - 1, by a hash: Python's own, `md5`, or a function."""
    def md5(w: str) -> int:
        return int(hashlib.md5(w.encode(), usedforsecurity=False).hexdigest(), 16)
    chosen: Callable = hash if hash_function is None else md5 if hash_function == "md5" else hash_function
    return [chosen(w) % (n - 1) + 1 for w in text_to_word_sequence(text, filters, lower, split)]


@export("keras.preprocessing.text.one_hot")
def one_hot(text: str, n: int, filters: str = FILTERS, lower: bool = True, split: str = " ") -> list[int]:
    """The words of a text as numbers 1 … n - 1, by Python's hash."""
    return hashing_trick(text, n, None, filters, lower, split)


@export("keras.preprocessing.text.Tokenizer")
class Tokenizer:
    """Learns a vocabulary from texts, and returns texts as sequences of numbers or rows of a matrix.

    Args:
        num_words: The largest number of words, by frequency, that is used; all by default.
        filters: Characters that are removed.
        lower: Whether texts are converted to lower case.
        split: What separates words.
        char_level: Whether every character is a word.
        oov_token: The word that stands for unknown words; by default they are left out.
        document_count: How many texts were read before, for a vocabulary that is restored.
        **kwargs: `analyzer`, a function that divides a text into words.

    >>> t = tf.keras.preprocessing.text.Tokenizer(num_words=100)
    >>> t.fit_on_texts(["the cat sat", "the dog"])
    >>> t.texts_to_sequences(["the cat"])
    [[1, 2]]
    """

    def __init__(self, num_words: int | None = None, filters: str = FILTERS, lower: bool = True, split: str = " ",
                 char_level: bool = False, oov_token: str | None = None, document_count: int = 0, **kwargs: Any):
        kwargs.pop("nb_words", None)
        if kwargs:
            raise TypeError(f"Unrecognized keyword arguments: {kwargs}")
        self.num_words, self.filters, self.split, self.lower = num_words, filters, split, lower
        self.char_level, self.oov_token, self.document_count = char_level, oov_token, document_count
        self.word_counts: dict[str, int] = collections.OrderedDict()
        self.word_docs: dict[str, int] = collections.defaultdict(int)
        self.index_docs: dict[int, int] = collections.defaultdict(int)
        self.word_index: dict[str, int] = {}
        self.index_word: dict[int, str] = {}

    def _words(self, text: Any) -> list[str]:
        if not (self.char_level or isinstance(text, list)):
            return text_to_word_sequence(text, self.filters, self.lower, self.split)
        if not self.lower:
            return list(text)
        return [w.lower() for w in text] if isinstance(text, list) else list(text.lower())

    def fit_on_texts(self, texts: Any) -> None:
        """Learns the words of texts; the most frequent gets the smallest number."""
        for text in texts:
            self.document_count += 1
            words = self._words(text)
            for w in words:
                self.word_counts[w] = self.word_counts.get(w, 0) + 1
            for w in set(words):
                self.word_docs[w] += 1
        ranked = [w for w, _ in sorted(self.word_counts.items(), key=lambda wc: wc[1], reverse=True)]
        ranked = ranked if self.oov_token is None else [self.oov_token, *ranked]
        self.word_index = {w: i for i, w in enumerate(ranked, 1)}
        self.index_word = {i: w for w, i in self.word_index.items()}
        for w, count in self.word_docs.items():
            self.index_docs[self.word_index[w]] = count

    def fit_on_sequences(self, sequences: Any) -> None:
        """Learns how many sequences a number is in; needed for tf-idf, if `fit_on_texts` was not used."""
        self.document_count += len(sequences)
        for seq in sequences:
            for i in set(seq):
                self.index_docs[i] += 1

    def texts_to_sequences(self, texts: Any) -> list[list[int]]:
        """Texts as sequences of numbers; unknown words are left out, or are `oov_token`."""
        return list(self.texts_to_sequences_generator(texts))

    def texts_to_sequences_generator(self, texts: Any) -> Any:
        """The sequence of each text, one by one."""
        unknown = self.word_index.get(self.oov_token) if self.oov_token is not None else None
        for text in texts:
            made = []
            for w in self._words(text):
                i = self.word_index.get(w)
                if i is None or (self.num_words and i >= self.num_words):
                    i = unknown
                if i is not None:
                    made.append(i)
            yield made

    def sequences_to_texts(self, sequences: Any) -> list[str]:
        """Sequences of numbers as texts."""
        return list(self.sequences_to_texts_generator(sequences))

    def sequences_to_texts_generator(self, sequences: Any) -> Any:
        """The text of each sequence, one by one."""
        unknown = None if self.oov_token is None else self.oov_token
        for seq in sequences:
            words = []
            for i in seq:
                w = self.index_word.get(i)
                w = unknown if w is None or (self.num_words and i >= self.num_words) else w
                if w is not None:
                    words.append(w)
            yield " ".join(words)

    def texts_to_matrix(self, texts: Any, mode: str = "binary") -> np.ndarray:
        """Texts as rows of a matrix with a column per word."""
        return self.sequences_to_matrix(self.texts_to_sequences(texts), mode)

    def sequences_to_matrix(self, sequences: Any, mode: str = "binary") -> np.ndarray:
        """Sequences as rows of a matrix with a column per number: `binary`, `count`, `freq` or `tfidf`."""
        if not self.num_words and not self.word_index:
            raise ValueError("Pass `num_words`, or call `fit_on_texts` first.")
        if mode == "tfidf" and not self.document_count:
            raise ValueError("Mode tfidf needs a Tokenizer that was fitted on texts.")
        if mode not in ("binary", "count", "freq", "tfidf"):
            raise ValueError(f"Unknown vectorization mode: {mode}")
        columns = self.num_words or len(self.word_index) + 1
        made = np.zeros((len(sequences), columns))
        for row, seq in zip(made, sequences, strict=True):
            counts = collections.Counter(i for i in seq if i < columns)
            if not counts:
                continue
            at, c = np.array(list(counts)), np.array(list(counts.values()), dtype=float)
            if mode == "binary":
                row[at] = 1
            elif mode == "count":
                row[at] = c
            elif mode == "freq":
                row[at] = c / len(seq)
            else:
                docs = np.array([self.index_docs.get(i, 0) for i in at])
                row[at] = (1 + np.log(c)) * np.log(1 + self.document_count / (1 + docs))
        return made

    def get_config(self) -> dict[str, Any]:
        """The arguments and the vocabulary, as values for JSON."""
        return {"num_words": self.num_words, "filters": self.filters, "lower": self.lower, "split": self.split,
                "char_level": self.char_level, "oov_token": self.oov_token, "document_count": self.document_count,
                "word_counts": json.dumps(self.word_counts), "word_docs": json.dumps(self.word_docs),
                "index_docs": json.dumps(self.index_docs), "index_word": json.dumps(self.index_word),
                "word_index": json.dumps(self.word_index)}

    def to_json(self, **kwargs: Any) -> str:
        """The tokenizer as JSON."""
        return json.dumps({"class_name": type(self).__name__, "config": self.get_config()}, **kwargs)


@export("keras.preprocessing.text.tokenizer_from_json")
def tokenizer_from_json(json_string: str) -> Tokenizer:
    """The tokenizer that `to_json` wrote."""
    config = json.loads(json_string)["config"]
    learned = {n: json.loads(config.pop(n)) for n in ("word_counts", "word_docs", "index_docs", "index_word", "word_index")}
    made = Tokenizer(**config)
    for name, value in learned.items():
        number = name.startswith("index")
        setattr(made, name, {int(k): v for k, v in value.items()} if number else value)
    return made
