"""Samples of blocks of space in the batch and in the depth."""
import numpy as np

from tests.registry.sample import f, sample

BLOCK = np.array([2, 3], np.int32)
AROUND = np.array([[1, 1], [0, 2]], np.int32)
SQUARE = np.array([[0, 0], [2, 0]], np.int32)

sample("SpaceToBatchND", f(2, 4, 4, 1), BLOCK, AROUND)
sample("BatchToSpaceND", f(12, 3, 2, 1), BLOCK, AROUND)
sample("SpaceToBatch", f(1, 4, 4, 2), SQUARE, block_size=2)
sample("BatchToSpace", f(8, 2, 3, 2), SQUARE, block_size=2)
sample("SpaceToDepth", f(1, 4, 6, 2), block_size=2)
sample("DepthToSpace", f(1, 2, 3, 8), block_size=2)
