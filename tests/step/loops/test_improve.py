"""What loops and their gradients do once for all iterations."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

from ..optimize.steps import config, numbers

T, B, I, H = 5, 3, 4, 2


@pytest.fixture(autouse=True)
def graph():
    tf.disable_control_flow_v2()
    with tf.Graph().as_default():
        yield


def lstm(n, x, w, b, body=None):
    """An LSTM over the first n rows of x; the outputs of all steps."""
    xs = tf.TensorArray(x.dtype, size=n, element_shape=[B, I]).unstack(x[:n])
    out = tf.TensorArray(x.dtype, size=n, element_shape=[B, H])

    def step(t, c, h, out):
        i, j, f, o = tf.split(tf.matmul(tf.concat([xs.read(t), h], 1), w) + b, 4, axis=1)
        c = c * tf.sigmoid(f + 1) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        if body is not None:
            h = body(t, h)
        c.set_shape([B, H])
        h.set_shape([B, H])
        return t + 1, c, h, out.write(t, h)
    zero = tf.zeros([B, H], x.dtype)
    return tf.while_loop(lambda t, *_: t < n, step, [tf.constant(0), zero, zero, out])[3].stack()


def recurrent(dtype=np.float32, body=None, x=None):
    """Placeholders of an LSTM, its loss and gradients."""
    n = tf.placeholder(tf.int32, [])
    x = tf.constant(numbers(1, T, B, I, dtype=dtype)) if x is None else x
    w, b = tf.constant(numbers(2, I + H, 4 * H, dtype=dtype)), tf.constant(numbers(3, 4 * H, dtype=dtype))
    loss = tf.reduce_sum(tf.square(lstm(n, x, w, b, body)))
    return n, loss, [x, w, b]


def source(fetches, feeds, **switches):
    with tf.Session(config=config(**switches)) as sess:
        return sess.explain(fetches, dict.fromkeys(feeds))


def agree(fetches, feed, tolerance=1e-5):
    """Asserts that the values are the same with and without what is done to loops, and returns them."""
    found = []
    for on in (True, False):
        with tf.Session(config=config(loop_optimization=on)) as sess:
            found.append([sess.run(fetches, feed) for _ in range(4)][-1])         # the fourth run is for known shapes
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    return found[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("steps", [T, 1, 0])
def test_gradients_of_an_lstm(dtype, steps):
    n, loss, sources = recurrent(dtype)
    grads = tf.gradients(loss, sources)
    _, dx, *_ = agree([loss, *grads], {n: steps}, 1e-5 if dtype == np.float32 else 1e-12)
    assert not dx[steps:].any()


def test_gradients_against_differences():
    n, loss, sources = recurrent(np.float64)
    grads = tf.gradients(loss, sources)
    with tf.Session() as sess:
        found = sess.run(grads, {n: T})
        for t, g in zip(sources, found, strict=True):
            at = tuple(s // 2 for s in g.shape)
            value = sess.run(t)
            moved = []
            for d in (1e-5, -1e-5):
                other = value.copy()
                other[at] += d
                moved.append(sess.run(loss, {n: T, t: other}))
            assert g[at] == pytest.approx((moved[0] - moved[1]) / 2e-5, rel=1e-5)


def test_what_is_made_of_saved_values_is_computed_before_the_loop():
    n, loss, (x, w, b) = recurrent(np.float64)
    grads = tf.gradients(loss, [w, b])
    text = source(grads, [n], remapping=False)                                # else it is joined in the loop
    before, _, inside = text.rpartition("while True:")
    assert "_StackAll" in before and "SigmoidGrad: SigmoidGrad" in before
    assert "SigmoidGrad: SigmoidGrad" not in inside and "split_grad/ConcatV2: Mul" in inside
    assert "SigmoidGrad: Mul" not in inside                                   # products side by side are one
    assert "TensorArrayWriteV3_grad/StackPop" not in text                     # the index is what the gradient counts itself
    off = source(grads, [n], loop_optimization=False)
    assert "_StackAll" not in off and "_Turned" not in off


def test_only_the_wanted_rows_of_the_weights_are_multiplied_by():
    n, loss, (x, w, b) = recurrent()
    without_x, with_x = source(tf.gradients(loss, [w]), [n]), source(tf.gradients(loss, [x, w]), [n])
    assert "_Turned" in without_x and "SplitV" not in without_x
    assert "_Turned" in with_x and "SplitV" in with_x


def test_a_number_added_to_a_gate_is_added_to_the_bias():
    n, loss, (x, w, b) = recurrent()
    text = source([loss, *tf.gradients(loss, [w, b])], [n])
    before, _, _ = text.partition("while True:")
    assert "AddV2 -> float32[8]" in before and "while/add_1:" not in text
    assert "while/add_1: AddV2" in source([loss], [n], loop_optimization=False, remapping=False)


def test_a_sum_over_rows_is_done_after_the_loop():
    n, loss, (x, w, b) = recurrent()
    assert "RowSum()" in source(tf.gradients(loss, [b]), [n])
    both = source(tf.gradients(loss, [w, b]), [n])
    assert "RowSum()" not in both and ".rows()" in both                       # the product puts the rows together anyway


@pytest.mark.parametrize("cell", [tf.nn.rnn_cell.GRUCell, tf.nn.rnn_cell.BasicLSTMCell, tf.nn.rnn_cell.BasicRNNCell])
def test_cells_with_biases(cell):
    x = tf.constant(numbers(1, B, T, I))
    n = tf.placeholder(tf.int32, [])
    out, _ = tf.nn.dynamic_rnn(cell(H), x[:, :n], dtype=tf.float32)
    loss = tf.reduce_sum(tf.square(out))
    variables = tf.trainable_variables()
    grads = tf.gradients(loss, variables)
    text = source(grads, [n])
    assert text.count(".rows()") == len(variables) // 2 and "BiasAddGrad(" not in text
    init = [tf.assign(v, numbers(i, *v.shape.as_list())) for i, v in enumerate(variables)]
    found = []
    for on in (True, False):
        with tf.Session(config=config(loop_optimization=on)) as sess:
            sess.run(init)
            found.append([sess.run([loss, *grads], {n: T}) for _ in range(4)][-1])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_conditional_in_the_loop():
    def body(t, h):
        return tf.cond(tf.equal(t % 2, 0), lambda: tf.sigmoid(h), lambda: tf.tanh(h * h))
    n, loss, sources = recurrent(body=body)
    grads = tf.gradients(loss, sources)
    assert "_StackAll" not in source(grads, [n])
    agree([loss, *grads], {n: T})


def test_a_loop_in_the_loop():
    def body(t, h):
        return tf.while_loop(lambda k, _: k < t, lambda k, v: (k + 1, tf.tanh(v * tf.sigmoid(v))), [tf.constant(0), h])[1]
    n, loss, sources = recurrent(body=body)
    agree([loss, *tf.gradients(loss, sources)], {n: T})


def test_not_a_number_stays_where_it_is():
    x = tf.placeholder(tf.float32, [T, B, I])
    n, loss, (_, w, b) = recurrent(x=x)
    values = numbers(1, T, B, I)
    values[2, 1, 0], values[3, 2, 1] = np.nan, np.inf
    grads = tf.gradients(lstm(n, x, w, b)[:, 0], [x])                           # one example does not see the others
    got, = agree(grads, {n: T, x: values})
    assert np.isfinite(got[:, 0]).all()


def test_a_loop_variable_that_is_not_the_counter_is_saved():
    start = tf.placeholder(tf.int32, [])
    x = tf.constant(numbers(1, 20))
    out = tf.while_loop(lambda k, v: k < 17, lambda k, v: (k + 3, tf.tanh(v * x[k]) * v), [start, tf.constant([0.5, 2.])])[1]
    for k in (2, 3):
        agree(tf.gradients(out, x), {start: k})


def test_values_of_several_shapes_are_left_on_their_stack():
    x = tf.constant([[1., 2.]])

    def body(k, v):
        return k + 1, tf.concat([v, tf.tanh(v[-1:]) * x], 0)
    out = tf.while_loop(lambda k, v: k < 4, body, [tf.constant(0), x], shape_invariants=[tf.TensorShape([]),
                                                                                      tf.TensorShape([None, 2])])[1]
    agree([out, *tf.gradients(out, x)], {})


@pytest.mark.parametrize("parallel", [1, 10])
def test_two_gradients_of_one_loop(parallel):
    x = tf.placeholder(tf.float32, [2, 2])
    w = tf.constant(numbers(4, 2, 2))
    out = tf.while_loop(lambda k, v: k < 3, lambda k, v: (k + 1, tf.tanh(tf.matmul(v, w, transpose_b=True)) * v),
                        [tf.constant(0), x], parallel_iterations=parallel)[1]
    agree([*tf.gradients(out, [x, w]), *tf.gradients(out[0], [x, w])], {x: numbers(5, 2, 2)})


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("made, right, slope", [
    (lambda x: x * 0.5, lambda x: x * 0.5, lambda x: 0.5 + 0 * x),
    (lambda x: tf.tanh(x * 0.5), lambda x: np.tanh(x * 0.5), lambda x: 0.5 / np.cosh(x * 0.5) ** 2),
    (lambda x: x, lambda x: x, np.ones_like),
    (lambda x: tf.identity(x) * tf.reduce_sum(x), lambda x: x * x.sum(), lambda x: x.sum() + x.sum() + 0 * x),
], ids=["half", "tanh", "itself", "sum"])
def test_a_variable_whose_next_value_is_always_the_same(made, right, slope, passes):
    """A variable of another shape in each iteration keeps the loop from becoming a program: it runs on the executor."""
    x = tf.placeholder(tf.float32, [None, None])
    anything = tf.TensorShape([None, None])
    _, turned, same = tf.while_loop(lambda i, *_: i < 3, lambda i, a, b: (i + 1, tf.transpose(a), made(x)), [0, x, x],
                                    shape_invariants=[tf.TensorShape([]), anything, anything])
    grad, = tf.gradients(tf.reduce_sum(same), [x])
    given = numbers(3, 2, 3)
    with tf.Session(config=config(all=passes)) as sess:
        for _ in range(3):
            found = sess.run([turned, same, grad], {x: given}, options=tf.RunOptions(timeout_in_ms=15000))
    for a, b in zip(found, (given.T, right(given), slope(given)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
