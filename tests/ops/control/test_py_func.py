"""Python functions as ops, and custom gradients."""
import gc
import weakref

import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.ops.control import py_func
from tests.graph.test_control_flow import F, graphs, modes


@pytest.fixture(autouse=True)
def _v1_control_flow():
    context.process.v2_control_flow = False


@modes
def test_numpy_function(mode):
    def f(x, y):
        return tf.numpy_function(lambda a, b: [np.sinh(a), np.array([str(b).encode()], object)], [x, y],
                                 [tf.float32, tf.string])
    a, b = mode.run(f, F(1), np.int32(7))
    np.testing.assert_allclose(a, np.sinh(1), rtol=1e-6)
    assert b.tolist() == [b"7"]


@modes
def test_py_function_is_differentiable(mode):
    def f(x):
        y = tf.py_function(lambda a: (a * a, a + 1.0), [x], [tf.float32, tf.float32])
        return tf.reduce_sum(y[0] * 3.0 + y[1])
    x = np.array([1, 2], F)
    value, (g,) = mode.grads(f, x)
    assert value == 20 and g.tolist() == [7, 13]


@graphs
def test_a_py_function_in_a_loop_has_a_gradient_per_call(mode):
    def f(x):
        def body(i, a):
            b = tf.py_function(lambda v: v * v, [a], tf.float32)
            b.set_shape([])
            return i + 1, b
        return tf.while_loop(lambda i, a: i < 3, body, (tf.constant(0), x))[1]
    assert mode.grads(f, F(2)) == (256, [1024])


@pytest.mark.parametrize(("error", "typed"), [
    (ValueError, tf.errors.InvalidArgumentError), (TypeError, tf.errors.InvalidArgumentError),
    (StopIteration, tf.errors.OutOfRangeError), (NotImplementedError, tf.errors.UnimplementedError),
    (KeyError, tf.errors.UnknownError)])
def test_what_a_function_raises_is_typed(error, typed):
    def fail():
        raise error("blah")
    with tf.Graph().as_default(), tf.Session() as sess, pytest.raises(typed, match="blah"):
        sess.run(tf.py_func(fail, [], tf.float32))


def test_results_are_checked():
    with tf.Graph().as_default(), tf.Session() as sess:
        def fails(result, text, error=tf.errors.InvalidArgumentError):
            with pytest.raises(error, match=text):
                sess.run(tf.py_func(lambda: result, [], [tf.float32]))
        fails(np.float64(1), "is double, but expects float")
        fails([np.float32(1), np.float32(2)], "returns 2 values, but expects to see 1 values")
        fails({"a": 1}, "Unsupported object type", tf.errors.InternalError)
        with pytest.raises(ValueError, match="callable"):
            tf.py_func(3, [], tf.float32)


def test_results_do_not_alias_what_the_function_keeps():
    kept = np.zeros(2, F)
    with tf.Graph().as_default(), tf.Session() as sess:
        y = tf.py_func(lambda: kept, [], tf.float32)
        first = sess.run(y)
        kept[:] = 5
        assert first.tolist() == [0, 0] and sess.run(y).tolist() == [5, 5]


# -- custom gradients ---------------------------------------------------------------------------------------------------
@modes
def test_custom_gradient(mode):
    @tf.custom_gradient
    def f(x, y):
        return x * y, lambda d: (d * 100.0, d * y)
    assert mode.grads(lambda x, y: f(x, y) * 2.0, F(3), F(4)) == (24, [200, 8])


@graphs
def test_custom_gradient_with_several_results(mode):
    @tf.custom_gradient
    def f(x):
        return (x, x * 2.0), lambda a, b: a * 10.0 + b
    assert mode.grads(lambda x: f(x)[0] + f(x)[1], F(3)) == (9, [11])


@pytest.mark.parametrize("wrap", [lambda f: f, tf2.function], ids=["eager", "function"])
def test_custom_gradient_with_variables(wrap):
    with context.enter(None):
        v = tf2.Variable(3.0)

        @tf.custom_gradient
        def f(x):
            def grad(d, variables=None):
                assert len(variables) == 1 and variables[0] is v
                return d * 5.0, [d * 7.0]
            return x * v, grad
        x = tf2.constant(2.0)
        with tf2.GradientTape() as tape:
            tape.watch(x)
            y = wrap(f)(x)
        dx, dv = tape.gradient(y, [x, v])
        assert y.numpy() == 6 and dx.numpy() == 5 and dv.numpy() == 7

        @tf.custom_gradient
        def bad(x):
            return x * v, lambda d: d
        with pytest.raises(TypeError, match="must accept a keyword argument 'variables'"):
            bad(x)


@modes
def test_recompute_grad(mode):
    calls = []

    @tf.recompute_grad
    def f(x):
        calls.append(1)
        return tf.sin(x) * x
    value, (g,) = mode.grads(f, F(0.5))
    np.testing.assert_allclose([value, g], [np.sin(0.5) * 0.5, np.sin(0.5) + 0.5 * np.cos(0.5)], rtol=1e-5)
    assert len(calls) == 2


@modes
def test_grad_pass_through(mode):
    assert mode.grads(lambda x: tf.grad_pass_through(tf.round)(x), F(2.6)) == (3, [1])


def test_tokens_cannot_be_guessed():
    """A graph of a stranger that names "pyfunc_0", or the next of some order, finds no function of this program."""
    with tf.Graph().as_default() as graph:
        for _ in range(3):
            tf.py_func(lambda: 1.0, [], tf.double)
        tokens = [op.get_attr("token") for op in graph.get_operations() if op.type == "PyFunc"]
    assert len(set(tokens)) == 3 and all(len(t) >= len("pyfunc_") + 32 for t in tokens)
    with tf.Graph().as_default(), tf.Session() as sess:
        for token in ("pyfunc_0", "pyfunc_1"):
            with pytest.raises(tf.errors.InvalidArgumentError, match="not found"):
                sess.run(tf.raw_ops.PyFunc(input=[], token=token, Tout=[tf.double]))


def test_py_function_is_a_decorator_without_tensors():
    @tf2.py_function(Tout=tf2.int32)
    def plus(a, b):
        return a + b
    assert int(plus(1, 2)) == 3
    with pytest.raises(TypeError, match="Missing.*Tout"):
        tf2.py_function(lambda a: a)
    with pytest.raises(TypeError, match="Don't set the `inp`"):
        tf2.numpy_function(inp=[1], Tout=tf2.int32)
    with pytest.raises(TypeError, match="Missing.*inp"):
        tf2.py_function(lambda a: a, Tout=tf2.int32)


@pytest.mark.parametrize("traced", [False, True])
def test_py_function_takes_and_returns_ragged_tensors(traced):
    x = tf2.ragged.constant([[1.0, 2.0], [3.0]])

    def doubled(x):
        return x + tf2.py_function(lambda v: 2 * v, [x], tf2.RaggedTensorSpec.from_value(x))
    assert (tf2.function(doubled) if traced else doubled)(x).to_list() == [[3.0, 6.0], [9.0]]
    with pytest.raises((ValueError, tf2.errors.InvalidArgumentError), match="did not match Tout"):
        tf2.py_function(lambda v: v, [x], [tf2.float32])


@pytest.mark.parametrize("wrap", [lambda f: f, tf2.function], ids=["eager", "function"])
def test_custom_gradient_of_ragged_tensors(wrap):
    @tf2.custom_gradient
    def twice(x, y):
        return (x * x, 2 * y), lambda dx, dy: (3 * dx, 4 * dy)
    a, b = tf2.ragged.constant([[1.0, 2.0], [3.0]]), tf2.constant([4.0, 5.0])
    with tf2.GradientTape() as tape:
        tape.watch((a, b))
        squares, doubles = wrap(twice)(a, b)
    assert squares.to_list() == [[1.0, 4.0], [9.0]] and doubles.numpy().tolist() == [8.0, 10.0]
    da, db = tape.gradient((squares, doubles), (a, b))
    assert da.to_list() == [[3.0, 3.0], [3.0]] and db.numpy().tolist() == [4.0, 4.0]


@pytest.mark.parametrize("how", ["eager", "function", "dataset", "session"])
def test_what_a_call_saw_and_returned_is_freed(how):
    """The tapes of calls live as long as their results, and not because of themselves."""
    gc.collect()
    before, seen = len(py_func._tapes._by_output), []

    def doubled(x):
        y = x * 2.0
        seen.extend(map(weakref.ref, (x._value, y._value)))
        return y

    def call(x):
        return tf2.py_function(doubled, [x], tf.float32)
    if how == "eager":
        for i in range(3):
            assert call(tf.fill([3], float(i))).numpy().tolist() == 3 * [2.0 * i]
    elif how == "function":
        function = tf2.function(call)
        for i in range(3):
            assert function(tf.fill([3], float(i))).numpy().tolist() == 3 * [2.0 * i]
    elif how == "dataset":
        made = tf2.data.Dataset.range(3).map(lambda i: call(tf.cast(i, tf.float32)))
        assert [float(x) for x in made] == [0.0, 2.0, 4.0]
        del made
    else:
        with tf2.Graph().as_default(), tf.Session() as sess:
            x = tf.placeholder(tf.float32, [])
            y = call(x)
            assert [sess.run(y, {x: i}) for i in range(3)] == [0.0, 2.0, 4.0]
    gc.collect()
    assert len(seen) == 6
    assert sum(r() is not None for r in seen) <= 2          # a session may hold the last ones
    assert len(py_func._tapes._by_output) <= before + 1


def test_a_gradient_goes_through_a_call_that_also_takes_integers():
    x = tf.constant([1.0, 2.0])
    with tf2.GradientTape() as tape:
        tape.watch(x)
        y = tf2.py_function(lambda a, n: a ** tf.cast(n, tf.float32), [x, tf.constant(3)], tf.float32)
    np.testing.assert_allclose(tape.gradient(y, x), [3.0, 12.0], rtol=1e-6)
    assert tf2.py_function(lambda n: n + 1, [tf.constant(3)], tf.int32).numpy() == 4
