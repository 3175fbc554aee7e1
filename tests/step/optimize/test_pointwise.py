"""Pointwise ops as one, in loops and on large arrays."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.kernels import pointwise, regions

from .steps import config, numbers

pytestmark = pytest.mark.skipif(not pointwise.available(), reason="penstock was installed without a compiler")
N, B, H = 4, 3, 5


@pytest.fixture(autouse=True)
def graph(monkeypatch):
    """A graph of 1.x; without regions, which would take the ops that are counted here."""
    tf.disable_control_flow_v2()
    monkeypatch.setattr(regions, "available", lambda: False)
    with tf.Graph().as_default():
        yield


def looped(body, *start, n=N):
    """The last values of a loop over tensors."""
    loop = tf.while_loop(lambda i, *_: i < n, lambda i, *v: (i + 1, *body(*v)), [tf.constant(0), *map(tf.constant, start)])
    return list(loop[1:])


def source(fetches, **switches):
    with tf.Session(config=config(**switches)) as sess:
        return sess.explain(fetches)


def joined(fetches):
    """How many ops represent several; asserts that values are the same without them, and that the switch turns them off."""
    found = []
    for on in (True, False):
        with tf.Session(config=config(remapping=on)) as sess:
            found.append(sess.run(fetches))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)
    assert "_Pointwise" not in source(fetches, remapping=False)
    return source(fetches).count("_Pointwise ->")


def gated(w):
    """A recurrent cell with an update gate and a reset gate."""
    def body(h):
        r, u = tf.split(tf.sigmoid(tf.matmul(h, w)), 2, 1)
        candidate = tf.tanh(h * r)
        return [u * h + (1 - u) * candidate]
    return body


@pytest.mark.parametrize("dims", [(H, H), (H, 2, H)])
def test_a_vector_chooses_rows_where_there_are_as_many_columns(dims):
    kept = np.arange(H) % 2 == 0
    x = numbers(3, *dims)
    out, = looped(lambda h: [tf.where(tf.constant(kept), tf.tanh(h) * 2.0 + 1.0, h)], x, n=1)
    joined([out])
    with tf.Session() as sess:
        np.testing.assert_allclose(sess.run(out), np.where(kept.reshape(-1, *[1] * (len(dims) - 1)), np.tanh(x) * 2 + 1, x),
                                   rtol=2e-5)


def test_a_cell_and_its_gradient():
    w = tf.constant(numbers(1, H, 2 * H))
    h, = looped(gated(w), numbers(2, B, H))
    loss = tf.reduce_sum(tf.square(h))
    assert joined([h]) == 1
    assert joined([loss, *tf.gradients(loss, [w])]) >= 2


def test_parts_of_an_array_are_read_where_they_are():
    w = tf.constant(numbers(1, H, 4 * H))

    def body(h):
        a, b, c, d = tf.split(tf.matmul(h, w), 4, axis=-1)
        return [tf.tanh(a) * b - c / (2.0 + tf.square(d))]
    out = looped(body, numbers(2, B, H))
    assert joined(out) == 1 and ": Split ->" not in source(out)


def test_a_bias_is_added_where_its_sum_is_used():
    w, b = tf.constant(numbers(1, H, 2 * H)), tf.constant(numbers(2, 2 * H))

    def body(seen):
        def step(h, s):
            z = tf.matmul(h, w) + b
            u, v = tf.split(z, 2, axis=1)
            return [tf.sigmoid(u) * tf.tanh(v), s + tf.reduce_sum(z) if seen else s]
        return step
    alone, others_look = (looped(body(seen), numbers(3, B, H), np.float32(0)) for seen in (False, True))
    assert joined(alone) == 1 and "_FusedMatMul" not in source(alone)
    assert joined(others_look) == 1 and "_FusedMatMul" in source(others_look)


def test_parts_along_another_axis_are_cut():
    def body(h):
        a, b = tf.split(h, 2, axis=0)
        return [tf.concat([tf.tanh(a) * b, a - b], 0)]
    out = looped(body, numbers(2, 2 * B, H))
    assert joined(out) == 1 and ": Split ->" in source(out) and ": ConcatV2 ->" in source(out)


def test_results_side_by_side():
    def body(h):
        a, b = tf.split(h, 2, axis=1)
        s = tf.sigmoid(a) - b
        return [tf.concat([s, -s], 1)]
    out = looped(body, numbers(2, B, 2 * H))
    assert joined(out) == 1 and ": ConcatV2 ->" not in source(out)


def test_rows_for_all_rows_and_sums_of_several():
    row, other = tf.constant(numbers(1, H)), tf.constant(numbers(2, 1, H))

    def body(x, y):
        return [tf.add_n([x * row, y, x - other]), tf.tanh(x)]
    assert joined(looped(body, numbers(3, 2, B, H), numbers(4, 2, B, H))) >= 1


def test_other_shapes_and_types_stay():
    def body(x, y):
        return [tf.tanh(x) * tf.reduce_sum(y, 1, keepdims=True), tf.tanh(y) + 1]
    assert joined(looped(body, numbers(1, B, H), numbers(2, B, 2))) == 2               # columns are repeated; y alone
    assert joined(looped(lambda x: [tf.tanh(x) * x + x], numbers(3, B, H, dtype=np.float64))) == 1
    assert "_Pointwise ->" not in source(looped(lambda x: [tf.tanh(x) * x + x], numbers(3, B, H, dtype=np.float16)))
    assert joined(looped(lambda x: [tf.tanh(x) * x + x], numbers(3, 0, H))) == 0


def test_an_op_between_keeps_others_apart():
    def body(x):
        y = tf.tanh(x) * 2.0
        z = tf.cumsum(y, 1)                        # takes the one, and gives to the other
        return [y * 0.1 + tf.sigmoid(z) * y]
    assert joined(looped(body, numbers(1, B, H))) == 2


def test_more_ops_than_one_takes():
    def body(x, y):
        first = x
        for i in range(70):
            x = [x * 0.9 + y, tf.tanh(x) - first, tf.sigmoid(x) * x, first - x][i % 4]
        return [x, tf.tanh(y)]
    assert joined(looped(body, numbers(1, B, H), numbers(2, B, H))) >= 3


def test_an_op_that_is_waited_for_stays():
    def body(x):
        y = -x
        with tf.control_dependencies([y]):
            z = tf.identity(x * 0.5)
        return [tf.tanh(y) * z + z]
    out = looped(body, numbers(1, B, H))
    assert joined(out) >= 1


def test_conditionals_stay_as_they_are():
    def body(x):
        s = tf.reduce_sum(x)
        return [tf.cond(s > 0, lambda: tf.tanh(x) * x - 1.0, lambda: tf.sigmoid(x) + x * 2.0)]
    assert joined(looped(body, numbers(1, B, H))) == 0


def test_outside_of_loops_nothing_changes():
    x = tf.constant(numbers(1, 50, 60)) + tf.random_uniform([])
    assert "_Pointwise" not in source([tf.tanh(x) * x + tf.sigmoid(x)])


def test_the_same_values_with_shapes_that_only_a_run_knows():
    x = tf.placeholder(tf.float32, [None, H])
    out = tf.while_loop(lambda v: tf.reduce_sum(v) < 1e3, lambda v: [tf.sigmoid(v) * 2.0 + v], [x])
    found = []
    for on in (True, False):
        with tf.Session(config=config(remapping=on)) as sess:
            found.append([sess.run(out, {x: numbers(1, rows, H)}) for rows in (2, 3, 3, 3, 3, 3, 2)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_functional_loops(monkeypatch):
    runs = []
    for kind in (pointwise.Plan, regions.Region):
        monkeypatch.setattr(kind, "run", lambda self, values, run=kind.run: runs.append(self) or run(self, values))
    tf.enable_control_flow_v2()
    w = tf.constant(numbers(1, H, 2 * H))
    h, = looped(gated(w), numbers(2, B, H))
    loss = tf.reduce_sum(tf.square(h))
    found = []
    fetches = [h, loss, *tf.gradients(loss, [w])]
    for on in (True, False):
        with tf.Session(config=config(all=on)) as sess:
            found.append(sess.run(fetches))
    assert len(runs) >= 2 * N
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_saved_values_that_belong_together_are_one_array():
    w = tf.constant(numbers(1, H, 4 * H))

    def body(c, h):
        i, j, f, o = tf.split(tf.matmul(h, w), 4, axis=1)
        c = c * tf.sigmoid(f) + tf.sigmoid(i) * tf.tanh(j)
        return [c, tf.tanh(c) * tf.sigmoid(o)]
    _, h = looped(body, numbers(2, B, H), numbers(3, B, H))
    loss = tf.reduce_sum(tf.square(h))
    fetches = [loss, *tf.gradients(loss, [w])]
    assert joined(fetches) >= 2
    text, apart = source(fetches), source(fetches, remapping=False)
    assert "StackPopV2 -> float32[5,3,5]" in text                           # four gates and tanh(c)
    assert text.count("StackPushV2 ->") == 3 < apart.count("StackPushV2 ->")     # these, the old c, and h
    with tf.Session(config=config(loop_optimization=False)) as off, tf.Session() as on:
        for a, b in zip(on.run(fetches), off.run(fetches), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def drawn(draw, values, w):
    """Some more values from those of a body, all of shape [B, H]: pointwise ops, and others that keep them apart."""
    for _ in range(draw.randint(4, 16)):
        a, b, c = (values[i] for i in draw.randint(0, len(values), 3))
        values.append([
            lambda a, b, c: a + b, lambda a, b, c: a - 0.5 * b, lambda a, b, c: tf.tanh(a) * b, lambda a, b, c: tf.sigmoid(a),
            lambda a, b, c: a * b + c, lambda a, b, c: tf.add_n([a, b, c]) / (2.0 + tf.square(b)), lambda a, b, c: -a,
            lambda a, b, c: a + b[0], lambda a, b, c: tf.tanh(tf.matmul(a, w) + c[0]), lambda a, b, c: tf.cumsum(a, 1) * 0.3,
            lambda a, b, c: tf.split(tf.concat([a * b, tf.tanh(c)], 1), 2, 1)[1],
            lambda a, b, c: tf.add(*tf.split(tf.matmul(tf.concat([a, b], 1), tf.concat([tf.concat([w, w], 0)] * 2, 1)), 2, 1)),
        ][draw.randint(12)](a, b, c))
    return [tf.tanh(values[-1] + tf.matmul(values[0], w)), tf.tanh(values[-2])]


@pytest.mark.parametrize("seed", range(16))
def test_random_bodies_and_their_gradients(seed):
    w = tf.constant(numbers(seed, H, H))
    starts = [numbers(seed + i, B, H) for i in (1, 2)]
    out = looped(lambda *v: drawn(np.random.RandomState(seed), list(v), w), *starts, n=3)
    fetches = [*out, *tf.gradients(out, [w])]
    found = []
    for switches in ({}, {"remapping": False}, {"loop_optimization": False}, {"all": False}):
        with tf.Session(config=config(**switches)) as sess:
            found.append(sess.run(fetches))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


# -- outside of loops -----------------------------------------------------------------------------------------------------
def test_ops_on_large_arrays_are_joined_with_rows_columns_and_numbers():
    x, row, column = (tf.Variable(numbers(i, *shape)) for i, shape in enumerate([(200, 300), (300,), (200, 1)]))
    rate = tf.Variable(0.5)
    y = tf.where(x > 0.0, tf.exp(-x), tf.log1p(tf.abs(x * row))) - column / (rate + 1.0)
    fetches = [y, tf.sqrt(tf.square(y) + 1.0)]
    found = []
    for on in (True, False):
        with tf.Session(config=config(remapping=on)) as sess:
            sess.run(tf.global_variables_initializer())
            found.append(sess.run(fetches))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)
    text = source(fetches)
    assert text.count("_Pointwise ->") == 1 and "Select" not in text and "Greater" not in text


def test_small_arrays_are_not_joined_outside_of_loops():
    x = tf.Variable(numbers(0, 20, 30))
    assert "_Pointwise" not in source([tf.tanh(x) * x + 1.0])


def test_a_comparison_that_is_also_taken_by_another_op_stays():
    x = tf.Variable(numbers(0, 200, 300))
    positive = x > 0.0
    text = source([tf.where(positive, x * 2.0, x + 1.0), tf.reduce_all(positive)])
    assert "Greater" in text


def test_ops_for_one_consumer_are_computed_as_late_as_it_is():
    """An optimizer's moment decays before the gradient is known; both belong to one pass."""
    m, x = tf.Variable(numbers(0, 200, 300)), tf.Variable(numbers(1, 300, 300))
    gradient = tf.matmul(m, x)
    text = source([m * 0.9 + gradient * 0.1])
    assert text.count("_Pointwise ->") == 1 and ": Mul ->" not in text


@pytest.mark.parametrize("shape", [(8, 90, 90, 3), (30000, 1), (20000, 5), (3, 30011)])
@pytest.mark.parametrize("other", ["array", "number", "row", "column"])
def test_rows_of_any_length(shape, other):
    """Without operands that are repeated over rows, all rows are one; with them, short rows are left to ATen."""
    r = np.random.RandomState(0)
    x = r.randn(*shape).astype("f")
    y = {"array": r.randn(*shape), "number": np.array(0.7), "row": r.randn(shape[-1]),
         "column": r.randn(*shape[:-1], 1)}[other].astype("f")
    with tf.Graph().as_default(), tf.Session() as sess:
        a, b = tf.placeholder(tf.float32, x.shape), tf.placeholder(tf.float32, y.shape)
        found = sess.run(tf.tanh(a * b + 0.5) - tf.square(a - b), {a: x, b: y})
    np.testing.assert_allclose(found, np.tanh(x * y + 0.5) - np.square(x - y), rtol=1e-4, atol=1e-5)


# -- rows --------------------------------------------------------------------------------------------------------------
def fed(*shape, seed=0, dtype="float32"):
    """A tensor of known values that no pass folds."""
    return tf.placeholder_with_default(numbers(seed, *shape, dtype=dtype), shape)


def keras_norm(x, gamma, beta):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)


def plain_norm(x, gamma, beta):
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    return centred / tf.sqrt(tf.reduce_mean(centred * centred, -1, keepdims=True) + 1e-3) * gamma + beta


def rms_norm(x, gamma, beta):
    return x * tf.rsqrt(tf.reduce_sum(tf.square(x), -1, keepdims=True) / 64 + 1e-3) * gamma


@pytest.mark.parametrize("norm", [keras_norm, plain_norm, rms_norm])
def test_a_norm_over_rows_and_its_gradient_are_one_pass_each(norm):
    x, gamma, beta, target = fed(4, 80, 64), fed(64, seed=1), fed(64, seed=2), fed(4, 80, 64, seed=3)
    y = norm(x, gamma, beta)
    assert joined([y]) == 1
    grads = tf.gradients(tf.reduce_sum(y * target), [x, gamma])
    assert joined(grads) <= 2
    assert not any(f": {op} ->" in source(grads) for op in ("Mean", "RsqrtGrad", "SqrtGrad", "BroadcastTo"))


@pytest.mark.parametrize("mask", [(20, 80), (5, 20, 80), (3, 1, 1, 80), (3, 1, 20, 80), (1, 5, 1, 80), (3, 5, 20, 80),
                                  (80,)])
def test_masked_softmax_and_its_gradient(mask):
    x, keep, target = fed(3, 5, 20, 80), tf.placeholder_with_default(numbers(1, *mask) > -0.5, mask), fed(3, 5, 20, 80, seed=2)
    y = tf.nn.softmax(tf.where_v2(keep, x / 3.0, -1e9)) + tf.nn.log_softmax(x + tf.cast(keep, tf.float32))
    assert joined([y]) >= 1 and ": Softmax ->" not in source([y]) and ": SelectV2 ->" not in source([y])
    assert joined(tf.gradients(tf.reduce_sum(y * target), [x])) >= 1


def test_gradients_compute_values_again():
    x, target = fed(64, 512), fed(64, 512, seed=1)
    inner = 0.8 * (x + 0.04 * x * x * x)
    grad, = tf.gradients(tf.reduce_sum(0.5 * x * (1.0 + tf.tanh(inner)) * target), [x])
    assert joined([grad]) == 1
    y = tf.matmul(0.5 * x * (1.0 + tf.tanh(inner)), fed(512, 512, seed=2))
    text = source(tf.gradients(tf.reduce_sum(tf.square(y)), [x]))
    first = next(line for line in text.splitlines() if "_Pointwise ->" in line)
    assert first.count("float32[64,512]") == 1                    # nothing is stored but the result


def test_dropout_is_one_pass():
    x = fed(64, 512)
    with tf.Session(config=config()) as sess:
        y = tf.nn.dropout(x, rate=0.25, seed=3)
        loss = tf.reduce_sum(tf.matmul(y, fed(512, 8, seed=1)))
        assert sess.explain([y]).count("_Pointwise ->") == 1
        kept, grad, given = sess.run([y, tf.gradients(loss, [x])[0], x])
    np.testing.assert_allclose(kept[kept != 0], given[kept != 0] / 0.75, rtol=1e-6)
    assert ((grad != 0) == (kept != 0)).all() and 0.2 < (kept == 0).mean() < 0.3


def made_of(rng, values, mask):
    """A random op on some of the values, all of one type."""
    a, b = (values[i] for i in rng.randint(0, len(values), 2))
    row = [tf.reduce_sum, tf.reduce_mean, tf.reduce_max][rng.randint(3)]
    makers = [lambda: a * b, lambda: a - b, lambda: tf.tanh(a), lambda: row(a, -1, keepdims=True), lambda: tf.nn.softmax(a),
              lambda: tf.where_v2(mask, a, b), lambda: tf.cast(a > b, a.dtype) * a, lambda: tf.exp(-tf.square(a)),
              lambda: tf.rsqrt(tf.square(a) + 1.0), lambda: tf.sqrt(tf.abs(a) + 0.5), lambda: tf.erf(a) + b,
              lambda: tf.nn.log_softmax(a), lambda: tf.concat([a, a], -1)[..., 2:2 + int(a.shape[-1])],
              lambda: 1.0 / (2.0 + tf.square(a)), lambda: tf.broadcast_to(row(a, -1, keepdims=True), a.shape) + a,
              lambda: tf.transpose(tf.transpose(a) * 2.0)]
    return makers[rng.randint(len(makers))]()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_with_rows_and_their_gradients(seed, dtype, monkeypatch):
    monkeypatch.setattr("penstock._src.step.optimize.pointwise._LARGE", 1)
    rng = np.random.RandomState(seed)
    shape = tuple(int(n) for n in (rng.randint(1, 4), rng.randint(1, 40), rng.choice([8, 11, 16, 33, 300, 1030])))
    part = shape[int(rng.randint(0, 3)):]
    mask = tf.placeholder_with_default(rng.rand(*part) > 0.4, part) if seed % 2 else fed(*shape, seed=seed) > 0.1
    x = fed(*shape, seed=seed, dtype=dtype)
    values = [x, fed(shape[-1], seed=seed + 1, dtype=dtype), fed(*shape[:-1], 1, seed=seed + 2, dtype=dtype),
              fed(*shape, seed=seed + 3, dtype=dtype)]
    for _ in range(12):
        values.append(made_of(rng, values, mask))
    values = [v for v in values if v.shape.is_fully_defined()]
    loss = tf.add_n([tf.reduce_mean(tf.square(v)) for v in values[-5:]])
    joined([*values[-3:], loss, *[g for g in tf.gradients(loss, [x]) if g is not None]])


def test_an_input_that_fits_only_ops_of_one_column():
    """(N, 1, 1) repeats over (N, 2, 1), and not over the (N, 2, 2) that takes its result per row."""
    n = 1 << 14
    x = tf.placeholder(tf.float32, [n, 2, 2])
    narrow = (tf.reduce_sum(x, -1, keepdims=True) + tf.constant(numbers(3, n, 1, 1))) * 2.0
    out = tf.tanh(x * narrow) + 1.0
    value = numbers(4, n, 2, 2)
    with tf.Session() as sess:
        found = sess.run(out, {x: value})
    wanted = np.tanh(value * ((value.sum(-1, keepdims=True) + numbers(3, n, 1, 1)) * 2)) + 1
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


ODD = [0.0, -0.0, 1e-30, -1e-30, 0.5, -0.5, 1.5, 2.5, 6.0, 20.0, 20.5, -90.0, 90.0, 1e4, -1e4, 3e7, np.inf, -np.inf, np.nan]
ACTIVATIONS = [tf.nn.relu6, tf.nn.leaky_relu, lambda x: tf.nn.leaky_relu(x, 1.5), tf.nn.elu, tf.nn.selu, tf.nn.softplus,
               tf.nn.softsign]
FUNCTIONS = [tf.sin, tf.cos, tf.math.expm1, tf.floor, tf.math.ceil, tf.round, tf.math.rint, tf.sign, lambda x: x ** 3,
             lambda x: x ** 4, lambda x: x ** -1]


@pytest.mark.parametrize("function", [*ACTIVATIONS, *FUNCTIONS])
def test_functions_of_large_arrays_and_their_gradients(function):
    x = 3.0 * numbers(1, 200, 130)
    x.flat[:len(ODD)] = ODD
    fed = tf.placeholder(tf.float32, x.shape)
    y = function(fed) * 2.0
    fetches = [y, *(g for g in tf.gradients(y, [fed]) if g is not None)]
    found = []
    for on in (True, False):
        with tf.Session(config=config(remapping=on)) as sess:
            found.append(sess.run(fetches, {fed: x}))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-6, atol=1e-6)
    assert "_Pointwise" in source(fetches)


def test_comparisons_and_logic_choose_among_large_arrays():
    x, y = fed(200, 130, seed=1), tf.placeholder_with_default(np.round(numbers(2, 200, 130)), [200, 130])
    either = ((x > 0.5) | tf.equal(y, 0.0)) & tf.logical_not(x < -1.0)
    out = tf.where(either, x * 2.0, tf.where(tf.not_equal(y, 1.0), y, x)) + tf.math.divide_no_nan(x, y)
    assert joined([out]) == 1


def test_a_condition_that_is_a_result_leaves_the_other_ops_joined():
    x = fed(200, 130, seed=1)
    a = tf.exp(x) * 0.5
    chosen = a > 1.0
    assert joined([tf.tanh(tf.where(chosen, a + 1.0, x)) - x, tf.reduce_any(chosen, 1)]) >= 1
