"""Arguments and inputs that layers take in 2.x: several batch axes, masks, sparse and ragged inputs, lists of one input."""
from __future__ import annotations

import numpy as np
import pytest

import penstock as tf

keras = tf.keras
RANDOM = np.random.RandomState(0)


def normal(*shape):
    return RANDOM.randn(*shape).astype("float32")


@pytest.mark.parametrize("make, shape", [
    (lambda: keras.layers.Conv1D(5, 3, dilation_rate=2), (2, 3, 8, 4)),
    (lambda: keras.layers.Conv1D(5, 3, padding="causal"), (2, 3, 8, 4)),
    (lambda: keras.layers.Conv2D(5, 3, strides=2, activation="relu"), (2, 2, 2, 7, 8, 4)),
    (lambda: keras.layers.Conv3D(3, 2, padding="same"), (2, 3, 4, 4, 4, 2))])
def test_convolutions_over_several_batch_axes(make, shape):
    layer, x = make(), normal(*shape)
    found = layer(x)
    extra = len(shape) - layer.rank - 2
    rows = layer(x.reshape(-1, *shape[extra + 1:])).numpy()
    np.testing.assert_allclose(found, rows.reshape(*shape[:extra + 1], *rows.shape[1:]), rtol=1e-5, atol=1e-5)
    assert layer.compute_output_shape(shape).as_list() == list(found.shape)
    model = keras.Sequential([keras.Input(shape[1:]), layer])
    np.testing.assert_allclose(model.predict(x, verbose=0), found, rtol=1e-5, atol=1e-5)


def test_convolutions_refuse_what_cannot_be():
    with pytest.raises(ValueError, match=r'Input 0 of layer "c" is incompatible with the layer: expected min_ndim=4, found '
                                         r"ndim=3. Full shape received: \(2, 5, 4\)"):
        keras.layers.Conv2D(3, 2, name="c")(normal(2, 5, 4))
    with pytest.raises(ValueError, match="One of the dimensions in the output is <= 0 due to downsampling in c"):
        keras.layers.Conv2D(3, 9, name="c")(normal(2, 5, 5, 4))
    for make in (keras.layers.Conv2D, lambda f, k, **kw: keras.layers.DepthwiseConv2D(k, **kw)):
        with pytest.raises(ValueError, match="`strides > 1` not supported in conjunction with `dilation_rate > 1`"):
            make(3, 2, strides=2, dilation_rate=2)
    for name in ("kernel_size", "strides"):
        with pytest.raises(ValueError, match=rf"The argument `{name}` cannot contain 0\(s\)"):
            keras.layers.Conv2D(3, **{"kernel_size": 2, name: (0, 1)})
    assert keras.layers.Conv2D(3, 2).get_config()["groups"] == 1


@pytest.mark.parametrize("kind", ["Add", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"])
def test_a_list_of_one_input_is_merged(kind):
    i = keras.Input((4, 5))
    layer = getattr(keras.layers, kind)()
    model, x = keras.Model(i, layer([i])), normal(2, 4, 5)
    np.testing.assert_array_equal(model.predict(x, verbose=0), x)
    np.testing.assert_array_equal(model(x), x)
    with pytest.raises(ValueError, match="called on a list"):
        layer(i)


def test_embeddings_of_sparse_numbers():
    table = normal(6, 3)
    numbers = tf.SparseTensor([[0, 1], [1, 0], [1, 3]], [4, 2, 5], [2, 4])
    dense = keras.layers.Embedding(6, 3, weights=[table])(numbers)
    np.testing.assert_array_equal(dense, table[np.array([[0, 4, 0, 0], [2, 0, 0, 5]])])
    layer = keras.layers.Embedding(6, 3, weights=[table], sparse=True)
    wanted = np.zeros((2, 4, 3), "float32")
    wanted[[0, 1, 1], [1, 0, 3]] = table[[4, 2, 5]]
    for call in (layer, tf.function(layer)):
        found = call(numbers)
        assert isinstance(found, tf.SparseTensor) and found.indices.shape == (9, 3)
        np.testing.assert_array_equal(tf.sparse.to_dense(found), wanted)
    found = layer(np.array([[1, 2]]))
    np.testing.assert_array_equal(tf.sparse.to_dense(found), table[np.array([[1, 2]])])
    with pytest.raises(ValueError, match="`mask_zero` cannot be enabled"):
        keras.layers.Embedding(6, 3, sparse=True, mask_zero=True)
    product = keras.layers.Embedding(6, 3, weights=[table], use_one_hot_matmul=True)(np.array([[1, 2]]))
    np.testing.assert_allclose(product, table[np.array([[1, 2]])], rtol=1e-6)


def test_softmax_replaces_masked_inputs():
    x = np.array([[3., 1e10, 2.]], "float32")
    mask = np.array([[True, False, True]])
    layer = keras.layers.Softmax(robust_masking=True)
    e = np.exp([3., 2.])
    np.testing.assert_allclose(layer(x, mask)[0], [e[0] / e.sum(), 0, e[1] / e.sum()], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(layer(x, mask.astype("float32"))[0, 1], 0, atol=1e-7)
    assert keras.layers.Softmax.from_config(layer.get_config()).robust_masking
    assert "robust_masking" not in keras.layers.Softmax().get_config()


def test_batch_normalization_without_masked_steps():
    x, mask = normal(3, 4, 5), np.array([[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]], bool)
    layer = keras.layers.BatchNormalization(momentum=0.5)
    found = layer(x, training=True, mask=mask)
    mean, variance = x[mask].mean(0), x[mask].var(0)
    np.testing.assert_allclose(found, (x - mean) / np.sqrt(variance + 1e-3), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(layer.moving_mean, mean / 2, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.moving_variance, 0.5 + variance / 2, rtol=1e-4, atol=1e-5)
    nothing = keras.layers.BatchNormalization()(np.zeros((4, 5), "float32"), mask=np.zeros(4), training=True)
    np.testing.assert_array_equal(nothing, np.zeros((4, 5)))
    numbers = np.array([[1, 2, 0], [3, 0, 0]])
    embedding = keras.layers.Embedding(4, 2, mask_zero=True)
    model = keras.Sequential([embedding, keras.layers.BatchNormalization()])
    shown = embedding(numbers).numpy()[numbers != 0]
    found = model(numbers, training=True)
    np.testing.assert_allclose(found.numpy()[numbers != 0], (shown - shown.mean(0)) / np.sqrt(shown.var(0) + 1e-3), rtol=1e-4,
                               atol=1e-4)


def test_group_normalization_without_masked_elements():
    x, mask = normal(2, 3, 4), np.array([[[1], [1], [0]], [[1], [0], [0]]], bool)
    found = keras.layers.GroupNormalization(2)(x, mask=mask).numpy()
    for row in range(2):
        for part in (slice(0, 2), slice(2, 4)):
            kept = x[row][mask[row, :, 0]][:, part]
            np.testing.assert_allclose(found[row, :, part], (x[row, :, part] - kept.mean()) / np.sqrt(kept.var() + 1e-3),
                                       rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="Invalid value for `axis` argument"):
        keras.layers.GroupNormalization(1, axis=3)(x)
    with pytest.raises(ValueError, match="cannot be more than the number of channels"):
        keras.layers.GroupNormalization(8)(x)


def test_layer_normalization_of_ragged_rows():
    ragged = tf.ragged.constant([[[1., 2.], [3., 5.]], [[4., 7.]]], ragged_rank=1)
    found = keras.layers.LayerNormalization()(ragged)
    assert isinstance(found, tf.RaggedTensor)
    np.testing.assert_allclose(found.flat_values, keras.layers.LayerNormalization()(ragged.flat_values), rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match="Expected an int or a list/tuple of ints"):
        keras.layers.LayerNormalization(axis={"axis": -1})


def test_virtual_batches_may_have_any_size_when_predicting():
    layer = keras.layers.BatchNormalization(virtual_batch_size=4)
    layer(normal(8, 3), training=True)
    x = normal(5, 3)
    wanted = (x - np.ravel(layer.moving_mean)) / np.sqrt(np.ravel(layer.moving_variance) + 1e-3)
    np.testing.assert_allclose(layer(x, training=False), wanted, rtol=1e-4, atol=1e-5)


def test_global_pools_refuse_empty_axes():
    with pytest.raises(ValueError, match="Incorrect input shape"):
        keras.layers.GlobalAveragePooling1D().build((None, 0, 2))
    assert keras.layers.GlobalMaxPooling2D().get_config()["keepdims"] is False


@pytest.mark.parametrize("name", ["l1", "l2"])
def test_regularizers_take_either_name_of_their_factor(name):
    make = getattr(keras.regularizers, name)
    assert isinstance(make(0.5), getattr(keras.regularizers, name.upper()))
    for made in (make(0.5), make(l=0.5), make(**{name: 0.5})):
        np.testing.assert_allclose(made(tf.constant([1., -2.])), {"l1": 1.5, "l2": 2.5}[name], rtol=1e-6)
    with pytest.raises(TypeError):
        make(factor=0.5)
