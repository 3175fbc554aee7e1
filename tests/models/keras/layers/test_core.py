"""Core layers against numpy."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.models.keras.utils import function_code

L = tf.keras.layers
RNG = np.random.default_rng(1)


def test_dense_over_the_last_axis():
    x = RNG.normal(size=(2, 3, 4)).astype("f")
    layer = L.Dense(5, activation="relu", bias_initializer="ones")
    y = layer(x).numpy()
    np.testing.assert_allclose(y, np.maximum(x @ layer.kernel.numpy() + 1, 0), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="expected axis -1 of input shape to have value 4"):
        layer(np.ones((2, 3), "f"))


def test_dropout_trains_only():
    x = np.ones((100, 100), "f")
    layer = L.Dropout(0.25, seed=3)
    np.testing.assert_array_equal(layer(x).numpy(), x)
    y = layer(x, training=True).numpy()
    assert set(np.unique(y.round(5))) == {0., np.float32(1.33333)} and abs(y.mean() - 1) < 0.03
    whole = L.SpatialDropout1D(0.5)(np.ones((4, 5, 6), "f"), training=True).numpy()
    np.testing.assert_array_equal(whole, np.broadcast_to(whole[:, :1], whole.shape))


def test_masking_goes_on():
    x = np.array([[[1., 2.], [0., 0.]]], "f")
    y = L.Dense(3)(L.Masking()(x))
    np.testing.assert_array_equal(y._keras_mask.numpy(), [[True, False]])


def test_lambda_of_others_is_refused():
    layer = L.Lambda(lambda x: x + 1)
    config = layer.get_config()
    assert L.Lambda.from_config(config).function(1) == 2
    code, *rest = config["function"]
    stranger = {**config, "function": (("B" if code[0] == "A" else "A") + code[1:], *rest)}
    with pytest.raises(ValueError, match="enable_unsafe_deserialization"):
        L.Lambda.from_config(stranger)


@pytest.mark.parametrize("name", ["m.keras", "m.h5"])
def test_files_with_code_of_others_need_safe_mode_false(tmp_path, monkeypatch, name):
    path = str(tmp_path / name)
    tf.keras.Sequential([tf.keras.Input((2,)), L.Lambda(lambda x: x * 3.0)]).save(path)
    x = np.ones((1, 2), "f")
    np.testing.assert_array_equal(tf.keras.models.load_model(path)(x), 3 * x)
    monkeypatch.setattr(function_code, "_own", set())            # as another process sees the file
    with pytest.raises(ValueError, match="safe_mode=False"):
        tf.keras.models.load_model(path)
    np.testing.assert_array_equal(tf.keras.models.load_model(path, safe_mode=False)(x), 3 * x)
    with pytest.raises(ValueError, match="Refusing"):           # the permission ends with the call
        tf.keras.models.load_model(path)


def test_lambda_as_keras_3_writes_it(monkeypatch):
    code, defaults, closure = function_code.func_dump(lambda x: x + 1)
    held = {"class_name": "__lambda__", "config": {"code": code, "defaults": defaults, "closure": closure}}
    pair = {"class_name": "__lambda__", "config": {"value": {"class_name": "__tuple__", "items": [code, defaults, closure]}}}
    for function in (held, pair):
        assert L.Lambda.from_config({"function": function}).function(1) == 2
    monkeypatch.setattr(function_code, "_own", set())
    for function in (held, pair):
        with pytest.raises(ValueError, match="Refusing"):
            L.Lambda.from_config({"function": function})
    empty = [{"class_name": "__lambda__", "config": held} for held in ({}, {"value": 3})]
    for wrong in (None, 3, ["x"], *empty):
        with pytest.raises((ValueError, TypeError)):
            L.Lambda.from_config({"function": wrong, "function_type": "lambda"})
        with pytest.raises((ValueError, TypeError)):
            L.Lambda.from_config({"function": wrong})


@pytest.mark.parametrize("layer, shape, want", [
    (L.Flatten(data_format="channels_first"), (2, 3, 4, 5), lambda x: x.transpose(0, 2, 3, 1).reshape(2, -1)),
    (L.Reshape((5, -1)), (2, 4, 5), lambda x: x.reshape(2, 5, 4)),
    (L.Permute((2, 1)), (2, 4, 5), lambda x: x.transpose(0, 2, 1)),
    (L.RepeatVector(3), (2, 4), lambda x: np.repeat(x[:, None], 3, 1)),
    (L.Cropping2D(((1, 0), (2, 1))), (2, 5, 6, 1), lambda x: x[:, 1:, 2:-1]),
    (L.ZeroPadding2D(((1, 0), (2, 1))), (2, 3, 4, 1), lambda x: np.pad(x, ((0, 0), (1, 0), (2, 1), (0, 0)))),
    (L.UpSampling2D((2, 3)), (2, 3, 4, 1), lambda x: x.repeat(2, 1).repeat(3, 2)),
    (L.UpSampling1D(2), (2, 3, 4), lambda x: x.repeat(2, 1)),
    (L.MaxPooling1D(2), (2, 4, 3), lambda x: x.reshape(2, 2, 2, 3).max(2)),
    (L.AveragePooling3D(2), (1, 2, 2, 2, 3), lambda x: x.mean((1, 2, 3), keepdims=True)),
    (L.GlobalMaxPooling2D(), (2, 4, 3, 5), lambda x: x.max((1, 2))),
])
def test_shapes(layer, shape, want):
    x = RNG.normal(size=shape).astype("f")
    np.testing.assert_allclose(layer(x).numpy(), want(x), rtol=1e-5, atol=1e-6)
    assert layer.compute_output_shape(shape).as_list() == list(want(x).shape)
    again = L.deserialize(L.serialize(layer))
    assert again.get_config() == layer.get_config()


@pytest.mark.parametrize("name, want", [("Add", np.add), ("Multiply", np.multiply), ("Subtract", np.subtract),
                                        ("Maximum", np.maximum), ("Minimum", np.minimum)])
def test_merge(name, want):
    x, y = RNG.normal(size=(2, 3, 4)).astype("f"), RNG.normal(size=(2, 4)).astype("f")
    np.testing.assert_allclose(getattr(L, name)()([x, y]).numpy(), want(x, y[:, None]), rtol=1e-6)


def test_merge_errors():
    with pytest.raises(ValueError, match="exactly 2 inputs"):
        L.Subtract()([np.ones((2, 2), "f")])
    with pytest.raises(ValueError, match="matching shapes except for the concatenation axis"):
        L.Concatenate()([np.ones((2, 2, 1), "f"), np.ones((2, 3, 1), "f")])
    with pytest.raises(ValueError, match="axis values 2 .at axis 1. != 3"):
        L.Dot(1)([np.ones((2, 2), "f"), np.ones((2, 3), "f")])


def test_batch_normalization_moves_its_averages():
    x = RNG.normal(3, 2, size=(64, 5)).astype("f")
    layer = L.BatchNormalization(momentum=0.9)
    y = layer(x, training=True).numpy()
    np.testing.assert_allclose(y, (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3), atol=1e-4)
    np.testing.assert_allclose(layer.moving_mean.numpy(), 0.1 * x.mean(0), rtol=1e-4)
    np.testing.assert_allclose(layer.moving_variance.numpy(), 0.9 + 0.1 * x.var(0), rtol=1e-4)
    want = (x - layer.moving_mean.numpy()) / np.sqrt(layer.moving_variance.numpy() + 1e-3)
    np.testing.assert_allclose(layer(x, training=False).numpy(), want, rtol=1e-4, atol=1e-5)
    layer.trainable = False
    np.testing.assert_allclose(layer(x, training=True).numpy(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_fused_batch_normalization_is_the_plain_one(axis):
    x = RNG.normal(size=(4, 3, 2, 5)).astype("f")
    fused, plain = (L.BatchNormalization(axis, fused=f) for f in (True, False))
    np.testing.assert_allclose(fused(x, training=True).numpy(), plain(x, training=True).numpy(), atol=1e-5)
    np.testing.assert_allclose(fused.moving_mean.numpy(), plain.moving_mean.numpy(), atol=1e-6)


def test_batch_norm_of_images_in_float64():
    layer = tf.keras.layers.BatchNormalization(dtype="float64", epsilon=1e-6)
    x = np.random.RandomState(0).randn(4, 3, 3, 2) * 3 + 1
    y = layer(x, training=True).numpy()
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, (x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + 1e-6), rtol=1e-12)
    np.testing.assert_allclose(layer.moving_mean, 0.01 * x.mean((0, 1, 2)), rtol=1e-6, atol=1e-6)


def test_dense_on_ragged_rows():
    rows = tf.RaggedTensor.from_row_lengths(tf.reshape(tf.range(15.), (5, 3)), [2, 3])
    layer = tf.keras.layers.Dense(2, activation="relu", bias_initializer="ones")
    found = layer(rows)
    assert found.row_lengths().numpy().tolist() == [2, 3]
    np.testing.assert_allclose(found.flat_values.numpy(), layer(rows.flat_values).numpy(), rtol=1e-6)
