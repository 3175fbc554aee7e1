"""tf.contrib.graph_editor: what ops depend on, and what depends on them."""
import pytest

import penstock.compat.v1 as tf


def names(ops):
    return {op.name for op in ops}


def test_walks():
    ge = tf.contrib.graph_editor
    a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
    c = tf.add(a, b, name="c")
    with tf.control_dependencies([b]):
        d = tf.negative(c, name="d")
    e = tf.square(d, name="e")
    assert names(ge.get_backward_walk_ops(d.op)) == {"a", "b", "c", "d"}
    assert names(ge.get_backward_walk_ops([d], inclusive=False)) == {"a", "b", "c"}
    assert names(ge.get_backward_walk_ops(e.op, stop_at_ts=[c])) == {"d", "e"}
    assert names(ge.get_backward_walk_ops(e.op, stop_at_ts=[c], control_inputs=True)) == {"b", "d", "e"}
    assert names(ge.get_backward_walk_ops(e.op, within_ops=[e.op, d.op])) == {"d", "e"}
    assert names(ge.get_forward_walk_ops(a.op)) == {"a", "c", "d", "e"}
    assert names(ge.get_forward_walk_ops([c], inclusive=False)) == {"e"}              # of a tensor, its users are the seeds
    assert names(ge.get_forward_walk_ops(a.op, within_ops_fn=lambda op: op.name != "d")) == {"a", "c"}
    assert names(ge.get_consuming_ops([a, c])) == {"c", "d"} and names(ge.get_generating_ops(e)) == {"e"}
    assert ge.make_list_of_op(tf.get_default_graph()) == tf.get_default_graph().get_operations()
    with pytest.raises(TypeError, match="Expected a tf.Operation"):
        ge.make_list_of_op([a])
