"""Samples of slices."""
import numpy as np

from tests.registry.sample import f, s, sample


def v(*values):
    return np.array(values, np.int32)


sample("Slice", f(3, 4), v(1, 0), v(2, -1), expect=lambda x, b, n: x[1:3])
sample("Slice", s("a", "b", "c"), v(1), v(2), expect=lambda x, b, n: x[1:3])
sample("StridedSlice", f(3, 4), v(0, 1), v(3, 4), v(2, 2), expect=lambda x, b, e, n: x[::2, 1:4:2])
sample("StridedSlice", f(3, 4), v(-1, 0), v(0, 0), v(-1, 1), begin_mask=2, end_mask=2,
       expect=lambda x, b, e, n: x[-1:0:-1])
sample("StridedSlice", f(3, 4), v(0, 1, 0), v(0, 2, 0), v(1, 1, 1), ellipsis_mask=1, shrink_axis_mask=2,
       new_axis_mask=4, expect=lambda x, b, e, n: x[..., 1, None])
sample("StridedSliceGrad", v(3, 4), v(2, 0), v(0, 4), v(-1, 3), f(2, 2))
sample("TensorStridedSliceUpdate", f(3, 4), v(0, 1), v(3, 4), v(2, 2), f(2, 2))
sample("TensorStridedSliceUpdate", f(3, 4), v(2), v(0), v(-1), f(2, 4))
