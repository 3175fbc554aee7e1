"""tf.contrib.distributions: tf.distributions and more of them; bijectors, and distributions transformed by them."""
from penstock._src.base.api import export
from penstock._src.compat.contrib import same
from penstock._src.compat.contrib.distributions import (  # noqa: F401
    bijectors,
    combined,
    continuous,
    discrete,
    flows,
    multivariate,
    shaped,
    statistics,
)
from penstock._src.library.distributions import checks as _checks

same("distributions", "contrib.distributions")
for _name in ("softplus_inverse", "fill_triangular", "fill_triangular_inverse"):
    export.value(getattr(_checks, _name), v1=[f"contrib.distributions.{_name}"])
