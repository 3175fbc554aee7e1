"""Names of DeepRec around embedding variables: tables by quotient and remainder, lookups in groups, staged batches."""
import contextlib

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as v1

JOINS = {"add": np.add, "mul": np.multiply, "concat": lambda a, b: np.concatenate([a, b], -1)}


@pytest.mark.parametrize("operation", JOINS)
def test_a_multihash_variable_composes_two_rows(operation):
    ids = np.array([[0, 7, 24], [5, 19, 6]])
    with tf.Graph().as_default(), v1.Session() as sess:
        table = v1.get_multihash_variable("items", [[5, 3], [5, 3]], operation=operation)
        rows = tf.nn.embedding_lookup(table, ids)
        sparse = v1.nn.embedding_lookup_sparse(table, tf.sparse.from_dense(ids + 0), None, combiner="sum")
        train = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.square(rows)))
        sess.run(v1.global_variables_initializer())
        assert [v.op.name for v in v1.trainable_variables()] == ["items/multhash_Q", "items/multhash_R"]
        first, second = sess.run(v1.trainable_variables())
        expected = JOINS[operation](first[ids // 5], second[ids % 5])
        np.testing.assert_allclose(sess.run(rows), expected, rtol=1e-6, atol=1e-6)
        kept = np.where((ids != 0)[:, :, None], expected, 0).sum(1)
        np.testing.assert_allclose(sess.run(sparse), kept, rtol=1e-5, atol=1e-6)
        before = np.square(expected).sum()
        sess.run(train)
        assert np.square(sess.run(rows)).sum() < before


@pytest.mark.parametrize(("dims", "arguments"), [([[5, 3]], {}), ([[5, 3], [5, 4]], {}), ([[5, 3]] * 2, {"operation": "max"}),
                                                 ([[5, 3]] * 2, {"complementary_strategy": "R"})])
def test_multihash_variables_that_do_not_exist(dims, arguments):
    with tf.Graph().as_default(), pytest.raises(ValueError, match="must"):
        v1.get_multihash_variable("items", dims, **arguments)


def test_lookups_in_groups():
    with tf.Graph().as_default(), v1.Session() as sess:
        tables = [v1.get_embedding_variable(f"t{i}", 2 + i, initializer=v1.random_normal_initializer(seed=i)) for i in range(2)]
        ragged = tf.RaggedTensor.from_row_splits(tf.constant([3, 1, 4, 1, 5, 9, 2, 6], tf.int64), [0, 4, 4, 7, 8, 8])
        summed, mean = v1.nn.group_embedding_lookup_sparse(tables, [ragged, ragged.to_sparse()], ["sum", "mean"])
        placed, = v1.nn.group_embedding_lookup_sparse(tables[:1], [ragged], ["sum"], is_sequence=True)
        plain = v1.nn.group_embedding_lookup(tables, [[1, 2], [3]])
        sess.run(v1.global_variables_initializer())
        rows = [sess.run(t.lookup(tf.range(10, dtype=tf.int64))) for t in tables]
        ids = [[3, 1, 4, 1], [], [5, 9, 2], [6], []]
        np.testing.assert_allclose(sess.run(summed), [rows[0][i].sum(0) for i in ids], rtol=1e-5, atol=1e-6)
        means = [rows[1][i].mean(0) if i else np.zeros(3) for i in ids]
        np.testing.assert_allclose(sess.run(mean), means, rtol=1e-5, atol=1e-6)
        expected = np.zeros((5, 4, 2))
        for row, some in enumerate(ids):
            expected[row, :len(some)] = rows[0][some]
        np.testing.assert_allclose(sess.run(placed), expected, rtol=1e-6, atol=1e-6)
        for found, table, some in zip(sess.run(plain), rows, ([1, 2], [3]), strict=True):
            np.testing.assert_allclose(found, table[some], rtol=1e-6, atol=1e-6)
        with pytest.raises(ValueError, match="combiners"):
            v1.nn.group_embedding_lookup_sparse(tables, [ragged, ragged], ["sum"])


@pytest.mark.parametrize(("most", "lookups"), [(None, 1), (2, 2)])
def test_columns_of_a_group_are_looked_up_together(most, lookups):
    ids = tf.sparse.from_dense([[3, 1], [0, 0], [1, 0]])
    ids = tf.SparseTensor(ids.indices, tf.cast(ids.values, tf.int64), ids.dense_shape)

    def run(grouped):
        scope = v1.feature_column.group_embedding_column_scope("items", most) if grouped else contextlib.nullcontext()
        with tf.Graph().as_default() as graph, v1.Session() as sess:
            features = {f"f{i}": tf.SparseTensor(ids.indices.numpy(), ids.values.numpy(), ids.dense_shape.numpy())
                        for i in range(3)}
            with scope:
                columns = [v1.feature_column.embedding_column(
                    v1.feature_column.categorical_column_with_embedding(f"f{i}", dtype=tf.int64), 2 + i, combiner,
                    v1.random_normal_initializer(seed=i)) for i, combiner in enumerate(["sum", "mean", "sqrtn"])]
            made = v1.feature_column.input_layer(features, columns)
            train = v1.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf.square(made)))
            sess.run(v1.global_variables_initializer())
            sess.run(train)
            return sess.run(made), [op.type for op in graph.get_operations()]
    plain, _ = run(False)
    found, ops = run(True)
    np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-6)
    assert ops.count("GroupKvResourceLookup") == ops.count("GroupKvResourceLookupGrad") == lookups
    assert "KvResourceGather" not in ops


def test_staged_batches_end_with_the_dataset():
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.range(10).map(lambda x: {"x": x, "sparse": tf.sparse.from_dense(tf.reshape(x, [1]))})
        batch = v1.staged(v1.data.make_one_shot_iterator(dataset).get_next(), capacity=3)
        assert batch["x"].shape == [] and isinstance(batch["sparse"], tf.SparseTensor)
        found, more = [], batch["x"] + tf.constant(1, tf.int64)
        with v1.train.MonitoredTrainingSession(hooks=[v1.make_prefetch_hook()]) as sess:
            while not sess.should_stop():
                found.append(int(sess.run(more)))
        assert found == list(range(1, 11))


def test_staged_takes_no_feeds():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="feed"):
        v1.staged(tf.constant(1), feed_dict={"x": 1})
