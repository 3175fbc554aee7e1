"""Order."""
import numpy as np

from tests.registry.sample import f, i, sample


def top(x, k):
    order = np.argsort(-x.astype(np.float64), axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


sample("TopK", f(3, 5), k=2, expect=lambda x: top(x, 2))
sample("TopKV2", f(3, 5), np.int32(2), expect=top)
sample("TopKV2", f(2, 20), np.int32(3), expect=top)
sample("TopKV2", np.array([1, 3, 3, 1, 2, 3], np.int32), np.int32(4), expect=top)
sample("TopKV2", np.array([1, 7, 7] + [0] * 20, np.float32), np.int32(1), expect=top, grad=False)
sample("TopKV2", i(6, low=0, dtype=np.uint16), np.int32(6), expect=top)
sample("NthElement", f(3, 5), np.int32(2), expect=lambda x, n: np.sort(x, -1)[..., 2])
sample("NthElement", i(3, 5), np.int32(1), reverse=True, expect=lambda x, n: -np.sort(-x, -1)[..., 1])
SCORES = np.array([[0.1, 0.3, 0.2, 0.2], [np.inf, 1, 2, 3], [1, 2, 3, 4]], np.float32)
sample("InTopK", SCORES, np.array([2, 3, 0], np.int32), k=3, expect=lambda p, t: np.array([True, False, False]))
sample("InTopKV2", SCORES, np.array([2, 3, 7], np.int64), np.int64(2),
       expect=lambda p, t, k: np.array([True, False, False]))
