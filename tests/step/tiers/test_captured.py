"""Steps on a GPU, replayed as CUDA graphs: the same numbers as on the CPU, and no replay where it would be wrong."""
import numpy as np
import pytest
import torch

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.kernels.devices import cuda
from penstock._src.step.tiers import tiers
from penstock._src.step.tiers.captured import Captured
from penstock._src.step.tiers.tiers import Tiered

OPTIMIZERS = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.01),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
}


@pytest.fixture(autouse=True)
def only_captured(monkeypatch):
    monkeypatch.setenv("PENSTOCK_TIER", "2")


@pytest.fixture
def full_precision():
    cuda.allow_tf32(False)
    yield
    cuda.allow_tf32(True)


def losses(device, optimizer, use_resource):
    """Six steps of a small network on fed batches: losses, the last global step, and the program of the step."""
    draw = np.random.RandomState(0)
    with tf.Graph().as_default(), tf.device(device):
        x, y = tf.placeholder(tf.float32, [8, 16, 16, 3]), tf.placeholder(tf.int32, [8])
        w, b, d = (tf.Variable(v.astype(np.float32), use_resource=use_resource) for v in (
            draw.randn(3, 3, 3, 8) * 0.2, np.zeros(8), draw.randn(512, 10) * 0.05))
        h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), b))
        h = tf.nn.max_pool(h, [1, 3, 3, 1], [1, 2, 2, 1], "SAME")
        logits = tf.matmul(tf.reshape(h, [8, -1]), d)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        step = tf.train.get_or_create_global_step()
        train = optimizer().minimize(loss, global_step=step)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            values = [sess.run([train, loss], {x: draw.randn(8, 16, 16, 3), y: draw.randint(0, 10, 8)})[1] for _ in range(6)]
            return values, sess.run(step), [s.runnable for s in sess._engine._programs.values()][1]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_agrees_with_the_cpu_and_is_replayed(optimizer, use_resource, full_precision):
    expected, steps, _ = losses("/cpu:0", OPTIMIZERS[optimizer], use_resource)
    found, gpu_steps, program = losses("/gpu:0", OPTIMIZERS[optimizer], use_resource)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert steps == gpu_steps == 6
    assert isinstance(program, Tiered) and [slot.tier for slot in program._slots.values()] == [2]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_variable_that_moved_is_found_again():
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        v = tf.Variable([1.0, 2.0])
        y = tf.sqrt(tf.exp(v * 2.0) + 1.0) * 3.0
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for value in ([1.0, 2.0], [3.0, 4.0]):
                v.load(value, sess)
                for _ in range(5):
                    np.testing.assert_allclose(sess.run(y), np.sqrt(np.exp(np.float32(value) * 2) + 1) * 3, rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_feeds_of_several_shapes():
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        x = tf.placeholder(tf.float32, [None])
        y = tf.sqrt(tf.exp(x * 2.0) + 1.0) * 3.0
        with tf.Session() as sess:
            for i in range(12):
                value = np.arange(1 + i % 3, dtype=np.float32) + i
                np.testing.assert_allclose(sess.run(y, {x: value}), np.sqrt(np.exp(value * 2) + 1) * 3, rtol=1e-5)


def looped(device, noise):
    """Eight calls of a function whose loop has a fixed length: what it returns, and its variable."""
    tf2.random.set_seed(7)
    with tf2.device(device):
        v = tf2.Variable([1.0, 2.0])

        @tf2.function
        def f(x, v=v):
            for _ in tf2.range(3):
                x = tf2.tanh(x * v) + noise()
            v.assign_add(x)
            return x
        return np.stack([*[f(tf2.constant([0.5, -0.5])).numpy() for _ in range(8)], v.numpy()])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_functions_with_loops_are_replayed(full_precision):
    found, expected = (looped(d, lambda: 0.25) for d in ("/gpu:0", "/cpu:0"))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_seeded_numbers_are_the_same_on_both_devices(full_precision):
    found, expected = (looped(d, lambda: tf2.random.uniform([2], seed=4)) for d in ("/gpu:0", "/cpu:0"))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_value_that_was_read_does_not_change():
    with tf2.device("/gpu:0"):
        v = tf2.Variable([1.0, 2.0])

        @tf2.function
        def f():
            v.assign(tf2.tanh(v) * 2.0 + 1.0)
            return v + 1.0
        held = []
        for _ in range(10):
            f()
            held.append((v.read_value(), v.numpy()))
        for value, want in held:
            np.testing.assert_array_equal(value.numpy(), want)


def test_what_keeps_state_on_the_host_has_no_better_version():
    with tf.Graph().as_default() as g:
        v = tf.Variable(1.0)
        tf.assign_add(v, 2.0)
        tf.random.normal([2])
        assert tiers._only_variables(g.get_operations())
        tf.print(v)
        assert not tiers._only_variables(g.get_operations())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_capture_that_fails_leaves_the_stream_as_it_was():
    """What follows in this thread would run beside what other threads do, on the stream of the capture."""
    class Waits:
        def run(self, ctx, x):
            return (x * float(x.sum()),)
    before = torch.cuda.current_stream()
    with pytest.raises(RuntimeError):
        Captured(Waits(), None, (torch.ones(2, device="cuda"),), [], torch.device("cuda", 0))
    assert torch.cuda.current_stream() == before


def recurrent(device, lengths):
    """Training of a GRU over sequences, one vector of lengths per step: losses, variables, and the programs of the session."""
    with tf.Graph().as_default(), tf.device(device):
        draw = np.random.RandomState(0)
        x, n = tf.constant(draw.randn(3, 5, 4).astype(np.float32)), tf.placeholder(tf.int32, [3])
        cell = tf.nn.rnn_cell.GRUCell(4, kernel_initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=3))
        out, last = tf.nn.dynamic_rnn(cell, x, sequence_length=n, dtype=tf.float32)
        loss = tf.reduce_mean(tf.square(out)) + tf.reduce_sum(last)
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for v in tf.trainable_variables():
                v.load(draw.randn(*v.shape.as_list()) * 0.3, sess)
            losses = [sess.run([loss, train], {n: v})[0] for v in lengths]
            programs = [s.runnable for s in sess._engine._programs.values()]
            return losses, sess.run(tf.trainable_variables()), programs


def only_slot(programs):
    """The versions of the step that ran most often."""
    return max((s for p in programs if isinstance(p, Tiered) for s in p._slots.values()), key=lambda s: s._uses)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("functional", [False, True])
def test_a_loop_over_changing_lengths_agrees_with_the_cpu(functional, full_precision):
    tf.enable_control_flow_v2() if functional else tf.disable_control_flow_v2()
    lengths = [[n, 2, 1] for n in (4, 4, 4, 4, 5, 5, 4, 5, 2, 4, 2)]
    found, expected = (recurrent(d, lengths) for d in ("/gpu:0", "/cpu:0"))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4)
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    slot = only_slot(found[2])
    assert slot.tier == 2 and not slot.reasons and set(slot._paths) >= {(4,), (5,)}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_shapes_that_are_fed_are_numbers_that_the_host_reads(full_precision):
    def run(device):
        with tf.Graph().as_default(), tf.device(device):
            n, x = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, [12])
            y = tf.reshape(tf.sin(x), [n, -1]) * 2.0 + tf.fill([n, 1], 0.5)
            total = tf.reduce_sum(tf.exp(y), 1)
            with tf.Session() as sess:
                out = [sess.run(total, {n: k, x: np.arange(12.0) + i}) for i, k in enumerate((3, 3, 3, 3, 4, 4, 3, 4, 6, 4))]
                return out, [s.runnable for s in sess._engine._programs.values()]
    found, expected = run("/gpu:0"), run("/cpu:0")
    for a, b in zip(found[0], expected[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    slot = only_slot(found[1])
    assert slot.tier == 2 and not slot.reasons


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("seed", [None, 5])
def test_random_integers_differ_from_step_to_step(seed):
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        x = tf.placeholder(tf.float32, [50])
        drawn = tf.random_uniform([200], 0, 50, tf.int64, seed=seed)
        rows = tf.sin(tf.gather(x, drawn) * 2.0) + 1.0
        with tf.Session() as sess:
            found = [sess.run([drawn, rows], {x: np.arange(50.0)}) for _ in range(6)]
    assert len({tuple(d) for d, _ in found}) == 6
    for d, r in found:
        assert d.min() >= 0 and d.max() < 50
        np.testing.assert_allclose(r, np.sin(d * 2.0) + 1.0, rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_integers_of_variables_move_to_the_device(full_precision):
    def run(device):
        with tf2.device(device):
            count, ids = tf2.Variable(0), tf2.Variable([[2, 0], [1, 1]])
            table = tf2.Variable(np.arange(6.0).reshape(3, 2), dtype=tf2.float32)

            @tf2.function
            def step(x):
                count.assign_add(1)
                rows = tf2.gather(table, ids) * tf2.cast(count, tf2.float32) + x
                table.assign_add(0.1 * tf2.reduce_sum(tf2.sin(rows)) * tf2.ones_like(table))
                return tf2.reduce_sum(rows)
            found = [step(tf2.constant([1.0, 1.5])).numpy() for _ in range(6)]
            ids.assign([[0, 0], [2, 2]])
            return [*found, *[step(tf2.constant([1.0, 1.5])).numpy() for _ in range(4)], count.numpy(), *table.numpy().ravel()]
    before = len(tiers.every)
    found = run("/gpu:0")
    assert len(tiers.every) > before or any(s.tier == 2 for t in tiers.every for s in t._slots.values())
    np.testing.assert_allclose(found, run("/cpu:0"), rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_check_in_a_captured_step_raises_and_changes_nothing():
    with tf2.device("/gpu:0"):
        v = tf2.Variable([1.0, 2.0])

        @tf2.function
        def step(x):
            tf2.debugging.assert_less(x, 5.0, message="too large")
            v.assign_add(tf2.sqrt(tf2.exp(x)) * 2.0 + tf2.sin(x))
            return tf2.reduce_sum(v)
        for _ in range(6):
            step(tf2.constant([1.0, 1.0]))
        before = v.numpy()
        for _ in range(2):
            with pytest.raises(tf2.errors.InvalidArgumentError, match="too large"):
                step(tf2.constant([1.0, 9.0]))
        np.testing.assert_array_equal(v.numpy(), before)
        step(tf2.constant([1.0, 1.0]))
        np.testing.assert_allclose(v.numpy(), before + np.sqrt(np.exp(1.0)) * 2 + np.sin(1.0), rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_variables_that_change_before_the_host_reads_get_their_values_back(full_precision):
    def run(device):
        with tf2.device(device):
            count, v = tf2.Variable([0.0, 0.0]), tf2.Variable([1.0, 2.0])

            @tf2.function
            def step(x):
                count.assign_add(tf2.sqrt(tf2.exp(x)))
                y = tf2.cond(tf2.reduce_sum(count) < 30.0, lambda: tf2.linalg.matvec([[1.0, 2.0], [3.0, 4.0]], x), lambda: x)
                v.assign_add(0.1 * y)
                return tf2.reduce_sum(v)
            found = [step(tf2.constant([1.0, 1.5])).numpy() for _ in range(14)]
            return [*found, *count.numpy(), *v.numpy()]
    np.testing.assert_allclose(run("/gpu:0"), run("/cpu:0"), rtol=1e-4)
