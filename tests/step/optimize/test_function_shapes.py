"""Shapes in functional loops and conditionals, and of the elements of lists, computed from the shapes that are fed."""
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.graph.list_types import EMPTY, UNSET, Elements
from penstock._src.kernels import regions
from penstock._src.ops import rules
from penstock._src.step.optimize.inlining import function_body
from penstock._src.step.optimize.options import ALL
from penstock._src.step.optimize.pipeline import optimize

from .steps import numbers, step_of
from .test_loop_shapes import BODIES, KEEPING, agree, recurrent, shapes

OPEN = tf.TensorShape([None, None])
SCALAR = tf.TensorShape([])


@pytest.fixture(autouse=True)
def functional():
    before, context.process.v2_control_flow = context.process.v2_control_flow, True
    with tf.Graph().as_default():
        yield
    context.process.v2_control_flow = before


def loops(fetches, feed):
    """The loops of an optimized step."""
    step = optimize(step_of(fetches, feeds=list(feed)), ALL, [np.shape(v) for v in feed.values()])
    return [op for op in step.ops if op.opdef in rules.inlining.loop]


def counted(body, *values, times=3):
    """The variables of a loop after some iterations."""
    return tf.while_loop(lambda i, *_: i < times, lambda i, *v: (i + 1, *body(*v)), [0, *values],
                         shape_invariants=[SCALAR, *(OPEN for _ in values)])[1:]


# -- what is known -------------------------------------------------------------------------------------------------------------
def test_a_variable_has_the_shape_that_enters():
    x = tf.placeholder(tf.float32, [None, None])
    y, = counted(lambda y: [tf.tanh(y) + x], x * 2.)
    assert shapes([y], {x: numbers(1, 3, 4)})[y.name] == (3, 4)
    agree([y, tf.gradients(tf.square(y), x)[0]], {x: numbers(1, 3, 4)}, {x: numbers(2, 5, 1)}, {x: numbers(2, 0, 2)})


@pytest.mark.parametrize("body, known", [
    (lambda y: tf.concat([y, tf.tanh(y[:1])], 0), (None, 3)),
    (lambda y: tf.transpose(y), (None, None)),
    (lambda y: tf.cond(tf.reduce_sum(y) > 0., lambda: y * 2., lambda: tf.sin(y)), (2, 3)),
    (lambda y: tf.cond(tf.reduce_sum(y) > 0., lambda: y[:, :1], lambda: y), (2, None)),
    (lambda y: tf.while_loop(lambda j, _: j < 2, lambda j, z: (j + 1, tf.sin(z) * 0.5), [0, y])[1], (2, 3)),
])
def test_what_stays_of_a_shape(body, known):
    x = tf.placeholder(tf.float32, [None, None])
    y, = counted(lambda y: [body(y)], x)
    assert shapes([y], {x: numbers(1, 2, 3)})[y.name] == known
    agree([y], {x: numbers(1, 2, 3)}, {x: numbers(1, 2, 1)})


def test_a_rank_that_changes():
    x = tf.placeholder(tf.float32, [None, None])
    _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.expand_dims(y, 0) + 1.), [0, x],
                         shape_invariants=[SCALAR, tf.TensorShape(None)])
    assert shapes([y], {x: numbers(1, 2, 3)})[y.name] is None
    agree([y], {x: numbers(1, 2, 3)})


def test_no_iteration():
    x, n = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int32, [])
    y, = counted(lambda y: [tf.concat([y, y], 0)], x, times=n)
    agree([y, *tf.gradients(tf.square(y), x)], {x: numbers(1, 3, 2), n: 0}, {x: numbers(1, 3, 2), n: 2})


def test_a_claim_that_a_rule_refuses():
    """The branch that reshapes is not taken in the first iteration."""
    x = tf.placeholder(tf.float32, [None])

    def body(i, y):
        grown = tf.concat([y, y], 0)
        return i + 1, tf.cond(tf.equal(i, 0), lambda: grown, lambda: tf.reshape(tf.reshape(y, [2, 2]) * 3., [-1]))
    _, y = tf.while_loop(lambda i, _: i < 3, body, [0, x], shape_invariants=[SCALAR, tf.TensorShape([None])])
    agree([y], {x: numbers(1, 2)})


# -- lists ---------------------------------------------------------------------------------------------------------------------
def test_what_holds_for_elements():
    two = np.array(2, np.int32)
    assert EMPTY.with_item((3,), two).constant() == 2
    assert EMPTY.with_item((), two).with_item((), two).constant() == 2
    assert EMPTY.with_item((), two).with_item((), np.array(3, np.int32)).constant() is None
    assert UNSET.with_item((), two).constant() is None and UNSET.with_item((3,), two).shape == (3,)
    assert EMPTY.shape is None and EMPTY.or_other(UNSET).shape is None and EMPTY.or_other(UNSET).value is None
    assert Elements((2, 3), None, 4).or_other(Elements((2, 4), None, 5)) == Elements((2, None), None, None)


@pytest.mark.parametrize("write, known", [
    (lambda a, x: a.unstack(x), (3, 4)),
    (lambda a, x: a.write(0, x).write(1, x * 2.).write(2, x + 1.), (3, 3, 4)),
    (lambda a, x: a.write(0, x), (3, 3, 4)),                                    # the others are zeros
])
def test_stacked_elements(write, known):
    x = tf.placeholder(tf.float32, [None, None])
    y = write(tf.TensorArray(tf.float32, size=3, infer_shape=False), x).stack()
    feed = {x: numbers(1, 3, 4)}
    assert shapes([y], feed)[y.name] == known
    agree([y, tf.gradients(tf.square(y), x)[0]], feed)


def test_elements_of_several_shapes():
    x = tf.placeholder(tf.float32, [None, None])
    array = tf.TensorArray(tf.float32, size=3, infer_shape=False).write(0, x).write(1, x[1:]).write(2, x[:, :1])
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y + tf.tanh(tf.reduce_sum(array.read(i)))), [0, 0.])
    agree([y, tf.gradients(y, x)[0]], {x: numbers(1, 3, 4)})


def test_a_list_that_a_loop_writes_and_reads():
    x = tf.placeholder(tf.float32, [None])
    array = tf.TensorArray(tf.float32, size=4, infer_shape=False, clear_after_read=False).write(0, x)

    def body(i, a):
        return i + 1, a.write(i, tf.concat([a.read(i - 1), tf.tanh(x)], 0))
    _, array = tf.while_loop(lambda i, _: i < 4, body, [1, array])
    y = array.read(3)
    assert shapes([y], {x: numbers(1, 3)})[y.name] == (None,)
    agree([y, tf.gradients(tf.square(y), x)[0]], {x: numbers(1, 3)})


def test_saved_shapes_become_constants():
    """The gradient neither pops shapes nor asks for them, and the loop does not save them."""
    x, row = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, [None])
    y, = counted(lambda y: [tf.tanh(y * row) + tf.reduce_sum(y)], x)
    fetches = [y, *tf.gradients(tf.square(y), [x, row])]
    feed = {x: numbers(1, 2, 3), row: numbers(2, 3)}
    forward, backward = loops(fetches, feed)
    body = backward.attrs["body"].known
    assert all(known.dims == (2, 3) or known.dims == () for known in body if isinstance(known, Elements))
    assert not any(isinstance(known, Elements) and known.constant() is not None for known in forward.attrs["body"].known)
    agree(fetches, feed, {x: numbers(1, 2, 3), row: numbers(2, 1)}, {x: numbers(1, 2, 1), row: numbers(2, 3)})


def test_saved_shapes_of_what_grows_stay_saved():
    x, row = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, [None])
    y, = counted(lambda y: [tf.concat([y * row, y[:1]], 0)], x)
    agree([y, *tf.gradients(tf.square(y), [x, row])], {x: numbers(1, 2, 3), row: numbers(2, 3)})


def test_a_list_that_is_emptied_says_so():
    handle = tf.raw_ops.EmptyTensorList(element_shape=tf.constant(-1), max_num_elements=-1, element_dtype=tf.int32)
    handle = tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=tf.constant(3))
    for _ in range(2):
        handle, value = tf.raw_ops.TensorListPopBack(input_handle=handle, element_shape=tf.constant(-1), element_dtype=tf.int32)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="empty list"):
        sess.run([tf.raw_ops.TensorListLength(input_handle=handle), value])


# -- constants -----------------------------------------------------------------------------------------------------------------
def _body_types(op):
    function = op.attrs["body"]
    return [o.type for o in optimize(function_body(function), ALL, function.known and list(function.known), in_loop=True).ops]


def test_sizes_from_outside_are_constants_inside_of_a_loop():
    x = tf.placeholder(tf.float32, [None, None])
    rows, columns = tf.shape(x)[0], tf.shape(x)[1]

    def body(y):
        parts = tf.reshape(y, [rows * columns]) + tf.cast(tf.range(rows * columns), tf.float32)
        return [tf.reshape(parts, [rows, columns]) * 0.5]
    y, = counted(body, x)
    loop, = loops([y], {x: numbers(1, 3, 4)})
    assert {"Range", "Pack", "Cast"}.isdisjoint(_body_types(loop))
    agree([y, tf.gradients(tf.square(y), x)[0]], {x: numbers(1, 3, 4)}, {x: numbers(2, 5, 1)}, {x: numbers(2, 0, 2)})


def test_a_constant_that_a_loop_changes_is_none_inside():
    x = tf.placeholder(tf.float32, [None, None])
    fixed, size = tf.shape(x)[0], tf.shape(x)[1]

    def body(y, size):
        return tf.concat([y, tf.zeros([1, tf.shape(y)[1]]) + tf.cast(size + fixed, tf.float32)], 0), size * 2
    _, y, size = tf.while_loop(lambda i, *_: i < 3, lambda i, *v: (i + 1, *body(*v)), [0, x, size],
                               shape_invariants=[SCALAR, OPEN, SCALAR])
    agree([y, size], {x: numbers(1, 3, 4)}, {x: numbers(2, 5, 1)}, {x: numbers(2, 0, 2)})


def test_sizes_from_outside_are_constants_on_branches():
    x = tf.placeholder(tf.float32, [None, None])
    rows = tf.shape(x)[0]

    def body(y):
        return [tf.cond(tf.reduce_sum(y) > 0., lambda: y - tf.cast(rows, tf.float32), lambda: tf.tile(y[:1] + 1., [rows, 1]))]
    y, = counted(body, x)
    agree([y], {x: numbers(1, 3, 4)}, {x: numbers(2, 5, 1)})


# -- networks ------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("cell", ["BasicRNNCell", "LSTMCell", "GRUCell"])
def test_dynamic_rnn(cell, lengths):
    tf.set_random_seed(1)
    _, _, fetches, feeds = recurrent(getattr(tf.nn.rnn_cell, cell)(2), lengths)
    agree(fetches, *feeds)


@pytest.mark.skipif(not regions.available(), reason="penstock was installed without a compiler")
def test_an_iteration_is_one_region():
    x, _, fetches, feeds = recurrent(tf.nn.rnn_cell.GRUCell(2))
    for op in loops(fetches, {x: feeds[0][x]}):
        function = op.attrs["body"]
        step = optimize(function_body(function), ALL, list(function.known), in_loop=True)
        types = [o.type for o in step.ops]
        assert types.count("_Region") == 1 and {"Tanh", "Sigmoid", "Mul", "TanhGrad", "BroadcastGradientArgs"}.isdisjoint(types)


def test_functions_are_compiled_for_shapes_that_come_again():
    with context.enter(None):
        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32)], autograph=False)
        def f(x):
            array = tf.TensorArray(tf.float32, 0, dynamic_size=True)
            _, y, array = tf.while_loop(lambda i, *_: i < 4, lambda i, y, a: (i + 1, tf.sin(y + x) @ y, a.write(i, y)),
                                        [0, x, array])
            return tf.reduce_sum(array.stack(), 0) + y
        for rows in (2, 2, 2, 2, 3, 3, 3, 3, 2, 3):
            x = numbers(rows, rows, rows)
            y, total = x, 0.
            for _ in range(4):
                total, y = total + y, np.sin(y + x) @ y
            np.testing.assert_allclose(f(tf.constant(x)), total + y, rtol=1e-4, atol=1e-5)


# -- any loop ------------------------------------------------------------------------------------------------------------------
@hypothesis.settings(max_examples=30, deadline=None, derandomize=True)
@hypothesis.given(st.lists(st.sampled_from(sorted(BODIES)), min_size=1, max_size=2),
                  st.lists(st.sampled_from(sorted(BODIES)), min_size=1, max_size=2),
                  st.integers(0, 3), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0., np.nan, np.inf]))
def test_any_loop(first, second, count, rows, columns, special):
    def build(functional):
        context.process.v2_control_flow = functional
        x = tf.placeholder(tf.float32, [None, None])

        def body(a, b):
            new, other = a, b
            for name in first:
                new = BODIES[name](new, b, x)
            for name in second:
                other = BODIES[name](other, a, x)
            return new, other
        a, b = counted(body, x, x + 1., times=count)
        grads = tf.gradients([a, b], x) if KEEPING.issuperset(first + second) else []
        value = numbers(1, rows, columns)
        value[0, 0] += special
        return agree([a, b, *grads], {x: value})
    with tf.Graph().as_default():
        for found, wanted in zip(build(True), build(False), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    context.process.v2_control_flow = True


# -- parts and rows ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("part", [
    lambda x, i: x[i:i + 2], lambda x, i: x[:, i - 1:i + 1], lambda x, i: x[i - 5:9], lambda x, i: x[i:1],
    lambda x, i: x[..., i:i + 1], lambda x, i: x[1:, i:3], lambda x, i: x[-i:], lambda x, i: x[:i, :]])
def test_parts_between_computed_bounds(part):
    x = tf.placeholder(tf.float32, [4, 5])
    _, y = tf.while_loop(lambda i, _: i < 4, lambda i, y: (i + 1, y + tf.reduce_sum(part(tf.tanh(x) * y, i))), [0, 1.])
    agree([y, tf.gradients(y, x)[0]], {x: numbers(1, 4, 5)}, {x: numbers(2, 4, 5)})


def test_gradients_of_rows_are_added_where_they_belong():
    table = tf.placeholder(tf.float32, [300, 64])
    rows = tf.constant(np.random.RandomState(0).randint(0, 300, [6, 7]))

    def body(i, total):
        return i + 1, total + tf.reduce_sum(tf.tanh(tf.gather(table, rows[i])))
    _, total = tf.while_loop(lambda i, _: i < 6, body, [0, 0.])
    grad = tf.gradients(total, table)[0]
    step = optimize(step_of([tf.convert_to_tensor(grad)], feeds=[table]), ALL, [(300, 64)])
    backward = [op for op in step.ops if op.opdef in rules.inlining.loop][-1]
    assert "_AddBySegment" in _body_types(backward) and "UnsortedSegmentSum" not in _body_types(backward)
    agree([total, grad], {table: numbers(1, 300, 64)}, {table: numbers(2, 300, 64)})


@pytest.mark.parametrize("read", [lambda v, i: tf2.gather(v, i), lambda v, i: tf2.gather_nd(v, i[..., None]),
                                  lambda v, i: tf2.nn.embedding_lookup(v, i)],
                         ids=["gather", "gather_nd", "embedding_lookup"])
def test_rows_of_a_variable_have_known_shapes_if_their_indices_have(read):
    """A function has the variable as an input; what is read from it has the shape of the indices that come again."""
    with context.enter(None):
        table = tf2.Variable(np.arange(12, dtype="f").reshape(4, 3))

        @tf2.function(input_signature=[tf2.TensorSpec([None, 2], tf2.int32)])
        def rows(i):
            return tf2.reduce_sum(read(table, i) * 2.0, -1)
        for _ in range(5):
            found = rows(tf2.constant([[0, 1], [3, 3], [2, 0]]))
        text = rows.explain()
    np.testing.assert_array_equal(found, [[6, 24], [60, 60], [42, 6]])
    special = text.split("# for shapes [3, 2]")[1]
    assert "float32[3,2,3]" in special and "float32[?,2,3]" not in special
