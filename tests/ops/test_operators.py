"""Python's operators on tensors."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.graph import context

X = np.array([[1., 2.], [3., 4.]], np.float32)
BINARY = [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a // b,
          lambda a, b: a % b, lambda a, b: a ** b, lambda a, b: a @ b, lambda a, b: a < b, lambda a, b: a >= b]


@pytest.mark.parametrize("f", BINARY)
def test_against_numpy(f):
    y = X[::-1].copy()
    for a, b in ((tf2.constant(X), tf2.constant(y)), (tf2.constant(X), y), (X, tf2.constant(y))):
        out = f(a, b)
        assert isinstance(out, tf2.Tensor)
        np.testing.assert_allclose(out.numpy(), f(X, y), rtol=1e-6)


def test_python_numbers_take_the_tensors_type():
    x = tf2.constant([1, 2], tf2.int64)
    assert (x + 1).dtype == (1 + x).dtype == tf.int64
    assert (tf2.constant([1.5]) * 2).dtype == tf.float32
    assert (x / 2).dtype == tf.float64
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected to be a int64 tensor but is a float tensor"):
        x + 1.5
    with tf.Graph().as_default(), pytest.raises(TypeError, match="float32 that does not match type int64"):
        tf.constant([1, 2], tf.int64) + 1.5


def test_names_in_graphs():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, name="x")
        i = tf.placeholder(tf.int32, name="i")
        assert [t.op.name for t in (x + 1, 1 - x, x * x, x / 2, x // 2, x % 2, x ** 2, x @ x, -x, abs(x), x < 1)] == [
            "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "Neg", "Abs", "Less"]
        assert (x + 1).op.inputs[1].op.name == "add_1/y"
        assert (i / 2).op.name == "truediv_1" and (i / 2).op.inputs[0].op.name == "truediv_2/Cast"
        assert (x + np.ones(2)).op.inputs[1].op.name == "add_2/y"


def test_logic():
    t, n = tf2.constant([True, False]), tf2.constant([6, 3])
    assert (t & [True, True]).numpy().tolist() == [True, False]
    assert (t | True).numpy().tolist() == [True, True]
    assert (t ^ t).numpy().tolist() == [False, False]
    assert (~t).numpy().tolist() == [False, True]
    assert (n & 5).numpy().tolist() == [4, 1] and (~n).numpy().tolist() == [-7, -4]


def test_products_of_booleans():
    """Values of real TensorFlow: the operator multiplies integers, `tf.multiply` refuses booleans."""
    t, x = tf2.constant([True, False]), tf2.constant([3.5, 0.5])
    for y, expected in ((t, [True, False]), (1, [True, False]), (0.5, [False, False]), (x, [True, False]), (None, None)):
        if y is None:
            with pytest.raises(ValueError):
                t * y
            continue
        assert (t * y).dtype == tf2.bool and (t * y).numpy().tolist() == expected
        assert tf2.function(lambda y=y: t * y)().numpy().tolist() == expected
    assert (x * t).numpy().tolist() == [True, False]
    for wrong in (lambda: 2 * t, lambda: tf2.multiply(t, t)):
        with pytest.raises((TypeError, tf2.errors.InvalidArgumentError)):
            wrong()


def test_equality_by_value_and_by_identity():
    x, y = tf2.constant([1., 2.]), tf2.constant([1., 3.])
    assert (x == y).numpy().tolist() == [True, False] and (x != y).numpy().tolist() == [False, True]
    assert (x == None) is False and (x != None) is True   # noqa: E711
    assert not bool(x == tf2.constant([1., 2., 3.]))
    context.process.tensor_equality = False
    try:
        assert (x == x) is True and (x == y) is False and (x != y) is True
        assert {x: 1}[x] == 1
    finally:
        context.process.tensor_equality = True
    with tf.Graph().as_default():
        a = tf.placeholder(tf.float32)
        assert (a == a) is True and a in [a]


def test_what_may_be_overridden():
    with pytest.raises(ValueError, match="disallowed"):
        tf.Tensor._override_operator("__hash__", lambda x: 1)
    with pytest.raises(ValueError, match="again"):
        tf.Tensor._override_operator("__add__", lambda x, y: x)
    assert {"__add__", "__getitem__", "__rmatmul__"} <= tf.Tensor.OVERLOADABLE_OPERATORS


def test_others_may_reflect():
    class Other:
        def __radd__(self, x):
            return "mine"
    assert tf2.constant(1.) + Other() == "mine"
