"""dynamic_embedding: TFRA's names over embedding variables; Keras layers; checkpoints."""
import numpy as np
import pytest

import penstock as tf
from penstock.compat import v1

de = tf.dynamic_embedding


@pytest.mark.parametrize("devices", [None, ["/CPU:0"] * 3])
def test_a_variable_is_a_dictionary_of_rows(devices):
    table = de.get_variable("users", dim=2, devices=devices, initializer=3.0)
    table.upsert([1, 2, 5], [[1, 1], [2, 2], [5, 5]])
    rows, exists = table.lookup([[1, 2], [5, 9]], return_exists=True)
    np.testing.assert_array_equal(rows, [[[1, 1], [2, 2]], [[5, 5], [3, 3]]])
    np.testing.assert_array_equal(exists, [[True, True], [True, False]])
    table.remove([2])
    assert int(table.size()) == 2
    keys, values = table.export()
    assert dict(zip(keys.numpy().tolist(), values.numpy()[:, 0].tolist(), strict=True)) == {1: 1.0, 5: 5.0}
    table.clear()
    assert int(table.size()) == 0


@pytest.mark.parametrize("lookup", [de.embedding_lookup, de.embedding_lookup_unique])
def test_lookups_return_what_optimizers_train(lookup):
    table = de.get_variable("t", dim=2, initializer=1.0)
    optimizer = de.DynamicEmbeddingOptimizer(tf.keras.optimizers.SGD(1.0))
    with tf.GradientTape() as tape:
        rows, trainable = lookup(table, tf.constant([7, 7, 8], tf.int64), return_trainable=True)
        loss = tf.reduce_sum(rows)
    optimizer.apply_gradients([(tape.gradient(loss, trainable), trainable)])
    np.testing.assert_array_equal(table.lookup([7, 8]), [[-1, -1], [0, 0]])


def test_sparse_lookups_take_negative_keys_and_empty_rows():
    table = de.get_variable("t", dim=1, initializer=2.0)
    ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([-5, 6, -5], tf.int64), [3, 2])
    np.testing.assert_array_equal(de.safe_embedding_lookup_sparse(table, ids, combiner="sum"), [[4], [0], [2]])
    assert np.isin([-5, 6], table.export()[0]).all()


@pytest.mark.parametrize("eagerly", [False, True])
def test_a_keras_model_learns_keys_and_is_saved(tmp_path, eagerly):
    tf.keras.utils.set_random_seed(0)
    x = np.random.RandomState(0).randint(0, 40, (400, 3)).astype(np.int64) * 1_000_003
    y = (x[:, 0] // 1_000_003 % 2).astype(np.float32)

    def model():
        made = tf.keras.Sequential([de.keras.layers.Embedding(4), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
        made.compile(tf.keras.optimizers.Adam(0.05), "mse", run_eagerly=eagerly)
        return made
    first = model()
    losses = first.fit(x, y, epochs=2 if eagerly else 8, batch_size=50, verbose=0).history["loss"]
    assert losses[-1] < losses[0] and int(first.layers[0].params.size()) == 40
    path = tf.train.Checkpoint(model=first).save(str(tmp_path / "c"))
    other = model()
    other(x[:1])
    tf.train.Checkpoint(model=other).restore(path).expect_partial()
    np.testing.assert_allclose(other(x), first(x), rtol=1e-5, atol=1e-6)


def test_squashed_embeddings_and_configurations():
    layer = de.keras.layers.SquashedEmbedding(4, combiner="mean", initializer="ones", name="keys")
    np.testing.assert_array_equal(layer(tf.constant([[1, 2], [3, 4]], tf.int64)), np.ones((2, 4)))
    again = de.keras.layers.SquashedEmbedding.from_config(layer.get_config())
    assert again(tf.constant([5, 6], tf.int64)).shape == (4,)
    with pytest.raises(ValueError, match="combiner"):
        de.keras.layers.Embedding(4, combiner="middle")


def test_capacity_bounds_a_table():
    creator = de.HkvHashTableCreator(de.HkvHashTableConfig(max_capacity=10))
    table = de.get_variable("bounded", dim=1, kv_creator=creator)
    de.embedding_lookup(table, tf.range(100, dtype=tf.int64))
    assert int(table.size()) <= 10


def test_graphs_reuse_variables_by_name():
    with v1.Graph().as_default():
        with v1.variable_scope("s"):
            first = de.get_variable("t", dim=2)
        with v1.variable_scope("s", reuse=True):
            assert de.get_variable("t", dim=2) is first
        with v1.variable_scope("s"), pytest.raises(ValueError, match="already exists"):
            de.get_variable("t", dim=2)


@pytest.mark.parametrize("devices", [None, ["/CPU:0"] * 2])
@pytest.mark.parametrize(("policy", "kept"), [(de.TimestampRestrictPolicy, {4, 5, 6, 7}),
                                              (de.FrequencyRestrictPolicy, {0, 1, 2, 3})])
def test_a_policy_restricts_the_rows(policy, kept, devices):
    table = de.get_variable("users", dim=2, devices=devices, restrict_policy=policy)
    optimizer = tf.keras.optimizers.SGD(0.1)
    for keys in (0, 1, 2, 3), (0, 1, 2, 3), (4, 5, 6, 7):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(de.embedding_lookup(table, tf.constant(keys, tf.int64)))
        optimizer.apply_gradients(zip(tape.gradient(loss, table.tables), table.tables, strict=True))
    table.restrict(4, trigger=8)
    assert int(table.size()) == 8
    table.restrict(4, trigger=7)
    assert set(table.export()[0].numpy().tolist()) == kept


def test_inference_mode_makes_no_rows():
    table = de.get_variable("t", dim=2, initializer=1.0)
    try:
        de.enable_inference_mode()
        np.testing.assert_array_equal(de.embedding_lookup(table, tf.constant([5], tf.int64)), [[1.0, 1.0]])
        assert int(table.size()) == 0
    finally:
        de.enable_train_mode()
    de.embedding_lookup(table, tf.constant([5], tf.int64))
    assert int(table.size()) == 1


@pytest.mark.parametrize("combiner", ["sum", "mean"])
def test_vectors_of_each_field(combiner):
    layer = de.keras.layers.FieldWiseEmbedding(2, 3, lambda keys: keys % 3, combiner, initializer=tf.keras.initializers.Ones(),
                                               restrict_policy=de.FrequencyRestrictPolicy)
    counts = np.array([[2, 1, 0], [0, 3, 0]])
    expected = counts if combiner == "sum" else counts > 0
    found = layer(tf.constant([[3, 6, 1], [1, 4, 7]], tf.int64))
    np.testing.assert_allclose(found, np.repeat(expected[:, :, None], 2, 2), rtol=1e-6, atol=1e-6)
    assert layer.compute_output_shape([2, 3]) == [2, 3, 2]
    layer.params.restrict(2)
    assert int(layer.params.size()) == 2


def test_a_file_system_saver_keeps_rows_in_checkpoints(tmp_path):
    def made(name):
        creator = de.CuckooHashTableCreator(saver=de.FileSystemSaver(proc_size=1, proc_rank=0))
        return de.get_variable(name, dim=2, initializer=0.0, kv_creator=creator)
    first, second = made("first"), made("second")
    first.upsert([5, 7], [[1.0, 2.0], [3.0, 4.0]])
    path = tf.train.Checkpoint(table=first).save(str(tmp_path / "saved"))
    tf.train.Checkpoint(table=second).restore(path)
    np.testing.assert_array_equal(second.lookup([7, 5, 6]), [[3, 4], [1, 2], [0, 0]])


@pytest.mark.parametrize(("arguments", "error"), [({"save_path": "rows"}, tf.errors.UnimplementedError),
                                                  ({"proc_size": 2, "proc_rank": 0}, tf.errors.UnimplementedError),
                                                  ({"proc_size": 2}, TypeError)])
def test_a_file_system_saver_refuses_what_it_does_not_do(arguments, error):
    with pytest.raises(error):
        de.FileSystemSaver(**arguments)
