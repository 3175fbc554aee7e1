"""Checkpoints of embedding variables: rows, slots, versions and frequencies; onto another number of parts."""
import numpy as np
import pytest

import penstock as tf
from penstock.compat import v1


def _model(parts, dtype="int64", dim=4):
    cut = v1.fixed_size_partitioner(parts) if parts > 1 else None
    table = v1.get_embedding_variable("table", dim, key_dtype=dtype, partitioner=cut,
                                      initializer=v1.random_normal_initializer(seed=3))
    keys = v1.placeholder(dtype, [None])
    loss = tf.reduce_sum(v1.nn.embedding_lookup(table, keys) ** 2)
    train = v1.train.AdamOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
    return table, keys, loss, train


@pytest.mark.parametrize("dtype", ["int64", "string"])
@pytest.mark.parametrize("after", [1, 2, 5])
@pytest.mark.parametrize("before", [1, 3])
def test_a_saver_restores_onto_another_number_of_parts(tmp_path, before, after, dtype):
    ids = np.arange(-20, 20) if dtype == "int64" else np.array([f"key {i}" for i in range(40)], object)
    with v1.Graph().as_default(), v1.Session() as sess:
        _, keys, loss, train = _model(before, dtype)
        saver = v1.train.Saver(sharded=before > 1)
        sess.run(v1.global_variables_initializer())
        for _ in range(3):
            sess.run(train, {keys: ids})
        path = saver.save(sess, str(tmp_path / "model"))
        sess.run(train, {keys: ids})
        expected = sess.run(loss, {keys: ids})
    with v1.Graph().as_default(), v1.Session() as sess:
        table, keys, loss, train = _model(after, dtype)
        saver = v1.train.Saver()
        saver.restore(sess, path)
        sess.run(train, {keys: ids})            # the slots and the step count were restored, too
        np.testing.assert_allclose(sess.run(loss, {keys: ids}), expected, rtol=1e-5, atol=1e-6)
        assert sess.run(table.size()) == len(ids)


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("how", ["name", "scope", "variable", "warm start"])
def test_initializers_read_the_checkpoint_of_another_run(tmp_path, how, after):
    with v1.Graph().as_default(), v1.Session() as sess:
        _, keys, loss, train = _model(2)
        sess.run(v1.global_variables_initializer())
        sess.run(train, {keys: [5, 6, 7]})
        path = v1.train.Saver().save(sess, str(tmp_path / "model"))
        expected = sess.run(loss, {keys: [5, 6, 7]})
    with v1.Graph().as_default(), v1.Session() as sess:
        with v1.variable_scope("" if how == "warm start" else "new"):
            table, keys, loss, _ = _model(after)
        if how == "warm start":
            v1.train.warm_start(path, "table")
        else:
            v1.train.init_from_checkpoint(path, {"scope": {"/": "new/"},
                                                 "name": {"table": "new/table"},
                                                 "variable": {"table": table}}[how])
        sess.run(v1.global_variables_initializer())
        assert sess.run(loss, {keys: [5, 6, 7]}) == pytest.approx(expected, rel=1e-6)
        assert sess.run(table.size()) == 3
        with pytest.raises(ValueError, match="is not found"):
            v1.train.init_from_checkpoint(path, {"tables": table})


def test_checkpoints_have_deeprecs_names(tmp_path):
    with v1.Graph().as_default(), v1.Session() as sess:
        _, keys, _, train = _model(2)
        sess.run(v1.global_variables_initializer())
        sess.run(train, {keys: [5, 6, 7]})
        path = v1.train.Saver().save(sess, str(tmp_path / "model"))
    found = {n: v1.train.load_variable(path, n) for n, _ in v1.train.list_variables(path) if n.startswith("table/part_")}
    assert sorted(found["table/part_1-keys"]) == [5, 7] and found["table/part_0-keys"].tolist() == [6]
    assert found["table/part_1-values"].shape == (2, 4) and found["table/part_1-freqs"].tolist() == [1, 1]


def test_an_object_checkpoint_restores_rows_and_slots(tmp_path):
    def model():
        table = v1.get_embedding_variable("objects", 4, initializer=v1.constant_initializer(1.0))
        return table, tf.keras.optimizers.Adagrad(0.1)

    def step(table, optimizer):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.embedding_lookup(table, tf.constant([3, 9], tf.int64)) ** 2)
        optimizer.minimize(loss, [table], tape=tape)
    table, optimizer = model()
    step(table, optimizer)
    path = tf.train.Checkpoint(table=table, optimizer=optimizer).save(str(tmp_path / "c"))
    step(table, optimizer)
    other, optimizer2 = model()
    tf.train.Checkpoint(table=other, optimizer=optimizer2).restore(path).expect_partial()
    step(other, optimizer2)
    np.testing.assert_allclose(other.lookup([3, 9]), table.lookup([3, 9]), rtol=1e-6)


def test_a_checkpoint_of_another_width_is_refused(tmp_path):
    with v1.Graph().as_default(), v1.Session() as sess:
        _, keys, _, train = _model(1)
        sess.run(v1.global_variables_initializer())
        sess.run(train, {keys: [5]})
        path = v1.train.Saver().save(sess, str(tmp_path / "model"))
    with v1.Graph().as_default(), v1.Session() as sess:
        table = _model(1, dim=8)[0]
        with pytest.raises(tf.errors.InvalidArgumentError, match="8 columns"):
            v1.train.Saver([table]).restore(sess, path)


@pytest.mark.parametrize("after", [1, 3])
def test_a_restore_makes_tables_whose_rows_begin_as_others(tmp_path, after):
    """New rows are copied from rows that the initializer makes; a new session restores without running initializers."""
    def model(parts):
        cut = v1.fixed_size_partitioner(parts) if parts > 1 else None
        table = v1.get_embedding_variable("table", 4, initializer=v1.glorot_uniform_initializer(), partitioner=cut)
        keys = v1.placeholder("int64", [None])
        return keys, v1.nn.embedding_lookup(table, keys), v1.train.Saver()
    with v1.Graph().as_default(), v1.Session() as sess:
        keys, rows, saver = model(2)
        sess.run(v1.global_variables_initializer())
        expected = sess.run(rows, {keys: [1, 2, 3]})
        path = saver.save(sess, str(tmp_path / "model"))
    with v1.Graph().as_default(), v1.Session() as sess:
        keys, rows, saver = model(after)
        saver.restore(sess, path)
        np.testing.assert_array_equal(sess.run(rows, {keys: [1, 2, 3]}), expected)
        assert np.abs(new := sess.run(rows, {keys: [99]})).min() > 0
        saver.restore(sess, path)                        # the rows that new ones are copied from stay as they are
        np.testing.assert_array_equal(sess.run(rows, {keys: [99]}), new)
