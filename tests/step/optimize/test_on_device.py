"""Pointwise fusion on GPUs. Here the pass takes the host for a GPU, and plans call ATen for each step; `-m gpu` runs the
kernels."""
import functools

import numpy as np
import pytest
import torch

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.kernels import device_plan
from penstock._src.step.optimize import fusion, memory, on_device, pipeline

K, L = tf.keras, tf.keras.layers
HOST = {"join_pointwise", "join_regions", "join_small", "save_together"}


@pytest.fixture
def plans(monkeypatch):
    """The plans that were made."""
    made, usual = [], device_plan.Plan.__init__

    def noted(self, *arguments):
        usual(self, *arguments)
        made.append(self)
    monkeypatch.setattr(on_device, "_is_on_gpu", lambda op: True)
    monkeypatch.setattr(device_plan.Plan, "__init__", noted)
    monkeypatch.setattr(pipeline, "PASSES", tuple(p for p in pipeline.PASSES if p[1].__name__ not in HOST))
    return made


def without(monkeypatch):
    monkeypatch.setattr(pipeline, "PASSES", tuple(p for p in pipeline.PASSES if p[1] is not on_device.join_on_device))


def gelu(x):
    return 0.5 * x * (1.0 + tf.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def normalized(x):
    m, v = tf.nn.moments(x, [-1], keepdims=True)
    return (x - m) * tf.math.rsqrt(v + 1e-5)


def attention(x):
    scores = tf.matmul(x, x, transpose_b=True) * tf.constant(0.125, x.dtype)
    mask = tf.linalg.band_part(tf.ones([x.shape[-2], x.shape[-2]], x.dtype), -1, 0)
    return tf.matmul(tf.nn.softmax(tf.where(mask > 0, scores, tf.constant(-1e4, x.dtype))), x)


STEPS = {
    "gelu": gelu, "normalized": normalized, "attention": attention,
    "rms": lambda x: x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-6),
    "casts": lambda x: tf.cast(tf.cast(tf.exp(x), tf.bfloat16) * 3 + 1, tf.float32) - tf.cast(x > 0.1, tf.float32),
    "masks": lambda x: tf.where(tf.logical_and(x > -0.5, tf.logical_not(tf.equal(x, 0.0))), x, 0.0 * x) + tf.nn.relu(x),
    "rows": lambda x: x / tf.reduce_sum(tf.abs(x), -1, keepdims=True) + tf.reduce_max(x, -1, keepdims=True),
    "columns": lambda x: (x + tf.reduce_mean(x, 0)) * tf.sigmoid(x[:1]) - tf.math.log1p(tf.abs(x)),
    "integers": lambda x: x * tf.cast(tf.range(x.shape[-1]), x.dtype) + tf.cast(tf.argmax(x, -1), x.dtype)[..., None],
    "bias": lambda x: tf.nn.relu(tf.nn.bias_add(x, tf.reduce_sum(x, list(range(len(x.shape) - 1))))) * 2.0,
    "gated": lambda x: tf.nn.silu(x) * x + tf.math.softplus(-x),
}


def run(step, x, dtype):
    @tf.function
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = step(x)
            weights = np.random.RandomState(1).randn(*y.shape)
            loss = tf.reduce_sum(tf.cast(y, tf.float32) * tf.constant(weights, tf.float32))
        return y, tape.gradient(loss, x)
    return [np.asarray(tf.cast(t, tf.float32)) for t in f(tf.constant(x, dtype))]


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float16], ids=lambda d: d.name)
@pytest.mark.parametrize("name", STEPS)
def test_values_and_gradients_are_those_of_separate_ops(name, dtype, plans, monkeypatch):
    x = np.random.RandomState(0).randn(3, 8, 16)
    found = run(STEPS[name], x, dtype)
    assert sum(len(p.terms) for p in plans) > 3
    without(monkeypatch)
    expected = run(STEPS[name], x, dtype)
    tolerance = 1e-5 if dtype == tf.float32 and name != "casts" else 2e-2         # which computes in half precision, too
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())


def trained(steps=3):
    tf.random.set_seed(1)
    model = K.Sequential([L.Dense(16, "gelu"), L.LayerNormalization(), L.Dense(8, "relu"), L.BatchNormalization(), L.Dense(3)])
    optimizer = K.optimizers.Adam(0.01)
    x = tf.constant(np.random.RandomState(0).randn(8, 6), tf.float32)
    y = tf.constant([0, 1, 2, 1, 0, 2, 1, 0])
    model(x)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(K.losses.sparse_categorical_crossentropy(y, model(x, training=True), from_logits=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss
    return [float(step(x, y)) for _ in range(steps)], [v.numpy() for v in model.variables]


def test_training_is_the_same(plans, monkeypatch):
    losses, values = trained()
    assert plans
    without(monkeypatch)
    plain_losses, plain_values = trained()
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-4)
    for a, b in zip(values, plain_values, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def normalized_images(x, scale, offset, dtype, form):
    """A block with batch norm: its result, the moments, and all gradients."""
    @tf.function
    def f(x, scale, offset):
        with tf.GradientTape() as tape:
            tape.watch([x, scale, offset])
            y, mean, variance = tf1.nn.fused_batch_norm(tf.cast(x, dtype), scale, offset, epsilon=1e-3, data_format=form)
            y = tf.nn.relu(y + tf.cast(x, dtype))
            weights = tf.constant(np.random.RandomState(3).randn(*y.shape), tf.float32)
            loss = tf.reduce_sum(tf.cast(y, tf.float32) * weights)
        return y, mean, variance, *tape.gradient(loss, [x, scale, offset])
    return [np.asarray(tf.cast(t, tf.float32)) for t in f(x, scale, offset)]


def images(form="NHWC", far=0.0):
    r = np.random.RandomState(0)
    x = r.randn(4, 5, 6, 8) * r.rand(8) + far
    scale, offset = r.rand(8) + 0.5, r.randn(8)
    return [tf.constant(v, tf.float32) for v in (x if form == "NHWC" else x.transpose(0, 3, 1, 2), scale, offset)]


@pytest.fixture
def apart(monkeypatch):
    """Batch norm as its parts."""
    monkeypatch.setattr(fusion.Fusing, "on_host", lambda self, op: "BatchNorm" not in op.type)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float16], ids=lambda d: d.name)
def test_batch_norm_and_its_neighbours_are_four_kernels(dtype, plans, apart, monkeypatch):
    found = normalized_images(*images(), dtype, "NHWC")
    large = [p for p in plans if p.dims == (4, 5, 6, 8)]
    assert len(large) <= 4 and sum(any(p.per_column) for p in large) == 2
    without(monkeypatch)
    monkeypatch.setattr(fusion.Fusing, "on_host", lambda self, op: True)
    expected = normalized_images(*images(), dtype, "NHWC")
    tolerance = 1e-5 if dtype == tf.float32 else 2e-2
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())


def test_a_large_mean_does_not_cancel_the_variance(plans, apart):
    x, scale, offset = images(far=3000.0)
    _, mean, variance, *_ = normalized_images(x, scale, offset, tf.float32, "NHWC")
    exact = x.numpy().astype(np.float64).reshape(-1, 8)
    np.testing.assert_allclose(mean, exact.mean(0), rtol=1e-6)
    np.testing.assert_allclose(variance, exact.var(0, ddof=1), rtol=1e-4)


def test_batch_norm_with_channels_first_stays_one_op(plans, apart):
    normalized_images(*images("NCHW"), tf.float32, "NCHW")
    assert not any(any(p.per_column) for p in plans)


def test_sums_of_columns_of_one_array_are_one_kernel(plans):
    f = tf.function(lambda x, y: (tf.reduce_sum(x, [0, 1]), tf.reduce_mean(x * y, [0, 1]), tf.reduce_sum(x - y, [0, 1], True)))
    x, y = (np.random.RandomState(i).randn(3, 4, 5).astype("f") for i in (0, 1))
    found = f(x, y)
    assert len(plans) == 1 and plans[0].per_column == [True, True, True]
    for a, b in zip(found, (x.sum((0, 1)), (x * y).mean((0, 1)), (x - y).sum((0, 1))[None, None]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_softmax_is_one_kernel(plans):
    f = tf.function(lambda x: tf.nn.softmax(x * 2.0 + 1.0) * 0.5)
    f(tf.ones([4, 8]))
    assert len(plans) == 1 and len(plans[0].results) == 1


def test_variables_are_read_before_they_change(plans):
    v = tf.Variable([1.0, 2.0, 3.0])

    @tf.function
    def f():
        before = v.read_value()
        doubled = before * 2.0 + 1.0
        v.assign_add([1.0, 1.0, 1.0])
        return doubled - tf.exp(before), v.read_value() * 3.0 + before
    for i in range(3):
        old = np.array([1.0, 2.0, 3.0]) + i
        a, b = f()
        np.testing.assert_allclose(a, old * 2 + 1 - np.exp(old), rtol=1e-6)
        np.testing.assert_allclose(b, (old + 1) * 3 + old, rtol=1e-6)


def test_fetches_and_feeds_inside_a_group(plans):
    with tf1.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf1.float32, [2, 3])
        a = tf1.exp(x)
        b = a * 2.0
        c = tf1.tanh(b) + a
        value = np.random.RandomState(0).rand(2, 3)
        for _ in range(2):
            found = session.run([a, c], {x: value})
            np.testing.assert_allclose(found[0], np.exp(value), rtol=1e-6)
            np.testing.assert_allclose(found[1], np.tanh(2 * np.exp(value)) + np.exp(value), rtol=1e-6)
            np.testing.assert_allclose(session.run(c, {b: value, a: value}), np.tanh(value) + value, rtol=1e-6)
    assert plans


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("name", STEPS)
def test_on_a_gpu(name, dtype, monkeypatch):
    monkeypatch.setenv("PENSTOCK_TIER", "2")
    x = np.random.RandomState(0).randn(3, 8, 16)
    expected = run(STEPS[name], x, dtype)
    with tf.device("/gpu:0"):
        found = run(STEPS[name], x, dtype)
    tolerance = 2e-3 if dtype == tf.float32 else 4e-2
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())


def test_values_that_others_need_are_computed_where_most_of_them_are_used(plans, monkeypatch):
    """The activation that a gradient computes again is also an argument of the product for the weights' gradient."""
    r = np.random.RandomState(0)
    x, w, v = (tf.constant(r.randn(*s), tf.float32) for s in ((16, 8), (8, 8), (8, 8)))

    def step(x, w, v):
        with tf.GradientTape() as tape:
            tape.watch([w, v])
            y = tf.matmul(gelu(tf.matmul(x, w)), v)
            loss = tf.reduce_sum(y * y)
        return tape.gradient(loss, [w, v])
    monkeypatch.setattr(on_device, "at_peak", lambda step: 0)
    found = [g.numpy() for g in tf.function(step)(x, w, v)]
    assert max(len(p.terms) for p in plans) > 12 and len(plans) <= 3
    without(monkeypatch)
    for a, b in zip(found, tf.function(step)(x, w, v), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())


def test_groups_that_depend_on_each_other_through_other_ops_stay_separate(plans, monkeypatch):
    def step(x):
        a = tf.tanh(x) * 2.0 + 1.0
        b = tf.matmul(a, a, transpose_b=True)              # between two groups of one shape
        return tf.tanh(b) * a + a
    x = np.random.RandomState(0).randn(8, 8).astype("f")
    found = tf.function(step)(x).numpy()
    assert len(plans) == 2
    without(monkeypatch)
    np.testing.assert_allclose(found, tf.function(step)(x), rtol=1e-5, atol=1e-5 * np.abs(found).max())


def entropies(labels):
    @tf.function
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            logits = tf.cast(x, tf.float32)
            kind = tf.nn.sparse_softmax_cross_entropy_with_logits if labels.dtype.is_integer else \
                tf.nn.softmax_cross_entropy_with_logits
            each = kind(labels=labels, logits=logits)
            loss = tf.reduce_mean(each * tf.constant([[0.5, 1.0, 2.0], [1.0, 3.0, 0.1]]))
        return each, tf.cast(tape.gradient(loss, x), tf.float32)
    return f


@pytest.mark.parametrize("labels", [np.array([[0, 3, 9], [4, 4, 1]]), np.array([[0, 3, 10], [-1, 4, 1]], np.int32),
                                    np.random.RandomState(1).dirichlet([1.0] * 10, [2, 3]).astype("f")],
                         ids=["numbers", "out of range", "distributions"])
def test_a_cross_entropy_and_its_gradient_are_one_kernel(labels, plans, monkeypatch):
    x = tf.constant(np.random.RandomState(0).randn(2, 3, 10), tf.bfloat16)
    monkeypatch.setattr(fusion.Fusing, "on_host", lambda self, op: "Entropy" not in op.type and op.type != "Cast")
    found = entropies(tf.constant(labels))(x)
    of_rows = [p for p in plans if p.dims == (6, 10)]
    assert len(of_rows) == 1 and of_rows[0].per_row == [True, False]
    without(monkeypatch)
    monkeypatch.setattr(fusion.Fusing, "on_host", lambda self, op: True)
    fine = np.isfinite(found[0].numpy())
    assert fine.sum() == (4 if labels.min() < 0 else 6)
    inside = np.where(labels < 10, np.maximum(labels, 0), 0) if labels.dtype.kind == "i" else labels
    expected = entropies(tf.constant(inside))(x)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy()[fine], b.numpy()[fine], rtol=2e-2, atol=1e-3)
        assert np.isnan(a.numpy()[~fine]).all()


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64], ids=lambda d: d.name)
def test_cross_entropies_of_every_type(dtype, plans, monkeypatch):
    """Also of large logits, and of rows that have infinite ones."""
    logits = np.random.RandomState(0).randn(5, 7) * 20
    logits[1, 2], logits[2, 3], logits[4] = -np.inf, 6e4, -300.0
    labels, shares = np.array([1, 0, 3, 6, 2]), np.eye(7)[[1, 0, 3, 6, 2]] * 0.5 + 0.5 / 7
    some = tf.constant(shares[2:], dtype)
    f = tf.function(lambda x: (*tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=tf.constant(labels)),
                               *tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=x[2:], labels=some)))
    monkeypatch.setattr(fusion.Fusing, "on_host", lambda self, op: "Entropy" not in op.type)
    found = f(tf.constant(logits, dtype))
    assert bool(plans) is (dtype != tf.float64)
    x = np.asarray(tf.cast(tf.constant(logits, dtype), tf.float64))
    p = np.exp(x - x.max(-1, keepdims=True))
    log_p = x - x.max(-1, keepdims=True) - np.log(p.sum(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    expected = -log_p[np.arange(5), labels], p - np.eye(7)[labels], -(shares * log_p)[2:].sum(-1), (p - shares)[2:]
    tolerance = {tf.float16: 5e-3, tf.bfloat16: 2e-2}.get(dtype, 1e-5)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(np.asarray(tf.cast(a, tf.float64)), b, rtol=tolerance, atol=tolerance)


def test_a_bias_is_added_by_the_product_before_a_reshape(plans, monkeypatch):
    layer = L.Dense(6)
    x = tf.constant(np.random.RandomState(0).randn(2, 3, 4), tf.float32)
    expected = layer(x).numpy()
    layer.bias.assign(np.arange(6.0))
    f = tf.function(lambda x: tf.transpose(layer(x), [1, 0, 2]))
    monkeypatch.setattr(fusion.Fusing, "on_host", lambda self, op: op.type not in ("BiasAdd", "MatMul"))
    np.testing.assert_allclose(f(x), (expected + np.arange(6.0)).transpose(1, 0, 2), rtol=1e-5)
    explained = f.explain(x)
    assert "_FusedMatMul" in explained and ": BiasAdd" not in explained


def test_values_that_casts_make_are_computed_again(plans):
    """Two kernels with a product between them need one value in single precision: both make it of the shorter one."""
    x = tf.constant(np.random.RandomState(0).randn(8, 8), tf.bfloat16)

    @tf.function
    def f(x):
        wide = tf.cast(x, tf.float32) - 1.0
        weights = tf.nn.softmax(tf.matmul(tf.exp(wide), tf.exp(wide), transpose_b=True) * 0.1)
        return tf.exp(wide) * 2.0, wide * weights + weights
    first, second = f(x)
    wide = np.asarray(tf.cast(x, tf.float32)) - 1.0
    product = np.exp(wide) @ np.exp(wide).T * 0.1
    weights = np.exp(product - product.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(first, np.exp(wide) * 2, rtol=1e-5)
    np.testing.assert_allclose(second, wide * weights + weights, rtol=1e-4, atol=1e-5)
    given = [d for p in plans for d, s in p.given if s == (8, 8)]
    assert given.count(torch.bfloat16) == 2 and given.count(torch.float32) == 1


class Place:
    """A GPU, for passes that ask for the device of an op."""
    kernel_type, host = "gpu", False


def on_gpu(run):
    """A pass that finds all ops on a GPU."""
    def placed(step):
        for op in step.ops:
            op.place = PLACE
        run(step)
        for op in step.ops:
            op.place = None
    return functools.wraps(run)(placed)


PLACE = Place()
MADE = [
    lambda a, b, dtype: tf.nn.relu(a) + b,
    lambda a, b, dtype: a * tf.sigmoid(b),
    lambda a, b, dtype: tf.cast(normalized(tf.cast(a, tf.float32)), dtype),
    lambda a, b, dtype: a - tf.reduce_mean(b, 0),
    lambda a, b, dtype: tf.nn.softmax(a) * b,
    lambda a, b, dtype: tf.tanh(a + tf.reduce_sum(b, -1, True)),
    lambda a, b, dtype: tf.cast(tf.cast(a, tf.float32) * 0.5, dtype) - b,
    lambda a, b, dtype: tf.nn.gelu(a),
]


def network(seed, halves):
    """A step of a network of random elementwise ops, reductions and products."""
    draw = np.random.RandomState(seed)
    x = tf.constant(draw.randn(16, 16), tf.float32)
    weights = [tf.Variable(draw.randn(16, 16).astype("f") * 0.3) for _ in range(3)]
    kinds = [draw.randint(len(MADE), size=6) for _ in weights]

    def block(h, w, kinds, dtype):
        values = [tf.cast(h, dtype)]
        for k in kinds:
            values.append(MADE[k](values[-1], values[k % len(values)], dtype))
        return h + tf.cast(tf.matmul(values[-1], tf.cast(w, dtype)), tf.float32)

    def step():
        with tf.GradientTape() as tape:
            h = x
            for i, (w, k) in enumerate(zip(weights, kinds, strict=True)):
                h = block(h, w, k, tf.bfloat16 if halves and i % 2 else tf.float32)
            loss = tf.reduce_sum(tf.square(normalized(h)) * x)
        return [loss, *tape.gradient(loss, weights)]
    return [t.numpy() for t in tf.function(step)()]


@pytest.mark.parametrize("halves", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("seed", range(18, 24))
def test_random_networks_keep_their_values(seed, halves, plans, monkeypatch):
    """With what saves memory, too: values that are computed again come behind what they need. In half precision, kernels are
    not farther from single precision than separate ops, which round more often."""
    usual = pipeline.PASSES
    without(monkeypatch)
    exact, expected = network(seed, False), network(seed, halves)
    assert not plans
    monkeypatch.setattr(memory, "_concerned", lambda step: not step.has_control_flow)
    for name in ("_LARGE", "_LEAST"):
        monkeypatch.setattr(memory, name, 1)
    device = {"release_early", "recompute_cheap", "join_on_device"}
    monkeypatch.setattr(pipeline, "PASSES", tuple((s, on_gpu(p) if p.__name__ in device else p) for s, p in usual))
    found = network(seed, halves)
    assert plans
    far = max(np.abs(b - c).max() / np.abs(c).max() for b, c in zip(expected, exact, strict=True))
    for a, c in zip(found, exact, strict=True):
        np.testing.assert_allclose(a, c, rtol=1e-4, atol=(3 * far + 1e-4) * np.abs(c).max())


def test_kernels_that_need_each_other_are_not_used(plans, monkeypatch, caplog):
    expected = network(20, False)
    usual = on_device.StepGraph.replace_groups

    def broken(step, instead, by):
        usual(step, instead, by)
        raise on_device.Cycle("a waits for itself")
    monkeypatch.setattr(on_device.StepGraph, "replace_groups", broken)
    for a, b in zip(network(20, False), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())
    assert plans and "a waits for itself" in caplog.text
