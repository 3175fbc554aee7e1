"""Samples of reversing and rolling."""
import numpy as np

from tests.registry.sample import f, s, sample

sample("Reverse", f(2, 3), np.array([True, False]), expect=lambda x, d: x[::-1])
sample("ReverseV2", f(2, 3), np.array([-1], np.int32), expect=lambda x, a: x[:, ::-1])
sample("ReverseV2", s("a", "b"), np.array([0], np.int32), expect=lambda x, a: x[::-1])
sample("ReverseSequence", f(2, 4, 3), np.array([3, 2], np.int64), seq_dim=1)
sample("ReverseSequence", f(4, 2), np.array([3, 0], np.int32), seq_dim=0, batch_dim=1)
sample("Roll", f(3, 4), np.array([1, -2], np.int32), np.array([0, 1], np.int32),
       expect=lambda x, n, a: np.roll(x, n, a))
sample("Roll", f(3, 4), np.int32(5), np.int32(1), expect=np.roll)
