"""Recurrent cells and the functions that run them, against the same recurrences in numpy."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

RNG = np.random.RandomState(3)
X = RNG.randn(2, 5, 3).astype(np.float32)


@pytest.fixture(autouse=True)
def graph(request):
    if "eager" in request.node.name:
        yield
        return
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        yield


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def run(*fetches, feed=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        weights = {v.op.name: value for v, value in zip(tf.global_variables(), session.run(tf.global_variables()), strict=True)}
        return [weights, *session.run(list(fetches), feed)]


def randomized():
    return tf.variable_scope("m", initializer=tf.random_normal_initializer(stddev=0.5, seed=4))


def lstm_step(w, x, c, h, forget_bias=1.0, clip=None, prefix="m/rnn/lstm_cell/"):
    i, j, f, o = np.split(np.concatenate([x, h], 1) @ w[prefix + "kernel"] + w[prefix + "bias"], 4, axis=1)
    peep = lambda gate: w.get(f"{prefix}w_{gate}_diag", 0.0)
    c = sigmoid(f + forget_bias + peep("f") * c) * c + sigmoid(i + peep("i") * c) * np.tanh(j)
    c = c if clip is None else np.clip(c, -clip, clip)
    h = sigmoid(o + peep("o") * c) * np.tanh(c)
    return c, h @ w[prefix + "projection/kernel"] if prefix + "projection/kernel" in w else h


def test_basic_cell():
    with randomized():
        outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicRNNCell(4), X, dtype=tf.float32)
    w, out, last = run(outputs, state)
    h = np.zeros((2, 4))
    for t in range(5):
        h = np.tanh(np.concatenate([X[:, t], h], 1) @ w["m/rnn/basic_rnn_cell/kernel"] + w["m/rnn/basic_rnn_cell/bias"])
        np.testing.assert_allclose(out[:, t], h, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(last, h, rtol=1e-4, atol=1e-6)


def test_gru_cell_and_its_variables():
    with randomized():
        outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(4), X, dtype=tf.float32)
    w, out = run(outputs)
    assert set(w) == {f"m/rnn/gru_cell/{a}/{b}" for a in ("gates", "candidate") for b in ("kernel", "bias")}
    w = {k.removeprefix("m/rnn/gru_cell/"): v for k, v in w.items()}
    np.testing.assert_array_equal(w["gates/bias"], 1)
    h = np.zeros((2, 4))
    for t in range(5):
        r, u = np.split(sigmoid(np.concatenate([X[:, t], h], 1) @ w["gates/kernel"] + w["gates/bias"]), 2, axis=1)
        c = np.tanh(np.concatenate([X[:, t], r * h], 1) @ w["candidate/kernel"] + w["candidate/bias"])
        h = u * h + (1 - u) * c
        np.testing.assert_allclose(out[:, t], h, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("options", [
    {}, {"use_peepholes": True}, {"num_proj": 2}, {"cell_clip": 0.1, "forget_bias": 0.5},
    {"use_peepholes": True, "num_proj": 3},
], ids=str)
def test_lstm_cell(options):
    with randomized():
        outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(4, **options), X, dtype=tf.float32)
    w, out, last = run(outputs, state)
    c, h = np.zeros((2, 4)), np.zeros((2, options.get("num_proj", 4)))
    for t in range(5):
        c, h = lstm_step(w, X[:, t], c, h, options.get("forget_bias", 1.0), options.get("cell_clip"))
        np.testing.assert_allclose(out[:, t], h, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(last.c, c, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(last.h, h, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("tuples", [True, False])
def test_basic_lstm_with_state_in_one_piece(tuples):
    with randomized():
        cell = tf.nn.rnn_cell.BasicLSTMCell(4, state_is_tuple=tuples)
        outputs, state = tf.nn.static_rnn(cell, [X[:, t] * tf.ones([]) for t in range(5)], dtype=tf.float32)
    w, out, last = run(outputs[-1], state)
    c, h = np.zeros((2, 4)), np.zeros((2, 4))
    for t in range(5):
        c, h = lstm_step(w, X[:, t], c, h, prefix="m/rnn/basic_lstm_cell/")
    np.testing.assert_allclose(out, h, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.concatenate(last, 1) if tuples else last, np.concatenate([c, h], 1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("how", ["dynamic", "static"])
def test_rows_end_at_their_lengths(how):
    lengths = [2, 4]
    cell = tf.nn.rnn_cell.GRUCell(3)
    if how == "dynamic":
        outputs, state = tf.nn.dynamic_rnn(cell, tf.placeholder_with_default(X, [None, None, 3]), lengths, dtype=tf.float32)
    else:
        outputs, state = tf.nn.static_rnn(cell, tf.unstack(tf.constant(X), axis=1), dtype=tf.float32, sequence_length=lengths)
        outputs = tf.stack(outputs, 1)
    _, out, last = run(outputs, state)
    assert (out[0, 2:] == 0).all() and (out[1, 4:] == 0).all() and (out[0, :2] != 0).all() and (out[1, :4] != 0).all()
    np.testing.assert_array_equal(last, [out[0, 1], out[1, 3]])


def test_dynamic_is_static_also_in_gradients():
    x = tf.placeholder_with_default(X, [2, 5, 3])
    cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.LSTMCell(4), tf.nn.rnn_cell.GRUCell(3)])
    with tf.variable_scope("a") as scope:
        dynamic, _ = tf.nn.dynamic_rnn(cell, x, [3, 5], dtype=tf.float32)
        scope.reuse_variables()
        static, _ = tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32, sequence_length=[3, 5])
    weights = [*tf.trainable_variables(), x]
    gradients = [tf.gradients(tf.reduce_sum(tf.square(y)), weights) for y in (dynamic, tf.stack(static, 1))]
    _, a, b, (ga, gb) = run(dynamic, tf.stack(static, 1), gradients)
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for one, two in zip(ga, gb, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def test_both_directions():
    cells = tf.nn.rnn_cell.GRUCell(3), tf.nn.rnn_cell.GRUCell(3)
    (fw, bw), (_, state) = tf.nn.bidirectional_dynamic_rnn(*cells, X, sequence_length=[3, 5], dtype=tf.float32)
    with tf.variable_scope("bidirectional_rnn/bw", reuse=True):
        again, _ = tf.nn.dynamic_rnn(cells[1], tf.reverse_sequence(X, [3, 5], seq_axis=1), [3, 5], dtype=tf.float32)
    w, forwards, backwards, expected, last = run(fw, bw, again, state)
    assert {n.split("/gru_cell")[0] for n in w} == {"bidirectional_rnn/fw", "bidirectional_rnn/bw"}
    np.testing.assert_allclose(backwards[0, :3], expected[0, :3][::-1], rtol=1e-6)
    np.testing.assert_allclose(backwards[1], expected[1][::-1], rtol=1e-6)
    np.testing.assert_allclose(backwards[:, 0], last, rtol=1e-6)
    joined, _, _ = tf.nn.static_bidirectional_rnn(tf.nn.rnn_cell.GRUCell(2), tf.nn.rnn_cell.GRUCell(3),
                                                  tf.unstack(tf.constant(X), axis=1), dtype=tf.float32, scope="s")
    assert len(joined) == 5 and joined[0].shape == (2, 5)
    assert forwards.shape == (2, 5, 3)


def test_raw_rnn_does_what_dynamic_rnn_does():
    x, cell = tf.constant(X), tf.nn.rnn_cell.LSTMCell(4)
    inputs = tf.TensorArray(tf.float32, size=5).unstack(tf.transpose(x, [1, 0, 2]))
    lengths = tf.constant([3, 5])

    def loop_fn(time, output, state, loop_state):
        finished = time >= lengths
        following = tf.cond(tf.reduce_all(finished), lambda: tf.zeros([2, 3]), lambda: inputs.read(time))
        return finished, following, cell.zero_state(2, tf.float32) if output is None else state, output, None

    with tf.variable_scope("a") as scope:
        emitted, state, _ = tf.nn.raw_rnn(cell, loop_fn)
        scope.reuse_variables()
        expected, expected_state = tf.nn.dynamic_rnn(cell, x, lengths, dtype=tf.float32)
    _, out, want, last, want_last = run(tf.transpose(emitted.stack(), [1, 0, 2]), expected, state, expected_state)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last.c, want_last.c, rtol=1e-5, atol=1e-6)


def test_dropout_wrapper():
    cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(200), output_keep_prob=0.5, seed=3)
    outputs, state = tf.nn.dynamic_rnn(cell, X, dtype=tf.float32)
    _, out, last = run(outputs, state)
    assert 0.4 < (out == 0).mean() < 0.6 and (last != 0).all()
    kept = out[:, -1] != 0
    np.testing.assert_allclose(out[:, -1][kept], 2 * last[kept], rtol=1e-5)
    assert ((out[:, 0] == 0) != (out[:, 1] == 0)).any()
    fixed = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.LSTMCell(50), output_keep_prob=0.5, variational_recurrent=True,
                                          dtype=tf.float32, state_keep_prob=0.7)
    outputs, state = tf.nn.dynamic_rnn(fixed, X, dtype=tf.float32, scope="fixed")
    _, out, last = run(outputs, state)
    assert ((out == 0) == (out[:, :1] == 0)).all() and (out[0, 0] == 0).any()      # the same units in each step
    assert (last.c != 0).all() and (last.h == 0).any()                             # the memory is never dropped
    with pytest.raises(ValueError, match="between 0 and 1"):
        tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(2), input_keep_prob=1.5)
    with pytest.raises(ValueError, match="input_size must be provided"):
        tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(2), input_keep_prob=0.5, variational_recurrent=True,
                                      dtype=tf.float32)


def test_residual_and_device_wrappers():
    inner = tf.nn.rnn_cell.GRUCell(3)
    outputs, _ = tf.nn.dynamic_rnn(inner, X, dtype=tf.float32)
    with tf.variable_scope("rnn", reuse=True):
        state = inner.zero_state(2, tf.float32)
        plain, _ = inner(tf.constant(X[:, 0]), state)
        residual, _ = tf.nn.rnn_cell.ResidualWrapper(inner)(tf.constant(X[:, 0]), state)
        placed, _ = tf.nn.rnn_cell.DeviceWrapper(inner, "/cpu:0")(tf.constant(X[:, 0]), state)
    assert placed.op.device.lower().endswith("cpu:0")
    _, a, b, c, out = run(plain, residual, placed, outputs)
    np.testing.assert_allclose(b, a + X[:, 0], rtol=1e-6)
    np.testing.assert_array_equal(a, c)
    np.testing.assert_allclose(out[:, 0], a, rtol=1e-6)


def test_own_cell_with_variables_of_the_scope():
    class Scaled(tf.nn.rnn_cell.RNNCell):
        state_size = output_size = property(lambda self: 3)

        def __call__(self, inputs, state, scope=None):
            with tf.variable_scope(scope or type(self).__name__):
                w = tf.get_variable("w", [], initializer=tf.constant_initializer(2.0))
            return inputs * w + state, inputs * w + state

    outputs, _ = tf.nn.dynamic_rnn(Scaled(), X, dtype=tf.float32)
    w, out = run(outputs)
    assert list(w) == ["rnn/Scaled/w"]
    np.testing.assert_allclose(out, np.cumsum(2 * X, 1), rtol=1e-5, atol=1e-5)


def test_state_saving():
    class Saver:
        saved = {}

        def state(self, name):
            return tf.ones([2, 3])

        def save_state(self, name, value):
            self.saved[name] = value
            return tf.identity(value)

    saver = Saver()
    outputs, state = tf.nn.static_state_saving_rnn(tf.nn.rnn_cell.GRUCell(3), tf.unstack(tf.constant(X), axis=1), saver, "s")
    _, out, last, kept = run(outputs[-1], state, saver.saved["s"])
    np.testing.assert_array_equal(last, kept)
    np.testing.assert_array_equal(out, last)


@pytest.mark.parametrize("wrong, text", [
    (lambda: tf.nn.dynamic_rnn(object(), X, dtype=tf.float32), "is not an RNNCell"),
    (lambda: tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), X), "dtype is required"),
    (lambda: tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), tf.placeholder(tf.float32, [2, 5, None]), dtype=tf.float32),
     "depth of"),
    (lambda: tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), X, [[1]], dtype=tf.float32), "must be a vector"),
    (lambda: tf.nn.static_rnn(tf.nn.rnn_cell.GRUCell(2), [], dtype=tf.float32), "must not be empty"),
    (lambda: tf.nn.rnn_cell.MultiRNNCell([]), "at least one cell"),
    (lambda: tf.nn.rnn_cell.GRUCell(2, dtype=tf.int32), "floating point"),
], ids=["cell", "dtype", "depth", "length", "empty", "no cells", "integers"])
def test_mistakes_are_named(wrong, text):
    with pytest.raises((TypeError, ValueError), match=text):
        wrong()


def test_lengths_of_another_batch_fail_in_the_step():
    lengths = tf.placeholder(tf.int32, [None])
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), X, lengths, dtype=tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expected shape for Tensor"):
        run(outputs, feed={lengths: [1, 2, 3]})


def test_eager_gives_the_same():
    assert tf.executing_eagerly()
    with tf.Graph().as_default():
        cell = tf.nn.rnn_cell.LSTMCell(4, initializer=tf.constant_initializer(0.1))
        outputs, state = tf.nn.dynamic_rnn(cell, X, [2, 5], dtype=tf.float32)
        _, want, last = run(outputs, state)
    cell = tf.nn.rnn_cell.LSTMCell(4, initializer=tf.constant_initializer(0.1))
    outputs, state = tf.nn.dynamic_rnn(cell, tf.constant(X), [2, 5], dtype=tf.float32)
    np.testing.assert_allclose(outputs.numpy(), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state.c.numpy(), last.c, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cell", [tf.nn.rnn_cell.BasicLSTMCell, tf.nn.rnn_cell.GRUCell, tf.nn.rnn_cell.BasicRNNCell])
def test_gradients_of_the_input_are_the_same_in_functional_loops(cell):
    """The part of the gradient that goes to the input, and the one that continues to the next iteration, are both needed."""
    def gradients(functional):
        (tf.enable_control_flow_v2 if functional else tf.disable_control_flow_v2)()
        try:
            with tf.Graph().as_default(), tf.Session() as sess:
                x = tf.placeholder(tf.float32, [3, 5, 4])
                cells = cell(4)
                out, _ = tf.nn.dynamic_rnn(cells, x, dtype=tf.float32)
                grads = tf.gradients(tf.reduce_sum(out * out), [x, *tf.trainable_variables()])
                draw = np.random.RandomState(0)
                for v in tf.trainable_variables():
                    v.load(draw.randn(*v.shape.as_list()).astype(np.float32), sess)
                return sess.run(grads, {x: draw.randn(3, 5, 4)})
        finally:
            tf.disable_control_flow_v2()
    for a, b in zip(gradients(True), gradients(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
