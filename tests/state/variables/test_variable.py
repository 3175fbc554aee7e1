"""Variable objects: names, collections, messages, creators, operators, both kinds in both modes."""
import copy
import pickle

import numpy as np
import pytest

import penstock
import penstock.compat.v1 as tf
from penstock._src.graph import context


@pytest.fixture
def graph():
    with tf.Graph().as_default() as g:
        yield g


@pytest.fixture(params=[False, True], ids=["ref", "resource"])
def use_resource(request, graph):
    return request.param


@pytest.fixture
def eager():
    old = context.process.eager, context.process.resource_variables, context.process.tensor_equality
    with context.enter(None):
        context.process.eager = context.process.resource_variables = context.process.tensor_equality = True
        yield
    context.process.eager, context.process.resource_variables, context.process.tensor_equality = old


def test_names_and_ops_of_a_reference_variable(graph):
    with tf.name_scope("s"):
        v = tf.Variable([1., 2.], name="v", use_resource=False)
    assert v.name == "s/v:0" and v.op.type == "VariableV2" and not hasattr(v, "handle")
    assert v.dtype == tf.float32._as_ref and v.shape == [2]
    assert [op.name for op in graph.get_operations()] == ["s/v/initial_value", "s/v", "s/v/Assign", "s/v/read"]
    assert repr(v) == "<tf.Variable 's/v:0' shape=(2,) dtype=float32_ref>"


def test_names_and_ops_of_a_resource_variable(graph):
    v = tf.Variable(lambda: tf.ones([2]), name="v", use_resource=True)
    assert v.name == "v:0" and v.op.type == "VarHandleOp" and v.op.get_attr("shared_name") == b"v"
    names = [op.name for op in graph.get_operations()]
    assert names[-4:] == ["v", "v/IsInitialized/VarIsInitializedOp", "v/Assign", "v/Read/ReadVariableOp"]
    assert v.initial_value.op.colocation_groups() == [b"loc:@v"]


def test_resource_variables_by_default_follow_the_switch(graph):
    old = context.process.resource_variables
    try:
        tf.disable_resource_variables()
        assert not hasattr(tf.Variable(1.), "handle")
        tf.enable_resource_variables()
        assert hasattr(tf.Variable(1.), "handle")
    finally:
        context.process.resource_variables = old
    assert hasattr(penstock.Variable(1.), "handle")
    assert isinstance(tf.Variable(1.), penstock.Variable)


def test_collections(use_resource):
    a = tf.Variable(1., use_resource=use_resource)
    b = tf.Variable(1., use_resource=use_resource, trainable=False)
    c = tf.Variable(1., use_resource=use_resource, collections=[tf.GraphKeys.LOCAL_VARIABLES], name="local")
    assert tf.global_variables() == [a, b] == tf.all_variables()
    assert tf.trainable_variables() == [a, c] and tf.local_variables() == [c] == tf.local_variables("loc")
    with pytest.raises(ValueError, match="must be a list, tuple, or set"):
        tf.Variable(1., collections="variables")


def test_a_constructor_says_what_is_wrong(use_resource):
    with pytest.raises(ValueError, match="initial_value must be specified"):
        tf.Variable(use_resource=use_resource)
    with pytest.raises(ValueError, match="callable"):
        tf.Variable(1., constraint=3, use_resource=use_resource)
    with pytest.raises(ValueError, match="aggregation"):
        tf.Variable(1., aggregation="nonsense", use_resource=use_resource)


def test_unknown_shapes_need_validate_shape_false(graph):
    x = tf.placeholder_with_default([1., 2.], [None])
    with pytest.raises(ValueError, match="must have a shape specified"):
        tf.Variable(x, use_resource=False)
    v = tf.Variable(x, validate_shape=False, use_resource=False)
    grow = tf.assign(v, [1., 2., 3.], validate_shape=False)
    with tf.Session() as sess:
        sess.run(v.initializer)
        assert sess.run(v.value()).shape == (2,)
        sess.run(grow.op)
        assert sess.run(v.value()).shape == (3,)


def test_initializing_from_another_variable(graph):
    w = tf.Variable(3., use_resource=False)
    v = tf.Variable(w * 2., use_resource=False)
    u = tf.Variable(w.initialized_value() + 1., use_resource=False)
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(u.initializer)
        assert sess.run([v.value(), u.value()]) == [6., 4.]
        assert sess.run(tf.report_uninitialized_variables()).tolist() == [w.op.name.encode()]


def test_load_and_eval(use_resource):
    v = tf.Variable([1., 2.], use_resource=use_resource)
    with pytest.raises(ValueError, match="session"):
        v.load([3., 4.])
    with tf.Session() as sess:
        size = len(tf.get_default_graph().get_operations())
        v.load([3., 4.], sess)
        np.testing.assert_array_equal(v.eval(), [3, 4])
        assert len(tf.get_default_graph().get_operations()) == size


def test_messages_come_back_as_the_same_variable(use_resource, graph):
    v = tf.Variable([1., 2.], name="v", use_resource=use_resource, trainable=False)
    message = v.to_proto()
    assert message.variable_name == "v:0" and message.is_resource == use_resource and not message.trainable
    again = tf.Variable.from_proto(message)
    assert again.name == v.name and again.shape == v.shape and hasattr(again, "handle") == use_resource
    with tf.Session() as sess:
        sess.run(again.initializer)
        np.testing.assert_array_equal(sess.run(v.value()), [1, 2])
    assert v.to_proto(export_scope="elsewhere") is None


def test_scoped_messages(use_resource, graph):
    with tf.name_scope("outer"):
        v = tf.Variable(1., name="v", use_resource=use_resource)
    message = v.to_proto(export_scope="outer")
    assert message.variable_name == "v:0"
    assert tf.Variable.from_proto(message, import_scope="outer").name == "outer/v:0"


def test_creators_see_and_change_arguments(graph):
    seen = []

    def outer(following, **kwargs):
        seen.append(("outer", kwargs["name"]))
        return following(**kwargs)

    def inner(following, **kwargs):
        seen.append(("inner", kwargs["name"]))
        return following(**{**kwargs, "name": "changed"})
    with tf.variable_creator_scope(outer), tf.variable_creator_scope(inner):
        v = tf.Variable(1., name="v")
    assert seen == [("inner", "v"), ("outer", "changed")] and v.name == "changed:0"
    assert tf.Variable(1., name="w").name == "w:0"


def test_operators(use_resource):
    v = tf.Variable([4., 9.], use_resource=use_resource)
    m = tf.Variable([[1., 2.], [3., 4.]], use_resource=use_resource)
    b = tf.Variable([True, False], use_resource=use_resource)
    x = np.array([4., 9.], np.float32)
    pairs = [(v + 1., x + 1), (1. + v, 1 + x), (v - 1., x - 1), (1. - v, 1 - x), (v * 2., x * 2), (2. / v, 2 / x),
             (v // 2., x // 2), (v % 5., x % 5), (v ** 2., x ** 2), (2. ** v, 2 ** x), (-v, -x), (abs(-v), x),
             (v < 5., x < 5), (v >= 9., x >= 9), (v[1], x[1]), (v[::-1], x[::-1]), (m @ m, [[7, 10], [15, 22]]),
             (~b, [False, True]), (b & True, [True, False]), (b ^ True, [False, True])]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for found, want in pairs:
            np.testing.assert_allclose(sess.run(found), want, rtol=1e-6)
    with pytest.raises(TypeError, match="not iterable"):
        iter(v)


def test_an_update_can_be_waited_for_without_a_read(graph):
    v = tf.Variable(1., use_resource=True)
    done = tf.group(v.assign_add(1.))
    assert [op.type for op in done.control_inputs] == ["AssignAddVariableOp"]
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(done)
        assert sess.run(v.assign_add(1.)) == 3.


def test_sparse_updates_by_methods(use_resource):
    v = tf.Variable(np.ones((3, 2), np.float32), use_resource=use_resource)
    rows = tf.IndexedSlices(tf.constant([[2., 3.]]), tf.constant([1]))
    with tf.Session() as sess:
        for name, want in (("scatter_add", [3, 4]), ("scatter_sub", [-1, -2]), ("scatter_mul", [2, 3]),
                           ("scatter_div", [1 / 2, 1 / 3]), ("scatter_min", [1, 1]), ("scatter_max", [2, 3]),
                           ("scatter_update", [2, 3])):
            sess.run(v.initializer)
            change = getattr(v, name)(rows)
            sess.run(change.op)
            np.testing.assert_allclose(sess.run(v.value())[1], want, rtol=1e-6)
            np.testing.assert_array_equal(sess.run(v.value())[::2], np.ones((2, 2)))
            with pytest.raises(TypeError, match="is not IndexedSlices"):
                getattr(v, name)([1.])


def test_batch_scatter_update(use_resource):
    v = tf.Variable(np.zeros((2, 3, 2), np.float32), use_resource=use_resource)
    change = tf.batch_scatter_update(v, [[0, 2], [1, 0]], tf.constant(np.arange(8, dtype=np.float32).reshape(2, 2, 2)))
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(change.op)
        np.testing.assert_array_equal(sess.run(v.value()), [[[0, 1], [0, 0], [2, 3]], [[6, 7], [4, 5], [0, 0]]])


def test_batch_scatter_update_without_a_batch(use_resource):
    v = tf.Variable([1., 2., 3.], use_resource=use_resource)
    change = tf.batch_scatter_update(v, [2, 0], [7., 8.])
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(change.op)
        np.testing.assert_array_equal(sess.run(v.value()), [8., 2., 7.])


def test_eager_variables(eager):
    v = penstock.Variable([1., 2.], name="v")
    assert v.name == "v:0" and v.trainable
    assert repr(v) == "<tf.Variable 'v:0' shape=(2,) dtype=float32, numpy=array([1., 2.], dtype=float32)>"
    v.assign_add([1., 1.])
    old = v.value()
    v[0].assign(10.)
    np.testing.assert_array_equal(old.numpy(), [2, 3])
    np.testing.assert_array_equal(v.numpy(), [10, 3])
    v.scatter_nd_add([[1]], [5.])
    np.testing.assert_array_equal(v.numpy(), [10, 8])
    assert int(penstock.Variable(3)) == 3 and bool(penstock.Variable(True))
    with pytest.raises(ValueError, match="incompatible"):
        v.assign([1.])
    with pytest.raises(TypeError, match="unhashable"):
        hash(v)
    assert {v.ref(): 1}[v.ref()] == 1
    assert (v == v).numpy().tolist() == [True, True]


def test_eager_copies_are_independent(eager):
    v = penstock.Variable([1., 2.], trainable=False)
    for other in (copy.deepcopy(v), pickle.loads(pickle.dumps(v))):
        other.assign([5., 5.])
        assert not other.trainable
        np.testing.assert_array_equal(v.numpy(), [1, 2])


def test_tape_watches_trainable_variables(eager):
    v, frozen = penstock.Variable(3.), penstock.Variable(2., trainable=False)
    with penstock.GradientTape() as tape:
        y = v * v * frozen
    assert [id(w) for w in tape.watched_variables()] == [id(v)]
    assert tape.gradient(y, v).numpy() == 12.


def test_a_function_changes_the_variable_it_captures(eager):
    v = penstock.Variable([1., 2.])

    @penstock.function
    def step(x):
        v.assign_add(x)
        return v * 2.
    np.testing.assert_array_equal(step(penstock.constant([1., 1.])).numpy(), [4, 6])
    np.testing.assert_array_equal(step(penstock.constant([1., 1.])).numpy(), [6, 8])
    np.testing.assert_array_equal(v.numpy(), [3, 4])


def test_a_variable_per_worker_is_plain_where_there_is_one_worker(eager):
    v = penstock.Variable([1, 2], per_worker_variable=True)
    np.testing.assert_array_equal(v.assign_add([1, 1]), [2, 3])


def test_what_eager_scatter_functions_return_has_no_operation(eager):
    v = penstock.Variable([[1.0, 2.0], [3.0, 4.0]])
    assert not hasattr(v, "op")
    for update in (tf.scatter_update, tf.scatter_add):
        done = update(v, [0], [[5.0, 6.0]])
        assert done.op is None and isinstance(done, penstock.Variable) and not hasattr(v, "op")
    np.testing.assert_array_equal(done.numpy(), [[10, 12], [3, 4]])
    done.assign_add([[1.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(v.numpy(), [[11, 13], [4, 5]])
    slices = penstock.IndexedSlices(penstock.constant([[9.0]]), penstock.constant([[1]]))
    rows = penstock.Variable([[1.0, 2.0]])
    np.testing.assert_array_equal(rows.batch_scatter_update(slices), [[1, 9]])


@pytest.mark.parametrize("field, name", [("variable_name", "v"), ("variable_name", "v/Assign"), ("snapshot_name", "v/Assign"),
                                         ("initial_value_name", "v/Assign")])
def test_a_message_that_names_operations_for_tensors(use_resource, graph, field, name):
    message = tf.Variable(1.0, name="v", use_resource=use_resource).to_proto()
    setattr(message, field, name)
    with pytest.raises((ValueError, KeyError)):
        tf.Variable.from_proto(message)


def test_a_message_whose_snapshot_does_not_read_the_variable(graph):
    message = tf.Variable(1.0, name="v", use_resource=True).to_proto()
    message.snapshot_name = tf.constant(3.0, name="other").name
    with pytest.raises(ValueError, match="not a value of variable"):
        tf.Variable.from_proto(message)


def test_updates_of_eager_variables_are_shown_as_in_tensorflow(eager):
    v = penstock.Variable([1.0, 2.0], name="v")
    update = v.assign_add([1.0, 1.0])
    assert repr(update) == "<tf.Variable 'UnreadVariable' shape=(2,) dtype=float32, numpy=array([2., 3.], dtype=float32)>"
    assert isinstance(update, penstock.Variable) and update is not v and repr(v).startswith("<tf.Variable 'v:0'")
    with penstock.GradientTape() as tape:
        again = v.assign([3.0, 4.0])
        y = penstock.reduce_sum(again * again)
    assert tape.gradient(y, v).numpy().tolist() == [6.0, 8.0]
    again.assign([0.0, 0.0])
    assert v.numpy().tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match=r"Cannot assign value to variable 'v:0': Shape mismatch.*\(2,\).*\(3,\)"):
        v.assign([1.0, 2.0, 3.0])
