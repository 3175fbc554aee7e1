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


class Found(tf.Module):
    """Looks keys up in two tables, and scales the rows."""

    def __init__(self, key_dtype=tf.int64, saver=None):
        super().__init__()
        creator = tf.dynamic_embedding.CuckooHashTableCreator(saver=saver)
        self.table = tf.dynamic_embedding.get_variable("table", key_dtype, dim=2, initializer=1.0, devices=["/cpu:0"] * 2,
                                                       kv_creator=creator)
        self.scale = tf.Variable(2.0)
        self.find = tf.function(lambda keys: tf.dynamic_embedding.embedding_lookup(self.table, keys) * self.scale,
                                input_signature=[tf.TensorSpec([None], key_dtype, "keys")])


@pytest.mark.parametrize("saver", [None, tf.dynamic_embedding.FileSystemSaver()])
@pytest.mark.parametrize(("dtype", "keys"), [(tf.int64, [1, 2, 9]), (tf.string, [b"a", b"bc", b"z"])])
def test_objects_with_embedding_variables(tmp_path, dtype, keys, saver):
    module, expected = Found(dtype, saver), [[2.0, 4.0], [6.0, 8.0], [2.0, 2.0]]
    module.table.upsert(keys[:2], [[1.0, 2.0], [3.0, 4.0]])
    tf.saved_model.save(module, str(tmp_path / "model"))
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.find(tf.constant(keys, dtype)), expected)
    np.testing.assert_array_equal(loaded.signatures["serving_default"](keys=tf.constant(keys, dtype))["output_0"], expected)
    assert sum(int(t.size()) for t in (loaded.table.table_0, loaded.table.table_1)) == 2         # lookups have made no row
    tf.saved_model.save(loaded, str(tmp_path / "again"))
    np.testing.assert_array_equal(tf.saved_model.load(str(tmp_path / "again")).find(tf.constant(keys, dtype)), expected)
    with v1.Graph().as_default(), v1.Session() as sess:
        signature = v1.saved_model.load(sess, ["serve"], str(tmp_path / "model")).signature_def["serving_default"]
        found = sess.run(signature.outputs["output_0"].name, {signature.inputs["keys"].name: keys})
    np.testing.assert_array_equal(found, expected)


def test_a_restricted_load_refuses_rows_in_files(tmp_path):
    for name, saver in ("plain", None), ("files", tf.dynamic_embedding.FileSystemSaver()):
        tf.saved_model.save(Found(saver=saver), str(tmp_path / name))
    tf.saved_model.load(str(tmp_path / "plain"), restricted=True)
    with pytest.raises(tf.errors.PermissionDeniedError, match="rows in files"):
        tf.saved_model.load(str(tmp_path / "files"), restricted=True)


def test_keras_models_with_embedding_layers(tmp_path):
    inputs = tf.keras.Input([3], dtype=tf.int64)
    rows = tf.dynamic_embedding.keras.layers.Embedding(4, name="rows")(inputs)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(tf.keras.layers.Flatten()(rows)))
    model.compile(tf.keras.optimizers.Adam(0.1), "mse")
    x = np.random.default_rng(0).integers(0, 50, (64, 3))
    model.fit(x, x.sum(1, keepdims=True) / 50, verbose=0)
    model.save(str(tmp_path / "model"))
    expected = model.predict(x, verbose=0)
    served = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"](tf.constant(x))
    np.testing.assert_allclose(next(iter(served.values())), expected, rtol=1e-5, atol=1e-6)
    again = tf.keras.models.load_model(str(tmp_path / "model"),
                                       custom_objects={"Embedding": tf.dynamic_embedding.keras.layers.Embedding})
    np.testing.assert_allclose(again.predict(x, verbose=0), expected, rtol=1e-5, atol=1e-6)
    again.fit(x, x.sum(1, keepdims=True) / 50, verbose=0)


def test_a_server_looks_keys_up(tmp_path):
    expected = _save(str(tmp_path / "model" / "1"))
    with serving(config_of("table", tmp_path / "model")) as server, Client(server) as client:
        found = client.predict("table", keys=np.array([5, 7, 100]))["rows"]
        status, answer = client.rest("POST", "/v1/models/table:predict", {"inputs": [5, 7, 100]})
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert status == 200
    np.testing.assert_allclose(answer["outputs"], expected, rtol=1e-5)
