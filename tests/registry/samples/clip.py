"""Clipping."""
import numpy as np

from tests.registry.sample import f, i, sample

sample("ClipByValue", f(2, 3), np.float32(-0.5), np.float32(0.5), expect=np.clip)
sample("ClipByValue", i(5), np.int32(-2), np.int32(3), expect=np.clip)
