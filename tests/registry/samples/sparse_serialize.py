"""Samples of serialized sparse tensors."""
import numpy as np

import penstock.compat.v1 as tf
from tests.registry.sample import f, i, s, sample

INDICES, SHAPE = np.array([[0, 1], [2, 0]], np.int64), np.array([3, 2], np.int64)


def written(array):
    return tf.make_tensor_proto(array).SerializeToString()


for _values in (f(2), i(2), s("a", "b")):
    sample("SerializeSparse", INDICES, _values, SHAPE)
    sample("SerializeManySparse", INDICES, _values, SHAPE)
_ROW = [written(INDICES), written(np.array([1.5, 2.5], np.float32)), written(SHAPE)]
sample("DeserializeSparse", s(*_ROW), dtype=tf.float32, expect=lambda _: (INDICES, np.array([1.5, 2.5]), SHAPE))
sample("DeserializeSparse", s(*_ROW, *_ROW).reshape(2, 1, 3), dtype=tf.float32)
sample("DeserializeManySparse", s(*_ROW, *_ROW).reshape(2, 3), dtype=tf.float32)
