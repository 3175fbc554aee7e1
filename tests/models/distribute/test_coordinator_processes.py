"""A coordinated cluster of real processes, from TF_CONFIG: a worker is killed on the way, and started again."""
import contextlib
import json
import os
import subprocess
import sys

import pytest

from tests.cluster.conftest import SOURCE, addresses

PROGRAM = """
import json, sys, time
import numpy as np
import penstock as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("ps", "worker"):
    server = tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id)
    print("up", flush=True)
    server.join()
sys.stdin.readline()                           # the others are up
partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    w = tf.Variable(np.zeros((4, 1), np.float32))
    counts = [tf.Variable(0, dtype=tf.int64) for _ in range(2)]

def dataset_fn():
    x = np.random.RandomState(0).randn(64, 4).astype("float32")
    y = x @ np.array([[1.0], [2.0], [3.0], [4.0]], "float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64).repeat().batch(16)

@tf.function
def step(iterator):
    x, y = next(iterator)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w - y) ** 2)
    for shard, gradient in zip(w.variables, tape.gradient(loss, w.variables)):
        shard.assign_sub(0.05 * gradient)
    index = tf.distribute.coordinator.experimental_get_current_worker_index()
    for i, count in enumerate(counts):
        count.assign_add(tf.cast(tf.equal(index, i), tf.int64))
    return loss

iterator = iter(coordinator.create_per_worker_dataset(dataset_fn))
def run(true):
    deadline = time.monotonic() + 100
    while not true() and time.monotonic() < deadline:
        for _ in range(10):
            coordinator.schedule(step, args=(iterator,))
        coordinator.join(timeout=100)
    return [int(c.numpy()) for c in counts]

def say(what):
    print(what, flush=True)
    sys.stdin.readline()

first = run(lambda: all(c.numpy() > 0 for c in counts))
results = [coordinator.schedule(step, args=(iterator,)) for _ in range(40)]
say("busy")                                    # one is killed now
coordinator.join(timeout=100)
ended = len(coordinator.fetch(results))
alone = run(lambda: True)
say("alone")                                   # and started again
again = run(lambda: counts[0].numpy() > alone[0])
last = run(lambda: np.abs(w.numpy()[:, 0] - [1, 2, 3, 4]).max() < 0.05)
print(json.dumps({"first": first, "ended": ended, "alone": alone, "again": again, "w": w.numpy()[:, 0].tolist(),
                  "places": [v.device for v in w.variables]}), flush=True)
"""


@pytest.mark.distributed
@pytest.mark.timeout(400)
def test_a_worker_is_killed_and_comes_back():
    spec = addresses(chief=1, ps=2, worker=2)
    tasks = {}

    def start(job, i):
        config = json.dumps({"cluster": spec, "task": {"type": job, "index": i}})
        env = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "TF_CONFIG": config}
        tasks[job, i] = subprocess.Popen([sys.executable, "-c", PROGRAM], text=True, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, env=env)

    def end(task):
        process = tasks.pop(task)
        process.kill()
        process.wait(60)
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        for task in (("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("chief", 0)):
            start(*task)
        chief = tasks["chief", 0]
        for task, process in tasks.items():
            assert task == ("chief", 0) or process.stdout.readline() == "up\n"

        def after(what):
            assert chief.stdout.readline() == what + "\n"

        def go_on():
            chief.stdin.write("\n")
            chief.stdin.flush()
        go_on()
        after("busy")
        end(("worker", 0))
        go_on()
        after("alone")
        start("worker", 0)
        go_on()
        found = json.loads(chief.stdout.readline())
        assert chief.wait(60) == 0
        assert min(found["first"]) > 0 and found["ended"] == 40
        assert found["again"][0] > found["alone"][0]
        assert found["w"] == pytest.approx([1, 2, 3, 4], abs=0.1)
        assert [p[:24] for p in found["places"]] == ["/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"]
    finally:
        for task in list(tasks):
            end(task)


LECTURE = """
import json
import numpy as np
import penstock as tf
from penstock import digits

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("ps", "worker"):
    tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
(x, y), (x_test, y_test) = digits.load()
distribution = tf.distribute.experimental.ParameterServerStrategy(resolver)
with distribution.scope():
    model = tf.keras.Sequential([tf.keras.layers.Flatten(input_shape=(8, 8, 1)), tf.keras.layers.Dense(64, activation="relu"),
                                 tf.keras.layers.Dense(10, activation="softmax")])
    model.compile(loss="sparse_categorical_crossentropy", optimizer=tf.keras.optimizers.SGD(0.2), metrics=["accuracy"])
model.fit(x, y, batch_size=32, epochs=4, verbose=0)
places = sorted({v.device for v in model.weights})
print(json.dumps({"accuracy": float(np.mean(model.predict(x_test).argmax(1) == y_test)), "places": places}), flush=True)
"""


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.timeout(400)
def test_the_lecture_program(tmp_path):
    """`penstock launch --coordinated` ends when the chief has."""
    program = tmp_path / "program.py"
    program.write_text(LECTURE)
    command = [sys.executable, "-m", "penstock", "launch", "--coordinated", "--ps", "2", "--workers", "2", str(program)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}, capture_output=True,
                          text=True, timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(next(line for line in done.stdout.splitlines() if '"accuracy"' in line).partition("] ")[2])
    assert found["accuracy"] > 0.85 and [p[:24] for p in found["places"]] == [f"/job:ps/replica:0/task:{i}" for i in (0, 1)]
