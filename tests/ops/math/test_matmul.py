"""Products of matrices: the choice of op, errors, gradients of broadcast batches, tensordot, einsum."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf

R = np.random.RandomState(0)


def test_which_op():
    with tf.Graph().as_default():
        m, batch, unknown = tf.zeros([2, 2]), tf.zeros([3, 2, 2]), tf.placeholder(tf.float32)
        assert [tf.matmul(a, b).op.type for a, b in ((m, m), (batch, m), (m, unknown))] == [
            "MatMul", "BatchMatMulV2", "BatchMatMulV2"]
        assert tf.matmul(m, m, a_is_sparse=True).op.type == "SparseMatMul"


def test_errors():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="Dimensions must be equal, but are 3 and 4"):
            tf.matmul(tf.zeros([2, 3]), tf.zeros([4, 5]))
        with pytest.raises(ValueError, match="Only one of transpose_a and adjoint_a"):
            tf.matmul(tf.zeros([2, 2]), tf.zeros([2, 2]), transpose_a=True, adjoint_a=True)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf2.matmul(tf2.zeros([2, 3]), tf2.zeros([4, 5]))
    with tf.Graph().as_default(), tf.Session() as sess:
        a = tf.placeholder(tf.float32)
        with pytest.raises(tf.errors.InvalidArgumentError, match="size-incompatible"):
            sess.run(tf.matmul(a, tf.zeros([3, 3])), {a: np.zeros((2, 2))})


@pytest.mark.parametrize("a, b", [((2, 3, 0, 0), (2, 3, 0, 0)), ((2, 3, 0, 4), (2, 3, 4, 5)), ((2, 0, 3, 4), (2, 0, 4, 5)),
                                  ((2, 3, 4, 0), (2, 3, 0, 5)), ((2, 0, 0), (2, 0, 0))])
def test_empty_batches_and_matrices(a, b):
    np.testing.assert_array_equal(tf2.matmul(np.ones(a), np.ones(b)), np.matmul(np.ones(a), np.ones(b)))
    np.testing.assert_array_equal(tf2.matmul(np.swapaxes(np.ones(a), -1, -2), np.ones(b), transpose_a=True),
                                  np.matmul(np.ones(a), np.ones(b)))


def test_adjoint():
    z = R.rand(2, 3) + 1j * R.rand(2, 3)
    np.testing.assert_allclose(tf2.matmul(z, z, adjoint_b=True).numpy(), z @ z.conj().T, rtol=1e-6)
    np.testing.assert_allclose(tf2.matmul(z, z, transpose_a=True).numpy(), z.T @ z, rtol=1e-6)
    np.testing.assert_allclose(tf2.linalg.matvec(z, z[0]).numpy(), z @ z[0], rtol=1e-6)


@pytest.mark.parametrize("unknown", [False, True])
def test_gradients_of_broadcast_batches(unknown):
    x, y = R.rand(4, 1, 2, 3), R.rand(5, 3, 2)
    with tf.Graph().as_default(), tf.Session() as sess:
        a, b = (tf.placeholder(tf.float64, None if unknown else v.shape) for v in (x, y))
        ga, gb = sess.run(tf.gradients(tf.matmul(a, b), [a, b]), {a: x, b: y})
    np.testing.assert_allclose(ga, np.broadcast_to(y.sum(2).sum(0), x.shape), rtol=1e-6)
    np.testing.assert_allclose(gb, np.broadcast_to(x.sum((0, 1, 2))[None, :, None], y.shape), rtol=1e-6)


@pytest.mark.parametrize("axes", [0, 1, 2, [[1], [0]], [[0, 2], [2, 0]], [[-1], [-3]]])
@pytest.mark.parametrize("unknown", ["no", "dims", "rank"])
def test_tensordot(axes, unknown):
    a, b = R.rand(3, 4, 5), R.rand(5, 4, 3) if axes not in (2, [[1], [0]]) else R.rand(4, 5, 3)
    if axes == [[-1], [-3]]:
        b = R.rand(5, 4, 3)
    with tf.Graph().as_default(), tf.Session() as sess:
        shapes = {"no": (a.shape, b.shape), "dims": ([None] * 3, [None] * 3), "rank": (None, None)}[unknown]
        x, y = (tf.placeholder(tf.float64, s) for s in shapes)
        out = tf.tensordot(x, y, axes)
        want = np.tensordot(a, b, axes)
        assert out.shape.is_compatible_with(want.shape)
        np.testing.assert_allclose(sess.run(out, {x: a, y: b}), want, rtol=1e-6)
        computed = {op.type for op in out.graph.get_operations()} & {"Rank", "ListDiff"}
        assert bool(computed) == (unknown == "rank")         # converters to other formats know neither


def test_tensordot_errors():
    a = tf2.zeros([2, 3])
    for axes in (-1, 3, [[0]], [[0, 1], [0]]):
        with pytest.raises(ValueError):
            tf2.tensordot(a, a, axes)


@pytest.mark.parametrize("equation, shapes", [
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]), ("ab,ab,c->c", [(2, 3), (2, 3), (4,)]), ("ij,jk", [(2, 3), (3, 4)]),
    ("...ij,jk->...ik", [(5, 2, 3), (3, 2)]), ("a,ab,abc->abc", [(2,), (2, 3), (2, 3, 4)]), ("ii", [(3, 3)])])
def test_einsum_against_numpy(equation, shapes):
    xs = [R.rand(*s) for s in shapes]
    np.testing.assert_allclose(tf2.einsum(equation, *xs).numpy(), np.einsum(equation, *xs), rtol=1e-6)


def test_einsum_errors():
    a = tf2.zeros([2, 3])
    for equation, xs in (("ij,jk->ik", [a]), ("ijk->i", [a]), ("ij->il", [a]), ("i(j->i", [a]), ("ij->i->j", [a])):
        with pytest.raises(ValueError):
            tf2.einsum(equation, *xs)
    with pytest.raises(TypeError, match="invalid keyword"):
        tf2.einsum("ij->ji", a, invalid=1)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        tf2.einsum("ij,jk->ik", a, a)


def test_trace_and_cross():
    assert tf2.linalg.trace([[1., 2.], [3., 4.]]).numpy() == 5
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf2.linalg.cross([1., 2.], [3., 4.])


def test_an_ellipsis_over_axes_must_be_in_the_output():
    a, b = np.ones((2, 2, 3), np.float32), np.ones((3, 4), np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="without ellipsis"):
        tf.raw_ops.Einsum(inputs=[a, b], equation="...ij,...jk->ik")
    with tf.Graph().as_default(), pytest.raises(ValueError, match="without ellipsis"):
        tf.raw_ops.Einsum(inputs=[a, b], equation="...ij,...jk->ik")
    assert tf.raw_ops.Einsum(inputs=[a[0], b], equation="...ij,...jk->ik").shape == (2, 4)


@pytest.mark.parametrize("shape", [(2, 4, 3), None])
def test_the_gradient_sums_what_is_under_an_ellipsis(shape):
    a, w = R.rand(2, 4, 3).astype(np.float32), R.rand(3, 5).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, shape)
        weights = tf.constant(w)
        y = tf.raw_ops.Einsum(inputs=[x, weights], equation="...i,ij->...j")
        got = sess.run(tf.gradients(y, weights, grad_ys=tf.square(y))[0], {x: a})
        np.testing.assert_allclose(got, np.einsum("abi,abj->ij", a, (a @ w) ** 2), rtol=1e-5, atol=1e-6)


def test_einsum_spreads_no_dimension():
    for x in (tf.constant(R.randn(2, 1)), tf.constant(R.randn(2, 3))):
        with pytest.raises(tf.errors.InvalidArgumentError, match="label 'j', got 4"):
            tf.raw_ops.Einsum(inputs=[x, tf.constant(R.randn(4, 4))], equation="ij,jk->ik")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "complex64"])
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("batch, rows, inner, columns", [((2,), 3, 4, 5), ((3, 2), 1, 4, 1), ((0,), 3, 4, 5), ((2,), 0, 4, 5),
                                                         ((2, 2), 3, 0, 5), ((2,), 3, 4, 0), ((5,), 40, 700, 800)])
def test_a_batch_by_one_matrix(batch, rows, inner, columns, adjoint, dtype):
    """The rows of all batches are those of one product."""
    generator = np.random.RandomState(1)
    x = generator.randint(-3, 4, (*batch, rows, inner)).astype(dtype)
    y = generator.randint(-1, 2, (columns, inner) if adjoint else (inner, columns)).astype(dtype)
    if dtype == "complex64":
        x, y = x * (1 + 2j), y * (2 - 1j)
    found = tf2.matmul(x, y, adjoint_b=adjoint)
    wide = "complex128" if dtype == "complex64" else "float64"
    wanted = np.matmul(x.astype(wide), np.conj(y.T).astype(wide) if adjoint else y.astype(wide))
    assert found.shape == wanted.shape and found.dtype.name == dtype
    np.testing.assert_allclose(found.numpy().astype(wide), wanted, rtol=1e-2 if dtype == "float16" else 1e-5, atol=1e-3)


def test_a_batch_by_one_matrix_that_is_not_finite_or_not_contiguous():
    x = np.random.RandomState(2).randn(6, 5, 4).astype("f")
    x[0, 1, 2], x[3, 0, 0] = np.nan, np.inf
    y = np.random.RandomState(3).randn(6, 3).astype("f")
    with np.errstate(invalid="ignore"):
        wanted = np.transpose(x, [2, 1, 0]) @ y
    moved = tf2.function(lambda a, b: tf2.matmul(tf2.transpose(a, [2, 1, 0]), b))
    np.testing.assert_allclose(moved(x, y).numpy(), wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="size-incompatible|must be equal"):
        tf2.raw_ops.BatchMatMulV2(x=tf2.zeros([2, 3, 4]), y=tf2.zeros([5, 6]))


@pytest.mark.parametrize("adjoint", [False, True])
def test_the_gradient_of_a_matrix_for_a_whole_batch_is_one_product(adjoint):
    x, y = tf2.constant(R.randn(3, 4, 5)), tf2.constant(R.randn(*((2, 5) if adjoint else (5, 2))))

    @tf2.function
    def f(x, y):
        with tf2.GradientTape() as tape:
            tape.watch([x, y])
            loss = tf2.reduce_sum(tf2.square(tf2.matmul(x, y, adjoint_b=adjoint)))
        return tape.gradient(loss, [x, y])
    to_x, to_y = f(x, y)
    right = y.numpy().T if adjoint else y.numpy()
    grad = 2 * x.numpy() @ right
    np.testing.assert_allclose(to_x, grad @ right.T, rtol=1e-10)
    expected = np.einsum("bij,bik->jk", x.numpy(), grad)
    np.testing.assert_allclose(to_y, expected.T if adjoint else expected, rtol=1e-10)
    kinds = [op.type for op in f.get_concrete_function(x, y).graph.get_operations()]
    assert kinds.count("MatMul") == 1 and kinds.count("BatchMatMulV2") == 2


@pytest.mark.parametrize("dtype", ["int8", "bool", "int16"])
@pytest.mark.parametrize("rank", [2, 3])
def test_types_without_products(dtype, rank):
    a = tf2.ones([2] * rank, dtype)
    if (dtype, rank) == ("int16", 3):                   # products of batches have them
        assert tf2.matmul(a, a).numpy().tolist() == [[[2, 2], [2, 2]]] * 2
        return
    with pytest.raises(tf.errors.InvalidArgumentError, match="list of allowed values: bfloat16, half, float, double, int"):
        tf2.matmul(a, a)
    with tf.Graph().as_default(), pytest.raises(TypeError, match="list of allowed values: bfloat16, float16, float32"):
        tf.matmul(tf.ones([2] * rank, dtype), tf.ones([2] * rank, dtype))
