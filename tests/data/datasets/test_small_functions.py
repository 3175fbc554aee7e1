"""Small functions of tf.data.experimental: from_list, at, pad_to_cardinality. Values as TensorFlow 2.21 returns them."""
import pytest

import penstock as tf


def test_a_dataset_of_a_list():
    dataset = tf.data.experimental.from_list([(1, "a"), (2, "b")])
    assert list(dataset.as_numpy_iterator()) == [(1, b"a"), (2, b"b")]
    with pytest.raises(ValueError, match="should not be empty"):
        tf.data.experimental.from_list([])


def test_an_element_by_its_position():
    dataset = tf.data.Dataset.range(4)
    assert int(tf.data.experimental.at(dataset, 2)) == 2
    with pytest.raises(tf.errors.OutOfRangeError, match="Index out of range"):
        tf.data.experimental.at(dataset, 4)


def test_padding_marks_what_was_there():
    dataset = tf.data.Dataset.from_tensor_slices({"a": [5, 6]}).apply(tf.data.experimental.pad_to_cardinality(3))
    assert list(dataset.as_numpy_iterator()) == [{"a": 5, "valid": True}, {"a": 6, "valid": True}, {"a": 0, "valid": False}]
    with pytest.raises(ValueError, match="dictionaries"):
        tf.data.Dataset.range(2).apply(tf.data.experimental.pad_to_cardinality(3))
