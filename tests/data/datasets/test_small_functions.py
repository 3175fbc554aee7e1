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


def test_from_list_of_shapes_that_differ():
    dataset = tf.data.experimental.from_list([[1, 2], [3, 4, 5]])
    assert dataset.element_spec == tf.TensorSpec([None], tf.int32)
    assert [row.tolist() for row in dataset.as_numpy_iterator()] == [[1, 2], [3, 4, 5]]


def test_rebatch_with_several_sizes():
    batches = tf.data.Dataset.range(11).batch(4)
    rows = [[0, 1], [2], [3, 4], [5], [6, 7], [8], [9, 10]]
    assert [row.tolist() for row in batches.rebatch([2, 1]).as_numpy_iterator()] == rows
    assert batches.rebatch([2, 2], drop_remainder=True).element_spec.shape == [2]


def test_an_iterator_continues_the_cache_file_of_another(tmp_path):
    dataset = tf.data.Dataset.range(5).cache(str(tmp_path / "cache"))
    first, second = iter(dataset), iter(dataset)
    assert [int(next(first)) for _ in range(2)] == [0, 1]
    path = tf.train.Checkpoint(it=first).write(str(tmp_path / "ckpt"))
    tf.train.Checkpoint(it=second).read(path)
    assert [int(x) for x in second] == [2, 3, 4]
    assert [int(x) for x in dataset] == [0, 1, 2, 3, 4]


def test_positions_inside_of_datasets_of_datasets(tmp_path):
    def make():
        inner = tf.data.Dataset.from_tensor_slices([1, 2, 3])
        return iter(tf.data.Dataset.from_tensors(0).map(lambda _: inner).flat_map(lambda d: d))
    first, second = make(), make()
    next(first)
    path = tf.train.Checkpoint(it=first).write(str(tmp_path / "ckpt"))
    tf.train.Checkpoint(it=second).read(path)
    assert [int(x) for x in second] == [2, 3]
