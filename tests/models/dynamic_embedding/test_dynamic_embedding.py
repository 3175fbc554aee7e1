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


@pytest.mark.parametrize("kind", ["Embedding", "SquashedEmbedding"])
def test_a_saved_keras_model_is_loaded_with_its_rows_and_trains_on(tmp_path, kind):
    x, y = np.array([[5, 1 << 40], [-3, 5], [7, 7]]), np.array([[1.0], [2.0], [3.0]], np.float32)
    layer = getattr(de.keras.layers, kind)(4, initializer=tf.keras.initializers.Constant(0.5))
    model = tf.keras.Sequential([tf.keras.Input((2,), dtype=tf.int64), layer, tf.keras.layers.Flatten(),
                                 tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adagrad(0.1), "mse")
    model.fit(x, y, epochs=2, verbose=0)
    model.save(tmp_path / "model")
    other = tf.keras.models.load_model(tmp_path / "model")
    assert int(other.layers[0].params.size()) == 4
    for each in model, other:
        each.fit(x, y, epochs=2, verbose=0)
    np.testing.assert_allclose(other(x), model(x), rtol=1e-5)


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


def saved(name, devices=None, **arguments):
    creator = de.CuckooHashTableCreator(saver=de.FileSystemSaver(**arguments))
    return de.get_variable(name, dim=2, initializer=0.0, devices=devices, kv_creator=creator)


def test_a_file_system_saver_writes_rows_beside_checkpoints(tmp_path):
    first, second = saved("first", ["/cpu:0"] * 2, buffer_size=2), saved("second", ["/cpu:0"] * 3)
    keys = list(range(7))
    first.upsert(keys, [[k, k + 0.5] for k in keys])
    path = tf.train.Checkpoint(table=first).save(str(tmp_path / "saved"))
    folder = tmp_path / "TFRADynamicEmbedding-1"
    parts = [np.fromfile(folder / f"first_mht_{i}of2_rank0_size1-keys", np.int64) for i in (1, 2)]
    rows = [np.fromfile(folder / f"first_mht_{i}of2_rank0_size1-values", np.float32).reshape(-1, 2) for i in (1, 2)]
    assert [sorted(p % 2) for p in parts] == [[0] * 4, [1] * 3]
    for part, values in zip(parts, rows, strict=True):
        np.testing.assert_array_equal(values, np.stack([part, part + 0.5], 1))
    tf.train.Checkpoint(table=second).restore(path)                  # onto another number of tables
    np.testing.assert_array_equal(second.lookup([6, 5, 9]), [[6, 6.5], [5, 5.5], [0, 0]])
    assert int(second.size()) == 7
    bundle = tf.train.load_checkpoint(path)
    assert not any("values" in name for name in bundle.get_variable_to_shape_map())


def test_processes_save_their_parts_and_restore_those_of_another_number(tmp_path):
    for rank in range(2):
        table = saved("t", save_path=str(tmp_path / "rows"), proc_size=2, proc_rank=rank)
        table.upsert(list(range(rank, 10, 2)), [[k, 1.0] for k in range(rank, 10, 2)])
        path = tf.train.Checkpoint(table=table).save(str(tmp_path / f"p{rank}"))
    found = []
    for rank in range(3):
        table = saved("t", save_path=str(tmp_path / "rows"), proc_size=3, proc_rank=rank)
        tf.train.Checkpoint(table=table).restore(path)
        keys, values = table.export()
        assert set(keys.numpy() % 3) == {rank}
        np.testing.assert_array_equal(values[:, 0], keys.numpy())
        found += keys.numpy().tolist()
    assert sorted(found) == list(range(10))
    (tmp_path / "rows" / "t_mht_1of1_rank0_size2-keys").unlink()
    with pytest.raises(tf.errors.DataLossError, match="1 of 2 parts"):
        tf.train.Checkpoint(table=saved("t", save_path=str(tmp_path / "rows"))).restore(path)


def test_files_have_slots_and_are_removed_with_their_checkpoint(tmp_path):
    with tf.Graph().as_default(), v1.Session() as sess:
        table = saved("t", ["/cpu:0"] * 2)
        rows = de.embedding_lookup(table, tf.constant([5, 6], tf.int64))
        train = v1.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(rows))
        saver = v1.train.Saver(max_to_keep=1)
        sess.run(v1.global_variables_initializer())
        sess.run(train)
        for step in (3, 4):
            path = saver.save(sess, str(tmp_path / "model"), step)
        assert [p.name for p in tmp_path.iterdir() if p.is_dir()] == ["TFRADynamicEmbedding-4"]
        sess.run(train)
        second = sess.run(rows)
        saver.restore(sess, path)
        sess.run(train)
        np.testing.assert_array_equal(sess.run(rows), second)          # the moments are restored, too


def test_string_keys_are_saved_in_files(tmp_path):
    def made(name):
        return de.get_variable(name, tf.string, dim=2, initializer=0.0,
                               kv_creator=de.CuckooHashTableCreator(saver=de.FileSystemSaver()))
    first, second = made("a"), made("b")
    first.upsert(["", "red", b"\xff\x00"], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    tf.train.Checkpoint(table=second).restore(tf.train.Checkpoint(table=first).save(str(tmp_path / "m")))
    np.testing.assert_array_equal(second.lookup([b"\xff\x00", "", "red"]), [[5, 6], [1, 2], [3, 4]])


def test_rows_are_written_to_a_folder_on_request(tmp_path):
    first, second = saved("t"), saved("t")
    first.upsert([1, 2], [[1.0, 1.0], [2.0, 2.0]])
    first.save_to_file_system(str(tmp_path))
    second.load_from_file_system(str(tmp_path))
    np.testing.assert_array_equal(second.lookup([2, 1]), [[2, 2], [1, 1]])
    with pytest.raises(tf.errors.NotFoundError, match="No rows of other"):
        saved("other").load_from_file_system(str(tmp_path))


def test_two_variables_of_one_name_do_not_overwrite_each_other(tmp_path):
    with pytest.raises(ValueError, match="same files"):
        tf.train.Checkpoint(a=saved("t"), b=saved("t")).save(str(tmp_path / "m"))


@pytest.mark.parametrize(("arguments", "error"), [({"proc_size": 2, "proc_rank": 2}, ValueError),
                                                  ({"buffer_size": 0}, ValueError), ({"proc_size": 2}, TypeError)])
def test_a_file_system_saver_checks_its_arguments(arguments, error):
    with pytest.raises(error):
        de.FileSystemSaver(**arguments)
