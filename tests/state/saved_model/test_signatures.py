"""What signatures of SavedModels take and return: defaults, tensors of several parts, and values fixed by the trace."""
import pytest

import penstock as tf
from penstock._src.io.messages import SavedModel

v1 = tf.compat.v1


def _message(folder):
    model = SavedModel()
    model.ParseFromString((folder / "saved_model.pb").read_bytes())
    return model.meta_graphs[0]


def _served(folder, feeds, key="serving_default"):
    """The outputs of a signature in a session."""
    with tf.Graph().as_default(), v1.Session() as sess:
        signature = v1.saved_model.load(sess, ["serve"], str(folder)).signature_def[key]
        named = {signature.inputs[n].name: value for n, value in feeds.items()}
        return sess.run({n: info.name for n, info in signature.outputs.items()}, named)


def test_inputs_with_tensors_as_defaults_may_be_left_out(tmp_path):
    spec = {"b": tf.TensorSpec([], tf.float32, "b"), "a": tf.TensorSpec([], tf.int32, "a")}

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32, "x"), spec])
    def f(x, rest={"b": tf.constant(0.5), "a": tf.constant(3)}):        # noqa: B006
        return {"sum": x + rest["b"], "a": rest["a"]}
    root = tf.Module()
    root.f = f
    tf.saved_model.save(root, str(tmp_path), signatures=f)
    assert _served(tmp_path, {"x": 1.0}) == {"sum": 1.5, "a": 3}
    assert _served(tmp_path, {"x": 1.0, "a": 7}) == {"sum": 1.5, "a": 7}
    defaults = _message(tmp_path).signature_def["serving_default"].defaults
    assert {n: tf.make_ndarray(t).item() for n, t in defaults.items()} == {"a": 3, "b": 0.5}
    with pytest.raises(tf.errors.InvalidArgumentError, match="serving_default_x"):
        _served(tmp_path, {})


def test_signature_def_keeps_defaults():
    made = v1.saved_model.build_signature_def(defaults={"k": tf.constant([1, 2])})
    assert tf.make_ndarray(made.defaults["k"]).tolist() == [1, 2]


def test_signatures_return_ragged_tensors(tmp_path):
    @tf.function(input_signature=[tf.RaggedTensorSpec(ragged_rank=2)])
    def f(x):
        return {"out": x * 2.0}
    tf.saved_model.save(tf.Module(), str(tmp_path), signatures={"key": f.get_concrete_function()})
    splits = tf.constant([0, 2, 3], tf.int64), tf.constant([0, 2, 3, 4], tf.int64)
    parts = {"x": tf.constant([1., 2., 3., 5.]), "x_1": splits[0], "x_2": splits[1]}
    out = tf.saved_model.load(str(tmp_path)).signatures["key"](**parts)["out"]
    assert out.to_list() == [[[2., 4.], [6.]], [[10.]]]
    assert len(_message(tmp_path).signature_def["key"].outputs["out"].composite_tensor.components) == 3


def test_default_attributes_are_not_written(tmp_path):
    root = tf.Module()
    root.f = tf.function(lambda: tf.complex(tf.constant(1.), tf.constant(2.)), input_signature=[])
    tf.saved_model.save(root, str(tmp_path))
    meta_graph = _message(tmp_path)
    found = [n for f in meta_graph.graph_def.library.function for n in f.node_def if n.op == "Complex"]
    assert found and all(not {"T", "Tout"} & set(n.attr) for n in found)
    assert meta_graph.meta_info_def.stripped_default_attrs
    assert tf.saved_model.load(str(tmp_path)).f().numpy() == 1 + 2j


def test_tables_without_a_shared_name_are_made_anew_by_each_load(tmp_path):
    root = tf.Module()
    root.table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, 0, -2)

    @tf.function(input_signature=[tf.TensorSpec([], tf.int64)] * 2)
    def put(key, value):
        root.table.insert(key, value)
    root.put = put
    root.get = tf.function(root.table.lookup, input_signature=[tf.TensorSpec([], tf.int64)])
    tf.saved_model.save(root, str(tmp_path))
    one, other = tf.saved_model.load(str(tmp_path)), tf.saved_model.load(str(tmp_path))
    one.put(tf.constant(4, tf.int64), tf.constant(9, tf.int64))
    assert one.get(tf.constant(4, tf.int64)).numpy() == 9
    assert other.get(tf.constant(4, tf.int64)).numpy() == -1


def test_assets_are_saved_from_graphs(tmp_path):
    (tmp_path / "words.txt").write_text("a b")
    with tf.Graph().as_default(), v1.Session() as sess:
        root = tf.Module()
        root.words = tf.saved_model.Asset(str(tmp_path / "words.txt"))
        tf.saved_model.save(root, str(tmp_path / "model"))
        (tmp_path / "words.txt").unlink()
        path = sess.run(tf.saved_model.load(str(tmp_path / "model")).words.asset_path).decode()
    with open(path, encoding="utf-8") as f:
        assert f.read() == "a b"


@pytest.mark.parametrize("kind", ["sparse", "ragged"])
def test_graph_models_take_tensors_of_several_parts_by_the_names_of_the_parts(tmp_path, kind):
    with tf.Graph().as_default(), v1.Session() as sess:
        x = v1.sparse_placeholder(tf.float32) if kind == "sparse" else v1.ragged.placeholder(tf.float32, 1, [])
        y = tf.sparse.to_dense(x) if kind == "sparse" else x.to_tensor()
        v1.saved_model.simple_save(sess, str(tmp_path), {"x": x}, {"y": y * 2.0})
    serve = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    if kind == "sparse":
        parts = {"x_indices": tf.constant([[0, 1]], tf.int64), "x_values": tf.constant([3.0]),
                 "x_dense_shape": tf.constant([1, 2], tf.int64)}
        assert serve(**parts)["y"].numpy().tolist() == [[0.0, 6.0]]
    else:
        parts = {"x_component_0": tf.constant([10.0, 20.0, 30.0]), "x_component_1": tf.constant([0, 2, 3], tf.int64)}
        assert serve(**parts)["y"].numpy().tolist() == [[20.0, 40.0], [60.0, 0.0]]


def test_concrete_functions_refuse_values_other_than_those_of_the_trace(tmp_path):
    root = tf.Module()
    made = tf.function(lambda x, training=True: 2 * x[1] if training else 7).get_concrete_function([6, tf.constant(10)])
    root.f = made
    tf.saved_model.save(root, str(tmp_path))
    for f in (made, tf.saved_model.load(str(tmp_path)).f):
        assert f([6, tf.constant(4)], True).numpy() == 8
        assert f(tf.constant(5)).numpy() == 10
        with pytest.raises(TypeError, match=r"Can not cast 7 to Literal\[6\]"):
            f([7, tf.constant(4)])
        with pytest.raises(TypeError, match=r"Can not cast False to Literal\[True\]"):
            f([6, tf.constant(4)], False)


def test_lists_and_arrays_become_the_tensors_of_a_saved_function(tmp_path):
    root = tf.Module()
    root.count = tf.function(lambda words, pair, twice=False: tf.size(words) + pair[0] * (2 if twice else 1))
    root.count(tf.constant(["a"]), (tf.constant(1), tf.constant(2)))
    root.count(tf.constant(["a", "b"]), (tf.constant(1), tf.constant(2)), twice=True)
    tf.saved_model.save(root, str(tmp_path))
    count = tf.saved_model.load(str(tmp_path)).count
    assert int(count(["x"], [5, 6])) == 6 and int(count(["x", "y"], (5, 6), twice=True)) == 12
    for args in (([1], (5, 6)), (["x"], 5), (["x", "y", "z"], (5, 6))):
        with pytest.raises(ValueError, match="Could not find matching concrete function"):
            count(*args)


@pytest.fixture
def graph_model(tmp_path):
    """A SavedModel of a graph whose variable is 5, and a checkpoint in which it is 7."""
    with tf.Graph().as_default(), v1.Session() as sess:
        w = v1.get_variable("w", initializer=5.0, use_resource=True)
        x = v1.placeholder(tf.float32, [])
        sess.run(w.initializer)
        v1.saved_model.simple_save(sess, str(tmp_path / "model"), {"x": x}, {"y": x * w})
        sess.run(w.assign(7.0))
        return str(tmp_path / "model"), v1.train.Saver().save(sess, str(tmp_path / "seven"))


def test_graph_models_restore_checkpoints(graph_model):
    model, checkpoint = graph_model
    loaded = tf.saved_model.load(model)
    assert loaded.variables[0].numpy() == 5
    loaded.restore(checkpoint)
    assert loaded.variables[0].numpy() == 7 and loaded.signatures["serving_default"](tf.constant(2.0))["y"].numpy() == 14


def test_a_checkpoint_of_the_training_comes_after_the_graph_model_that_was_loaded(graph_model, tmp_path):
    with tf.Graph().as_default():
        more = tf.saved_model.load(graph_model[0]).variables[0].assign_add(1.0)
        step = v1.assign_add(v1.train.get_or_create_global_step(), 1)
        found = []
        for _ in range(2):
            with v1.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path / "training")) as session:
                found += [session.run(more) for _ in range(2)]
                session.run(step)
        assert found == [6, 7, 8, 9]
