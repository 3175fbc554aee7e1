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


def test_tf_saved_model_load_has_the_rows(tmp_path):
    expected = _save(str(tmp_path / "model"))
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    found = loaded.signatures["serving_default"](tf.constant([5, 7, 100], tf.int64))["rows"]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    (table,) = (v for v in loaded.variables if "EmbeddingVariable" in repr(v))
    assert table.size() == 3                                      # the lookup of 100 has made no row


def test_objects_with_embedding_variables_are_refused(tmp_path):
    module = tf.Module()
    module.table = v1.get_embedding_variable("table", 3)
    module.find = tf.function(lambda keys: tf.nn.embedding_lookup(module.table, keys),
                              input_signature=[tf.TensorSpec([None], tf.int64)])
    with pytest.raises(tf.errors.UnimplementedError, match="simple_save"):
        tf.saved_model.save(module, str(tmp_path / "model"))


def test_a_server_looks_keys_up(tmp_path):
    expected = _save(str(tmp_path / "model" / "1"))
    with serving(config_of("table", tmp_path / "model")) as server, Client(server) as client:
        found = client.predict("table", keys=np.array([5, 7, 100]))["rows"]
        status, answer = client.rest("POST", "/v1/models/table:predict", {"inputs": [5, 7, 100]})
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert status == 200
    np.testing.assert_allclose(answer["outputs"], expected, rtol=1e-5)
