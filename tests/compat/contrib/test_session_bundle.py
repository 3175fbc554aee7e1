"""Exports from before SavedModel: written, read back, and turned into signatures."""
import os

import numpy as np
import pytest

import penstock.compat.v1 as tf

bundle = tf.contrib.session_bundle


@pytest.fixture(autouse=True)
def graph():
    """No graph around these tests: loading an export starts with an empty default graph."""
    tf.disable_eager_execution()                # tests/conftest.py puts it back
    yield
    tf.reset_default_graph()


def half_plus_two(folder, step=123, **signatures):
    """Exports y = 0.5 x + 2 with a file that its init op inspects."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None], name="x")
        with tf.device("/cpu:0"):
            a = tf.Variable(0.5, name="a")
        y = tf.identity(a * x + 2.0, name="y")
        words = folder / "words.txt"
        words.write_text("hello")
        file = tf.constant(str(words), name="words")
        seen = tf.Variable("", name="seen", collections=[tf.GraphKeys.LOCAL_VARIABLES],
                           use_resource=False)
        init = tf.assign(seen, tf.read_file(file)).op
        counter = tf.Variable(step, name="global_step")
        session.run(tf.global_variables_initializer())
        exporter = bundle.exporter.Exporter(tf.train.Saver())
        tf.add_to_collection("files", file)
        exporter.init(init_op=init, clear_devices=True,
                      default_graph_signature=bundle.exporter.regression_signature(x, y),
                      named_graph_signatures={"inputs": bundle.exporter.generic_signature({"x": x}),
                                              "outputs": bundle.exporter.generic_signature({"y": y})},
                      assets_collection=tf.get_collection("files"))
        return exporter.export(str(folder / "out"), counter, session, **signatures)


def test_an_export_is_read_back(tmp_path):
    where = half_plus_two(tmp_path)
    assert where.decode() == str(tmp_path / "out" / "00000123") and os.listdir(os.path.join(where, b"assets")) == [b"words.txt"]
    (tmp_path / "words.txt").unlink()
    assert bundle.session_bundle.maybe_session_bundle_dir(where.decode())
    session, meta = bundle.session_bundle.load_session_bundle_from_path(where.decode())
    with session:
        np.testing.assert_allclose(session.run("y:0", {"x:0": [0.0, 4.0]}), [2.0, 4.0], rtol=1e-6)
        assert session.run("seen:0") == b"hello"
    assert not any(node.device for node in meta.graph_def.node)


def test_signatures_become_those_of_a_saved_model(tmp_path):
    where = half_plus_two(tmp_path).decode()
    session, meta = bundle.bundle_shim.load_session_bundle_or_saved_model_bundle_from_path(where)
    session.close()
    regress = meta.signature_def["serving_default"]
    assert regress.method_name == "tensorflow/serving/regress"
    assert (regress.inputs["inputs"].name, regress.outputs["outputs"].name) == ("x:0", "y:0")
    named = meta.signature_def["serving_default_from_named"]
    assert named.inputs["x"].name == "x:0" and named.outputs["y"].name == "y:0"


def test_old_exports_go_and_none_is_overwritten(tmp_path):
    keep = bundle.gc.largest_export_versions(2)
    for step in (1, 2, 3):
        half_plus_two(tmp_path, step, exports_to_keep=keep)
    assert sorted(os.listdir(tmp_path / "out")) == ["00000002", "00000003"]
    with pytest.raises(RuntimeError, match="Overwriting exports"):
        half_plus_two(tmp_path, 3)


def test_filters_of_versions():
    gc = bundle.gc
    paths = [gc.Path(f"/tmp/{n}", n) for n in range(9)]

    def versions(keep):
        return [p.export_version for p in keep(paths)]
    assert versions(gc.largest_export_versions(3)) == [6, 7, 8] and versions(gc.mod_export_version(4)) == [0, 4, 8]
    assert versions(gc.one_of_every_n_export_versions(3)) == [3, 6, 8]
    assert versions(gc.union(gc.mod_export_version(4), gc.largest_export_versions(1))) == [0, 4, 8]
    assert versions(gc.negation(gc.mod_export_version(2))) == [1, 3, 5, 7]
