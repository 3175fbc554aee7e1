"""The programs in examples/ do what they say."""
import importlib.util
import pathlib

import numpy as np
import pytest

import penstock.compat.v1 as tf

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(f"examples.{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("readers", [1, 4])
def test_csv_queue(tmp_path, readers):
    """Every row is seen once an epoch, and the model is found."""
    example = load("csv_queue")
    with tf.Graph().as_default():
        files = example.write_files(tmp_path, count=3, rows=100)
        weights, bias, seen = example.train(files, readers=readers, epochs=4)
    assert seen == 3 * 100 * 4
    assert weights == pytest.approx([2, -1, 0], abs=0.2) and bias == pytest.approx(3, abs=0.1)


def test_csv_queue_with_a_bad_line(tmp_path):
    """An error in a reader thread is raised in the main thread, with the line that is wrong."""
    example = load("csv_queue")
    files = example.write_files(tmp_path, count=2, rows=50)
    with open(files[1], "a") as f:
        f.write("1,2,three,4\n")
    with pytest.raises(tf.errors.InvalidArgumentError, match="Field 2 in record 0 is not a valid float: three"):
        example.train(files, epochs=1)


def test_keras_digits(monkeypatch):
    """The network of the talks learns the digits with compile and fit."""
    monkeypatch.syspath_prepend(EXAMPLES)
    example = load("keras_digits")
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        (x, y), (x_test, y_test) = example.digits.load()
        model = example.network()
        model.fit(x, tf.keras.utils.to_categorical(y, 10), batch_size=32, epochs=3, verbose=0)
        assert model.evaluate(x_test, tf.keras.utils.to_categorical(y_test, 10), verbose=0)[1] > 0.8


# -- the gallery ------------------------------------------------------------------------------------------------------
GALLERY = sorted(p.stem for p in (EXAMPLES / "gallery").glob("*.py"))


def test_every_program_of_the_gallery_is_on_its_page():
    page = (EXAMPLES.parent / "docs" / "gallery.md").read_text()
    for name in GALLERY:
        assert f"(../examples/gallery/{name}.py)" in page and f"(pictures/gallery_{name}.png)" in page
        assert (EXAMPLES.parent / "docs" / "pictures" / f"gallery_{name}.png").exists()


def test_mandelbrot():
    """Points in the set stay for all iterations, those outside leave at once."""
    count = load("gallery/mandelbrot").counts(width=44, height=25, iterations=30)
    assert count.shape == (25, 44) and count[12, 22] == 30 and count[0, 0] < 3


def test_ripples():
    """Waves run as far as their speed takes them, and lose energy."""
    example = load("gallery/ripples")
    start = np.zeros((41, 41), np.float32)
    start[20, 20] = 1.0
    height = example.simulate(tf.constant(start), tf.zeros([41, 41]), tf.constant(200)).numpy()
    np.testing.assert_allclose(height, height[::-1], atol=1e-5)
    assert 0 < np.abs(height).max() < 1 and np.abs(height[0]).max() < 0.05 < np.abs(height[14:27, 14:27]).max()


def test_spirals():
    example = load("gallery/spirals")
    x, y = example.points(300)
    assert example.train(x, y, epochs=2).predict(x, verbose=0).shape == (300, 1)


def test_written_digits():
    assert load("gallery/written_digits").train(epochs=1)(tf.zeros([3, 16])).shape == (3, 64)


def test_the_map_of_the_digits_puts_like_beside_like():
    example = load("gallery/digits_plane")
    draw = np.random.RandomState(0)
    x = np.repeat([[0.0] * 4, [40.0] * 4], 20, 0) + draw.randn(40, 4)
    where = example.layout(example.neighbours(x), steps=300)
    near = np.linalg.norm(where[:, None] - where[None], axis=-1)
    assert near[:20, :20].mean() < near[:20, 20:].min()
