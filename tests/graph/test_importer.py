"""GraphDef to graph: names, edges, versions, devices, loops, broken input."""

import collections
import sys

import numpy as np
import pytest
from google.protobuf import text_format
from tensorboard.compat.proto.graph_pb2 import GraphDef

import penstock.compat.v1 as tf
from penstock._src.graph.graphdef import attr_to_message
from penstock._src.graph.importer import import_graph_def


def graph_def(text):
    return text_format.Merge(text, GraphDef(versions={"producer": 134}))


CHAIN = """
    node { name: 'A' op: 'TwoIntOutputs' }
    node { name: 'B' op: 'IntInputIntOutput' input: 'A:1' }
    node { name: 'C' op: 'TwoIntInputs' input: 'A' input: 'B' input: '^A' }
"""


@pytest.fixture
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_a_graph_comes_back(graph):
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    with tf.device("/cpu:0"), tf.name_scope("s"):
        y = tf.identity(x, name="y")
    c = tf.constant(np.array([[1, 2]], np.uint16), name="c")
    with tf.control_dependencies([c]):
        tf.identity_n([y, x], name="z")
    first = graph.as_graph_def(add_shapes=True)
    with tf.Graph().as_default() as again:
        import_graph_def(first, name="")
        assert again.as_graph_def(add_shapes=True) == first
        np.testing.assert_array_equal(tf.Session().run("c:0"), [[1, 2]])


def test_nodes_are_connected_whatever_their_order(graph):
    text = "".join(reversed([f"node {{{n}" for n in CHAIN.split("node {")[1:]]))
    a, b, c = import_graph_def(graph_def(text), return_elements=["A", "B", "C"])
    assert [op.name for op in (a, b, c)] == ["import/A", "import/B", "import/C"]
    assert b.inputs[0] is a.outputs[1]
    assert c.inputs[0] is a.outputs[0] and c.inputs[1] is b.outputs[0]
    assert c.control_inputs == [a]


def test_names_that_are_taken_get_a_number(graph):
    names = [import_graph_def(graph_def(CHAIN), return_elements=["A"], name=n)[0].name
             for n in ("", "", "A", "A/", None, None)]
    assert names == ["A", "A_1", "A_2/A", "A/A", "import/A", "import_1/A"]
    with tf.name_scope("empty"):
        pass
    with tf.name_scope("used"):
        tf.no_op(name="x")
    text = "node { name: 'empty' op: 'None' } node { name: 'used' op: 'None' } node { name: 'used_1' op: 'None' }"
    ops = import_graph_def(graph_def(text), return_elements=["empty", "used", "used_1"], name="")
    assert [op.name for op in ops] == ["empty", "used_2", "used_1"]
    assert tf.no_op(name="used_1").name == "used_1_1"


def test_inputs_are_replaced(graph):
    one, two = tf.constant(1), tf.constant(2)
    stop = tf.no_op(name="stop")
    a, c = import_graph_def(graph_def(CHAIN), return_elements=["A:1", "C"],
                            input_map={"A": one, "A:1": two, "^A": stop})
    assert a is two
    assert c.inputs[0] is one and c.control_inputs == [stop]
    assert c.inputs[1].op.inputs[0] is two


def test_values_of_the_input_map_are_converted_under_the_prefix(graph):
    b, = import_graph_def(graph_def(CHAIN), input_map={"A:1": 5}, return_elements=["B"], name="q")
    assert b.inputs[0].name.startswith("q/_inputs/")
    with pytest.raises(ValueError, match="requires a non-empty `name`"):
        import_graph_def(graph_def(CHAIN), input_map={"A:1": 5}, name="")


@pytest.mark.parametrize("text, arguments, message", [
    ("node { name: 'B' op: 'IntInput' input: 'A:0' }", {}, "Node 'B': Unknown input node 'A:0'"),
    ("node { name: 'B' op: 'None' input: '^A' }", {}, r"Node 'B': Unknown input node '\^A'"),
    ("node { name: 'B' op: 'IntInput' input: 'A:B' }", {}, "Node 'B': Unknown input node 'A:B'"),
    ("node { name: 'A' op: 'None' } node { name: 'A' op: 'None' }", {}, "Node 'A' is not unique"),
    ("node { name: 'a b' op: 'None' }", {}, "invalid characters"),
    ("node { name: 'A' op: 'NoSuchOp' }", {}, "Node 'A': Op type not registered 'NoSuchOp'"),
    ("node { name: 'A' op: 'IntOutput' } node { name: 'B' op: 'None' input: 'A' }", {},
     "expected inputs '' do not match 1 inputs"),
    ("node { name: 'A' op: 'IntOutput' } node { name: 'B' op: 'FloatInput' input: 'A' }", {},
     "Input 0 of node import/B was passed int32 from import/A:0 incompatible with expected float."),
    ("node { name: 'A' op: 'IntOutput' } node { name: 'B' op: 'RefInputIntInput' input: 'A' input: 'A' }", {},
     "was passed int32 from import/A:0 incompatible with expected int32_ref."),
    ("node { name: 'A' op: 'IntOutput' } node { name: 'B' op: 'IntInput' input: 'A:1' }", {},
     "Node 'B': Connecting to invalid output 1 of source node A which has 1 outputs"),
    ("node { name: 'A' op: 'None' } node { name: 'B' op: 'None' input: '^A' input: 'A' }", {},
     "Control dependencies must come after"),
    ("node { name: 'A' op: 'Unary' input: 'B' attr { key: 'T' value { type: 1 } } }"
     "node { name: 'B' op: 'Unary' input: 'A' attr { key: 'T' value { type: 1 } } }", {},
     "contains a cycle with 2 nodes, including: A, B"),
    ("node { name: 'A' op: 'ListOutput' }", {}, "NodeDef missing attr 'T'"),
    ("node { name: 'A' op: 'ListOutput' attr { key: 'T' value { i: 1 } } }", {}, "attr 'T'.*'list.type.' expected"),
    ("node { name: 'A' op: 'ListOutput' attr { key: 'T' value { placeholder: 'T' } } }", {}, "is a placeholder"),
    ("node { name: 'A' op: 'IntOutput' attr { key: '_output_shapes' value { list { shape { } shape { } } } } }", {},
     "has 1 outputs but the _output_shapes attribute specifies shapes for 2 outputs"),
    ("node { name: 'A' op: 'None' attr { key: '_class' value { i: 5 } } }", {}, "'list.string.' expected"),
    ("node { name: 'A' op: 'None' attr { key: 'x' value { i: 5 } } }", {}, "mentions attr 'x' not in"),
    ("node { name: 'A' op: 'Const' attr { key: 'dtype' value { type: 1 } } attr { key: 'value' value {"
     "tensor { dtype: 3 int_val: 1 tensor_shape { } } } } }", {}, "tensor of type DT_INT32, where attr 'dtype' says DT_FLOAT"),
    ("node { name: 'A' op: 'Const' attr { key: 'dtype' value { type: 3 } } attr { key: 'value' value {"
     "tensor { dtype: 3 int_val: 1 tensor_shape { dim { size: -2 } } } } } }", {}, "fully known shape"),
    ("node { name: 'B' op: 'None' attr { key: '_class' value { list { s: 'loc:@A' } } } }", {},
     "Node 'B' expects to be colocated with unknown node 'A'"),
    ("node { name: 'A' op: 'None' }", {"return_elements": ["B"]}, "Requested return node 'B' not found"),
    ("node { name: 'A' op: 'None' }", {"return_elements": ["B:0"]}, "Requested return tensor 'B:0' not found"),
    ("node { name: 'A' op: 'IntOutput' }", {"return_elements": ["A:1"]},
     r"Invalid return output 1 of node 'A', which has 1 output\(s\)"),
    ("node { name: 'A' op: 'None' }", {"return_elements": ["A:B:0"]}, "Cannot convert 'A:B:0' to a tensor name."),
    ("node { name: 'A' op: 'IntOutput' }", {"input_map": {"B:0": 1, "A:2": 1}},
     r"Attempted to map inputs that were not found in graph_def: \[B:0, A:2\]"),
    ("versions { min_consumer: 1000000 }", {}, "GraphDef min consumer version 1000000 above current version 134"),
    ("versions { bad_consumers: 134 }", {}, "GraphDef disallows consumer version 134"),
])
def test_what_is_wrong_is_said_and_nothing_is_left_behind(graph, text, arguments, message):
    kept = tf.no_op(name="kept")
    with pytest.raises((ValueError, tf.errors.NotFoundError), match=message):
        import_graph_def(graph_def(text), **arguments)
    left = [op for op in graph.get_operations() if not op.name.startswith("import/_inputs")]
    assert left == [kept]
    assert graph.graph_def_versions.producer == 134
    assert not kept._control_outputs


@pytest.mark.parametrize("arguments, message", [
    ({"graph_def": ""}, "`graph_def` must be a GraphDef proto."),
    ({"graph_def": GraphDef(), "input_map": [1]}, "`input_map` must be a dictionary. Obtained list"),
    ({"graph_def": GraphDef(), "return_elements": [7]}, "`return_elements` must be a list of strings."),
])
def test_arguments_are_of_the_right_kind(graph, arguments, message):
    with pytest.raises(TypeError, match=message):
        import_graph_def(**arguments)


def test_a_low_producer_is_refused(graph):
    with pytest.raises(ValueError, match="GraphDef producer version -1 below min producer 0"):
        import_graph_def(text_format.Parse("versions { producer: -1 }", GraphDef()))


def test_versions_of_an_empty_graph_are_those_of_the_def_and_then_the_stricter(graph):
    text = "node { name: 'A' op: 'None' } versions { producer: %d min_consumer: %d }"
    import_graph_def(graph_def(text % (20, 3)))
    assert (graph.graph_def_versions.producer, graph.graph_def_versions.min_consumer) == (20, 3)
    import_graph_def(graph_def(text % (30, 5)))
    assert (graph.graph_def_versions.producer, graph.graph_def_versions.min_consumer) == (20, 5)


def test_missing_attributes_get_their_defaults(graph):
    a, = import_graph_def(graph_def("node { name: 'A' op: 'OpWithDefaultAttr' }"), return_elements=["A"])
    assert a.get_attr("default_float") == 123.0


def test_options_of_later_versions_that_are_off_are_dropped(graph):
    node = graph_def("node { name: 'A' op: 'None' }")
    for name, value in (("grad_a", False), ("metadata", ""), ("explicit_paddings", []), ("Tk", tf.int32),
                        ("exponential_avg_factor", 1.0)):
        node.node[0].attr[name].CopyFrom(attr_to_message(value))
    a, = import_graph_def(node, return_elements=["A"])
    assert not a.attrs and not a._extra
    node.node[0].attr["exponential_avg_factor"].f = 0.5
    with pytest.raises(ValueError, match="exponential_avg_factor"):
        import_graph_def(node)


def test_defaults_of_the_producer_are_dropped(graph):
    from tensorboard.compat.proto.op_def_pb2 import OpList
    text = "op { name: 'None' attr { name: 'n' type: 'int' default_value { i: 456 } } }"
    producer = text_format.Parse(text, OpList())
    node = graph_def("node { name: 'A' op: 'None' attr { key: 'n' value { i: 456 } } }")
    a, = import_graph_def(node, return_elements=["A"], producer_op_list=producer)
    with pytest.raises(ValueError, match="has no attr named 'n'"):
        a.get_attr("n")


def test_shapes_of_the_producer_are_merged_into_the_inferred_ones(graph):
    text = """node { name: 'p' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } }
                     attr { key: 'shape' value { shape { dim { size: 2 } dim { size: -1 } } } }
                     attr { key: '_output_shapes' value { list { shape { dim { size: -1 } dim { size: %d } } } } } }"""
    p, = import_graph_def(graph_def(text % 3), return_elements=["p:0"])
    assert p.shape.as_list() == [2, 3]
    assert "_output_shapes" not in p.op.node_def.attr
    wrong = graph_def(text % 3)
    wrong.node[0].attr["_output_shapes"].list.shape[0].dim[0].size = 5
    with pytest.raises(ValueError, match=r"inconsistent .* for output #0: Shapes \(2, \?\) and \(5, 3\)"):
        import_graph_def(wrong)


def test_a_shape_error_is_found_and_undone(graph):
    text = """node { name: 'a' op: 'Const' attr { key: 'dtype' value { type: DT_INT32 } } attr { key: 'value' value {
                     tensor { dtype: DT_INT32 tensor_shape { dim { size: 2 } } int_val: 1 } } } }
              node { name: 'b' op: 'PlaceholderWithDefault' input: 'a' attr { key: 'dtype' value { type: DT_INT32 } }
                     attr { key: 'shape' value { shape { dim { size: 3 } } } } }"""
    with pytest.raises(ValueError, match="not compatible"):
        import_graph_def(graph_def(text))
    assert not graph.get_operations()


COLOCATED = """
    node { name: 'A' op: 'None' device: '/device:CPU:0' }
    node { name: 'B' op: 'None' device: '/device:GPU:0' attr { key: '_class' value { list { s: 'loc:@A' } } } }
"""


def test_colocation_follows_the_new_name_and_brings_the_device(graph):
    import_graph_def(graph_def(COLOCATED), name="")
    b, = import_graph_def(graph_def(COLOCATED), return_elements=["B"], name="")
    assert b.name == "B_1" and b.colocation_groups() == [b"loc:@A_1"]
    assert b.device == "/device:CPU:0"


def test_open_scopes_act_on_imported_ops(graph):
    gate = tf.no_op(name="gate")
    seen = []
    with tf.device(lambda op: seen.append(op.name) or "/job:ps"), tf.control_dependencies([gate]):
        a, b = import_graph_def(graph_def(COLOCATED), return_elements=["A", "B"], name="")
    assert a.device == b.device == "/job:ps/device:CPU:0"
    assert seen == ["A"]
    assert a.control_inputs == [gate] == b.control_inputs


def _counting_loop():
    """The nodes of `while i < 10: i += 1`, by hand."""
    t = "attr { key: 'T' value { type: DT_INT32 } }"
    frame = "attr { key: 'frame_name' value { s: 'f' } }"
    const = ("node {{ name: '{0}' op: 'Const' {2} attr {{ key: 'dtype' value {{ type: DT_INT32 }} }} attr {{ "
             "key: 'value' value {{ tensor {{ dtype: DT_INT32 tensor_shape {{ }} int_val: {1} }} }} }} }}")
    return "".join([
        f"node {{ name: 'next' op: 'NextIteration' input: 'add' {t} }}",
        f"node {{ name: 'merge' op: 'Merge' input: 'enter' input: 'next' {t} attr {{ key: 'N' value {{ i: 2 }} }} }}",
        const.format("zero", 0, ""),
        f"node {{ name: 'enter' op: 'Enter' input: 'zero' {t} {frame} }}",
        const.format("ten", 10, "input: '^merge'"),
        f"node {{ name: 'less' op: 'Less' input: 'merge' input: 'ten' {t} }}",
        "node { name: 'cond' op: 'LoopCond' input: 'less' }",
        f"node {{ name: 'switch' op: 'Switch' input: 'merge' input: 'cond' {t} }}",
        f"node {{ name: 'exit' op: 'Exit' input: 'switch' {t} }}",
        f"node {{ name: 'body' op: 'Identity' input: 'switch:1' {t} }}",
        const.format("one", 1, "input: '^body'"),
        f"node {{ name: 'add' op: 'AddV2' input: 'body' input: 'one' {t} }}"])


def test_the_back_edge_of_a_loop_is_closed(graph):
    merge, following = import_graph_def(graph_def(_counting_loop()), return_elements=["merge", "next"], name="")
    assert [t.op.name for t in merge.inputs] == ["enter", "next"]
    assert following.outputs[0].consumers() == [merge]
    assert merge.outputs[0].shape.rank is None
    assert tf.Session().run("exit:0") == 10


def test_the_beginning_of_a_loop_can_be_replaced(graph):
    import_graph_def(graph_def(_counting_loop()), input_map={"zero:0": tf.constant(20)}, name="a")
    assert tf.Session().run("a/exit:0") == 20


def test_a_loop_of_the_wrong_type_or_without_a_beginning_is_refused(graph):
    text = _counting_loop()
    with pytest.raises(ValueError, match="the loop has no entry"):
        import_graph_def(graph_def(text.replace("input: 'enter' input: 'next'", "input: 'next' input: 'next'")))
    wrong = graph_def(text.replace("op: 'NextIteration' input: 'add'", "op: 'NextIteration' input: 'less'"))
    wrong.node[0].attr["T"].type = tf.bool.as_datatype_enum
    with pytest.raises(ValueError, match="Input 1 of node .*merge was passed bool from .*next:0 incompatible"):
        import_graph_def(wrong)
    assert not graph.get_operations()


FUNCTION = """
    library { function { signature { name: 'Twice'
        input_arg { name: 'x' type: DT_FLOAT } output_arg { name: 'y' type: DT_FLOAT } }
        node_def { name: 'a' op: 'AddV2' input: 'x' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }
        ret { key: 'y' value: 'a:z:0' } } gradient { function_name: 'Twice' gradient_func: 'TwiceGrad' } }
"""


def test_functions_come_with_the_graph_and_go_out_again(graph):
    import_graph_def(graph_def(FUNCTION))
    import_graph_def(graph_def(FUNCTION))
    library = graph.as_graph_def().library
    assert library == graph_def(FUNCTION).library
    other = graph_def(FUNCTION)
    other.library.function[0].node_def[0].op = "Mul"
    with pytest.raises(ValueError, match="a different function with the same name"):
        import_graph_def(other)


def test_a_node_may_call_a_function_by_name(graph):
    text = FUNCTION + """node { name: 'x' op: 'FloatOutput' } node { name: 'f' op: 'Twice' input: 'x' }"""
    f, = import_graph_def(graph_def(text), return_elements=["f"], input_map={"x:0": tf.constant([1.0, 2.5])})
    assert f.type == "Twice" and f.outputs[0].dtype == tf.float32
    np.testing.assert_array_equal(tf.Session().run(f.outputs[0]), [2.0, 5.0])


def test_an_op_may_call_an_imported_function(graph):
    text = FUNCTION + """node { name: 'x' op: 'FloatOutput' } node { name: 'f' op: 'PartitionedCall' input: 'x'
        attr { key: 'Tin' value { list { type: DT_FLOAT } } } attr { key: 'Tout' value { list { type: DT_FLOAT } } }
        attr { key: 'f' value { func { name: 'Twice' } } } }"""
    y, = import_graph_def(graph_def(text), return_elements=["f:0"], input_map={"x:0": tf.constant([1.0, 2.5])})
    np.testing.assert_array_equal(tf.Session().run(y), [2.0, 5.0])


def test_a_message_of_another_library_is_read(graph):
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    file = descriptor_pb2.FileDescriptorProto(name="other.proto", package="other", syntax="proto3")
    file.message_type.add(name="GraphDef")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    other = message_factory.GetMessageClass(pool.FindMessageTypeByName("other.GraphDef"))
    data = graph_def("node { name: 'A' op: 'None' }").SerializeToString()
    a, = import_graph_def(other.FromString(data), return_elements=["A"])
    assert a.type == "None"


def test_import_is_linear(graph):
    def calls(count):
        """How many functions an import of so many nodes calls."""
        text = GraphDef(node=[{"name": "n0", "op": "IntOutput"}])
        for i in range(1, count):
            text.node.add(name=f"n{i}", op="IntInputIntOutput", input=[f"n{i - 1}"])
        made = collections.Counter()
        with tf.Graph().as_default():
            sys.setprofile(lambda frame, event, arg: made.update([event]))
            try:
                import_graph_def(text)
            finally:
                sys.setprofile(None)
        return made["call"] + made["c_call"]
    calls(100)
    assert calls(2000) < 2.2 * calls(1000)


def test_hints_of_later_versions_are_ignored(graph):
    """TensorFlow 2.21 marks gradients among the inputs of products; what would change the result is still an error."""
    text = """node { name: 'A' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } }
                attr { key: 'value' value { tensor { dtype: DT_FLOAT float_val: 3
                                                     tensor_shape { dim { size: 1 } dim { size: 1 } } } } } }
              node { name: 'B' op: '%s' input: 'A' input: 'A' attr { key: 'T' value { type: DT_FLOAT } }
                attr { key: '%s' value { b: true } } }"""
    for i, (op, hint) in enumerate((("MatMul", "grad_a"), ("MatMul", "grad_b"), ("BatchMatMulV2", "grad_x"))):
        b, = import_graph_def(graph_def(text % (op, hint)), return_elements=["B:0"], name=f"m{i}")
        assert tf.Session().run(b).tolist() == [[9]]
    with pytest.raises(ValueError, match="NodeDef mentions attr 'upside_down' not in"):
        import_graph_def(graph_def(text % ("MatMul", "upside_down")))
