"""The passes in their order: switches, and what no pass may do."""
import pytest

import penstock.compat.v1 as tf
from penstock._src.step.optimize.options import ALL, NONE, options_of

from .steps import config, types


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def test_every_pass_has_its_switch():
    x = tf.placeholder(tf.float32, [2])
    y = tf.exp(tf.identity(x)) + tf.exp(tf.identity(x)) * (tf.constant(1.) + tf.constant(2.))
    feeds = [x]
    assert types(y, feeds, all=False).count("Identity") == 2
    assert "Identity" not in types(y, feeds)
    assert types(y, feeds, arithmetic_optimization=False).count("Exp") == 1
    assert types(y, feeds, constant_folding=False).count("AddV2") == 2
    assert types(y, feeds).count("AddV2") == 1


def test_options_of_sessions():
    assert options_of(None) == ALL and options_of(config(all=False)) == NONE
    made = tf.ConfigProto()
    made.graph_options.optimizer_options.opt_level = -1       # L0
    chosen = options_of(made)
    assert not chosen.constant_folding and not chosen.common_subexpressions and chosen.dependency_optimization
    made.graph_options.optimizer_options.do_constant_folding = True
    assert options_of(made).constant_folding


def test_the_graph_is_not_changed_and_errors_name_its_ops():
    x = tf.placeholder(tf.float32, None)
    y = tf.identity(tf.reshape(x, [2 + 1], name="here")) + 1.
    before = tf.get_default_graph().as_graph_def().SerializeToString(deterministic=True)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="here") as e:
        sess.run(y, {x: [1.]})
    assert e.value.op is tf.get_default_graph().get_operation_by_name("here")
    assert tf.get_default_graph().as_graph_def().SerializeToString(deterministic=True) == before


def test_many_products_with_one_matrix_are_all_fused():
    x, w, b = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [3, 3]), tf.placeholder(tf.float32, [3])
    sums = [tf.nn.relu(tf.matmul(x * float(i), w) + b) for i in range(50)]
    found = types([tf.add_n(sums)], [x, w, b])
    assert found.count("_FusedMatMul") == 50 and not {"MatMul", "Relu", "BiasAdd"} & set(found)
