"""The programs in examples/ do what they say."""
import importlib.util
import pathlib

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
