"""tf.contrib.graph_editor: selections, copies and reroutes, checked by the results of graphs."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

ge = tf.contrib.graph_editor


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def _model():
    x = tf.placeholder(tf.float32, [2], name="x")
    with tf.name_scope("body"):
        h = tf.add(x, 1.0, name="h")
        y = tf.multiply(h, h, name="y")
    return x, h, y, tf.reduce_sum(y, name="total")


def _run(fetch, feed=None):
    with tf.Session() as session:
        return session.run(fetch, feed)


def test_selections():
    x, h, y, _ = _model()
    graph = tf.get_default_graph()
    assert ge.select_ops("^body/[hy]$", graph=graph) == [h.op, y.op]
    assert ge.select_ops(y.op, x.op, h.op, positive_filter=lambda op: op.type != "Placeholder") == [y.op, h.op]
    assert ge.select_ts("(?#ts)^body/h:0", "(?#ops)x", graph=graph) == [h]
    assert ge.select_ops_and_ts("^body/h$", "(?#ts)^x:0", graph=graph) == ([h.op], [x])
    assert set(ge.get_name_scope_ops(graph, "body/")) >= {h.op, y.op} and x.op not in ge.get_name_scope_ops(graph, "body")
    with pytest.raises(ValueError, match="graph"):
        ge.select_ops("^body")


def test_views_know_their_boundary():
    x, h, y, _ = _model()
    view = ge.sgv(h.op, y.op)
    assert view.inputs[0] is x and view.outputs == [y] and view.ops == [h.op, y.op]
    assert [op.name for op in view.consumers()] == ["total"] and view.find_op_by_name("body/h") is h.op
    assert view.remap_inputs([0]).inputs == [x] and ge.sgv_scope("body", graph=tf.get_default_graph()).outputs == [y]
    assert ge.get_walks_intersection_ops(x, y) == [h.op, y.op]


def test_graph_replace_computes_again_from_other_tensors():
    x, h, y, total = _model()
    other = tf.constant([10.0, 20.0])
    again, both = ge.graph_replace([total, y], {x: other}, dst_scope="again")
    assert again.op.name == "again/total" and _run(again) == 121 + 441 and _run(both).tolist() == [121, 441]
    assert _run(total, {x: [0, 1]}) == 5
    assert _run(ge.graph_replace(total, {h: other})) == 500
    longer = ge.graph_replace(y, {x: tf.constant([1.0, 2.0, 3.0])})
    assert longer.shape == [3] and _run(longer).tolist() == [4, 9, 16]
    with pytest.raises(ValueError, match="depend"):
        ge.graph_replace(total, {tf.constant(1.0): other})


@pytest.fixture
def _frames():
    enabled = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    yield
    if enabled:
        tf.enable_control_flow_v2()


@pytest.mark.usefixtures("_frames")
def test_graph_replace_takes_whole_loops():
    x = tf.placeholder(tf.float32, [], name="x")
    _, power = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * x), [0, tf.constant(1.0)])
    again = ge.graph_replace(power, {x: tf.constant(2.0)})
    assert _run(again) == 8 and _run(power, {x: 3.0}) == 27


def test_copies_with_replacements_and_gradients():
    x, h, y, total = _model()
    weight = tf.Variable([1.0, 2.0])
    view, info = ge.copy_with_input_replacements([h.op, y.op, *ge.select_ops("^total", graph=tf.get_default_graph())],
                                                 {x: weight * 2.0})
    new = info.transformed(total)
    assert info.original(new) is total and info.transformed(x.op) is None and view.outputs == [new]
    with tf.Session() as session:
        session.run(weight.initializer)
        np.testing.assert_allclose(session.run(tf.gradients(new, weight)[0]), [12, 20], rtol=1e-6)


def test_copies_into_another_graph_take_placeholders():
    x, h, y, _ = _model()
    target = tf.Graph()
    view, info = ge.copy(ge.sgv_scope("body", graph=tf.get_default_graph()), target, dst_scope="there")
    assert view.graph is target and info.transformed(y).name == "there/body/y:0" and view.inputs[0].op.type == "Placeholder"
    with tf.Session(graph=target) as session:
        assert session.run(info.transformed(y), {view.inputs[0]: [1, 2]}).tolist() == [4, 9]


def test_rerouting():
    x, h, y, total = _model()
    a, b = tf.constant([5.0, 6.0]), tf.constant([1.0, 2.0])
    assert ge.reroute_ts(a, x) == 1 and _run(y).tolist() == [36, 49]
    difference = a - b
    assert ge.swap_ts([a], [b], can_modify=difference.op) == 2 and _run(difference).tolist() == [-4, -4]
    assert ge.reroute_ts(b, a, cannot_modify=h.op) == 1 and _run(difference).tolist() == [0, 0]
    ge.add_control_inputs(total.op, a.op)
    assert a.op in total.op.control_inputs
    ge.remove_control_inputs(total.op, a.op)
    assert a.op not in total.op.control_inputs
    with pytest.raises(ValueError, match="lengths"):
        ge.reroute_ts([a, b], [x])
