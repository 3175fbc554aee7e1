"""Changes of the element type."""
import numpy as np

import penstock.compat.v1 as tf
from tests.registry.sample import f, i, sample

sample("Cast", f(2, 3, low=-9, high=9), expect=lambda x: x.astype(np.int32), DstT=tf.int32)
sample("Cast", f(2, 3), expect=lambda x: x.astype(np.float64), DstT=tf.float64)
sample("Cast", f(2, 3), expect=lambda x: x.astype(np.float16), DstT=tf.half, grad=False)
sample("Cast", i(4, low=0, high=2), expect=lambda x: x.astype(bool), DstT=tf.bool)
sample("Cast", i(4, low=0), expect=lambda x: x.astype(np.uint64), DstT=tf.uint64)
sample("Cast", np.array([300, -5], np.int32), expect=lambda x: np.array([44, 251], np.uint8), DstT=tf.uint8)
sample("Cast", np.array([300.5, -5.5], np.float32), expect=lambda x: np.array([44, 251], np.uint8), DstT=tf.uint8)
sample("Cast", np.array([1 + 2j], np.complex64), expect=lambda x: np.array([1], np.float32), DstT=tf.float32)
sample("Cast", f(3), expect=lambda x: x.astype(np.complex64), DstT=tf.complex64, grad=False)
