"""Threads of kernels spin while the cores are theirs, and sleep soon when others use them too."""
import os
import subprocess
import sys

import pytest
import torch

import penstock.compat.v1 as tf
from penstock.execute import waiting

SECOND = 1_000_000_000


@pytest.fixture
def looks(monkeypatch):
    """Looks at times that the test gives: nanoseconds that threads have run and waited for a core since the last one."""
    waiting._spin()
    for name, value in {"_before": (SECOND, 0), "_calm": 0, "_BETWEEN_LOOKS": -1.0, "_next_look": 0.0}.items():
        monkeypatch.setattr(waiting, name, value)
    total = [SECOND, 0]

    def look(ran, waited):
        total[0] += ran
        total[1] += waited
        monkeypatch.setattr(waiting, "_times", lambda: tuple(total))
        waiting.look()
        return waiting._asleep is not None
    yield look
    waiting._spin()


def test_threads_sleep_when_they_wait_for_cores_and_spin_when_they_are_alone_for_a_while(looks):
    assert not looks(SECOND, 0)
    assert not looks(SECOND, SECOND // 20)                       # a little, now and then, is no reason
    assert looks(SECOND, SECOND // 2)
    calm = [looks(SECOND, 0) for _ in range(waiting._CALM_LOOKS)]
    assert calm == [True] * (waiting._CALM_LOOKS - 1) + [False]
    assert looks(SECOND, SECOND // 2)


def test_too_little_work_says_nothing(looks):
    assert not looks(1000, 100_000)
    assert looks(SECOND, SECOND // 2)
    assert [looks(1000, 0) for _ in range(2 * waiting._CALM_LOOKS)] == [True] * 2 * waiting._CALM_LOOKS


def test_times_that_go_back_say_nothing(looks):
    """The times of threads that have ended are gone."""
    assert not looks(-SECOND // 2, SECOND // 2)


TEAM = """
import os, time, torch
from penstock.execute import waiting
torch.randn(500, 500) @ torch.randn(500, 500)
def count(enough):
    deadline = time.monotonic() + 30
    while not enough(n := len(os.listdir("/proc/self/task"))) and time.monotonic() < deadline:
        time.sleep(0.02)
    return n
before = count(lambda n: True)
waiting._sleep_soon()
more = before + waiting._libgomp().omp_get_num_procs() + 1
kept = count(lambda n: n >= more)
waiting._spin()
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
    if before == (0, 0):
        pytest.skip("the system does not say how long threads wait for a core")
    assert after[0] > before[0] and after[1] >= before[1]


def test_steps_look(monkeypatch):
    seen = []
    monkeypatch.setattr(waiting, "look", lambda: seen.append(1))
    with tf.Graph().as_default(), tf.Session() as sess:
        sess.run(tf.constant(1.0) + 2.0)
    assert seen


def test_a_child_begins_anew(looks):
    assert looks(SECOND, SECOND)
    kept = waiting._asleep
    waiting._after_fork()
    assert waiting._asleep is None and waiting._before == (0, 0)
    kept.release()
