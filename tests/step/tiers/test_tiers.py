"""Steps that are compiled as a whole: jit_compile, global_jit_level, set_jit, PENSTOCK_TIER. Here graphs run as they were
traced; `test_inductor.py` compiles some."""
import contextlib
import logging

import numpy as np
import pytest
import torch

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.kernels import bridge
from penstock._src.step.tiers import inductor, lower, tiers


def jitted(level=1):
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = level
    return tf.Session(config=config)


@contextlib.contextmanager
def everywhere():
    tf2.config.optimizer.set_jit(True)
    try:
        yield
    finally:
        tf2.config.optimizer.set_jit(False)


def model():
    """A network with dropout, its loss and a step of training."""
    tf.set_random_seed(3)
    x, y = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.int64, [None])
    w, v = (tf.Variable(np.random.RandomState(i).randn(*s).astype(np.float32)) for i, s in enumerate([(6, 8), (8, 3)]))
    h = tf.nn.dropout(tf.nn.relu(tf.matmul(x, w)), rate=0.5, seed=1)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=tf.matmul(h, v)))
    return x, y, [w, v], loss, tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)


def trained(session, steps=6):
    with tf.Graph().as_default():
        x, y, variables, loss, train = model()
        with session() as sess:
            sess.run(tf.global_variables_initializer())
            rng = np.random.RandomState(0)
            losses = [sess.run([loss, train], {x: rng.randn(5, 6), y: rng.randint(0, 3, 5)})[0] for _ in range(steps)]
            return losses, sess.run(variables)


def test_training_is_the_same(graphs):
    losses, values = trained(jitted)
    assert graphs                                            # parts were compiled
    plain_losses, plain_values = trained(tf.Session)
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-5)
    for a, b in zip(values, plain_values, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("level, compiled", [(-1, False), (0, False), (1, True), (2, True)])
def test_levels(graphs, level, compiled):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4])
        y = tf.tanh(x) * tf.sigmoid(x) + tf.exp(-x)
        with jitted(level) as sess:
            for _ in range(3):
                want = np.tanh(1.) / (1 + np.exp(-1.)) + np.exp(-1.)
                np.testing.assert_allclose(sess.run(y, {x: np.ones(4)}), want, rtol=1e-6)
    assert bool(graphs) is compiled


def test_functions_and_their_gradients(graphs):
    v = tf2.Variable(2.)

    @tf2.function(jit_compile=True)
    def f(x):
        return tf2.reduce_sum(tf2.sinh(x) * v * tf2.exp(x) + 0. * tf2.tanh(x))
    x = tf2.constant([0.5, -1.])
    for _ in range(4):
        with tf2.GradientTape() as tape:
            tape.watch(x)
            out = f(x)
        grad = tape.gradient(out, [x, v])
    e, s, c = np.exp(x), np.sinh(x), np.cosh(x)
    np.testing.assert_allclose(out, (s * e * 2).sum(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(grad[0], 2 * e * (s + c), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(grad[1], (s * e).sum(), rtol=1e-6, atol=1e-6)
    assert len(graphs) >= 2                                  # forward and backward
    count = len(graphs)
    f(x)
    assert len(graphs) == count                              # made once


def test_set_jit(graphs):
    with everywhere():
        assert tf2.config.optimizer.get_jit()

        @tf2.function
        def f(x):
            return tf2.tanh(x) + tf2.exp(x) * tf2.sin(x) - 1.
        for _ in range(3):
            f(tf2.constant([1., 2.]))
    assert graphs and not tf2.config.optimizer.get_jit()


def test_effects_keep_their_order(graphs):
    v = tf2.Variable([1., 2.])

    @tf2.function(jit_compile=True)
    def f(x):
        y = tf2.exp(-v) * x
        v.assign(tf2.tanh(y) + 1.)
        z = tf2.square(v) - y
        v.assign_add(tf2.sqrt(z * z) / 8.)
        return y, z, v.read_value()
    want = np.array([1., 2.], np.float32)
    for _ in range(4):
        y, z, read = f(tf2.constant(.5))
        by_hand = np.exp(-want) * .5
        want = np.tanh(by_hand) + 1
        np.testing.assert_allclose(y, by_hand, rtol=1e-5)
        np.testing.assert_allclose(z, want ** 2 - by_hand, rtol=1e-5)
        want = want + np.abs(want ** 2 - by_hand) / 8
        np.testing.assert_allclose(read, want, rtol=1e-5)
    assert len(graphs) == 1


def test_new_shapes_and_too_many_shapes(graphs):
    f = tf2.function(lambda x: tf2.tanh(x) * tf2.exp(x) + tf2.sin(x), jit_compile=True,
                     input_signature=[tf2.TensorSpec([None])])
    for n in range(1, 12):
        for _ in range(4):
            x = np.arange(n, dtype=np.float32)
            np.testing.assert_allclose(f(x), np.tanh(x) * np.exp(x) + np.sin(x), rtol=1e-6)
    assert len(graphs) == 4                                  # for the first shapes that come again (step/optimize/variants.py)


def test_a_failure_is_said_once_and_counted(monkeypatch, caplog, recwarn):
    def refuse(graph, example):
        raise RuntimeError("no compiler at hand")
    monkeypatch.setattr(inductor, "available", lambda device: True)
    monkeypatch.setattr(inductor, "compiled", refuse)
    before = tiers.refused[3, "no compiler at hand"]
    tiers._told.discard("no compiler at hand")
    with caplog.at_level(logging.INFO, "penstock"):
        for _ in range(2):
            f = tf2.function(lambda x: tf2.tanh(x) * tf2.exp(x) + tf2.sin(x), jit_compile=True)
            for _ in range(4):
                np.testing.assert_allclose(f(tf2.constant(0.5)), np.tanh(.5) * np.exp(.5) + np.sin(.5), rtol=1e-6)
    assert [r.message for r in caplog.records] == ["A step is not compiled for tier 3: no compiler at hand"]
    assert not recwarn.list
    assert tiers.refused[3, "no compiler at hand"] == before + 2          # once for each step


def test_code_that_fails_later_is_left(monkeypatch):
    def break_down(graph, example):
        calls = []

        def run(inputs):
            calls.append(1)
            if len(calls) > 2:
                raise RuntimeError("broken")
            return graph(*inputs)
        return run
    monkeypatch.setattr(inductor, "available", lambda device: True)
    monkeypatch.setattr(inductor, "compiled", break_down)
    v = tf2.Variable(0.)

    @tf2.function(jit_compile=True)
    def f(x):
        v.assign_add(1.)
        return tf2.tanh(x) * tf2.exp(x) + v
    for i in range(6):
        np.testing.assert_allclose(f(tf2.constant(0.5)), np.tanh(.5) * np.exp(.5) + i + 1, rtol=1e-6)


def test_wrong_code_is_not_used(monkeypatch):
    monkeypatch.setattr(inductor, "available", lambda device: True)
    monkeypatch.setattr(inductor, "compiled", lambda graph, example: lambda inputs: [t * 1.1 for t in graph(*inputs)])
    f = tf2.function(lambda x: tf2.tanh(x) * tf2.exp(x) + tf2.sin(x), jit_compile=True)
    before = tiers.refused[3, "a result differs"]
    for _ in range(4):
        np.testing.assert_allclose(f(tf2.constant(0.5)), np.tanh(.5) * np.exp(.5) + np.sin(.5), rtol=1e-6)
    assert tiers.refused[3, "a result differs"] == before + 1


def test_errors_name_the_op(graphs):
    with tf.Graph().as_default(), jitted() as sess:
        x, at = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [None])
        y = tf.exp(tf.sin(tf.gather(tf.tanh(x) * 2., at, name="picked")))
        for i in range(4):
            np.testing.assert_allclose(sess.run(y, {x: [1., 2.], at: [i % 2]}), np.exp(np.sin(2 * np.tanh([1. + i % 2]))),
                                       rtol=1e-5)
        assert graphs
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[0\] = 7 is not in \[0, 2\)") as found:
            sess.run(y, {x: [1., 2.], at: [7]})
        assert "picked" in str(found.value)


def test_uninitialized_variables_still_raise(graphs):
    with tf.Graph().as_default(), jitted() as sess:
        v = tf.get_variable("v", [2], use_resource=True)
        y = tf.exp(v) + tf.tanh(v) * tf.sin(v)
        sess.run(v.initializer)
        for _ in range(3):
            sess.run(y)
        assert graphs
        sess.run(tf.raw_ops.DestroyResourceOp(resource=v.handle))
        with pytest.raises(tf.errors.FailedPreconditionError):
            sess.run(y)


def test_what_looks_at_values_stays(graphs):
    @tf2.function(jit_compile=True)
    def f(x):
        return tf2.boolean_mask(tf2.tanh(x) * 2., x > 0.) + tf2.exp(1.)
    for _ in range(3):
        np.testing.assert_allclose(f(tf2.constant([1., -1., 2.])), np.tanh([1., 2.]) * 2 + np.exp(1.), rtol=1e-6)
    assert not graphs


def test_a_value_once_read_stays(graphs):
    v = tf2.Variable([1., 2.])

    @tf2.function(jit_compile=True)
    def f():
        old = v.read_value()
        v.assign_add(tf2.ones([2]))
        v.assign(v * 2.)
        return old, v.read_value()
    held, want = [], np.array([1., 2.])
    for _ in range(5):
        old, new = f()
        held.append((old, new, v.read_value(), want, (want + 1) * 2))
        want = (want + 1) * 2
    assert graphs
    for old, new, read, before, after in held:
        np.testing.assert_array_equal(old, before)
        np.testing.assert_array_equal(new, after)
        np.testing.assert_array_equal(read, after)


def test_called_functions_loops_and_branches_are_one_graph(graphs):
    v = tf2.Variable(1.)

    @tf2.function
    def inner(x):
        v.assign_add(1.)
        return x * v

    @tf2.function(jit_compile=True)
    def f(x):
        for _ in tf2.range(3):
            x = tf2.tanh(inner(x))
        return tf2.cond(tf2.constant(True), lambda: x + v, lambda: x)
    held, x = 1., np.float32(.5)
    for _ in range(4):
        want = x
        for _ in range(3):
            held += 1
            want = np.tanh(want * held)
        np.testing.assert_allclose(f(tf2.constant(x)), want + held, rtol=1e-5)
    assert len(graphs) == 1


def test_random_numbers_are_those_of_the_program(graphs):
    def drawn(jit):
        with tf.Graph().as_default(), jitted(jit) as sess:
            x = tf.placeholder(tf.float32, [5])
            y = tf.random_uniform([5], seed=3) * x + tf.random_normal([5], seed=4)
            z = tf.random_uniform([5], 0, 9, tf.int32, seed=5)
            return [sess.run([y, z], {x: np.ones(5)}) for _ in range(5)]
    for (y, z), (y_plain, z_plain) in zip(drawn(1), drawn(0), strict=True):
        np.testing.assert_allclose(y, y_plain, rtol=1e-5)
        np.testing.assert_array_equal(z, z_plain)
    assert graphs


def test_numbers_without_seed_differ_in_every_run(graphs):
    f = tf2.function(lambda x: tf2.random.uniform([100]) * x + x * 0. - 1., jit_compile=True)
    seen = np.stack([f(tf2.constant(2.)).numpy() for _ in range(5)])
    assert graphs and len(np.unique(seen)) > 450 and -1 <= seen.min() and seen.max() < 1


@pytest.mark.parametrize("optimizer", ["Adagrad", "Adam", "SGD", "RMSprop"])
def test_sparse_updates_of_keras_are_compiled(graphs, optimizer):
    """Rows of repeated indices included; the kernel reads no index on the host."""
    def trained(compiled):
        table, opt = tf2.Variable(np.arange(24, dtype=np.float32).reshape(8, 3)), getattr(tf2.keras.optimizers, optimizer)(0.1)
        ids = tf2.constant([5, 1, 5, 7, 1, 5, 0, 2, 2, 6], tf2.int64)

        @tf2.function(jit_compile=compiled)
        def step(ids):
            with tf2.GradientTape() as tape:
                loss = tf2.reduce_sum(tf2.sin(tf2.gather(table, ids)))
            opt.apply_gradients([(tape.gradient(loss, table), table)])
            return loss
        return [float(step(ids)) for _ in range(4)], table.numpy()
    before = dict(tiers.refused)
    (losses, values), (expected, wanted) = trained(True), trained(None)
    assert graphs and dict(tiers.refused) == before
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    np.testing.assert_allclose(values, wanted, rtol=1e-4, atol=1e-5)


def test_max_pooling_is_compiled(graphs):
    """Neither its C kernel nor its look at the maxima is called with tensors that have no memory."""
    x, w = np.random.RandomState(0).randn(2, 6, 6, 3).astype(np.float32), tf2.Variable(np.ones([3], np.float32))

    def gradient(compiled):
        @tf2.function(jit_compile=compiled)
        def step(x):
            with tf2.GradientTape() as tape:
                loss = tf2.reduce_sum(tf2.square(tf2.nn.max_pool2d(tf2.nn.relu(x * w), 2, 2, "SAME")))
            return tape.gradient(loss, w)
        return [step(tf2.constant(x)).numpy() for _ in range(3)][-1]
    before = dict(tiers.refused)
    np.testing.assert_allclose(gradient(True), gradient(None), rtol=1e-5, atol=1e-6)
    assert graphs and dict(tiers.refused) == before


def changes(count, expected=lambda i, step: step, **found):
    """What two versions make of variables of size 1 that change by a thousandth; `found` says what the second one does."""
    out = []
    for i in range(count):
        draw = torch.Generator().manual_seed(i)
        before, step = (torch.randn(50, generator=draw) * scale for scale in (1.0, 1e-3))
        new = found.get(f"v{i}", lambda step: step)(step)
        out.append(tiers.Change(f"v{i}", before + new, before + expected(i, step), before))
    return out


def noise(*of_changes, results=()):
    """What rounding does to a step."""
    return lambda: tiers.Noise(list(results), list(of_changes))


@pytest.mark.parametrize("wrong", [lambda s: 0 * s, lambda s: -s, lambda s: 2 * s, lambda s: s.roll(1), lambda s: s / 0,
                                   lambda s: torch.where(torch.arange(50) < 40, s, 0)])
def test_a_wrong_update_of_one_variable_is_refused(wrong):
    """It is small beside the variable. Rounding, of which there is a hundredth, does not excuse it."""
    same = tiers._difference((), (), changes(8), False, 0.1, noise())
    differs = tiers._difference((), (), changes(8, v3=wrong), False, 0.1, noise(*[1e-5 * 50 ** 0.5] * 8))
    assert same == "" and "v3" in differs


def test_updates_that_rounding_decides_may_differ():
    """Adam divides a gradient that is zero but for rounding by its size."""
    made = changes(8, v3=lambda s: -s)
    assert tiers._difference((), (), made, False, 0.1, noise(*[0.0] * 3, 1e-3 * 50 ** 0.5, *[0.0] * 4)) == ""


def test_updates_of_a_gradient_that_is_zero_may_differ():
    """A bias before batch normalization: both updates are rounding alone, however the variables are perturbed."""
    made = [*changes(1), tiers.Change("bias", torch.full([4], 1e-9), torch.full([4], -1e-9), torch.zeros(4))]
    assert tiers._difference((), (), made, False, 0.1, noise(0.0, 0.0)) == ""


@pytest.mark.parametrize("rounding, refused", [(1e-4, False), (1e-7, True)])
def test_the_loss_of_a_model_that_has_learned_may_differ_by_rounding(rounding, refused):
    """A cross entropy near zero is what is left of numbers near one."""
    found, expected = torch.tensor([7.98e-3]), torch.tensor([7.77e-3])
    assert bool(tiers._difference((found,), (expected,), [], False, 0.1, noise(results=[rounding]))) is refused


def test_rounding_does_not_excuse_other_places_of_nan():
    found, expected = torch.tensor([float("nan"), 1.0]), torch.tensor([1.0, 1.0])
    assert tiers._difference((found,), (expected,), [], False, 0.1, noise(results=[1e9]))


@pytest.mark.parametrize("wrong, refused", [(lambda s: s.roll(1), False), (lambda s: 0 * s, True), (lambda s: 100 * s, True),
                                            (lambda s: s / 0, True)])
def test_steps_with_unseeded_numbers_change_variables_alike(wrong, refused):
    made = changes(1, v0=wrong)
    assert bool(tiers._difference((torch.ones(1),), (torch.zeros(1),), made, True, 0.1, noise())) is refused


def test_a_trace_holds_no_values_of_variables(graphs, monkeypatch):
    """Steps that run during a trace write them in place: a value that is held is copied first, and ends a CUDA graph."""
    seen, usual = [], lower._HostStaysReal.__torch_dispatch__

    def looked(self, func, *rest):
        seen.extend(bridge.exclusive(v) for v in held)
        return usual(self, func, *rest)
    monkeypatch.setattr(lower._HostStaysReal, "__torch_dispatch__", looked)
    w = tf2.Variable([[1.0, 2.0], [3.0, 4.0]])

    @tf2.function(jit_compile=True)
    def f(x):
        w.assign_add(tf2.tanh(tf2.matmul(x, w)) * 0.1)
        return tf2.reduce_sum(tf2.exp(-w))
    held = [w.handle._value]
    for _ in range(3):
        f(tf2.ones([2, 2]))
    assert graphs and seen and all(seen)


def test_a_compiled_step_that_loses_an_update_is_refused(monkeypatch):
    """The whole way: such a step stays in the program."""
    monkeypatch.setattr(inductor, "available", lambda device: True)

    def broken(graph, example):
        def run(inputs):
            first = inputs[0].clone()
            out = graph(*inputs)
            inputs[0].copy_(first)
            return out
        return run
    monkeypatch.setattr(inductor, "compiled", broken)
    w = [tf2.Variable(np.random.RandomState(i).randn(6, 6), dtype=tf2.float32) for i in range(4)]

    @tf2.function(jit_compile=True)
    def step(x):
        with tf2.GradientTape() as tape:
            y = x
            for v in w:
                y = tf2.tanh(tf2.matmul(y, v))
            loss = tf2.reduce_sum(tf2.square(y))
        for v, g in zip(w, tape.gradient(loss, w), strict=True):
            v.assign_sub(1e-3 * g)
        return loss
    before, refused = [v.numpy() for v in w], tiers.refused.total()
    for _ in range(4):
        step(tf2.ones([2, 6]))
    assert tiers.refused.total() > refused
    assert all(np.abs(v.numpy() - old).max() > 0 for v, old in zip(w, before, strict=True))


def test_a_gradient_of_a_gradient_of_convolutions(graphs):
    """The penalty of a Wasserstein critic: constants of the trace are among the operands of joined convolutions."""
    images = tf2.constant(np.random.RandomState(0).randn(2, 8, 8, 3), tf2.float32)
    filters = [tf2.Variable(np.random.RandomState(i).randn(3, 3, *c) * 0.1, dtype=tf2.float32)
               for i, c in enumerate([(3, 4), (4, 2)])]

    def gradient(compiled):
        @tf2.function(jit_compile=compiled)
        def step(x):
            with tf2.GradientTape() as tape:
                with tf2.GradientTape() as inner:
                    inner.watch(x)
                    y = x
                    for f in filters:
                        y = tf2.nn.leaky_relu(tf2.nn.conv2d(y, f, 2, "SAME"))
                    value = tf2.reduce_sum(y)
                size = tf2.sqrt(tf2.reduce_sum(tf2.square(inner.gradient(value, x)), [1, 2, 3]) + 1e-12)
                loss = tf2.reduce_mean(tf2.square(size - 1.0)) + tf2.reduce_mean(y)
            return tape.gradient(loss, filters)
        return [step(images) for _ in range(3)][-1]
    before = dict(tiers.refused)
    for a, b in zip(gradient(True), gradient(None), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert graphs and dict(tiers.refused) == before


def test_conditionals_are_chosen_on_the_device(graphs):
    """Results and updates of a conditional whose condition depends on values."""
    def run(compiled):
        v, count = tf2.Variable([1., 2.]), tf2.Variable(0)

        @tf2.function(jit_compile=compiled)
        def step(x):
            def large():
                v.assign_sub(0.1 * x)
                return tf2.reduce_sum(tf2.sin(x) * v), tf2.constant(7)

            def small():
                count.assign_add(1)
                return tf2.reduce_sum(x), tf2.constant(7)
            total, seven = tf2.cond(tf2.reduce_sum(x) > 1., large, small)
            return total + tf2.reduce_sum(tf2.exp(v)), seven
        found = [step(tf2.constant(x)) for x in ([3., 1.], [0., 0.], [2., -4.], [1., 1.], [0.5, 0.], [5., 5.])]
        return [[float(a), float(b)] for a, b in found], v.numpy(), int(count)
    before = dict(tiers.refused)
    found, v, count = run(True)
    assert graphs and dict(tiers.refused) == before
    wanted, v_wanted, count_wanted = run(None)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(v, v_wanted, rtol=1e-6)
    assert count == count_wanted == 3


@pytest.mark.parametrize("branch", [lambda x: tf2.matmul(x, x), lambda x: x + tf2.random.uniform([2, 2], seed=1)],
                         ids=["products", "streams"])
def test_branches_that_take_long_or_draw_are_not_computed_in_vain(graphs, branch):
    @tf2.function(jit_compile=True)
    def step(x):
        return tf2.cond(tf2.reduce_sum(x) > 0., lambda: branch(x), lambda: x * 2. + tf2.sin(x) - 1.)
    for _ in range(4):
        np.testing.assert_allclose(step(-tf2.ones([2, 2])), -3. + np.sin(-1.) * np.ones([2, 2]), rtol=1e-6)
    (graph,) = graphs
    called = {getattr(n.target, "overloadpacket", None) for n in graph.graph.nodes}
    assert torch.ops.aten.sin in called and not called & {torch.ops.aten.mm, torch.ops.aten.bitwise_xor}


def test_a_scaled_loss_leaves_out_updates_that_overflow(graphs):
    def run(compiled):
        v = tf2.Variable([1., -2.])
        optimizer = tf2.keras.mixed_precision.LossScaleOptimizer(tf2.keras.optimizers.SGD(0.1, momentum=0.5), initial_scale=64.)

        @tf2.function(jit_compile=compiled)
        def step(x):
            with tf2.GradientTape() as tape:
                scaled = optimizer.get_scaled_loss(tf2.reduce_sum(tf2.square(v * x)))
            optimizer.apply_gradients([(optimizer.get_unscaled_gradients(tape.gradient(scaled, [v]))[0], v)])
            return tf2.reduce_sum(v)
        return [float(step(tf2.constant(x))) for x in (1., .5, np.inf, .25, 2., .5)], float(optimizer.loss_scale)
    losses, scale = run(True)
    assert graphs
    wanted, scale_wanted = run(None)
    np.testing.assert_allclose(losses, wanted, rtol=1e-6)
    assert scale == scale_wanted == 32.


def test_constants_are_made_for_updates_and_matrices_inverted(graphs):
    @tf2.function(jit_compile=True)
    def step(x, ids):
        counts = tf2.math.bincount(ids, minlength=3, maxlength=3, dtype=tf2.float32)
        mixed = tf2.tensor_scatter_nd_add(tf2.zeros([3]) * 2., ids[:, None], tf2.ones([4]))
        return tf2.reduce_sum(tf2.linalg.inv(x) * counts) + tf2.reduce_sum(mixed)
    x = np.random.RandomState(0).randn(3, 3).astype("f") + 4 * np.eye(3, dtype="f")
    for _ in range(4):
        found = float(step(tf2.constant(x), tf2.constant([0, 1, 1, 2])))
    np.testing.assert_allclose(found, (np.linalg.inv(x) * [1, 2, 1]).sum() + 4., rtol=1e-5)


def test_unseeded_integers_are_drawn_in_the_graph(graphs):
    """Each call draws again, within the limits."""
    @tf2.function(jit_compile=True)
    def draw(x):
        return tf2.cast(tf2.random.uniform([40], 3, 1000, tf2.int64), tf2.float32) * x + x * 0. - 1.
    x = tf2.ones([40])
    found = np.stack([draw(x).numpy() for _ in range(4)]) + 1.
    assert len(graphs) == 1 and found.min() >= 3 and found.max() < 1000
    assert len({tuple(row) for row in found}) == 4


@pytest.mark.parametrize("order", ["before", "after", "both"])
def test_assignments_around_an_update(graphs, order, caplog):
    """Small variables are updated behind the graph; not those that the graph also assigns."""
    def trained(jit):
        v, w, optimizer = tf2.Variable([3.0, -4.0]), tf2.Variable(0.5), tf2.keras.optimizers.SGD(0.1, momentum=0.9)

        @tf2.function(jit_compile=jit)
        def step(x):
            if order in ("before", "both"):
                v.assign(v / tf2.norm(v))
            with tf2.GradientTape() as tape:
                loss = tf2.reduce_sum(tf2.square(tf2.sin(v * x) * w - 1.0))
            optimizer.apply_gradients(zip(tape.gradient(loss, [v, w]), [v, w], strict=True))
            if order in ("after", "both"):
                v.assign(tf2.tanh(x) * 2.0)
            return loss
        return [float(step(tf2.constant([i + 1.0, 0.5]))) for i in range(5)], [*v.numpy(), w.numpy()]
    with caplog.at_level(logging.INFO, "penstock"):
        losses, last = trained(True)
    assert graphs and "not compiled" not in caplog.text
    wanted, wanted_last = trained(False)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last, wanted_last, rtol=1e-5, atol=1e-6)


def test_products_of_sparse_matrices_are_compiled(graphs):
    edges = tf2.SparseTensor([[0, 1], [1, 0], [1, 2]], [1.0, 2.0, 3.0], [2, 3])

    def trained(jit):
        w = tf2.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

        @tf2.function(jit_compile=jit)
        def step(x):
            with tf2.GradientTape() as tape:
                loss = tf2.reduce_sum(tf2.tanh(tf2.sparse.sparse_dense_matmul(edges, w * x)))
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss
        return [float(step(tf2.constant(0.1))) for _ in range(4)], w.numpy()
    found = trained(True)
    assert graphs
    for a, b in zip(found, trained(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_choices_and_permutations_are_compiled(graphs):
    @tf2.function(jit_compile=True)
    def draw(logits, rows):
        return tf2.random.categorical(logits, 5), tf2.random.shuffle(rows * 2.0) / 2.0 + 0.0
    orders = set()
    for i in range(6):
        logits = np.full([2, 4], -np.inf, "f")
        logits[:, i % 4] = 0.0
        classes, rows = draw(tf2.constant(logits), tf2.range(8.0))
        assert np.all(classes.numpy() == i % 4) and sorted(rows.numpy()) == list(range(8))
        orders.add(tuple(rows.numpy()))
    assert graphs and len(orders) > 1


def test_gradients_of_transforms_are_compiled(graphs):
    @tf2.function(jit_compile=True)
    def of(x):
        with tf2.GradientTape() as tape:
            tape.watch(x)
            y = tf2.reduce_sum(tf2.signal.dct(tf2.tanh(x), norm="ortho") ** 2)
        return tape.gradient(y, x)
    x = np.random.RandomState(0).randn(3, 6).astype("f")
    for _ in range(4):
        found = of(tf2.constant(x)).numpy()
    assert graphs                                         # the transform is orthogonal
    np.testing.assert_allclose(found, 2 * np.tanh(x) * (1 - np.tanh(x) ** 2), rtol=1e-4, atol=1e-5)
