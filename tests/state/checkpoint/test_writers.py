"""Several writers of one prefix: whatever they do, and whichever is killed, there is a whole checkpoint of one of them."""
import multiprocessing
import os
import signal
import threading

import numpy as np
import pytest
import torch

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.base import dtypes, errors
from penstock._src.io import bundle, locks, paths
from penstock._src.state.checkpoint import state
from tests.state.checkpoint.saving_child import hold_a_save, save_often

SPAWN = multiprocessing.get_context("forkserver")
SPAWN.set_forkserver_preload(["tests.state.checkpoint.saving_child"])


def of(value, count=3):
    return {f"v{i}": torch.full((50 * (i + 1),), float(value)) for i in range(count)}


def started(prefix, tensors):
    writer = bundle.BundleWriter(prefix)
    for name, value in tensors.items():
        writer.add(name, value, dtypes.float32)
    return writer


def the_value(prefix):
    """The one value that all tensors of a checkpoint have; AssertionError if it is of several writers."""
    with bundle.BundleReader(prefix) as reader:
        found = {x for name in reader.names() for x in np.unique(np.asarray(reader.read(name), np.float32)).tolist()}
    assert len(found) == 1, found
    return found.pop()


@pytest.mark.parametrize("first", [True, False])
def test_the_last_index_wins_with_its_own_data(tmp_path, first):
    """A's data, B's data, A's index, B's index; with and without a bundle before."""
    prefix = str(tmp_path / "m")
    if not first:
        started(prefix, of(7)).finish()
    a, b = started(prefix, of(1)), started(prefix, of(2))
    a.finish()
    assert the_value(prefix) == 1
    b.finish()
    assert the_value(prefix) == 2
    assert len(os.listdir(tmp_path)) == 2


def test_an_index_removes_only_what_the_replaced_one_named(tmp_path):
    prefix = str(tmp_path / "m")
    started(prefix, of(1)).finish()
    stranger = tmp_path / "m.data-00003-of-00007"
    stranger.write_bytes(b"of a saver that does not know our lock")
    started(prefix, of(2)).finish()
    assert stranger.exists() and the_value(prefix) == 2
    os.utime(stranger, ns=(0, 0))
    started(prefix, of(3)).finish()
    assert not stranger.exists() and the_value(prefix) == 3


def test_a_new_folder_of_parts_stays_until_its_writer_has_opened_a_file(tmp_path):
    folder = tmp_path / f"m-1_temp_{'0123456789abcdef' * 2}"
    folder.mkdir()
    started(str(tmp_path / "m-2"), of(1)).finish()
    assert folder.exists()
    os.utime(folder, ns=(0, 0))
    started(str(tmp_path / "m-2"), of(2)).finish()
    assert not folder.exists()


def test_a_reader_keeps_the_checkpoint_that_it_opened(tmp_path):
    prefix = str(tmp_path / "m")
    started(prefix, of(1)).finish()
    with bundle.BundleReader(prefix) as reader:
        for value in (2, 3):
            started(prefix, of(value)).finish()
        assert {float(reader.read(n)[0]) for n in reader.names()} == {1.0}


def test_a_reader_begins_again_when_the_index_is_replaced(tmp_path, monkeypatch):
    prefix = str(tmp_path / "m")
    started(prefix, of(1)).finish()
    look, times = bundle.BundleReader._open_data, []

    def replaced_meanwhile(reader):
        times.append(1)
        if len(times) == 1:
            monkeypatch.setattr(bundle.BundleReader, "_open_data", look)
            started(prefix, of(2)).finish()
            monkeypatch.setattr(bundle.BundleReader, "_open_data", replaced_meanwhile)
        look(reader)
    monkeypatch.setattr(bundle.BundleReader, "_open_data", replaced_meanwhile)
    assert the_value(prefix) == 2 and len(times) == 2


@pytest.mark.parametrize("at", ["data", "index"])
def test_an_interrupted_rename_leaves_a_whole_checkpoint(tmp_path, monkeypatch, at):
    """An exception before or after a rename, such as a KeyboardInterrupt, never separates an index from its data."""
    prefix = str(tmp_path / "m")
    for before in (True, False):
        started(prefix, of(1)).finish()
        replace = os.replace

        def interrupted(old, new, before=before, replace=replace):
            if not before or f".{at}" not in new:
                replace(old, new)
            if f".{at}" in new:
                raise KeyboardInterrupt
        monkeypatch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            started(prefix, of(2)).finish()
        monkeypatch.undo()
        assert the_value(prefix) == (2 if at == "index" and not before else 1)
        assert len([f for f in os.listdir(tmp_path) if f.startswith(".")]) == 0


def test_threads_write_and_read_one_prefix(tmp_path):
    """Checkpoint.write from threads, each with its own objects, while another reads."""
    prefix, wrong, done = str(tmp_path / "m"), [], threading.Event()

    def write(value):
        checkpoint = tf2.train.Checkpoint(a=tf2.Variable(tf2.fill([300], value)), b=tf2.Variable(value))
        for _ in range(15):
            checkpoint.write(prefix)

    def read():
        while not done.is_set():
            try:
                with bundle.BundleReader(prefix) as reader:
                    names = [n for n in reader.names() if n.endswith("VARIABLE_VALUE") and "save_counter" not in n]
                    found = {float(np.unique(reader.read(n).numpy()).max()) for n in names}
                if len(found) != 1:
                    wrong.append(found)
            except errors.NotFoundError:
                pass
            except Exception as e:
                wrong.append(e)
    threads = [threading.Thread(target=write, args=(float(i),)) for i in range(4)]
    reader = threading.Thread(target=read)
    for t in [*threads, reader]:
        t.start()
    for t in threads:
        t.join()
    done.set()
    reader.join()
    assert not wrong
    variables = tf2.Variable(tf2.zeros([300])), tf2.Variable(0.)
    tf2.train.Checkpoint(a=variables[0], b=variables[1]).read(prefix).assert_consumed()
    assert float(variables[1]) == variables[0].numpy()[0]
    assert sorted(len(f.split(".data")) for f in os.listdir(tmp_path)) == [1, 2]


@pytest.mark.parametrize("how", ["plain", "shards", "old", "weights"])
def test_processes_write_one_prefix(tmp_path, how):
    """Three processes; the sharded savers come from one imported graph, so that they name the same temporary folder."""
    children = [SPAWN.Process(target=save_often, args=(str(tmp_path), how, i, 8)) for i in (1, 2, 3)]
    for c in children:
        c.start()
    for c in children:
        c.join(100)
        assert c.exitcode == 0
    left = os.listdir(tmp_path)
    assert not [f for f in left if "temp" in f or f.endswith(".tmp")], left
    if how == "old":
        tf.disable_v2_behavior()
        reader = tf.train.NewCheckpointReader(str(tmp_path / "m"))
        assert len({float(reader.get_tensor(n).ravel()[0]) for n in reader.get_variable_to_shape_map()}) == 1
    elif how == "weights":
        import h5py
        found = []
        with h5py.File(tmp_path / "m.weights.h5") as f:
            f.visititems(lambda _, d: found.extend(np.unique(d[()]).tolist()) if isinstance(d, h5py.Dataset) else None)
        assert len(set(found)) == 1
    else:
        assert the_value(str(tmp_path / "m")) in (1, 2, 3)
        assert len([f for f in left if f.endswith(".index")]) == 1


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("names", [("m", "m", "m"), ("m-7", "m-12", "m-12")], ids=["same", "numbered"])
def test_what_a_killed_saver_left_goes_with_the_next_save(tmp_path, sharded, names):
    """Also that of another step: a training that is killed never saves that step again."""
    ready, (its, second, third) = SPAWN.Event(), names
    child = SPAWN.Process(target=hold_a_save, args=(str(tmp_path / its), sharded, ready))
    child.start()
    try:
        assert ready.wait(100)
        left = [f for f in os.listdir(tmp_path) if "temp" in f or f.endswith(".tmp")]
        assert left
        started(str(tmp_path / second), of(1)).finish()
        assert set(left) <= set(os.listdir(tmp_path)), "the files of a living saver stay"
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    started(str(tmp_path / third), of(2)).finish()
    assert the_value(str(tmp_path / third)) == 2 and len(os.listdir(tmp_path)) == 2


def test_a_failed_sharded_save_leaves_nothing(tmp_path):
    tf.disable_v2_behavior()
    with tf.Graph().as_default(), tf.Session() as sess:
        with tf.device("/cpu:0"):
            tf.get_variable("a", [3])
        tf.get_variable("b", [3])
        saver = tf.train.Saver(sharded=True)
        sess.run(tf.global_variables_initializer())
        os.makedirs(tmp_path / "m.index")                  # instead of the index
        with pytest.raises(errors.OpError):
            saver.save(sess, str(tmp_path / "m"), write_meta_graph=False)
        assert os.listdir(tmp_path) == ["m.index"]


def test_threads_share_a_sharded_saver(tmp_path):
    tf.disable_v2_behavior()
    with tf.Graph().as_default(), tf.Session() as sess:
        with tf.device("/cpu:0"):
            tf.get_variable("a", [3], initializer=tf.ones_initializer())
        tf.get_variable("b", [3], initializer=tf.ones_initializer())
        saver = tf.train.Saver(sharded=True)
        sess.run(tf.global_variables_initializer())
        failed = []

        def save(asynchronous):
            try:
                for _ in range(5):
                    saver.save(sess, str(tmp_path / "m"), write_meta_graph=False, asynchronous=asynchronous)
            except Exception as e:
                failed.append(e)
        threads = [threading.Thread(target=save, args=(bool(i % 2),)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        saver.wait()
    assert not failed and the_value(str(tmp_path / "m")) == 1


def test_a_lock_that_is_never_free_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_GIVE_UP_AFTER", 0.0)
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        locks.fcntl.flock(fd, locks.fcntl.LOCK_EX)
        with pytest.raises(errors.DeadlineExceededError, match="held the lock"):
            started(str(tmp_path / "m"), of(1)).finish()
    finally:
        os.close(fd)
    assert os.listdir(tmp_path) == []


def test_other_file_systems_get_unique_names():
    prefix = "memory://two-writers/m"
    a, b = started(prefix, of(1)), started(prefix, of(2))
    a.finish()
    assert the_value(prefix) == 1
    b.finish()
    assert the_value(prefix) == 2 and len(paths.glob(prefix + ".data-*")) == 1


def test_a_passing_error_is_not_the_absence_of_a_checkpoint(tmp_path, monkeypatch):
    path = tf2.train.Checkpoint(v=tf2.Variable(1.0)).save(str(tmp_path / "model"))

    def exhausted(path):
        raise tf.errors.ResourceExhaustedError(None, None, f"{path}; Too many open files")
    with monkeypatch.context() as patched:
        patched.setattr(state.paths, "read_stored", exhausted)
        with pytest.raises(tf.errors.ResourceExhaustedError, match="Too many open files"):
            tf2.train.latest_checkpoint(str(tmp_path))
    assert tf2.train.latest_checkpoint(str(tmp_path)) == path
