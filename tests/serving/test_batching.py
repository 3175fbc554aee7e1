"""Batching: which requests make a batch, and what happens when one of them is bad."""
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

from penstock._src.base import errors
from penstock._src.graph.tensor_proto import make_tensor_proto
from penstock._src.serving.batching import Batcher, BatchQueue, Task, divided, merged
from penstock._src.serving.config import Batching, batching_of, parsed
from penstock._src.serving.messages import pb
from tests.checks import eventually
from tests.serving.models import Client, config_of, floats, half_plus, serving


def task(rows, width=1, at=0.0, dtype=np.float32):
    return Task({"x": np.arange(rows * width, dtype=dtype).reshape(rows, width)}, ("y",), rows, at)


def options(**given):
    return Batching(**{"max_batch_size": 4, "batch_timeout_micros": 1_000_000, "num_batch_threads": 1, **given})


def test_full_batches_are_taken_at_once_and_others_after_the_delay():
    queue = BatchQueue(options())
    a, b, c = task(2), task(2), task(1, at=0.25)
    for each in (a, b, c):
        queue.add(each)
    batch, _ = queue.take(0.5)
    assert batch.tasks == [a, b]
    assert queue.take(0.5) == (None, 0.75)
    assert queue.take(1.25)[0].tasks == [c] and queue.take(9.0) == (None, None)


def test_a_task_that_does_not_fit_opens_a_batch_and_the_first_one_still_leaves_in_time():
    queue = BatchQueue(options())
    first, second = task(3), task(2, at=0.5)
    queue.add(first)
    queue.add(second)
    assert queue.take(1.0)[0].tasks == [first] and queue.take(1.5)[0].tasks == [second]


def test_only_tasks_of_one_kind_are_combined():
    queue = BatchQueue(options())
    kinds = [task(1), task(1, width=2), task(1, dtype=np.float64)]
    for each in kinds * 2:
        queue.add(Task(each.feeds, each.fetches, 1, 0.0))
    assert [len(queue.take(9.0)[0].tasks) for _ in kinds] == [2, 2, 2]


def test_limits():
    queue = BatchQueue(options(max_enqueued_batches=2))
    with pytest.raises(errors.InvalidArgumentError, match="Task size 5 is larger than maximum input batch size 4"):
        queue.add(task(5))
    queue.add(task(4))
    queue.add(task(4))
    with pytest.raises(errors.ResourceExhaustedError, match="queue to which this task was submitted is full"):
        queue.add(task(1))


def test_padding_to_allowed_sizes():
    feeds, padding = merged([task(2), task(1)], options(allowed_batch_sizes=(1, 2, 4)))
    assert feeds["x"].ravel().tolist() == [0, 1, 0, 0] and padding == 1
    a, b = divided([feeds["x"]], [task(2), task(1)], padding)
    assert a[0].tolist() == [[0], [1]] and b[0].tolist() == [[0]]


def test_padding_of_variable_lengths():
    long, short = task(1, width=3), Task({"x": floats([7])}, ("y",), 1, 0.0)
    feeds, _ = merged([long, short], options(pad_variable_length_inputs=True))
    assert feeds["x"].tolist() == [[0, 1, 2], [7, 7, 7]]


@pytest.mark.parametrize("outputs", [np.float32(1), np.zeros(2)])
def test_outputs_must_have_a_row_per_row(outputs):
    with pytest.raises(errors.FailedPreconditionError):
        divided([outputs], [task(2), task(1)], 0)


def test_parameters_of_a_file():
    text = """max_batch_size { value: 8 } batch_timeout_micros { value: 500 } num_batch_threads { value: 3 }
              max_enqueued_batches { value: 7 } allowed_batch_sizes: 2 allowed_batch_sizes: 8"""
    found = batching_of(parsed(text, pb.BatchingParameters(), "test"))
    assert found == Batching(8, 500, 7, 3, (2, 8))
    with pytest.raises(errors.InvalidArgumentError, match="must match max_batch_size"):
        Batching(max_batch_size=8, allowed_batch_sizes=(2, 4))
    with pytest.raises(errors.InvalidArgumentError, match="monotonically increasing"):
        Batching(max_batch_size=8, allowed_batch_sizes=(8, 8))
    with pytest.raises(errors.InvalidArgumentError, match="Invalid test"):
        parsed("max_batch_size: 8", pb.BatchingParameters(), "test")


def test_a_bad_request_does_not_fail_its_batch():
    """Values decide here: the step fails when a negative number is among its rows."""
    sizes = []

    def run(feeds, fetches):
        sizes.append(len(feeds["x"]))
        if (feeds["x"] < 0).any():
            raise errors.invalid("negative")
        return [feeds["x"] * 2]
    batcher = Batcher(run, options())
    try:
        futures = [batcher.submit({"x": floats(v)}, ("y",)) for v in (1, -1, 2, 3)]
        assert [f.result()[0].tolist() for f in futures[:1] + futures[2:]] == [[2], [4], [6]]
        with pytest.raises(errors.InvalidArgumentError, match="negative"):
            futures[1].result()
        assert sizes == [4, 1, 1, 1, 1]
    finally:
        batcher.close()


def test_large_requests_are_split():
    how = options(enable_large_batch_splitting=True, batch_timeout_micros=0)
    batcher = Batcher(lambda feeds, fetches: [feeds["x"] + 1], how)
    try:
        assert batcher.submit({"x": np.arange(11.0)}, ("y",)).result()[0].tolist() == (np.arange(11.0) + 1).tolist()
    finally:
        batcher.close()


def test_requests_whose_clients_gave_up_are_not_run():
    ran, go = [], threading.Event()

    def run(feeds, fetches):
        go.wait(60)
        ran.append(feeds["x"].tolist())
        return [feeds["x"]]
    batcher = Batcher(run, options(max_batch_size=1, batch_timeout_micros=0))
    try:
        futures = [batcher.submit({"x": floats(v)}, ("y",)) for v in (1, 2, 3)]
        assert futures[1].cancel()
        go.set()
        assert futures[2].result()[0].tolist() == [3] and ran == [[1], [3]]
    finally:
        batcher.close()


def test_batched_answers_and_back_pressure(tmp_path):
    half_plus(tmp_path, 1)
    batching = Batching(max_batch_size=8, batch_timeout_micros=2000, num_batch_threads=2, max_enqueued_batches=64,
                        allowed_batch_sizes=(4, 8))
    model = config_of("m", tmp_path)
    with serving(model, batching=batching) as server, Client(server) as client, ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda i: client.predict("m", x=floats(i, i + 1))["y"].tolist(), range(100)))
        assert answers == [[i / 2 + 2, (i + 1) / 2 + 2] for i in range(100)]
        assert server.core.metrics.batch_sizes.value("m") < 100          # some were combined
        with pytest.raises(grpc.RpcError, match="equal 0th-dimension|at least one dimension|larger than maximum"):
            client.predict("m", x=np.zeros(9, np.float32))


def test_a_request_that_is_cancelled_in_a_batch_leaves_the_others(tmp_path):
    """Its row is not run, and nothing of it stays: neither a pending request nor a hold on the version."""
    half_plus(tmp_path, 1)
    with serving(config_of("m", tmp_path), batching=options(max_batch_size=3, batch_timeout_micros=600_000_000)) as server, \
            Client(server) as client, grpc.insecure_channel(f"localhost:{server.port}") as channel, \
            ThreadPoolExecutor(2) as pool:
        version, = server.core.repository.status(pb.ModelSpec(name="m"))
        ran, run = [], version.servable.run
        version.batcher._run = lambda feeds, fetches: (ran.extend(feeds.values()), run(feeds, fetches))[1]
        request = pb.PredictRequest(model_spec=pb.ModelSpec(name="m"))
        request.inputs["x"].CopyFrom(make_tensor_proto(floats(1)))
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict", lambda m: m.SerializeToString())
        first = call.future(request, timeout=20)
        assert eventually(lambda: len(version.batcher._queue) == 1)
        first.cancel()
        assert eventually(lambda: server.core._pending == 0)
        others = [pool.submit(client.predict, "m", x=floats(x)) for x in (4, 6)]
        assert [other.result()["y"].tolist() for other in others] == [[4.0], [5.0]]
        assert sorted(np.concatenate(ran).tolist()) == [4.0, 6.0]
        assert eventually(lambda: version.requests == 0)


def test_too_many_requests_are_refused(served):
    from penstock._src.serving.config import Options
    from penstock._src.serving.core import Core
    core = Core(Options(max_pending_requests=1))
    with core.admitted():
        with pytest.raises(errors.ResourceExhaustedError):
            with core.admitted():
                pass
    with core.admitted():
        pass
    core.close()
