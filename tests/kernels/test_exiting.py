"""Programs that end while other threads compute end with their own status."""
import subprocess
import sys
import threading

import pytest

from penstock._src.kernels import exiting

compiled = pytest.mark.skipif(not exiting.AVAILABLE, reason="penstock was installed without a compiler")

PIPELINE = """
import penstock as tf

def work(x):
    return tf.reduce_sum(tf.matmul(tf.random.normal([300, 300]), tf.random.normal([300, 300])))

left_open = [iter(tf.data.Dataset.range(10**6).map(work, num_parallel_calls=n).prefetch(4)) for n in (None, 2)]
for iterator in left_open:
    for _ in range(12):
        next(iterator)
"""

QUEUE_RUNNERS = """
import penstock.compat.v1 as tf

tf.disable_v2_behavior()
x = tf.matmul(tf.random_normal([300, 300]), tf.random_normal([300, 300]))
batch = tf.train.batch([x], 4, capacity=50, num_threads=2)
session = tf.Session()
tf.train.start_queue_runners(sess=session)
for _ in range(3):
    session.run(batch)
"""

THREAD = """
import threading
import penstock as tf

@tf.function
def f():
    return tf.reduce_sum(tf.matmul(tf.random.normal([300, 300]), tf.random.normal([300, 300])))

def forever():
    while True:
        f()
        started.set()

started = threading.Event()
threading.Thread(target=forever, daemon=True).start()
started.wait()
"""


@pytest.mark.parametrize("status", [0, 7])
@compiled
@pytest.mark.parametrize("program", [PIPELINE, QUEUE_RUNNERS, THREAD], ids=["pipeline", "queue_runners", "thread"])
def test_the_status_is_that_of_the_program(program, status):
    ended = subprocess.run([sys.executable, "-c", f"{program}\nraise SystemExit({status})"], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.count("terminate called")) == (status, 0), ended.stderr


def test_threads_that_compile_are_told_to_end(monkeypatch):
    monkeypatch.setattr(exiting, "AVAILABLE", False)
    registered = []
    monkeypatch.setattr(exiting.atexit, "register", registered.append)
    began, stopped = threading.Event(), []

    def work():
        try:
            while True:
                began.set()
        except SystemExit:
            stopped.append(True)
    thread = threading.Thread(target=work, daemon=True)
    exiting.start(thread)
    assert began.wait(60)
    assert registered == [exiting.end]
    exiting.end()
    assert stopped == [True] and not thread.is_alive() and not list(exiting._working)
