"""wrap_function: v1 code as a function, with its own variables, and functions cut out of it."""
import numpy as np
import pytest

import penstock
import penstock.compat.v1 as tf
from penstock._src.graph import context


@pytest.fixture(autouse=True)
def eager():
    with context.enter(None):
        yield


def test_variables_are_made_once_and_kept():
    def count(x):
        with tf.variable_scope("s"):
            v = tf.get_variable("v", [], initializer=tf.ones_initializer(), use_resource=True)
        with tf.control_dependencies([v.assign_add(x)]):
            return v.read_value() * 2.
    f = tf.wrap_function(count, [tf.TensorSpec([], tf.float32)])
    assert [v.name for v in f.variables] == ["s/v:0"]
    assert [v.name for v in f.graph.get_collection("trainable_variables")] == ["s/v:0"]
    assert [f(penstock.constant(x)).numpy() for x in (1., 2.)] == [4., 8.]
    assert f.variables[0].numpy() == 4.


def test_every_wrapped_function_has_its_own_scopes():
    def make():
        return tf.get_variable("same", [2]).name and tf.constant(1.)
    for _ in range(2):
        assert [v.name for v in tf.wrap_function(make, []).variables] == ["same:0"]


def test_initial_values_may_be_tensors():
    f = tf.wrap_function(lambda: tf.Variable(tf.constant([1., 2.]) * 3., name="v") + 1., [])
    np.testing.assert_array_equal(f().numpy(), [4, 7])


def test_prune():
    def two(x):
        y = tf.add(x, 1., name="y")
        v = tf.Variable(10., name="v", use_resource=True)
        tf.identity(v.assign_add(y).op.inputs[1], name="z")
        return tf.multiply(y, v, name="product")
    f = tf.wrap_function(two, [tf.TensorSpec([], tf.float32)])
    g = f.graph
    part = f.prune("y:0", {"out": "product:0"})
    assert part(penstock.constant(3.))["out"].numpy() == 30.
    step = f.prune(g.inputs[0], "y:0")
    assert step(penstock.constant(1.)).numpy() == 2.
    with pytest.raises(ValueError, match="function's graph"):
        f.prune([], step.graph.outputs[0])


def test_operations_just_run():
    v = penstock.Variable(1.)
    f = tf.wrap_function(lambda: v.assign_add(2.).op, [])
    assert f() is None
    assert v.numpy() == 3.
    only = f.prune([], f.graph.control_outputs[0])
    only()
    assert v.numpy() == 5.


def test_variables_by_name():
    f = tf.wrap_function(lambda: (tf.Variable(0, name="v"), tf.Variable(1, name="v")), [])
    assert {v.name: int(v.numpy()) for v in f._variable_holder.variables.values()} == {"v:0": 0, "v_1:0": 1}


def test_executors_by_name():
    double = penstock.function(lambda x: x * 2)
    for name in (None, "", "DEFAULT"):
        with penstock.experimental.function_executor_type(name):
            assert double(penstock.constant(2)).numpy() == 4
    with pytest.raises(tf.errors.NotFoundError, match="NO_SUCH"), penstock.experimental.function_executor_type("NO_SUCH"):
        double(penstock.constant(2))
