"""Steps that run at once share the cores."""
import threading

import pytest
import torch

import penstock
import penstock.compat.v1 as tf
from penstock._src.kernels import sharing, waiting
from penstock._src.kernels.host_threads import libgomp
from tests.checks import eventually


@pytest.fixture
def four_threads(monkeypatch):
    monkeypatch.setattr(waiting.machine, "threads", 0)               # as on a machine where nothing else runs
    monkeypatch.setattr(waiting.machine, "look", lambda: None)
    before = torch.get_num_threads()
    sharing.use_threads(4)
    yield
    sharing.use_threads(before)


def on_a_thread(call):
    out = []
    thread = threading.Thread(target=lambda: out.append(call()))
    thread.start()
    thread.join(60)
    assert out, "the thread has failed"
    return out[0]


def used(token, others=0):
    """The number of threads for kernels in a step beside some others."""
    for other in range(others):
        sharing._computing[-1 - other] = 0
    sharing.begin(token)
    try:
        return torch.get_num_threads()
    finally:
        sharing.end(token)
        for other in range(others):
            del sharing._computing[-1 - other]


def test_a_step_alone_has_all_threads(four_threads):
    assert on_a_thread(lambda: (sharing.use_threads(4), used(1))[1]) == 4


def test_steps_at_once_have_their_shares_and_get_all_back_after_a_while(four_threads, monkeypatch):
    monkeypatch.setattr(sharing, "_ALONE", 1e9)

    def run():
        seen = [used(1, 1), used(2, 3), used(3, 9), used(4)]
        return seen + [used(n) for n in range(5, 5 + 2 * sharing._A_WHILE)][-1:]
    assert on_a_thread(run) == [2, 1, 1, 1, 4]


def test_long_steps_get_all_threads_back_after_some_time(four_threads, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(sharing.time, "monotonic", lambda: now[0])

    def later(seconds):
        now[0] += seconds
        return used(1)
    assert on_a_thread(lambda: (used(1, 3), later(0.9 * sharing._ALONE), later(0.2 * sharing._ALONE))) == (1, 1, 4)


def test_a_new_thread_is_not_limited_by_another_one(four_threads):
    assert on_a_thread(lambda: used(1, 3)) == 1
    assert on_a_thread(lambda: used(2)) == 4


def inside(token, call=torch.get_num_threads):
    """What a call returns in a step."""
    sharing.begin(token)
    try:
        return call()
    finally:
        sharing.end(token)


@pytest.fixture
def one_core(monkeypatch):
    if libgomp() is None:
        pytest.skip("torch does not use GNU's OpenMP here")
    monkeypatch.setattr(sharing.waiting.machine, "look", lambda: None)
    monkeypatch.setattr(sharing.waiting.machine, "threads", 1)
    yield
    assert not sharing._limited


def test_a_step_beside_other_processes_has_one_thread_and_its_caller_keeps_all(four_threads, one_core):
    def run():
        sharing.use_threads(4)
        seen = [inside(1), torch.get_num_threads(), *inside(2, lambda: (inside(3), torch.get_num_threads()))]
        return [*seen, torch.get_num_threads()]
    assert on_a_thread(run) == [1, 4, 1, 1, 4]


def test_steps_at_once_beside_other_processes_know_the_number_of_all_threads(four_threads, one_core, monkeypatch):
    monkeypatch.setattr(sharing, "_total", 0)
    monkeypatch.setattr(sharing, "_ALONE", -1.0)

    def run():
        torch.set_num_threads(4)
        inside(1, lambda: inside(2))                             # two steps are counted for the first time
        monkeypatch.setattr(sharing.waiting.machine, "threads", 0)
        return inside(3)
    assert on_a_thread(run) == 4


def test_steps_at_once_share_what_other_processes_leave(four_threads, one_core, monkeypatch):
    monkeypatch.setattr(sharing.waiting.machine, "threads", 3)

    def run():
        sharing.use_threads(4)
        return used(1), used(2, 1), used(3, 9), torch.get_num_threads()
    assert on_a_thread(run) == (3, 1, 1, 4)


def test_an_eager_op_has_the_threads_that_other_processes_leave(four_threads, one_core, monkeypatch):
    import penstock as tf2
    x, seen, back = tf2.constant([1.0]), [], sharing.host_threads.use_cores
    monkeypatch.setattr(sharing.host_threads, "use_cores", lambda count: (seen.append(torch.get_num_threads()), back(count)))

    def run():
        sharing.use_threads(4)
        tf2.math.sin(x)
        with pytest.raises(tf2.errors.InvalidArgumentError):
            tf2.raw_ops.Reshape(tensor=x, shape=[3])
        return [*seen, torch.get_num_threads()]
    assert on_a_thread(run) == [1, 1, 4]


@pytest.fixture
def two_places(monkeypatch):
    monkeypatch.setattr(sharing, "_PLACES", 2)
    monkeypatch.setattr(sharing, "_PATIENCE", 60)
    yield
    assert not sharing._line and not sharing._computing


def in_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_no_more_steps_than_cores_compute_at_once_and_who_comes_first_is_first(two_places):
    order, go = [], threading.Semaphore(0)

    def step(token):
        sharing.begin(token)
        order.append(token)
        assert len(sharing._computing) <= 2
        go.acquire(timeout=60)
        sharing.end(token)
    threads = []
    for token in range(1, 6):
        threads.append(in_thread(lambda token=token: step(token)))
        assert eventually(lambda token=token: len(order) + len(sharing._line) == token)
    assert order == [1, 2]
    for done in range(3, 6):
        go.release()
        assert eventually(lambda done=done: len(order) == done)
    go.release(5)
    for thread in threads:
        thread.join(60)
    assert order == [1, 2, 3, 4, 5]


def test_a_step_inside_of_a_step_has_its_place(two_places):
    def run():
        sharing.begin(1)
        sharing.begin(2)
        sharing.begin(3)
        for token in (3, 2, 1):
            sharing.end(token)
        return True
    assert on_a_thread(run)


def test_a_recorded_step_does_not_stand_in_line(two_places):
    sharing._computing.update({-1: 0, -2: 0})
    try:
        assert on_a_thread(lambda: (sharing.begin(1, False), len(sharing._computing), sharing.end(1))[1]) == 3
    finally:
        sharing._computing.clear()


def test_nobody_stands_in_line_for_long(two_places, monkeypatch):
    monkeypatch.setattr(sharing, "_PATIENCE", 0.01)
    sharing._computing.update({-1: 0, -2: 0})
    try:
        assert on_a_thread(lambda: (sharing.begin(1), len(sharing._computing), sharing.end(1))[1]) == 3
    finally:
        sharing._computing.clear()


def test_many_threads_get_their_results(two_places):
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [])
        y = x * 2.0
        sess.run(y, {x: 1.0})
        wrong = []

        def body(k):
            wrong.extend(i for i in range(200) if sess.run(y, {x: k + i}) != 2.0 * (k + i))
        threads = [in_thread(lambda k=k: body(k)) for k in range(6)]
        for thread in threads:
            thread.join(60)
        assert not wrong and not any(t.is_alive() for t in threads)


def test_sessions_count_steps_that_compute_and_not_those_that_wait(monkeypatch):
    counted = []
    begin = sharing.begin
    monkeypatch.setattr(sharing, "begin", lambda *given: (begin(*given), counted.append(len(sharing._computing))))
    with tf.Graph().as_default(), tf.Session() as sess:
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
        get, put, total = queue.dequeue(), queue.enqueue([1.]), tf.add(1, tf.placeholder_with_default(1, []))
        waiting = threading.Thread(target=lambda: sess.run(get))
        waiting.start()
        try:
            assert sess.run(total) == 2
        finally:
            sess.run(put)
            waiting.join(60)
    assert sorted(counted) == [0, 0, 1] and not sharing._computing


def test_a_step_that_fails_is_not_counted_any_more():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.int32, [])
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(tf.gather([1, 2], x), {x: 7})
    assert not sharing._computing


def test_steps_that_wait_use_the_cores_that_others_leave(four_threads, monkeypatch):
    if libgomp() is None:
        pytest.skip("torch does not use GNU's OpenMP here")

    def run():
        sharing.use_threads(4)
        seen = []
        for threads in (1, 0):
            monkeypatch.setattr(sharing.waiting.machine, "threads", threads)
            sharing.begin(1, waits=True)
            seen += [torch.get_num_threads(), len(sharing._computing)]
            sharing.end(1)
            seen.append(torch.get_num_threads())
        return seen
    monkeypatch.setattr(sharing.waiting.machine, "look", lambda: None)
    assert on_a_thread(run) == [1, 0, 4, 4, 0, 4]


@pytest.mark.parametrize("called", [False, True])
def test_a_step_with_a_queue_is_such_a_step(called, monkeypatch):
    seen = []
    monkeypatch.setattr(sharing, "begin", lambda token, in_line=True, waits=False: seen.append(waits))
    monkeypatch.setattr(sharing, "end", lambda token: None)
    if called:
        queue = penstock.queue.FIFOQueue(3, ["float32"], [[]])

        @penstock.function
        def put():
            queue.enqueue(1.0)
        put()
    else:
        with tf.Graph().as_default(), tf.Session() as session:
            session.run(tf.FIFOQueue(3, ["float32"], [[]]).enqueue(1.0))
    assert seen[-1] is True
