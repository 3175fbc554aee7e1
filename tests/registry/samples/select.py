"""Samples of choosing by a condition."""
import numpy as np

from tests.registry.sample import b, f, i, s, sample

sample("Select", b(2, 3), f(2, 3), f(2, 3), expect=np.where)
sample("Select", b(2), f(2, 3), f(2, 3), expect=lambda c, x, y: np.where(c[:, None], x, y))
sample("Select", b(2), s("a", "b"), s("c", "d"), expect=np.where)
sample("SelectV2", b(3), f(2, 3), f(2, 1), expect=np.where)
sample("SelectV2", b(3), s("a", "b", "c"), s("d"), expect=np.where)
sample("Where", b(3, 4), expect=np.argwhere)
sample("Where", i(3, 4, low=-1, high=2), expect=np.argwhere)
sample("Where", f(3), expect=np.argwhere)
