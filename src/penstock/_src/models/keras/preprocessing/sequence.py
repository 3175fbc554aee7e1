"""Sequences of different lengths: padding, skip-grams, windows of time series."""
from __future__ import annotations

import json
import random
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.models.keras.utils.data_utils import Sequence


@export("keras.preprocessing.sequence.pad_sequences", v2=["keras.utils.pad_sequences"])
def pad_sequences(sequences: Any, maxlen: int | None = None, dtype: Any = "int32", padding: str = "pre",
                  truncating: str = "pre", value: Any = 0.0) -> np.ndarray:
    """Sequences as rows of one array, truncated or padded to `maxlen`, at the beginning or at the end.

    Args:
        sequences: List of lists.
        maxlen: Length of the rows; by default that of the longest sequence.
        dtype: Type of the array.
        padding: `"pre"` or `"post"`: where shorter sequences are filled.
        truncating: `"pre"` or `"post"`: where longer sequences are cut.
        value: What they are filled with.

    Returns:
        An array [sequences, maxlen].

    Raises:
        ValueError: if an entry is not a sequence.

    >>> tf.keras.preprocessing.sequence.pad_sequences([[1], [2, 3]])
    array([[0, 1],
           [2, 3]], dtype=int32)
    """
    if not hasattr(sequences, "__len__"):
        raise ValueError("`sequences` must be iterable.")
    for s in sequences:
        if not hasattr(s, "__len__"):
            raise ValueError(f"`sequences` must be a list of iterables. Found non-iterable: {s}")
    for name, given in (("Truncating", truncating), ("Padding", padding)):
        if given not in ("pre", "post"):
            raise ValueError(f"{name} type \"{given}\" not understood")
    longest = max((len(s) for s in sequences), default=0)
    maxlen = longest if maxlen is None else maxlen
    element: tuple = next((np.asarray(s).shape[1:] for s in sequences if len(s)), ())
    if isinstance(value, str) and not np.issubdtype(dtype, np.str_) and np.dtype(dtype).kind != "O":
        raise ValueError(f"`dtype` {dtype} is not compatible with `value`'s type: {type(value)}\nYou should set `dtype=object` "
                         "for variable length strings.")
    made = np.full((len(sequences), maxlen, *element), value, dtype=dtype)
    for row, s in zip(made, sequences, strict=True):
        if not len(s) or not maxlen:
            continue
        kept = np.asarray(s[-maxlen:] if truncating == "pre" else s[:maxlen], dtype=dtype)
        if kept.shape[1:] != element:
            raise ValueError(f"Shape of sample {kept.shape[1:]} of sequence is different from expected shape {element}")
        row[slice(None, len(kept)) if padding == "post" else slice(maxlen - len(kept), None)] = kept
    return made


@export("keras.preprocessing.sequence.make_sampling_table")
def make_sampling_table(size: int, sampling_factor: float = 1e-5) -> np.ndarray:
    """How likely a word is kept, by its rank, if frequencies follow Zipf's law: frequent words are seen often enough."""
    gamma = 0.577
    rank = np.arange(size)
    rank[0] = 1
    inverse = rank * (np.log(rank) + gamma) + 0.5 - 1.0 / (12.0 * rank)
    f = sampling_factor * inverse
    return np.minimum(1.0, f / np.sqrt(f))


@export("keras.preprocessing.sequence.skipgrams")
def skipgrams(sequence: Any, vocabulary_size: int, window_size: int = 4, negative_samples: float = 1.0, shuffle: bool = True,
              categorical: bool = False, sampling_table: Any = None, seed: int | None = None) -> tuple[list, list]:
    """Pairs of a word and one near it (label 1), and of a word and a random one (label 0)."""
    couples, labels = [], []
    for i, word in enumerate(sequence):
        if not word or (sampling_table is not None and sampling_table[word] < random.random()):
            continue
        for j in range(max(0, i - window_size), min(len(sequence), i + window_size + 1)):
            if j != i and sequence[j]:
                couples.append([word, sequence[j]])
                labels.append([0, 1] if categorical else 1)
    if negative_samples > 0:
        words = [c[0] for c in couples]
        random.shuffle(words)
        number = int(len(labels) * negative_samples)
        couples += [[words[i % len(words)], random.randint(1, vocabulary_size - 1)] for i in range(number)]
        labels += [[1, 0] if categorical else 0] * number
    if shuffle:
        seed = random.randint(0, 10**7) if seed is None else seed
        for items in (couples, labels):
            random.Random(seed).shuffle(items)
    return couples, labels


def _remove_long_seq(maxlen: int, seq: Any, label: Any) -> tuple[list, list]:
    """The sequences, and their labels, that are shorter than `maxlen`."""
    kept = [(s, y) for s, y in zip(seq, label, strict=True) if len(s) < maxlen]
    return [s for s, _ in kept], [y for _, y in kept]


@export("keras.preprocessing.sequence.TimeseriesGenerator")
class TimeseriesGenerator(Sequence):
    """Batches of windows of a time series, each with the target that follows it.

    >>> tf.keras.preprocessing.sequence.TimeseriesGenerator(data, targets, length=10, batch_size=2)[0]
    """

    def __init__(self, data: Any, targets: Any, length: int, sampling_rate: int = 1, stride: int = 1, start_index: int = 0,
                 end_index: int | None = None, shuffle: bool = False, reverse: bool = False, batch_size: int = 128):
        super().__init__()
        if len(data) != len(targets):
            raise ValueError(f"Data and targets have to be of same length. Data length is {len(data)} while target length is "
                             f"{len(targets)}")
        self.data, self.targets, self.length, self.sampling_rate, self.stride = data, targets, length, sampling_rate, stride
        self.start_index = start_index + length
        self.end_index = len(data) - 1 if end_index is None else end_index
        self.shuffle, self.reverse, self.batch_size = shuffle, reverse, batch_size
        if self.start_index > self.end_index:
            raise ValueError(f"`start_index+length={self.start_index} > end_index={self.end_index}` is disallowed, as no part "
                             "of the sequence would be left to be used as current step.")

    def __len__(self) -> int:
        return (self.end_index - self.start_index + self.batch_size * self.stride) // (self.batch_size * self.stride)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        if self.shuffle:
            rows = np.random.randint(self.start_index, self.end_index + 1, size=self.batch_size)
        else:
            first = self.start_index + self.batch_size * self.stride * index
            rows = np.arange(first, min(first + self.batch_size * self.stride, self.end_index + 1), self.stride)
        samples = np.array([self.data[r - self.length:r:self.sampling_rate] for r in rows])
        targets = np.array([self.targets[r] for r in rows])
        return (samples[:, ::-1, ...] if self.reverse else samples), targets

    def get_config(self) -> dict[str, Any]:
        """The arguments, as values for JSON."""
        def plain(x: Any) -> Any:
            return json.dumps(x.tolist() if isinstance(x, np.ndarray) else x)
        return {"data": plain(self.data), "targets": plain(self.targets), "length": self.length,
                "sampling_rate": self.sampling_rate, "stride": self.stride, "start_index": self.start_index,
                "end_index": self.end_index, "shuffle": self.shuffle, "reverse": self.reverse, "batch_size": self.batch_size}

    def to_json(self, **kwargs: Any) -> str:
        """The generator as JSON."""
        return json.dumps({"class_name": type(self).__name__, "config": self.get_config()}, **kwargs)
