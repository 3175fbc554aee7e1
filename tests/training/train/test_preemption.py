"""A chief that gets SIGTERM saves its last step, ends, and continues from there."""
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.training.train.hooks.preemption import PreemptionHook


@pytest.fixture(autouse=True)
def default_handler():
    """The default handler of SIGTERM, whatever other tests have installed."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


PROGRAM = """
import sys
import penstock.compat.v1 as tf

tf.disable_v2_behavior()
step = tf.train.get_or_create_global_step()
v = tf.get_variable("v", initializer=0.0)
train = tf.group(v.assign_add(2.0), step.assign_add(1))
with tf.train.MonitoredTrainingSession(checkpoint_dir=sys.argv[1], save_checkpoint_steps=10**9, save_summaries_steps=None,
                                       log_step_count_steps=None) as sess:
    while not sess.should_stop():
        sess.run(train)
        n, value = sess.run([step, v])
        assert value == 2 * n
        print("step", n, flush=True)
print("after training", flush=True)
"""


def _run(program, folder, steps):
    """Runs the program until it has printed `steps` steps, then ends it; returns the first and last step and the status."""
    lines = []
    with subprocess.Popen([sys.executable, str(program), str(folder)], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            lines.append(line.split())
            if len(lines) == steps:
                process.send_signal(signal.SIGTERM)
    assert len(lines) >= steps and all(line[0] == "step" for line in lines), lines
    return int(lines[0][1]), int(lines[-1][1]), process.returncode


def test_the_last_step_is_saved_and_training_continues(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    folder = tmp_path / "checkpoints"
    _, last, status = _run(program, folder, 5)
    assert status == 128 + signal.SIGTERM
    reader = tf.train.load_checkpoint(str(folder))
    saved = int(reader.get_tensor("global_step"))
    assert saved >= last >= 5 and reader.get_tensor("v") == np.float32(2 * saved)
    first, again, _ = _run(program, folder, 3)
    assert first == saved + 1 and again > saved


def _session(folder):
    tf.train.get_or_create_global_step()
    return tf.train.MonitoredTrainingSession(checkpoint_dir=str(folder))


def test_the_handler_is_there_while_the_session_is(tmp_path):
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with tf.Graph().as_default(), _session(tmp_path):
        assert isinstance(signal.getsignal(signal.SIGTERM).__self__, PreemptionHook)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with pytest.raises(ZeroDivisionError), tf.Graph().as_default(), _session(tmp_path):
        _ = 1 / 0
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_handlers_of_programs_and_other_threads_are_left_alone(tmp_path):
    seen = []

    def elsewhere():
        with tf.Graph().as_default(), _session(tmp_path):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with tf.Graph().as_default(), _session(tmp_path):
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_error_while_saving_is_the_error(tmp_path):
    class Fails(tf.train.SessionRunHook):
        def end(self, session):
            raise OSError("disk full")

    with tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        session = tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), hooks=[Fails()])
        session._preemption[0].requested = True
        with pytest.raises(OSError, match="disk full"):
            session.close()
