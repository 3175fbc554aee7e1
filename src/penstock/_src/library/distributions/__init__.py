"""tf.distributions: batches of probability distributions, their samples, densities and statistics.

`distribution.py` is the base class; one file for each family. They are written in terms of public functions.
"""
from penstock._src.library.distributions import counts, discrete, divergence, gamma, location_scale  # noqa: F401
