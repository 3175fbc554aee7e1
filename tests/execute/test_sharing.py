"""Steps that run at once share the cores."""
import threading

import pytest
import torch

import penstock.compat.v1 as tf
from penstock.execute import sharing


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    sharing.use_threads(4)
    yield
    sharing.use_threads(before)


def on_a_thread(call):
    out = []
    thread = threading.Thread(target=lambda: out.append(call()))
    thread.start()
    thread.join(20)
    assert out, "the thread has failed"
    return out[0]


def used(token, others=0):
    """The number of threads for kernels in a step beside some others."""
    for other in range(others):
        sharing._computing[-1 - other] = None
    sharing.begin(token)
    try:
        return torch.get_num_threads()
    finally:
        sharing.end(token)
        for other in range(others):
            del sharing._computing[-1 - other]


def test_a_step_alone_has_all_threads(four_threads):
    assert on_a_thread(lambda: (sharing.use_threads(4), used(1))[1]) == 4


def test_steps_at_once_have_their_shares_and_get_all_back_after_a_while(four_threads):
    def run():
        seen = [used(1, 1), used(2, 3), used(3, 9), used(4)]
        return seen + [used(n) for n in range(5, 5 + 2 * sharing._A_WHILE)][-1:]
    assert on_a_thread(run) == [2, 1, 1, 1, 4]


def test_a_new_thread_is_not_limited_by_another_one(four_threads):
    assert on_a_thread(lambda: used(1, 3)) == 1
    assert on_a_thread(lambda: used(2)) == 4


def test_sessions_count_steps_that_compute_and_not_those_that_wait(monkeypatch):
    counted = []
    begin = sharing.begin
    monkeypatch.setattr(sharing, "begin", lambda token: (begin(token), counted.append(len(sharing._computing))))
    with tf.Graph().as_default(), tf.Session() as sess:
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
        get, put, total = queue.dequeue(), queue.enqueue([1.]), tf.add(1, tf.placeholder_with_default(1, []))
        waiting = threading.Thread(target=lambda: sess.run(get))
        waiting.start()
        try:
            assert sess.run(total) == 2
        finally:
            sess.run(put)
            waiting.join(20)
    assert counted == [1] and not sharing._computing


def test_a_step_that_fails_is_not_counted_any_more():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.int32, [])
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(tf.gather([1, 2], x), {x: 7})
    assert not sharing._computing
