"""Rows that leave memory to an object store: training, checkpoints and prefetching as with all rows in memory."""
import gc
import itertools

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import penstock as tf
import penstock.compat.v1 as v1


class Bucket(MemoryFileSystem):
    """An object store: objects are written whole, and neither renamed nor changed."""

    protocol = "penstockbucket"
    store: dict = {}
    pseudo_dirs = [""]

    def _open(self, path, mode="rb", **kwargs):
        assert mode in ("rb", "wb")
        assert mode == "rb" or not self.exists(path)
        return super()._open(path, mode, **kwargs)

    def mv(self, *args, **kwargs):
        raise NotImplementedError

    cp_file = mv


fsspec.register_implementation("penstockbucket", Bucket, clobber=True)
NUMBERS = itertools.count()


@pytest.fixture(params=["memory", "penstockbucket"])
def url(request):
    """A new folder in a store."""
    return f"{request.param}://rows{next(NUMBERS)}"


def _option(url, capacity):
    storage = v1.StorageOption("DRAM_SSDHASH", url, capacity=capacity) if url else v1.StorageOption()
    return v1.EmbeddingVariableOption(storage_option=storage)


def _train(url, path, capacity=40, restore=None, optimizer=v1.train.AdamOptimizer):
    """Trains a few steps, saves a checkpoint and an increment; returns the rows of all keys."""
    rng = np.random.default_rng(3)
    with tf.Graph().as_default(), v1.Session() as sess:
        table = v1.get_embedding_variable("users", 4, initializer=v1.random_normal_initializer(0.0, 0.1, seed=1),
                                          ev_option=_option(url, capacity), partitioner=v1.fixed_size_partitioner(2))
        keys = v1.placeholder(tf.int64, [None])
        rows = tf.nn.embedding_lookup(table, keys)
        train = optimizer(0.1).minimize(tf.reduce_sum(tf.square(rows - 1.0)))
        saver = v1.train.IncrementalSaver()
        sess.run(v1.global_variables_initializer())
        if restore:
            saver.restore(sess, restore)
        for step in range(8):
            sess.run(train, {keys: rng.integers(0, 300, 60)})
            if step == 4:
                saver.save(sess, path)
        saver.incremental_save(sess)
        return sess.run(rows, {keys: np.arange(300)})


def test_training_and_checkpoints_are_those_of_memory(url, tmp_path):
    expected = _train(None, str(tmp_path / "memory"))
    np.testing.assert_allclose(_train(url, str(tmp_path / "store")), expected, rtol=1e-6)
    again = _train(None, str(tmp_path / "x"), restore=str(tmp_path / "memory"))
    np.testing.assert_allclose(_train(url, str(tmp_path / "y"), 24, restore=str(tmp_path / "store")), again, rtol=1e-6)
    gc.collect()
    files, folder = fsspec.core.url_to_fs(url)
    assert not files.exists(folder) or not files.find(folder)       # objects leave with their session


def test_batches_are_prefetched_from_the_store(url):
    table = v1.get_embedding_variable("items", 4, initializer=v1.zeros_initializer(), ev_option=_option(url, 100))
    keys = np.arange(600)
    table.upsert(keys, np.repeat(keys[:, None], 4, 1).astype("float32"))
    data = tf.data.Dataset.from_tensor_slices(keys).batch(50)
    for batch in table.prefetched(data):
        np.testing.assert_array_equal(tf.nn.embedding_lookup(table, batch)[:, 2], batch)
    assert int(table.size()) == 600


def test_file_urls_are_folders(tmp_path):
    table = v1.get_embedding_variable("near", 2, initializer=v1.ones_initializer(), ev_option=_option(f"file://{tmp_path}", 16))
    assert float(tf.reduce_sum(tf.nn.embedding_lookup(table, np.arange(100)))) == 200.0
    assert int(table.size()) == 100


def test_a_store_that_is_not_there_is_a_typed_error():
    with pytest.raises(tf.errors.UnimplementedError, match="nowhere"):
        v1.get_embedding_variable("far", 2, ev_option=_option("nowhere://rows", 16))
