"""Contractions of two arrays of known shapes in a function: products of matrices, or of batches of them."""
import numpy as np
import pytest

import penstock as tf

SIZES = dict(zip("abcdex", (3, 5, 4, 6, 7, 2), strict=True))
EQUATIONS = ["abc,cde->abde", "abde,cde->abc", "abde,abc->cde", "abcd,cde->abe", "ab,bc->ca", "abc,dc->dab", "aecd,abcd->acbe",
             "acbe,aecd->abcd", "ab,ab->", "a,b->ab", "abc,cb->a", "bca,cb->a", "ab,cd->abcd", "acb,abd->adc", "cab,bda->dac",
             "bac,bca->cb", "abcd,badc->ab", "aecd,abcd->cabe", "xab,xcb->cxa", "abc,bcd->ad", "abc,cbd->da"]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_values_and_gradients(equation):
    rng = np.random.RandomState(0)
    xs = [rng.randn(*[SIZES[c] for c in text]) for text in equation.split("->")[0].split(",")]
    weight = rng.randn(*[SIZES[c] for c in equation.split("->")[1]])

    @tf.function
    def f(a, b):
        y = tf.einsum(equation, a, b)
        return y, *tf.gradients(tf.reduce_sum(y * weight), [a, b])
    y, *grads = f(*map(tf.constant, xs))
    np.testing.assert_allclose(y, np.einsum(equation, *xs), rtol=1e-12, atol=1e-12)
    for i, grad in enumerate(grads):
        moved = [x + (1e-3 * direction if i == j else 0) for j, (x, direction) in enumerate(zip(xs, xs, strict=True))]
        change = ((np.einsum(equation, *moved) - np.einsum(equation, *xs)) * weight).sum()
        np.testing.assert_allclose((grad.numpy() * 1e-3 * xs[i]).sum(), change, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("equation, shapes", [
    ("a...a->", [(2, 2)]), ("a...a->...", [(2, 5, 1, 2)]), ("...ijk->...ki", [(2, 2, 3, 4, 5)]),
    ("ab...cd->da...", [(3, 5, 2, 3, 4, 2)]), ("ij,jk...k->i...", [(3, 2), (2, 4, 1, 4)]),
    ("...ij,...jk->...k", [(3, 1, 3, 2), (1, 5, 2, 4)])])
def test_gradients_of_sums_beside_an_ellipsis(equation, shapes):
    """An axis that one input alone has, and that the result lacks: its gradient is repeated along it."""
    random = np.random.RandomState(0)
    inputs = [tf.constant(random.randn(*s)) for s in shapes]
    found, numeric = tf.test.compute_gradient(lambda *xs: tf.einsum(equation, *xs), inputs)
    for a, b in zip(found, numeric, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
