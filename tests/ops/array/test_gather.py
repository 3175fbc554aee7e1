"""Gathers and scatters: checks of indices, sparse gradients, batches."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf


@pytest.fixture
def graph():
    with tf.Graph().as_default() as g:
        yield g


@pytest.mark.parametrize("indices, text", [([1, 7], r"indices\[1\] = 7 is not in \[0, 5\)"), (-1, "indices = -1 is not in"),
                                           ([[0, 5]], r"indices\[0,1\] = 5 is not in")])
def test_gather_checks_indices(indices, text):
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        tf2.gather([1, 2, 3, 4, 5], indices)


@pytest.mark.parametrize("bad", [5, -1])
def test_a_step_checks_indices_of_rows(graph, bad):
    table = tf.placeholder_with_default(np.eye(5, dtype=np.float32), [5, 5])
    rows = tf.gather(table, tf.placeholder(tf.int32, [None], name="at"))
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(rows, {"at:0": [4, 0]}), np.eye(5)[[4, 0]])
        assert sess.run(rows, {"at:0": []}).shape == (0, 5)
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"indices\[1\] = {bad} is not in \[0, 5\)"):
            sess.run(rows, {"at:0": [0, bad]})


def test_many_indices_are_checked_too():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[42\] = 5"):
        tf2.gather([1, 2, 3, 4, 5], [0] * 42 + [5] + [0] * 20)


def test_gradient_of_rows_is_sparse(graph):
    x = tf.placeholder(tf.float32, [None, 3])
    grad = tf.gradients(tf.gather(x, [[1, 2], [1, 0]]), x)[0]
    assert isinstance(grad, tf.IndexedSlices)
    with tf.Session() as sess:
        found = sess.run(tf.convert_to_tensor(grad), {x: np.ones([4, 3])})
    np.testing.assert_array_equal(found[:, 0], [1, 2, 1, 0])


@pytest.mark.parametrize("axis, batch_dims, rows", [(1, 0, [3]), (2, 0, [2, 2]), (1, 1, [2, 4]), (2, 1, [2, 3]),
                                                    (2, 2, [2, 3, 2]), (-1, -1, [2, 3, 2])])
def test_gradient_inside_a_tensor(axis, batch_dims, rows, graph):
    rng = np.random.RandomState(1)
    value, index = rng.rand(2, 3, 4), rng.randint(0, 3, rows)
    for dims in ([2, 3, 4], None):
        x = tf.placeholder(tf.float64, dims)
        y = tf.gather(x, tf.placeholder_with_default(index, rows if dims else None), axis=axis, batch_dims=batch_dims) \
            if batch_dims >= 0 or dims else None
        if y is None:
            continue
        loss = tf.reduce_sum(y * y)
        with tf.Session() as sess:
            grad = sess.run(tf.gradients(loss, x)[0], {x: value})
            moved = np.copy(value)
            moved[1, 1, 1] += 1e-6
            slope = (sess.run(loss, {x: moved}) - sess.run(loss, {x: value})) / 1e-6
        assert abs(slope - grad[1, 1, 1]) < 1e-4


def test_batch_gather_nd():
    x = np.arange(24).reshape(2, 3, 4)
    index = np.array([[[0, 1]], [[2, 3]]])
    np.testing.assert_array_equal(tf2.gather_nd(x, index, batch_dims=1), [[x[0, 0, 1]], [x[1, 2, 3]]])
    with pytest.raises(ValueError, match="negative"):
        tf2.gather_nd(x, index, batch_dims=-1)


def test_gather_nd_checks_rows():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = \[2, 0\] does not index into param shape"):
        tf2.gather_nd(np.ones([2, 2]), [[0, 0], [2, 0]])


def test_scatter_nd():
    np.testing.assert_array_equal(tf2.scatter_nd([[1], [1]], [[1, 2], [3, 4]], [3, 2]), [[0, 0], [4, 6], [0, 0]])
    assert tf2.scatter_nd([[1], [1]], ["a", "b"], [2]).numpy().tolist() == [b"", b"ab"]
    assert tf2.scatter_nd([[0]], [True], [2]).numpy().tolist() == [True, False]
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not index into"):
        tf2.scatter_nd([[3]], [1], [3])
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf2.scatter_nd([[0]], [1, 2], [3])


def test_scatter_shapes_at_construction(graph):
    with pytest.raises(ValueError, match="must match dimensions"):
        tf.scatter_nd([[0], [1]], [1], [3])


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64", "bool", "float16", "bfloat16", "complex64", "int8"])
def test_every_type_moves(dtype):
    x = tf2.cast([[1, 0], [0, 1], [1, 1]], dtype)
    wanted = tf2.cast([[1, 1], [1, 0]], dtype).numpy()
    np.testing.assert_array_equal(tf2.gather(x, [2, 0]), wanted)
    np.testing.assert_array_equal(tf2.gather_nd(x, [[2], [0]]), wanted)
    np.testing.assert_array_equal(tf2.reverse(tf2.concat([x[:1], x[2:]], 0), [0]), wanted)
    np.testing.assert_array_equal(tf2.tensor_scatter_nd_update(tf2.zeros_like(x)[:2], [[0], [1]], wanted), wanted)
    np.testing.assert_array_equal(tf2.gather([x], [[2, 0]], axis=1, batch_dims=1)[0], wanted)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("bad", [-1, 7])
def test_an_index_beyond_any_axis_is_named(axis, bad):
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"indices\[0,0\] = {bad} is not in \[0, {[2, 3][axis]}\)"):
        tf.gather([[0, 1, 2], [3, 4, 5]], [[bad]], axis=axis)


@pytest.mark.parametrize("name, expected", [("add", [1, 7]), ("sub", [1, -3]), ("min", [1, 2]), ("max", [1, 5])])
def test_scatters_leave_out_bad_coordinates_if_asked(name, expected):
    """Also in gradients: what is left out has none."""
    call = getattr(tf2, f"tensor_scatter_nd_{name}")
    tensor, updates = tf2.constant([1., 2.]), tf2.constant([5., 9.])
    with tf2.GradientTape() as tape:
        tape.watch([tensor, updates])
        out = call(tensor, [[1], [4]], updates, bad_indices_policy="IGNORE")
    np.testing.assert_array_equal(out, expected)
    of_tensor, of_updates = tape.gradient(out, [tensor, updates])
    assert of_updates[1] == 0
    np.testing.assert_array_equal(of_tensor + [0, abs(of_updates[0])] if name in ("min", "max") else of_tensor, [1, 1])
    with pytest.raises(tf2.errors.InvalidArgumentError):
        call(tensor, [[1], [4]], updates)
    with pytest.raises(tf2.errors.InvalidArgumentError, match="policy"):
        call(tensor, [[1]], updates[:1], bad_indices_policy="perhaps")


def test_rows_of_a_tensor_are_a_list_in_eager_execution():
    rows = tf2.constant([[5, 6], [7, 8]])
    np.testing.assert_array_equal(tf2.dynamic_stitch([1, 0], rows), [[7, 8], [5, 6]])
    assert [t.numpy().tolist() for t in tf2.identity_n(rows)] == [[5, 6], [7, 8]]
