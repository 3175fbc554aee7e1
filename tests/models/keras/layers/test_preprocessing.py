"""Preprocessing layers against numpy."""
import numpy as np
import pytest

import penstock as tf

L = tf.keras.layers
RNG = np.random.default_rng(2)


def test_normalization_of_batches_is_that_of_the_whole():
    x = RNG.normal(3, 2, size=(60, 4)).astype("f")
    whole, parts = L.Normalization(), L.Normalization()
    whole.adapt(x)
    parts.adapt(tf.data.Dataset.from_tensor_slices(x).batch(7))
    want = (x - x.mean(0)) / x.std(0)
    np.testing.assert_allclose(whole(x).numpy(), want, atol=1e-4)
    np.testing.assert_allclose(parts(x).numpy(), want, atol=1e-4)
    back = L.Normalization(invert=True, mean=x.mean(0), variance=x.var(0))
    np.testing.assert_allclose(back(want.astype("f")).numpy(), x, atol=1e-4)


@pytest.mark.parametrize("shape", [(60,), (60, 4), (15, 4, 2)])
def test_normalization_by_one_mean_keeps_the_shape(shape):
    x = RNG.normal(3, 2, size=shape).astype("f")
    layer = L.Normalization(axis=None)
    layer.adapt(x)
    np.testing.assert_allclose(layer(x).numpy(), (x - x.mean()) / x.std(), atol=1e-4, strict=True)


def test_rescaling_and_bins():
    np.testing.assert_allclose(L.Rescaling(0.5, 1.)(np.array([2., 4.], "f")).numpy(), [2., 3.], rtol=1e-6)
    layer = L.Discretization(bin_boundaries=[0., 1., 2.])
    np.testing.assert_array_equal(layer(np.array([[-1., 0., 0.5, 1.5, 3.]], "f")).numpy(), [[0, 1, 1, 2, 3]])
    quarters = L.Discretization(num_bins=4, epsilon=0.01)
    quarters.adapt(np.arange(1000.))
    np.testing.assert_allclose(quarters.bin_boundaries, [250, 500, 750], atol=15)


def test_categories():
    x = np.array([[3, 0], [1, 1]])
    np.testing.assert_array_equal(L.CategoryEncoding(4)(x).numpy(), [[1, 0, 0, 1], [0, 1, 0, 0]])
    np.testing.assert_array_equal(L.CategoryEncoding(4, output_mode="count")(x).numpy(), [[1, 0, 0, 1], [0, 2, 0, 0]])
    np.testing.assert_array_equal(L.CategoryEncoding(4, output_mode="one_hot")(x).numpy(), np.eye(4)[x])
    with pytest.raises(tf.errors.InvalidArgumentError, match="num_tokens=4"):
        L.CategoryEncoding(4)(np.array([[7]]))
    bins = L.Hashing(5, mask_value="")(tf.constant([["a"], [""], ["b"]])).numpy().ravel()
    assert bins[1] == 0 and (bins[[0, 2]] > 0).all() and (bins < 5).all()


def test_string_lookup():
    layer = L.StringLookup()
    layer.adapt(np.array([["a", "c", "d"], ["d", "z", "b"]]))
    assert layer.get_vocabulary() == ["[UNK]", "d", "z", "c", "b", "a"]
    np.testing.assert_array_equal(layer(tf.constant([["a", "nobody"]])).numpy(), [[5, 0]])
    back = L.StringLookup(vocabulary=layer.get_vocabulary(), invert=True)
    assert back(tf.constant([5, 0])).numpy().tolist() == [b"a", b"[UNK]"]
    masked = L.StringLookup(vocabulary=["x", "y"], mask_token="", num_oov_indices=2)
    got = masked(tf.constant(["", "y", "q"])).numpy()
    assert got[0] == 0 and got[1] == 4 and got[2] in (1, 2)
    assert L.StringLookup.from_config(masked.get_config()).get_vocabulary() == masked.get_vocabulary()
    with pytest.raises(ValueError, match="repeated"):
        L.StringLookup(vocabulary=["x", "x"])


def test_integer_lookup():
    layer = L.IntegerLookup(vocabulary=[12, 36], output_mode="multi_hot")
    np.testing.assert_array_equal(layer(tf.constant([[12, 99], [36, 36]], tf.int64)).numpy(), [[1, 1, 0], [0, 0, 1]])


def test_text_vectorization():
    layer = L.TextVectorization(output_sequence_length=4)
    layer.adapt(["The cat.", "the DOG sat!"])
    assert layer.get_vocabulary()[:3] == ["", "[UNK]", "the"]
    ids = {w: i for i, w in enumerate(layer.get_vocabulary())}
    got = layer(tf.constant(["the dog, unknown", "cat"])).numpy()
    np.testing.assert_array_equal(got, [[ids["the"], ids["dog"], 1, 0], [ids["cat"], 0, 0, 0]])
    bags = L.TextVectorization(vocabulary=["a", "b"], output_mode="count")
    np.testing.assert_array_equal(bags(tf.constant(["a a b", "c"])).numpy(), [[0, 2, 1], [1, 0, 0]])


def test_images_fit():
    x = RNG.random((2, 6, 8, 3)).astype("f")
    np.testing.assert_array_equal(L.CenterCrop(4, 4)(x).numpy(), x[:, 1:5, 2:6])
    assert L.Resizing(3, 5)(x).shape == (2, 3, 5, 3) and L.CenterCrop(9, 9)(x).shape == (2, 9, 9, 3)


@pytest.mark.parametrize("layer", [L.RandomFlip(), L.RandomRotation(0.2), L.RandomZoom(0.3), L.RandomTranslation(0.2, 0.2),
                                   L.RandomContrast(0.5), L.RandomBrightness(0.5, value_range=(0, 1))])
def test_images_change_while_training_only(layer):
    x = RNG.random((4, 8, 8, 3)).astype("f")
    np.testing.assert_allclose(layer(x, training=False).numpy(), x, rtol=1e-6)
    y = layer(x, training=True).numpy()
    assert y.shape == x.shape and np.isfinite(y).all() and np.abs(y - x).max() > 1e-3
    assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()


def test_translations_by_whole_elements():
    x = np.arange(16, dtype="f").reshape(1, 4, 4, 1)
    layer = L.RandomTranslation((0.25, 0.25), (0., 0.), fill_mode="constant")
    np.testing.assert_allclose(layer(x, training=True).numpy()[0, :, :, 0], np.vstack([np.zeros((1, 4)), x[0, :3, :, 0]]),
                               rtol=1e-6)
    turn = L.RandomRotation((0.25, 0.25), fill_mode="nearest")
    got = turn(x, training=True).numpy()[0, :, :, 0]
    assert any(np.allclose(got, np.rot90(x[0, :, :, 0], k), atol=1e-3) for k in (1, 3))
    crop = L.RandomCrop(2, 3)(x, training=True).numpy()
    assert crop.shape == (1, 2, 3, 1) and crop[0, 0, 1, 0] - crop[0, 0, 0, 0] == 1


def test_hashed_crossing_has_the_bins_of_keras():
    words, numbers = tf.constant(["A", "B", "A", "B", "A"]), tf.constant([101, 101, 101, 102, 102])
    layer = tf.keras.layers.HashedCrossing(num_bins=5)
    assert layer((words, numbers)).numpy().tolist() == [1, 4, 1, 1, 3]                          # as Keras' manual shows
    rows = tf.keras.layers.HashedCrossing(num_bins=5, output_mode="one_hot")((words[:, None], numbers[:, None]))
    np.testing.assert_array_equal(rows.numpy(), np.eye(5)[[1, 4, 1, 1, 3]])
    with pytest.raises(ValueError, match="at least two"):
        layer([words])


@pytest.mark.parametrize("name, side", [("RandomHeight", 1), ("RandomWidth", 2)])
def test_sides_are_stretched_while_training(name, side):
    layer = getattr(tf.keras.layers, name)((0.5, 0.5))
    x = np.random.RandomState(0).rand(2, 6, 8, 3).astype("f")
    got = layer(x, training=True).numpy()
    size = [6, 8]
    size[side - 1] = int(size[side - 1] * 1.5)
    np.testing.assert_allclose(got, tf.image.resize(x, size).numpy(), rtol=1e-6)
    np.testing.assert_array_equal(layer(x, training=False).numpy(), x)
    assert layer.compute_output_shape((2, 6, 8, 3))[side] is None


def test_smart_resize_cuts_around_the_middle():
    x = np.arange(2 * 4 * 1, dtype="f").reshape(2, 4, 1)
    got = tf.keras.preprocessing.image.smart_resize(x, (2, 2))
    np.testing.assert_array_equal(got, x[:, 1:3])
    assert isinstance(got, np.ndarray)


def test_lists_of_python_values_are_one_tensor():
    layers = tf.keras.layers
    np.testing.assert_array_equal(layers.CategoryEncoding(3, "one_hot")([0, 1, 2]), np.eye(3))
    np.testing.assert_array_equal(layers.CategoryEncoding(4, "multi_hot")([[0, 1], [2, 2]]), [[1, 1, 0, 0], [0, 0, 1, 0]])
    assert layers.Discretization(bin_boundaries=[1, 4, 5])([1., 2., 3., 4., 5.]).numpy().tolist() == [1, 1, 1, 2, 3]
    assert layers.StringLookup(vocabulary=["a", "b"])(["a", "b", "z"]).numpy().tolist() == [1, 2, 0]
    assert layers.Hashing(num_bins=3)(["a", "b", "z"]).numpy().tolist() == [0, 1, 1]
    assert layers.HashedCrossing(num_bins=5)((["A", "B"], ["x", "y"])).shape == (2,)
    np.testing.assert_array_equal(layers.Rescaling(2.0)([1.0, 2.0]), [2.0, 4.0])


def test_a_vector_of_categories_is_one_sample():
    count = tf.keras.layers.CategoryEncoding(4, "count")
    assert count(tf.constant([0, 1, 1])).numpy().tolist() == [1, 2, 0, 0]
    sparse = tf.keras.layers.CategoryEncoding(4, "count", sparse=True)
    weighted = sparse(tf.constant([[3, 1, 3]]), count_weights=tf.constant([[0.5, 1.5, 0.75]]))
    assert tf.sparse.to_dense(weighted).numpy().tolist() == [[0, 1.5, 0, 1.25]]


def test_given_boundaries_stay():
    layer = tf.keras.layers.Discretization(bin_boundaries=[0.0, 1.0])
    layer.finalize_state()
    assert layer(tf.constant([-1.0, 0.5, 2.0])).numpy().tolist() == [0, 1, 2]


def test_saved_models_have_the_tables_of_lookups(tmp_path):
    words = tf.keras.Input((1,), dtype="string")
    found = tf.keras.layers.StringLookup(vocabulary=["a", "b"], output_mode="multi_hot")(words)
    model, given = tf.keras.Model(words, found), tf.constant([["b"], ["q"]])
    model.save(str(tmp_path / "model"))
    for loaded in (tf.keras.models.load_model(str(tmp_path / "model")), tf.saved_model.load(str(tmp_path / "model"))):
        np.testing.assert_array_equal(loaded(given), [[0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize("adapted", ["adapt", "set_vocabulary"])
def test_models_of_layers_without_a_vocabulary_can_be_built(adapted):
    layer = L.TextVectorization(max_tokens=10, output_sequence_length=3)
    inputs = tf.keras.Input([], dtype=tf.string)
    model = tf.keras.Model(inputs, layer(inputs) * 2)
    with pytest.raises(tf.errors.FailedPreconditionError):
        model(tf.constant(["a b"]))
    getattr(layer, adapted)(np.array(["b", "a"]))
    np.testing.assert_array_equal(model.predict(tf.constant(["b a", "z b b b"]), verbose=0),
                                  2 * np.array([[2, 3, 0], [1, 2, 2]]))


@pytest.mark.parametrize("mode", ["multi_hot", "count", "tf_idf"])
def test_columns_need_a_vocabulary(mode):
    for layer in (L.StringLookup(output_mode=mode), L.TextVectorization(output_mode=mode)):
        with pytest.raises(RuntimeError, match=r"adapt.*columns"):
            layer(tf.keras.Input([1], dtype=tf.string))
        with pytest.raises(RuntimeError, match=r"adapt.*columns"):
            layer(tf.constant([["a"]]))


def test_a_discretization_without_boundaries_has_one_interval():
    np.testing.assert_array_equal(L.Discretization(num_bins=3)(tf.constant([[-1.0, 5.0]])), [[0, 0]])


def test_quantiles_are_those_of_batches_of_32():
    data = np.random.RandomState(3).rand(50, 3) * 5
    layer = L.Discretization(num_bins=4)
    layer.adapt(data)
    np.testing.assert_allclose(layer.bin_boundaries, [1.183, 2.395, 3.505], atol=1e-3)        # recorded from tf_keras


def test_a_random_crop_resizes_when_predicting():
    images = np.arange(120, dtype="f").reshape(2, 10, 6, 1)
    assert L.RandomCrop(4, 4)(images, training=False).numpy()[0, :, :, 0].tolist() == [      # recorded from tf_keras
        [13.75 + 9 * row + 1.5 * column for column in range(4)] for row in range(4)]
