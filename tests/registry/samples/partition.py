"""Samples of partitions and stitches."""
import numpy as np

from tests.registry.sample import f, s, sample

LABELS = np.array([1, 0, 2, 1], np.int32)

sample("DynamicPartition", f(4, 2), LABELS, num_partitions=4, expect=lambda x, p: [x[p == k] for k in range(4)])
sample("DynamicPartition", f(2, 2, 3), LABELS.reshape(2, 2), num_partitions=3)
sample("DynamicPartition", s("a", "b", "c", "d"), LABELS, num_partitions=3)
for _name in ("DynamicStitch", "ParallelDynamicStitch"):
    sample(_name, [np.array([0, 3], np.int32), np.array([[2], [1]], np.int32)], [f(2, 2), f(2, 1, 2)])
sample("DynamicStitch", [np.array([0, 1], np.int32), np.array(1, np.int32)], [f(2, 2), f(2)], grad=False)
sample("DynamicStitch", [np.array([1], np.int32), np.array([0], np.int32)], [s("a"), s("b")])
