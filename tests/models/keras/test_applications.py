"""Image models: numbers of weights as real Keras has them, what they take and return, weights from files."""
import numpy as np
import pytest

import penstock as tf

A = tf.keras.applications
COUNTS = {"MobileNet": 3239114, "MobileNetV2": 2270794, "DenseNet121": 7047754, "ResNet50": 23608202, "ResNet50V2": 23585290,
          "Xception": 20881970, "InceptionV3": 21823274, "VGG16": 39929674,
          "EfficientNetB0": 4062381, "InceptionResNetV2": 54352106, "NASNetMobile": 4280286,
          "MobileNetV3Small": 1540218}      # of real Keras, for images of 80 x 80


SMALL = ("MobileNet", "MobileNetV2", "MobileNetV3Small")


@pytest.mark.parametrize("name", [n if n in SMALL else pytest.param(n, marks=pytest.mark.slow) for n in COUNTS])
def test_weights_are_those_of_keras(name):
    model = getattr(A, name)(weights=None, classes=10, input_shape=(80, 80, 3))
    assert model.count_params() == COUNTS[name]
    y = model(np.random.RandomState(0).rand(2, 80, 80, 3).astype("f"), training=False).numpy()
    assert y.shape == (2, 10)
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-4)


def test_weights_come_from_files(tmp_path, monkeypatch):
    model = A.MobileNet(weights=None, alpha=0.25, include_top=False, pooling="avg", input_shape=(128, 128, 3))
    path = str(tmp_path / "w.h5")
    model.save_weights(path)
    again = A.MobileNet(weights=path, alpha=0.25, include_top=False, pooling="avg", input_shape=(128, 128, 3))
    x = np.ones((1, 128, 128, 3), "f")
    np.testing.assert_array_equal(model(x).numpy(), again(x).numpy())
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    with pytest.raises(ConnectionError, match=r"PENSTOCK_OFFLINE.*models/mobilenet_2_5_128_tf_no_top.h5"):
        A.MobileNet(alpha=0.25, include_top=False, input_shape=(128, 128, 3))


def test_images_are_prepared():
    x = np.full((1, 2, 2, 3), 255.0)
    np.testing.assert_allclose(A.mobilenet_v2.preprocess_input(x), 1.0, rtol=1e-6)
    np.testing.assert_allclose(A.vgg16.preprocess_input(x)[0, 0, 0], 255 - np.array([103.939, 116.779, 123.68]), rtol=1e-6)
    np.testing.assert_allclose(A.densenet.preprocess_input(x)[0, 0, 0], (1 - np.array([0.485, 0.456, 0.406]))
                               / np.array([0.229, 0.224, 0.225]), rtol=1e-5)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="at least 32x32"):
        A.VGG16(weights=None, input_shape=(16, 16, 3))
    with pytest.raises(ValueError, match="classes"):
        A.VGG16(classes=10)
    with pytest.raises(ValueError, match=r"shape: \(2, 3\)"):
        A.vgg16.decode_predictions(np.zeros((2, 3)))
