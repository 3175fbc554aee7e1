"""Workers that are killed in the middle of training, and started again: training goes on from the last step of all."""
import signal

import numpy as np
import pytest

from tests.distribute.workers import Workers

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(300)]

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
