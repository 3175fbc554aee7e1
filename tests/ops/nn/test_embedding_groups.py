"""Lookups in several tables at once."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as v1
from penstock._src.ops.nn.embedding_groups import group_lookup

IDS = [[3, 1, 3], [], [9]]


def _tables(count, **more):
    return [v1.get_embedding_variable(f"t{i}", 2 + i, initializer=v1.random_normal_initializer(seed=i), **more)
            for i in range(count)]


@pytest.mark.parametrize("weighted", [False, True])
def test_values_and_gradients_are_those_of_single_lookups(weighted):
    with tf.Graph().as_default(), v1.Session() as sess:
        tables, combiners = _tables(3), ["sum", "mean", "sqrtn"]
        ids = [tf.ragged.constant(IDS, dtype=tf.int64).to_sparse()] * 3
        weights = [tf.ragged.constant([[0.5, 2.0, 1.0], [], [3.0]]).to_sparse()] * 3 if weighted else None
        found = v1.nn.group_embedding_lookup_sparse(tables, ids, combiners, weights)
        assert {t.op.type for t in found} == {"GroupKvResourceLookup"} and len({t.op for t in found}) == 1
        single = [v1.nn.embedding_lookup_sparse(t, i, weights and weights[0], combiner=c)
                  for t, i, c in zip(tables, ids, combiners, strict=True)]

        def gradients(values):
            loss = tf.add_n([tf.reduce_sum(v * v) for v in values])
            return [_summed(*sess.run([g.indices, g.values])) for g in v1.gradients(loss, tables)]
        sess.run(v1.global_variables_initializer())
        for a, b in zip(*sess.run([found, single]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
            assert not a[1].any()
        for a, b in zip(gradients(found), gradients(single), strict=True):
            assert list(a) == list(b) == [1, 3, 9]
            np.testing.assert_allclose(list(a.values()), list(b.values()), rtol=1e-5, atol=1e-6)


def _summed(keys, values):
    return {k: values[keys == k].sum(0) for k in sorted(set(keys.tolist()))}


def test_eager_training_of_a_group():
    tables, ids = _tables(2), tf.ragged.constant(IDS, dtype=tf.int64)
    with tf.GradientTape() as tape:
        users, items = v1.nn.group_embedding_lookup(tables, [[[5, 6]], [7]])
        sums = v1.nn.group_embedding_lookup_sparse(tables, [ids, ids], ["sum", "sum"])
        loss = tf.add_n([tf.reduce_sum(t) for t in (users, items, *sums)])
    assert users.shape == [1, 2, 2] and items.shape == [1, 3]
    optimizer = tf.keras.optimizers.SGD(1.0)
    before = tables[0].lookup([3, 5, 9]).numpy()
    optimizer.apply_gradients(zip(tape.gradient(loss, tables), tables, strict=True))
    np.testing.assert_allclose(before - tables[0].lookup([3, 5, 9]).numpy(), [[2, 2], [1, 1], [1, 1]], rtol=1e-5, atol=1e-6)


def test_tables_of_different_kinds_are_looked_up_apart():
    with tf.Graph().as_default(), v1.Session() as sess:
        tables = [*_tables(2), v1.get_embedding_variable("names", 2, tf.string), v1.get_variable("dense", [10, 2])]
        ids = tf.ragged.constant(IDS, dtype=tf.int64)
        names = tf.ragged.constant([["a"], [], ["b", "a"]])
        found = v1.nn.group_embedding_lookup_sparse(tables, [ids, ids, names, ids], ["sum"] * 4)
        assert found[0].op is found[1].op is not found[2].op and found[3].op.type != "GroupKvResourceLookup"
        sess.run(v1.global_variables_initializer())
        assert [v.shape for v in sess.run(found)] == [(3, 2), (3, 3), (3, 2), (3, 2)]


def test_groups_of_a_given_number():
    with tf.Graph().as_default():
        ids = [tf.ragged.constant(IDS, dtype=tf.int64)] * 5
        found = v1.nn.group_embedding_lookup_sparse(_tables(5), ids, ["sum"] * 5, params_num_per_group=2)
        assert len({t.op for t in found}) == 3
        with pytest.raises(ValueError, match="params_num_per_group"):
            v1.nn.group_embedding_lookup_sparse(_tables(0), [], [], params_num_per_group=0)
        with pytest.raises(ValueError, match="combiners"):
            v1.nn.group_embedding_lookup_sparse([object()], [ids[0]], ["max"])


def test_rows_of_keys_are_checked():
    table = _tables(1)[0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="between 0 and 1"):
        group_lookup([table.handle], [tf.constant([1], tf.int64)], [tf.constant([2], tf.int64)], [], [tf.constant(2, tf.int64)],
                     combiners=["sum"], T=tf.float32)
