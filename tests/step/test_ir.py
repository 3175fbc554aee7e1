"""The representation of a step: imported from the user's graph, printable, verified."""
import pathlib
import re

import pytest

import penstock.compat.v1 as tf
from penstock._src.graph.prune import needed
from penstock._src.ops.registry import get
from penstock._src.step import ir
from penstock._src.step.optimize import pipeline


@pytest.fixture
def graph():
    with tf.Graph().as_default() as g:
        yield g


def imported(fetches, feeds=(), targets=()):
    return ir.StepGraph(needed(fetches, targets, {id(t) for t in feeds}), list(fetches), list(targets), list(feeds))


def test_import_leaves_the_graph_alone(graph):
    x = tf.placeholder(tf.float32, [2, None], name="x")
    y = tf.add(x, 1.0, name="y")
    before = graph.as_graph_def()
    step = imported([y], [x])
    node = step.fetches[0].op
    node.attrs = {}
    node.inputs[0].static_dims = (2, 3)
    node.set_input(0, node.inputs[1])
    node.device = "/gpu:0"
    assert graph.as_graph_def() == before and x.shape.as_list() == [2, None] and y.op.inputs[0] is x and y.op.device == ""
    assert node.origin is y.op and node.node_def == y.op.node_def


def test_nodes_have_no_other_attributes(graph):
    node = imported([tf.constant(1.0)]).ops[0]
    for thing in (node, node.outputs[0]):
        with pytest.raises(AttributeError):
            thing.colour = "red"


def test_text(graph):
    x = tf.placeholder(tf.float32, [2, None], name="x")
    with tf.control_dependencies([tf.no_op(name="first")]), tf.device("/cpu:0"):
        y = tf.negative(x, name="y")
    step = imported([y], [x], [y.op])
    assert str(step).splitlines() == [
        "feed x:0 float32[2,?]", "first = NoOp()", "y:0 float32[2,?] = Neg(x:0, ^first) on /device:CPU:0", "fetch y:0", "run y"]


def test_a_fed_op_that_does_not_run_has_no_inputs(graph):
    x = tf.constant([1.0], name="x")
    middle = tf.square(x, name="middle")
    step = imported([tf.negative(middle)], [middle])
    assert [op.type for op in step.ops] == ["Neg"] and step.feeds[0].op.inputs == () and step.feeds[0] is step.ops[0].inputs[0]


def test_verify_names_what_is_broken(graph):
    a = tf.constant(1.0, name="a")
    b = tf.negative(a, name="b")
    ir.verify(imported([b]))
    step = imported([b])
    step.ops.reverse()
    with pytest.raises(AssertionError, match="After swap: b runs before its input a:0"):
        ir.verify(step, "swap")
    step = imported([b])
    step.ops[1].set_input(0, ir.Value(step.ops[0], 1, a.dtype, ()))
    with pytest.raises(AssertionError, match="b takes a:1, which its node does not return"):
        ir.verify(step)
    step = imported([b])
    step.ops = step.ops[:1]
    with pytest.raises(AssertionError, match="b:0 is fetched, and its node does not run"):
        ir.verify(step)
    step = imported([b], targets=[b.op])
    step.ops.append(step.ops[0])
    with pytest.raises(AssertionError, match="a occurs twice"):
        ir.verify(step)


def test_passes_are_verified_in_tests():
    assert pipeline._VERIFY


def test_errors_name_operations_of_the_graph(graph):
    """What a user gets from an error is an operation of the user's graph."""
    out, _ = tf.raw_ops.Switch(data=tf.constant(1.0), pred=tf.constant(True))
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        sess.run(out)
    assert caught.value.op is out.op
    bad = tf.reshape(tf.placeholder(tf.float32, name="x"), [3])
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        sess.run(bad, {"x:0": [1.0]})
    assert caught.value.op is bad.op


def test_users_are_kept_current(graph):
    a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
    c = tf.add(a, a, name="c")
    d = tf.multiply(c, b, name="d")
    step = imported([d])
    nodes = {op.name: op for op in step.ops}
    value = {name: op.outputs[0] for name, op in nodes.items()}
    assert value["a"].users == [nodes["c"], nodes["c"]] and value["c"].users == [nodes["d"]]
    made = step.make("Neg", [value["c"]], {"T": c.dtype}, nodes["c"], [()])
    assert value["c"].users == [nodes["d"]]                       # it is not in the step yet
    step.ops = [*step.ops, made]
    assert value["c"].users == [nodes["d"], made]
    nodes["d"].set_input(0, made.outputs[0])
    assert value["c"].users == [made] and made.outputs[0].users == [nodes["d"]]
    nodes["d"].substitute({id(made.outputs[0]): value["a"]})
    step.prune()
    assert [op.name for op in step.ops] == ["a", "b", "d"] and value["a"].users == [nodes["d"]] and not value["c"].users
    ir.verify(step)
    value["a"].users.append(made)
    with pytest.raises(AssertionError, match="the users of a:0 are not current"):
        ir.verify(step)


STAGES = ("step/optimize", "step/loops", "step/compile", "step/tiers", "step/partition/joined.py", "step/partition/schedule.py",
          "execute/dataflow.py", "execute/trace.py", "execute/lanes.py")
PRIVATE = re.compile(r"(?<!self)\._(inputs|op|dims|dtype|control_inputs|origin|value_index|counts|device)\b(?!\()")


@pytest.mark.parametrize("stage", STAGES)
def test_stages_read_nodes_by_their_public_names(stage):
    """Private attributes belong to operations of the user's graph, which stages do not see."""
    root = pathlib.Path(ir.__file__).parents[1] / stage
    files = sorted(root.rglob("*.py")) if root.is_dir() else [root]
    found = [f"{f.name}:{i}" for f in files for i, line in enumerate(f.read_text().splitlines(), 1) if PRIVATE.search(line)]
    assert files and found == []


@pytest.mark.parametrize("partial", [False, True])
def test_an_op_without_a_kernel_is_named(graph, partial):
    x = tf.placeholder(tf.float32, [2])
    y = get("Unary")(x)
    with tf.Session() as sess, pytest.raises(tf.errors.UnimplementedError, match="Unary.* has no kernel for cpu") as caught:
        if partial:
            sess.partial_run(sess.partial_run_setup([y], [x]), y, {x: [1.0, 2.0]})
        else:
            sess.run(y, {x: [1.0, 2.0]})
    assert caught.value.op is y.op
