"""Attributes, nodes, graphs and declarations as messages."""

import numpy as np
import pytest
from tensorboard.compat.proto.attr_value_pb2 import AttrValue, NameAttrList

import penstock.compat.v1 as tf
from penstock._src.base import dtypes
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.graphdef import (
    attr_from_message,
    attr_to_message,
    func_message,
    op_def_message,
    opdef_from_message,
    strip_default_attrs,
)
from penstock._src.ops.registry import OPS


@pytest.mark.parametrize("value, kind", [
    (3, "int"), (1.5, "float"), (True, "bool"), ("text", "string"), (b"\xff", "string"), (dtypes.float32, "type"),
    (TensorShape([2, None]), "shape"), (TensorShape(None), "shape"), ([], "list(int)"), ([1, 2], "list(int)"),
    ([0.5], "list(float)"), ([True], "list(bool)"), (["a", "b"], "list(string)"),
    ([dtypes.int8, dtypes.string], "list(type)"), ([TensorShape([1]), TensorShape([])], "list(shape)")])
def test_an_attribute_comes_back(value, kind):
    message = attr_to_message(value, kind)
    back = attr_from_message(message, kind)
    assert back == value and type(back) is type(value)
    assert attr_from_message(AttrValue.FromString(message.SerializeToString()), kind) == value


@pytest.mark.parametrize("value", [3, 1.5, True, "text", dtypes.float32, TensorShape([2]), [1, 2], ["a"]])
def test_an_undeclared_attribute_goes_by_its_value(value):
    assert attr_from_message(attr_to_message(value)) == value


def test_a_tensor_attribute_comes_back():
    value = np.array([[1.5, 2.0]], np.float32)
    np.testing.assert_array_equal(attr_from_message(attr_to_message(value, "tensor"), "tensor"), value)


def test_a_function_attribute_is_a_name_attr_list():
    assert func_message("f") == func_message(b"f") == NameAttrList(name="f")
    message = attr_to_message("f", "func")
    assert message.func.name == "f"
    assert attr_from_message(message, "func") == NameAttrList(name="f")


def test_an_attribute_of_the_wrong_kind_is_refused():
    with pytest.raises(ValueError, match="'f' when 'int' expected"):
        attr_from_message(AttrValue(f=1.0), "int")


def test_a_placeholder_stays_a_message():
    message = AttrValue(placeholder="T")
    assert attr_from_message(message, "type") is message
    assert attr_to_message(message, "type") == message


def _graph():
    with tf.Graph().as_default() as g:
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        with tf.device("/cpu:0"):
            y = tf.identity(x, name="y")
        with tf.control_dependencies([y]), tf.control_dependencies([tf.no_op(name="b"), tf.no_op(name="a")]):
            tf.identity_n([x, y], name="z")
    return g


def test_a_node_names_its_inputs_its_device_and_its_attributes():
    with _graph().as_default() as g:
        tf.identity(g.get_tensor_by_name("z:1"), name="w")
    nodes = {n.name: n for n in g.as_graph_def().node}
    assert list(nodes["z"].input) == ["x", "y", "^a", "^b"]
    assert list(nodes["w"].input) == ["z:1"]
    assert nodes["y"].device == "/device:CPU:0"
    assert nodes["y"].attr["T"].type == dtypes.float32.enum
    assert list(nodes["z"].attr["T"].list.type) == [1, 1]
    assert [d.size for d in nodes["x"].attr["shape"].shape.dim] == [-1, 3]
    assert "_output_shapes" not in nodes["y"].attr


def test_shapes_are_added_on_request():
    nodes = {n.name: n for n in _graph().as_graph_def(add_shapes=True).node}
    assert [[d.size for d in s.dim] for s in nodes["z"].attr["_output_shapes"].list.shape] == [[-1, 3]] * 2
    assert "_output_shapes" not in nodes["a"].attr


def test_only_the_nodes_after_a_version():
    g = _graph()
    version = g.version
    with g.as_default():
        tf.no_op(name="later")
    assert [n.name for n in g.as_graph_def(from_version=version).node] == ["later"]


def test_a_graph_says_its_version():
    assert _graph().as_graph_def().versions.producer == tf.GRAPH_DEF_VERSION


def test_extra_attributes_are_written():
    with tf.Graph().as_default() as g:
        a = tf.no_op(name="a")
        with g.colocate_with(a), g._attr_scope({"_mark": attr_to_message(7)}):
            b = tf.no_op(name="b")
    assert list(b.node_def.attr["_class"].list.s) == [b"loc:@a"]
    assert b.node_def.attr["_mark"].i == 7


def test_default_valued_attributes_can_be_stripped():
    graph_def = _graph().as_graph_def()
    with tf.Graph().as_default() as g:
        tf.placeholder(tf.float32, name="p")
    graph_def.MergeFrom(g.as_graph_def())
    strip_default_attrs(graph_def)
    nodes = {n.name: n for n in graph_def.node}
    assert "shape" not in nodes["p"].attr and "dtype" in nodes["p"].attr
    assert "shape" in nodes["x"].attr


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_declaration_survives_its_message(name):
    opdef = OPS[name]
    message = op_def_message(opdef)
    back = opdef_from_message(message)
    assert (back.inputs, back.outputs) == (opdef.inputs, opdef.outputs)
    assert back.stateful == opdef.stateful
    assert list(back.attrs) == list(opdef.attrs)
    assert op_def_message(back) == message


def test_attribute_is_cleared():
    with tf.Graph().as_default():
        op = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name="kept").op
        op._set_attr("_note", 3)
        op._clear_attr("shared_name")
        op._clear_attr("_note")
        assert op.get_attr("shared_name") in (b"", "") and "_note" not in op.node_def.attr
        with pytest.raises(ValueError, match="no default"):
            op._clear_attr("key_dtype")
