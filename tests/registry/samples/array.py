"""Samples of shapes and of changes of shape."""
import numpy as np

from penstock._src.base import dtypes
from tests.registry.sample import f, i, s, sample

N = np.array

sample("Shape", f(2, 3), expect=lambda x: N(x.shape, np.int32))
sample("Shape", s("a", "b"), out_type=dtypes.int64)
sample("ShapeN", [f(2, 3), f(4)], expect=lambda v: [N(x.shape, np.int32) for x in v])
sample("Size", f(2, 3), expect=lambda x: np.int32(x.size))
sample("Rank", f(2, 3), expect=lambda x: np.int32(x.ndim))
sample("Reshape", f(2, 6), N([3, -1], np.int32), expect=lambda x, d: x.reshape(3, 4))
sample("Reshape", s("a", "b"), N([2, 1], np.int32), expect=lambda x, d: x.reshape(2, 1))
sample("Reshape", f(0, 6), N([0, -1, 3], np.int32), expect=lambda x, d: x.reshape(0, 2, 3))
sample("ExpandDims", f(2, 3), np.int32(-2), expect=np.expand_dims)
sample("Squeeze", f(1, 3, 1), expect=np.squeeze)
sample("Squeeze", f(1, 3, 1), squeeze_dims=[-1], expect=lambda x: x[..., 0])
sample("Transpose", f(2, 3, 4), N([2, 0, 1], np.int32), expect=np.transpose)
sample("Transpose", s("a", "b").reshape(1, 2), N([1, 0], np.int32), expect=np.transpose)
sample("ConjugateTranspose", f(2, 3), N([1, 0], np.int32), expect=np.transpose)
sample("ConjugateTranspose", (f(2, 3) + 1j * f(2, 3)).astype(np.complex64), N([1, 0], np.int32), grad=False,
       expect=lambda x, p: x.conj().T)
sample("EnsureShape", f(2, 3), shape=[None, 3], expect=lambda x: x)
sample("GuaranteeConst", f(2, 3), expect=lambda x: x)
sample("Reshape", i(2, 2), N([4], np.int64), expect=lambda x, d: x.reshape(4))
