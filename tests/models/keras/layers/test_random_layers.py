"""Where dropout and noise draw their numbers from: `rng_type` and `force_generator`. Values recorded from tf_keras."""
import numpy as np
import pytest

import penstock as tf

layers = tf.keras.layers
FIRST = [0, 2, 2, 2, 0, 0, 0, 0, 2, 0, 0, 2]
SECOND = [2, 2, 0, 0, 0, 0, 2, 2, 2, 0, 0, 0]


@pytest.mark.parametrize("options", [{"rng_type": "stateful"}, {"force_generator": True},
                                     {"force_generator": True, "rng_type": "stateless"}])
def test_dropout_from_a_generator_of_the_layer(options):
    layer = layers.Dropout(0.5, seed=3, **options)
    assert layer.get_config()["rng_type"] == "stateful"
    for one in (layer, layers.Dropout.from_config(layer.get_config())):
        assert [one(tf.ones(12), training=True).numpy().tolist() for _ in range(2)] == [FIRST, SECOND]
    assert not layer.weights


def test_dropout_without_state_drops_the_same_in_every_call():
    layer = layers.Dropout(0.5, seed=3, rng_type="stateless")
    draw = tf.function(lambda x: layer(x, training=True))
    assert [f(tf.ones(4)).numpy().tolist() for f in (draw, draw, lambda x: layer(x, training=True))] == [[0, 2, 2, 2]] * 3
    unseeded = layers.Dropout(0.5, rng_type="stateless")
    a, b = (unseeded(tf.ones(100), training=True).numpy() for _ in range(2))
    assert (a == b).all() and set(a.tolist()) == {0., 2.}


def test_noise_from_a_generator_or_without_state():
    values = {t: layers.GaussianNoise(0.5, seed=3, rng_type=t) for t in ("stateful", "stateless")}
    for kind, calls in (("stateful", [[-0.2182, -0.9817, -0.0323], [-0.0457, -0.3899, -1.2723]]),
                        ("stateless", [[-0.3358, 0.838, -0.4721]] * 2)):
        for expected in calls:
            np.testing.assert_allclose(values[kind](tf.zeros(3), training=True), expected, atol=1e-4)
    assert layers.AlphaDropout(0.5, seed=3, rng_type="stateless")(tf.ones(3), training=True).shape == [3]
    layer = layers.SpatialDropout1D(0.5, seed=1, rng_type="stateful")
    dropped = layer(tf.ones((2, 5, 8)), training=True).numpy()
    assert (dropped == dropped[:, :1]).all()


def test_an_unknown_source_is_refused_and_the_default_is_not_in_configs():
    with pytest.raises(ValueError, match="Invalid `rng_type` received"):
        layers.Dropout(0.5, rng_type="other")
    assert "rng_type" not in layers.Dropout(0.5, rng_type="legacy_stateful").get_config()


def test_each_op_has_a_seed_of_its_own():
    layer = layers.Dropout(0.5, seed=3)
    draw = tf.function(lambda: layer(tf.ones(8), training=True))
    tf.random.set_seed(1)
    eager = [layer(tf.ones(8), training=True).numpy().tolist() for _ in range(2)]
    assert eager == [[2, 2, 2, 0, 2, 0, 2, 2], [0, 0, 0, 0, 2, 2, 0, 2]]
    assert [draw().numpy().tolist() for _ in range(2)] == [[0, 0, 0, 0, 2, 2, 0, 2], [2, 0, 2, 0, 2, 2, 0, 0]]


@pytest.mark.parametrize("options, first", [({}, [0.0126, 0.4228]), ({"rng_type": "stateless"}, [0.5793, 2.6769]),
                                            ({"force_generator": True}, [1.3663, -0.4688])])
def test_users_layers_draw_from_the_generator_of_their_base(options, first):
    class Scaled(tf.keras.__internal__.layers.BaseRandomLayer):
        def call(self, x):
            draws = self._random_generator
            return x * draws.random_uniform(tf.shape(x), maxval=2.) + draws.truncated_normal([4])
    layer = Scaled(seed=4, **options)
    tf.random.set_seed(2)
    value = layer(tf.ones([2, 4]))
    np.testing.assert_allclose(value[0, :2], first, atol=1e-4)
    assert not layer.weights
    assert ("rng_type" in layer.get_config()) == bool(options)


IMAGES = np.random.RandomState(3).rand(3, 8, 8, 3).astype("float32")
CHANGED = {                   # recorded from tf_keras: three calls after set_random_seed(9), then one in a tf.function
    "RandomFlip": ((), 5, (1.4901, 1.4704, 1.4966, 1.443)), "RandomRotation": ((0.2,), 5, (1.4828, 1.4535, 1.4792, 1.4796)),
    "RandomZoom": ((0.3,), 5, (1.5159, 1.4896, 1.5082, 1.5332)),
    "RandomTranslation": ((0.2, 0.2), 5, (1.4657, 1.4951, 1.4866, 1.4957)),
    "RandomContrast": ((0.5,), 5, (1.5085, 1.5055, 1.5102, 1.5268)), "RandomCrop": ((4, 4), 5, (1.4292, 1.4899, 1.456, 1.6266))}


@pytest.mark.parametrize("name", CHANGED)
def test_images_change_as_in_tf_keras_for_a_seed(name):
    args, seed, expected = CHANGED[name]
    layer = getattr(tf.keras.layers, name)(*args, seed=seed)
    function = tf.function(lambda x: layer(x, training=True))
    made = [np.asarray(f(IMAGES, training=True) if f is layer else f(IMAGES)) for f in (layer, layer, layer, function)]
    found = [(a * (np.arange(a.size).reshape(a.shape) % 7)).mean() for a in made]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_image_layers_without_seeds_follow_set_random_seed():
    def drawn():
        tf.keras.utils.set_random_seed(4)
        return np.asarray(tf.keras.layers.RandomRotation(0.3)(IMAGES, training=True))
    np.testing.assert_array_equal(drawn(), drawn())
    tf.random.set_seed(None)
