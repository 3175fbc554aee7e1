"""Datasets in folders: save, load, snapshot."""
import numpy as np
import pytest

import penstock as tf


def elements(dataset):
    return list(dataset.as_numpy_iterator())


def test_elements_come_back_with_their_types(tmp_path):
    dataset = tf.data.Dataset.from_tensor_slices({"x": np.arange(6.0).reshape(3, 2), "name": ["a", "b", "c"]})
    dataset.save(str(tmp_path / "saved"))
    loaded = tf.data.Dataset.load(str(tmp_path / "saved"))
    assert loaded.element_spec == dataset.element_spec
    for a, b in zip(elements(loaded), elements(dataset), strict=True):
        np.testing.assert_array_equal(a["x"], b["x"])
        assert a["name"] == b["name"]


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_ragged_and_sparse_elements(tmp_path, compression):
    ragged = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], []]))
    dataset = tf.data.Dataset.zip((ragged, ragged.map(lambda x: tf.sparse.from_dense([[1, 0], [0, tf.size(x)]]))))
    dataset.save(str(tmp_path), compression=compression)
    got = list(tf.data.Dataset.load(str(tmp_path), compression=compression))
    assert [x.numpy().tolist() for x, _ in got] == [[1], [2, 3], []]
    assert [int(s.values[-1]) for _, s in got] == [1, 2, 1]


def test_shards_and_their_reader(tmp_path):
    tf.data.Dataset.range(10).save(str(tmp_path), shard_func=lambda x: x % 3)
    assert elements(tf.data.Dataset.load(str(tmp_path))) == list(range(10))
    ordered = tf.data.Dataset.load(str(tmp_path), reader_func=lambda shards: shards.flat_map(lambda d: d))
    assert elements(ordered) == [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]


def test_the_position_in_a_loaded_dataset_is_saved(tmp_path):
    tf.data.Dataset.range(10).save(str(tmp_path / "data"), shard_func=lambda x: x % 3)
    iterator = iter(tf.data.Dataset.load(str(tmp_path / "data")))
    assert [int(next(iterator)) for _ in range(4)] == [0, 1, 2, 3]
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    path = checkpoint.save(str(tmp_path / "ckpt"))
    assert int(next(iterator)) == 4
    checkpoint.restore(path)
    assert int(next(iterator)) == 4


def test_a_second_save_replaces_the_first(tmp_path):
    tf.data.Dataset.range(10).save(str(tmp_path), shard_func=lambda x: x % 3)
    tf.data.Dataset.range(2).save(str(tmp_path))
    assert elements(tf.data.experimental.load(str(tmp_path))) == [0, 1]


def test_what_is_not_a_saved_dataset(tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match="no saved dataset"):
        tf.data.Dataset.load(str(tmp_path))
    (tmp_path / "dataset_spec.pb").write_bytes(b"\xff\xff\xff")
    with pytest.raises(tf.errors.DataLossError, match="type of a dataset's elements"):
        tf.data.Dataset.load(str(tmp_path))


def test_a_snapshot_is_made_once(tmp_path):
    calls = []

    def noted(x):
        calls.append(int(x))
        return x
    dataset = tf.data.Dataset.range(4).map(lambda x: tf.py_function(noted, [x], tf.int64)).snapshot(str(tmp_path))
    assert elements(dataset) == [0, 1, 2, 3] == elements(dataset)
    assert len(calls) == 4
    again = tf.data.Dataset.range(4).map(lambda x: tf.py_function(noted, [x], tf.int64))
    turned = again.snapshot(str(tmp_path), reader_func=lambda ds: ds.flat_map(lambda d: d.repeat(2)))
    assert elements(turned) == [0, 1, 2, 3] * 2
    assert len(calls) == 4


def test_saving_in_a_graph_and_in_a_function(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
        write = tf.compat.v1.data.Dataset.range(4).save(str(tmp_path / "a"), compression="GZIP")
        assert not (tmp_path / "a").exists()
        sess.run(write)
    loaded = tf.data.Dataset.load(str(tmp_path / "a"), compression="GZIP")
    assert elements(loaded) == [0, 1, 2, 3] and len(loaded) == 4

    @tf.function
    def write_squares():
        tf.data.Dataset.range(3).map(lambda x: x * x).save(str(tmp_path / "b"))
    write_squares()
    assert elements(tf.data.Dataset.load(str(tmp_path / "b"))) == [0, 1, 4]


def test_a_damaged_size_is_reported(tmp_path):
    tf.data.Dataset.range(4).save(str(tmp_path))
    (tmp_path / "dataset_size.txt").write_text("four")
    with pytest.raises(tf.errors.DataLossError, match="number of a dataset's elements"):
        tf.data.Dataset.load(str(tmp_path))
