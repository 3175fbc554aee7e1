"""ParameterServerStrategy with a ClusterCoordinator, over servers in this process: scheduling, errors, losses, datasets."""
import threading

import numpy as np
import pytest

import penstock as tf
from penstock._src.cluster import status
from penstock._src.cluster.peers import Peers
from penstock._src.models.distribute import connect
from penstock._src.models.distribute.coordinator import workers
from penstock._src.models.distribute.coordinator.closures import Closure, ClosureQueue
from tests.checks import eventually
from tests.models.distribute.coordinated import made  # noqa: F401

pytestmark = pytest.mark.distributed
E = tf.errors


def counting(c):
    """A step that counts by worker: (function, counts)."""
    counts = c.variable(np.zeros(2, np.int64))

    @tf.function
    def step(*inputs):
        i = tf.distribute.coordinator.experimental_get_current_worker_index()
        counts.scatter_add(tf.IndexedSlices(tf.ones([1], tf.int64), [i]))
        return i
    return step, counts


# -- places ----------------------------------------------------------------------------------------------------------
def test_variables_alternate_between_servers(made):  # noqa: F811
    c = made()
    found = [c.variable(float(i)) for i in range(3)]
    assert [v.device[:24] for v in found] == [f"/job:ps/replica:0/task:{i}" for i in (0, 1, 0)]
    with c.strategy.scope(), c.strategy.extended.colocate_vars_with(found[1]):
        assert tf.Variable(2.0).device == found[1].device
    assert [v.numpy() for v in found] == [0.0, 1.0, 2.0]
    assert tf.distribute.experimental.coordinator.ClusterCoordinator(c.strategy) is c.coordinator
    assert c.strategy.num_replicas_in_sync == 1


def test_functions_run_on_workers_and_change_variables_of_several_servers(made):  # noqa: F811
    c = made()
    v, w, n = c.variable([1.0, 2.0]), c.variable([[3.0, 4.0]]), c.variable(0, dtype=tf.int64)

    @tf.function
    def inner(x):
        return tf.reduce_sum(v * w * x)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = inner(x)
        for u, g in zip((v, w), tape.gradient(loss, [v, w]), strict=True):
            u.assign_sub(0.1 * g)
        n.assign_add(1)
        return {"loss": loss, "of": (n + 0, tf.distribute.coordinator.experimental_get_current_worker_index())}
    first = c.coordinator.schedule(step, args=(tf.constant([1.0, 2.0]),)).fetch()
    assert first["loss"] == 19.0 and first["of"][0] == 1 and first["of"][1] in (0, 1)
    np.testing.assert_allclose(v.numpy(), [0.7, 1.2], rtol=1e-6)
    np.testing.assert_allclose(w.numpy(), [[2.9, 3.6]], rtol=1e-6)
    assert inner(tf.constant([0.0, 0.0])).numpy() == 0.0                                    # here, in the coordinator
    with pytest.raises(E.InvalidArgumentError, match="schedule"):
        step(tf.constant([0.0, 0.0]))


def test_control_flow_over_variables_of_several_servers(made):  # noqa: F811
    c = made()
    v, w, n = c.variable([1.0, 2.0]), c.variable([5.0]), c.variable(0)

    @tf.function
    def step(k):
        if k > 0:
            v.assign(v * 2.0)
        else:
            w.assign(w * 0.0)
        for i in tf.range(k):
            n.assign_add(i)
            if tf.equal(i, 1):
                v.assign_add([1.0, 1.0])
        which = tf.switch_case(k, [lambda: w + 1.0, lambda: w + 2.0, lambda: w + 3.0])
        return v + 0.0, n + 0, which
    got = c.coordinator.schedule(step, args=(tf.constant(3),)).fetch()
    assert got[0].tolist() == [3.0, 5.0] and got[1] == 3 and got[2].tolist() == [8.0]
    got = c.coordinator.schedule(step, args=(tf.constant(0),)).fetch()
    assert got[0].tolist() == [3.0, 5.0] and got[1] == 3 and got[2].tolist() == [1.0] and w.numpy().tolist() == [0.0]


def test_both_workers_work(made):  # noqa: F811
    c = made()
    step, counts = counting(c)
    arrived = [threading.Event(), threading.Event()]

    def meet(i):
        arrived[int(i)].set()
        assert arrived[1 - int(i)].wait(60)
        return int(tf.distribute.experimental.coordinator.get_current_worker_index())
    first, second = c.coordinator.schedule(meet, args=(0,)), c.coordinator.schedule(meet, args=(1,))
    assert sorted([first.fetch(), second.fetch()]) == [0, 1]
    results = [c.coordinator.schedule(step) for _ in range(20)]
    c.coordinator.join()
    assert c.coordinator.done() and counts.numpy().sum() == 20 and len(c.coordinator.fetch(results)) == 20


# -- datasets --------------------------------------------------------------------------------------------------------
def test_each_worker_has_its_dataset(made):  # noqa: F811
    c = made(worker=1)

    @tf.function
    def dataset_fn():
        return c.strategy.distribute_datasets_from_function(
            lambda context: tf.data.Dataset.range(4).map(lambda x: x * 10).batch(2).repeat())
    per_worker = c.coordinator.create_per_worker_dataset(dataset_fn)
    iterator = iter(per_worker)

    @tf.function
    def step(it):
        return c.strategy.reduce("SUM", c.strategy.run(lambda x: x + 1, args=(next(it),)), axis=None)
    got = [c.coordinator.schedule(step, args=(iterator,)).fetch().tolist() for _ in range(3)]
    assert got == [[1, 11], [21, 31], [1, 11]] and per_worker.element_spec.shape.as_list() == [None]
    assert c.coordinator.schedule(lambda: next(iterator)).fetch().tolist() == [20, 30]      # captured, in a Python function
    assert c.coordinator.schedule(step, args=(iter(per_worker),)).fetch().tolist() == [1, 11]
    like = iter(c.coordinator.create_per_worker_dataset(tf.data.Dataset.range(3).filter(lambda x: x > 0)))
    take = tf.function(lambda it: it.get_next())
    assert [c.coordinator.schedule(take, args=(like,)).fetch() for _ in range(2)] == [1, 2]
    with pytest.raises(E.OutOfRangeError):
        c.coordinator.schedule(take, args=(like,)).fetch()
    with pytest.raises(E.OutOfRangeError):
        c.coordinator.join()


def test_iterators_that_are_gone_leave_nothing(made):  # noqa: F811
    c = made(worker=1)
    per_worker = c.coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(3))
    take = tf.function(lambda it: it.get_next())
    for _ in range(5):
        assert c.coordinator.schedule(take, args=(iter(per_worker),)).fetch() == 0
        c.coordinator.join()
    channel, = connect.connected()._workers.values()
    kept = len(channel._graph._ops)
    for _ in range(5):
        assert c.coordinator.schedule(take, args=(iter(per_worker),)).fetch() == 0
        c.coordinator.join()
    assert len(channel._graph._ops) == kept


def test_values_of_workers(made):  # noqa: F811
    c = made()
    values = tf.distribute.coordinator.PerWorkerValues([tf.constant([1.0]), tf.constant([2.0])])

    @tf.function
    def both(x, y):
        return x * y, tf.distribute.coordinator.experimental_get_current_worker_index()
    for _ in range(4):
        product, index = c.coordinator.schedule(both, args=(values,), kwargs={"y": tf.constant(3.0)}).fetch()
        assert product.tolist() == [3.0 * (index + 1)]
    with pytest.raises(ValueError, match="the same type and shape"):
        c.coordinator.schedule(both, args=(tf.distribute.coordinator.PerWorkerValues([np.ones(1), np.ones(2)]), 1.0))
    iterator = iter(c.coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(3)))
    with pytest.raises(E.InvalidArgumentError, match="ClusterCoordinator.schedule"):
        tf.function(lambda: iterator.get_next())()


# -- mistakes and failures -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("spec, text", [
    ({"worker": ["a:1", "b:1"]}, "at least one ps"), ({"ps": ["a:1"]}, "at least one worker"),
    ({"ps": ["a:1"], "worker": ["b:1"], "chief": ["c:1", "d:1"]}, "one chief"),
    ({"ps": ["a:1"], "worker": ["b:1"], "x": ["c:1"]}, "'x'")])
def test_clusters_with_nobody_to_coordinate(spec, text):
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(spec))
    with pytest.raises(ValueError, match=text):
        tf.distribute.ParameterServerStrategy(resolver)


def test_other_strategies_are_refused():
    with pytest.raises(ValueError, match="ParameterServerStrategy"):
        tf.distribute.coordinator.ClusterCoordinator(tf.distribute.MirroredStrategy(["/cpu:0"]))


def test_wrong_arguments(made):  # noqa: F811
    c = made(ps=1, worker=1)
    with pytest.raises(TypeError, match="tf.function"):
        c.coordinator.schedule(3)
    result = c.coordinator.schedule(tf.function(lambda: tf.constant(1)))
    with pytest.raises(ValueError, match="RemoteValue"):
        c.coordinator.schedule(tf.function(lambda x: x), args=(result,))
    with pytest.raises(TypeError, match="tf.data.Dataset"):
        c.coordinator.create_per_worker_dataset(lambda: 3)
    with pytest.raises(ValueError, match="Unexpected dataset type"):
        c.coordinator.create_per_worker_dataset(3)
    with pytest.raises(NotImplementedError, match="ClusterCoordinator.schedule"):
        next(iter(c.coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(2))))
    with pytest.raises(ValueError, match="iter"):
        c.coordinator.schedule(tf.function(lambda d: d), args=(c.coordinator.create_per_worker_dataset(
            lambda: tf.data.Dataset.range(2)),))
    with pytest.raises(RuntimeError, match="worker index"):
        tf.distribute.coordinator.experimental_get_current_worker_index()
    with pytest.raises(ZeroDivisionError):                              # while it is traced
        c.coordinator.schedule(tf.function(lambda: 1 / 0))


def test_an_error_is_raised_once_and_cancels_the_rest(made):  # noqa: F811
    c = made()
    step, counts = counting(c)

    @tf.function
    def check(x):
        tf.debugging.assert_less(x, 3)
        return x
    results = [c.coordinator.schedule(check, args=(tf.constant(i),)) for i in range(3)]
    c.coordinator.join()
    assert c.coordinator.fetch(results) == [0, 1, 2]
    bad = c.coordinator.schedule(check, args=(tf.constant(7),))
    with pytest.raises(E.InvalidArgumentError):
        bad.fetch()
    with pytest.raises(E.InvalidArgumentError):
        c.coordinator.schedule(check, args=(tf.constant(0),))
    c.coordinator.schedule(step)
    c.coordinator.join()
    assert c.coordinator.done() and counts.numpy().sum() == 1

    results = []
    with pytest.raises(E.InvalidArgumentError):
        for i in range(3, 8):
            results.append(c.coordinator.schedule(check, args=(tf.constant(i),)))
        c.coordinator.join()
    for result in results:
        with pytest.raises((E.InvalidArgumentError, E.CancelledError)):
            result.get(60)

    def wrong():
        raise KeyError("x")
    c.coordinator.schedule(wrong)
    with pytest.raises(KeyError):
        c.coordinator.join()


def test_a_function_that_blocks(made):  # noqa: F811
    """It is named when `join` has waited long enough, and ends when another one fails."""
    c = made()

    @tf.function
    def block():
        i = tf.constant(0)
        while tf.constant(True):
            i += 1
        return i

    @tf.function
    def fails(x):
        tf.debugging.assert_equal(x, 2)
    result = c.coordinator.schedule(block)

    def named():                                   # as soon as a worker has begun it
        with pytest.raises(E.DeadlineExceededError) as found:
            c.coordinator.join(timeout=0.5)
        return "block runs on /job:worker" in found.value.message
    assert eventually(named)
    with pytest.raises(E.DeadlineExceededError):
        result.fetch(timeout=0.1)
    c.coordinator.schedule(fails, args=(tf.constant(1),))
    with pytest.raises(E.InvalidArgumentError):
        c.coordinator.join(timeout=60)
    with pytest.raises(E.CancelledError):
        result.fetch(timeout=60)
    assert c.coordinator.done()


def test_functions_of_a_lost_worker_run_on_another_one_and_it_gets_work_when_it_is_back(made):  # noqa: F811
    c = made()
    step, counts = counting(c)
    seen = c.variable(0, dtype=tf.int64)
    iterator = iter(c.coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(5).repeat()))

    @tf.function
    def work(it):
        seen.assign_add(1)
        return next(it), step()
    results = [c.coordinator.schedule(work, args=(iterator,)) for _ in range(60)]
    assert eventually(lambda: seen.numpy() >= 5, 60)
    c.stop("worker", 0)
    c.coordinator.join(timeout=100)
    assert len(c.coordinator.fetch(results)) == 60 and 60 <= seen.numpy() <= 62       # what it had begun may count twice
    c.start("worker", 0)
    before = counts.numpy()[0]

    def again():
        c.coordinator.schedule(work, args=(iterator,))
        c.coordinator.join(timeout=60)
        return counts.numpy()[0] > before
    assert eventually(again, 60)


def test_a_lost_parameter_server_ends_the_coordinator(made):  # noqa: F811
    c = made()
    step, _ = counting(c)
    other = c.variable(1.0)
    c.coordinator.schedule(tf.function(lambda: other.assign_add(1.0)))
    c.coordinator.join(timeout=60)
    c.stop("ps", 1)
    c.coordinator.schedule(tf.function(lambda: other.assign_add(1.0)))
    for _ in range(2):                                                  # permanently
        with pytest.raises(E.UnavailableError, match="restore the variables from the last checkpoint"):
            c.coordinator.join(timeout=60)
    with pytest.raises(E.UnavailableError):
        c.coordinator.schedule(step)


def test_a_lost_parameter_server_that_has_not_been_forgotten(made, monkeypatch):  # noqa: F811
    """The error of its connection comes to functions before all have heard of the loss: they do not wait for it."""
    forget, joined = Peers._forget, threading.Event()

    def late(self, link):
        if threading.current_thread() is not threading.main_thread():       # which stops the server
            joined.wait(40)
        forget(self, link)
    monkeypatch.setattr(Peers, "_forget", late)
    c = made(ps=1, worker=2)
    v = c.variable(1.0)
    c.coordinator.schedule(tf.function(lambda: v.assign_add(1.0)))
    c.coordinator.join(timeout=60)
    c.stop("ps", 0)
    c.coordinator.schedule(tf.function(lambda: v.assign_add(1.0)))
    with pytest.raises(E.UnavailableError, match="restore the variables from the last checkpoint"):
        c.coordinator.join(timeout=60)
    joined.set()


def test_a_coordinator_that_ends_while_a_function_fails(made, monkeypatch):  # noqa: F811
    """Its channel may be closed by then: the function is cancelled, and the thread ends in order."""
    c = made(ps=1, worker=1)
    failed, closed, problems = threading.Event(), threading.Event(), []
    lost = workers.Worker._lost

    def late(self, seconds):
        failed.set()
        closed.wait(60)
        return lost(self, seconds)
    monkeypatch.setattr(workers.Worker, "_lost", late)
    monkeypatch.setattr(threading, "excepthook", problems.append)
    result = c.coordinator.schedule(tf.function(lambda x: tf.debugging.check_numerics(x, "no")), args=(np.nan,))
    assert failed.wait(60)
    threading.Timer(0.1, closed.set).start()
    for worker in c.coordinator._workers:
        worker._channel.close()
    c.coordinator._end()
    with pytest.raises(E.CancelledError):
        result.get(60)
    assert not problems


# -- the queue by itself ---------------------------------------------------------------------------------------------
def test_put_waits_while_the_queue_is_full():
    queue = ClosureQueue(most=1)
    queue.put(Closure(lambda: 1, (), {}))
    putting = threading.Thread(target=lambda: queue.put(Closure(lambda: 2, (), {})), daemon=True)
    putting.start()
    putting.join(0.2)
    assert putting.is_alive()
    taken = queue.take("w", lambda: True)
    putting.join(60)
    assert not putting.is_alive() and not queue.done()
    queue.give_back(taken)
    assert queue.take("w", lambda: True) is taken                       # it is the next one again
    queue.finish(taken, 1)
    last = queue.take("w", lambda: True)
    queue.finish(last, 2)
    queue.wait(1.0)
    queue.end()
    with pytest.raises(E.CancelledError):
        queue._wait(lambda: False, None)


def test_an_error_is_raised_when_the_others_were_told_to_end():
    """Else they could be told when they run something new already."""
    queue, told = ClosureQueue(), threading.Event()
    queue.on_error = lambda why: told.wait(60)
    queue.put(Closure(lambda: 1, (), {}))
    closure = queue.take("w", lambda: True)
    failing = threading.Thread(target=lambda: queue.fail(closure, KeyError("x")), daemon=True)
    failing.start()
    raised = []

    def join():
        try:
            queue.wait(60)
        except KeyError:
            raised.append(told.is_set())
    joining = threading.Thread(target=join, daemon=True)
    joining.start()
    joining.join(0.3)
    assert joining.is_alive()
    told.set()
    for thread in (failing, joining):
        thread.join(60)
    assert raised == [True]


def test_what_fails_late_is_not_raised():
    """A function that ends after another one's error was raised has no say any more."""
    queue = ClosureQueue()
    first, second = Closure(lambda: 1, (), {}), Closure(lambda: 2, (), {})
    queue.put(first)
    queue.put(second)
    assert queue.take("a", lambda: True) is first and queue.take("b", lambda: True) is second
    queue.fail(first, KeyError("first"))
    queue.give_back(second)
    with pytest.raises(KeyError):
        queue.wait(1.0)
    with pytest.raises(E.CancelledError):
        second.result.get(0)
    queue.fail(second, ValueError("late"))
    assert queue.done()


def test_the_status_of_tasks_counts_the_steps_of_coordinators(made):  # noqa: F811
    c = made(ps=1)
    step, counts = counting(c)
    for _ in range(6):
        c.coordinator.schedule(step)
    c.coordinator.join()
    assert counts.numpy().sum() == 6

    def steps(job):
        return sum(t["steps"] for t in status.ask(c.servers["ps", 0].target)["tasks"] if t["task"].startswith(f"/job:{job}/"))
    assert eventually(lambda: steps("worker") >= 6 and steps("ps") >= 6)
