"""Workers that are killed in the middle of training, and started again: training continues from the last step of all."""
import contextlib
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.cluster.conftest import SOURCE, addresses
from tests.models.distribute.workers import Workers

pytestmark = pytest.mark.distributed

PROGRAM = """
import json, os, sys
import numpy as np
import penstock as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
job = tf.distribute.experimental.ElasticJob(strategy, wait_seconds=90)
with job.scope():
    w = tf.Variable(tf.random.normal([4, 1]), name="w")
    optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.5)
    optimizer.build([w])
rank, count = strategy.extended._place.rank, strategy.extended._place.count

def rows(step):
    rng = np.random.default_rng(step)
    x = rng.standard_normal((8, 4)).astype("float32")
    return x[rank::count], x.sum(1, keepdims=True)[rank::count]

@tf.function
def update(x, y):
    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ w - y) ** 2) / 8
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    strategy.run(replica, args=(x, y))

seen = []
def step(number):
    if number == 20 and sys.argv[1:] == ["dies"]:
        os.kill(os.getpid(), 9)
    update(*map(tf.constant, rows(number)))
    seen.append(number)

done = job.run(step, 40, lambda: [w, *optimizer.variables()])
print(json.dumps({"done": done, "w": w.numpy().tolist(), "first": seen[0], "steps": len(seen), "reformed": job.reformed}))
os._exit(0)
"""


@pytest.mark.parametrize("killed", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_a_worker_that_is_killed_and_comes_back(killed):
    with Workers(0, PROGRAM, count=2) as workers:
        workers.start(1 - killed)
        workers.start(killed, "dies")
        victim = workers.running[killed]
        assert victim.wait(200) == -signal.SIGKILL, victim.stderr.read()[-3000:]
        victim.stdout.close()
        victim.stderr.close()
        workers.start(killed)
        results = workers.results()
    other = results[1 - killed]
    assert [r["done"] for r in results] == [40, 40]
    assert results[0]["w"] == results[1]["w"]                    # to the bit
    assert other["reformed"] >= 1 and other["first"] == 0 and other["steps"] == 40
    assert results[killed]["first"] == 20 and results[killed]["steps"] == 20         # from the last step of all
    np.testing.assert_allclose(results[0]["w"], np.ones((4, 1)), atol=0.5)


STORM = """
import json, mmap, os, random, signal, struct, sys, time, traceback
import numpy as np
import penstock as tf
import penstock._src.cluster.server
spec, kills, folder = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
STEPS = 10 * (kills + 1)
shared = mmap.mmap(-1, 16)                                   # the steps that each worker has done
progress = lambda: struct.unpack("qq", shared[:16])

def worker(rank):
    os.environ["TF_CONFIG"] = json.dumps({"cluster": spec, "task": {"type": "worker", "index": rank}})
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    job = tf.distribute.experimental.ElasticJob(strategy, wait_seconds=200)
    with job.scope():
        w = tf.Variable(tf.random.normal([4, 1]) * 0.0, name="w")
        optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.5)
        optimizer.build([w])

    @tf.function
    def update(x, y):
        def replica(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((x @ w - y) ** 2) / 8
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        strategy.run(replica, args=(x, y))

    def step(number):
        x = np.random.default_rng(number).standard_normal((8, 4)).astype("float32")[rank::2]
        update(tf.constant(x), tf.constant(x.sum(1, keepdims=True)))
        shared[8 * rank:8 * rank + 8] = struct.pack("q", number + 1)
    done = job.run(step, STEPS, lambda: [w, *optimizer.variables()])
    with open(f"{folder}/{rank}.json", "w") as f:
        json.dump({"done": done, "w": w.numpy().tolist(), "reformed": job.reformed}, f)

def start(rank):
    made = os.fork()                                         # of a process that has imported everything: back at once
    if made:
        return made
    try:
        worker(rank)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

running, draw = {rank: start(rank) for rank in range(2)}, random.Random(0)
for k in range(1, kills + 1):
    while max(progress()) < 10 * k:
        for rank, pid in running.items():
            assert os.waitpid(pid, os.WNOHANG) == (0, 0), f"worker {rank} has ended"
        time.sleep(0.005)
    time.sleep(draw.random() * 0.02)                         # somewhere in a step
    victim = draw.randrange(2)
    os.kill(running[victim], signal.SIGKILL)
    os.waitpid(running[victim], 0)
    if draw.random() < 0.3:                                  # and soon again, while it comes back
        running[victim] = start(victim)
        time.sleep(draw.random() * 0.5)
        os.kill(running[victim], signal.SIGKILL)
        os.waitpid(running[victim], 0)
    running[victim] = start(victim)
for pid in running.values():
    assert os.waitpid(pid, 0)[1] == 0
"""


def alone(steps):
    """The same training in one process."""
    w, momentum = np.zeros((4, 1)), np.zeros((4, 1))
    for number in range(steps):
        x = np.random.default_rng(number).standard_normal((8, 4)).astype("float32").astype(float)
        momentum = 0.5 * momentum - 0.05 * 2 * x.T @ (x @ w - x.sum(1, keepdims=True)) / 8
        w += momentum
    return w


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_workers_that_are_killed_again_and_again(tmp_path, kills=20):
    env = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "PENSTOCK_COLLECTIVE_TUNE_SECONDS": "0.01"}
    job = subprocess.Popen([sys.executable, "-c", STORM, json.dumps(addresses(worker=2)), str(kills), str(tmp_path)], env=env,
                           start_new_session=True)
    try:
        assert job.wait(820) == 0, "a worker has failed; what it says is above"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait(60)
    results = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    steps = 10 * (kills + 1)
    assert [r["done"] for r in results] == [steps, steps]
    assert results[0]["w"] == results[1]["w"]                    # to the bit
    np.testing.assert_allclose(results[0]["w"], alone(steps), atol=1e-4)           # as without failures
