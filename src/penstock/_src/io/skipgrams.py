"""Pairs of words near each other in a text, for word2vec."""
from __future__ import annotations

import collections
import threading

import numpy as np

from penstock._src.base import errors
from penstock._src.io import paths

_SENTENCE = 1000                # size of the window of words


class SkipGrams:
    """An endless stream of (word, neighbour) pairs of a text, as numbers of words; 0 is for words that are rare."""

    def __init__(self, filename: str, window: int, min_count: int, subsample: float):
        words = paths.read_bytes(filename).split()
        if len(words) < window * 10:
            raise errors.invalid(f"The text file {filename} contains too little data: {len(words)} words")
        counts = collections.Counter(words).most_common()
        known = [(w, n) for w, n in counts if n >= min_count]
        self.words = np.array([b"UNK", *(w for w, _ in known)], object)
        frequent = [n for _, n in known]
        self.counts = np.array([len(words) - sum(frequent), *frequent], np.int32)
        number = {w: k for k, (w, _) in enumerate(known, 1)}
        self.text = np.fromiter((number.get(w, 0) for w in words), np.int32, len(words))
        self.window, self.epoch, self.processed = window, -1, 0
        self._keep = self._chances(subsample)
        self._random, self._lock = np.random.default_rng(), threading.Lock()
        self._place, self._pairs = len(words), np.zeros((3, 0), np.int32)

    def _chances(self, subsample: float) -> np.ndarray:
        """How often a word is kept: frequent ones less often (equation 5 of https://arxiv.org/abs/1310.4546)."""
        if subsample <= 0:
            return np.ones(len(self.counts))
        limit, counts = subsample * len(self.text), np.maximum(self.counts, 1)
        return (np.sqrt(counts / limit) + 1) * limit / counts

    def take(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The next pairs."""
        with self._lock:
            while self._pairs.shape[1] < size:
                self._pairs = np.concatenate([self._pairs, self._sentence()], 1)
            taken, self._pairs = self._pairs[:, :size], self._pairs[:, size:]
            self.processed += int(taken[2].sum())
            return taken[0], taken[1]

    def _sentence(self) -> np.ndarray:
        """Words and neighbours of the next words of the text; the third row is 1 at the first pair of each word."""
        parts: list[np.ndarray] = []
        while sum(map(len, parts)) < _SENTENCE:
            if self._place >= len(self.text):
                self._place, self.epoch = 0, self.epoch + 1
            some = self.text[self._place:self._place + _SENTENCE]
            self._place += len(some)
            parts.append(some[self._random.random(len(some)) < self._keep[some]])
        text = np.concatenate(parts)
        reach = self._random.integers(1, self.window + 1, len(text))
        shifts = np.concatenate([np.arange(-self.window, 0), np.arange(1, self.window + 1)])
        other = np.arange(len(text))[:, None] + shifts
        inside = (np.abs(shifts) <= reach[:, None]) & (other >= 0) & (other < len(text))
        at, shift = np.nonzero(inside)
        first = np.append(True, at[1:] != at[:-1])
        return np.stack([text[at], text[other[at, shift]], first]).astype(np.int32)
