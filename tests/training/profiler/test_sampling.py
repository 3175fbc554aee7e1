"""tf.profiler.experimental: traces name the waits for input, advice follows from them, other processes may ask for both."""
import gzip
import json
import subprocess
import sys
import threading

import numpy as np
import pytest

import penstock as tf
from penstock._src.training.profiler import service
from penstock._src.training.profiler.advice import advise

profiler = tf.profiler.experimental


def test_a_trace_names_the_waits_for_input(tmp_path):
    dataset = tf.data.Dataset.from_tensor_slices(np.arange(6.0)).map(lambda x: x + 1.0)
    with profiler.Profile(str(tmp_path)):
        total = sum(float(x) for x in dataset)
    assert total == 21.0
    trace, = tmp_path.glob("plugins/profile/*/*.trace.json.gz")
    names = [e.get("name") for e in json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]]
    assert names.count("Iterator::GetNext") >= 6
    text, = tmp_path.glob("plugins/profile/*/*.advice.txt")
    assert "waiting for input" in text.read_text()


def test_nothing_is_named_without_a_recording():
    assert list(tf.data.Dataset.range(3).as_numpy_iterator()) == [0, 1, 2]


@pytest.mark.parametrize("waits, kernels, words, share", [
    ([(0, 1), (0.5, 2)], None, "moderately input-bound", 0.1), ([(0, 0.1)], None, "not input-bound", 0.005),
    ([(0, 4), (1, 2), (10, 14)], None, "highly input-bound", 0.4), ([], [(0, 1)], "host-bound", 0.0)])
def test_advice_follows_from_the_shares(waits, kernels, words, share):
    found = advise(0.0, 20.0, waits, kernels)
    assert words in found.text() and found.input_share == pytest.approx(share)


def test_a_busy_accelerator_is_not_host_bound():
    assert "host-bound" not in advise(0.0, 10.0, [], [(0, 6), (5, 9)]).text()


@pytest.fixture
def server():
    made, port = service.serve(0)
    yield f"grpc://127.0.0.1:{port}"
    service._servers.remove(made)
    made.stop(None).wait(60)


@pytest.mark.timeout(120)
def test_another_process_records_and_watches(server, tmp_path):
    ended = threading.Event()

    def work():
        while not ended.is_set():
            list(tf.data.Dataset.range(10))
    thread = threading.Thread(target=work)
    thread.start()
    try:
        profiler.client.trace(server, str(tmp_path), 100)
        assert "waiting for input" in profiler.client.monitor(server, 50)
    finally:
        ended.set()
        thread.join()
    assert [p.name.partition(".trace")[1] for p in tmp_path.rglob("*.trace.json.gz")] == [".trace"]
    assert len(list(tmp_path.rglob("*.advice.txt"))) == 1


@pytest.mark.timeout(120)
def test_what_a_server_refuses(server, tmp_path):
    with pytest.raises(tf.errors.InvalidArgumentError, match="duration_ms"):
        profiler.client.monitor(server, 0)
    with profiler.Profile(str(tmp_path)), pytest.raises(tf.errors.AlreadyExistsError):
        profiler.client.monitor(server, 10)
    with pytest.raises(tf.errors.UnavailableError):
        service.serve(int(server.rpartition(":")[2]))


def test_a_process_may_end_while_it_records(tmp_path):
    program = f"import penstock as tf; tf.profiler.experimental.start({str(tmp_path)!r}); print(tf.ones([2]) + 1)"
    assert subprocess.run([sys.executable, "-c", program], timeout=100, capture_output=True).returncode == 0
