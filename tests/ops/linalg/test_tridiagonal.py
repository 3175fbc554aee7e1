"""Formats and checks of tridiagonal systems."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as v1
from tests.checks import raises_op

L = tf.linalg
RNG = np.random.RandomState(6)
DENSE = np.diag([3.0, 4, 5, 6]) + np.diag([1.0, -1, 2], 1) + np.diag([2.0, 1, -1], -1)
UPPER, MIDDLE, LOWER = [1.0, -1, 2], [3.0, 4, 5, 6], [2.0, 1, -1]
COMPACT = np.array([[*UPPER, 9], MIDDLE, [9, *LOWER]])
FORMS = {"compact": COMPACT, "matrix": DENSE, "sequence": [np.array(d) for d in (UPPER, MIDDLE, LOWER)]}


@pytest.mark.parametrize("form", FORMS)
def test_formats(form):
    b = RNG.randn(4, 2)
    solved = L.tridiagonal_solve(FORMS[form], b, diagonals_format=form)
    np.testing.assert_allclose(solved, np.linalg.solve(DENSE, b), rtol=1e-6)
    np.testing.assert_allclose(L.tridiagonal_solve(FORMS[form], b[:, 0], diagonals_format=form), np.asarray(solved)[:, 0],
                               rtol=1e-6)
    given = FORMS[form] if form != "sequence" else list(COMPACT)
    np.testing.assert_allclose(L.tridiagonal_matmul(given, b, diagonals_format=form), DENSE @ b, rtol=1e-6)


def test_diagonals_of_unknown_rank():
    with v1.Graph().as_default(), v1.Session() as sess:
        diagonals, rhs = [v1.placeholder(tf.float64) for _ in range(3)], v1.placeholder(tf.float64, [4, 1])
        solved = L.tridiagonal_solve(diagonals, rhs, diagonals_format="sequence")
        b = RNG.randn(4, 1)
        np.testing.assert_allclose(sess.run(solved, {**dict(zip(diagonals, COMPACT, strict=True)), rhs: b}),
                                   np.linalg.solve(DENSE, b), rtol=1e-6)


def test_transposed_and_conjugated_right_hand_sides():
    b = RNG.randn(2, 4) + 1j * RNG.randn(2, 4)
    solved = L.tridiagonal_solve(COMPACT.astype(complex), b, transpose_rhs=True, conjugate_rhs=True)
    np.testing.assert_allclose(solved, np.linalg.solve(DENSE, b.conj().T), rtol=1e-6)


def test_large_systems_with_random_pivots():
    m = 300
    compact = RNG.randn(3, m)
    dense = np.diag(compact[1]) + np.diag(compact[0, :-1], 1) + np.diag(compact[2, 1:], -1)
    b = RNG.randn(m, 1)
    np.testing.assert_allclose(dense @ np.asarray(L.tridiagonal_solve(compact, b)), b, atol=1e-9)


@pytest.mark.parametrize(("diagonals", "rhs", "form", "message"), [
    (COMPACT, np.zeros(5), "compact", "rows, got 4 and 5"), (COMPACT[:2], np.zeros(4), "compact", "Expected 3 diagonals"),
    (COMPACT, np.zeros((2, 2, 4)), "compact", "rank of rhs"), (COMPACT, np.zeros(4), "rows", "Unrecognized"),
    (COMPACT[:2], np.zeros(4), "sequence", "sequence of length 3"), (np.zeros((3, 4)), np.zeros(4), "matrix", "to be same"),
    ([np.zeros(2), np.zeros(4), np.zeros(3)], np.zeros(4), "sequence", "superdiagonal to be have length 4 or 3")])
def test_wrong_shapes(diagonals, rhs, form, message):
    with pytest.raises(ValueError, match=message):
        L.tridiagonal_solve(diagonals, rhs, diagonals_format=form)


def test_the_op_checks_its_inputs():
    with raises_op(tf.errors.InvalidArgumentError, ""):
        tf.raw_ops.TridiagonalSolve(diagonals=COMPACT, rhs=np.zeros((5, 1)))
    with raises_op(tf.errors.InvalidArgumentError, ""):
        tf.raw_ops.TridiagonalMatMul(superdiag=np.zeros((1, 4)), maindiag=np.zeros((1, 4)), subdiag=np.zeros((1, 3)),
                                     rhs=np.zeros((4, 1)))


@pytest.mark.parametrize("shape", [None, [None, None]])
@pytest.mark.parametrize("pivoting", [True, False])
def test_matrices_of_unknown_size(shape, pivoting):
    matrix, rhs = np.array([[2.0, 1, 0], [1, 3, 1], [0, 1, 4]]), np.ones([3, 1])

    @tf.function(input_signature=[tf.TensorSpec(shape, tf.float64), tf.TensorSpec(None, tf.float64)])
    def solve(a, b):
        return tf.linalg.tridiagonal_solve(a, b, "matrix", partial_pivoting=pivoting)

    np.testing.assert_allclose(solve(matrix, rhs), np.linalg.solve(matrix, rhs), rtol=1e-12)
