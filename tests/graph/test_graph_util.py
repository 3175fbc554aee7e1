"""GraphDef to GraphDef: subgraphs, freezing, removal of training nodes, files."""

import os

import numpy as np
import pytest
from google.protobuf import text_format
from tensorboard.compat.proto.graph_pb2 import GraphDef

import penstock
import penstock.compat.v1 as tf

util = tf.graph_util


def graph_def(text):
    return text_format.Parse(text, GraphDef())


def names(graph):
    return [n.name for n in graph.node]


def test_a_subgraph_has_what_the_outputs_need_in_order():
    graph = graph_def("""
        node { name: 'a' op: 'X' input: 'e' } node { name: 'b' op: 'X' input: 'a:1' }
        node { name: 'c' op: 'X' input: '^b' } node { name: 'd' op: 'X' } node { name: 'e' op: 'X' input: 'a' }
        node { name: 'f' op: 'X' attr { key: '_class' value { list { s: 'loc:@d' } } } }
        versions { producer: 7 } library { function { signature { name: 'f' } } }""")
    out = util.extract_sub_graph(graph, ["c"])
    assert names(out) == ["a", "b", "c", "e"]
    assert out.versions.producer == 7 and out.library == graph.library
    assert names(util.extract_sub_graph(graph, ["f"])) == ["d", "f"]
    with pytest.raises(TypeError, match="must be an iterable"):
        util.extract_sub_graph(graph, "c")
    with pytest.raises(AssertionError, match="z is not in graph"):
        util.extract_sub_graph(graph, ["z"])


def test_training_nodes_are_spliced_out():
    graph = graph_def("""
        node { name: 'a' op: 'Const' } node { name: 'check' op: 'CheckNumerics' input: 'a' }
        node { name: 'i' op: 'Identity' input: 'a' input: '^check' } node { name: 'j' op: 'Identity' input: 'i:0' }
        node { name: 'held' op: 'Identity' input: 'a' }
        node { name: 'out' op: 'Neg' input: 'j' input: '^held' } node { name: 'kept' op: 'Identity' input: 'a' }""")
    out = util.remove_training_nodes(graph, protected_nodes=["kept"])
    assert names(out) == ["a", "held", "out", "kept"]
    assert list(out.node[2].input) == ["a", "^held"]


def test_nodes_that_others_are_colocated_with_are_no_training_nodes():
    graph = graph_def("""
        node { name: 'a' op: 'Const' } node { name: 'i' op: 'Identity' input: 'a' } node { name: 'j' op: 'Identity' input: 'a' }
        node { name: 'b' op: 'Neg' input: 'i' attr { key: '_class' value { list { s: 'loc:@i' } } } }
        node { name: 'c' op: 'Neg' input: 'j' }""")
    out = util.remove_training_nodes(graph)
    assert names(out) == ["a", "i", "b", "c"] and list(out.node[3].input) == ["a"]
    assert [list(n.attr) for n in out.node] == [[], [], ["_class"], []]


def test_what_must_run_on_cpu():
    def node(op, **types):
        message = tf.NodeDef(op=op)
        for k, v in types.items():
            message.attr[k].type = v.as_datatype_enum
        return message
    assert util.must_run_on_cpu(node("Const", dtype=tf.int32))
    assert not util.must_run_on_cpu(node("Const", dtype=tf.float32))
    assert util.must_run_on_cpu(node("Cast", SrcT=tf.int32)) and not util.must_run_on_cpu(node("Cast", SrcT=tf.int64))
    assert util.must_run_on_cpu(node("VariableV2"), pin_variables_on_cpu=True)
    assert not util.must_run_on_cpu(node("VariableV2"))


def test_a_shape_by_the_name_of_an_input():
    with tf.Graph().as_default() as g:
        tf.placeholder(tf.float32, [2, None], name="x")
    assert util.tensor_shape_from_node_def_name(g, "x").as_list() == [2, None]
    assert util.tensor_shape_from_node_def_name(g, "x:0").as_list() == [2, None]


@pytest.mark.parametrize("use_resource", [False, True], ids=["ref", "resource"])
def test_variables_become_constants(use_resource):
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [], name="x")
        v = tf.Variable([1.0, 2.0], name="v", use_resource=use_resource)
        w = tf.Variable(10.0, name="w", use_resource=use_resource)
        tf.identity(x * v + w, name="y")
        sess.run(v.initializer)
        sess.run(w.initializer)
        graph = sess.graph.as_graph_def()
        frozen = util.convert_variables_to_constants(sess, graph, ["y"])
        partly = util.convert_variables_to_constants(sess, graph, ["y"], variable_names_whitelist=["v"])
        same = util.convert_variables_to_constants(sess, graph, ["y"], variable_names_blacklist=["w"])
    ops = {n.name: n.op for n in frozen.node}
    assert ops["v"] == ops["w"] == "Const"
    assert not {"VariableV2", "VarHandleOp", "ReadVariableOp"} & set(ops.values())
    assert partly == same and {n.name: n.op for n in partly.node}["w"] in ("VariableV2", "VarHandleOp")
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.import_graph_def(frozen, name="")
        np.testing.assert_array_equal(sess.run("y:0", {"x:0": 3.0}), [13.0, 16.0])


def test_a_read_of_no_variable_cannot_be_frozen():
    graph = graph_def("""
        node { name: 'h' op: 'Placeholder' } node { name: 'r' op: 'ReadVariableOp' input: 'h' }""")
    with tf.Graph().as_default(), tf.Session() as sess:
        with pytest.raises(ValueError, match="No variable was found"):
            util.convert_variables_to_constants(sess, graph, ["r"])


@pytest.mark.parametrize("as_text", [True, False])
def test_a_graph_is_written_whole_or_not_at_all(tmp_path, as_text, monkeypatch):
    with tf.Graph().as_default() as g:
        tf.no_op(name="n")
    path = tf.io.write_graph(g, tmp_path / "new", "g.pb", as_text)
    with open(path, "rb") as f:
        data = f.read()
    assert (graph_def(data.decode()) if as_text else GraphDef.FromString(data)) == g.as_graph_def()

    def broken(*args):
        raise OSError("disk full")
    monkeypatch.setattr(os, "fsync", broken)
    with g.as_default():
        tf.no_op(name="m")
    with pytest.raises(tf.errors.OpError, match="disk full"):
        tf.train.write_graph(g, str(tmp_path / "new"), "g.pb", as_text)
    with open(path, "rb") as f:
        assert f.read() == data
    assert os.listdir(tmp_path / "new") == ["g.pb"]


def test_equal_graphs():
    def graph(value, flip=False):
        with tf.Graph().as_default() as g:
            tf.constant(value, tf.float32, name="a")
            tf.constant(2.0, name="b")
        message = g.as_graph_def()
        if flip:
            nodes = list(message.node)[::-1]
            message.ClearField("node")
            message.node.extend(nodes)
        return message
    equal = penstock.__internal__.graph_util.graph_defs_equal
    assert equal(graph(1.0), graph(1.0, flip=True))
    assert not equal(graph(1.0), graph(3.0))
    assert not equal(graph(float("nan")), graph(float("nan")))
    assert equal(graph(float("nan")), graph(float("nan")), treat_nan_as_equal=True)
