"""tf.experimental.dispatch_for_api and related functions: programs' own types in public functions."""

import pytest

import penstock as tf


class Money:
    def __init__(self, amount):
        self.amount = amount


@pytest.fixture
def registered():
    added = []
    yield added.append
    for f in added:
        tf.experimental.unregister_dispatch_for(f)


def test_an_api_for_a_type_of_the_program(registered):
    @tf.experimental.dispatch_for_api(tf.add, {"x": Money}, {"y": Money})
    def add(x, y, name=None):
        return Money(sum(v.amount if isinstance(v, Money) else v for v in (x, y)))
    registered(add)
    assert tf.add(Money(2), 3).amount == 5 and tf.add(4, y=Money(2)).amount == 6
    assert int(tf.add(1, 2)) == 3


def test_signatures_come_from_annotations(registered):
    @tf.experimental.dispatch_for_api(tf.concat)
    def concat(values: list[Money | float], axis, name="concat"):
        return Money(sum(v.amount if isinstance(v, Money) else v for v in values))
    registered(concat)
    assert tf.concat([Money(1), 2.], axis=0).amount == 3
    assert tf.concat([[1], [2]], axis=0).numpy().tolist() == [1, 2]


def test_all_elementwise_functions_at_once(registered):
    @tf.experimental.dispatch_for_unary_elementwise_apis(Money)
    def unary(api, x):
        return Money(float(api(float(x.amount))))

    @tf.experimental.dispatch_for_binary_elementwise_apis(Money, Money | float)
    def binary(api, x, y):
        return Money(float(api(float(x.amount), getattr(y, "amount", y))))
    registered(unary), registered(binary)
    assert tf.abs(Money(-2)).amount == 2 and tf.math.square(Money(3)).amount == 9
    assert tf.cast(Money(2.5), tf.int32).amount == 2
    assert tf.nn.relu(Money(-2)).amount == 0 and tf.nn.softplus(x := Money(0), name="s").amount == pytest.approx(0.6931472)
    assert tf.stop_gradient(x).amount == 0
    assert tf.maximum(Money(1), 4.).amount == 4 and tf.math.pow(Money(2), 3.).amount == 8
    with pytest.raises(ValueError, match="already been registered"):
        tf.experimental.dispatch_for_unary_elementwise_apis(Money)(lambda api, x: None)


def test_generators_are_looked_at_once(registered):
    @tf.experimental.dispatch_for_api(tf.add_n, {"inputs": list[Money]})
    def add_n(inputs, name=None):
        return Money(sum(v.amount for v in inputs))
    registered(add_n)
    assert tf.add_n(Money(i) for i in range(5)).amount == 10
    assert int(tf.add_n(tf.constant(i) for i in range(5))) == 10


def test_functions_forget_what_is_unregistered():
    @tf.experimental.dispatch_for_unary_elementwise_apis(Money)
    def unary(api, x):
        return Money(0)
    assert tf.nn.relu(Money(1)).amount == 0
    tf.experimental.unregister_dispatch_for(unary)
    with pytest.raises((TypeError, ValueError)):
        tf.nn.relu(Money(1))


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="not currently supported by dispatch"):
        tf.experimental.dispatch_for_api(tf.add, {"x": tuple[Money]})(lambda x, y, name=None: None)
    with pytest.raises(ValueError, match="unknown parameter"):
        tf.experimental.dispatch_for_api(tf.add, {"z": Money})(lambda x, y, name=None: None)
    with pytest.raises(ValueError, match="does not match"):
        tf.experimental.dispatch_for_api(tf.add, {"x": Money})(lambda q, y, name=None: None)
    with pytest.raises(ValueError, match="does not support dispatch"):
        tf.experimental.dispatch_for_api(len, {"x": Money})
    with pytest.raises(ValueError, match="was not registered"):
        tf.experimental.unregister_dispatch_for(len)


def test_a_parameter_that_is_left_out_has_its_default(registered):
    @tf.experimental.dispatch_for_api(tf.where, {"condition": Money, "x": Money | None, "y": Money | None})
    def where(condition, x=None, y=None, name=None):
        return condition.amount
    registered(where)
    assert tf.where(Money(3)) == tf.where(Money(3), Money(1), Money(2)) == 3
