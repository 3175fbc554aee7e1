"""Every kind of operator does what its matrix does; rules, hints and assertions."""
import contextlib
import itertools

import numpy as np
import pytest

import penstock as tf
from tests.library.linalg.kinds import KINDS, L, diag, full_matrix, identity, lower_triangular, numbers, scaled_identity

each = pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
types = pytest.mark.parametrize("dtype", [np.float64, np.complex128])
N = 4


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-8, atol=1e-8)


def adjoint_of(x):
    return np.conj(np.swapaxes(x, -1, -2))


@each
@types
@pytest.mark.parametrize("batch", [(), (3,), (2, 1)])
def test_acts_like_its_matrix(kind, dtype, batch):
    operator, dense = kind(batch, N, dtype)
    close(operator.to_dense(), dense)
    assert operator.shape == dense.shape
    assert operator.shape_tensor().numpy().tolist() == list(dense.shape)
    close(operator.diag_part(), np.diagonal(dense, axis1=-2, axis2=-1))
    close(operator.trace(), np.trace(dense, axis1=-2, axis2=-1))
    close(operator.determinant(), np.linalg.det(dense))
    close(operator.log_abs_determinant(), np.linalg.slogdet(dense)[1])
    close(operator.inverse().to_dense(), np.linalg.inv(dense))
    close(operator.adjoint().to_dense(), adjoint_of(dense))
    x = numbers(dense.shape, operator.dtype.as_numpy_dtype)
    close(operator.add_to_tensor(x), dense + x)


@each
@types
@pytest.mark.parametrize(("adjoint", "adjoint_arg"), list(itertools.product([False, True], repeat=2)))
def test_products_and_solutions(kind, dtype, adjoint, adjoint_arg):
    operator, dense = kind((3,), N, dtype)
    matrix = adjoint_of(dense) if adjoint else dense
    for shape in ((3, N, 2), (N, 2), (2, 1, N, 5)):
        x = numbers(shape, operator.dtype.as_numpy_dtype)
        given = adjoint_of(x) if adjoint_arg else x
        close(operator.matmul(given, adjoint, adjoint_arg), matrix @ x)
        close(matrix @ np.asarray(operator.solve(given, adjoint, adjoint_arg)), x + np.zeros_like(matrix @ x))
    v = numbers((3, N), operator.dtype.as_numpy_dtype)
    close(operator.matvec(v, adjoint), (matrix @ v[..., None])[..., 0])
    close((matrix @ np.asarray(operator.solvevec(v, adjoint))[..., None])[..., 0], v)


@each
def test_unknown_shapes(kind):
    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
        operator, dense = kind((2,), N, np.float64)
        x = tf.compat.v1.placeholder(operator.dtype)
        value = numbers((2, N, 3), operator.dtype.as_numpy_dtype)
        close(sess.run(operator.matmul(x), {x: value}), dense @ value)
        close(dense @ sess.run(operator.solve(x), {x: value}), value)


SIMPLE = [diag, identity, scaled_identity, lower_triangular]          # kinds with rules for each other
PAIRS = dict.fromkeys([*((k, k) for k in KINDS), *((k, full_matrix) for k in KINDS), *((full_matrix, k) for k in KINDS),
                       *itertools.product(SIMPLE, SIMPLE)])


@pytest.mark.parametrize(("left", "right"), PAIRS, ids=lambda k: k.__name__)
def test_pairs(left, right):
    a, x = left((2,), N, np.complex128)
    b, y = right((2,), N, np.complex128)
    product, quotient = a.matmul(b), a.solve(b)
    assert isinstance(product, L.LinearOperator) and isinstance(quotient, L.LinearOperator)
    close(product.to_dense(), x @ y)
    close(x @ np.asarray(quotient.to_dense()), y)
    close((a @ b).to_dense(), x @ y)


@pytest.mark.parametrize(("left", "right", "result"), [
    ("diag", "diag", "LinearOperatorDiag"), ("identity", "full_matrix", "LinearOperatorFullMatrix"),
    ("full_matrix", "identity", "LinearOperatorFullMatrix"), ("diag", "scaled_identity", "LinearOperatorDiag"),
    ("diag", "lower_triangular", "LinearOperatorLowerTriangular"), ("circulant", "circulant", "LinearOperatorCirculant"),
    ("circulant_2d", "circulant_2d", "LinearOperatorCirculant2D"),
    ("full_matrix", "full_matrix", "LinearOperatorComposition")])
def test_structure_is_kept(left, right, result):
    kinds = {k.__name__: k for k in KINDS}
    a, b = (kinds[k]((), N, np.complex128)[0] for k in (left, right))
    assert type(a.matmul(b)).__name__ == result


def definite(batch=()):
    m = numbers((*batch, N, N), np.float64)
    return m @ np.swapaxes(m, -1, -2) + N * np.eye(N)


def test_cholesky():
    hints = {"is_self_adjoint": True, "is_positive_definite": True}
    a, b = definite((2,)), definite()
    whole = L.LinearOperatorFullMatrix(a, **hints)
    operators = [
        (whole, a), (L.LinearOperatorDiag([1.0, 4.0], is_positive_definite=True), np.diag([1.0, 4.0])),
        (L.LinearOperatorIdentity(3), np.eye(3)),
        (L.LinearOperatorScaledIdentity(3, 4.0, is_positive_definite=True), 4 * np.eye(3)),
        (L.LinearOperatorKronecker([L.LinearOperatorFullMatrix(b, **hints), L.LinearOperatorIdentity(2, dtype=tf.float64)]),
         np.kron(b, np.eye(2)))]
    for operator, dense in operators:
        factor = operator.cholesky()
        close(factor.to_dense(), np.linalg.cholesky(dense))
    close(whole.solve(np.eye(N)), np.linalg.inv(a))
    close(whole.determinant(), np.linalg.det(a))
    close(whole.eigvals(), np.linalg.eigvalsh(a))
    close(whole.cond(), np.linalg.cond(a))
    with pytest.raises(ValueError, match="Not a positive definite self adjoint"):
        L.LinearOperatorFullMatrix(a).cholesky()


@each
def test_gradients_reach_the_parameters(kind):
    operator, _ = kind((), N, np.float64)
    parents = [p for p in operator.graph_parents if p.dtype.is_floating]
    if not parents:
        pytest.skip("no floating parameters")
    with tf.GradientTape() as tape:
        tape.watch(parents)
        loss = tf.reduce_sum(tf.math.real(operator.matmul(tf.ones([N, 1], operator.dtype)) ** 2))
    assert any(g is not None for g in tape.gradient(loss, parents))


def test_variables_are_read_when_used():
    d = tf.Variable([1.0, 2.0])
    operator = L.LinearOperatorDiag(d)
    close(operator.matvec([1.0, 1.0]), [1, 2])
    d.assign([3.0, 4.0])
    close(operator.matvec([1.0, 1.0]), [3, 4])
    with pytest.raises(TypeError, match="cannot be reference type"):
        L.LinearOperatorIdentity(tf.Variable(2))


# -- hints and assertions ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("make", "message"), [
    (lambda: L.LinearOperatorFullMatrix(np.eye(2), is_non_singular=False, is_positive_definite=True), "always non-singular"),
    (lambda: L.LinearOperatorFullMatrix(np.eye(2), is_square=False, is_self_adjoint=True), "always square"),
    (lambda: L.LinearOperatorDiag([1.0], is_self_adjoint=False), "always self adjoint"),
    (lambda: L.LinearOperatorDiag(1.0), "at least 1 dimension"),
    (lambda: L.LinearOperatorFullMatrix([1.0]), "at least 2 dimensions"),
    (lambda: L.LinearOperatorIdentity(2, is_non_singular=False), "always non-singular"),
    (lambda: L.LinearOperatorIdentity([2]), "0-D"),
    (lambda: L.LinearOperatorIdentity(-2), "non-negative"),
    (lambda: L.LinearOperatorIdentity(2, batch_shape=2), "1-D"),
    (lambda: L.LinearOperatorHouseholder([1.0], is_positive_definite=True), "non-positive definite"),
    (lambda: L.LinearOperatorZeros(2, 3), "num_rows"),
    (lambda: L.LinearOperatorZeros(2, is_non_singular=True), "always singular"),
    (lambda: L.LinearOperatorToeplitz([1.0, 2.0], [1.0]), "different sizes"),
    (lambda: L.LinearOperatorComposition([]), "non-empty"),
    (lambda: L.LinearOperatorTridiag(np.eye(3), "rows"), "diagonals_format"),
])
def test_contradictions(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_types_and_shapes():
    operator = L.LinearOperatorFullMatrix(np.ones((2, 3)))
    with pytest.raises(TypeError, match="dtype"):
        operator.matmul(np.ones((3, 1), np.float32))
    with pytest.raises(ValueError, match="not compatible"):
        operator.matmul(np.ones((2, 1)))
    with pytest.raises(ValueError, match="incompatible"):
        operator.matmul(operator)
    with pytest.raises(NotImplementedError, match="not be square"):
        operator.solve(np.ones((2, 1)))
    with pytest.raises(NotImplementedError, match="not be square"):
        operator.determinant()
    with pytest.raises(ValueError, match="non square"):
        operator.inverse()
    with pytest.raises(TypeError, match="same dtype"):
        L.LinearOperatorComposition([L.LinearOperatorIdentity(2), L.LinearOperatorIdentity(2, dtype=tf.float64)])


@pytest.mark.parametrize(("make", "method", "message"), [
    (lambda: L.LinearOperatorDiag([1.0, 0.0]), "assert_non_singular", "Singular"),
    (lambda: L.LinearOperatorDiag([1.0, -1.0]), "assert_positive_definite", "non-positive"),
    (lambda: L.LinearOperatorDiag([1.0, 1j]), "assert_self_adjoint", "imaginary"),
    (lambda: L.LinearOperatorScaledIdentity(2, 0.0), "assert_non_singular", "singular"),
    (lambda: L.LinearOperatorFullMatrix([[1.0, 2.0], [3.0, 4.0]]), "assert_self_adjoint", "not equal to its adjoint"),
    (lambda: L.LinearOperatorFullMatrix([[1.0, 1.0], [1.0, 1.0]]), "assert_non_singular", "Singular matrix"),
    (lambda: L.LinearOperatorCirculant([1.0, 0.0]), "assert_non_singular", "zero"),
    (lambda: L.LinearOperatorZeros(2), "assert_non_singular", "non-invertible"),
])
def test_assertions_fail(make, method, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        getattr(make(), method)()


def test_assertions_pass():
    L.LinearOperatorDiag([1.0, 2.0]).assert_positive_definite()
    L.LinearOperatorFullMatrix([[2.0, 1.0], [1.0, 2.0]], is_self_adjoint=True).assert_positive_definite()
    operator, _ = full_matrix((2,), 3, np.float64)
    operator.assert_non_singular()


def test_functions_take_operators():
    operator, dense = full_matrix((), N, np.float64)
    close(L.trace(operator), np.trace(dense))
    close(L.det(operator), np.linalg.det(dense))
    close(L.diag_part(operator), np.diag(dense))
    close(L.solve(operator, np.eye(N)), np.linalg.inv(dense))
    close(tf.matmul(operator, np.eye(N), adjoint_a=True), dense.T)
    close(tf.matmul(np.eye(N), operator), dense)
    close(L.inv(operator).to_dense(), np.linalg.inv(dense))
    with pytest.raises(ValueError, match="Transposes are not supported"):
        tf.matmul(operator, np.eye(N), transpose_a=True)


def test_zeros():
    operator = L.LinearOperatorZeros(2, 3, batch_shape=[4], is_square=False, is_self_adjoint=False)
    close(operator.to_dense(), np.zeros((4, 2, 3)))
    close(operator.matmul(np.ones((3, 5), np.float32)), np.zeros((4, 2, 5)))
    assert operator.adjoint().shape == [4, 3, 2]


@pytest.mark.parametrize("graph", [False, True])
def test_conjugate_gradient(graph):
    dense, b = definite((2,)), numbers((2, N), np.float64)
    hints = {"is_self_adjoint": True, "is_positive_definite": True}
    close_to = {"preconditioner": L.LinearOperatorDiag(1 / np.diagonal(dense, axis1=-2, axis2=-1))}
    for arguments in ({}, close_to, {"x": np.ones((2, N))}):
        with tf.Graph().as_default() if graph else contextlib.nullcontext():
            if "preconditioner" in arguments and graph:
                arguments = {}
            found = L.experimental.conjugate_gradient(L.LinearOperatorFullMatrix(dense, **hints), b, tol=1e-10, **arguments)
            steps, x = found.i, found.x
            if graph:
                with tf.compat.v1.Session() as sess:
                    steps, x = sess.run([steps, x])
        close((dense @ np.asarray(x)[..., None])[..., 0], b)
        assert 1 <= int(steps) <= 20
    with pytest.raises(ValueError, match="self-adjoint, positive definite"):
        L.experimental.conjugate_gradient(L.LinearOperatorFullMatrix(dense), b)
