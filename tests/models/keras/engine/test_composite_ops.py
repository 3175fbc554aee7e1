"""Ops between layers on ragged and sparse tensors, inputs by type, and models that are built while a function is traced.

The expected values were recorded from tf_keras where it supports the case, and are those of numpy where it does not.
"""
import numpy as np
import pytest

import penstock as tf

keras, layers = tf.keras, tf.keras.layers


def ragged():
    return tf.ragged.constant([[1., 2.], [3.], []])


def sparse():
    return tf.sparse.from_dense(np.array([[1, 0, 2], [0, 3, 0]], "float32"))


@pytest.mark.parametrize("op, expected", [
    (lambda x: x + 1., [[2., 3.], [4.], []]),
    (lambda x: tf.concat([x, x], axis=1), [[1., 2., 1., 2.], [3., 3.], []]),
    (lambda x: tf.where(x > 1., x, -x), [[-1., 2.], [3.], []]),
    (lambda x: x[:, :1], [[1.], [3.], []]),
    (lambda x: x.with_values(x.values * 2.), [[2., 4.], [6.], []]),
    (lambda x: tf.ragged.map_flat_values(tf.square, x), [[1., 4.], [9.], []])])
def test_ops_on_a_ragged_input(op, expected):
    x = keras.Input((None,), ragged=True)
    model = keras.Model(x, op(x))
    assert model(ragged()).to_list() == expected
    assert model.predict(ragged(), verbose=0).to_list() == expected


def test_dense_results_of_a_ragged_input():
    x = keras.Input((None,), ragged=True)
    sums = layers.Dense(1, kernel_initializer="ones")(tf.reduce_sum(x, axis=1, keepdims=True))
    results = keras.Model(x, [x.to_tensor(), x.row_lengths(), x.value_rowids(), sums])(ragged())
    assert [r.numpy().tolist() for r in results] == [[[1., 2.], [3., 0.], [0., 0.]], [2, 1, 0], [0, 0, 1], [[3.], [3.], [0.]]]


def test_layers_and_ops_on_the_same_ragged_input():
    """The rows of the embeddings are the input's own: ops on both go back to the input."""
    x = keras.Input((None,), ragged=True, dtype="int32")
    embedded = layers.Embedding(10, 2, embeddings_initializer="ones")(x)
    model = keras.Model(x, tf.reduce_sum(embedded, axis=1) * tf.cast(x.row_lengths(), "float32")[:, None])
    assert model(tf.ragged.constant([[1, 2], [3]])).numpy().tolist() == [[4., 4.], [1., 1.]]


def test_a_ragged_tensor_that_ops_make():
    x = keras.Input((), dtype="string")
    model = keras.Model(x, tf.strings.to_number(tf.strings.split(x)))
    assert model(tf.constant(["1 2", "3"])).to_list() == [[1., 2.], [3.]]


@pytest.mark.parametrize("op, expected", [
    (lambda x: tf.sparse.reduce_sum(x, axis=1), [3., 3.]), (lambda x: tf.sparse.to_dense(x * 2.), [[2., 0., 4.], [0., 6., 0.]]),
    (lambda x: x.values, [1., 2., 3.]), (lambda x: x.indices, [[0, 0], [0, 2], [1, 1]]), (lambda x: x.dense_shape, [2, 3])])
def test_ops_on_a_sparse_input(op, expected):
    x = keras.Input((3,), sparse=True)
    assert keras.Model(x, op(x))(sparse()).numpy().tolist() == expected


def test_a_layer_that_returns_a_component():
    """The component is the input's own tensor; the layer that returned it stays a layer of the model."""
    x = keras.Input((None,), ragged=True)
    model = keras.Model(x, layers.Lambda(lambda t: t.values, name="values")(x) + x.values)
    assert model.get_layer("values") is not None
    assert model(ragged()).numpy().tolist() == [2., 4., 6.]


def test_a_model_with_ragged_ops_is_rebuilt_and_saved(tmp_path):
    x = keras.Input((None,), ragged=True)
    model = keras.Model(x, layers.Lambda(tf.identity)(x * 2.))
    assert keras.Model.from_config(model.get_config())(ragged()).to_list() == [[2., 4.], [6.], []]
    y = keras.Input(type_spec=tf.RaggedTensorSpec([None, None], tf.float32))
    model = keras.Model(y, y * 3.)
    model.save(str(tmp_path / "m.keras"))
    assert keras.models.load_model(str(tmp_path / "m.keras"))(ragged()).to_list() == [[3., 6.], [9.], []]


def test_training_through_ragged_ops():
    x = keras.Input((None,), ragged=True)
    model = keras.Model(x, layers.Dense(1, kernel_initializer="ones")(tf.reduce_sum(x, 1, keepdims=True)))
    model.compile("sgd", "mse")
    losses = model.fit(ragged(), np.ones((3, 1), "float32"), epochs=2, verbose=0).history["loss"]
    np.testing.assert_allclose(losses, [3.0, 2.3652], rtol=1e-5)


@pytest.mark.parametrize("spec, value, expected", [
    (tf.RaggedTensorSpec([None, None], tf.float32, 1), ragged, [[3., 6.], [9.], []]),
    (tf.TensorSpec([None, 3], tf.int32, name="q"), lambda: tf.ones([1, 3], tf.int32), [[3, 3, 3]])])
def test_inputs_of_a_type(spec, value, expected):
    x = keras.Input(type_spec=spec)
    model = keras.Model(x, x * 3)
    result = model(value())
    assert (result.to_list() if hasattr(result, "to_list") else result.numpy().tolist()) == expected
    assert x.dtype == spec.dtype and x.shape.as_list() == spec.shape.as_list()
    again = keras.Model.from_config(model.get_config())
    assert again.inputs[0].dtype == spec.dtype and again.get_config()["layers"][0] == model.get_config()["layers"][0]


def test_an_input_of_a_type_has_no_other_arguments():
    with pytest.raises(ValueError, match="all other args except `name` must be None, but dtype is not None"):
        keras.Input(type_spec=tf.TensorSpec([None, 3]), dtype="int32")
    with pytest.raises(ValueError, match="`shape` or a `tensor` or a `type_spec`"):
        keras.Input()


def test_a_model_built_in_a_function_of_a_dataset():
    lookup = layers.StringLookup(vocabulary=["a", "b"])

    def numbers(x):
        i = keras.Input((1,), dtype="string")
        return keras.Model(i, lookup(i))(x[None])
    data = tf.data.Dataset.from_tensor_slices([["a"], ["b"], ["c"]]).map(numbers)
    assert [x.numpy().tolist() for x in data] == [[[1]], [[2]], [[0]]]


def test_a_model_with_ops_built_in_a_function():
    dense = layers.Dense(2, kernel_initializer="ones")

    @tf.function
    def run(x):
        i = keras.Input((3,))
        assert i.graph is not x.graph
        return keras.Model(i, dense(tf.nn.relu(tf.concat([i, i], 1)) + 1.) * 2.)(x)
    for _ in range(2):
        assert run(tf.ones((1, 3))).numpy().tolist() == [[24., 24.]]


def test_arrays_of_wider_integers_are_cast_to_the_type_of_an_input():
    """As tf.keras does, which casts what a model is called on; only Python integers that do not fit are errors."""
    x = keras.Input((2,), dtype="int32")
    model = keras.Model(x, keras.layers.Lambda(tf.identity)(x))
    wide = np.array([[2 ** 40, 5]], np.int64)
    assert model(wide).numpy().tolist() == model.predict(wide, verbose=0).tolist() == [[0, 5]]
