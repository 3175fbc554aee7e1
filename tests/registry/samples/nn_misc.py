"""Samples of maps between data formats."""
import numpy as np

from tests.registry.sample import sample

sample("DataFormatDimMap", np.array([0, 1, 2, 3, -1, -4], np.int32),
       expect=lambda x: np.array([0, 2, 3, 1, 1, 0], np.int32))
sample("DataFormatDimMap", np.array([[3, 2]], np.int64), src_format="NCHW", dst_format="NHWC",
       expect=lambda x: np.array([[2, 1]], np.int64))
sample("DataFormatVecPermute", np.array([7, 4, 9, 3], np.int32), expect=lambda x: x[[0, 3, 1, 2]])
sample("DataFormatVecPermute", np.array([[1, 5], [2, 6], [3, 7], [4, 8]], np.int32), src_format="NCHW",
       dst_format="NHWC", expect=lambda x: x[[0, 2, 3, 1]])
