"""Datasets over files: what they read, and that damaged and hostile files raise typed errors in bounded time."""
import gzip
import os
import sqlite3
import subprocess
import sys
import threading
import zlib

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as v1
from penstock._src.base import errors
from tests.checks import eventually

D = tf.data.Dataset


def elements(ds):
    return list(ds.as_numpy_iterator())


def write(path, data, kind=None):
    path.write_bytes({"GZIP": gzip.compress, "ZLIB": zlib.compress, None: bytes}[kind](data))
    return str(path)


@pytest.mark.parametrize("kind", [None, "GZIP", "ZLIB"])
@pytest.mark.parametrize("buffer", [None, 1, 7])
def test_lines(tmp_path, kind, buffer):
    files = [write(tmp_path / n, data, kind) for n, data in (("a", b"one\r\n\ntwo"), ("b", b""), ("c", b"x\n"))]
    assert elements(tf.data.TextLineDataset(files, kind, buffer)) == [b"one", b"", b"two", b"x"]


@pytest.mark.parametrize("kind", [None, "GZIP", "ZLIB"])
def test_fixed_length(tmp_path, kind):
    file = write(tmp_path / "a", b"HH" + bytes(range(12)) + b"F", kind)
    got = elements(tf.data.FixedLengthRecordDataset(file, 4, 2, 1, compression_type=kind))
    assert got == [bytes(range(i, i + 4)) for i in (0, 4, 8)]
    with pytest.raises(errors.InvalidArgumentError, match="not an exact multiple"):
        elements(tf.data.FixedLengthRecordDataset(file, 5, 2, 1, compression_type=kind))


def test_missing_files_are_not_found(tmp_path):
    for make in (tf.data.TextLineDataset, tf.data.TFRecordDataset, lambda f: tf.data.FixedLengthRecordDataset(f, 1)):
        with pytest.raises(errors.NotFoundError):
            elements(make(str(tmp_path / "none")))
    with pytest.raises(errors.InvalidArgumentError, match="No files matched"):
        elements(D.list_files(str(tmp_path / "*")))


@pytest.mark.parametrize("bad", [lambda f: tf.data.TextLineDataset(f, "LZ"), lambda f: tf.data.TextLineDataset(f, None, -1),
                                 lambda f: tf.data.FixedLengthRecordDataset(f, 0),
                                 lambda f: tf.data.FixedLengthRecordDataset(f, 1, -1),
                                 lambda f: tf.data.experimental.CsvDataset(f, [[0]], field_delim="::"),
                                 lambda f: tf.data.experimental.CsvDataset(f, [[0]], select_cols=[-1]),
                                 lambda f: tf.data.experimental.CsvDataset(f, [[0], [0]], select_cols=[1, 0])])
def test_impossible_arguments(tmp_path, bad):
    with pytest.raises(errors.InvalidArgumentError):
        elements(bad(write(tmp_path / "a", b"1\n")))


def test_reading_goes_on_behind_a_damaged_file(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "good")) as w:
        w.write(b"x")
    data = (tmp_path / "good").read_bytes()
    bad = write(tmp_path / "bad", data + data[:-3] + b"zzz")
    ds = tf.data.TFRecordDataset([bad, str(tmp_path / "good")])
    with pytest.raises(errors.DataLossError):
        elements(ds)
    assert elements(ds.ignore_errors()) == [b"x", b"x"]


@pytest.mark.parametrize("kind", ["records", "lines", "fixed", "csv", "GZIP", "ZLIB"])
def test_damaged_files_give_typed_errors(tmp_path, kind):
    rng = np.random.default_rng(0)
    with tf.io.TFRecordWriter(str(tmp_path / "r")) as w:
        for i in range(8):
            w.write(b"abc" * i)
    whole = {"records": (tmp_path / "r").read_bytes(), "lines": b"a\nbb\n" * 9, "fixed": bytes(64),
             "csv": b'1,"a ""q""",2.5\n' * 8, "GZIP": gzip.compress(b"line\n" * 50),
             "ZLIB": zlib.compress(b"line\n" * 50)}[kind]
    make = {"records": tf.data.TFRecordDataset, "lines": tf.data.TextLineDataset,
            "fixed": lambda f: tf.data.FixedLengthRecordDataset(f, 8),
            "csv": lambda f: tf.data.experimental.CsvDataset(f, [tf.int32, tf.string, tf.float32]),
            "GZIP": lambda f: tf.data.TextLineDataset(f, "GZIP"), "ZLIB": lambda f: tf.data.TextLineDataset(f, "ZLIB")}[kind]
    for i in range(60):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] = rng.integers(256)
        file = write(tmp_path / f"f{i}", bytes(data[:rng.integers(1, len(data) + 1)]))
        try:
            elements(make(file))
        except errors.OpError:
            pass


def test_csv_fields(tmp_path):
    file = write(tmp_path / "a.csv", b'x,y,z\r\n1, 2.5 ,"a ""b"",\n c"\r\n,NA,\n')
    got = elements(tf.data.experimental.CsvDataset(file, [[7], [0.5], ["q"]], header=True, na_value="NA"))
    assert got == [(1, 2.5, b'a "b",\n c'), (7, 0.5, b"q")]
    assert elements(tf.data.experimental.CsvDataset(file, [["q"]], header=True, select_cols=[2])) == [(b'a "b",\n c',), (b"q",)]
    with pytest.raises(errors.InvalidArgumentError, match="not a valid int32"):
        elements(tf.data.experimental.CsvDataset(write(tmp_path / "b", b"99999999999\n"), [tf.int32]))


def test_make_csv_dataset_finds_names_and_types(tmp_path):
    file = write(tmp_path / "a.csv", b"i,l,f,s\n1,10000000000,0.5,x\n2,3,,y\n")
    features, label = next(iter(tf.data.experimental.make_csv_dataset(file, 2, label_name="f", num_epochs=1, shuffle=False)))
    assert {k: (v.dtype, v.numpy().tolist()) for k, v in features.items()} == {
        "i": (tf.int32, [1, 2]), "l": (tf.int64, [10**10, 3]), "s": (tf.string, [b"x", b"y"])}
    assert label.numpy().tolist() == [0.5, 0]


def test_cache_files_are_written_once_and_whole(tmp_path):
    calls = []
    ds = D.range(4).map(lambda x: tf.numpy_function(lambda v: calls.append(v) or v, [x], tf.int64)).cache(str(tmp_path / "c"))
    it = iter(ds)
    next(it)
    with pytest.raises(errors.AlreadyExistsError):
        next(iter(ds))
    del it
    assert list(tmp_path.iterdir()) == []
    assert elements(ds) == elements(ds) == [0, 1, 2, 3] and len(calls) == 5
    file = next(tmp_path.iterdir())
    file.write_bytes(file.read_bytes()[:-2])
    with pytest.raises(errors.DataLossError):
        elements(ds)


def test_a_cache_whose_writer_was_killed_is_written_again(tmp_path):
    """TensorFlow asks to delete the lock file by hand."""
    code = "import os, sys, penstock as tf\nfor x in tf.data.Dataset.range(9).cache(sys.argv[1]):\n  if x == 4: os._exit(9)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "c")], timeout=100, check=False)
    assert {p.name.split("-")[0] for p in tmp_path.iterdir()} == {"c.lockfile", "c.tmp"}
    assert elements(D.range(9).cache(str(tmp_path / "c"))) == list(range(9))
    assert [p.name for p in tmp_path.iterdir()] == ["c.index"]
    (tmp_path / "d.lockfile").write_bytes(b"1")
    assert elements(D.range(3).cache(str(tmp_path / "d"))) == [0, 1, 2]


def test_what_is_published_has_reached_the_disk(tmp_path, monkeypatch):
    """After a power failure, a file that is there has all of its contents."""
    done, sync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(os.readlink(f"/proc/self/fd/{fd}")), sync(fd)))
    monkeypatch.setattr(os, "replace", lambda old, new: (done.append((old, new)), replace(old, new)))
    elements(D.range(5).cache(str(tmp_path / "c")))
    (old, new), = [d for d in done if isinstance(d, tuple) and d[1].endswith("c.index")]
    assert old in done[:done.index((old, new))] and str(tmp_path) in done[done.index((old, new)):]
    done.clear()
    D.range(5).save(str(tmp_path / "s"))
    (old, new), = [d for d in done if isinstance(d, tuple) and d[1].endswith(".written")]
    before = done[:done.index((old, new))]
    assert f"{old}/00000000.shard" in before and before[-1] == old
    assert any(d[1] == f"{old}/dataset_spec.pb" for d in before if isinstance(d, tuple))
    assert str(tmp_path / "s") in done[done.index((old, new)):]


def test_a_query_ends_with_its_step(tmp_path):
    """One without an end, when the session is closed."""
    path = str(tmp_path / "db")
    sqlite3.connect(path).close()
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
    raised = []
    with v1.Graph().as_default():
        sess = v1.Session()
        dataset = v1.data.experimental.SqlDataset("sqlite", path, endless, (tf.int64,))
        number = v1.data.make_one_shot_iterator(dataset).get_next()

        def run():
            try:
                sess.run(number)
            except errors.OpError as e:
                raised.append(e)
        thread = threading.Thread(target=run)
        thread.start()
        assert eventually(sess._engine.running_steps)
        sess.close()
        thread.join(60)
    assert not thread.is_alive() and isinstance(raised[0], errors.CancelledError)


def test_sql(tmp_path):
    with sqlite3.connect(tmp_path / "a.db") as db:
        db.execute("CREATE TABLE t (name TEXT, age INTEGER, size REAL)")
        db.executemany("INSERT INTO t VALUES (?, ?, ?)", [("a", 3, 0.5), ("b", None, 2.0)])
    db.close()
    make = tf.data.experimental.SqlDataset
    got = elements(make("sqlite", str(tmp_path / "a.db"), "SELECT name, age, size FROM t", (tf.string, tf.int8, tf.float64)))
    assert got == [(b"a", 3, 0.5), (b"b", 0, 2.0)]
    with pytest.raises(errors.InvalidArgumentError, match="number of columns"):
        elements(make("sqlite", str(tmp_path / "a.db"), "INSERT INTO t VALUES ('c', 1, 1.0)", (tf.string,)))
    assert elements(make("sqlite", str(tmp_path / "a.db"), "SELECT count(*) FROM t", (tf.int32,))) == [(2,)]
    with pytest.raises(errors.UnknownError):
        elements(make("sqlite", str(tmp_path / "a.db"), "SELECT nothing FROM t", (tf.string,)))
    with pytest.raises(errors.InvalidArgumentError):
        elements(make("mysql", "x", "y", (tf.string,)))


def test_record_writer_round_trip(tmp_path):
    path = str(tmp_path / "r")
    tf.data.experimental.TFRecordWriter(path, "GZIP").write(D.range(5).map(lambda x: tf.strings.as_string(x)))
    assert elements(tf.data.TFRecordDataset(path, "GZIP")) == [b"0", b"1", b"2", b"3", b"4"]
    assert elements(tf.data.TFRecordDataset([path] * 3, "GZIP", num_parallel_reads=3).batch(15))[0].tolist() == [
        str(i).encode() for i in range(5) for _ in range(3)]


def test_records_are_bytes_of_any_kind(tmp_path):
    path = str(tmp_path / "r")
    with tf.io.TFRecordWriter(path) as writer:
        for record in (b"a", bytearray(b"b"), memoryview(b"c"), "d", np.bytes_(b"e")):
            writer.write(record)
        for wrong in (3, None, ["f"]):
            with pytest.raises(TypeError, match="A record is bytes"):
                writer.write(wrong)
    assert elements(tf.data.TFRecordDataset(path)) == [b"a", b"b", b"c", b"d", b"e"]


@pytest.mark.parametrize("text", [b"", b"a", b"a\n", b"\n", b"\n\n", b"abcdefgh\ni", b"abcdefghij\n\nklmnopqrstuv",
                                  b"abc\ndef\n", b"abcd\n"])
def test_lines_that_are_longer_than_what_is_read_at_a_time(tmp_path, text):
    (tmp_path / "t").write_bytes(text)
    for size in (1, 2, 3, 4, 100):
        found = [t.numpy() for t in tf.data.TextLineDataset(str(tmp_path / "t"), buffer_size=size)]
        assert found == text.splitlines(), size
