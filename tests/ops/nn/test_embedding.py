"""Embeddings looked up by sparse and ragged ids."""
import numpy as np
import pytest

import penstock as tf


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_ids_may_be_ragged_and_tables_narrow(dtype):
    table = tf.cast(tf.reshape(tf.range(12), [6, 2]), dtype)
    got = tf.nn.embedding_lookup_sparse(table, tf.ragged.constant([[1, 3], [5]]), tf.ragged.constant([[1.0, 3.0], [2.0]]),
                                         combiner="mean", allow_fast_lookup=True)
    assert got.dtype == dtype
    np.testing.assert_allclose(np.asarray(tf.cast(got, tf.float32)), [[5.0, 6.0], [10.0, 11.0]], rtol=1e-6)


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_rows_without_ids_or_weight_are_zeros(combiner):
    places = [[1, 0], [3, 0]]
    ids, weights = tf.SparseTensor(places, [0, 2], [4, 1]), tf.SparseTensor(places, [2., 0.], [4, 1])
    out = tf.nn.embedding_lookup_sparse(tf.ones([4, 2]), ids, weights, combiner=combiner)
    full = 2 if combiner == "sum" else 1
    np.testing.assert_array_equal(out, [[0, 0], [full, full], [0, 0], [0, 0]])
