"""Sums of products over named axes."""
import numpy as np

from tests.registry.sample import f, i, sample

for equation, *shapes in (
        ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 4)), ("ij->ji", (2, 3)), ("ij->", (2, 3)),
        ("ii->i", (3, 3)), ("i,j->ij", (2,), (3,)), ("...i,ij->...j", (2, 4, 3), (3, 2)),
        ("...ij,...jk->...ik", (2, 1, 2, 3), (4, 3, 2)), ("abc,cd->ad", (2, 3, 4), (4, 2))):
    sample("Einsum", [f(*s) for s in shapes], equation=equation,
           expect=lambda xs, equation=equation: np.einsum(equation, *xs))
sample("Einsum", [i(2, 3), i(3, 2)], equation="ij,jk->ik", expect=lambda xs: xs[0] @ xs[1])
sample("Einsum", [f(3)], equation="i->ii", expect=lambda xs: np.diag(xs[0]))
