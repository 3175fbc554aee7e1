"""Threads of kernels spin while the cores are theirs, and sleep soon when others use them too."""
import os
import subprocess
import sys
import threading

import pytest
import torch

import penstock.compat.v1 as tf
from penstock._src.kernels import waiting

SECOND = 1_000_000_000


@pytest.fixture
def load():
    """A load of which nothing is known, as one of a process that begins."""
    load = waiting.Load()
    yield load
    load.spin()


@pytest.fixture
def looks(monkeypatch, load):
    """Inspects times that the test returns: nanoseconds that a thread has run and waited for a core since the last one."""
    clock, total, slept = [1000.0], [SECOND, 0], [0]
    monkeypatch.setattr(waiting, "monotonic", lambda: clock[0])
    monkeypatch.setattr(waiting, "_sleeps", lambda: slept[0])

    def look(ran, waited, later=1.0, thread="1", sleeps=0):
        clock[0] += later
        slept[0] += sleeps
        total[0] += ran
        total[1] += waited
        monkeypatch.setattr(waiting, "_times", lambda: {thread: tuple(total)})
        load.look()
        return load.asleep is not None
    look(0, 0)
    return look


def test_threads_sleep_when_they_wait_for_cores_and_try_to_spin_again_later_and_later(looks):
    assert not looks(SECOND, 0)
    assert not looks(SECOND, SECOND // 10)                       # a little, now and then, is no reason
    assert looks(SECOND, SECOND)
    for pause in (1, 2, 4, 8, 16, 16):
        assert looks(SECOND, 0, pause)                           # not inspected
        assert not looks(SECOND, SECOND, 0.5)                    # tried, whatever it was before
        assert looks(SECOND, SECOND)
    assert not looks(SECOND, SECOND, 16.5)
    assert not looks(SECOND, 0)                                  # alone again
    assert looks(SECOND, SECOND)
    assert not looks(SECOND, 0, 1.5)


def test_too_little_work_says_nothing(looks):
    assert not any(looks(1000, 100_000) for _ in range(10))
    assert looks(SECOND, SECOND)


def test_threads_that_end_or_begin_say_nothing(looks):
    assert not looks(SECOND, SECOND, thread="2")
    assert looks(SECOND, SECOND, thread="2")


def test_looks_are_seldom(looks):
    looks(SECOND, 0)
    assert not looks(SECOND, 9 * SECOND, later=0.1)


def test_short_kernels_run_on_one_thread_while_cores_are_shared(looks, load):
    looks(SECOND, 0, sleeps=100_000)
    assert not load.one_thread                              # the cores are free
    assert looks(SECOND, SECOND, sleeps=100_000)
    assert not load.one_thread                              # those were sleeps of threads that should have spun
    assert looks(SECOND // 10, SECOND // 10, 0.3, sleeps=waiting._SLEEPS)
    assert not load.one_thread                              # there is a core for the second thread half of the time
    assert looks(SECOND // 2, SECOND, 0.3, sleeps=waiting._SLEEPS)
    assert load.one_thread
    assert looks(SECOND // 2, 0, 0.3)                            # one thread does not sleep: no reason to return to more
    assert load.one_thread
    assert not looks(SECOND, SECOND, 0.5)                        # spinning is tried again
    assert not load.one_thread


def test_long_kernels_keep_their_threads_while_cores_are_shared(looks, load):
    assert looks(SECOND, SECOND)
    assert looks(SECOND // 2, SECOND, 0.5, sleeps=waiting._SLEEPS // 4)
    assert not load.one_thread
    assert looks(1000, 0, 0.4, sleeps=1000)                      # too little work says nothing
    assert not load.one_thread


TEAM = """
import os, time, torch
from penstock._src.kernels import waiting
torch.randn(500, 500) @ torch.randn(500, 500)
def count(enough):
    deadline = time.monotonic() + 30
    while not enough(n := len(os.listdir("/proc/self/task"))) and time.monotonic() < deadline:
        time.sleep(0.02)
    return n
before = count(lambda n: True)
waiting.machine.sleep_soon()
more = before + waiting.libgomp().omp_get_num_procs() + 1
kept = count(lambda n: n >= more)
waiting.machine.spin()
print(kept >= more, count(lambda n: n <= before) <= before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="no times of threads that wait for a core")
def test_a_team_larger_than_the_number_of_cores_is_kept_while_threads_are_to_sleep():
    got = subprocess.run([sys.executable, "-c", TEAM], capture_output=True, text=True, timeout=100)
    assert got.stdout.split() == ["True", "True"], got.stderr


def test_times_are_those_of_this_process():
    before = waiting._times()
    x = torch.randn(300, 300)
    for _ in range(50):
        x = torch.tanh(x @ x)
    after = waiting._times()
    if not before:
        pytest.skip("the system does not say how long threads wait for a core")
    me = str(threading.get_native_id())
    assert after[me][0] > before[me][0] and after[me][1] >= before[me][1]


def test_steps_look(monkeypatch):
    seen = []
    monkeypatch.setattr(waiting.machine, "look", lambda: seen.append(1))
    with tf.Graph().as_default(), tf.Session() as sess:
        sess.run(tf.constant(1.0) + 2.0)
    assert seen


def test_a_child_begins_with_nothing_known(looks, load):
    assert looks(SECOND, SECOND)
    assert looks(SECOND, 3 * SECOND, 0.5, sleeps=10 * waiting._SLEEPS) and load.one_thread
    kept = load.asleep
    load.reset()
    assert load.asleep is None and not load.one_thread
    assert not looks(SECOND, SECOND)                             # the first measurement says nothing
    kept.release()
