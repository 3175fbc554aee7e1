"""Logical GPUs of one physical GPU on their own streams: the same results, and no use of memory that is not ordered.

Without a GPU, streams are pretended (tests/step/place/fake_gpu.py): every kernel's reads and writes are checked against what
its stream has waited for, and against what the allocator was given. With one, streams are held up at random places.
"""
import random
import threading

import numpy as np
import pytest
import torch

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.kernels.devices import cuda, device_config
from penstock._src.kernels.devices.cpu import Cpu
from penstock._src.kernels.devices.devices import DeviceSet
from penstock._src.kernels.devices.streams import Streams
from penstock._src.step.compile.streams import Streamed
from penstock._src.step.tiers.tiers import Tiered
from tests.step.place.fake_gpu import FakeGpu, FakeStreams, OnGpu, Race

needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


@pytest.fixture
def fake(monkeypatch):
    """A session with two logical GPUs, pretended."""
    monkeypatch.setattr("penstock._src.session.local.local_devices",
                        lambda config=None: [Cpu(0, 0, 1), Cpu(1, 0, 1), FakeGpu(0, 0, 1), FakeGpu(1, 0, 1)])
    monkeypatch.setenv("PENSTOCK_TIER", "1")
    with tf.Graph().as_default():
        yield


def split(count=2):
    """A configuration with logical GPUs on the first one."""
    config = tf.ConfigProto(allow_soft_placement=True)
    config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[4096] * count)
    return config


def last_program(sess):
    """What ran the step that was compiled last."""
    return list(sess._engine._programs.values())[-1].runnable


def towers(devices, width=8, use_resource=True):
    """One variable on the first device that all towers share, one on each device, and a train op that updates all of them."""
    draw = np.random.RandomState(0)
    x = tf.placeholder(tf.float32, [4, width])
    with tf.device(devices[0]):
        shared = tf.Variable(draw.randn(width, width).astype(np.float32) * 0.3, use_resource=use_resource)
    losses, own = [], []
    for d in devices:
        with tf.device(d):
            own.append(tf.Variable(draw.randn(width, width).astype(np.float32) * 0.3, use_resource=use_resource))
            h = x
            for _ in range(3):
                h = tf.tanh(tf.matmul(tf.matmul(h, shared), own[-1]))
            losses.append(tf.reduce_mean(tf.square(h - 0.5)))
    with tf.device(devices[0]):
        loss = tf.add_n(losses)
        train = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss, colocate_gradients_with_ops=True)
    return x, loss, train, [shared, *own]


def trained(devices, config=None, steps=6, **kw):
    """Losses and variables after some steps, and the program."""
    draw = np.random.RandomState(1)
    with tf.Graph().as_default():
        x, loss, train, variables = towers(devices, **kw)
        with tf.Session(config=config) as sess:
            sess.run(tf.global_variables_initializer())
            losses = [sess.run([train, loss], {x: draw.randn(*x.shape)})[1] for _ in range(steps)]
            run = last_program(sess)
            return losses, sess.run(variables), run


@pytest.mark.parametrize("use_resource", [False, True])
def test_towers_on_pretended_streams(fake, use_resource):
    expected, variables, _ = trained(["/cpu:0", "/cpu:0"], use_resource=use_resource)
    found, streamed, run = trained(["/gpu:0", "/gpu:1"], use_resource=use_resource)
    assert isinstance(run, Streamed)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for a, b in zip(streamed, variables, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("broken", ["received", "share", "sent"])
def test_the_pretended_streams_see_races(fake, monkeypatch, broken):
    plain = {"received": lambda self, parcel, number=None: getattr(parcel, "value", parcel),       # no wait
             "sent": lambda self, value, number=None: value,                                       # no copy, no event
             "share": lambda self, values: None}[broken]
    monkeypatch.setattr(FakeStreams, broken, plain)
    if broken == "share":
        a, b = tf.ones([2]), tf.get_variable("b", [2])
        with tf.device("/gpu:0"):
            first = a * 2.0 + 1.0
        with tf.device("/gpu:1"):
            second = tf.assign(b, tf.tanh(a) * 2.0)
        with tf.Session() as sess:
            sess.run([first, second])
            held = next(v.value for _, v in sess._resources.items())
            streams = FakeStreams([None, None])
            assert isinstance(held, OnGpu)
            with pytest.raises(Race, match="does not know"):
                streams.used(held, False)
            streams.join()
        return
    with pytest.raises(tf.errors.OpError, match=r"stream \d (reads|writes|uses)"):
        trained(["/gpu:0", "/gpu:1"])


def test_one_gpu_stays_on_one_stream(fake):
    with tf.device("/gpu:1"):
        y = tf.tanh(tf.ones([2, 2])) + tf.exp(tf.ones([2, 2]) * tf.placeholder(tf.float32, [], name="x"))
    with tf.Session() as sess:
        sess.run(y, {"x:0": 2.0})
        assert not isinstance(last_program(sess), Streamed)


def test_the_text_of_a_program_shows_its_streams(fake):
    with tf.device("/gpu:0"):
        a = tf.tanh(tf.placeholder(tf.float32, [2], name="x"))
        beside = tf.exp(a)
    with tf.device("/gpu:1"):
        b = tf.sin(a)
    with tf.Session() as sess:
        text = sess.explain([beside, b], {"x:0": None})
        sess.run([beside, b], {"x:0": [1.0, 2.0]})
    order = [text.index(word) for word in ("DevicePlan(", "gpu.sent(", "gpu.on(1)", "gpu.received(")]
    assert order == sorted(order)
    assert text.count("gpu.sent(") == 1


def test_what_keeps_tensors_runs_alone(fake):
    seen = []
    x = tf.placeholder(tf.float32, [2])
    with tf.device("/gpu:0"):
        a = tf.tanh(x)
    with tf.device("/gpu:1"):
        b = tf.sin(x) * 2.0
    c = tf.py_func(lambda u, v: seen.append(1) or u + v, [a, b], tf.float32)
    with tf.device("/gpu:1"):
        d = tf.reshape(c, [2]) * b + a
    with tf.Session() as sess:
        data = np.array([0.5, -1.0], np.float32)
        expected = (np.tanh(data) + np.sin(data) * 2) * np.sin(data) * 2 + np.tanh(data)
        for _ in range(2):
            np.testing.assert_allclose(sess.run(d, {x: data}), expected, rtol=1e-5)
        text = sess.explain(d, {x: None})
    assert text.index("gpu.join()") < text.index("PyFunc") < text.index("gpu.fork()")
    assert seen == [1, 1]


def test_partitions_on_two_threads(fake):
    """With a second logical CPU the step is cut: between GPUs there are sends and receives then."""
    x = tf.placeholder(tf.float32, [2])
    with tf.device("/gpu:0"):
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
        a = tf.tanh(x) * v
    with tf.device("/gpu:1"):
        b = tf.sin(a) + x
    with tf.device("/cpu:1"):
        c = tf.exp(b)
    with tf.device("/gpu:0"), tf.control_dependencies([c]):
        d = tf.assign_add(v, b)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        held, data = np.ones(2), np.array([0.5, -1.0])
        for _ in range(3):
            b_value = np.sin(np.tanh(data) * held) + data
            held = held + b_value
            found = sess.run([c, d], {x: data})
            np.testing.assert_allclose(found, [np.exp(b_value), held], rtol=1e-5)
        assert "gpu.on(1)" in str(last_program(sess))


def test_functions(monkeypatch):
    monkeypatch.setenv("PENSTOCK_TIER", "1")
    context.process.eager = True
    device_config.settings.devices = DeviceSet([Cpu(0, 0, 1), FakeGpu(0, 0, 1), FakeGpu(1, 0, 1)])
    with tf2.device("GPU:0"):
        v = tf2.Variable([1.0, 2.0])
    with tf2.device("GPU:1"):
        w = tf2.Variable([3.0, 4.0])
    forks = []
    monkeypatch.setattr(FakeStreams, "on", lambda self, number, on=FakeStreams.on: forks.append(self.apart) or on(self, number))

    @tf2.function
    def f(x):
        with tf2.device("GPU:0"):
            a = tf2.tanh(x) * v
        with tf2.device("GPU:1"):
            b = tf2.sin(x) * w + a
            w.assign_add(b)
        with tf2.device("GPU:0"):
            v.assign_sub(b * 0.5)
            return a + b
    x = np.array([0.5, -1.0], np.float32)
    vv, ww = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    for _ in range(3):
        a = np.tanh(x) * vv
        b = np.sin(x) * ww + a
        ww, vv = ww + b, vv - b * 0.5
        np.testing.assert_allclose(f(tf2.constant(x)).numpy(), a + b, rtol=1e-5)
    np.testing.assert_allclose(v.numpy(), vv, rtol=1e-5)
    np.testing.assert_allclose(w.numpy(), ww, rtol=1e-5)
    assert forks and all(forks)


# -- on a GPU --------------------------------------------------------------------------------------------------------------
@pytest.fixture
def full_precision():
    cuda.allow_tf32(False)
    yield
    cuda.allow_tf32(True)


@pytest.fixture
def held_up(monkeypatch):
    """Streams that stand still now and then: what is not ordered happens in another order."""
    draw = random.Random(3)

    def on(self, number, plain=Streams.on):
        plain(self, number)
        if draw.random() < 0.5:
            torch.cuda._sleep(draw.choice([20_000, 500_000]))
    monkeypatch.setattr(Streams, "on", on)


class TestOnAGpu:
    pytestmark = needs_gpu

    @pytest.mark.parametrize("captured", [False, True])
    @pytest.mark.parametrize("use_resource", [False, True])
    def test_towers(self, captured, use_resource, full_precision, held_up, monkeypatch):
        if not captured:
            monkeypatch.setenv("PENSTOCK_TIER", "1")
        expected, variables, _ = trained(["/cpu:0", "/cpu:0"], steps=12, width=64, use_resource=use_resource)
        found, streamed, run = trained(["/gpu:0", "/gpu:1"], split(), steps=12, width=64, use_resource=use_resource)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        for a, b in zip(streamed, variables, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
        if captured:
            assert isinstance(run, Tiered) and isinstance(run.program, Streamed)
            assert [slot.tier for slot in run._slots.values()] >= [2]
        else:
            assert isinstance(run, Streamed)

    @pytest.mark.filterwarnings("error")
    def test_capture_that_fails_falls_back(self, full_precision, caplog):
        """A step that reads a value of the GPU on the host cannot be captured; it continues, without a message."""
        x = np.linspace(-1, 1, 64).astype(np.float32)
        with tf.Graph().as_default():
            fed = tf.placeholder(tf.float32, [64])
            with tf.device("/gpu:0"):
                a = tf.tanh(fed) * 2.0
            with tf.device("/gpu:1"):
                b = tf.boolean_mask(a, a > 0.0) + 1.0
                c = tf.exp(tf.sin(a)) * 2.0
            with tf.device("/gpu:0"):
                d = tf.reduce_sum(b) + tf.reduce_sum(c)
            with tf.Session(config=split()) as sess:
                t = np.tanh(x) * 2
                for i in range(8):
                    y = t if not i % 2 else np.tanh(-x) * 2
                    expected = np.sum(y[y > 0] + 1) + np.sum(np.exp(np.sin(y)) * 2)
                    np.testing.assert_allclose(sess.run(d, {fed: x if not i % 2 else -x}), expected, rtol=1e-4)
                run = last_program(sess)
        assert isinstance(run, Tiered) and all(slot.tier == 1 for slot in run._slots.values())
        assert not [r for r in caplog.records if r.levelname in ("WARNING", "ERROR")]

    def test_steps_of_several_threads(self, full_precision, held_up, monkeypatch):
        """Threads run different steps over the same variables, captured and not."""
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [None, 64])
            values = []
            for i, d in enumerate(("/gpu:0", "/gpu:1")):
                with tf.device(d):
                    w = tf.get_variable(f"w{i}", initializer=(np.eye(64) * (i + 1)).astype(np.float32))
                    values.append(tf.matmul(tf.matmul(x, w) + 1.0, w) - 1.0)
            with tf.device("/gpu:1"):
                both = values[0] * 2.0 + values[1]
            dropped = both + tf.reduce_sum(tf.random.uniform([3])) * 0.0            # not captured
            with tf.Session(config=split()) as sess:
                sess.run(tf.global_variables_initializer())
                wrong = []

                def work(seed):
                    draw = np.random.RandomState(seed)
                    for n in range(30):
                        data = draw.randn(1 + n % 2 * 7, 64).astype(np.float32)
                        a, b = (data + 1) - 1, (data * 2 + 1) * 2 - 1
                        got, again = sess.run([both, dropped] if (n + seed) % 2 else [dropped, both], {x: data})
                        for g in (got, again):
                            if not np.allclose(g, a * 2 + b, atol=1e-4):
                                wrong.append((seed, n, np.abs(g - a * 2 - b).max()))
                threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
                for t in threads:
                    t.start()
                for t in threads:
                    t.join(60)
        assert not wrong and not any(t.is_alive() for t in threads)

    @pytest.mark.filterwarnings("ignore:Synchronization debug mode")
    def test_the_host_does_not_wait_for_copies_between_gpus(self):
        """A chain of copies is launched while the first stream stands still."""
        with tf.Graph().as_default():
            with tf.device("/gpu:0"):
                h = v = tf.Variable(np.ones([256, 256], np.float32))
            for i in range(6):
                with tf.device(f"/gpu:{1 - i % 2}"):
                    h = tf.tanh(h) * 1.5
            with tf.device("/gpu:0"):
                done = tf.assign(v, h).op
            with tf.Session(config=split()) as sess:
                sess.run(tf.global_variables_initializer())
                for _ in range(5):
                    sess.run(done)
                torch.cuda.synchronize()
                torch.cuda._sleep(2_000_000_000)                     # about a second
                torch.cuda.set_sync_debug_mode("error")
                try:
                    sess.run(done)
                finally:
                    torch.cuda.set_sync_debug_mode("default")
                still_busy = not torch.cuda.current_stream().query()
                torch.cuda.synchronize()
        assert still_busy
