"""Datasets in folders: save, load, snapshot."""
import contextlib
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import penstock as tf
from penstock._src.io import paths, replaced


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


def test_a_save_that_fails_leaves_the_dataset_and_no_files(tmp_path):
    tf.data.Dataset.range(10).save(str(tmp_path), shard_func=lambda x: x % 3)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.data.Dataset.range(10).map(lambda x: tf.debugging.check_numerics(1.0 / (5.0 - tf.cast(x, tf.float32)), "")).save(
            str(tmp_path))
    assert elements(tf.data.Dataset.load(str(tmp_path))) == list(range(10)) and sorted(os.listdir(tmp_path)) == before


def test_a_dataset_replaces_what_it_was_made_from(tmp_path):
    tf.data.Dataset.range(10).save(str(tmp_path), shard_func=lambda x: x % 3)
    tf.data.Dataset.load(str(tmp_path)).map(lambda x: x * x).save(str(tmp_path))
    assert elements(tf.data.Dataset.load(str(tmp_path))) == [i * i for i in range(10)]
    assert sorted(os.listdir(tmp_path)) == ["00000000.shard", "dataset_size.txt", "dataset_spec.pb"]


def test_savers_of_one_folder_do_not_mix(tmp_path):
    def save(value):
        for _ in range(5):
            tf.data.Dataset.range(20).map(lambda i: 0 * i + value).save(str(tmp_path), shard_func=lambda i: i % 4)
    threads = [threading.Thread(target=save, args=(value,)) for value in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = elements(tf.data.Dataset.load(str(tmp_path)))
    assert len(found) == 20 and len(set(found)) == 1
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


class Ended(BaseException):
    """The process ends."""


CHANGES = 7                          # the new folder, an old file that goes, four new files, the folder is removed


@pytest.mark.parametrize("step", range(CHANGES + 1))
def test_a_saver_that_ends_in_the_middle_of_a_replacement(tmp_path, monkeypatch, step):
    """It ends before one of its renames and removals in the folder; the next process finds all old files or all new ones."""
    tf.data.Dataset.range(6).save(str(tmp_path), shard_func=lambda i: i % 3)
    left = [step]

    def counted(change):
        def run(path, *args):
            left[0] -= 1
            if left[0] < 0:
                raise Ended
            return change(path, *args)
        return run
    with monkeypatch.context() as patched:
        for name in ("rename", "remove", "rmtree"):
            patched.setattr(replaced.paths, name, counted(getattr(paths, name)))
        other = tf.data.Dataset.range(6).map(lambda i: 10.0 * tf.cast(i, tf.float32))
        with contextlib.nullcontext() if step == CHANGES else pytest.raises(Ended):
            other.save(str(tmp_path), shard_func=lambda x: tf.cast(x, tf.int64) // 10 % 2)
    loaded = tf.data.Dataset.load(str(tmp_path))
    assert elements(loaded) == (list(range(6)) if step == 0 else [10.0 * i for i in range(6)])
    assert loaded.element_spec.dtype == (tf.int64 if step == 0 else tf.float32)
    tf.data.Dataset.range(2).save(str(tmp_path))
    assert elements(tf.data.Dataset.load(str(tmp_path))) == [0, 1]
    assert sorted(os.listdir(tmp_path)) == ["00000000.shard", "dataset_size.txt", "dataset_spec.pb"]


def test_one_of_several_passes_writes_a_snapshot(tmp_path):
    calls = []

    def noted(x):
        calls.append(int(x))
        return x
    dataset = tf.data.Dataset.range(4).map(lambda x: tf.py_function(noted, [x], tf.int64)).snapshot(str(tmp_path))
    first, second = iter(dataset), iter(dataset)
    begun = [int(next(first)), int(next(second))]
    assert begun + [int(x) for x in second] == [0, 0, 1, 2, 3]           # passes its input on
    assert [int(x) for x in first] == [1, 2, 3]                          # and writes
    count = len(calls)
    assert elements(dataset) == [0, 1, 2, 3] and len(calls) == count


_SNAPSHOT = """
import sys
import penstock as tf
for x in tf.data.Dataset.range(6).snapshot(sys.argv[1]):
    print(int(x), flush=True)
    sys.stdin.readline()
"""


def test_a_snapshot_of_several_processes(tmp_path):
    """While one process writes, another one reads the input; one that is killed leaves no half of a snapshot."""
    started = [subprocess.Popen([sys.executable, "-c", _SNAPSHOT, str(tmp_path / "s")], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for process in started:
            assert process.stdout.readline() == "0\n"
        started[0].kill()
        out, _ = started[1].communicate("\n" * 6, timeout=100)
        assert out == "1\n2\n3\n4\n5\n"
    finally:
        for process in started:
            process.kill()
            process.wait()
            process.stdout.close()
            process.stdin.close()
    assert elements(tf.data.Dataset.range(6).snapshot(str(tmp_path / "s"))) == list(range(6))
    assert sorted(p.name for p in (tmp_path / "s").iterdir()) == ["snapshot.index"]
