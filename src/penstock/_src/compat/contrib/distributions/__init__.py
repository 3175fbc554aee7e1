"""tf.contrib.distributions: tf.distributions and more of them; bijectors, and distributions transformed by them."""
from penstock._src.base.api import TABLES, export
from penstock._src.compat.contrib.distributions import bijectors, combined, continuous, discrete, multivariate  # noqa: F401
from penstock._src.library.distributions import checks as _checks
from penstock.compat import v1 as tf

_BASE = tf.distributions.Distribution      # loads what the names below are for
for _name in [n for n in TABLES["v1"] if n.startswith("distributions.")]:
    export.value(TABLES["v1"][_name], v1=[f"contrib.{_name}"])
for _name in ("softplus_inverse", "fill_triangular"):
    export.value(getattr(_checks, _name), v1=[f"contrib.distributions.{_name}"])
