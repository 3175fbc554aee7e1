"""tf.tpu.experimental.embedding without a TPU: descriptions of tables, and lookups on the host, against numpy."""
from __future__ import annotations

import numpy as np
import pytest

import penstock as tf

embedding = tf.tpu.experimental.embedding
ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)
RAGGED = [[3], [0, 1, 2], [], [1, 1]]


def made(combiner="mean", optimizer=None, **feature):
    """Four rows of two numbers, and the feature that looks them up."""
    table = embedding.TableConfig(4, 2, lambda shape, dtype: tf.constant(ROWS, dtype), combiner=combiner, name="rows")
    config = {"a": embedding.FeatureConfig(table, **feature)}
    return embedding.TPUEmbeddingForServing(config, optimizer)


def joined(combiner, weights):
    """The rows of RAGGED, joined by numpy."""
    out = np.zeros((len(RAGGED), 2), np.float32)
    for i, (ids, w) in enumerate(zip(RAGGED, weights, strict=True)):
        if ids:
            w = np.asarray(w, np.float32)
            by = {"sum": 1.0, "mean": w.sum(), "sqrtn": np.sqrt((w * w).sum())}[combiner]
            out[i] = (ROWS[ids] * w[:, None]).sum(0) / by
    return out


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("form", ["sparse", "ragged"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_an_example_are_joined(combiner, form, weighted):
    weights = [[0.5 + j for j in range(len(ids))] for ids in RAGGED] if weighted else [[1.0] * len(ids) for ids in RAGGED]
    ids, given = tf.ragged.constant(RAGGED, tf.int32), tf.ragged.constant(weights, tf.float32)
    if form == "sparse":
        ids, given = ids.to_sparse(), given.to_sparse()
    found = made(combiner)({"a": ids}, {"a": given} if weighted else None)
    np.testing.assert_allclose(found["a"], joined(combiner, weights), rtol=1e-6)


@pytest.mark.parametrize("form", ["sparse", "ragged"])
def test_sequences_are_cut_and_filled_up(form):
    ids = tf.ragged.constant(RAGGED, tf.int32)
    found = made(max_sequence_length=2)({"a": ids.to_sparse() if form == "sparse" else ids})["a"]
    wanted = np.zeros((4, 2, 2), np.float32)
    for i, row in enumerate(RAGGED):
        wanted[i, :len(row[:2])] = ROWS[row[:2]]
    np.testing.assert_array_equal(found, wanted)


def test_a_ragged_feature_takes_the_stated_shape():
    ids = tf.ragged.constant(RAGGED, tf.int32)
    found = made("sum", output_shape=[2, 2])({"a": ids})["a"]
    np.testing.assert_allclose(found, joined("sum", [[1.0] * len(r) for r in RAGGED]).reshape(2, 2, 2), rtol=1e-6)
    with pytest.raises(ValueError, match="cannot take the output_shape"):
        made(output_shape=[3])({"a": ids})


def test_dense_features_and_their_gradient():
    tables = made()
    with tf.GradientTape() as tape:
        found = tables({"a": tf.constant([1, 3, 1])})["a"]
    np.testing.assert_array_equal(found, ROWS[[1, 3, 1]])
    table, = tables.embedding_tables.values()
    np.testing.assert_array_equal(tf.convert_to_tensor(tape.gradient(found, table)), [[0, 0], [2, 2], [0, 0], [1, 1]])


def test_optimizers_add_their_variables_and_checkpoints_have_them(tmp_path):
    tables = made(optimizer=embedding.FTRL(initial_accumulator_value=0.25))
    slots = tables.variables["rows"]
    assert set(slots) == {"parameters", "accumulators", "linears"}
    assert slots["parameters"].trainable and not slots["linears"].trainable
    np.testing.assert_array_equal(slots["accumulators"], np.full((4, 2), 0.25, np.float32))
    slots["parameters"].assign(-ROWS)
    path = tf.train.Checkpoint(tables=tables).save(str(tmp_path / "rows"))
    other = made(optimizer=embedding.FTRL())
    tf.train.Checkpoint(tables=other).restore(path)          # before there are variables
    np.testing.assert_array_equal(other.variables["rows"]["parameters"], -ROWS)
    np.testing.assert_array_equal(other.variables["rows"]["accumulators"], slots["accumulators"])


def test_the_tables_of_a_tpu_have_variables_and_no_lookups():
    table = embedding.TableConfig(4, 2, embedding.RowIdInitializer(offset=1))
    tables = embedding.TPUEmbedding(embedding.FeatureConfig(table), embedding.SGD(0.1))
    np.testing.assert_array_equal(tables.embedding_tables[table], [[1, 1], [2, 2], [3, 3], [4, 4]])
    with pytest.raises(RuntimeError, match="no TPUs"):
        tables.enqueue({})


@pytest.mark.parametrize("build, message", [
    (lambda: embedding.TableConfig(0, 2), "vocabulary_size"),
    (lambda: embedding.TableConfig(1, 2, combiner="max"), "combiner"),
    (lambda: embedding.FeatureConfig("rows"), "is a TableConfig"),
    (lambda: embedding.Adam(beta_1=1.0), "beta_1"),
    (lambda: embedding.Adagrad(initial_accumulator_value=0), "initial_accumulator_value"),
    (lambda: embedding.SGD(use_gradient_accumulation=False, clipvalue=1.0), "clipvalue"),
    (lambda: made()({"b": tf.constant([1])}), "without a feature"),
    (lambda: made()({"a": tf.constant([1])}, {"a": tf.constant([1.0])}), "dense input"),
])
def test_what_is_wrong_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
