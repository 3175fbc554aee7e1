"""Variables at run time: initialization, aliasing, updates in place, wrong arguments, threads."""
import threading

import numpy as np
import pytest
import torch

import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.ops.registry import get
from penstock._src.ops.state.state import VariableResource
from tests.checks import raises_op


@pytest.fixture(params=[False, True], ids=["ref", "resource"])
def use_resource(request):
    with tf.Graph().as_default():
        yield request.param


@pytest.fixture
def sess(use_resource):
    with tf.Session() as s:
        yield s


def variable(value, use_resource, **kwargs):
    return tf.Variable(value, use_resource=use_resource, name="v", **kwargs)


def resource_of(sess, name="v"):
    return next(r for (_, n, _), r in sess._resources.items() if n == name)


def test_reading_before_initialization_names_the_variable(use_resource, sess):
    v = variable([1., 2.], use_resource)
    with pytest.raises(tf.errors.FailedPreconditionError, match="v"):
        sess.run(v + 1.)
    sess.run(v.initializer)
    np.testing.assert_array_equal(sess.run(v + 1.), [2, 3])


def test_updates_come_in_the_order_of_control_dependencies(use_resource, sess):
    v = variable(1., use_resource)
    before = tf.identity(v)
    with tf.control_dependencies([before]):
        add = v.assign_add(2.)
    with tf.control_dependencies([add]):
        double = v.assign(v.read_value() * 10.)
    with tf.control_dependencies([double]):
        after = v.read_value()
    sess.run(v.initializer)
    assert sess.run([before, after]) == [1., 30.]


def test_only_the_value_of_a_resource_does_not_change_once_it_is_read(use_resource, sess):
    """That of a reference is the variable's memory, as in TensorFlow: what waits for an update uses the new value."""
    v = variable(np.zeros(4, np.float32), use_resource)
    old = v.read_value()
    with tf.control_dependencies([old]):
        change = v.assign_add(np.ones(4, np.float32))
    with tf.control_dependencies([change]):
        kept = tf.identity(old)
    sess.run(v.initializer)
    kept_value, new = sess.run([kept, change])
    np.testing.assert_array_equal(kept_value, np.zeros(4) if use_resource else np.ones(4))
    np.testing.assert_array_equal(new, np.ones(4))


def test_a_fetched_array_is_not_the_storage(use_resource, sess):
    v = variable(np.zeros(3, np.float32), use_resource)
    sess.run(v.initializer)
    fetched = sess.run(v.value())
    sess.run(v.assign_add(np.ones(3, np.float32)).op)
    np.testing.assert_array_equal(fetched, np.zeros(3))
    fetched[:] = 7
    np.testing.assert_array_equal(sess.run(v.value()), np.ones(3))


def test_a_fed_array_is_not_the_storage(use_resource, sess):
    v = variable(np.zeros(3, np.float32), use_resource)
    x = tf.placeholder(tf.float32, [3])
    set_v = v.assign(x).op
    fed = np.ones(3, np.float32)
    sess.run(set_v, {x: fed})
    sess.run(v.assign_add(fed).op)
    np.testing.assert_array_equal(fed, np.ones(3))


def test_updates_are_in_place_when_nobody_else_holds_the_value(use_resource, sess):
    v = variable(np.zeros((100, 100), np.float32), use_resource)
    step = tf.train.GradientDescentOptimizer(1.).minimize(tf.reduce_sum(v.read_value() * 2.))
    sess.run(v.initializer)
    at = resource_of(sess).value.data_ptr()
    for _ in range(3):
        sess.run(step)
    assert resource_of(sess).value.data_ptr() == at
    np.testing.assert_array_equal(sess.run(v.value()), np.full((100, 100), -6.))


@pytest.mark.parametrize("change", ["assign_add", "assign_sub"])
def test_no_update_is_lost_between_threads(use_resource, sess, change):
    v = variable(np.zeros(1000, np.float32), use_resource)
    step = getattr(v, change)(np.ones(1000, np.float32)).op
    sess.run(v.initializer)
    threads = [threading.Thread(target=lambda: [sess.run(step) for _ in range(50)]) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_array_equal(np.abs(sess.run(v.value())), np.full(1000, 200.))


def test_count_up_to(use_resource, sess):
    v = variable(0, use_resource)
    step = v.count_up_to(2)
    sess.run(v.initializer)
    assert [sess.run(step), sess.run(step)] == [0, 1]
    with pytest.raises(tf.errors.OutOfRangeError, match="Reached limit of 2"):
        sess.run(step)
    assert sess.run(v.value()) == 2


def test_wrong_shapes_are_refused(use_resource, sess):
    v = variable([1., 2.], use_resource)
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)|\(3,\).*\(2,\)"):
        v.assign([1., 2., 3.])
    x = tf.placeholder(tf.float32)
    sess.run(v.initializer)
    for change in (v.assign(x), v.assign_add(x)):
        with raises_op(tf.errors.InvalidArgumentError, r"shape.*\[2\].*\[3\]"):
            sess.run(change.op, {x: [1., 2., 3.]})
    np.testing.assert_array_equal(sess.run(v.value()), [1, 2])


@pytest.mark.parametrize("name", ["scatter_update", "scatter_add", "scatter_mul", "scatter_div", "scatter_min"])
def test_rows_out_of_range_change_nothing(use_resource, sess, name):
    v = variable(np.ones((3, 2), np.float32), use_resource)
    i = tf.placeholder(tf.int32)
    change = getattr(tf, name)(v, i, 5.).op
    sess.run(v.initializer)
    for bad in ([0, 3], [-1], [2**31 - 1]):
        with raises_op(tf.errors.InvalidArgumentError, r"indices\[\d\] = -?\d+ is not in \[0, 3\)"):
            sess.run(change, {i: bad})
    np.testing.assert_array_equal(sess.run(v.value()), np.ones((3, 2)))
    sess.run(change, {i: np.zeros([0], np.int32)})


def test_integer_division_by_zero_is_an_error(use_resource, sess):
    v = variable([4, 6], use_resource)
    sess.run(v.initializer)
    with raises_op(tf.errors.InvalidArgumentError, "division by zero"):
        sess.run(tf.scatter_div(v, [0], [0]).op)


def test_scatter_nd_checks_coordinates(use_resource, sess):
    v = variable(np.ones((3, 2), np.float32), use_resource)
    i = tf.placeholder(tf.int32, [None, 2])
    change = tf.scatter_nd_update(v, i, [5.]).op
    sess.run(v.initializer)
    with raises_op(tf.errors.InvalidArgumentError, r"indices\[0\] = \[1, 2\] does not index into"):
        sess.run(change, {i: [[1, 2]]})


def test_slices_are_assigned_in_place(use_resource, sess):
    v = variable(np.arange(12, dtype=np.float32).reshape(3, 4), use_resource)
    change = v[1:, ::2].assign(np.full((2, 2), -1, np.float32))
    sess.run(v.initializer)
    sess.run(change.op)
    want = np.arange(12, dtype=np.float32).reshape(3, 4)
    want[1:, ::2] = -1
    np.testing.assert_array_equal(sess.run(v.value()), want)
    with pytest.raises(AttributeError, match="no attribute 'assign'"):
        tf.constant([1., 2.])[0].assign(3.)


def test_strings_can_be_held(use_resource, sess):
    v = variable(["a", "b"], use_resource)
    sess.run(v.initializer)
    sess.run(v.assign(["c", "d"]).op)
    assert sess.run(v.value()).tolist() == [b"c", b"d"]
    sess.run(tf.scatter_update(v, [0], ["e"]).op)
    assert sess.run(v.value()).tolist() == [b"e", b"d"]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int64", "complex64", "float16",
                                   "bfloat16"])
def test_dtypes(use_resource, sess, dtype):
    dtype = tf.as_dtype(dtype)
    v = variable(tf.cast([1, 0, 1], dtype), use_resource)
    sess.run(v.initializer)
    assert sess.run(v.value()).dtype == dtype.as_numpy_dtype
    if dtype != tf.bool:
        sess.run(v.assign_add(tf.cast([1, 1, 1], dtype)).op)
        np.testing.assert_array_equal(sess.run(v.value()).astype(np.complex64), [2, 1, 2])


def test_sessions_do_not_share_values(use_resource):
    v = variable(1., use_resource)
    with tf.Session() as a, tf.Session() as b:
        a.run(v.initializer)
        assert a.run(v.value()) == 1.
        with pytest.raises(tf.errors.FailedPreconditionError):
            b.run(v.value())


def test_gradients_of_rows_are_sparse():
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(np.ones((4, 2), np.float32), use_resource=True)
        y = tf.reduce_sum(v.sparse_read([1, 1, 3]) * 2.)
        (g,) = tf.gradients(y, [v])
        assert isinstance(g, tf.IndexedSlices)
        sess.run(v.initializer)
        np.testing.assert_array_equal(sess.run(tf.convert_to_tensor(g)), [[0, 0], [4, 4], [0, 0], [2, 2]])


def test_gradients_of_batched_rows():
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(np.arange(12, dtype=np.float32).reshape(2, 3, 2), use_resource=True)
        rows = get("ResourceGather")(v.handle, [[2, 2], [0, 1]], dtype=tf.float32, batch_dims=1)
        (g,) = tf.gradients(rows, [v], [np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], np.float32)])
        sess.run(v.initializer)
        np.testing.assert_array_equal(sess.run(g), [[[0, 0], [0, 0], [4, 6]], [[5, 6], [7, 8], [0, 0]]])


def test_gradients_of_coordinates():
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(np.ones((3, 2), np.float32), use_resource=True)
        (g,) = tf.gradients(v.gather_nd([[0, 1], [2, 0], [0, 1]]), [v])
        sess.run(v.initializer)
        np.testing.assert_array_equal(sess.run(g), [[0, 2], [0, 0], [1, 0]])


def test_temporary_variables_live_for_one_step():
    with tf.Graph().as_default(), tf.Session() as sess:
        ref = get("TemporaryVariable")(shape=[2], dtype=tf.float32, var_name="t")
        filled = tf.assign_add(tf.assign(ref, [4., 5.]), [1., 1.])
        out = get("DestroyTemporaryVariable")(filled, var_name="t")
        for _ in range(2):
            np.testing.assert_array_equal(sess.run(out), [5, 6])
        lost = get("DestroyTemporaryVariable")(get("TemporaryVariable")(shape=[], dtype=tf.float32, var_name="a"),
                                               var_name="b")
        with pytest.raises(tf.errors.NotFoundError):
            sess.run(lost)


def test_a_plain_tensor_is_no_reference():
    with tf.Graph().as_default():
        with pytest.raises(TypeError, match="mutable tensor"):
            get("Assign")(tf.constant(1.), 2.)


def test_reference_ops_do_not_run_eagerly():
    with context.enter(None), pytest.raises(RuntimeError, match="does not support eager execution"):
        get("VariableV2")(shape=[], dtype=tf.float32)


def test_handles_of_wrong_type_are_refused():
    with tf.Graph().as_default(), tf.Session() as sess:
        handle = get("VarHandleOp")(shape=[], dtype=tf.float32, shared_name="x")
        sess.run(get("AssignVariableOp")(handle, 1.))
        with raises_op(tf.errors.InvalidArgumentError, "wrong dtype"):
            sess.run(get("ReadVariableOp")(handle, dtype=tf.int32))
        with pytest.raises(tf.errors.InvalidArgumentError, match="resource x .* expected dtype int32, found float32"):
            sess.run(get("ReadVariableOp")(get("VarHandleOp")(shape=[], dtype=tf.int32, shared_name="x"), dtype=tf.int32))


def test_eager_handles_without_a_name_are_separate():
    with context.enter(None):
        a, b = (get("VarHandleOp")(shape=[], dtype=tf.float32) for _ in range(2))
        get("AssignVariableOp")(a, 1.)
        assert not get("VarIsInitializedOp")(b)
        get("DestroyResourceOp")(a)
        with pytest.raises(tf.errors.FailedPreconditionError):
            get("ReadVariableOp")(a, dtype=tf.float32)


def test_writable_copies_only_what_is_shared():
    held = VariableResource("x", tf.float32, (2,), torch.zeros(2))
    at = held.value.data_ptr()
    assert held.writable().data_ptr() == at
    alias = held.read()
    held.writable().add_(1)
    assert held.value.data_ptr() != at
    assert alias.tolist() == [0, 0] and held.value.tolist() == [1, 1]
    view = held.value[:1]
    held.writable().add_(1)
    assert view.tolist() == [1] and held.value.tolist() == [2, 2]
