"""Samples of bitcasts."""
import numpy as np

from penstock._src.base import dtypes
from tests.registry.sample import f, i, sample

sample("Bitcast", f(2, 3), type=dtypes.int32, expect=lambda x: x.view(np.int32))
sample("Bitcast", f(2, 3), type=dtypes.uint8, expect=lambda x: x.view(np.uint8).reshape(2, 3, 4))
sample("Bitcast", i(3, 2), type=dtypes.int64, expect=lambda x: x.view(np.int64).reshape(3))
sample("Bitcast", f(3, 2), type=dtypes.complex64, expect=lambda x: x.view(np.complex64).reshape(3))
