"""Gradient codecs, error feedback and the optimizers around others: properties, numpy references, and bytes on the wire."""
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.models.compression.arrays import ArrayCodec, RememberingCodec
from penstock._src.models.compression.codec import KINDS, as_codec, described, number_of_bytes
from penstock._src.models.compression.memory import Compressor
from tests.cluster.conftest import cluster  # noqa: F401

C = tf.distribute.experimental.compression
CODECS = [C.NoCompression(), C.Bfloat16(), C.Float16(), C.Int8(), C.OneBit(), C.OneBit(block=8), C.Ternary(), C.Ternary(0.5),
          C.TopK(0.1), C.TopK(0.3, values="float16"), C.TopK(0.3, values=C.Int8()), C.Threshold(0.5),
          C.Threshold(0.25, relative=True)]
LOSSY = [c for c in CODECS if c.lossy]
elements = st.floats(-100, 100, width=32, allow_subnormal=False)
numbers = hnp.arrays(np.float32, st.integers(0, 70), elements=elements)
quick = settings(max_examples=20, deadline=None)


def there_and_back(codec, x):
    parts = codec.encode(tf.constant(x))
    return codec.decode(parts, len(x), tf.float32).numpy(), parts


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@quick
@given(numbers)
def test_shape_type_and_counted_bytes(codec, x):
    came, parts = there_and_back(codec, x)
    assert came.shape == x.shape and came.dtype == np.float32 and np.isfinite(came).all()
    assert number_of_bytes(parts).numpy() == sum(p.numpy().nbytes for p in parts)


@quick
@given(numbers)
def test_precision_bounds(x):
    for codec, relative, least in ((C.Bfloat16(), 2.0 ** -8, 0), (C.Float16(), 2.0 ** -11, 2.0 ** -24)):
        came, parts = there_and_back(codec, x)
        assert (np.abs(came - x) <= np.abs(x) * relative + least).all() and parts[0].dtype.size == 2


def test_float16_cuts_what_is_too_large_and_keeps_what_is_not_finite():
    came, _ = there_and_back(C.Float16(), np.array([1e6, -1e6, np.inf, np.nan], np.float32))
    np.testing.assert_array_equal(came, [65504, -65504, np.inf, np.nan])


@quick
@given(numbers)
def test_int8_is_off_by_half_a_step(x):
    came, parts = there_and_back(C.Int8(), x)
    assert (np.abs(came - x) <= np.abs(x).max(initial=0) / 254 * 1.001).all() and parts[0].dtype == tf.int8


@quick
@given(numbers, st.integers(1, 40))
def test_one_bit_keeps_the_sum_of_blocks_and_the_signs(x, block):
    came, parts = there_and_back(C.OneBit(block), x)
    for at in range(0, len(x), block):
        np.testing.assert_allclose(came[at:at + block].sum(), x[at:at + block].sum(), rtol=1e-4, atol=1e-2)
    assert (came * x >= 0).all() and parts[0].shape[0] == -(-len(x) // 8)


@quick
@given(numbers, st.floats(0.25, 1))
def test_ternary_against_numpy(x, part):
    came, parts = there_and_back(C.Ternary(part), x)
    scale = np.float32(np.abs(x).max(initial=0) * np.float32(part))
    relative = np.divide(x, scale, out=np.zeros_like(x), where=scale != 0)
    np.testing.assert_allclose(came, np.where(np.abs(relative) >= 0.5, np.sign(x), 0) * scale, rtol=1e-6)
    assert parts[0].shape[0] == -(-len(x) // 5)


@quick
@given(hnp.arrays(np.float32, st.integers(1, 70), elements=elements), st.floats(0.01, 1))
def test_top_k_keeps_the_largest_as_they_are(x, ratio):
    came, parts = there_and_back(C.TopK(ratio), x)
    k = max(1, int(np.ceil(len(x) * ratio)))
    where = parts[0].numpy()
    assert len(where) == len(set(where)) == k
    np.testing.assert_array_equal(came[where], x[where])
    rest = np.delete(np.abs(x), where)
    assert (np.delete(came, where) == 0).all() and rest.max(initial=0) <= np.abs(x[where]).min()


@quick
@given(numbers)
def test_threshold_keeps_what_reaches_it(x):
    came, _ = there_and_back(C.Threshold(2.0), x)
    np.testing.assert_array_equal(came, np.where(np.abs(x) >= 2, x, 0))
    came, parts = there_and_back(C.Threshold(0.5, relative=True), x)
    np.testing.assert_array_equal(came, np.where((np.abs(x) >= np.abs(x).max(initial=0) / 2), x, 0))
    assert x.any() or parts[0].shape[0] == 0


@pytest.mark.parametrize("codec", LOSSY, ids=repr)
@settings(max_examples=10, deadline=None)
@given(st.lists(hnp.arrays(np.float32, 37, elements=st.floats(-10, 10, width=32)), min_size=1, max_size=6))
def test_error_feedback_conserves_the_sum(codec, steps):
    """What arrived and what is kept are all that was given, after any number of steps."""
    var, compressor = tf.Variable(tf.zeros([37])), Compressor(codec)
    arrived = np.zeros(37)
    for x in steps:
        [(grad, _)], _ = compressor.compress([(tf.constant(x), var)])
        arrived += grad.numpy()
    rest = next(v for v in compressor.variables() if v.shape.rank == 1)
    np.testing.assert_allclose(arrived + rest.numpy(), np.sum(steps, 0), atol=1e-3)


@settings(max_examples=20, deadline=None)
@given(st.lists(hnp.arrays(np.float32, 30, elements=st.floats(-10, 10, width=32)), min_size=2, max_size=6))
def test_momentum_correction_against_numpy(steps):
    var, compressor = tf.Variable(tf.zeros([30])), Compressor(C.Threshold(8.0), momentum=0.9)
    u, v = np.zeros(30, np.float32), np.zeros(30, np.float32)
    for x in steps:
        [(grad, _)], _ = compressor.compress([(tf.constant(x), var)])
        u = np.float32(0.9) * u + x
        v = v + u
        sent = grad.numpy() != 0
        np.testing.assert_allclose(grad.numpy()[sent], v[sent], rtol=1e-4)
        assert (np.abs(v[~sent]) < 8.001).all() and (np.abs(v[sent]) > 7.999).all()
        u, v = np.where(sent, 0, u), np.where(sent, 0, v)


def test_momentum_before_a_codec_is_momentum_where_nothing_is_lost():
    """With a threshold so low that everything is sent, factor masking clears all velocity, which is SGD; int8 clears none."""
    x = tf.Variable(tf.range(1.0, 21.0))
    opt = C.compress(tf.keras.optimizers.SGD(0.1), "int8", momentum=0.9)
    y = tf.Variable(tf.range(1.0, 21.0))
    plain = tf.keras.optimizers.SGD(0.1, momentum=0.9)
    for _ in range(5):
        opt.apply_gradients([(x * 0.5, x)])
        plain.apply_gradients([(y * 0.5, y)])
    np.testing.assert_allclose(x.numpy(), y.numpy(), atol=0.15)
    assert np.abs(x.numpy() - np.arange(1.0, 21.0)).max() > 5


def test_small_gradients_travel_as_they_are_with_momentum():
    x = tf.Variable([1.0, 2.0])
    opt = C.compress(tf.keras.optimizers.SGD(1.0), "top_k", momentum=0.5)
    for expected in ([0.0, 1.0], [-1.5, -0.5]):
        opt.apply_gradients([(tf.constant([1.0, 1.0]), x)])
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-6)
    assert int(opt.compressor.counter("sent")) == 16


def test_a_gradient_that_is_not_finite_is_not_kept():
    var, compressor = tf.Variable(tf.zeros([20])), Compressor("int8")
    [(bad, _)], _ = compressor.compress([(tf.constant([np.nan] + [1.0] * 19), var)])
    assert np.isnan(bad.numpy()).any()
    [(good, _)], _ = compressor.compress([(tf.ones([20]), var)])
    np.testing.assert_allclose(good.numpy(), np.ones(20), atol=0.01)


@pytest.mark.parametrize("codec", [C.Int8(), C.OneBit(8), C.Ternary(), C.Bfloat16()], ids=repr)
def test_rows_stay_rows_and_their_rest_is_kept(codec):
    table, compressor = tf.Variable(tf.zeros([10, 4])), Compressor(codec)
    total, random = np.zeros((10, 4)), np.random.default_rng(0)
    arrived = np.zeros((10, 4))
    for _ in range(5):
        indices, rows = random.integers(0, 10, 6), random.standard_normal((6, 4)).astype(np.float32)
        np.add.at(total, indices, rows)
        [(grad, _)], _ = compressor.compress([(tf.IndexedSlices(tf.constant(rows), tf.constant(indices)), table)])
        assert grad.values.shape[0] == len(set(indices))
        np.add.at(arrived, grad.indices.numpy(), grad.values.numpy())
    rest = next((v.numpy() for v in compressor.variables() if v.shape.rank == 2), 0)
    np.testing.assert_allclose(arrived + rest, total, atol=1e-4 if codec.lossy else 0.05)


@pytest.mark.parametrize("codec", ["none", "bfloat16", "int8", C.TopK(0.2)], ids=repr)
def test_graph_eager_and_function_agree(codec):
    """One optimizer of tf.train in a session, one of tf.keras eagerly, one traced: the same steps."""
    start = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)

    def keras_steps(wrap):
        x, opt = tf.Variable(start), C.compress(tf.keras.optimizers.SGD(0.1), codec)
        step = wrap(lambda: opt.apply_gradients([(x * x + 0.3, x)]))
        for _ in range(4):
            step()
        return x.numpy(), int(opt.compressor.counter("sent"))
    eager, traced = keras_steps(lambda f: f), keras_steps(tf.function)
    with tf1.Graph().as_default(), tf1.Session() as sess:
        x = tf1.get_variable("x", initializer=start, use_resource=False)
        opt = C.compress(tf1.train.GradientDescentOptimizer(0.1), codec)
        train = opt.apply_gradients([(x * x + 0.3, x)])
        sess.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
        for _ in range(4):
            sess.run(train)
        graph = sess.run(x), sess.run(opt.compressor.counter("sent"))
        assert opt.variables() == [] and len(tf1.global_variables()) == 1
    np.testing.assert_allclose(eager[0], traced[0], rtol=1e-6)
    np.testing.assert_allclose(eager[0], graph[0], rtol=1e-6)
    assert eager[1] == traced[1] == graph[1] > 0


def test_keras_fit_saves_what_was_not_sent(tmp_path):
    def made():
        model = tf.keras.Sequential([tf.keras.layers.Dense(16, input_shape=(8,), kernel_initializer="ones")])
        model.compile(C.compress(tf.keras.optimizers.Adam(0.01), C.TopK(0.1, values="float16")), "mse")
        return model
    x = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)
    model = made()
    model.fit(x, np.zeros((32, 16)), epochs=2, verbose=0)
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(str(tmp_path / "c"))
    other = made()
    tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(path)
    for m in (model, other):
        m.fit(x, np.zeros((32, 16)), epochs=1, verbose=0, shuffle=False)
    np.testing.assert_allclose(model.get_weights()[0], other.get_weights()[0], rtol=1e-5)
    again = type(model.optimizer).from_config(model.optimizer.get_config())
    assert again.compressor.codec == model.optimizer.compressor.codec and float(again.learning_rate) == pytest.approx(0.01)


@pytest.mark.parametrize("wrong, text", [
    (lambda: C.compress(tf.keras.optimizers.SGD(), "zip"), "Unknown gradient codec 'zip'"),
    (lambda: C.TopK(0), "ratio"), (lambda: C.Threshold(-1), "threshold"), (lambda: C.Ternary(2), "part"),
    (lambda: C.OneBit(0), "block"),
    (lambda: Compressor("bfloat16", momentum=0.9), "not for Bfloat16"),
    (lambda: Compressor("int8", momentum=1.5), "momentum must be"),
    (lambda: Compressor("int8").compress([(tf.zeros([3]), tf.Variable(tf.zeros([3]), shape=[None]))]), "shape")])
def test_mistakes_say_what_is_wrong(wrong, text):
    with pytest.raises(ValueError, match=text):
        wrong()


def test_codecs_as_data():
    for codec in CODECS:
        assert as_codec(described(codec)) == codec and hash(as_codec(described(codec))) == hash(codec)
    assert {c.kind for c in CODECS} == set(KINDS) - {""}


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_array_codecs_do_what_the_ops_do(codec):
    coder = ArrayCodec(codec)
    for n in (33, 0, 8):
        x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        parts = coder.encode(torch.from_numpy(x))
        expected, theirs = there_and_back(codec, x)
        assert [p.shape for p in parts] == [tuple(p.shape) for p in theirs]
        np.testing.assert_allclose(coder.decode(parts, n, torch.float32).numpy(), expected, rtol=1e-6)


def test_array_memory_conserves_the_sum():
    codec, total, came = RememberingCodec(C.TopK(0.05)), torch.zeros(100), torch.zeros(100)
    for i in range(10):
        x = torch.randn(100, generator=torch.Generator().manual_seed(i))
        total += x
        parts = codec.encode(x)
        assert len(parts[0]) == 5 and not codec.linear
        came += codec.decode(parts, 100, x.dtype)
    torch.testing.assert_close(came + codec.rest, total)


@pytest.mark.parametrize("kind", ["none", "int8", "top_k"])
def test_replicas_compress_their_own_gradients(kind):
    """Under a strategy each replica has its rest; with nothing left out, training is that without a strategy."""
    x = np.random.RandomState(0).randn(32, 8).astype(np.float32)
    losses = []
    for strategy in (tf.distribute.OneDeviceStrategy("/cpu:0"), tf.distribute.MirroredStrategy(["/cpu:0"])):
        with strategy.scope():
            model = tf.keras.Sequential([tf.keras.layers.Dense(4, kernel_initializer="zeros")])
            model.compile(C.compress(tf.keras.optimizers.SGD(0.1), C.TopK(0.25) if kind == "top_k" else kind), "mse")
        losses.append(model.fit(x, x[:, :4], batch_size=16, epochs=3, shuffle=False, verbose=0).history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert losses[0][-1] < losses[0][0]


@pytest.mark.distributed
@pytest.mark.parametrize("kind", ["none", "bfloat16", "int8", "one_bit", "top_k"])
def test_only_encoded_gradients_go_over_the_wire(cluster, kind):  # noqa: F811
    """Variable on a parameter server, gradient on the worker: the worker's links carry the counted bytes, and little more."""
    servers = cluster(ps=1, worker=1)
    with tf1.Graph().as_default():
        with tf1.device(tf1.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")):
            w = tf1.get_variable("w", initializer=np.zeros(3000, np.float32))
            x = tf1.placeholder(tf1.float32, [3000])
            loss = tf1.reduce_sum(w * x)
            opt = C.compress(tf1.train.GradientDescentOptimizer(1.0), kind)
            train = opt.minimize(loss)
        sent_by_worker = lambda: sum(link.sent for link in servers["worker", 0]._peers.links())
        with tf1.Session(servers["worker", 0].target) as sess:
            sess.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
            value = np.random.default_rng(0).standard_normal(3000).astype(np.float32)
            sess.run(train, {x: value})
            before, counted = sent_by_worker(), sess.run(opt.compressor.counter("sent"))
            for _ in range(5):
                sess.run(train, {x: value})
            wire, counted = sent_by_worker() - before, sess.run(opt.compressor.counter("sent")) - counted
            assert counted <= wire <= counted + 5 * 700
            assert np.abs(sess.run(w)).max() > 0
