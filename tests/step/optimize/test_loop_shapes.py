"""Shapes of loop variables, inferred from the shapes of feeds."""
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.kernels import pointwise
from penstock._src.step.optimize.options import ALL
from penstock._src.step.optimize.pipeline import optimize
from penstock._src.step.optimize.shapes import specialize_shapes

from .steps import config, numbers, step_of

B, T, I, H = 3, 4, 5, 2


@pytest.fixture(autouse=True)
def graph():
    tf.disable_control_flow_v2()
    with tf.Graph().as_default():
        yield


def agree(fetches, *feeds, tolerance=1e-5):
    """Asserts that no pass changes a value, also when the shapes that are fed change; the values for the last feed."""
    with tf.Session() as known, tf.Session(config=config(all=False)) as open_:
        for sess in (known, open_):
            sess.run(tf.global_variables_initializer())
        for feed in feeds if len(feeds) == 1 else feeds * 2:
            wanted = open_.run(fetches, feed)
            for _ in range(4):                                          # the fourth run is for known shapes
                found = known.run(fetches, feed)
            for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True):
                assert a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    return found


def shapes(fetches, feed):
    """The static shapes of a step for a feed, by names of tensors."""
    step = step_of(fetches, feeds=list(feed))
    specialize_shapes(step, [np.shape(v) for v in feed.values()])
    return {t.name: t.static_dims for op in step.ops for t in op.outputs}


def variables(fetches, feed):
    """The shapes of the variables of loops that are not numbers."""
    known = shapes(fetches, feed)
    return [dims for name, dims in known.items() if "/Merge" in name and name.endswith(":0") and dims != ()]


# -- what keeps its shape ------------------------------------------------------------------------------------------------------
def test_a_variable_has_the_shape_that_enters():
    x = tf.placeholder(tf.float32, [None, None])
    _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y) + x), [0, x * 2.])
    feed = {x: numbers(1, 3, 4)}
    assert variables([y], feed) == [(3, 4)] and shapes([y], feed)[y.name] == (3, 4)
    agree([y], feed, {x: numbers(2, 5, 1)})


def test_variables_that_follow_each_other():
    x = tf.placeholder(tf.float32, [None, 4])
    _, a, b, c = tf.while_loop(lambda i, *_: i < 5, lambda i, a, b, c: (i + 1, b, c + 1., a), [0, x, x * 2., x * 3.])
    feed = {x: numbers(1, 3, 4)}
    assert variables([a, b, c], feed) == [(3, 4)] * 3
    agree([a, b, c], feed)


def test_what_is_made_of_a_shape_enters():
    x = tf.placeholder(tf.float32, [None, None, I])
    zero = tf.zeros(tf.stack([tf.shape(x)[0], H]))
    w = tf.constant(numbers(2, I, H))
    _, y = tf.while_loop(lambda i, _: i < tf.shape(x)[1],
                         lambda i, y: (i + 1, tf.nn.relu(y + tf.matmul(x[:, i], w))), [0, zero],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, H])])
    assert variables([y], {x: numbers(1, B, T, I)}) == [(B, H)]
    agree([y, tf.gradients(y, x)[0]], {x: numbers(1, B, T, I)}, {x: numbers(3, 1, 2, I)}, {x: numbers(3, 2, 0, I)})


def test_no_iteration():
    x, n = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int32, [])
    _, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.concat([y, y], 0)), [0, x],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 2])])
    grads = tf.gradients(tf.square(y), x)
    agree([y, grads], {x: numbers(1, 3, 2), n: 0}, {x: numbers(1, 3, 2), n: 2})


# -- what changes its shape ----------------------------------------------------------------------------------------------------
def test_a_size_that_changes_is_not_known():
    x = tf.placeholder(tf.float32, [None, None])
    _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.concat([y, tf.tanh(y[:1])], 0)), [0, x],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None])])
    feed = {x: numbers(1, 2, 4)}
    assert variables([y], feed) == [(None, 4)]
    assert agree([y, tf.gradients(tf.reduce_sum(y * y), x)[0]], feed, {x: numbers(2, 3, 1)})[0].shape == (6, 1)


def test_a_change_reaches_other_variables_one_after_the_other():
    x = tf.placeholder(tf.float32, [None, None])
    open_ = tf.TensorShape([None, None])
    out = tf.while_loop(lambda i, *_: i < 4, lambda i, a, b, c, d: (i + 1, tf.concat([a, a], 1), a + 1., b * 2., d * 0.5),
                        [0, x, x, x, x], shape_invariants=[tf.TensorShape([])] + [open_] * 4)[1:]
    feed = {x: numbers(1, 2, 3)}
    assert variables(out, feed) == [(2, None)] * 3 + [(2, 3)]
    agree(out, feed)


def test_the_rank_changes():
    x = tf.placeholder(tf.float32, [None, None])
    _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.expand_dims(y, 0) + 1.), [0, x],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])
    assert variables([y], {x: numbers(1, 2, 3)}) == [None]
    agree([y], {x: numbers(1, 2, 3)}, {x: numbers(1, 2, 1)})


def test_shapes_that_come_back():
    x = tf.placeholder(tf.float32, [None, None])
    _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.transpose(y) * 2.), [0, x],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None])])
    assert variables([y], {x: numbers(1, 2, 3)}) == [(None, None)]
    assert variables([y], {x: numbers(1, 3, 3)}) == [(3, 3)]
    agree([y, tf.gradients(tf.square(y), x)[0]], {x: numbers(1, 2, 3)}, {x: numbers(1, 3, 3)})


def test_a_shape_that_fits_only_later():
    """In the first iteration, the branch that reshapes is not taken: a claim that its shape rule refuses is ignored."""
    x = tf.placeholder(tf.float32, [None])

    def body(i, y):
        grown = tf.concat([y, y], 0)
        return i + 1, tf.cond(tf.equal(i, 0), lambda: grown, lambda: tf.reshape(tf.reshape(y, [2, 2]) * 3., [-1]))
    _, y = tf.while_loop(lambda i, _: i < 3, body, [0, x], shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])])
    agree([y], {x: numbers(1, 2)})


# -- loops in loops, conditionals ----------------------------------------------------------------------------------------------
def test_loops_in_loops():
    x = tf.placeholder(tf.float32, [None, None])
    w = tf.constant(numbers(3, 4, 4))

    def inner(i, y):
        return tf.while_loop(lambda j, _: j <= i, lambda j, z: (j + 1, tf.tanh(tf.matmul(z, w)) * y), [0, y])[1]
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, inner(i, y) + x), [0, x],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None])])
    feed = {x: numbers(1, 3, 4)}
    assert variables([y], feed) == [(3, 4)] * 2
    agree([y, *tf.gradients(tf.square(y), [x, w])], feed, {x: numbers(1, 1, 4)})


def test_a_loop_in_a_loop_that_grows():
    x = tf.placeholder(tf.float32, [None, 2])
    open_ = [tf.TensorShape([]), tf.TensorShape([None, 2])]

    def inner(y):
        return tf.while_loop(lambda j, _: j < 2, lambda j, z: (j + 1, tf.sin(z) * 0.5), [0, y], shape_invariants=open_)[1]
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.concat([inner(y), y[:1]], 0)), [0, x],
                         shape_invariants=open_)
    feed = {x: numbers(1, 3, 2)}
    assert variables([y], feed) == [(None, 2)] * 2
    agree([y, tf.gradients(tf.square(y), x)[0]], feed)


@pytest.mark.parametrize("grows", [False, True])
def test_conditionals_in_loops(grows):
    x = tf.placeholder(tf.float32, [None, None])

    def body(i, y):
        other = (lambda: tf.concat([y, y], 1)) if grows else (lambda: tf.sigmoid(y) * y)
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: tf.tanh(y) + y, other)
    _, y = tf.while_loop(lambda i, _: i < 4, body, [0, x],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None])])
    feed = {x: numbers(1, 2, 3)}
    found = shapes([y], feed)
    assert found[y.name] == ((2, None) if grows else (2, 3))
    agree([y, tf.gradients(tf.square(y), x)[0]], feed, {x: numbers(1, 4, 1)})


# -- arrays and stacks ---------------------------------------------------------------------------------------------------------
def reading(write):
    """A loop that reads what `write` put into an array for each iteration, and adds it up; the sum."""
    x = tf.placeholder(tf.float32, [None, None])
    n = tf.shape(x)[0]
    array = write(tf.TensorArray(tf.float32, size=n, infer_shape=False, clear_after_read=False), x)
    _, y = tf.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, y + tf.tanh(tf.reduce_sum(array.read(i)))), [0, 0.])
    return x, y


@pytest.mark.parametrize("write, known", [
    (lambda a, x: a.unstack(x), (4,)),
    (lambda a, x: a.write(0, x).write(1, x * 2.).write(2, x + 1.), (3, 4)),
    (lambda a, x: a.write(0, x).write(1, x[1:]).write(2, x[:, :1]), (None, None)),
    (lambda a, x: a.write(0, x).write(1, x[0]).write(2, x), None),
    (lambda a, x: a.split(x, [1, 0, 2]), (None, 4)),
])
def test_elements_of_arrays(write, known):
    x, y = reading(write)
    feed = {x: numbers(1, 3, 4)}
    found = shapes([y], feed)
    assert [dims for name, dims in found.items() if "Read" in name] == [known]
    agree([y, tf.gradients(y, x)[0]], feed)


def test_an_array_that_a_loop_writes_and_reads():
    """What an iteration reads, the one before it has written, in another shape than the first element has."""
    x = tf.placeholder(tf.float32, [None])
    array = tf.TensorArray(tf.float32, size=4, infer_shape=False, clear_after_read=False).write(0, x)

    def body(i, a):
        return i + 1, a.write(i, tf.concat([a.read(i - 1), tf.tanh(x)], 0))
    _, array = tf.while_loop(lambda i, _: i < 4, body, [1, array])
    y = array.read(3)
    assert shapes([y], {x: numbers(1, 3)})[y.name] == (None,)
    agree([y, tf.gradients(tf.square(y), x)[0]], {x: numbers(1, 3)})


def test_zeros_in_arrays_that_nobody_wrote():
    x = tf.placeholder(tf.float32, [None])
    array = tf.TensorArray(tf.float32, size=3, element_shape=[2], clear_after_read=False)
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y + tf.reduce_sum(array.read(i)) + tf.reduce_sum(x)), [0, 0.])
    agree([y], {x: numbers(1, 3)})


def test_saved_shapes_of_what_grows_stay_saved():
    x = tf.placeholder(tf.float32, [None, None])
    row = tf.placeholder(tf.float32, [None])

    def body(i, y):
        return i + 1, tf.concat([y * row, y[:1]], 0)
    _, y = tf.while_loop(lambda i, _: i < 3, body, [0, x],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None])])
    agree([y, *tf.gradients(tf.square(y), [x, row])], {x: numbers(1, 2, 3), row: numbers(2, 3)},
          {x: numbers(1, 2, 3), row: numbers(2, 1)})


def test_a_constant_that_is_fed():
    x, factor = tf.placeholder(tf.float32, [None]), tf.constant(2.)
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * tf.identity(factor)), [0, x])
    grad = tf.gradients(y, x)[0]
    assert agree([grad], {x: numbers(1, 3), factor: np.float32(3.)})[0][0] == 27


# -- recurrent networks --------------------------------------------------------------------------------------------------------
def recurrent(cell, lengths=False):
    x = tf.placeholder(tf.float32, [None, None, I])
    feeds = [{x: numbers(i, b, t, I)} for i, (b, t) in enumerate([(B, T), (1, 2), (B, T)])]
    kw = {}
    if lengths:
        kw["sequence_length"] = tf.placeholder(tf.int32, [None])
        for feed in feeds:
            feed[kw["sequence_length"]] = np.arange(len(feed[x])) % feed[x].shape[1] + 1
    out, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, **kw)
    loss = tf.reduce_mean(tf.square(out)) + sum(tf.reduce_sum(s) for s in tf.nest.flatten(state))
    return x, out, [out, loss, *tf.gradients(loss, [x, *tf.trainable_variables()])], feeds


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("cell", ["BasicRNNCell", "LSTMCell", "GRUCell"])
def test_dynamic_rnn(cell, lengths):
    tf.set_random_seed(1)
    _, _, fetches, feeds = recurrent(getattr(tf.nn.rnn_cell, cell)(H), lengths)
    agree(fetches, *feeds)


@pytest.mark.skipif(not pointwise.available(), reason="penstock was installed without a compiler")
def test_the_pointwise_ops_of_a_cell_are_joined():
    """One op for what an LSTM does to each element, forwards and backwards, as if the batch size were in the graph."""
    x, _, fetches, feeds = recurrent(tf.nn.rnn_cell.LSTMCell(H))
    step = step_of(fetches, feeds=[x])
    made = optimize(step, ALL, [feeds[0][x].shape])
    types = [op.type for op in made.ops]
    joined = [op for op in made.ops if op.type in ("_Pointwise", "_Region")]
    assert len(joined) == 2 and types.count("StackPopV2") <= 3 and "BroadcastGradientArgs" not in types
    assert all(None not in (t.static_dims or ()) for op in joined for t in op.inputs)


# -- any loop ------------------------------------------------------------------------------------------------------------------
BODIES = {
    "tanh": lambda a, b, x: tf.tanh(a),
    "other": lambda a, b, x: b,
    "sum": lambda a, b, x: a + tf.reduce_sum(b),
    "grow": lambda a, b, x: tf.concat([a, a[:1] * 0.5], 0),
    "widen": lambda a, b, x: tf.concat([a, b[:1, :1] + tf.zeros([tf.shape(a)[0], 1])], 1),
    "turn": lambda a, b, x: tf.transpose(a),
    "shrink": lambda a, b, x: a[:1],
    "input": lambda a, b, x: x * 0.5 + tf.reduce_sum(a),
    "zeros": lambda a, b, x: tf.zeros_like(b) + 0.5,
    "choose": lambda a, b, x: tf.cond(tf.reduce_sum(b) > 0, lambda: a * 2., lambda: b),
    "array": lambda a, b, x: tf.reshape(tf.TensorArray(tf.float32, 2, infer_shape=False).write(0, a).write(1, b).read(1),
                                        tf.shape(b)),
}
KEEPING = {"tanh", "sum", "input", "zeros", "array"}         # the others have no gradient where sizes change


@hypothesis.settings(max_examples=25, deadline=None, derandomize=True)
@hypothesis.given(st.lists(st.sampled_from(sorted(BODIES)), min_size=1, max_size=2),
                  st.lists(st.sampled_from(sorted(BODIES)), min_size=1, max_size=2),
                  st.integers(0, 3), st.integers(1, 3), st.integers(1, 3))
def test_any_loop(first, second, count, rows, columns):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, None])

        def body(i, a, b):
            new, other = a, b
            for name in first:
                new = BODIES[name](new, b, x)
            for name in second:
                other = BODIES[name](other, a, x)
            return i + 1, new, other
        open_ = tf.TensorShape([None, None])
        _, a, b = tf.while_loop(lambda i, *_: i < count, body, [0, x, x + 1.],
                                shape_invariants=[tf.TensorShape([]), open_, open_])
        grads = tf.gradients([a, b], x) if KEEPING.issuperset(first + second) else []
        agree([a, b, *grads], {x: numbers(1, rows, columns)})
