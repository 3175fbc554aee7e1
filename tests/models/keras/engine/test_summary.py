"""The table of layers; text recorded from tf_keras."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

layers = tf.keras.layers

NESTED = '''Model: "net"
_____________________________________________________________________________________________________________
 Layer (type)                Output Shape                 Param #   Connected to                  Trainable
=============================================================================================================
 a (InputLayer)              [(None, 6)]                  0         []                            Y

 a_dense_layer_with_a_long_  (None, 4)                    28        ['a[0][0]']                   N
 name (Dense)

 inner (Sequential)          (None, 4)                    20        ['a_dense_layer_with_a_long   Y
                                                                    _name[0][0]']
|¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯|
| x (Dense)                  (None, 4)                    20        []                            Y         |
¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯
 sum (Add)                   (None, 4)                    0         ['a_dense_layer_with_a_long   Y'''


def _nested():
    a = tf.keras.Input((6,), name="a")
    first = layers.Dense(4, name="a_dense_layer_with_a_long_name", trainable=False)(a)
    inner = tf.keras.Sequential([layers.Dense(4, name="x")], name="inner")(first)
    return tf.keras.Model(a, layers.Add(name="sum")([first, inner]), name="net")


def test_long_cells_continue_and_nested_models_are_enclosed():
    lines = []
    _nested().summary(print_fn=lines.append, expand_nested=True, show_trainable=True)
    expected = [v.rstrip() for v in NESTED.split("\n")]
    assert [v.rstrip() for v in lines[:len(expected)]] == expected
    assert {len(v) for v in lines[1:len(expected)]} == {109}
    assert lines[-4:-1] == ["Total params: 48 (192.00 Byte)", "Trainable params: 20 (80.00 Byte)",
                            "Non-trainable params: 28 (112.00 Byte)"]


def test_layers_of_a_range():
    lines = []
    _nested().summary(print_fn=lines.append, layer_range=("a_dense.*", "inner"))
    assert not any("InputLayer" in v or "sum (Add)" in v for v in lines) and any("inner (Sequential)" in v for v in lines)


def test_graph_mode_has_the_layout_of_1x():
    lines = []
    with tf1.Graph().as_default():
        model = tf1.keras.Sequential([tf1.keras.layers.Dense(3, input_shape=(2,), name="d")], name="s")
        tf.keras.Model.summary(model, print_fn=lines.append)
    assert any("d (Dense)" in v for v in lines)


def test_a_stack_that_is_built_for_a_shape_knows_the_shapes_of_its_outputs():
    model = tf.keras.Sequential([tf.keras.layers.Dense(3), tf.keras.layers.Dense(2)])
    model.build((None, 5))
    lines = []
    model.summary(print_fn=lines.append)
    assert any("(None, 3)" in line for line in lines) and not any("multiple" in line for line in lines)
    assert model.input_shape == (None, 5) and model.output_shape == (None, 2)
    assert model(np.ones((4, 5), "float32")).shape == (4, 2)


def test_a_stack_has_layers_of_different_names():
    with pytest.raises(ValueError, match='Name "a" is already the name of a layer'):
        tf.keras.Sequential([layers.Dense(2, name="a"), layers.Dense(2, name="a")])


def test_predict_shows_its_progress_and_callbacks_see_arrays(capsys):
    model, seen = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))]), []
    watch = tf.keras.callbacks.LambdaCallback()
    watch.on_predict_batch_end = lambda batch, logs: seen.append(logs["outputs"])
    model.predict(np.ones((6, 2)), batch_size=3, callbacks=[watch])
    assert "2/2 [==============================]" in capsys.readouterr().out
    model.predict(np.ones((6, 2)), verbose=0)
    assert capsys.readouterr().out == "" and [type(s) for s in seen] == [np.ndarray] * 2
