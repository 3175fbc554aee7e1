"""Of `ops.distributions.util`."""
from __future__ import annotations

from penstock._src.library.distributions.checks import new_seed

gen_new_seed = new_seed
