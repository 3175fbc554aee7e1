"""Kernels have as many threads as other processes leave cores; these spin if the machine is otherwise idle."""
import os
import subprocess
import sys
import threading

import pytest
import torch

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.kernels import waiting


@pytest.fixture
def load():
    """A load of which nothing is known, as one of a process that begins."""
    load = waiting.Load()
    yield load
    load.spin()


@pytest.fixture
def looks(monkeypatch, load):
    """Inspects the cores that this process and others have used, and waited for, since the last time; returns the number of
    threads."""
    clock, totals = [1000.0], [0.0, 0.0, 0.0]
    monkeypatch.setattr(waiting, "monotonic", lambda: clock[0])
    monkeypatch.setattr(load, "sleep_soon", lambda: setattr(load, "sleeps", True))
    monkeypatch.setattr(load, "spin", lambda: setattr(load, "sleeps", False))

    def look(own, others, waited, later=0.3, cores=2, usable=None, running=0, pause=False):
        load.cores, load._usable = cores, usable or cores
        clock[0] += later
        for i, part in enumerate((own + others, own, waited)):
            totals[i] += part * later
        busy, mine, wait = totals
        monkeypatch.setattr(waiting, "_times", lambda: waiting.Times(clock[0], busy, mine, {"1": wait}, running))
        if not pause:
            load._last = clock[0]
        load.look()
        return load.threads or load._usable
    look(0, 0, 0)
    return look


def test_a_core_that_another_process_uses_is_left_to_it_until_it_ends(looks):
    assert looks(2, 0, 0) == 2
    assert looks(1.95, 0.05, 0.04) == 2                          # a little, now and then, is no reason
    assert looks(1.5, 0.5, 0.5) == 1                             # on the core of one thread
    assert looks(1, 1, 0) == 1
    assert looks(1, 0.5, 0) == 1
    assert looks(1, 0.05, 0) == 2
    assert looks(1.33, 0.67, 0.67) == 1                          # moved between the cores


def test_others_on_cores_that_are_free_are_not_in_the_way(looks):
    assert looks(1, 1, 0.01) == 2


def test_all_threads_are_tried_beside_others_more_and_more_rarely(looks, load):
    assert looks(1.5, 0.5, 0.5) == 1
    trials = []
    for moment in range(900):
        tried = looks(1, 1, 0) == 2                              # others use what this process leaves
        if tried:
            trials.append(moment)
            assert looks(1.1, 0.9, 0.9) == 2
            assert looks(1.1, 0.9, 0.9) == 1                     # but do not yield
    gaps = [b - a for a, b in zip(trials, trials[1:], strict=False)]
    assert len(trials) >= 5 and gaps == sorted(gaps) and gaps[-1] > 6 * gaps[0]


def test_threads_stay_where_others_yield(looks, load):
    assert looks(1.5, 0.5, 0.5) == 1
    assert any(looks(1, 1, 0) == 2 for _ in range(40))
    assert looks(1.5, 0.5, 0.5) == 2                             # until the system has moved threads
    seen = [looks(1.97, 0.03, 0.02) for _ in range(20)]          # others have a lower priority
    assert set(seen) == {2} and not load.sleeps


def test_a_process_that_does_not_compute_says_nothing(looks):
    assert looks(0.2, 1.8, 0.2) == 2
    assert looks(0.2, 1.8, 0.8) == 1                             # it would, but has to wait
    assert looks(0.2, 0, 0) == 1
    assert looks(1, 0, 0) == 2


def test_threads_of_this_process_alone_are_not_others(looks):
    assert looks(2, 0, 1.5) == 2


def test_some_cores_of_many(looks, load):
    assert looks(15.06, 0.94, 0.94, cores=16) == 15 and load.sleeps
    assert looks(15, 1, 0.05, cores=16) == 15
    assert looks(12.5, 3.5, 1.5, cores=16) == 12
    assert looks(12, 4, 0, cores=16) == 12
    assert looks(12, 0.01, 0, cores=16) == 16 and not load.sleeps
    assert looks(2, 14, 14, cores=16) == 2


def test_two_processes_of_many_threads_have_half_of_the_cores_each(looks):
    assert looks(2, 2, 2, cores=4) == 2
    assert looks(2, 2, 0.01, cores=4) == 2


def test_beside_more_processes_than_cores_there_is_one_thread(looks):
    assert looks(0.4, 1.6, 1.6) == 1
    assert looks(0.25, 1.75, 0.75) == 1


def test_a_thread_that_was_of_no_use_returns_later_and_later(looks, load):
    assert looks(1.5, 0.5, 0.5) == 1
    for pause in (0.25, 0.5, 1, 2, 4, 4):
        assert looks(1, 0, 0, max(0.3, pause + 0.1)) == 2
        assert looks(1.5, 0.5, 0.5) == 1
        if pause > 0.25:
            assert looks(1, 0, 0) == 1                           # too soon
    assert looks(1, 0, 0, 5) == 2
    assert looks(2, 0, 0, 5) == 2
    assert looks(1.5, 0.5, 0.5) == 1
    assert looks(1, 0, 0) == 2


def test_the_number_of_running_threads_is_the_first_guess(looks, load):
    load.reset()
    assert looks(0, 0, 0, running=1) == 1
    assert looks(1, 0, 0, later=0.1) == 1                        # too short a time for more threads
    assert looks(1, 0, 0, later=0.1) == 2
    load.reset()
    assert looks(0, 0, 0, running=90, cores=16) == 1


def test_short_bursts_of_work_between_pauses(looks):
    assert looks(0.1, 1.9, 0.05, pause=True) == 2                # others may have computed in the pause only
    assert looks(0.7, 1.3, 1.3, later=0.06) == 1
    assert looks(0.1, 1.9, 0.05, pause=True) == 1
    assert looks(1, 0.3, 0, later=0.06) == 1
    assert looks(1, 0, 0, later=0.1) == 2


def test_single_steps_between_pauses(looks):
    assert looks(0.1, 1.9, 0.3, pause=True) == 1                 # waited for longer than it ran
    for _ in range(5):
        assert looks(0.1, 1, 0, pause=True) == 1
    seen = [looks(0.1, 0.01, 0, pause=True) for _ in range(6)]
    assert seen == sorted(seen) and seen[0] == 1 and seen[-1] == 2


def test_a_trial_ends_soon_and_begins_only_where_one_thread_does_not_wait(looks):
    assert looks(1.5, 0.5, 0.5) == 1
    assert {looks(0.3, 1.7, 0.7) for _ in range(40)} == {1}
    while looks(1, 1, 0) == 1:
        pass
    assert looks(1, 1, 1, later=0.06) == 2                       # the system moves threads to other cores
    assert looks(1, 1, 1, later=0.06) == 1


def test_deterministic_ops_have_the_same_number_of_threads_always(looks, monkeypatch):
    assert looks(1.5, 0.5, 0.5) == 1
    monkeypatch.setattr(waiting.process, "seeds_required", True)
    assert looks(1, 0.9, 0) == 2
    assert looks(1.5, 0.5, 0.5) == 2


def test_looks_are_seldom(looks):
    assert looks(2, 0, 0) == 2
    assert looks(1.5, 0.5, 0.5, later=0.1) == 2
    assert looks(1.5, 0.5, 0.5, later=0.2) == 1


def test_a_system_that_reports_nothing_leaves_all_threads(load, monkeypatch):
    monkeypatch.setattr(waiting, "_times", lambda: None)
    monkeypatch.setattr(waiting, "_BETWEEN_LOOKS", -1.0)
    load.look()
    load.look()
    assert load.threads == load._without_others()


@pytest.mark.parametrize("files, quota", [
    ({"cpu.max": "max 100000\n"}, 0), ({"cpu.max": "250000 100000\n"}, 3), ({"cpu.max": "50000 100000"}, 1), ({}, 0),
    ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0),
    ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
    ({"cpu.max": "what"}, 0)])
def test_the_limit_of_a_container(files, quota, monkeypatch):
    def read(path):
        try:
            return files[path.removeprefix("/sys/fs/cgroup/")]
        except KeyError:
            raise FileNotFoundError(path) from None
    monkeypatch.setattr(waiting, "_read", read)
    assert waiting._quota() == quota


def test_a_limited_container_has_no_more_threads_when_others_leave(monkeypatch, looks, load):
    monkeypatch.setattr(waiting, "_cores", lambda: (8, 3))
    load.reset()
    assert load.threads == 3
    looks(3, 0, 0, cores=8, usable=3)
    assert looks(2, 6, 2, cores=8, usable=3) == 2
    assert looks(2, 0, 0, cores=8, usable=3) == 3


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
    if before is None:
        pytest.skip("the system does not say how busy the cores are")
    assert after.now > before.now and after.own > before.own and after.busy >= before.busy
    me = str(threading.get_native_id())
    assert not before.waited or after.waited[me] >= before.waited[me]


def test_steps_and_eager_ops_look(monkeypatch):
    seen = []
    monkeypatch.setattr(waiting.machine, "look", lambda: seen.append(1))
    with tf.Graph().as_default(), tf.Session() as sess:
        sess.run(tf.constant(1.0) + 2.0)
    steps = len(seen)
    tf2.math.sin([1.0])
    assert 0 < steps < len(seen)


def test_a_child_begins_with_nothing_known(looks, load):
    assert looks(1.5, 0.5, 0.5) == 1
    load.reset()
    assert load.asleep is None and load.threads == load._without_others()
    assert looks(1.5, 0.5, 0.5) == 2                             # the first measurement says nothing
