"""Ops that hand work to others are moved right behind what they wait for."""
import penstock.compat.v1 as tf
from penstock._src.ops.registry import get
from penstock._src.step.ir import StepGraph
from penstock._src.step.optimize.early import advance_early


def test_starts_move_forward_and_keep_their_order():
    with tf.Graph().as_default() as graph:
        a = tf.constant([1.0], name="a")
        b = tf.negative(a, name="b")
        c = tf.negative(b, name="c")
        d = tf.negative(c, name="d")
        group = {"group_size": 2, "group_key": 1}
        first = get("_WorkersStart")([c], number=1, name="first", **group)
        with tf.control_dependencies([first.op]):
            second = get("_WorkersStart")([b], number=0, name="second", **group)
        ops = graph.get_operations()
        step = StepGraph(ops, [d], [first.op, second.op], [])
        advance_early(step)
    assert [op.name for op in step.ops] == ["a", "b", "c", "first", "second", "d"]
