"""SyncReplicasOptimizer: means of the first gradients, tokens, stale ones, backups, workers that end before others."""
import threading

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.training.train import sync_replicas

pytestmark = pytest.mark.distributed


@pytest.fixture
def server():
    made = tf.train.Server.create_local_server()
    yield made
    made.stop()


class Worker:
    """One of several clients of a server, each with its own graph."""

    def __init__(self, server, index, aggregate, total, data=None, averages=None, hooks=(), restored=False, **options):
        self.graph, self.server, self.index = tf.Graph(), server, index
        with self.graph.as_default():
            step = tf.train.get_or_create_global_step()
            v = tf.get_variable("v", initializer=0.0)
            rows = tf.get_variable("rows", initializer=np.zeros((3, 1), np.float32))
            with tf.container(f"worker {index}"):
                x = tf.constant(float(index + 1)) if data is None else tf.data.make_one_shot_iterator(
                    tf.data.Dataset.from_tensor_slices(np.full(data, float(index + 1), np.float32))).get_next()
            kind = tf.train.ExponentialMovingAverage(0.5) if averages else None
            self.opt = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), aggregate, total,
                                                      variable_averages=kind, variables_to_average=[v] if kind else None)
            self.opt._make_local_step, made = self._named(self.opt._make_local_step), None
            sparse = tf.IndexedSlices(tf.reshape(x, [1, 1]), tf.constant([1]), tf.constant([3, 1]))
            self.train_op = self.opt.apply_gradients([(x, v), (sparse, rows), (made, v)], global_step=step)
            self.step, self.v, self.rows = step, v, rows
            self.average = kind.average(v) if kind else None
            scaffold = tf.train.Scaffold(init_op=tf.no_op()) if restored else None       # the variables are there
            hook = self.opt.make_session_run_hook(index == 0, **options)
            self.sess = tf.train.MonitoredTrainingSession(server.target, is_chief=index == 0, hooks=[hook, *hooks],
                                                          max_wait_secs=20, scaffold=scaffold)

    def _named(self, make):
        """On one server all workers are the same task, with the same resources: this tells them apart."""
        def made(global_step):
            with tf.container(f"worker {self.index}"):
                make(global_step)
            self.opt._worker = f"worker {self.index}"
        return made

    def run(self, what):
        with self.graph.as_default():
            return self.sess.run(what)

    def train(self):
        """Trains to the end of its data."""
        with self.graph.as_default(), self.sess:
            while not self.sess.should_stop():
                self.sess.run(self.train_op)


def together(*works):
    threads = [threading.Thread(target=w) for w in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads)


def test_the_mean_of_all_workers_is_applied_once(server):
    workers = [Worker(server, i, 2, 2, num_tokens=0) for i in range(2)]
    for _ in range(3):
        together(*(lambda w=w: w.run(w.train_op) for w in workers))
    step, v, rows = workers[1].run([workers[1].step, workers[1].v, workers[1].rows])
    assert step == 3 and v == -3 * 1.5
    assert rows.tolist() == [[0.0], [-4.5], [0.0]]
    counts = workers[0].opt.gradient_counts(workers[0].sess)
    assert counts == {f"worker {i}": {"applied": 3, "stale": 0, "dropped": 0} for i in range(2)}
    together(*(w.sess.close for w in workers))


def test_the_first_gradients_count_and_late_ones_are_dropped(server):
    workers = [Worker(server, i, 2, 3, num_tokens=3) for i in range(3)]
    together(*(lambda w=w: w.run(w.train_op) for w in workers[:2]))
    first = workers[0]
    while first.run(first.step) != 1:
        pass
    assert first.run(first.v) == -1.5
    late = workers[2]
    late.run(late.train_op)                               # of step 0, which is over
    assert first.run([first.step, first.v]) == [1, -1.5]
    assert first.opt.gradient_counts(first.sess)["worker 2"] == {"applied": 0, "stale": 1, "dropped": 1}
    together(*(w.sess.close for w in workers))


def test_tokens_that_nobody_took_are_replaced(server):
    """Two workers of three do all the work: none of their gradients is stale, and the queue does not grow."""
    workers = [Worker(server, i, 2, 3, num_tokens=0) for i in range(3)]
    for _ in range(6):
        together(*(lambda w=w: w.run(w.train_op) for w in workers[:2]))
    first = workers[0]
    assert first.run(first.step) == 6
    counts = first.opt.gradient_counts(first.sess)
    assert [counts[f"worker {i}"]["stale"] for i in range(2)] == [0, 0]
    with first.graph.as_default():
        queue = next(r for (_, name, _), r in server._resources.items() if name == "sync_token_q")
    assert queue.size() <= 3
    together(*(w.sess.close for w in workers))


@pytest.mark.parametrize("lengths", [(4, 9), (9, 4)], ids=["chief first", "chief last"])
def test_a_worker_may_run_out_of_data_before_the_others(server, lengths, monkeypatch):
    monkeypatch.setattr(sync_replicas, "PATIENCE", 5.0)
    workers = [Worker(server, i, 2, 2, data=n, num_tokens=0) for i, n in enumerate(lengths)]
    together(*(w.train for w in workers))
    with workers[0].graph.as_default(), tf.Session(server.target) as sess:
        step, v = sess.run([workers[0].step, workers[0].v])
    alone = 2.0 if lengths[1] > lengths[0] else 1.0
    assert step == 9 and v == -(4 * 1.5 + 5 * alone)


def test_averages_of_variables_follow(server):
    worker = Worker(server, 0, 1, 1, averages=True)
    for _ in range(3):
        worker.run(worker.train_op)
    deadline = 200
    while worker.run(worker.average) >= worker.run(worker.v) / 100 and deadline:
        deadline -= 1
    assert worker.run(worker.average) < 0.0
    worker.sess.close()


def test_mistakes():
    with tf.Graph().as_default():
        step, v = tf.train.get_or_create_global_step(), tf.get_variable("v", initializer=[0.0])
        opt = tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(), 3, 1)
        for early in (opt.get_chief_queue_runner, opt.get_init_tokens_op, opt.make_session_run_hook(True).begin):
            with pytest.raises(ValueError, match="apply_gradient"):
                early()
        with pytest.raises(ValueError, match="Global step"):
            opt.apply_gradients([(v, v)])
        with pytest.raises(ValueError, match="at least one"):
            opt.apply_gradients([], global_step=step)
        opt.minimize(v, global_step=step)
        with pytest.raises(ValueError, match="Too few tokens.*1 .given. vs 2"):
            opt.get_init_tokens_op(1)
        assert opt.get_init_tokens_op().type == "QueueEnqueueManyV2"
        assert {v.name for v in opt.variables()} >= {"beta1_power:0", "beta2_power:0"} and opt.get_slot_names() == ["m", "v"]


def test_a_chief_that_begins_again_at_an_earlier_step_takes_the_others_along(server):
    """The model goes back from step 3 to step 1 while the others wait for step 4."""
    workers = [Worker(server, i, 3, 3, num_tokens=0) for i in range(3)]
    for _ in range(3):
        together(*(lambda w=w: w.run(w.train_op) for w in workers))
    chief, others = workers[0], workers[1:]
    waiting = [threading.Thread(target=w.run, args=(w.train_op,)) for w in others]       # for the chief's gradients
    for t in waiting:
        t.start()
    chief.sess._coordinated_creator.tf_sess.close()                                      # as if it had died
    with pytest.raises(tf.errors.CancelledError):
        chief.sess._coordinated_creator.coord.join(stop_grace_period_secs=10, ignore_live_threads=True)
    chief.graph._unsafe_unfinalize()
    with chief.graph.as_default(), tf.Session(server.target) as sess:
        sess.run(tf.assign(chief.step, 1))
    again = Worker(server, 0, 3, 3, num_tokens=0, restored=True)
    for t in waiting:
        t.join(60)
    assert not any(t.is_alive() for t in waiting), "they wait for a step that is undone"
    again.run(again.train_op)                                # the third gradient, with the two that came before
    together(*(w.sess.close for w in (again, *others)))
