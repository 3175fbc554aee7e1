"""Pairs of sentences of SNLI, as numbers of words and as shift and reduce steps of their parse trees."""
from __future__ import annotations

import glob
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np

POSSIBLE_LABELS = ("entailment", "contradiction", "neutral")
UNK_CODE, PAD_CODE, REDUCE_CODE, SHIFT_CODE = range(4)
WORD_VECTOR_LEN = 300
PARENTHESES = LEFT_PAREN, RIGHT_PAREN = ("(", ")")


def get_non_parenthesis_words(items: Any) -> list[str]:
    """The words among the items of a parse, in small letters."""
    return [item.lower() for item in items if item and item not in PARENTHESES]


def get_shift_reduce(items: Any) -> list[int]:
    """A shift for each word, a reduce for each closing parenthesis."""
    return [REDUCE_CODE if item == RIGHT_PAREN else SHIFT_CODE for item in items if item != LEFT_PAREN]


def _padded(rows: Any) -> np.ndarray:
    width = max(map(len, rows))
    return np.array([[*row, *[PAD_CODE] * (width - len(row))] for row in rows], np.int64)


def pad_and_reverse_word_ids(sentences: Any) -> np.ndarray:
    """Sentences of one length, last word first, behind a column of padding."""
    words = _padded(sentences)[:, ::-1]
    return np.concatenate([np.full([len(words), 1], PAD_CODE), words], axis=1)


def pad_transitions(sentences_transitions: Any) -> np.ndarray:
    """Steps of several sentences, of one length."""
    return _padded(sentences_transitions)


def load_vocabulary(data_root: str) -> set[str]:
    """The words of the SNLI files below a folder."""
    pattern = os.path.join(data_root, "snli", "snli_1.0", "snli_1.0_*.txt")
    files = glob.glob(pattern)
    if not files:
        raise ValueError(f"Cannot find SNLI data files at {pattern}. Please download and extract SNLI data first.")
    return {word for file in files for row in _rows(file) for parse in row[1:3] for word in
            get_non_parenthesis_words(parse.split(" "))}


def _rows(path: str) -> list[list[str]]:
    with open(path) as file:
        return [line.rstrip("\n").split("\t") for line in file.readlines()[1:]]


def load_word_vectors(data_root: str, vocab: Any) -> tuple[dict[str, int], np.ndarray]:
    """Numbers of words and their GloVe vectors; two of them, for unknown words and padding, are zeros."""
    path = os.path.join(data_root, "glove", "glove.42B.300d.txt")
    if not os.path.isfile(path):
        raise ValueError(f"Cannot find GloVe embedding file at {path}. Please download and extract GloVe embeddings first.")
    numbers = {"<unk>": UNK_CODE, "<pad>": PAD_CODE}
    vectors = [np.zeros(WORD_VECTOR_LEN, np.float32)] * 2
    with open(path) as file:
        for line in file:
            word, *values = line.split(" ")
            if word in vocab and word not in numbers:
                if len(values) != WORD_VECTOR_LEN:
                    raise ValueError(f"{path}: {len(values)} numbers for {word!r}, not {WORD_VECTOR_LEN}")
                numbers[word] = len(vectors)
                vectors.append(np.array(values, np.float32))
    return numbers, np.stack(vectors)


def encode_sentence(sentence: str, word2index: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """A parsed sentence as a column of words and a column of steps."""
    items = sentence.split()
    words = [word2index.get(word, UNK_CODE) for word in get_non_parenthesis_words(items)]
    return pad_and_reverse_word_ids([words]).T, np.array(get_shift_reduce(items), np.int64)[:, np.newaxis]


class SnliData:
    """A file of SNLI: labels (1 to 3), premises and hypotheses; longer sentences than a limit are left out."""

    def __init__(self, data_file: str, word2index: dict[str, int], sentence_len_limit: int = -1):
        self._items = []
        for row in _rows(data_file):
            parses = [parse.split(" ") for parse in row[1:3]]
            words = [get_non_parenthesis_words(items) for items in parses]
            if row[0] not in POSSIBLE_LABELS or 0 < sentence_len_limit < max(map(len, words)):
                continue
            sides = [([word2index.get(w, UNK_CODE) for w in side], get_shift_reduce(items))
                     for side, items in zip(words, parses)]
            if any(len(steps) != 2 * len(numbers) - 1 for numbers, steps in sides):
                raise ValueError(f"{data_file}: not a binary tree: {row[1]!r} or {row[2]!r}")
            self._items.append((POSSIBLE_LABELS.index(row[0]) + 1, *sides[0], *sides[1]))

    def num_batches(self, batch_size: int) -> int:
        """How many batches there are, the last one perhaps smaller."""
        return -(-len(self._items) // batch_size)

    def get_generator(self, batch_size: int) -> Callable:
        """A function that returns batches: labels; premises, their steps, hypotheses, theirs, with time first. Sentences of
        like lengths are together."""
        items = random.sample(self._items, len(self._items))
        items.sort(key=lambda item: max(len(item[1]), len(item[3])))

        def batches() -> Any:
            for begin in range(0, len(items), batch_size):
                labels, *columns = zip(*items[begin:begin + batch_size])
                shapes = (pad_and_reverse_word_ids, pad_transitions) * 2
                yield (labels, *(shape(column).T for shape, column in zip(shapes, columns)))
        return batches
