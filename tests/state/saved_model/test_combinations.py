"""Parts of the 2.x API together: what programs that combine them need. The values are those of TensorFlow 2.21."""
from __future__ import annotations

import numpy as np

import penstock as tf
import penstock.compat.v1 as tf1


class Tokens(tf.Module):
    """A table with buckets for unknown words, ragged arguments, and a condition."""

    def __init__(self):
        words = tf.lookup.KeyValueTensorInitializer(["the", "cat", "sat"], tf.constant([0, 1, 2], tf.int64))
        self.table = tf.lookup.StaticVocabularyTable(words, 2)
        self.weights = tf.Variable(tf.reshape(tf.range(10.0), [5, 2]))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def ids(self, text):
        words = tf.strings.split(tf.strings.lower(text))
        found = words.with_values(self.table.lookup(words.values))
        return {"ids": found.to_tensor(-1), "n": found.row_lengths()}

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int64), tf.TensorSpec([], tf.bool)])
    def embed(self, rows, mean):
        found = tf.ragged.map_flat_values(tf.gather, self.weights, rows)
        return tf.cond(mean, lambda: tf.reduce_mean(found, axis=1), lambda: tf.reduce_max(found, axis=1))


def test_vocabularies_and_ragged_arguments_in_a_saved_model(tmp_path):
    module, path = Tokens(), str(tmp_path / "model")
    tf.saved_model.save(module, path, signatures={"ids": module.ids})
    loaded = tf.saved_model.load(path)
    found = loaded.ids(tf.constant(["The cat sat", "the dog", ""]))
    assert found["ids"].numpy().tolist() == [[0, 1, 2], [0, 3, -1], [-1, -1, -1]] and found["n"].numpy().tolist() == [3, 2, 0]
    rows = tf.ragged.constant([[0, 4, 1], [2]], dtype=tf.int64)
    np.testing.assert_array_equal(loaded.embed(rows, tf.constant(False)), [[8, 9], [4, 5]])
    with tf1.Session(graph=tf1.Graph()) as session:
        signature = tf1.saved_model.load(session, ["serve"], path).signature_def["ids"]
        found = session.run(signature.outputs["ids"].name, {signature.inputs["text"].name: [b"sat on the mat"]})
    assert found.tolist() == [[2, 3, 0, 3]]


def test_variables_are_tensors_where_the_signature_has_tensors():
    @tf.function(input_signature=[tf.TensorSpec([None])])
    def squares(x):
        return tf.reduce_sum(x * x)
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = squares(v)
    assert float(y) == 5.0 and tape.gradient(y, v).numpy().tolist() == [2.0, 4.0]


def test_map_fn_over_a_type_without_a_shape():
    class Interval(tf.experimental.BatchableExtensionType):
        low: tf.Tensor
        high: tf.Tensor
    intervals = Interval(tf.constant([1.0, 2.0, 4.0]), tf.constant([3.0, 5.0, 9.0]))
    widths = tf.map_fn(lambda i: i.high - i.low, intervals, fn_output_signature=tf.float32)
    assert widths.numpy().tolist() == [2.0, 3.0, 5.0]
