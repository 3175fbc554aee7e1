"""Pipes and devices in place of the files of checkpoints and models: an error, and no wait for a writer."""
import os

import pytest

import penstock as tf

v1 = tf.compat.v1


@pytest.fixture
def checkpoint(tmp_path):
    return tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).save(str(tmp_path / "model"))


def piped(path, device):
    os.unlink(path)
    if device:
        os.symlink("/dev/zero", path)
    else:
        os.mkfifo(path)


@pytest.mark.parametrize("device", [False, True])
@pytest.mark.parametrize("end", [".index", ".data-00000-of-00001"])
def test_a_pipe_in_a_checkpoint(checkpoint, end, device):
    piped(checkpoint + end, device)
    with pytest.raises(tf.errors.FailedPreconditionError, match="not a file, but a pipe"):
        tf.train.Checkpoint(v=tf.Variable([0.0, 0.0])).restore(checkpoint)
    with pytest.raises(tf.errors.FailedPreconditionError, match="not a file, but a pipe"):
        tf.train.load_checkpoint(checkpoint).get_tensor("v/.ATTRIBUTES/VARIABLE_VALUE")
    with tf.Graph().as_default(), v1.Session() as sess:
        saver = v1.train.Saver({"v/.ATTRIBUTES/VARIABLE_VALUE": v1.get_variable("v", [2])})
        with pytest.raises(tf.errors.FailedPreconditionError, match="not a file, but a pipe"):
            saver.restore(sess, checkpoint)


def test_a_pipe_in_place_of_the_state(tmp_path, checkpoint):
    piped(tmp_path / "checkpoint", False)
    assert tf.train.latest_checkpoint(str(tmp_path)) is None             # as for any other state that cannot be read


@pytest.mark.parametrize("device", [False, True])
def test_a_pipe_in_a_saved_model(tmp_path, device):
    tf.saved_model.save(tf.Module(), str(tmp_path / "m"))
    piped(tmp_path / "m" / "saved_model.pb", device)
    with pytest.raises(tf.errors.FailedPreconditionError, match="not a file, but a pipe"):
        tf.saved_model.load(str(tmp_path / "m"))
    with tf.Graph().as_default(), v1.Session() as sess, \
            pytest.raises(tf.errors.FailedPreconditionError, match="not a file, but a pipe"):
        v1.saved_model.load(sess, ["serve"], str(tmp_path / "m"))


@pytest.mark.parametrize("name", ["m.keras", "m.h5", "m.weights.h5"])
def test_a_pipe_in_place_of_a_model(tmp_path, name):
    os.mkfifo(tmp_path / name)
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    with pytest.raises((OSError, ValueError, tf.errors.OpError)):
        if "weights" in name:
            model.load_weights(str(tmp_path / name))
        else:
            tf.keras.models.load_model(str(tmp_path / name))


def test_a_save_follows_no_link_and_waits_for_no_pipe(tmp_path):
    """Whoever can write into the folder could make a save overwrite any file of its user, or wait."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "c"
    folder.mkdir()
    for name in "checkpoint", "m-1.index", "m-1.data-00000-of-00001", "s.meta", "s.index", "s.data-00000-of-00001":
        (folder / name).symlink_to(victim)
    os.mkfifo(folder / "m-2.index")
    os.mkfifo(folder / ".m-1.index.1.0.tmp")
    checkpoint = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0]))
    for _ in range(2):
        path = checkpoint.save(str(folder / "m"))
    with tf.Graph().as_default(), v1.Session() as sess:
        v1.get_variable("v", [2])
        sess.run(v1.global_variables_initializer())
        v1.train.Saver().save(sess, str(folder / "s"))
    assert victim.read_text() == "precious" and tf.train.latest_checkpoint(str(folder)) == str(folder / "s")
    assert tf.train.load_checkpoint(path).get_tensor("v/.ATTRIBUTES/VARIABLE_VALUE").tolist() == [1.0, 2.0]
    assert (folder / "m-1.index").stat().st_mode & 0o022 == 0
