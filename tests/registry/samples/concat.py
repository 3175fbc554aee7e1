"""Samples of joining and dividing tensors."""
import numpy as np

from tests.registry.sample import f, i, s, sample

ZERO, ONE = np.int32(0), np.int32(1)

sample("ConcatV2", [f(2, 3), f(1, 3)], ZERO, expect=lambda v, a: np.concatenate(v, a))
sample("ConcatV2", [f(2, 3), f(2, 0), f(2, 1)], np.int32(-1), expect=lambda v, a: np.concatenate(v, a))
sample("ConcatV2", [s("a"), s("b", "c")], ZERO, expect=lambda v, a: np.concatenate(v, a))
sample("Concat", ONE, [f(2, 3), f(2, 1)], expect=lambda a, v: np.concatenate(v, a))
sample("ConcatOffset", ONE, [i(3, low=2, high=3), i(3, low=2, high=3)],
       expect=lambda a, v: [np.zeros(3, np.int32), np.array([0, 2, 0], np.int32)])
sample("ParallelConcat", [f(1, 3), f(1, 3)], shape=[2, 3], expect=np.concatenate)
sample("Pack", [f(2, 3), f(2, 3)], axis=1, expect=lambda v: np.stack(v, 1))
sample("Pack", [np.int32(1), np.int32(2)], expect=lambda v: np.stack(v))
sample("Unpack", f(2, 3), num=3, axis=-1, expect=lambda x: [x[:, j] for j in range(3)])
sample("Unpack", s("a", "b"), num=2)
sample("Split", ONE, f(2, 4), num_split=2, expect=lambda a, x: np.split(x, 2, 1))
sample("SplitV", f(5, 2), np.array([1, -1, 2], np.int32), ZERO, num_split=3,
       expect=lambda x, n, a: [x[:1], x[1:3], x[3:]])
sample("Tile", f(2, 3), np.array([2, 2], np.int32), expect=np.tile)
sample("Tile", s("a", "b"), np.array([2], np.int32), expect=np.tile)
sample("TileGrad", f(4, 6), np.array([2, 3], np.int32), expect=lambda x, m: x.reshape(2, 2, 3, 2).sum((0, 2)))
sample("TileGrad", f(6), np.array([1], np.int32), expect=lambda x, m: x)
sample("SplitV", f(3, 2), np.array([1, 2], np.int8), ZERO, num_split=2, expect=lambda x, n, axis: (x[:1], x[1:]))
