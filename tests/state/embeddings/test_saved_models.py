"""Embedding variables in SavedModels: keys are found after loading, and lookups make no rows."""
import numpy as np
import pytest

import penstock as tf
from penstock.compat import v1
from tests.serving.models import Client, config_of, serving


def _save(folder):
    with v1.Graph().as_default(), v1.Session() as sess:
        table = v1.get_embedding_variable("table", 3, initializer=v1.random_normal_initializer(seed=1))
        keys = v1.placeholder(tf.int64, [None], "keys")
        rows = v1.nn.embedding_lookup(table, keys)
        train = v1.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(rows))
        sess.run(v1.global_variables_initializer())
        sess.run(train, {keys: [5, 6, 7]})
        v1.saved_model.simple_save(sess, folder, {"keys": keys}, {"rows": rows})
        return sess.run(rows, {keys: [5, 7, 100]})


def test_a_session_loads_rows_and_does_not_add_keys(tmp_path):
    expected = _save(str(tmp_path / "model"))
    with v1.Graph().as_default(), v1.Session() as sess:
        signature = v1.saved_model.load(sess, ["serve"], str(tmp_path / "model")).signature_def["serving_default"]
        rows, keys = signature.outputs["rows"].name, signature.inputs["keys"].name
        np.testing.assert_allclose(sess.run(rows, {keys: [5, 7, 100]}), expected, rtol=1e-6)
        sizes = [op for op in sess.graph.get_operations() if op.type == "KvResourceSize"]
        assert sess.run(sizes[0].outputs[0]) == 3



def test_a_server_looks_keys_up(tmp_path):
    expected = _save(str(tmp_path / "model" / "1"))
    with serving(config_of("table", tmp_path / "model")) as server, Client(server) as client:
        found = client.predict("table", keys=np.array([5, 7, 100]))["rows"]
        status, answer = client.rest("POST", "/v1/models/table:predict", {"inputs": [5, 7, 100]})
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert status == 200
    np.testing.assert_allclose(answer["outputs"], expected, rtol=1e-5)


class _Scored(tf.Module):
    """A table and a variable, and a function of both."""

    def __init__(self, keys, initializer):
        super().__init__()
        self.table = v1.get_embedding_variable("rows", 2, key_dtype=keys, initializer=initializer)
        self.scale = tf.Variable(10.0)
        self.score = tf.function(lambda k: tf.nn.embedding_lookup(self.table, k) * self.scale,
                                 input_signature=[tf.TensorSpec([None], keys)])


@pytest.mark.parametrize(("keys", "known", "unknown"), [(tf.int64, 7, 99), (tf.string, b"a", b"z")])
@pytest.mark.parametrize("computed", [True, False])
def test_objects_with_tables_are_loaded(keys, known, unknown, computed, tmp_path):
    initializer = v1.constant_initializer(0.5) if computed else v1.glorot_uniform_initializer()
    model = _Scored(keys, initializer)
    model.table.upsert(tf.constant([known], keys), [[1.0, 2.0]])
    tf.saved_model.save(model, str(tmp_path), signatures=model.score.get_concrete_function())
    expected = [[10.0, 20.0], [5.0, 5.0] if computed else [0.0, 0.0]]
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_array_equal(loaded.score(tf.constant([known, unknown], keys)), expected)
    assert loaded.table.size().numpy() == 1               # the lookup has made no row
    with v1.Graph().as_default(), v1.Session() as sess:
        signature = v1.saved_model.loader.load(sess, ["serve"], str(tmp_path)).signature_def["serving_default"]
        given, = (i.name for i in signature.inputs.values())
        out, = (o.name for o in signature.outputs.values())
        np.testing.assert_array_equal(sess.run(out, {given: [known, unknown]}), expected)


def test_models_of_sessions_are_loaded_as_objects(tmp_path):
    with v1.Graph().as_default(), v1.Session() as sess:
        table = v1.get_embedding_variable("rows", 2, initializer=v1.constant_initializer(0.5))
        keys = v1.placeholder(tf.int64, [None], "keys")
        rows = v1.nn.embedding_lookup(table, keys)
        train = v1.train.GradientDescentOptimizer(1.0).minimize(v1.reduce_sum(rows))
        sess.run(v1.global_variables_initializer())
        sess.run(train, {keys: [7]})
        v1.saved_model.simple_save(sess, str(tmp_path / "model"), {"keys": keys}, {"rows": rows})
    found = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"](tf.constant([7, 99], tf.int64))
    np.testing.assert_array_equal(found["rows"], [[-0.5, -0.5], [0.5, 0.5]])
