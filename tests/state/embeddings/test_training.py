"""Embedding variables trained by every optimizer, in every mode: as dense rows are, and only the rows that have gradients."""
import numpy as np
import pytest

import penstock as tf
from penstock.compat import v1

WEIGHTS = [1.0, 2.0, 3.0]
KEYS = {"int64": [100, 7, 7, -3], "string": ["a", "bb", "bb", ""]}
K, T = tf.keras.optimizers, v1.train

KERAS = {
    "sgd": lambda: K.SGD(0.1), "momentum": lambda: K.SGD(0.1, momentum=0.9), "nesterov": lambda: K.SGD(0.1, 0.9, nesterov=True),
    "adam": lambda: K.Adam(0.1), "amsgrad": lambda: K.Adam(0.1, amsgrad=True), "adamw": lambda: K.AdamW(0.1),
    "adagrad": lambda: K.Adagrad(0.1), "adadelta": lambda: K.Adadelta(0.1), "rmsprop": lambda: K.RMSprop(0.1),
    "centered": lambda: K.RMSprop(0.1, momentum=0.5, centered=True), "ftrl": lambda: K.Ftrl(0.1),
    "adamax": lambda: K.Adamax(0.1),
    "nadam": lambda: K.Nadam(0.1), "lion": lambda: K.Lion(0.1), "old adam": lambda: K.legacy.Adam(0.1)}
TRAIN = {
    "sgd": lambda: T.GradientDescentOptimizer(0.1), "momentum": lambda: T.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: T.AdamOptimizer(0.1), "adagrad": lambda: T.AdagradOptimizer(0.1),
    "adadelta": lambda: T.AdadeltaOptimizer(0.1), "rmsprop": lambda: T.RMSPropOptimizer(0.1),
    "centered": lambda: T.RMSPropOptimizer(0.1, centered=True), "ftrl": lambda: T.FtrlOptimizer(0.1),
    "proximal adagrad": lambda: T.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.01),
    "proximal": lambda: T.ProximalGradientDescentOptimizer(0.1, l1_regularization_strength=0.01)}


def table(name="table", **options):
    options.setdefault("initializer", tf.compat.v1.constant_initializer(0.5))
    with v1.variable_scope("tables", reuse=v1.AUTO_REUSE if not tf.executing_eagerly() else False):
        return v1.get_embedding_variable(name, 3, **options)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", KERAS)
def test_keras_optimizers_update_rows_as_a_dense_variable(name, traced):
    embedding, dense = table(f"{name}{traced}"), tf.Variable(np.full((3, 3), 0.5, np.float32))
    ours, other = KERAS[name](), KERAS[name]()

    def step(keys):
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_sum(tf.nn.embedding_lookup(embedding, keys) ** 2 * WEIGHTS)
            dense_loss = tf.reduce_sum(tf.gather(dense, [0, 1, 1, 2]) ** 2 * WEIGHTS)
        ours.apply_gradients([(tape.gradient(loss, embedding), embedding)])
        other.apply_gradients([(tf.convert_to_tensor(tape.gradient(dense_loss, dense)), dense)])
    run = tf.function(step) if traced else step
    for _ in range(3):
        run(tf.constant(KEYS["int64"], tf.int64))
    np.testing.assert_allclose(embedding.lookup([100, 7, -3]), dense, rtol=1e-4, atol=1e-5)
    assert int(embedding.size()) == 3


@pytest.mark.parametrize("dtype", KEYS)
@pytest.mark.parametrize("name", TRAIN)
def test_train_optimizers_update_rows_as_a_dense_variable(name, dtype):
    keys = KEYS[dtype]
    with v1.Graph().as_default(), v1.Session() as sess:
        embedding, dense = table(key_dtype=dtype), v1.Variable(np.full((3, 3), 0.5, np.float32), use_resource=True)
        step = v1.train.get_or_create_global_step()
        loss = tf.reduce_sum(v1.nn.embedding_lookup(embedding, tf.constant(keys, dtype)) ** 2 * WEIGHTS)
        dense_loss = tf.reduce_sum(v1.gather(dense, [0, 1, 1, 2]) ** 2 * WEIGHTS)
        grad = tf.convert_to_tensor(v1.gradients(dense_loss, dense)[0])
        train = [TRAIN[name]().minimize(loss, step, [embedding]), TRAIN[name]().apply_gradients([(grad, dense)])]
        rows = embedding.lookup(tf.constant([keys[0], keys[1], keys[3]], dtype))
        statistics = embedding.versions_and_frequencies(tf.constant(keys, dtype))
        assert b"tables/table" in sess.run(v1.report_uninitialized_variables())
        sess.run(v1.global_variables_initializer())
        for _ in range(3):
            sess.run(train)
        found, expected = sess.run([rows, dense])
        versions, frequencies = sess.run(statistics)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert versions.tolist() == [2, 2, 2, 2] and frequencies.tolist() == [3, 6, 6, 3]


def test_rows_without_gradients_stay():
    embedding = table("lazy")
    before = tf.nn.embedding_lookup(embedding, tf.constant([1, 2], tf.int64))
    optimizer = K.Adam(0.1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.nn.embedding_lookup(embedding, tf.constant([1], tf.int64)))
    optimizer.minimize(loss, [embedding], tape=tape)
    np.testing.assert_array_equal(embedding.lookup([2])[0], before[1])
    assert float(embedding.lookup([1])[0, 0]) < 0.5


def test_a_table_before_initialization_is_an_error():
    with v1.Graph().as_default(), v1.Session() as sess:
        rows = v1.nn.embedding_lookup(table(), tf.constant([1], tf.int64))
        with pytest.raises(tf.errors.FailedPreconditionError, match="tables/table"):
            sess.run(rows)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("dtype", KEYS)
def test_sparse_lookups_combine_rows(dtype, parts):
    keys = ["a", "b", "c"] if dtype == "string" else [5, 6, 7]
    with v1.Graph().as_default(), v1.Session() as sess:
        embedding = table(key_dtype=dtype, partitioner=v1.fixed_size_partitioner(parts) if parts > 1 else None)
        ids = v1.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant(keys, dtype), [3, 2])
        combined = v1.nn.embedding_lookup_sparse(embedding, ids, None, combiner="sum")
        sess.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(sess.run(combined), [[1.0] * 3, [0.0] * 3, [0.5] * 3])


def test_variable_scopes_reuse_tables():
    with v1.Graph().as_default():
        with v1.variable_scope("a"):
            first = v1.get_embedding_variable("t", 4)
        with v1.variable_scope("a", reuse=True):
            assert v1.get_embedding_variable("t", 4) is first
            with pytest.raises(ValueError, match="does not exist"):
                v1.get_embedding_variable("other", 4)
        with v1.variable_scope("a"), pytest.raises(ValueError, match="already exists"):
            v1.get_embedding_variable("t", 4)
        assert first.op.type == "KvVarHandleOp" and first in v1.trainable_variables()


def test_rows_begin_alike_for_one_seed():
    def rows(seed, name):
        made = table(name, initializer=v1.random_normal_initializer(0.0, 0.1, seed=seed))
        return tf.nn.embedding_lookup(made, tf.constant([1, 2, 3], tf.int64)).numpy()
    np.testing.assert_array_equal(rows(1, "one"), rows(1, "two"))
    assert not np.allclose(rows(1, "three"), rows(2, "four"))


def test_any_initializer_makes_the_rows_that_keys_share():
    made = table("pool", initializer=v1.glorot_uniform_initializer(seed=1))
    rows = tf.nn.embedding_lookup(made, tf.range(500, dtype=tf.int64)).numpy()
    assert len(np.unique(rows, axis=0)) > 400 and np.abs(rows).max() > 0
