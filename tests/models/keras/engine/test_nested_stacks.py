"""Stacks without an input of their own inside of functional models: they come back from configs and files."""
import numpy as np
import pytest

import penstock as tf

L = tf.keras.layers


def stack(kind):
    if kind == "declared":
        return tf.keras.Sequential([L.Dense(4, input_shape=(3,)), L.Dense(4)], name="stack")
    made = tf.keras.Sequential([L.Dense(4), L.Dense(4)], name="stack")
    if kind == "built":
        made.build((None, 3))
    elif kind == "called":
        made(tf.ones([1, 3]))
    return made


def around(made, calls):
    """A functional model that calls the stack once or twice."""
    a, b = tf.keras.Input((3,), name="a"), tf.keras.Input((3,), name="b")
    outputs = [made(a)] + ([made(b)] if calls == 2 else [L.Dense(4, name="other")(b)])
    return tf.keras.Model([a, b], L.Dense(1)(L.Concatenate()(outputs)))


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("kind", ["open", "declared", "built", "called"])
@pytest.mark.parametrize("way", ["config", "json", "clone", ".keras", ".h5", ""])
def test_a_stack_comes_back(kind, calls, way, tmp_path):
    made = stack(kind)
    model = around(made, calls)
    if way in ("config", "json", "clone"):
        again = {"config": lambda: type(model).from_config(model.get_config()),
                 "clone": lambda: tf.keras.models.clone_model(model),
                 "json": lambda: tf.keras.models.model_from_json(model.to_json())}[way]()
        again.set_weights(model.get_weights())
    else:
        model.save(tmp_path / f"model{way}")
        again = tf.keras.models.load_model(tmp_path / f"model{way}")
    x = np.random.RandomState(0).rand(2, 5, 3).astype("f")
    np.testing.assert_allclose(again(list(x)), model(list(x)), rtol=1e-5, atol=1e-6)
    assert len(again.get_layer("stack").layers) == 2


@pytest.mark.parametrize("first", [0, 1])
def test_both_ways_to_number_the_calls_of_a_stack(first):
    """Keras 2 begins at 1 where the stack declares its input, Keras 3 at 0."""
    model = around(stack("declared"), 2)
    config = model.get_config()
    concatenate = next(layer for layer in config["layers"] if layer["class_name"] == "Concatenate")
    numbers = [ref[1] for ref in concatenate["inbound_nodes"][0]]
    assert numbers == [1, 2]
    for ref, number in zip(concatenate["inbound_nodes"][0], (first, first + 1), strict=True):
        ref[1] = number
    again = tf.keras.Model.from_config(config)
    again.set_weights(model.get_weights())
    a, b = tf.ones([1, 3]), tf.zeros([1, 3])
    np.testing.assert_allclose(again([a, b]), model([a, b]), rtol=1e-5, atol=1e-6)


def test_the_time_grows_with_the_depth():
    """Each stack asks its first layer once what it takes: twice would be 2 ** 40 times for the innermost."""
    model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Activation("linear")])
    for _ in range(40):
        model = tf.keras.Sequential([tf.keras.layers.Input((2,)), model])
    assert model.predict(np.ones((1, 2)), verbose=0).tolist() == [[1.0, 1.0]]
