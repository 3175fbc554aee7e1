"""tf.contrib.factorization: k-means, mixtures of Gaussians, and matrix factorization."""
from penstock._src.compat.contrib.factorization import means, mixtures, wals  # noqa: F401
