"""Datasets that other servers compute: every element, once or once per worker, and consumers that share."""
import collections

import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.base import errors

service = tf.data.experimental.service


@pytest.fixture
def cluster():
    """A dispatcher, and a function that adds workers."""
    dispatcher, workers = service.DispatchServer(service.DispatcherConfig(port=0)), []

    def add(count=1):
        for _ in range(count):
            workers.append(service.WorkerServer(service.WorkerConfig(dispatcher_address=dispatcher.target.split("://")[1])))
        return dispatcher.target
    add.dispatcher, add.workers = dispatcher, workers
    yield add
    for worker in workers:
        worker.stop()
    dispatcher.stop()


def values(dataset):
    return [x.numpy().tolist() for x in dataset]


def test_one_worker_keeps_the_order_and_the_structure(cluster):
    dataset = tf.data.Dataset.from_tensor_slices({"a": [1, 2, 3, 4], "b": ["w", "x", "y", "z"]})
    dataset = dataset.map(lambda d: {"a": d["a"] * 10, "b": d["b"] + "!"}).batch(2)
    dataset = dataset.apply(service.distribute("parallel_epochs", cluster()))
    got = list(dataset)
    assert [e["a"].numpy().tolist() for e in got] == [[10, 20], [30, 40]] and got[1]["b"].numpy().tolist() == [b"y!", b"z!"]
    assert len(list(dataset)) == 2                                     # and again, as a new job


def test_every_worker_or_each_its_part(cluster):
    target = cluster(2)
    assert cluster.dispatcher._num_workers() == 2
    numbers = tf.data.Dataset.range(20).map(lambda x: x * x)
    whole = values(numbers.apply(service.distribute("parallel_epochs", target)))
    assert collections.Counter(whole) == {i * i: 2 for i in range(20)}
    for mode in ("distributed_epoch", service.ShardingPolicy.DATA):
        assert sorted(values(numbers.apply(service.distribute(mode, target)))) == [i * i for i in range(20)]


def test_consumers_of_one_job_share_its_elements(cluster):
    target = cluster()
    shared = [tf.data.Dataset.range(30).apply(service.distribute("parallel_epochs", target, job_name="shared"))
              for _ in range(2)]
    first, second = iter(shared[0]), iter(shared[1])
    seen = [next(first).numpy(), next(second).numpy()]
    seen += [x.numpy() for x in first] + [x.numpy() for x in second]
    assert sorted(seen) == list(range(30))


def test_an_iteration_may_be_left_early(cluster):
    dataset = tf.data.Dataset.range(10**9).apply(service.distribute("parallel_epochs", cluster()))
    assert values(dataset.take(3)) == [0, 1, 2]


def test_errors_of_a_worker_reach_the_consumer(cluster):
    dataset = tf.data.Dataset.from_tensor_slices([1, 0]).map(lambda x: 6 // x)
    dataset = dataset.apply(service.distribute("parallel_epochs", cluster()))
    with pytest.raises(errors.OpError):
        list(dataset)


def test_registered_datasets(cluster):
    target = cluster()
    made = tf.data.Dataset.range(4).map(lambda x: x + 1)
    name = service.register_dataset(target, made)
    assert values(service.from_dataset_id("parallel_epochs", target, name, made.element_spec)) == [1, 2, 3, 4]
    with pytest.raises(errors.NotFoundError, match="nobody"):
        service.from_dataset_id("parallel_epochs", target, "nobody", made.element_spec)


def test_graphs(cluster):
    target = cluster()
    with tf1.Graph().as_default():
        dataset = tf1.data.Dataset.range(3).apply(service.distribute("parallel_epochs", target))
        following = dataset.make_one_shot_iterator().get_next()
        with tf1.Session() as session:
            assert [session.run(following) for _ in range(3)] == [0, 1, 2]
            with pytest.raises(errors.OutOfRangeError):
                session.run(following)


def test_a_worker_that_stops_is_forgotten_and_mistakes_are_named(cluster):
    cluster(2)
    cluster.workers[0].stop()
    assert cluster.dispatcher._num_workers() == 1
    with pytest.raises(ValueError, match="processing mode"):
        service.distribute("sometimes", "grpc://localhost:1")
    with pytest.raises(ValueError, match="<protocol>://<address>"):
        tf.data.Dataset.range(2).apply(service.distribute("parallel_epochs", "localhost"))
    with pytest.raises(ValueError, match="dispatcher_address"):
        service.WorkerServer(service.WorkerConfig(""))


def test_a_server_is_not_started_again():
    dispatcher = tf.data.experimental.service.DispatchServer()
    dispatcher.stop()
    dispatcher.stop()
    with pytest.raises(RuntimeError, match="cannot be started after it has been stopped"):
        dispatcher.start()


def test_a_restarted_dispatcher_knows_workers_and_datasets(tmp_path):
    def dispatch(port=0):
        return service.DispatchServer(service.DispatcherConfig(port=port, work_dir=str(tmp_path / "work"),
                                                               fault_tolerant_mode=True))
    dispatcher = dispatch()
    address = dispatcher.target.split("://")[1]
    workers = [service.WorkerServer(service.WorkerConfig(dispatcher_address=address)) for _ in range(2)]
    squares = tf.data.Dataset.range(6).map(lambda x: x * x)
    number = service.register_dataset(dispatcher.target, squares)
    shared = squares.apply(service.distribute("parallel_epochs", dispatcher.target, job_name="job"))
    reading = iter(shared)
    seen = [next(reading).numpy()]
    workers.pop(0).stop()                                               # it unregisters
    dispatcher.stop()
    dispatcher = dispatch(int(address.rpartition(":")[2]))
    assert dispatcher._num_workers() == 1
    again = service.from_dataset_id("parallel_epochs", dispatcher.target, number, squares.element_spec)
    assert values(again) == [i * i for i in range(6)]
    seen.append(next(reading).numpy())                                  # a job goes on
    assert set(seen) <= {i * i for i in range(6)}
    for worker in workers:
        worker.stop()
    dispatcher.stop()


def test_a_dispatcher_without_a_folder_cannot_be_fault_tolerant():
    with pytest.raises(ValueError, match="without configuring a work dir"):
        service.DispatchServer(service.DispatcherConfig(fault_tolerant_mode=True))


def test_a_function_that_exits_ends_the_iteration(cluster):
    def exits(x):
        raise SystemExit(3)
    dataset = tf.data.Dataset.range(3).map(lambda x: tf.numpy_function(exits, [x], tf.int64))
    with pytest.raises(SystemExit):
        values(dataset.apply(service.distribute("parallel_epochs", cluster())))
