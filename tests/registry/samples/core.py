"""Samples of the core ops."""
import numpy as np

from tests.registry.sample import f, i, s, sample

for _name in ("Identity", "Snapshot", "PlaceholderWithDefault"):
    sample(_name, f(2, 3), expect=lambda x: x, **({"shape": [2, 3]} if _name == "PlaceholderWithDefault" else {}))
sample("Identity", i(4), expect=lambda x: x)
sample("IdentityN", [f(2), i(3)], expect=lambda xs: list(xs))
sample("StopGradient", f(2, 3), expect=lambda x: x)
sample("PreventGradient", f(2, 3), expect=lambda x: x, grad=False)
sample("Const", value=np.array([[1.0, 2.0]], np.float32), dtype="float32", expect=lambda: np.array([[1.0, 2.0]], np.float32))
sample("IdentityN", [f(0), f(2, 2), s("a", "b")], expect=lambda xs: list(xs))
