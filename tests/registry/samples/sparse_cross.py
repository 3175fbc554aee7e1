"""Samples of feature crosses."""
import numpy as np

import penstock.compat.v1 as tf
from tests.registry.sample import i, s, sample

INDICES, SHAPE = np.array([[0, 0], [0, 1], [2, 0]], np.int64), np.array([3, 2], np.int64)
WORDS, NUMBERS = s("a", "bb", "c" * 40), np.array([5, -3, 2**40], np.int64)

for _kinds in ((WORDS, s(*"abcdef").reshape(3, 2)), (NUMBERS, i(3, 2, dtype=np.int64))):
    _internal = tf.string if _kinds[0] is WORDS else tf.int64
    for _hashed, _buckets in ((False, 0), (True, 0), (True, 100)):
        sample("SparseCross", [INDICES], [_kinds[0]], [SHAPE], [_kinds[1]], hashed_output=_hashed, num_buckets=_buckets,
               hash_key=956888297470, out_type=tf.int64 if _hashed else tf.string, internal_type=_internal)
sample("SparseCross", [INDICES, INDICES[[0, 2]]], [WORDS, NUMBERS[:2]], [SHAPE, SHAPE], [], hashed_output=True, num_buckets=0,
       hash_key=17, out_type=tf.int64, internal_type=tf.int64)
