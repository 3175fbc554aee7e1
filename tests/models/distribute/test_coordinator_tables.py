"""Lookup tables and preprocessing in functions and datasets of workers: copies of what does not change, one of what does."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.models.distribute import connect
from tests.models.distribute.coordinated import made  # noqa: F401

pytestmark = pytest.mark.distributed


def words():
    return tf.constant(["a", "z", "b"])


def entries():
    return tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))


def scheduled(c, fn, *args):
    return c.coordinator.schedule(tf.function(fn), args=args).fetch()


def test_a_table_is_looked_up_on_the_worker(made):  # noqa: F811
    c = made(worker=1)
    with c.strategy.scope():
        table = tf.lookup.StaticHashTable(entries(), -1)
        vocabulary = tf.lookup.StaticVocabularyTable(entries(), 3)
        v = tf.Variable(1)
    outside = tf.lookup.StaticHashTable(entries(), -5)
    found = scheduled(c, lambda x: (table.lookup(x), vocabulary.lookup(x), outside.lookup(x), table.size(), v + 1), words())
    assert [f.tolist() for f in found] == [[1, -1, 2], vocabulary.lookup(words()).numpy().tolist(), [1, -5, 2], 2, 2]
    assert table.lookup(words()).numpy().tolist() == [1, -1, 2]                                # and here
    assert c.coordinator.schedule(lambda x: table.lookup(x), args=(words(),)).fetch().tolist() == [1, -1, 2]
    channel, = connect.connected()._workers.values()
    assert len(channel.copies) == 3 and all("/job:worker" in handle.device for handle, _ in channel.copies.values())

    @tf.function
    def branches(x, k):
        ids = vocabulary.lookup(x)
        if k > 0:
            ids = table.lookup(x) + tf.cast(v, tf.int64)
        for _ in tf.range(k):
            ids += table.lookup(x)
        return ids
    assert c.coordinator.schedule(branches, args=(words(), tf.constant(2))).fetch().tolist() == [4, -2, 7]
    assert c.coordinator.schedule(branches, args=(words(), tf.constant(0))).fetch()[0] == 1


def test_copies_are_made_anew_on_a_worker_that_is_back(made):  # noqa: F811
    c = made(ps=1, worker=1)
    table = tf.lookup.StaticHashTable(entries(), -1)
    look = tf.function(lambda x: table.lookup(x))
    assert c.coordinator.schedule(look, args=(words(),)).fetch().tolist() == [1, -1, 2]
    c.stop("worker", 0)
    c.start("worker", 0)
    assert c.coordinator.schedule(look, args=(words(),)).fetch(timeout=100).tolist() == [1, -1, 2]
    channel, = connect.connected()._workers.values()
    assert len(channel.copies) == 1


def test_a_table_that_was_not_filled(made):  # noqa: F811
    c = made(ps=1, worker=1)
    handle = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
    look = tf.function(lambda x: tf.raw_ops.LookupTableFindV2(table_handle=handle, keys=x,
                                                              default_value=tf.constant(-1, tf.int64)))
    with pytest.raises(tf.errors.FailedPreconditionError, match="not initialized"):
        c.coordinator.schedule(look, args=(words(),)).fetch()
    with pytest.raises(tf.errors.FailedPreconditionError):
        c.coordinator.join()
    tf.raw_ops.LookupTableImportV2(table_handle=handle, keys=["z"], values=tf.constant([5], tf.int64))
    assert c.coordinator.schedule(look, args=(words(),)).fetch().tolist() == [-1, 5, -1]


def test_what_changes_is_there_once(made):  # noqa: F811
    """A table that can be changed, a variable of the chief, an iterator of the chief: their ops run in the chief."""
    c = made()
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(tf.constant(["a"]), tf.constant([7], tf.int64))
    with c.strategy.scope():
        v = tf.Variable(2)
    own, iterator = tf.Variable(10), iter(tf.data.Dataset.range(5))

    @tf.function
    def change(x):
        before = table.lookup(x)
        for i in tf.range(2):
            table.insert(x[i:i + 1], tf.cast([i + v], tf.int64))
        own.assign_add(v)
        return before, table.size(), next(iterator)
    before, size, first = c.coordinator.schedule(change, args=(words(),)).fetch()
    assert before.tolist() == [7, -1, -1] and size == 2 and first == 0
    assert table.lookup(words()).numpy().tolist() == [2, 3, -1] and own.numpy() == 12
    assert c.coordinator.schedule(change, args=(words(),)).fetch()[2] == 1
    dense = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, -1, -2)
    dense.insert(tf.constant([4], tf.int64), tf.constant([9], tf.int64))
    assert scheduled(c, lambda x: dense.lookup(x), tf.constant([4, 5], tf.int64)).tolist() == [9, -1]


def test_preprocessing_on_workers(made):  # noqa: F811
    """Layers of the chief, and tables and layers that the function of the dataset makes."""
    c = made(ps=1, worker=2)
    with c.strategy.scope():
        adapted = tf.keras.layers.StringLookup()
        table = tf.lookup.StaticHashTable(entries(), -1)
    adapted.adapt(tf.constant(["a", "b", "b"]))
    normal = tf.keras.layers.Normalization()
    normal.adapt(np.array([[0.0], [2.0]], np.float32))

    def dataset_fn():
        mine = tf.lookup.StaticHashTable(entries(), -3)
        layer = tf.keras.layers.StringLookup(vocabulary=["b", "a"])
        return tf.data.Dataset.from_tensor_slices(["a", "b", "q"]).map(
            lambda x: (adapted(x), table.lookup(x), mine.lookup(x), layer(x))).batch(3).repeat()
    wanted = [[2, 1, 0], [1, 2, -1], [1, 2, -3], [2, 1, 0]]
    step = tf.function(lambda it: next(it))
    for make in (dataset_fn, tf.function(dataset_fn), dataset_fn(),
                 lambda: c.strategy.distribute_datasets_from_function(lambda context: dataset_fn())):
        iterator = iter(c.coordinator.create_per_worker_dataset(make))
        for _ in range(3):
            assert [f.tolist() for f in c.coordinator.schedule(step, args=(iterator,)).fetch()] == wanted
    ids, x = c.coordinator.schedule(tf.function(lambda w, x: (adapted(w), normal(x))), args=(words(), tf.ones([1, 1]))).fetch()
    assert ids.tolist() == [2, 0, 1] and x.tolist() == [[0.0]]


def test_the_tutorial(made):  # noqa: F811
    """Words and labels looked up by layers in the dataset of each worker; an embedding in shards; a loop by the user."""
    c = made(partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(2))
    heroes = ["Avenger", "Ironman", "Batman", "Hulk", "Spiderman", "Kingkong", "Wonder_Woman"]
    with c.strategy.scope():
        lookup = tf.keras.layers.StringLookup(vocabulary=heroes, num_oov_indices=0, mask_token=None)
        labels = tf.keras.layers.StringLookup(num_oov_indices=0, mask_token=None, vocabulary=["yes", "no"])
        given = tf.keras.layers.Input(shape=(3,), dtype="int64")
        hidden = tf.reduce_mean(tf.keras.layers.Embedding(len(heroes), 8)(given), axis=1)
        model = tf.keras.Model(given, tf.keras.layers.Dense(1, activation="sigmoid")(hidden))
        optimizer = tf.keras.optimizers.RMSprop(learning_rate=0.1)
        accuracy = tf.keras.metrics.Accuracy()
        optimizer.build(model.trainable_variables)

    def dataset_fn(_):
        rng = np.random.RandomState(0)
        features = rng.choice(heroes, (96, 3))
        yes = np.where((features == "Avenger").any(1), "yes", "no")
        return tf.data.Dataset.from_tensor_slices((features, yes[:, None])).shuffle(96).repeat().batch(32).map(
            lambda f, y: (lookup(f), labels(y)))

    @tf.function
    def step(iterator):
        def replica(features, labels):
            with tf.GradientTape() as tape:
                pred = model(features, training=True)
                loss = tf.nn.compute_average_loss(tf.keras.losses.BinaryCrossentropy(reduction="none")(labels, pred))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            accuracy.update_state(labels, tf.cast(tf.greater(pred, 0.5), tf.int64))
            return loss
        return c.strategy.reduce(tf.distribute.ReduceOp.SUM, c.strategy.run(replica, args=next(iterator)), axis=None)

    @tf.function
    def per_worker_dataset_fn():
        return c.strategy.distribute_datasets_from_function(dataset_fn)
    iterator = iter(c.coordinator.create_per_worker_dataset(per_worker_dataset_fn))
    for _ in range(3):
        accuracy.reset_states()
        for _ in range(15):
            loss = c.coordinator.schedule(step, args=(iterator,))
        c.coordinator.join(timeout=100)
    assert float(accuracy.result()) > 0.8 and loss.fetch() < 0.6
