"""Samples of the ops for k-means."""
import numpy as np

from tests.registry.sample import f, sample

_POINTS = f(20, 3)
for _retries in (0, 3, -1):
    sample("KmeansPlusPlusInitialization", _POINTS, np.int64(5), np.int64(7), np.int64(_retries))
sample("KMC2ChainInitialization", f(30, low=0.1, high=4), np.int64(3))
sample("KMC2ChainInitialization", f(1, low=0.1, high=4), np.int64(0), expect=lambda d, s: np.int64(0))


def _nearest(points, centers, k):
    d = ((points[:, None] - centers) ** 2).sum(2)
    order = np.argsort(d, 1, kind="stable")[:, :k]
    return order, np.take_along_axis(d, order, 1)


sample("NearestNeighbors", f(6, 3), f(4, 3), np.int64(1), expect=_nearest, atol=1e-4)
sample("NearestNeighbors", f(6, 3), f(4, 3), np.int64(3), expect=_nearest, atol=1e-4)
sample("NearestNeighbors", f(2, 3), f(4, 3), np.int64(9), expect=_nearest, atol=1e-4)
