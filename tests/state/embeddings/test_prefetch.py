"""Rows on disk that are brought to memory before their batch is used."""
import threading

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as v1
from penstock._src.kernels.keyed import KeyedTable

ROWS, BATCH = 600, 50


def table_of(folder):
    """A table that keeps few rows in memory, and the others in a file."""
    storage = v1.StorageOption("DRAM_SSDHASH", str(folder), capacity=100)
    return v1.get_embedding_variable("users", 4, initializer=v1.zeros_initializer(),
                                     ev_option=v1.EmbeddingVariableOption(storage_option=storage))


@pytest.fixture
def fetched(monkeypatch):
    """The keys of all calls of `prefetch`, in order, and an event that is set by each."""
    calls, came, real = [], threading.Semaphore(0), KeyedTable.prefetch

    def noted(self, keys):
        real(self, keys)
        calls.append(keys.tolist())
        came.release()
    monkeypatch.setattr(KeyedTable, "prefetch", noted)
    return calls, came


def test_rows_of_the_next_batch_come_before_it_is_requested(tmp_path, fetched):
    calls, came = fetched
    table = table_of(tmp_path)
    keys = np.arange(ROWS)
    table.upsert(keys, np.repeat(keys[:, None], 4, 1).astype("float32"))
    data = tf.data.Dataset.from_tensor_slices({"user": keys, "label": keys % 2}).batch(BATCH)
    batches = iter(table.prefetched(data, lambda batch: batch["user"]))
    for i in range(ROWS // BATCH):
        batch = next(batches)
        assert came.acquire(timeout=60)
        if i + 1 < ROWS // BATCH:
            assert came.acquire(timeout=60)                      # of the next batch, which was not requested yet
            came.release()
        assert calls[i] == batch["user"].numpy().tolist() == list(range(i * BATCH, (i + 1) * BATCH))
        np.testing.assert_array_equal(tf.nn.embedding_lookup(table, batch["user"])[:, 2], batch["user"])
        np.testing.assert_array_equal(batch["label"], batch["user"] % 2)


def test_a_graph_and_batches_of_several_tensors(tmp_path):
    with tf.Graph().as_default(), v1.Session() as sess:
        table = table_of(tmp_path)
        data = tf.data.Dataset.from_tensor_slices((np.arange(20), np.arange(20) * 2)).batch(10)
        iterator = v1.data.make_initializable_iterator(table.prefetched(data, lambda user, label: user))
        users, labels = iterator.get_next()
        rows = tf.nn.embedding_lookup(table, users)
        sess.run(v1.global_variables_initializer())
        sess.run(iterator.initializer)
        found = [sess.run([users, labels, rows]) for _ in range(2)]
    assert [f[0].tolist() for f in found] == [list(range(10)), list(range(10, 20))]
    assert [f[1].tolist() for f in found] == [list(range(0, 20, 2)), list(range(20, 40, 2))] and not found[0][2].any()


def test_keys_are_the_batch_by_default(tmp_path):
    table = table_of(tmp_path)
    table.upsert([3, 4], [[1.0] * 4, [2.0] * 4])
    (batch,) = table.prefetched(tf.data.Dataset.from_tensors(tf.constant([4, 3], tf.int64)), ahead=2)
    np.testing.assert_array_equal(table.lookup(batch)[:, 0], [2, 1])
