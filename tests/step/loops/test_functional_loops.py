"""Functional loops: unused variables, invariant code, and sums over iterations, against loops of v1."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.step import bodies

RNG = np.random.RandomState(2)
X, W = RNG.normal(size=(5, 4, 3)).astype(np.float32), RNG.normal(size=(6, 3)).astype(np.float32)


@pytest.fixture
def written(monkeypatch):
    """The sources of the loops that are compiled."""
    found, write = [], bodies.write_loop

    def noting(*args):
        program = write(*args)
        found.append(program.source)
        return program
    monkeypatch.setattr(bodies, "write_loop", noting)
    return found


def values(build, functional, n):
    """What `build(n)` returns, for some counts of iterations."""
    context.process.v2_control_flow = functional
    out = []
    with tf.Graph().as_default(), tf.Session() as sess:
        count = tf.placeholder(tf.int32, [])
        fetches = build(count)
        sess.run(tf.global_variables_initializer())
        for k in n:
            out.append(sess.run(fetches, {count: k}))
    return out


def agree(build, n=(0, 1, 5, 23)):
    """Builds the loop both ways, and compares."""
    for a, b in zip(values(build, True, n), values(build, False, n), strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-5)


def recurrent(count):
    """A recurrent network: its result, and the gradients of its matrix and its bias."""
    w, b = tf.get_variable("w", initializer=W), tf.get_variable("b", initializer=np.float32([0.1, -0.2, 0.3]))
    w, b = tf.identity(w), tf.identity(b)
    xs = tf.TensorArray(tf.float32, 5, clear_after_read=False).unstack(X)

    def body(i, h):
        return i + 1, tf.tanh(tf.matmul(tf.concat([xs.read(i % 5), h], 1), w) + b)
    _, h = tf.while_loop(lambda i, h: i < count, body, [tf.constant(0), tf.zeros([4, 3])])
    return [h, *tf.gradients(tf.reduce_sum(h * h), [w, b])]


def test_a_recurrent_network_and_its_gradients(written):
    agree(recurrent)
    forward, backward = written[-2:]
    assert "OuterSum" in backward and "RowSum" in backward
    before, _, inside = backward.partition("while True")
    assert "_Turned" in before and "_Turned" not in inside


def test_sums_in_small_pieces(monkeypatch):
    from penstock._src.step.loops import outer_sum
    monkeypatch.setattr(outer_sum, "_ROWS", 9)
    agree(recurrent, (23,))


def test_a_gradient_that_nobody_asked_for_is_not_computed(written):
    def build(count):
        x, w = tf.constant(X[0]), tf.get_variable("w", initializer=W[:3])
        _, h = tf.while_loop(lambda i, h: i < count, lambda i, h: (i + 1, tf.sinh(0.1 * h * x) + tf.matmul(h, w)),
                             [tf.constant(0), tf.ones([4, 3])])
        return tf.gradients(tf.reduce_sum(h), [w])
    agree(build, (1, 4))
    assert "Sinh" in written[-2] and written[-1].count(": Cosh") == 1


def test_variables_that_only_feed_themselves_are_dropped(written):
    def build(count):
        _, a, _, _ = tf.while_loop(lambda i, a, b, c: i < count, lambda i, a, b, c: (i + 1, a * 2.0, b * 3.0 + c, c - 1.0),
                                   [tf.constant(0), tf.constant(1.0), tf.constant(1.0), tf.constant(5.0)])
        return [a]
    agree(build)
    source = written[-1]
    assert source.count("Mul") == 1 and "Sub" not in source


def test_variables_that_the_test_or_an_effect_needs_stay():
    def by_test(count):
        _, a, _ = tf.while_loop(lambda i, a, b: b < 40.0, lambda i, a, b: [i + 1, a + 1.0, b * 2.0],
                                [tf.constant(0), tf.constant(0.0), tf.constant(1.0)], maximum_iterations=count)
        return [a]
    agree(by_test)

    def by_effect(count):
        v = tf.get_variable("v", initializer=0.0, use_resource=True)

        def body(i, a, b):
            with tf.control_dependencies([v.assign_add(b)]):
                return i + 1, a + 1.0, b * 2.0
        _, a, _ = tf.while_loop(lambda i, a, b: i < count, body, [tf.constant(0), tf.constant(0.0), tf.constant(1.0)])
        with tf.control_dependencies([a]):
            return [tf.identity(a), v.read_value()]
    agree(by_effect, (0, 3))


def test_variables_that_change_places():
    def build(count):
        _, a, _, _ = tf.while_loop(lambda i, a, b, c: i < count, lambda i, a, b, c: (i + 1, b, c, a + 1.0),
                                   [tf.constant(0), tf.constant(1.0), tf.constant(2.0), tf.constant(3.0)])
        return [a]
    agree(build, (0, 1, 2, 3, 7))


def test_what_stays_the_same_is_computed_once(written):
    def build(count):
        x = tf.get_variable("x", initializer=np.linspace(0, 1, 3000, dtype=np.float32))
        _, a = tf.while_loop(lambda i, a: i < count, lambda i, a: (i + 1, a + tf.exp(x)), [tf.constant(0), tf.zeros([3000])])
        return [a]
    agree(build)
    before, _, inside = written[-1].partition("while True")
    assert "Exp" in before and "Exp" not in inside


def test_loops_in_functions_and_in_loops():
    def build(count):
        w = tf.get_variable("w", initializer=W[:3])

        def outer(i, h, unused):
            _, g, _ = tf.while_loop(lambda j, g, u: j < 2, lambda j, g, u: (j + 1, tf.tanh(tf.matmul(g, w)), u + g),
                                    [tf.constant(0), h, h])
            return i + 1, g, unused + 1.0
        _, h, _ = tf.while_loop(lambda i, h, u: i < count, outer, [tf.constant(0), tf.constant(X[0]), tf.constant(0.0)])
        return [h, *tf.gradients(tf.reduce_sum(h), [w])]
    agree(build, (0, 1, 4))


def test_a_traced_loop():
    def run(x, n):
        import penstock as tf2

        @tf2.function
        def f(x, n):
            h, unused, i = x, x, 0
            while i < n:
                h, unused = tf2.tanh(tf2.matmul(h, W[:3]) + 1.0), unused * 2.0
                i += 1
            return h
        return f(tf2.constant(x), tf2.constant(n)).numpy()
    before = tf.executing_eagerly()
    if not before:
        tf.enable_eager_execution()
    h = X[0]
    for _ in range(3):
        h = np.tanh(h @ W[:3] + 1.0)
    np.testing.assert_allclose(run(X[0], 3), h, rtol=1e-4)



def test_functions_that_a_body_calls_are_looked_through(written):
    import penstock as tf2

    @tf2.function
    def both(a, b):
        return a * 2.0, tf2.sin(b) + a

    def build(count):
        _, a, _ = tf.while_loop(lambda i, a, b: i < count, lambda i, a, b: (i + 1, *both(a, b)),
                                [tf.constant(0), tf.constant(X[0]), tf.constant(X[1])])
        return [a]
    agree(build, (0, 3))
    assert ": Sin" not in written[-1] and "Call" not in written[-1]


def indexed_in_branches(count):
    """Positions that are computed inside of branches, and inside of branches of these, with the gradient of what is read."""
    x = tf.identity(tf.get_variable("x", initializer=X))

    def inner(i):
        return tf.cond(i % 3 > 0, lambda: x[(i - 1) % 5] * 2.0, lambda: tf.reduce_sum(x[1:3], 0)), i * 2

    def body(i, h, total):
        part, step = tf.cond(i > 0, lambda: inner(i), lambda: (x[0], i - 7))
        return i + 1, tf.tanh(h + part), total + step
    _, h, total = tf.while_loop(lambda i, *_: i < count, body, [tf.constant(0), tf.zeros([4, 3]), tf.constant(3)])
    return [h, total, *tf.gradients(tf.reduce_sum(h * h), [x])]


def test_positions_in_branches_are_numbers(written):
    agree(indexed_in_branches)
    branch = written[0][written[0].index("if n"):]
    assert "_SelectAt" in branch and ": FloorMod" in branch
    assert "make_int32" not in branch[:branch.index("_SelectAt")]


def test_numbers_of_branches_wrap_and_raise(written):
    def build(count):
        def body(i, n):
            return i + 1, tf.cond(i > 1, lambda: n + 2 ** 31 - 1, lambda: n * 3)
        return tf.while_loop(lambda i, _: i < count, body, [tf.constant(0), tf.constant(5)])
    agree(build)

    def outside(count):
        x = tf.constant(X)

        def body(i, h):
            return i + 1, tf.cond(i > 1, lambda: h + x[i + 9], lambda: h)
        return tf.while_loop(lambda i, _: i < count, body, [tf.constant(0), tf.zeros([4, 3])])[1:]
    assert not values(outside, True, [2])[0][0].any()
    with pytest.raises(tf.errors.InvalidArgumentError, match="slice index 11 of dimension 0 out of bounds"):
        values(outside, True, [3])


@pytest.mark.parametrize("limit", [None, 4])
def test_the_first_variables_are_the_counter_and_the_limit(limit):
    """Converters of GraphDefs expect them there, also where the program gives no limit."""
    context.process.v2_control_flow = True
    with tf.Graph().as_default() as graph, tf.Session() as session:
        end = tf.while_loop(lambda i, x: i < 7, lambda i, x: (i + 1, x * 2.0), [tf.constant(0), tf.constant(3.0)],
                            maximum_iterations=limit)
        loop, = [op for op in graph.get_operations() if "While" in op.type]
        counter, maximum, end = session.run([loop.inputs[0], loop.inputs[1], end])
    assert (counter, maximum) == (0, -1 if limit is None else limit)
    assert end == ([7, 384.0] if limit is None else [4, 48.0])


def test_a_condition_of_one_element_in_a_dimension():
    context.process.v2_control_flow = True
    with tf.Graph().as_default(), tf.Session() as session:
        start = tf.placeholder_with_default([1], [None])
        known = tf.while_loop(lambda i: i < 10, lambda i: i + 3, [tf.constant([2])])
        unknown = tf.while_loop(lambda i: i < 10, lambda i: i + 3, [start])
        assert [v.tolist() for v in session.run([known, unknown])] == [[11], [10]]


def test_a_number_may_take_the_value_of_an_invariant():
    def build(n):
        seven = tf.placeholder_with_default(7, [])
        return tf.while_loop(lambda i, j, k, s: i < n, lambda i, j, k, s: (i + 1, k, k, s + tf.cast(j, tf.float32)),
                             [0, 1, seven, tf.zeros([3])])
    agree(build)


def test_values_that_every_group_computes_again_are_no_op():
    """Two groups recompute the values of a third one, which then has no results."""
    def build(n):
        def body(i, s, x):
            wide = tf.broadcast_to(s, [1])
            root = tf.cumsum(tf.abs(x))
            half = tf.raw_ops.SqrtGrad(y=root, dy=wide) * (wide * -0.5)
            return i + 1, s * 0.5, half - 2 * tf.raw_ops.SqrtGrad(y=root, dy=wide) * -wide
        return tf.while_loop(lambda i, s, x: i < n, body, [0, 1.5, tf.constant([2.0])])
    agree(build, (0, 1, 3))
