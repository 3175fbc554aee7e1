"""SavedModels of graphs and of objects: written, read, served by signature, and what is wrong with them."""
import os
import random

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as v1
from penstock._src.io.messages import SavedModel


# -- of graphs -------------------------------------------------------------------------------------------------------
def write_graph_model(folder, asset=None):
    with tf.Graph().as_default(), v1.Session() as sess:
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        w = v1.get_variable("w", initializer=[[1.0], [2.0]])
        y = tf.matmul(x, w, name="y")
        sess.run(v1.global_variables_initializer())
        init = None
        if asset:
            v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, tf.constant(str(asset), name="asset"))
            text = v1.get_variable("text", initializer="", collections=[v1.GraphKeys.LOCAL_VARIABLES],
                                   use_resource=False)
            init = text.assign(tf.io.read_file(sess.graph.get_tensor_by_name("asset:0"))).op
        v1.saved_model.simple_save(sess, str(folder), {"x": x}, {"y": y}, legacy_init_op=init)


def test_a_graph_is_saved_and_loaded(tmp_path):
    (tmp_path / "words.txt").write_text("hello")
    write_graph_model(tmp_path / "m", tmp_path / "words.txt")
    (tmp_path / "words.txt").unlink()
    assert sorted(os.listdir(tmp_path / "m")) == ["assets", "saved_model.pb", "variables"]
    assert v1.saved_model.contains_saved_model(str(tmp_path / "m"))
    with tf.Graph().as_default() as g, v1.Session() as sess:
        loaded = v1.saved_model.load(sess, [v1.saved_model.tag_constants.SERVING], str(tmp_path / "m"), import_scope="s")
        signature = loaded.signature_def["serving_default"]
        assert v1.saved_model.is_valid_signature(signature)
        y = v1.saved_model.get_tensor_from_tensor_info(signature.outputs["y"], import_scope="s")
        assert sess.run(y, {"s/x:0": [[1.0, 1.0]]}).tolist() == [[3.0]]
        assert sess.run(g.get_tensor_by_name("s/text:0")) == b"hello"


def test_a_graph_is_loaded_as_an_object(tmp_path):
    write_graph_model(tmp_path / "m")
    model = tf.saved_model.load(str(tmp_path / "m"))
    assert model.signatures["serving_default"](x=tf.constant([[1.0, 2.0]]))["y"].numpy().tolist() == [[5.0]]
    assert [v.numpy().tolist() for v in model.variables] == [[[1.0], [2.0]]]


def test_several_graphs_with_tags(tmp_path):
    builder = v1.saved_model.Builder(str(tmp_path / "m"))
    with tf.Graph().as_default(), v1.Session() as sess:
        v1.get_variable("v", initializer=1.0, use_resource=False)
        with pytest.raises(AssertionError, match="has not been saved yet"):
            builder.add_meta_graph(["a"])
        sess.run(v1.global_variables_initializer())
        builder.add_meta_graph_and_variables(sess, ["a", "b"])
        builder.add_meta_graph(["c"])
        builder.save(as_text=True)
    with tf.Graph().as_default(), v1.Session() as sess:
        v1.saved_model.load(sess, {"b", "a"}, str(tmp_path / "m"))
        assert sess.run("v:0") == 1.0
        with pytest.raises(RuntimeError, match="could not be found in SavedModel"):
            v1.saved_model.load(sess, ["a"], str(tmp_path / "m"))
    with pytest.raises(AssertionError, match="isn't empty"):
        v1.saved_model.Builder(str(tmp_path / "m"))
    with pytest.raises(ValueError, match="tags"):
        tf.saved_model.load(str(tmp_path / "m"))


# -- of objects ------------------------------------------------------------------------------------------------------
class Scale(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="w")
        self.parts = [tf.Variable(5.0), {"bias": tf.Variable(1.0)}]
        self.pair = (tf.Variable(7.0), "text")
        self.offset = tf.constant([10.0])

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    def f(self, x):
        return tf.matmul(x, self.w) * self.parts[0]

    @tf.function
    def g(self, x, double=False):
        y = x + self.offset if not double else x * 2.0
        for _ in tf.range(3):
            y = y + 1.0
        return {"y": y, "inner": (x, self.parts[1]["bias"])}


@pytest.fixture
def saved(tmp_path):
    module = Scale()
    module.g(tf.constant([1.0]))
    module.g(tf.constant([1.0]), double=True)
    tf.saved_model.save(module, str(tmp_path / "m"), signatures={"serving_default": module.f})
    return str(tmp_path / "m")


def test_an_object_is_saved_and_loaded(saved):
    model = tf.saved_model.load(saved)
    assert model.f([[1.0, 1.0]]).numpy().tolist() == [[20.0, 30.0]]
    out = model.g(tf.constant([1.0]))
    assert out["y"].numpy().tolist() == [14.0] and out["inner"][1].numpy() == 1.0
    assert model.g(tf.constant([1.0]), double=True)["y"].numpy().tolist() == [5.0]
    assert model.parts[1]["bias"].numpy() == 1.0 and isinstance(model.parts, list) and model.pair[0].numpy() == 7.0
    model.w.assign(tf.zeros([2, 2]))
    assert model.f([[1.0, 1.0]]).numpy().tolist() == [[0.0, 0.0]]
    assert model.signatures["serving_default"](x=tf.constant([[1.0, 1.0]]))["output_0"].numpy().tolist() == [[0.0, 0.0]]


def test_gradients_flow_to_loaded_variables(saved):
    model = tf.saved_model.load(saved)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model.f(tf.constant([[1.0, 2.0]])))
    assert tape.gradient(loss, model.w).numpy().tolist() == [[5.0, 5.0], [10.0, 10.0]]


def test_what_was_loaded_is_saved_again(saved, tmp_path):
    for i in range(2):
        model = tf.saved_model.load(saved)
        saved = str(tmp_path / f"again{i}")
        tf.saved_model.save(model, saved, signatures=model.signatures)
    model = tf.saved_model.load(saved)
    assert model.g(tf.constant([1.0]))["y"].numpy().tolist() == [14.0]
    assert model.signatures["serving_default"](x=tf.constant([[1.0, 1.0]]))["output_0"].numpy().tolist() == [[20.0, 30.0]]


def test_an_object_is_served_in_a_session(saved):
    with tf.Graph().as_default(), v1.Session() as sess:
        loaded = v1.saved_model.load(sess, ["serve"], saved)
        signature = loaded.signature_def["serving_default"]
        got = sess.run(signature.outputs["output_0"].name, {signature.inputs["x"].name: [[1.0, 1.0]]})
        assert got.tolist() == [[20.0, 30.0]]


def test_assets_move_with_the_model(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    root = tf.Module()
    root.asset = tf.saved_model.Asset(str(tmp_path / "a.txt"))
    root.read = tf.function(lambda: tf.io.read_file(root.asset.asset_path), input_signature=[])
    tf.saved_model.save(root, str(tmp_path / "m"))
    (tmp_path / "a.txt").unlink()
    os.rename(tmp_path / "m", tmp_path / "moved")
    assert tf.saved_model.load(str(tmp_path / "moved")).read().numpy() == b"hello"


def test_assets_of_signatures_move_with_the_model(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    root = tf.Module()
    root.asset = tf.saved_model.Asset(str(tmp_path / "a.txt"))
    root.read = tf.function(lambda: tf.io.read_file(root.asset), input_signature=[])
    tf.saved_model.save(root, str(tmp_path / "m"), root.read)
    (tmp_path / "a.txt").write_text("new")
    tf.saved_model.save(root, str(tmp_path / "m"), root.read)
    (tmp_path / "a.txt").unlink()
    os.rename(tmp_path / "m", tmp_path / "moved")
    with v1.Session(graph=v1.Graph()) as sess:
        signature = v1.saved_model.load(sess, ["serve"], str(tmp_path / "moved")).signature_def["serving_default"]
        assert sess.run(signature.outputs["output_0"].name) == b"new"
    with v1.Graph().as_default():
        tf.saved_model.load(str(tmp_path / "moved"))
        assert len(v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS)) == 1


def test_defaults_of_arguments(tmp_path):
    root = tf.Module()
    root.f = tf.function(lambda x, y=tf.constant(5.0): x + y, input_signature=[tf.TensorSpec([])])
    root.g = tf.function(lambda x=np.array(5.0, np.float32): x, input_signature=[tf.TensorSpec([])], jit_compile=False)
    tf.saved_model.save(root, str(tmp_path / "m"), {"f": root.f})
    model = tf.saved_model.load(str(tmp_path / "m"))
    assert model.f(2.0) == 7.0 and model.g() == 5.0 and model.g(7.0) == 7.0
    with v1.Session(graph=v1.Graph()) as sess:
        f = v1.saved_model.load(sess, ["serve"], str(tmp_path / "m")).signature_def["f"]
        assert sess.run(f.outputs["output_0"].name, {f.inputs["x"].name: 2.0}) == 7.0


def test_arguments_that_fit_no_trace_are_refused(saved):
    model = tf.saved_model.load(saved)
    with pytest.raises(ValueError, match="Could not find matching concrete function"):
        model.g(tf.constant(["text"]))
    with pytest.raises(TypeError):
        model.signatures["new"] = model.f


def test_untracked_variables_are_refused(tmp_path):
    hidden, root = tf.Variable(1.0), tf.Module()
    root.f = tf.function(lambda: hidden + 1.0, input_signature=[])
    with pytest.raises(AssertionError, match="untracked"):
        tf.saved_model.save(root, str(tmp_path / "m"))
    root.f = tf.function(lambda x: hidden + x)
    root.f(tf.constant(1.0))
    with pytest.raises(KeyError, match="not reachable from root"):
        tf.saved_model.save(root, str(tmp_path / "m"))


def test_a_function_needs_to_say_what_it_takes_to_be_a_signature(tmp_path):
    root = tf.Module()
    root.f = tf.function(lambda x: 2.0 * x)
    root.f(tf.constant(1.0))
    with pytest.raises(ValueError, match="Expected a TensorFlow function.*get_concrete_function"):
        tf.saved_model.save(root, str(tmp_path / "m"), root.f)


def test_slots_of_optimizers_are_restored_into_graphs(tmp_path):
    class Training(tf.Module):
        def __init__(self):
            self.w, self.optimizer = tf.Variable([1.0, 2.0]), tf.keras.optimizers.Adam(0.1)

        @tf.function(input_signature=[tf.TensorSpec([2])])
        def step(self, x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((self.w * x - 1.0) ** 2)
            self.optimizer.apply_gradients([(tape.gradient(loss, self.w), self.w)])
            return {"loss": loss}
    model, x = Training(), np.array([1.0, 3.0], np.float32)
    model.step(tf.constant(x))
    tf.saved_model.save(model, str(tmp_path), model.step)
    expected = [float(model.step(tf.constant(x))["loss"]) for _ in range(3)]
    with tf.Graph().as_default(), v1.Session() as sess:
        signature = v1.saved_model.load(sess, ["serve"], str(tmp_path)).signature_def["serving_default"]
        found = [sess.run(signature.outputs["loss"].name, {signature.inputs["x"].name: x}) for _ in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def write_loop_model(folder):
    with tf.Graph().as_default(), v1.Session() as sess:
        n = v1.placeholder(tf.int32, [], name="n")
        w = v1.get_variable("w", initializer=2, use_resource=True)
        local = v1.get_local_variable("local", initializer=3, use_resource=True)
        v1.disable_control_flow_v2()
        _, total = v1.while_loop(lambda i, s: i <= n, lambda i, s: (i + 1, s + i * w * local), [0, 0])
        sparse = tf.SparseTensor(tf.constant([[0, 1]], tf.int64), [total], tf.constant([1, 2], tf.int64))
        sess.run([w.initializer, local.initializer])
        v1.saved_model.simple_save(sess, str(folder), {"n": n}, {"total": total, "sparse": sparse},
                                   legacy_init_op=local.initializer)


def test_a_graph_with_loops_and_sparse_outputs_is_loaded_as_an_object(tmp_path):
    write_loop_model(tmp_path / "m")
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    out = loaded.signatures["serving_default"](tf.constant(4))
    assert int(out["total"]) == 60
    assert tf.sparse.to_dense(out["sparse"]).numpy().tolist() == [[0, 60]]
    with tf.Graph().as_default(), v1.Session() as sess:
        loaded = tf.saved_model.load(str(tmp_path / "m"))
        out = loaded.signatures["serving_default"](tf.constant(4))
        sess.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])
        assert sess.run(out["total"]) == 60


def test_damaged_models_give_typed_errors(saved):
    """Bit flips and cuts of the message and the variables: it loads, or a typed error says why not."""
    rng, refused = random.Random(4), 0
    files = [os.path.join(saved, "saved_model.pb"), os.path.join(saved, "variables", "variables.index"),
             os.path.join(saved, "variables", "variables.data-00000-of-00001")]
    for path in files:
        with open(path, "rb") as f:
            whole = f.read()
        for _ in range(12):
            bad = bytearray(whole)
            if rng.random() < 0.5:
                bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            else:
                del bad[rng.randrange(len(bad)):]
            with open(path, "wb") as f:
                f.write(bad)
            try:
                tf.saved_model.load(saved)
            except (OSError, ValueError, TypeError, KeyError, LookupError, tf.errors.OpError):
                refused += 1
        with open(path, "wb") as f:
            f.write(whole)
    assert refused > 10
    assert np.isfinite(tf.saved_model.load(saved).f([[1.0, 1.0]]).numpy()).all()


def test_an_object_whose_call_is_itself_is_not_callable(tmp_path):
    module = tf.Module()
    module.again = tf.Module()
    tf.saved_model.save(module, str(tmp_path))
    message = SavedModel.FromString((tmp_path / "saved_model.pb").read_bytes())
    child, = [c for c in message.meta_graphs[0].object_graph_def.nodes[0].children if c.local_name == "again"]
    child.local_name, child.node_id = "__call__", 0
    (tmp_path / "saved_model.pb").write_bytes(message.SerializeToString())
    with pytest.raises(TypeError, match="not callable"):
        tf.saved_model.load(str(tmp_path))(1.0)


@pytest.mark.parametrize("structure", [dict, list])
def test_the_default_function_of_a_model_takes_its_inputs_in_their_structure(tmp_path, structure):
    x, y = tf.keras.Input((2,), name="x"), tf.keras.Input((2,), name="y")
    outputs = tf.keras.layers.Dense(1, name="out")(x - y)
    a, b = tf.constant([[1.0, 2.0]]), tf.constant([[5.0, 3.0]])
    inputs, given = ({"y": y, "x": x}, {"x": a, "y": b}) if structure is dict else ([y, x], [b, a])
    model = tf.keras.Model(inputs, outputs)
    tf.saved_model.save(model, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    expected = model(given).numpy()
    np.testing.assert_allclose(loaded._default_save_signature(given)["out"].numpy(), expected, rtol=1e-6, atol=1e-6)
    serve = loaded.signatures["serving_default"]
    np.testing.assert_allclose(serve(x=a, y=b)["out"].numpy(), expected, rtol=1e-6, atol=1e-6)
    with pytest.raises(TypeError, match="by name"):
        serve(given)


def test_names_of_inputs_need_not_be_identifiers(tmp_path):
    with v1.Graph().as_default(), v1.Session() as sess:
        a, b = v1.placeholder(v1.float32, [], name="a"), v1.placeholder(v1.float32, [], name="b")
        v1.saved_model.simple_save(sess, str(tmp_path / "1"), {"in./-": a, "class": b}, {"out": a * 2 + b})
    for number in (1, 2):                              # as it was saved by a session, then as an object
        model = tf.saved_model.load(str(tmp_path / str(number)))
        found = model.signatures["serving_default"](**{"in./-": tf.constant(3.0), "class": tf.constant(1.0)})
        assert found["out"].numpy() == 7.0
        tf.saved_model.save(model, str(tmp_path / str(number + 1)), model.signatures)


def test_outputs_of_loaded_functions_are_specs(tmp_path):
    """Named as by TensorFlow 2.21: after the keys and positions of the outputs."""
    module = tf.Module()
    one = [tf.TensorSpec([2], name="v")]
    module.bare = tf.function(lambda v: v + 1, input_signature=one)
    module.nested = tf.function(lambda v: {"z": v, "y": (v, v), "_x": v}, input_signature=one)
    module.listed = tf.function(lambda v: [v, {"k": v}, tf.sparse.from_dense(v)], input_signature=one)
    for turn in range(2):                                  # loaded functions are saved in the same way
        path = str(tmp_path / str(turn))
        tf.saved_model.save(module, path, signatures=module.bare)
        module = tf.saved_model.load(path)
        functions = module.bare, module.nested, module.listed
        bare, nested, listed = (f.concrete_functions[0].structured_outputs for f in functions)
        assert bare == tf.TensorSpec([2], name="unknown")
        assert nested == {"z": tf.TensorSpec([2], name="z"), "_x": tf.TensorSpec([2], name="tensor__x"),
                          "y": (tf.TensorSpec([2], name="y_0"), tf.TensorSpec([2], name="y_1"))}
        assert listed == [tf.TensorSpec([2], name="tensor_0"), {"k": tf.TensorSpec([2], name="tensor_1_k")},
                          tf.SparseTensorSpec([2])]
        assert list(nested) == ["_x", "y", "z"]            # maps of messages have no order of their own
        served = module.signatures["serving_default"]
        assert served.structured_outputs == {"output_0": tf.TensorSpec([2], name="output_0")}
        assert served.output_shapes == {"output_0": [2]} and served.output_dtypes == {"output_0": tf.float32}
        assert served(v=tf.ones(2))["output_0"].numpy().tolist() == [2, 2]


class Masked(tf.experimental.ExtensionType):
    """A type with a name, by which SavedModels know it."""

    __name__ = "penstock.tests.Masked"
    values: tf.Tensor
    parts: tuple[tf.Tensor, int]


def test_functions_of_extension_types(tmp_path):
    class Module(tf.Module):
        @tf.function
        def total(self, x):
            return tf.reduce_sum(x.values) + x.parts[0] * x.parts[1]
    module = Module()
    given = [Masked([1, 2], (3, 4)), Masked([0.5], (2.0, 5))]
    want = [module.total(x).numpy() for x in given]
    tf.saved_model.save(module, str(tmp_path / "m"))
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    assert [loaded.total(x).numpy() for x in given] == want == [15, 10.5]


def test_default_attributes_are_restored_by_loading(tmp_path):
    builder = v1.saved_model.Builder(str(tmp_path / "model"))
    with tf.Graph().as_default(), v1.Session() as session:
        tf.complex(1.0, 2.0, name="c")
        builder.add_meta_graph_and_variables(session, ["x"], strip_default_attrs=True)
    builder.save()
    with tf.Graph().as_default(), v1.Session() as session:
        loaded = v1.saved_model.load(session, ["x"], str(tmp_path / "model"))
    node = next(n for n in loaded.graph_def.node if n.name == "c")
    assert node.attr["T"].type == tf.float32.as_datatype_enum and node.attr["Tout"].type == tf.complex64.as_datatype_enum
