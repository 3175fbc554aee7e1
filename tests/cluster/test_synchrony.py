"""Synchronous training across tasks: what a slow worker costs, with a backup worker and without one."""
import contextlib
import importlib.util
import threading

import pytest

import penstock.compat.v1 as tf
from tests.cluster.nursery import ROOT

pytestmark = pytest.mark.distributed
STEPS, LIMIT = 16, 60


class Training:
    """Three workers on threads. Worker 2 makes its first step when `hold(step)` has returned.

    The others begin when its session is there, or, with `join`, it creates its session when `join()` has returned.
    """

    def __init__(self, cluster, aggregate, hold=lambda training, step: None, join=None):
        self.servers, self.aggregate, self.hold, self.join = cluster(ps=1, worker=3), aggregate, hold, join
        self.entered, self.ended, self.closed = ([threading.Event() for _ in range(3)] for _ in range(3))
        self.counts = {}

    def run(self):
        """Trains to the last step; how many gradients of each worker were applied, and were stale."""
        threads = [threading.Thread(target=self._work, args=(i,)) for i in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(LIMIT)
        assert all(e.is_set() for e in self.ended), "some worker has not ended"
        return [self.counts.get(f"/job:worker/task:{i}") for i in range(3)]

    @contextlib.contextmanager
    def _session(self, worker):
        with tf.Graph().as_default():
            with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device=f"/job:worker/task:{worker}")):
                step = tf.train.get_or_create_global_step()
                v = tf.get_variable("v", initializer=[1.0, 2.0])
                opt = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.01), self.aggregate, 3)
                op = opt.minimize(tf.reduce_sum(v * v), global_step=step)
            hooks = [opt.make_session_run_hook(worker == 0, num_tokens=0), tf.train.StopAtStepHook(last_step=STEPS)]
            config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{worker}"])
            with tf.train.MonitoredTrainingSession(self.servers["worker", worker].target, is_chief=worker == 0, hooks=hooks,
                                                   config=config) as sess:
                yield sess, op, lambda: int(sess._tf_sess().run(step)), lambda: opt.gradient_counts(sess._tf_sess())

    def _work(self, worker):
        if worker == 2 and self.join:
            self.join(self)
        with self._session(worker) as (sess, op, step, counts):
            self.entered[worker].set()
            if worker == 2:
                self.hold(self, step)
            elif not self.join:
                assert self.entered[2].wait(LIMIT)
            while not sess.should_stop():
                sess.run(op)
            if worker == 0:
                self.counts.update(counts())
            self.ended[worker].set()
        self.closed[worker].set()


def test_a_backup_worker_takes_the_place_of_a_slow_one(cluster):
    """The others reach the last step while the slow worker has not sent a gradient."""
    def hold(training, step):
        assert training.ended[0].wait(LIMIT) and step() >= STEPS
    *others, late = Training(cluster, 2, hold).run()
    assert late["applied"] == 0
    assert all(c["applied"] >= STEPS for c in others)


def test_a_worker_that_joins_after_the_end_finishes(cluster):
    """The chief is gone, so that no further step can end; the late worker still gets a token, and sees the last step."""
    def join(training):
        assert all(e.wait(LIMIT) for e in training.closed[:2])
    *others, late = Training(cluster, 2, join=join).run()
    assert late is None
    assert all(c["applied"] >= STEPS for c in others)


def test_without_one_everybody_waits(cluster):
    """No step ends before the slow worker has sent its gradient."""
    def hold(training, step):
        assert all(e.wait(LIMIT) for e in training.entered[:2])
        assert step() == 0
    counts = Training(cluster, 3, hold).run()
    assert all(c["stale"] == 0 and c["applied"] >= STEPS for c in counts)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_ways_lead_to_the_same_accuracy(nursery, tmp_path):
    """What docs/synchrony.svg shows, on fewer steps: scripts/make_synchrony_plot.py."""
    spec = importlib.util.spec_from_file_location("plot", ROOT / "scripts" / "make_synchrony_plot.py")
    plot = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plot)
    curves, rates = plot.measure(nursery, tmp_path, steps=800, timed_steps=60, delay=0.1)
    accuracies = [points[-1][1] for points in curves.values()]
    assert min(accuracies) > 0.95 and max(accuracies) - min(accuracies) < 0.02
    assert set(rates) == set(plot.MODES) and all(rate > 0 for pair in rates.values() for rate in pair)
    assert "<svg" in plot.picture(curves, rates)
