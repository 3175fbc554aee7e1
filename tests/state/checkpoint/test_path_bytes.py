"""Paths are bytes: one that is not UTF-8 works wherever a tensor or a file system holds it; state files cannot name it."""
import os

import numpy as np
import pytest

import penstock as tf

v1 = tf.compat.v1


@pytest.fixture(params=[os.fsdecode, os.fsencode], ids=["text", "bytes"])
def path(tmp_path, request):
    return request.param(os.fsencode(tmp_path) + b"/no\xffutf8")


def test_a_checkpoint_without_a_state_file(path):
    v = tf.Variable([1.0, 2.0])
    found = tf.train.Checkpoint(v=v).write(path)
    assert os.fsencode(found) == os.fsencode(path)
    v.assign([0.0, 0.0])
    tf.train.Checkpoint(v=v).read(path).assert_consumed()
    assert v.numpy().tolist() == [1.0, 2.0]
    assert tf.train.load_checkpoint(path).get_tensor("v/.ATTRIBUTES/VARIABLE_VALUE").tolist() == [1.0, 2.0]


def test_a_saver_without_a_state_file(path):
    with tf.Graph().as_default(), v1.Session() as sess:
        v = v1.get_variable("v", initializer=[1.0, 2.0])
        sess.run(v.initializer)
        saver = v1.train.Saver()
        found = saver.save(sess, path, write_state=False)
        sess.run(v.assign([0.0, 0.0]))
        saver.restore(sess, found)
        assert sess.run(v).tolist() == [1.0, 2.0]


def test_a_state_file_is_refused_before_anything_is_written(path, tmp_path):
    with tf.Graph().as_default(), v1.Session() as sess:
        sess.run(v1.get_variable("v", initializer=1.0).initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match="not UTF-8.*Checkpoint.write"):
            v1.train.Saver().save(sess, path)
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    for call in (lambda: checkpoint.save(path), lambda: tf.train.CheckpointManager(checkpoint, path, 3),
                 lambda: tf.train.latest_checkpoint(path)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="not UTF-8.*Checkpoint.write"):
            call()
    assert not list(tmp_path.iterdir())


def test_ops_on_files(path, tmp_path):
    tf.io.write_file(path, "a\nb\n")
    assert tf.io.matching_files(os.fsencode(tmp_path) + b"/*").numpy().tolist() == [os.fsencode(path)]
    assert [x.numpy() for x in tf.data.Dataset.list_files(f"{tmp_path}/*")] == [os.fsencode(path)]
    table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
                                                                       tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), -1)
    assert table.lookup(tf.constant("b")).numpy() == 1
    with v1.Session(graph=tf.Graph()) as sess:
        with sess.graph.as_default():
            name = v1.placeholder(tf.string, [])
            assert sess.run(tf.io.read_file(name), {name: path}) == b"a\nb\n"


def test_a_folder_of_summaries_and_datasets(path):
    with tf.summary.create_file_writer(path).as_default():
        tf.summary.scalar("loss", 1.0, 1)
    assert any("tfevents" in name for name in os.listdir(os.fsdecode(path)))
    tf.data.Dataset.range(3).save(path)
    assert [int(x) for x in tf.data.Dataset.load(path)] == [0, 1, 2]


def test_text_becomes_the_same_bytes_everywhere():
    text, data = os.fsdecode(b"no\xffutf8"), b"no\xffutf8"
    with v1.Session(graph=tf.Graph()) as sess:
        with sess.graph.as_default():
            fed = v1.placeholder(tf.string, [None])
            assert sess.run([tf.identity(fed), tf.constant([text])], {fed: [text]})[0].tolist() == [data]
    assert tf.constant(text).numpy() == data
    assert tf.constant(np.array([text])).numpy().tolist() == [data]
    assert tf.Variable([text]).numpy().tolist() == [data]


def test_the_characters_of_patterns(tmp_path):
    """A folder with such characters is what it is, though checkpoints may be given by patterns."""
    folders = [tmp_path / name for name in ("run*", "run1", "[a]?")]
    v = tf.Variable(1.0)
    for folder in folders:
        manager = tf.train.CheckpointManager(tf.train.Checkpoint(v=v), folder, 2)
        saved = [manager.save() for _ in range(3)]
        assert tf.train.latest_checkpoint(folder) == saved[-1] and manager.checkpoints == saved[1:]
        assert v1.train.checkpoint_exists(saved[1]) and not v1.train.checkpoint_exists(saved[0])
        assert len(v1.train.get_checkpoint_mtimes(saved)) == 2
    v1.train.remove_checkpoint(str(folders[0] / "ckpt-3"))
    assert [sorted(p.name for p in f.glob("*.index")) for f in folders] == \
        [["ckpt-2.index"], ["ckpt-2.index", "ckpt-3.index"], ["ckpt-2.index", "ckpt-3.index"]]
    v1.train.remove_checkpoint(str(tmp_path / "run1" / "ckpt-*"))
    assert not list((tmp_path / "run1").glob("*.index"))
