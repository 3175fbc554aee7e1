"""Operators of blocks: arguments block by block, rectangular blocks, and products that keep the blocks."""
import numpy as np
import pytest

import penstock as tf

L = tf.linalg


def full(rng, *shape):
    m = rng.randn(*shape) + (4 * np.eye(shape[-1]) if shape[-1] == shape[-2] else 0)
    return L.LinearOperatorFullMatrix(m), m


@pytest.mark.parametrize("kind", ["diag", "lower"])
@pytest.mark.parametrize("adjoint", [False, True])
def test_arguments_by_block(kind, adjoint):
    rng = np.random.RandomState(1)
    (a, _), (b, _), (c, _) = full(rng, 2, 2), full(rng, 3, 2), full(rng, 3, 3)
    op = L.LinearOperatorBlockDiag([a, c]) if kind == "diag" else L.LinearOperatorBlockLowerTriangular([[a], [b, c]])
    dense = op.to_dense().numpy()
    dense, x = dense.T if adjoint else dense, rng.randn(5, 4)
    parts = op.matmul([x[:2], x[2:]], adjoint=adjoint)
    assert [p.shape.as_list() for p in parts] == [[2, 4], [3, 4]]
    np.testing.assert_allclose(np.concatenate(parts), dense @ x, rtol=1e-6)
    np.testing.assert_allclose(np.concatenate(op.solve([x[:2].T, x[2:].T], adjoint=adjoint, adjoint_arg=True)),
                               np.linalg.solve(dense, x), rtol=1e-6)
    np.testing.assert_allclose(np.concatenate(op.matvec([x[:2, 0], x[2:, 0]], adjoint=adjoint)), dense @ x[:, 0], rtol=1e-6)
    np.testing.assert_allclose(np.concatenate(op.solvevec([x[:2, 0], x[2:, 0]], adjoint=adjoint)),
                               np.linalg.solve(dense, x[:, 0]), rtol=1e-6)


def test_rectangular_blocks():
    rng = np.random.RandomState(2)
    (a, _), (b, _) = full(rng, 2, 1), full(rng, 3, 4)
    op = L.LinearOperatorBlockDiag([a, b])
    dense = op.to_dense().numpy()
    assert dense.shape == (5, 5) and op.is_square
    x = rng.randn(5, 2)
    np.testing.assert_allclose(op.matmul(x), dense @ x, rtol=1e-6)
    np.testing.assert_allclose(op.matmul(x, adjoint=True), dense.T @ x, rtol=1e-6)
    np.testing.assert_allclose(op.trace(), np.trace(dense), rtol=1e-6)
    np.testing.assert_allclose(op.adjoint().to_dense(), dense.T, rtol=1e-6)
    product = op.matmul(L.LinearOperatorBlockDiag([full(rng, 1, 2)[0], full(rng, 4, 3)[0]]))
    assert isinstance(product, L.LinearOperatorBlockDiag) and len(product.operators) == 2


def test_the_inverse_of_a_block_triangle_is_one():
    rng = np.random.RandomState(3)
    rows = [[full(rng, 2, 2)[0]], [full(rng, 1, 2)[0], full(rng, 1, 1)[0]],
            [full(rng, 3, 2)[0], full(rng, 3, 1)[0], full(rng, 3, 3)[0]]]
    op = L.LinearOperatorBlockLowerTriangular(rows)
    inverse = op.inverse()
    assert isinstance(inverse, L.LinearOperatorBlockLowerTriangular) and [len(r) for r in inverse.operators] == [1, 2, 3]
    np.testing.assert_allclose(inverse.to_dense() @ op.to_dense(), np.eye(6), atol=1e-12)


@pytest.mark.parametrize("operators, message", [
    ([], "must be a list of >=1"),
    ([["2x2"], ["2x2", "2x2", "2x2"]], "must contain `2` blocks"),
    ([["2x2"], ["2x3", "2x2"]], "must be the same as"),
    ([["2x3"]], "must be square")])
def test_rows_that_are_no_triangle(operators, message):
    rows = [[full(np.random.RandomState(0), *map(int, o.split("x")))[0] for o in row] for row in operators]
    with pytest.raises(ValueError, match=message):
        L.LinearOperatorBlockLowerTriangular(rows)


def test_lists_that_fit_no_block():
    rng = np.random.RandomState(4)
    op = L.LinearOperatorBlockDiag([full(rng, 4, 4)[0], full(rng, 3, 3)[0]])
    with pytest.raises(ValueError, match="does not match operator dimension"):
        op.matmul(rng.rand(2, 4, 5).tolist())


def test_a_product_with_its_adjoint_is_self_adjoint():
    wide = full(np.random.RandomState(5), 2, 3)[0]
    square = wide.matmul(wide, adjoint_arg=True)
    assert square.is_self_adjoint and square.is_square and square.is_positive_definite is None
    definite = L.LinearOperatorFullMatrix([[2.0]], is_non_singular=True)
    assert definite.matmul(definite, adjoint_arg=True).is_positive_definite
