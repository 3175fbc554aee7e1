"""LMDB databases: pairs of a file that the library of that name wrote (pairs.mdb.gz), through readers and datasets; damage."""
import gzip
import pathlib
import random
import time

import fsspec
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as v1
from penstock._src.io.lmdb_file import pairs

DATA = gzip.decompress((pathlib.Path(__file__).parent / "pairs.mdb.gz").read_bytes())
EXPECTED = [(b"key %05d" % i, b"value %d" % i if i % 100 else b"long " * 3000) for i in range(400)]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data.mdb").write_bytes(DATA)
    return tmp_path


def test_pairs_come_in_the_order_of_their_keys(folder):
    assert list(pairs(folder / "data.mdb")) == EXPECTED
    assert list(pairs(folder)) == EXPECTED
    with fsspec.open("memory://lmdb/data.mdb", "wb") as f:
        f.write(DATA)
    assert list(pairs("memory://lmdb/data.mdb")) == EXPECTED


def test_a_reader_reads_one_database_after_the_other(folder):
    with tf.Graph().as_default(), v1.Session() as sess:
        queue = v1.FIFOQueue(9, [tf.string], [[]])
        keys, values = v1.LMDBReader().read_up_to(queue, 150)
        sess.run(queue.enqueue_many([[str(folder), str(folder / "data.mdb")]]))
        sess.run(queue.close())
        found = []
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                found += zip(*sess.run([keys, values]), strict=True)
        assert found == EXPECTED * 2


def test_a_dataset_of_pairs_can_be_saved_within(folder):
    with tf.Graph().as_default(), v1.Session() as sess:
        iterator = v1.data.make_initializable_iterator(v1.contrib.data.LMDBDataset([str(folder)] * 2).batch(7))
        sess.run(iterator.initializer)
        following = iterator.get_next()
        first = [sess.run(following) for _ in range(60)]
        saver = v1.train.Saver([v1.data.experimental.make_saveable_from_iterator(iterator)])
        path = saver.save(sess, str(folder / "position"), write_meta_graph=False)
        second = [sess.run(following) for _ in range(55)]
        saver.restore(sess, path)
        again = [sess.run(following) for _ in range(55)]
        for a, b in zip(second, again, strict=True):
            assert np.array_equal(a, b)
        assert [p for k, v in first + second for p in zip(k.tolist(), v.tolist(), strict=True)] == EXPECTED * 2


def test_damaged_databases_give_typed_errors_in_bounded_time(tmp_path):
    rng, refused = random.Random(3), 0
    start = time.process_time()
    for case in range(300):
        data = bytearray(DATA)
        for _ in range(rng.choice([1, 4, 40])):
            data[rng.randrange(rng.choice([160, 8192, len(data)]))] = rng.choice([0, 1, 255, rng.randrange(256)])
        if case % 3 == 0:
            del data[rng.randrange(len(data)):]
        (tmp_path / "d.mdb").write_bytes(data)
        try:
            for _ in pairs(tmp_path / "d.mdb"):
                pass
        except (tf.errors.DataLossError, tf.errors.UnimplementedError):
            refused += 1
    assert refused > 50
    assert time.process_time() - start < 60


def test_pages_that_name_each_other_end(tmp_path):
    """The root's children are made the root again."""
    page, data = 4096, bytearray(DATA)
    meta = max((0, page), key=lambda at: int.from_bytes(data[at + 144:at + 152], "little"))
    root = int.from_bytes(data[meta + 128:meta + 136], "little")
    data[meta + 94:meta + 96] = (60).to_bytes(2, "little")
    assert data[root * page + 10] & 1, "the root is a branch"
    for i in range((int.from_bytes(data[root * page + 12:root * page + 14], "little") - 16) // 2):
        at = root * page + int.from_bytes(data[root * page + 16 + 2 * i:root * page + 18 + 2 * i], "little")
        data[at:at + 6] = root.to_bytes(6, "little")
    (tmp_path / "d.mdb").write_bytes(data)
    with pytest.raises(tf.errors.DataLossError, match="not part of a tree"):
        list(pairs(tmp_path / "d.mdb"))
