"""Updates of several variables as one op (step/optimize/updates.py), on a pretended GPU and on the host."""
import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.kernels import updates
from penstock._src.kernels.devices.cpu import Cpu
from penstock._src.kernels.many import Many
from penstock._src.step import compiler
from penstock._src.step.ir import StepGraph
from tests.step.place.fake_gpu import FakeGpu

SHAPES = [(3,), (4, 2), (2, 3, 2), (5,), (1, 4)]
OPTIMIZERS = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.5, 0.9),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5),
    "centered": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.1),
    "ftrl power": lambda: tf.train.FtrlOptimizer(0.1, learning_rate_power=-0.3),
    "proximal": lambda: tf.train.ProximalGradientDescentOptimizer(0.1, 0.01, 0.1),
    "proximal adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1, 0.1, 0.01, 0.1),
    "keras adam": lambda: tf.keras.optimizers.Adam(0.1),
    "keras adam amsgrad": lambda: tf.keras.optimizers.Adam(0.1, amsgrad=True),
    "keras adamax": lambda: tf.keras.optimizers.Adamax(0.1),
    "keras rmsprop": lambda: tf.keras.optimizers.RMSprop(0.1, momentum=0.5),
    "keras sgd": lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
}


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    monkeypatch.setattr("penstock._src.session.local.local_devices", lambda config=None: [Cpu(0, 0, 1), FakeGpu(0, 0, 1)])
    monkeypatch.setenv("PENSTOCK_TIER", "1")
    context.process.v2_control_flow = False


def variables(resource):
    draw = np.random.RandomState(0)
    return [tf.get_variable(f"v{i}", initializer=draw.randn(*s).astype("f"), use_resource=resource)
            for i, s in enumerate(SHAPES)]


def trained(name, device, resource, steps=4):
    """The variables after some steps, and the program of a step."""
    with tf.Graph().as_default(), tf.device(device):
        held = variables(resource)
        x = tf.placeholder(tf.float32, [])
        loss = tf.add_n([tf.reduce_sum(tf.square(v * x - 1.0) + tf.sin(v)) for v in held])
        optimizer = OPTIMIZERS[name]()
        if name.startswith("keras"):
            train = tf.group(*optimizer.get_updates(loss, held))
        else:
            train = optimizer.minimize(loss)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for i in range(steps):
                sess.run(train, {x: 1.0 + 0.1 * i})
            return sess.run(held), sess.explain(train, [x])


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("resource", [False, True])
def test_joined_updates_are_those_of_each_variable(name, resource, monkeypatch):
    if name.startswith("keras") and not resource:
        pytest.skip("Keras optimizers update resource variables")
    on_host, compiled = trained(name, "/cpu:0", resource)
    assert sum("ToAll" in line for line in compiled.splitlines()) == (
        updates.available() and name != "descent")
    monkeypatch.setattr(updates, "_kernels", lambda: None)
    found, program = trained(name, "/gpu:0", resource)
    wanted, apart = trained(name, "/cpu:0", resource)
    assert sum("ToAll" in line for line in program.splitlines()) == 1
    assert "ToAll" not in apart
    for a, b, c in zip(found, wanted, on_host, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(c, b, rtol=2e-5, atol=1e-6)


def test_what_waits_for_an_update_comes_after_it():
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        a, b, c = (tf.get_variable(n, initializer=np.float32([1, 2])) for n in "abc")
        adam = tf.train.GradientDescentOptimizer(1.0)
        first = adam.apply_gradients([(tf.ones([2]), a)])
        with tf.control_dependencies([first]):
            seen = tf.identity(a.read_value() if hasattr(a, "read_value") else a)
            between = adam.apply_gradients([(seen, b)])                      # waits for the first: it is not joined with it
        last = adam.apply_gradients([(tf.ones([2]) * 3.0, c)])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            got, _, _ = sess.run([seen, between, last])
            np.testing.assert_array_equal(got, [0, 1])
            np.testing.assert_array_equal(sess.run(b), [1, 1])
            np.testing.assert_array_equal(sess.run(c), [-2, -1])


def written(monkeypatch):
    """The programs of steps that are written from now on, as if the host were a GPU."""
    programs = []

    def improved(program, *rest, usual=compiler.improved):
        programs.append(program.source)
        return usual(program, *rest)
    monkeypatch.setattr(StepGraph, "on_host", lambda self, op: False)
    monkeypatch.setattr(compiler, "improved", improved)
    return programs


def test_updates_of_a_function_are_joined_and_keep_the_order_of_each_variable(monkeypatch):
    """Functions run updates in sequence. Two of one variable stay in order, with what is read between them."""
    programs = written(monkeypatch)
    a, b, c = (tf2.Variable(v) for v in ([1., 2.], [3.], [4., 5., 6.]))
    optimizer = tf2.keras.optimizers.SGD(0.5, momentum=0.5)

    @tf2.function
    def step():
        optimizer.apply_gradients([(2.0 * a, a), (b + a[0], b), (tf.ones([3]), c)])
        between = tf2.identity(a)
        optimizer.apply_gradients([(tf.ones([2]), a), (tf.ones([1]), b)])
        return between
    found = [step().numpy() for _ in range(3)] + [v.numpy() for v in (a, b, c)]
    want = numpy_steps(3)
    for x, y in zip(found, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)
    joined = [line for line in programs[-1].splitlines() if "ToAll" in line]
    assert len(joined) >= 1


def numpy_steps(count):
    a, b, c = np.float32([1, 2]), np.float32([3]), np.float32([4, 5, 6])
    ma, mb, mc, seen = np.zeros(2, "f"), np.zeros(1, "f"), np.zeros(3, "f"), []
    for _ in range(count):
        ga, gb = 2 * a, b + a[0]
        ma, mb, mc = 0.5 * ma - 0.5 * ga, 0.5 * mb - 0.5 * gb, 0.5 * mc - 0.5
        a, b, c = a + ma, b + mb, c + mc
        seen.append(a)
        ma, mb = 0.5 * ma - 0.5, 0.5 * mb - 0.5
        a, b = a + ma, b + mb
    return [*seen, a, b, c]


def test_filters_keep_their_own_layouts(monkeypatch):
    """Only a filter that is used outputs first, and its slots, are laid out so."""
    programs = written(monkeypatch)
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        draw = np.random.RandomState(0)
        wide, deep, flat = (tf.get_variable(n, initializer=draw.randn(*s).astype("f"), use_resource=True)
                            for n, s in (("wide", (3, 3, 2, 4)), ("deep", (3, 3, 4, 1)), ("flat", (4, 5))))
        h = tf.nn.depthwise_conv2d(tf.nn.conv2d(tf.ones([1, 6, 6, 2]), wide, 1, "SAME"), deep, [1, 1, 1, 1], "SAME")
        loss = tf.reduce_sum(tf.square(tf.matmul(tf.reshape(h, [-1, 4]), flat)))
        train = tf.train.MomentumOptimizer(1e-6, 0.9).minimize(loss)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(train)
            held = {key[1]: item for key, item in sess._resources.items() if hasattr(item, "arrange")}
            assert held["wide"].order == held["wide/Momentum"].order
            assert held["wide"].order is not None and held["deep"].order is None and held["flat"].order is None
    assert any("ToAll" in p for p in programs)


def test_large_variables_and_one_twice(monkeypatch):
    """A large variable is updated by itself; so is everything, if a variable occurs twice."""
    monkeypatch.setattr("penstock._src.ops.nn.update_kernels._LARGE", 6)
    found, _ = trained("adam", "/gpu:0", True)
    wanted, _ = trained("adam", "/cpu:0", True)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        v = tf.get_variable("v", initializer=np.float32([1, 2]), use_resource=True)
        train = [tf.train.GradientDescentOptimizer(1.0).apply_gradients([(tf.ones([2]), v)]) for _ in range(2)]
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(train)
            np.testing.assert_array_equal(sess.run(v), [-1, 0])


def test_an_uninitialized_variable_is_named():
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        held = variables(True)
        pairs = [(tf.ones(s), v) for s, v in zip(SHAPES, held, strict=True)]
        train = tf.train.MomentumOptimizer(0.1, 0.9).apply_gradients(pairs)
        with tf.Session() as sess:
            with pytest.raises(tf.errors.FailedPreconditionError, match="v0"):
                sess.run(train)


class NoReads(TorchDispatchMode):
    """Numbers of tensors are not read: on a GPU the host would wait, and a capture would fail."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func is not torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name, args", [
    ("add", (torch.tensor(2.0),)), ("add_", (torch.tensor(2.0),)), ("mul_", (torch.tensor(2.0),)),
    ("mul", (2.0,)), ("mul_", ("other",)), ("add_", ("other",)), ("sub", ("other",)), ("div_", (torch.tensor(2.0),)),
    ("addcmul_", ("other", torch.tensor(0.5))), ("addcmul", ("other", "other")), ("addcdiv_", ("other", "other")),
    ("lerp_", ("other", 0.3)), ("sqrt", ()), ("rsqrt_", ()), ("sign", ()), ("abs", ()), ("pow", (torch.tensor(0.5),)),
    ("sub_", (torch.tensor(0.5),)), ("exp_", ()), ("copy_", ("other",)), ("clamp_", (0.5, 0.7)), ("gt", (0.5,))])
def test_methods_of_many_are_those_of_each(name, args):
    draw = torch.Generator().manual_seed(0)
    mine, others = ([torch.rand(s, generator=draw) + 0.1 for s in SHAPES] for _ in range(2))
    want = [getattr(t.clone(), name)(*[o if isinstance(a, str) else a for a in args])
            for t, o in zip(mine, others, strict=True)]
    with NoReads():
        got = getattr(Many([t.clone() for t in mine]), name)(*[Many(others) if isinstance(a, str) else a for a in args])
    for a, b in zip(got.of, want, strict=True):
        torch.testing.assert_close(a, b)


def test_operators_of_many():
    a, b = [torch.tensor([1.0, 4.0]), torch.tensor([9.0])], [torch.tensor([2.0, 2.0]), torch.tensor([3.0])]
    for f in (lambda x, y: x + y, lambda x, y: 1 - x * y, lambda x, y: 2 * x / y, lambda x, y: x - 1 + (1 + y),
              lambda x, y: torch.maximum(x, y), lambda x, y: torch.where(x > 2, y, torch.zeros_like(x))):
        for got, want in zip(f(Many(a), Many(b)).of, map(f, a, b), strict=True):
            torch.testing.assert_close(got, want)


def test_dense_updates_around_sparse_ones_are_joined():
    """In a function, updates of rows stand between those of whole variables, and each waits for the one before it."""
    context.process.v2_control_flow = True
    draw = np.random.RandomState(0)
    start = [draw.randn(5, 2).astype("f"), draw.randn(3).astype("f"), draw.randn(4, 2).astype("f"), draw.randn(2).astype("f")]
    tables = [tf2.Variable(v) for v in start]
    optimizer = tf2.keras.optimizers.Adagrad(0.5)
    ids = np.array([1, 3, 1])

    @tf2.function
    def step():
        with tf2.GradientTape() as tape:
            rows = tf2.gather(tables[0], ids) * tf2.gather(tables[2], ids)
            loss = tf2.reduce_sum(tf2.square(rows)) + tf2.reduce_sum(tables[1] ** 2) + tf2.reduce_sum(tables[3] ** 3)
        optimizer.apply_gradients(zip(tape.gradient(loss, tables), tables, strict=True))
    for _ in range(3):
        step()
    eager = [tf2.Variable(v) for v in start]
    again = tf2.keras.optimizers.Adagrad(0.5)
    for _ in range(3):
        with tf2.GradientTape() as tape:
            rows = tf2.gather(eager[0], ids) * tf2.gather(eager[2], ids)
            loss = tf2.reduce_sum(tf2.square(rows)) + tf2.reduce_sum(eager[1] ** 2) + tf2.reduce_sum(eager[3] ** 3)
        again.apply_gradients(zip(tape.gradient(loss, eager), eager, strict=True))
    for a, b in zip(tables, eager, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
