"""Evenly spaced numbers."""
import numpy as np

from tests.registry.sample import sample

sample("Range", np.int32(3), np.int32(18), np.int32(4), expect=np.arange)
sample("Range", np.int64(3), np.int64(-4), np.int64(-2), expect=np.arange)
sample("Range", np.float32(3), np.float32(1), np.float32(-0.5), expect=np.arange)
sample("Range", np.int32(2), np.int32(2), np.int32(1), expect=np.arange)
sample("LinSpace", np.float32(1), np.float32(2), np.int32(5), expect=np.linspace)
sample("LinSpace", np.float64(1), np.float64(2), np.int32(1), expect=np.linspace)
