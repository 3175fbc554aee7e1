"""Compiled colour kernels against the same formulas in torch."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.kernels import colours

if colours._kernels() is None:
    pytest.skip("penstock is installed without compiled kernels", allow_module_level=True)

IMAGES = {
    "pixels": np.random.RandomState(0).rand(2, 5, 7, 3),
    "large": np.random.RandomState(1).rand(80, 70, 3) * 3.0 - 1.0,
    "grey": np.repeat(np.random.RandomState(2).rand(4, 4, 1), 3, axis=-1),
    "primary": np.eye(3)[np.random.RandomState(3).randint(0, 3, [6, 5])],
    "part": np.random.RandomState(4).rand(9, 9, 3)[2:7, ::2],
}


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("change", ["saturation", "hue", "contrast"])
def test_the_same_as_torch(name, change, monkeypatch):
    image = IMAGES[name].astype("f")
    for amount in (0.0, 0.4, 1.0, 1.9) if change != "hue" else (-1.0, -0.3, 0.0, 0.25, 0.8):
        adjust = getattr(tf.image, f"adjust_{change}")
        found = adjust(image, amount).numpy()
        with monkeypatch.context() as patch:
            patch.setattr(colours, "_kernels", lambda: None)
            wanted = adjust(image, amount).numpy()
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-5)


def test_contrast_of_many_channels():
    image = np.random.RandomState(5).rand(2, 6, 5, 130).astype("f")
    mean = image.mean((1, 2), keepdims=True)
    np.testing.assert_allclose(tf.image.adjust_contrast(image, 1.7).numpy(), (image - mean) * 1.7 + mean, rtol=1e-5, atol=1e-6)
