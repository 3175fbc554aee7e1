"""Samples of softmax and its cross entropies."""
import numpy as np

from tests.registry.sample import f, i, sample


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _xent(x, labels):
    p = softmax(x)
    return -(labels * np.log(p)).sum(-1), p - labels


def _sparse_xent(x, labels):
    return _xent(x, np.eye(x.shape[1], dtype=x.dtype)[labels])


sample("Softmax", f(3, 5), expect=softmax)
sample("Softmax", f(2, 3, 4, dtype=np.float64), expect=softmax)
sample("Softmax", f(3, 5, dtype=np.float16), expect=softmax, rtol=2e-3, atol=1e-3)
sample("LogSoftmax", f(3, 5), expect=lambda x: np.log(softmax(x)))
sample("SoftmaxCrossEntropyWithLogits", f(3, 5), softmax(f(3, 5)), expect=_xent)
sample("SoftmaxCrossEntropyWithLogits", f(3, 5), softmax(f(1, 5)), expect=_xent)
sample("SparseSoftmaxCrossEntropyWithLogits", f(4, 3), np.array([2, 0, 1, 1], np.int64), expect=_sparse_xent)
sample("SparseSoftmaxCrossEntropyWithLogits", f(4, 3, dtype=np.float64), i(4, low=0, high=3), expect=_sparse_xent)
sample("L2Loss", f(3, 4), expect=lambda t: np.sum(t * t) / 2)
