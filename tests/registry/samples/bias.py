"""Samples of bias ops."""
import numpy as np

from tests.registry.sample import f, i, sample

sample("BiasAdd", f(2, 3), f(3), expect=np.add)
sample("BiasAdd", f(2, 3, 4, 5), f(5), expect=np.add)
sample("BiasAdd", f(2, 5, 3, 4), f(5), data_format="NCHW", expect=lambda x, b: x + b[:, None, None])
sample("BiasAdd", i(2, 3), i(3), expect=np.add)
sample("BiasAddV1", f(2, 3, 4), f(4), expect=np.add)
sample("BiasAddGrad", f(2, 3, 4, 5), expect=lambda g: g.sum((0, 1, 2)))
sample("BiasAddGrad", f(2, 5, 3, 4), data_format="NCHW", expect=lambda g: g.sum((0, 2, 3)))
