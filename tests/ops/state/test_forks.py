"""A fork while other threads update variables and publish checkpoints."""
import os
import threading

import pytest

import penstock as tf
from penstock._src.io import locks
from penstock._src.ops.state import forks

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
              pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")]        # of Python 3.12: there are threads


def in_fork(work, meanwhile=lambda: None):
    """Whether `work` returns something true in a fork, which is ended after a minute; `meanwhile` runs in this process."""
    pid = os.fork()
    if pid == 0:
        threading.Timer(60, lambda: os._exit(2)).start()
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(3)
    meanwhile()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def held_elsewhere(lock):
    """A thread that holds `lock` until the returned function is called."""
    held, release = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            release.wait(60)
    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)

    def end():
        release.set()
        thread.join(60)
    return end


def test_a_folder_that_another_thread_has_locked(tmp_path):
    """It is free in the fork when the parent has ended with it."""
    v = tf.Variable(1.0)
    end = held_elsewhere(locks.folder_lock(str(tmp_path)))
    assert in_fork(lambda: tf.train.Checkpoint(v=v).write(str(tmp_path / "model")), meanwhile=end)


def test_an_update_that_another_thread_has_begun(monkeypatch):
    """The fork waits for its end."""
    v, asked, all_locks = tf.Variable([1.0, 2.0]), threading.Event(), forks._locks
    lock = v.handle._value.lock
    assert lock in all_locks()
    end = held_elsewhere(lock)
    monkeypatch.setattr(forks, "_locks", lambda: (asked.set(), [lock])[1])
    monkeypatch.setattr(forks, "_LONGEST", 60.0)
    ending = threading.Thread(target=lambda: (asked.wait(60), end()))
    ending.start()
    assert in_fork(lambda: v.assign_add([1.0, 1.0]).numpy().tolist() == [2.0, 3.0])
    ending.join(60)
    assert v.assign_add([1.0, 1.0]).numpy().tolist() == [2.0, 3.0]       # it is free in this process, too


def test_a_fork_does_not_wait_for_ever(monkeypatch):
    v = tf.Variable(1.0)
    end = held_elsewhere(v.handle._value.lock)
    monkeypatch.setattr(forks, "_LONGEST", 0.0)
    assert in_fork(lambda: float(tf.constant(2.0) + v) == 3.0)            # reads need no lock
    end()
