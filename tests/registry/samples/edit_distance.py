"""Samples of edit distances."""
import numpy as np

from tests.registry.sample import s, sample

WORDS = (np.array([[0, 0, 0], [1, 0, 0]], np.int64), s("a", "b"), np.array([2, 1, 1], np.int64),
         np.array([[0, 1, 0], [1, 0, 0], [1, 0, 1], [1, 1, 0]], np.int64), s("a", "b", "c", "a"),
         np.array([2, 2, 2], np.int64))


def letters(word):
    return np.array([[0, j] for j in range(len(word))], np.int64), np.array([ord(c) for c in word], np.int32), \
        np.array([1, len(word)], np.int64)


sample("EditDistance", *WORDS)
sample("EditDistance", *WORDS, normalize=False)
sample("EditDistance", *letters("intention"), *letters("execution"), normalize=False,
       expect=lambda *_: np.array([5], np.float32))
