"""Convolutions: the public functions against the definition, data formats, gradients, errors, odd sizes."""
import numpy as np
import pytest
import torch

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.kernels import pools, products
from penstock._src.ops.nn import conv
from penstock._src.ops.registry import get
from tests.registry.samples.conv import convolve

rng = np.random.RandomState(5)
X, W = rng.randn(2, 7, 6, 3), rng.randn(3, 2, 3, 4)


@pytest.mark.parametrize("padding", ["SAME", "VALID", [[0, 0], [2, 1], [0, 3], [0, 0]]])
@pytest.mark.parametrize("strides, rate", [(1, 1), (2, 1), ([2, 3], 1), (1, 2), (2, 2)])
def test_conv2d_and_its_gradients(padding, strides, rate):
    s = [strides] * 2 if isinstance(strides, int) else strides
    pads = padding if isinstance(padding, str) else padding[1:3]
    expect = convolve(X, W, s, (rate, rate), pads)
    x, w = tf.constant(X), tf.constant(W)
    direction = rng.randn(*expect.shape)
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        y = tf.nn.conv2d(x, w, strides, padding, dilations=rate)
        loss = tf.reduce_sum(y * direction)
    np.testing.assert_allclose(y.numpy(), expect, atol=1e-10)
    dx, dw = tape.gradient(loss, [x, w])
    for grad, value, f in ((dx, X, lambda v: convolve(v, W, s, (rate, rate), pads)),
                           (dw, W, lambda v: convolve(X, v, s, (rate, rate), pads))):
        v = rng.randn(*value.shape)
        np.testing.assert_allclose((grad.numpy() * v).sum(), (f(v) * direction).sum(), rtol=1e-8)


def test_channels_first_is_the_same():
    y = tf.nn.conv2d(np.moveaxis(X, 3, 1), W, 2, "SAME", data_format="NCHW")
    np.testing.assert_allclose(np.moveaxis(y.numpy(), 1, 3), convolve(X, W, (2, 2), (1, 1), "SAME"), atol=1e-10)


def test_groups():
    """A filter with fewer input channels convolves groups of channels on their own."""
    x, w = rng.randn(1, 4, 4, 4), rng.randn(2, 2, 2, 6)
    expect = np.concatenate([convolve(x[..., :2], w[..., :3]), convolve(x[..., 2:], w[..., 3:])], -1)
    np.testing.assert_allclose(tf.nn.conv2d(x, w, 1, "VALID").numpy(), expect, atol=1e-10)


def test_one_and_three_dimensions():
    x, w = X[:, :, 0], W[:, 0]
    expect = convolve(X[:, :, :1], W[:, :1], (2, 1), (1, 1), "SAME")[:, :, 0]
    np.testing.assert_allclose(tf.nn.conv1d(x, w, 2, "SAME").numpy(), expect, atol=1e-10)
    np.testing.assert_allclose(tf.nn.convolution(x, w, 2, "SAME").numpy(), expect, atol=1e-10)
    first = tf1.nn.conv1d(np.moveaxis(x, 2, 1), w, stride=2, padding="SAME", data_format="NCW")
    np.testing.assert_allclose(np.moveaxis(first.numpy(), 1, 2), expect, atol=1e-10)
    x3, w3 = rng.randn(1, 4, 5, 6, 2), rng.randn(2, 3, 2, 2, 3)
    expect = convolve(x3, w3, (1, 2, 1), (1, 1, 1), "SAME")
    np.testing.assert_allclose(tf.nn.conv3d(x3, w3, [1, 1, 2, 1, 1], "SAME").numpy(), expect, atol=1e-10)
    np.testing.assert_allclose(tf.nn.convolution(x3, w3, [1, 2, 1], "SAME").numpy(), expect, atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_transposes(n, padding):
    """<conv(x), y> = <x, conv_transpose(y)>."""
    x, w = rng.randn(2, *[5, 6, 4][:n], 3), rng.randn(*[3, 2, 2][:n], 3, 4)
    y0 = tf.nn.convolution(x, w, 2, padding)
    y = rng.randn(*y0.shape)
    back = tf.nn.conv_transpose(y, w, x.shape, 2, padding)
    np.testing.assert_allclose((y0.numpy() * y).sum(), (back.numpy() * x).sum(), rtol=1e-8)
    with tf1.Graph().as_default():
        named = {1: tf1.nn.conv1d_transpose, 2: tf1.nn.conv2d_transpose, 3: tf1.nn.conv3d_transpose}[n]
        out = named(tf1.placeholder_with_default(y, [None] * (n + 2)), w, x.shape, 2, padding)
        assert out.shape.as_list() == list(x.shape)
        with tf1.Session() as sess:
            np.testing.assert_allclose(sess.run(out), back.numpy(), atol=1e-10)


def test_dilated():
    expect = convolve(X, W, (1, 1), (2, 2), "SAME")
    np.testing.assert_allclose(tf.nn.atrous_conv2d(X, W, 2, "SAME").numpy(), expect, atol=1e-10)
    with tf1.Graph().as_default() as g:
        tf1.nn.atrous_conv2d(X, W, 2, "SAME")
        assert [op.type for op in g.get_operations() if op.type != "Const"] == ["Conv2D"]
    y = rng.randn(*expect.shape)
    back = tf.nn.atrous_conv2d_transpose(y, W, X.shape, 2, "SAME").numpy()
    np.testing.assert_allclose((expect * y).sum(), (back * X).sum(), rtol=1e-8)
    with pytest.raises(ValueError, match="strides > 1 not supported"):
        tf.nn.convolution(X, W, strides=[2, 2], dilations=[2, 2])


def test_space_to_batch_dilates_any_op():
    def once(x, n, padding):
        return tf.nn.convolution(x, W, padding=padding)
    found = tf.nn.with_space_to_batch(X, [2, 3], "SAME", once, filter_shape=W.shape)
    np.testing.assert_allclose(found.numpy(), convolve(X, W, (1, 1), (2, 3), "SAME"), atol=1e-10)


@pytest.mark.parametrize("multiplier, stride, rate", [(1, 1, 1), (1, 1, 2), (1, 1, 3), (2, 1, 1), (2, 1, 2), (1, 2, 1)])
@pytest.mark.parametrize("window", [(3, 3), (2, 3), (1, 1), (4, 4)])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gradient_of_a_depthwise_input_is_the_adjoint(multiplier, stride, rate, window, padding, dtype):
    """For all x: the product of the gradient with x is that of the result with what the gradient is of."""
    draw = np.random.RandomState(0)
    x, w = draw.randn(2, 11, 12, 5), draw.randn(*window, 5, multiplier)
    steps = [1, stride, stride, 1]
    first = convolve(x, w, (stride, stride), (rate, rate), padding, depthwise=True)
    grad = draw.randn(*first.shape)
    back = get("DepthwiseConv2dNativeBackpropInput")([2, 11, 12, 5], w.astype(dtype), grad.astype(dtype), strides=steps,
                                                     padding=padding, dilations=[1, rate, rate, 1])
    for other in (x, *draw.randn(4, 2, 11, 12, 5)):
        there = (grad * convolve(other, w, (stride, stride), (rate, rate), padding, depthwise=True)).sum()
        np.testing.assert_allclose((back.numpy() * other).sum(), there, **{"float32": {"rtol": 1e-4, "atol": 1e-3},
                                                                       "float64": {"rtol": 1e-9, "atol": 1e-9}}[dtype])


def test_depthwise_and_separable():
    w, point = rng.randn(3, 2, 3, 2), rng.randn(1, 1, 6, 5)
    expect = convolve(X, w, (2, 2), (1, 1), "SAME", depthwise=True)
    np.testing.assert_allclose(tf.nn.depthwise_conv2d(X, w, [1, 2, 2, 1], "SAME").numpy(), expect, atol=1e-10)
    found = tf.nn.separable_conv2d(X, w, point, [1, 2, 2, 1], "SAME")
    np.testing.assert_allclose(found.numpy(), convolve(expect, point), atol=1e-10)
    dilated = tf1.nn.depthwise_conv2d(X, w, [1, 1, 1, 1], "VALID", rate=[2, 2])
    np.testing.assert_allclose(dilated.numpy(), convolve(X, w, (1, 1), (2, 2), "VALID", depthwise=True), atol=1e-10)
    first = tf.nn.depthwise_conv2d(np.moveaxis(X, 3, 1), w, [1, 1, 2, 2], "SAME", data_format="NCHW")
    np.testing.assert_allclose(np.moveaxis(first.numpy(), 1, 3), expect, atol=1e-10)


def test_construction_errors():
    with tf1.Graph().as_default():
        x, w = tf1.placeholder(tf.float32, [None, 4, 4, 3]), tf1.placeholder(tf.float32, [5, 5, 3, 2])
        with pytest.raises(ValueError, match="Negative dimension size caused by subtracting 5 from 4"):
            tf1.nn.conv2d(x, w, 1, "VALID")
        with pytest.raises(ValueError, match=r"3 and 2.*\(.*4, 4, 3\)"):
            tf1.nn.conv2d(x, tf1.placeholder(tf.float32, [1, 1, 2, 2]), 1, "SAME")
        with pytest.raises(ValueError, match="rank 4"):
            tf1.nn.conv2d(tf1.placeholder(tf.float32, [4, 3]), w, 1, "SAME")
        with pytest.raises(tf.errors.UnimplementedError, match="batch and depth"):
            tf1.nn.conv2d(x, w, [2, 1, 1, 1], "SAME")
        with pytest.raises(tf.errors.InvalidArgumentError, match="positive"):
            tf1.nn.conv2d(x, w, [1, 0, 1, 1], "SAME")
        with pytest.raises(ValueError, match="length 1, 2 or 4"):
            tf1.nn.conv2d(x, w, [1, 1, 1], "SAME")
        with pytest.raises(ValueError, match="EXPLICIT"):
            tf1.nn.conv2d(x, w, 1, "EXPLICIT")
        with pytest.raises(TypeError, match="float64.*float32"):
            tf1.nn.conv2d(x, tf.constant(np.ones([1, 1, 3, 2])), 1, "SAME")


def test_run_time_errors():
    """Feeds bypass the shape rules; the kernels check again."""
    x, w = np.ones([1, 4, 4, 3], np.float32), np.ones([2, 2, 3, 2], np.float32)
    same = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    for args, op in (((x, np.ones([2, 2, 2, 2], np.float32)), "Conv2D"), ((x[0], w), "Conv2D"),
                     (([1, 4, 4, 3], w, np.ones([1, 4, 4, 3], np.float32)), "Conv2DBackpropInput"),
                     (([1, 4, -4, 3], w, np.ones([1, 4, 4, 2], np.float32)), "Conv2DBackpropInput"),
                     (([4, 4, 3], w, np.ones([1, 4, 4, 2], np.float32)), "Conv2DBackpropInput"),
                     ((x, [2, 2, 3, 3], np.ones([1, 4, 4, 2], np.float32)), "Conv2DBackpropFilter")):
        with pytest.raises(tf.errors.InvalidArgumentError):
            get(op)(*args, **same)
    with pytest.raises(tf.errors.InvalidArgumentError, match="subtracting"):
        get("Conv2D")(x, np.ones([5, 5, 3, 2], np.float32), strides=[1, 1, 1, 1], padding="VALID")


@pytest.mark.parametrize("shape", [(0, 4, 4, 3), (2, 0, 4, 3), (2, 4, 4, 0)])
def test_empty(shape):
    x, w = tf.zeros(shape), tf.zeros([2, 2, shape[3], 5])
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        y = tf.nn.conv2d(x, w, 1, "SAME")
    assert y.shape == (*shape[:3], 5)
    assert [g.shape for g in tape.gradient(y, [x, w])] == [x.shape, w.shape]


def test_second_derivative():
    x, w = tf.constant(X), tf.constant(W)
    with tf.GradientTape() as outer:
        outer.watch(w)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.nn.conv2d(x, w, 1, "SAME")
            loss = tf.reduce_sum(y * y)
        dx = inner.gradient(loss, x)
        target = tf.reduce_sum(dx * X)                         # = 2 |conv(x, w)|²: quadratic in w
    dw = outer.gradient(target, w).numpy()
    np.testing.assert_allclose((dw * W).sum(), 4 * (convolve(X, W, padding="SAME") ** 2).sum(), rtol=1e-8)


def test_result_is_contiguous_channels_last():
    """No copies: the output of a convolution of NHWC data is NHWC in memory."""
    y = tf.nn.conv2d(X.astype(np.float32), W.astype(np.float32), 1, "SAME")
    assert y._value.is_contiguous()


@pytest.mark.parametrize("data_format, padding", [("NHWC", "SAME"), ("NHWC", "VALID"), ("NCHW", "SAME")])
@pytest.mark.parametrize("depthwise", [False, True])
def test_steps_of_known_shapes_give_the_same(data_format, padding, depthwise):
    """Where all shapes are known when a step is compiled, kernels are made ready for them."""
    draw = np.random.RandomState(0)
    x = draw.randn(*((2, 7, 6, 4) if data_format == "NHWC" else (2, 4, 7, 6))).astype(np.float32)
    w = draw.randn(3, 2, 4, 3).astype(np.float32)

    def results(known):
        with tf.Graph().as_default(), tf1.Session() as sess:
            a, b = (tf1.placeholder(tf.float32, t.shape if known else [None] * 4) for t in (x, w))
            convolve = tf1.nn.depthwise_conv2d_native if depthwise else tf1.nn.conv2d
            y = convolve(a, b, strides=[1, 1, 1, 1], padding=padding, data_format=data_format)
            return sess.run([y, *tf.gradients(tf.square(y), [a, b])], {a: x, b: w})
    for u, v in zip(results(True), results(False), strict=True):
        np.testing.assert_array_equal(u, v)


def test_several_batch_dimensions():
    rng = np.random.RandomState(0)
    x, f = rng.randn(2, 3, 6, 7, 2).astype(np.float32), rng.randn(3, 3, 2, 4).astype(np.float32)
    want = np.stack([tf.nn.conv2d(part, f, 2, "SAME") for part in x])
    out = tf.nn.conv2d(x, f, 2, "SAME")
    assert out.shape == (2, 3, 3, 4, 4)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)
    rows = tf.nn.conv1d(x, f[0], 1, "VALID")
    np.testing.assert_allclose(rows[1, 2], tf.nn.conv1d(x[1, 2], f[0], 1, "VALID"), rtol=1e-5, atol=1e-6)
    raw = tf.raw_ops.Conv(input=x, filter=f, strides=[1, 2, 2, 1], padding="SAME", batch_dims=2)
    np.testing.assert_allclose(raw, want, rtol=1e-5, atol=1e-6)
    with tf.GradientTape(persistent=True) as tape:
        kernel = tf.constant(f)
        tape.watch(kernel)
        a = tf.reduce_sum(tf.raw_ops.Conv(input=x, filter=kernel, strides=[1, 2, 2, 1], padding="SAME", batch_dims=2) ** 2)
        b = tf.reduce_sum(tf.nn.conv2d(x, kernel, 2, "SAME") ** 2)
    np.testing.assert_allclose(tape.gradient(a, kernel), tape.gradient(b, kernel), rtol=1e-5, atol=1e-6)


def test_conv_of_volumes_is_conv3d():
    rng = np.random.RandomState(1)
    x, f = rng.randn(2, 3, 6, 7, 2).astype(np.float32), rng.randn(2, 3, 3, 2, 4).astype(np.float32)
    np.testing.assert_allclose(tf.raw_ops.Conv(input=x, filter=f, strides=[1, 1, 2, 1, 1], padding="SAME"),
                               tf.nn.conv3d(x, f, [1, 1, 2, 1, 1], "SAME"), rtol=1e-5)


@pytest.mark.parametrize("shape, out", [((2, 5, 7, 3), 4), ((1, 1, 1, 1), 1), ((3, 4, 4, 40), 33), ((2, 3, 2, 5, 6), 8),
                                        ((0, 4, 4, 3), 2), ((2, 0, 4, 3), 2)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pointwise_convolutions_are_products(shape, out, dtype):
    r = np.random.RandomState(0)
    x = tf.constant(r.randn(*shape).astype(dtype))
    window = [1] * (len(shape) - 2)
    w = tf.constant(r.randn(*window, shape[-1], out).astype(dtype))
    g = r.randn(*shape[:-1], out).astype(dtype)
    convolve = tf.nn.conv2d if len(shape) == 4 else tf.nn.conv3d
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        y = convolve(x, w, strides=[1] * len(shape), padding="SAME")
        loss = tf.reduce_sum(y * g)
    dx, dw = tape.gradient(loss, [x, w])
    matrix = w.numpy().reshape(shape[-1], out)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(y, x.numpy() @ matrix, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(dx, g @ matrix.T, rtol=tolerance, atol=tolerance)
    flat = x.numpy().reshape(-1, shape[-1]).T @ g.reshape(-1, out)
    np.testing.assert_allclose(dw, flat.reshape(w.shape), rtol=10 * tolerance, atol=10 * tolerance)


def test_pointwise_convolution_of_a_view_with_bias_and_relu():
    r = np.random.RandomState(1)
    x, w, b = r.randn(2, 6, 4, 5).astype("f"), r.randn(1, 1, 5, 3).astype("f"), r.randn(3).astype("f")
    x[0, 0, 0, 0] = np.nan

    @tf.function
    def f(x, w, b):
        turned = tf.transpose(x, [0, 2, 1, 3])[:, ::2]
        return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(turned, w, 1, "VALID"), b))
    for _ in range(3):
        found = f(tf.constant(x), tf.constant(w), tf.constant(b)).numpy()
    product = x.transpose(0, 2, 1, 3)[:, ::2] @ w[0, 0] + b
    np.testing.assert_allclose(found, np.where(product <= 0, 0, product), rtol=1e-5, atol=1e-5)
    assert np.isnan(found[0, 0, 0]).all()


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_convolution_over_several_batch_dimensions(data_format):
    if data_format == "NCHW":
        x, w = np.ones([2, 3, 4, 6, 5], "f"), np.ones([3, 2, 4, 7], "f")
    else:
        x, w = np.random.RandomState(2).randn(2, 3, 6, 5, 4).astype("f"), np.random.RandomState(3).randn(3, 2, 4, 7).astype("f")
    found = tf.nn.convolution(x, w, padding="SAME", data_format=data_format, dilations=2).numpy()
    flat = tf.nn.convolution(x.reshape(6, *x.shape[2:]), w, padding="SAME", data_format=data_format, dilations=2).numpy()
    np.testing.assert_allclose(found, flat.reshape(2, 3, *flat.shape[1:]), rtol=1e-6)
    with pytest.raises(ValueError, match="rank 4 at least"):
        tf.nn.convolution(x[0, 0], w)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_gradients_of_few_channels_are_sums_of_windows(n, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    space, window = rng.integers(4, 12, n).tolist(), rng.integers(1, 5, n).tolist()
    channels, steps, padding = int(rng.integers(1, 5)), rng.integers(1, 4, n).tolist(), ("SAME", "VALID")[seed % 2]
    space = [max(s, k) for s, k in zip(space, window, strict=True)]
    out = max(8, -(-int(np.prod(window)) * channels // 4))
    x = rng.standard_normal((3, *space, channels), dtype=np.float32)
    w = tf.constant(rng.standard_normal((*window, channels, out), dtype=np.float32))
    plan = conv._make_plan("Conv", x.shape, tuple(w.shape), (1, *steps, 1), padding, (), "NHWC" if n == 2 else "NDHWC",
                           (1,) * (n + 2), False)
    grad = torch.from_numpy(rng.standard_normal(plan.result, dtype=np.float32))
    grad[0, 0] = torch.nan if seed == 3 else torch.inf if seed == 4 else 1.0
    assert plan.few
    monkeypatch.setattr(conv, "_COLUMNS", 1 << 9)                # some images at once
    called = []
    usual = pools.add_windows
    monkeypatch.setattr(pools, "add_windows", lambda *args: (called.append(args), usual(*args)))
    weights = plan.weights(torch.from_numpy(w.numpy()))
    found = plan.to_input(weights, plan.enter(grad))
    assert called or not pools.available()
    monkeypatch.setattr(pools, "takes_windows", lambda *_: False)
    np.testing.assert_allclose(found, plan.to_input(weights, plan.enter(grad)), rtol=1e-4, atol=1e-4)


def test_transposed_convolutions_to_few_channels_in_vmap_and_steps():
    x, w = tf.random.stateless_normal([4, 5, 5, 16], [1, 2]), tf.random.stateless_normal([3, 3, 1, 16], [3, 4])

    def up(x):
        return tf.nn.conv2d_transpose(x, w, [4, 10, 10, 1], 2)
    one = tf.vectorized_map(lambda x: tf.nn.conv2d_transpose(x[None], w, [1, 10, 10, 1], 2)[0], x)
    np.testing.assert_allclose(up(x), one, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(up(x), tf.function(up)(x), rtol=1e-5)


@pytest.mark.parametrize("dilations", [1, 2])
def test_convolutions_of_integers(dilations):
    x, w = np.arange(100).reshape(2, 5, 5, 2) % 7, np.arange(24).reshape(2, 2, 2, 3) - 9

    def both(kind):
        y = tf.nn.conv2d(tf.constant(x, kind), tf.constant(w, kind), 1, "VALID", dilations=dilations)
        back = tf.nn.conv2d_transpose(y, tf.constant(w, kind), x.shape, 1, "VALID", dilations=dilations)
        return y, back
    for traced in (both, tf.function(both)):
        for found, expected in zip(traced(tf.int32), both(tf.float64), strict=True):
            assert found.dtype == tf.int32
            np.testing.assert_array_equal(found, expected)


@pytest.fixture
def filled_memory():
    """New tensors contain NaN until they are written."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@pytest.mark.parametrize("sides, size, stride", [((2, 2, 2), 3, 1), ((2, 4, 8), 3, 1), ((3, 8, 4), 5, 1), ((3, 3, 4), 5, 2)])
def test_filter_gradients_of_volumes_in_bfloat16_read_no_unwritten_memory(filled_memory, sides, size, stride):
    draw = np.random.RandomState(0)
    for channels, filters in ((4, 4), (16, 32), (32, 32)):
        x, w = (tf.constant(draw.randn(*shape), tf.bfloat16)
                for shape in ((2, *sides, channels), (size, size, size, channels, filters)))
        found = []
        for dtype in (tf.bfloat16, tf.float32):
            with tf.GradientTape() as tape:
                a, b = tf.cast(x, dtype), tf.cast(w, dtype)
                tape.watch(b)
                y = tf.reduce_sum(tf.nn.conv3d(a, b, [1, stride, stride, stride, 1], "SAME"))
            found.append(np.asarray(tape.gradient(y, b), np.float32))
        np.testing.assert_allclose(*found, rtol=0.02)


@pytest.mark.parametrize("has_kernels", [False, True])
def test_convolutions_of_float16(has_kernels, monkeypatch):
    """Results and gradients are those of float32, rounded, whether or not the processor multiplies float16."""
    monkeypatch.setattr(products, "_multiplies_float16", lambda: has_kernels)
    draw = np.random.RandomState(0)
    x, w = draw.randn(2, 7, 7, 3).astype("e"), draw.randn(3, 3, 3, 5).astype("e")

    def run(dtype):
        a, b = tf.constant(x, dtype), tf.constant(w, dtype)
        with tf.GradientTape() as tape:
            tape.watch([a, b])
            y = tf.nn.conv2d(a, b, 2, "SAME")
        return [y, *tape.gradient(y, [a, b])]
    for found, wanted in zip(run("float16"), run("float32"), strict=True):
        assert found.dtype == tf.float16
        np.testing.assert_allclose(np.array(found, "f"), wanted, rtol=1e-2, atol=3e-2)


@pytest.mark.parametrize("padding", ["SAME", [[0, 0], [1, 2], [3, 4], [0, 0]], [(0, 0), [2, 0], (0, 1), (0, 0)]])
def test_parts_of_depthwise_convolutions_take_explicit_paddings(padding):
    x = tf.reshape(tf.range(60.0), [1, 5, 6, 2])
    w = tf.reshape(tf.range(24.0), [2, 3, 2, 2])
    with tf.GradientTape() as tape:
        tape.watch((x, w))
        y = tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], padding)
    grad = tf.cos(y)
    to_x, to_w = tape.gradient(y, (x, w), output_gradients=grad)
    np.testing.assert_allclose(tf1.nn.depthwise_conv2d_native(x, w, [1, 1, 1, 1], padding), y, rtol=1e-5)
    np.testing.assert_allclose(tf.nn.depthwise_conv2d_backprop_input(x.shape, w, grad, [1, 1, 1, 1], padding), to_x, rtol=1e-4)
    np.testing.assert_allclose(tf.nn.depthwise_conv2d_backprop_filter(x, w.shape, grad, [1, 1, 1, 1], padding), to_w, rtol=1e-4,
                               atol=1e-3)
