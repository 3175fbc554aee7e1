"""Mistakes of programs under MultiWorkerMirroredStrategy, in real processes: errors name op, workers and shapes, in time."""
import pytest

from tests.models.distribute.workers import Workers

pytestmark = pytest.mark.distributed
ZERO, ONE = (f"/job:worker/replica:0/task:{i}" for i in (0, 1))
MISTAKES = """
import json, os, pathlib, time
import numpy as np
import penstock as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy(
    communication_options=tf.distribute.experimental.CommunicationOptions(timeout_seconds=8.0))
rank, here, out = strategy.extended._place.rank, pathlib.Path(os.environ["HERE"]), {}
context = tf.distribute.get_replica_context

def meet(name):
    (here / f"{name} {rank}").touch()
    while not (here / f"{name} {1 - rank}").exists():
        time.sleep(0.02)

def mistake(name, fn):
    try:
        out[name] = ["fine", str(fn())]
    except Exception as e:
        out[name] = [type(e).__name__, str(e)]
    meet(name)

reduced = lambda x: strategy.run(lambda: context().all_reduce("SUM", x))
mistake("never enters", lambda: reduced(tf.ones([3, 5])) if rank == 0 else None)
mistake("sum", lambda: reduced(tf.ones([1])).numpy().tolist())
mistake("types", lambda: reduced(tf.ones([3], tf.float32 if rank else tf.float64)))
mistake("ops", lambda: reduced(tf.ones([3])) if rank else strategy.run(lambda: context().all_gather(tf.ones([3]), 0)))
mistake("rows", lambda: strategy.gather(strategy.run(lambda: tf.ones([2 + rank, 3 + rank])), axis=0))
mistake("traced", lambda: tf.function(lambda: reduced(tf.ones([3 + rank])))())
with strategy.scope():
    v, optimizer = tf.Variable(tf.ones([4])), tf.keras.optimizers.SGD(0.1)
outside = tf.Variable(tf.ones([2, 4]), name="outside")
mistake("gradients", lambda: strategy.run(lambda: optimizer.apply_gradients([(tf.ones([4 + rank]), v)])))
mistake("outside", lambda: strategy.run(lambda: optimizer.apply_gradients([(tf.ones([2, 4]), outside)])))
x = np.ones((11, 4), np.float32)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,), kernel_initializer="zeros")])
    model.compile(tf.keras.optimizers.SGD(0.1), "mse")
mistake("batch", lambda: model.fit(x, x[:, :1], batch_size=3, verbose=0, shuffle=False).history["loss"])
print(json.dumps(out))
"""


def test_errors_name_op_workers_and_shapes_in_time(tmp_path):
    with Workers(2, MISTAKES, {"HERE": str(tmp_path)}) as running:
        first, second = running.results()
    words = {"types": ("_WorkersReduce", "float32 [3]", "float64 [3]"), "ops": ("_Workers", "reduce Add", "gather_any"),
             "rows": ("_WorkersGather", "float32 [2, 3]", "float32 [3, 4]"), "traced": ("_WorkersReduce", "[3]", "[4]"),
             "gradients": ("_WorkersReduce", "[4]", "[5]")}
    for found in (first, second):
        for name, wanted in words.items():
            kind, message = found[name]
            assert kind == "InvalidArgumentError", (name, kind, message)
            for word in (ZERO, ONE, *wanted):
                assert word in message, (name, word, message)
        kind, message = found["outside"]
        assert kind == "ValueError" and "outside:0" in message and "(2, 4)" in message and "scope" in message
        assert found["sum"] == ["fine", "[2.0]"]                        # the group is formed when all are there
        assert found["batch"] == first["batch"] and found["batch"][0] == "fine"        # the last batch has two rows
    kind, message = first["never enters"]
    assert kind == "DeadlineExceededError"
    for word in ("_WorkersReduce", "float32 [3, 5]", f"{ONE} did not"):
        assert word in message
