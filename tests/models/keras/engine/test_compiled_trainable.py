"""Which layers train is decided when a model is compiled, not when it trains."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

keras = tf.keras
X, Y = np.ones((8, 3), np.float32), np.zeros((8, 1), np.float32)


@pytest.fixture(params=["function", "eagerly", "graph"])
def eagerly(request):
    if request.param == "graph":
        with tf.Graph().as_default(), tf1.Session().as_default():
            yield None
    else:
        yield request.param == "eagerly"


def adversaries(eagerly):
    """A critic that is compiled trainable, and frozen in the model that trains the maker."""
    critic = keras.Sequential([keras.layers.Dense(1, input_shape=(3,))])
    critic.compile("sgd", "mse", run_eagerly=eagerly)
    maker = keras.Sequential([keras.layers.Dense(3, input_shape=(3,))])
    critic.trainable = False
    both = keras.Sequential([maker, critic])
    both.compile("sgd", "mse", run_eagerly=eagerly)
    return critic, maker, both


def changed(model, train):
    before = [w.copy() for w in model.get_weights()]
    train()
    return any(not np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))


@pytest.mark.parametrize("way", ["train_on_batch", "fit"])
def test_adversaries_train_in_turns(way, eagerly):
    critic, maker, both = adversaries(eagerly)
    more = {"verbose": 0} if way == "fit" else {}
    assert changed(critic, lambda: getattr(critic, way)(X, Y, **more))
    assert not critic.trainable and not critic.trainable_weights
    assert not changed(critic, lambda: getattr(both, way)(X, Y, **more))
    assert changed(maker, lambda: getattr(both, way)(X, Y, **more))
    critic.compile("sgd", "mse", run_eagerly=eagerly)
    assert not changed(critic, lambda: getattr(critic, way)(X, Y, **more))


def test_averages_of_a_layer_that_was_frozen_when_compiled(eagerly):
    shared = keras.layers.BatchNormalization()
    first = keras.Sequential([keras.Input(3), shared])
    shared.trainable = False
    first.compile("sgd", "mse", run_eagerly=eagerly)
    second = keras.Sequential([keras.Input(3), shared])
    shared.trainable = True
    second.compile("sgd", "mse", run_eagerly=eagerly)
    assert not changed(first, lambda: first.train_on_batch(X, X))
    assert changed(second, lambda: second.train_on_batch(X, X))


def test_attributes_return_after_an_error(eagerly):
    critic, _, _ = adversaries(eagerly)
    with pytest.raises(Exception, match=r"(?i)shape|dimension|incompatible"):
        critic.train_on_batch(np.ones((8, 5), np.float32), Y)
    assert not critic.trainable and not critic.layers[0].trainable
