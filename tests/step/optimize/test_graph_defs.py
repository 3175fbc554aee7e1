"""Passes over a GraphDef: calls are inlined, constants folded, and what is fetched keeps its name and its value."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.compat.programs import importer
from penstock._src.step.optimize.graph_defs import optimize_graph


def _after(graph, fetched, *optimizers, **options):
    with graph.as_default():
        meta = tf1.train.export_meta_graph(graph_def=graph.as_graph_def())
    meta.collection_def["train_op"].node_list.value.extend(fetched)
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.optimizers.extend(optimizers)
    return optimize_graph(config, meta, **options)


def _run(graph_def, fetch, feeds):
    with tf1.Graph().as_default(), tf1.Session() as session:
        tf1.import_graph_def(graph_def, name="")
        return session.run(fetch, feeds)


@pytest.fixture
def graph():
    with tf1.Graph().as_default() as made:
        x = tf1.placeholder(tf.float32, [2], name="x")
        tf.function(lambda v: tf.multiply(v, tf.constant(2.0) + tf.constant(3.0)))(x)      # nothing needs it
        called = tf.function(lambda v: v * (tf.constant(2.0) + tf.constant(3.0)))
        tf.add(called(x), called(x + 1.0), name="y")
    return made


def test_calls_are_inlined_and_constants_folded(graph):
    made = _after(graph, ["x:0", "y:0"], "constfold", "function")
    kinds = sorted(n.op for n in made.node)
    assert "PartitionedCall" not in kinds and "StatefulPartitionedCall" not in kinds
    assert kinds.count("Mul") == 2 and sum(k.startswith("Add") for k in kinds) == 2
    assert len({n.name for n in made.node}) == len(made.node)
    np.testing.assert_array_equal(_run(made, "y:0", {"x:0": [1.0, 2.0]}), [15.0, 25.0])


def test_only_what_is_requested_is_done(graph):
    made = _after(graph, ["y"], "pruning")
    assert sum("PartitionedCall" in n.op for n in made.node) == 2
    np.testing.assert_array_equal(_run(made, "y:0", {"x:0": [1.0, 2.0]}), [15.0, 25.0])


def test_equal_work_is_merged_without_a_list_of_passes(graph):
    made = _after(graph, ["y"])
    assert sum(n.op == "Const" and n.attr["value"].tensor.float_val[:] == [5.0] for n in made.node) <= 1
    np.testing.assert_array_equal(_run(made, "y:0", {"x:0": [1.0, 2.0]}), [15.0, 25.0])


def test_a_fetched_constant_expression_keeps_its_name_and_op():
    with tf1.Graph().as_default() as graph:
        tf.split(tf.constant([1.0, 2.0]) + 1.0, 2, name="parts")
    made = _after(graph, ["parts:1"], "constfold")
    assert {n.name: n.op for n in made.node}["parts"] == "Split"
    assert not any(n.op.startswith("Add") for n in made.node)
    np.testing.assert_array_equal(_run(made, "parts:1", {}), [3.0])


def test_default_attributes_are_left_out_if_requested(graph):
    with graph.as_default():
        tf.matmul(tf.ones([2, 2]), tf.reshape(graph.get_tensor_by_name("x:0"), [2, 1]), name="m")
    attrs = [{n.name: n for n in _after(graph, ["m"], strip_default_attributes=strip).node}["m"].attr
             for strip in (False, True)]
    assert "transpose_a" in attrs[0] and "transpose_a" not in attrs[1]


def test_nothing_fetched_is_an_error(graph):
    with pytest.raises(ValueError, match="train_op"):
        _after(graph, [])


def test_converters_find_it_under_its_name_in_tensorflow():
    with importer.in_place("v2"):
        from tensorflow.python.grappler import tf_optimizer
        assert tf_optimizer.OptimizeGraph is optimize_graph


def test_functions_that_nothing_calls_any_more_are_left_out():
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [], name="x")
        doubled = tf.function(lambda v: tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, 2.0 * v), [0, v])[1])
        tf.identity(doubled(x), name="y")
    called = {f.signature.name for f in graph.as_graph_def().library.function}
    made = _after(graph, ["x:0", "y:0"], "constfold", "function")
    loop, = [n for n in made.node if "While" in n.op]
    kept = {f.signature.name for f in made.library.function}
    assert kept == {loop.attr["cond"].func.name, loop.attr["body"].func.name} < called
    assert _run(made, "y:0", {"x:0": 1.5}) == 12.0


def test_functions_of_loops_share_no_names_with_each_other_and_the_graph():
    @tf.function(input_signature=[tf.TensorSpec([15], tf.int32, name="x")])
    def first(x):
        size, total = tf.shape(x)[0], tf.zeros([], tf.int32)
        for i in tf.range(10):
            if i == size - 12:
                break
            total += x[i]
        return total
    graph_def = first.get_concrete_function().graph.as_graph_def()
    library = {f.signature.name: f for f in graph_def.library.function}
    loop, = [n for n in graph_def.node if "While" in n.op]
    functions = [library[loop.attr[a].func.name] for a in ("cond", "body")]
    arguments = [{a.name for a in f.signature.input_arg} for f in functions]
    assert not arguments[0] & arguments[1] and not (arguments[0] | arguments[1]) & {n.name for n in graph_def.node}
    for f in functions:
        assert all(n.name.startswith(f"{loop.name}/") for n in f.node_def)
    branch = library[next(n for n in functions[1].node_def if "If" in n.op).attr["then_branch"].func.name]
    assert all(n.name.startswith(f"{loop.name}/cond/") for n in branch.node_def)
    assert first(tf.range(15)) == 3


def test_arguments_of_functions_keep_their_shapes():
    @tf.function(input_signature=[tf.TensorSpec([1], tf.int32)])
    def grown(x):
        return tf.while_loop(lambda v: tf.size(v) < 4, lambda v: [tf.concat([v, [2]], 0)], [x], [tf.TensorShape([None])])
    message = grown.get_concrete_function().graph.as_graph_def()
    body = next(f for f in message.library.function if "body" in f.signature.name)
    shapes = [tf.TensorShape(body.arg_attr[i].attr["_output_shapes"].list.shape[0]) for i in range(3)]
    assert [s.as_list() for s in shapes] == [[], [], [None]]
