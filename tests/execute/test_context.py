"""Waits of kernels: they end when their step is cancelled, whenever that was."""
import threading

import pytest

import penstock as tf
from penstock._src.base import errors
from penstock._src.execute.context import ResourceManager, StepContext


def in_thread(work):
    """What `work` returns or raises; it must end."""
    out = []

    def run():
        try:
            out.append(work())
        except BaseException as e:
            out.append(e)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert out, "it waits for ever"
    return out[0]


@pytest.mark.parametrize("lock", [threading.Lock, threading.RLock])
def test_a_wait_that_begins_after_the_cancellation_ends(lock):
    ctx, condition = StepContext(ResourceManager()), threading.Condition(lock())
    ctx.cancellation.cancel()

    def wait():
        with condition:
            ctx.wait(condition, lambda: False, lambda: "nothing")
    assert isinstance(in_thread(wait), errors.CancelledError)
    assert condition.acquire(timeout=60)                  # the lock is free again
    condition.release()


@pytest.mark.parametrize("lock", [threading.Lock, threading.RLock])
def test_a_wait_ends_with_a_later_cancellation(lock):
    ctx, condition, began = StepContext(ResourceManager()), threading.Condition(lock()), threading.Event()

    def ready():
        began.set()
        return False

    def wait():
        with condition:
            ctx.wait(condition, ready, lambda: "nothing")

    def cancel():
        began.wait(60)
        ctx.cancellation.cancel()
    canceller = threading.Thread(target=cancel)
    canceller.start()
    assert isinstance(in_thread(wait), errors.CancelledError)
    canceller.join(60)


def test_a_dataset_that_is_dropped_while_its_threads_wait_for_each_other():
    """A prefetching thread that waits for parallel calls, in a transformation that asks for several elements in one step."""
    gate = threading.Event()

    def slow(x):
        gate.wait(0.001)
        return x
    elements = tf.data.Dataset.range(10 ** 9).map(lambda x: tf.py_function(slow, [x], tf.int64), num_parallel_calls=2)

    def some():
        for n in elements.shuffle(10).batch(4).prefetch(2).take(3):
            assert len(n) == 4
    for _ in range(5):
        some()
