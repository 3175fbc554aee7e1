"""Samples of rows changed by index."""
import numpy as np

from tests.registry.sample import f, sample

ROWS = np.array([2, -4, 2], np.int32)

sample("InplaceUpdate", f(4, 3), np.array([2, -4], np.int32), f(2, 3))
sample("InplaceUpdate", f(4, 3), np.int32(1), f(3))
sample("InplaceAdd", f(4, 3), ROWS, f(3, 3))
sample("InplaceSub", f(4, 3), ROWS, f(3, 3))
sample("DeepCopy", f(2, 3), expect=lambda x: x)
