"""Samples of broadcasting."""
import numpy as np

from tests.registry.sample import f, s, sample

sample("BroadcastTo", f(3, 1), np.array([2, 3, 4], np.int32), expect=lambda x, d: np.broadcast_to(x, d))
sample("BroadcastTo", s("a"), np.array([3], np.int32), expect=lambda x, d: np.broadcast_to(x, d))
sample("BroadcastArgs", np.array([2, 1], np.int32), np.array([5, 1, 3], np.int32),
       expect=lambda a, b: np.array([5, 2, 3], np.int32))
