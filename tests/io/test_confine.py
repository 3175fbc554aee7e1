"""Which files a process may use, when PENSTOCK_FILE_FOLDERS declares folders."""
import contextlib
import json
import os
import sqlite3

import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.cluster import security
from penstock._src.io import confine, paths
from penstock._src.ops.state.keyed import make_table


@pytest.fixture
def folders(tmp_path, monkeypatch):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    for folder in (inside, outside):
        (folder / "data").write_text("text")
    monkeypatch.setenv("PENSTOCK_FILE_FOLDERS", f"{inside}:s3://bucket/models")
    return inside, outside


def test_uses_of_files_outside_are_refused(folders):
    inside, outside = folders
    (inside / "link").symlink_to(outside / "data")
    uses = [paths.read_bytes, paths.exists, paths.isdir, paths.stat, paths.remove, paths.rmtree,
            lambda p: paths.write_atomically(p, b""), lambda p: paths.rename(p, inside / "x"),
            lambda p: paths.rename(inside / "data", p), lambda p: paths.copy(p, inside / "x"), paths.listdir, paths.makedirs,
            tf.gfile.Exists]
    for use in uses:
        for path in (outside / "data", inside / ".." / "outside" / "data", inside / "link", "s3://bucket/other",
                     "s3://bucket/models/../other"):
            with pytest.raises(tf.errors.PermissionDeniedError, match="PENSTOCK_FILE_FOLDERS"):
                use(str(path))
    assert paths.glob(str(inside.parent / "*" / "data")) == [str(inside / "data")]
    assert paths.read_bytes(inside / "data") == b"text" and (outside / "data").read_text() == "text"


def test_ops_and_checkpoints_work_inside_and_not_outside(folders):
    inside, outside = folders
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.get_variable("v", initializer=1.0)
        sess.run(v.initializer)
        tf.train.Saver().save(sess, str(inside / "model"))
        assert sess.run(tf.read_file(str(inside / "data"))) == b"text"
        with pytest.raises(tf.errors.PermissionDeniedError):
            tf.train.Saver().save(sess, str(outside / "model"))
        table = tf.lookup.TextFileInitializer(str(outside / "data"), tf.string, 0, tf.int64, 1)
        for op in (tf.read_file(str(outside / "data")), tf.write_file(str(outside / "new"), "x"),
                   tf.raw_ops.PrintV2(input="x", output_stream=f"file://{outside}/new"),
                   tf.data.TFRecordDataset(str(outside / "data")).make_one_shot_iterator().get_next(),
                   tf.lookup.StaticHashTable(table, -1).initializer):
            with pytest.raises(tf.errors.PermissionDeniedError):
                sess.run(op)
    assert [p.name for p in outside.iterdir()] == ["data"]


def _keyed(folder):
    """A table whose rows leave memory for a folder."""
    make_table("rows", tf.float32, tf.int64, json.dumps({"dim": 1, "capacity": 1, "policy": 1, "storage": folder})).start(None)


def _sql(database, query):
    return list(tf2.data.experimental.SqlDataset("sqlite", database, query, (tf.string,)))


def _model():
    return tf2.keras.Sequential([tf2.keras.layers.Dense(1, input_shape=(1,))])


def _model_that_trains(callback):
    model = _model()
    model.compile("sgd", "mse")
    model.fit(np.zeros((2, 1)), np.zeros((2, 1)), verbose=0, callbacks=[callback])


USES = {
    "cache": lambda out: list(tf2.data.Dataset.range(3).cache(f"{out}/cache")),
    "save": lambda out: tf2.data.Dataset.range(3).save(f"{out}/saved"),
    "load": lambda out: tf2.data.Dataset.load(out),
    "snapshot": lambda out: list(tf2.data.Dataset.range(3).snapshot(f"{out}/snapshot")),
    "lines": lambda out: list(tf2.data.TextLineDataset(f"{out}/data")),
    "fixed": lambda out: list(tf2.data.FixedLengthRecordDataset(f"{out}/data", 1)),
    "csv": lambda out: list(tf2.data.experimental.CsvDataset(f"{out}/data", [tf.string])),
    "sql": lambda out: _sql(f"{out}/data", "SELECT 1"),
    "records": lambda out: tf2.io.TFRecordWriter(f"{out}/records"),
    "summary": lambda out: tf2.summary.create_file_writer(f"{out}/logs").init(),
    "checkpoint": lambda out: tf2.train.Checkpoint(v=tf2.Variable(1.0)).save(f"{out}/model"),
    "h5": lambda out: _model().save(f"{out}/model.h5"),
    "keras": lambda out: _model().save(f"{out}/model.keras"),
    "csv log": lambda out: _model_that_trains(tf2.keras.callbacks.CSVLogger(f"{out}/log.csv")),
    "profile": lambda out: (tf2.profiler.experimental.start(f"{out}/profile"), tf2.profiler.experimental.stop()),
    "saved model": lambda out: tf2.saved_model.save(tf2.Module(), f"{out}/model"),
    "evicted rows": lambda out: _keyed(f"{out}/rows"),
    "skipgram": lambda out: tf2.raw_ops.Skipgram(filename=f"{out}/data", batch_size=1),
    "vocabulary": lambda out: tf2.raw_ops.GenerateVocabRemapping(
        new_vocab_file=f"{out}/data", old_vocab_file=f"{out}/data", new_vocab_offset=0, num_new_vocab=1),
    "slices": lambda out: tf2.raw_ops.SaveSlices(filename=f"{out}/m", tensor_names=["v"], shapes_and_slices=[""], data=[1.0]),
}


@pytest.mark.parametrize("use", USES)
def test_every_way_to_a_file_is_confined(folders, use):
    with pytest.raises(tf.errors.PermissionDeniedError, match="PENSTOCK_FILE_FOLDERS"):
        USES[use](str(folders[1]))
    assert [p.name for p in folders[1].iterdir()] == ["data"] and (folders[1] / "data").read_text() == "text"


@pytest.mark.parametrize("query", ["VACUUM INTO '{}/new'", "ATTACH DATABASE '{}/new' AS other"])
def test_a_query_reaches_no_other_file(folders, query):
    """Not with a declared folder's database, and not without declared folders: a query is a string of the graph."""
    inside, outside = folders
    database = str(inside / "db")
    with contextlib.closing(sqlite3.connect(database)) as made:
        made.execute("CREATE TABLE t (a TEXT)")
        made.execute("INSERT INTO t VALUES ('x')")
        made.commit()
    assert [row[0].numpy() for row in _sql(database, "SELECT a FROM t")] == [b"x"]
    with pytest.raises(tf.errors.UnknownError, match="authoriz"):
        _sql(database, query.format(outside))
    assert [p.name for p in outside.iterdir()] == ["data"]


@pytest.mark.distributed
def test_a_client_cannot_read_the_servers_secret(tmp_path, monkeypatch):
    monkeypatch.delenv("PENSTOCK_FILE_FOLDERS", raising=False)
    monkeypatch.setattr(confine, "_private", set())
    secret = tmp_path / "secret"
    secret.write_text("a secret for this test")
    monkeypatch.setenv("PENSTOCK_SECRET_FILE", str(secret))
    assert str(secret) in security.private_files()
    server = tf.train.Server.create_local_server()
    try:
        (tmp_path / "link").symlink_to(secret)
        with tf.Graph().as_default(), tf.Session(server.target) as sess:
            (tmp_path / "a:").mkdir()
            monkeypatch.chdir(tmp_path)
            for path in (secret, tmp_path / "link", f"file://{secret}", f"local://{secret}", f"simplecache::local://{secret}",
                         f"blockcache::file://{secret}", "a://../secret", f"reference://x::{tmp_path / 'names.json'}",
                         f"simplecache::reference://x::{tmp_path / 'names.json'}", f"generic://file://{secret}"):
                with pytest.raises(tf.errors.PermissionDeniedError, match="secret"):
                    sess.run(tf.read_file(str(path)))
    finally:
        server.stop()


def test_another_name_of_a_private_file_is_private(tmp_path, monkeypatch):
    """A hard link to the secret is the same file; another file with two names is not."""
    monkeypatch.delenv("PENSTOCK_FILE_FOLDERS", raising=False)
    monkeypatch.setattr(confine, "_private", set())
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "secret").write_text("s")
    (tmp_path / "key").write_text("k")
    (tmp_path / "mine").write_text("m")
    for name in ("mine", "key", "private/secret"):
        os.link(tmp_path / name, tmp_path / ("other-" + name.replace("/", "-")))
    confine.keep_private(str(folder), str(tmp_path / "key"))
    assert paths.read_bytes(tmp_path / "other-mine") == b"m"
    for name in ("other-key", "other-private-secret"):
        for path in (tmp_path / name, f"file://{tmp_path}/{name}"):
            with pytest.raises(tf.errors.PermissionDeniedError, match="secret"):
                paths.read_bytes(str(path))


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/thread-self/environ", "/proc/self/task/self/environ",
                                  "/proc/self/mem", "/proc/../proc/self/environ", "file:///proc/self/environ"])
def test_the_environment_of_a_server_is_private(tmp_path, monkeypatch, path):
    """It may hold PENSTOCK_SECRET."""
    monkeypatch.delenv("PENSTOCK_FILE_FOLDERS", raising=False)
    monkeypatch.setattr(confine, "_private", set())
    confine.check(path)
    confine.keep_private(str(tmp_path / "key"))
    with pytest.raises(tf.errors.PermissionDeniedError, match="secret"):
        paths.read_bytes(path.replace("task/self", f"task/{os.getpid()}"))
