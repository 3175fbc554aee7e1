"""Samples of gathers and scatters."""
import numpy as np

from tests.registry.sample import f, i, s, sample

ZERO, ONE = np.int32(0), np.int32(1)


def rows(*values):
    return np.array(values, np.int32)


sample("Gather", f(4, 3), rows(2, 0, 2), expect=lambda p, j: p[j])
sample("GatherV2", f(4, 3), rows([2, 0], [1, 3]), ZERO, expect=lambda p, j, a: p[j])
sample("GatherV2", f(2, 4, 3), rows(3, 0), ONE, expect=np.take)
sample("GatherV2", f(2, 4, 3), i(2, 2, low=0, high=4), ONE, batch_dims=1,
       expect=lambda p, j, a: np.stack([p[k][j[k]] for k in range(2)]))
sample("GatherV2", f(2, 3, 4, 2), i(2, 5, low=0, high=4), np.int32(2), batch_dims=1)
sample("GatherV2", s("a", "b", "c"), rows(2, 0), ZERO, expect=lambda p, j, a: p[j])
sample("GatherNd", f(2, 3, 4), rows([1, 2], [0, 0]), expect=lambda p, j: p[j[:, 0], j[:, 1]])
sample("GatherNd", f(3, 2), rows([2], [0], [2]), expect=lambda p, j: p[j[:, 0]])
sample("GatherNd", s("a", "b"), rows([1], [0]))
sample("ScatterNd", rows([1], [3], [1]), f(3, 2), rows(4, 2))
sample("ScatterNd", rows([1, 0], [0, 1]), f(2), rows(2, 2))
sample("ScatterNdNonAliasingAdd", f(4, 2), rows([1], [3], [1]), f(3, 2))
sample("TensorScatterUpdate", f(4, 2), rows([1], [3]), f(2, 2))
sample("TensorScatterAdd", f(4, 2), rows([1], [3], [1]), f(3, 2))
sample("TensorScatterSub", f(4, 2), rows([1], [3], [1]), f(3, 2))
sample("TensorScatterMin", f(4, 2), rows([1], [3], [1]), f(3, 2))
sample("TensorScatterMax", f(4, 2), rows([1], [3], [1]), f(3, 2))
