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


def test_positions_in_a_shuffled_dataset_have_one_order():
    dataset = tf.data.Dataset.range(20).shuffle(7, seed=3).map(lambda x: x * 2).batch(5)
    first, again = ([tf.data.experimental.at(dataset, i).numpy().tolist() for i in range(4)] for _ in range(2))
    assert first == again and sorted(sum(first, [])) == list(range(0, 40, 2))
    assert [x.tolist() for x in dataset.as_numpy_iterator()] == first          # reading positions starts no round
    assert [x.tolist() for x in dataset.as_numpy_iterator()] != first


def test_an_element_by_its_position_in_a_graph():
    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
        dataset = tf.compat.v1.data.Dataset.range(4).batch(3)
        position = tf.compat.v1.placeholder(tf.int64, [])
        element = tf.data.experimental.at(dataset, position)
        assert sess.run(element, {position: 1}).tolist() == [3]
        with pytest.raises(tf.errors.OutOfRangeError, match="Index out of range"):
            sess.run(element, {position: 2})


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


def test_elements_for_numpy_cannot_be_written_to():
    array = next(tf.data.Dataset.from_tensors([1, 2, 3]).as_numpy_iterator())
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 0


def test_sparse_elements_for_numpy_are_dense():
    sparse = tf.sparse.SparseTensor([(0, 0), (1, 1), (2, 2)], [1, 2, 3], (3, 3))
    got = list(tf.data.Dataset.from_tensor_slices(sparse).as_numpy_iterator())
    assert [row.tolist() for row in got] == [[1, 0, 0], [0, 2, 0], [0, 0, 3]]
    words = tf.sparse.SparseTensor([(1,)], ["a"], (2,))
    assert next(tf.data.Dataset.from_tensors(words).as_numpy_iterator()).tolist() == [b"", b"a"]


def test_the_position_of_a_numpy_iterator_is_saved(tmp_path):
    iterator = tf.data.Dataset.range(5).as_numpy_iterator()
    assert [next(iterator), next(iterator)] == [0, 1]
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    path = checkpoint.save(str(tmp_path / "ckpt"))
    assert [next(iterator), next(iterator)] == [2, 3]
    checkpoint.restore(path)
    assert next(iterator) == 2


def test_a_fingerprint_depends_on_the_transformations():
    def made(size, word):
        return tf.data.Dataset.range(size).map(lambda x: (x, word)).batch(2).fingerprint()
    assert made(3, "a").dtype == tf.uint64
    assert int(made(3, "a")) == int(made(3, "a"))
    assert len({int(made(3, "a")), int(made(4, "a")), int(made(3, "b"))}) == 3


def test_names_of_files_may_be_paths(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")
    files = [tmp_path / "a", tmp_path / "b"]
    assert list(tf.data.TextLineDataset(files).as_numpy_iterator()) == [b"a1", b"a2", b"b1", b"b2"]
    assert list(tf.data.FixedLengthRecordDataset(files, 3).as_numpy_iterator()) == [b"a1\n", b"a2\n", b"b1\n", b"b2\n"]
    assert list(tf.data.TextLineDataset(files[1]).as_numpy_iterator()) == [b"b1", b"b2"]


def test_records_are_written_of_scalars_only(tmp_path):
    dataset = tf.data.Dataset.from_tensors(tf.constant([], tf.string))
    with pytest.raises(tf.errors.InvalidArgumentError, match="only supports scalar elements"):
        tf.raw_ops.DatasetToTFRecord(input_dataset=tf.data.experimental.to_variant(dataset),
                                     filename=str(tmp_path / "a"), compression_type="")


def test_a_table_is_filled_from_scalars_only():
    pairs = tf.data.Dataset.zip((tf.data.Dataset.range(8), tf.data.Dataset.range(32).batch(4)))
    with pytest.raises(ValueError, match="must be scalars"):
        tf.data.experimental.DatasetInitializer(pairs)


def test_columns_of_a_csv_file_in_another_encoding(tmp_path):
    (tmp_path / "a.csv").write_bytes("größe,n\nä,1\n".encode("latin-1"))
    dataset = tf.data.experimental.make_csv_dataset(str(tmp_path / "a.csv"), 1, num_epochs=1, encoding="latin-1")
    assert next(iter(dataset))["größe"].numpy().tolist() == ["ä".encode("latin-1")]


def test_ragged_batches_of_matrices():
    rows = tf.data.Dataset.range(1, 4).map(lambda x: tf.fill([x, 2], x))
    batch = next(iter(rows.ragged_batch(3)))
    assert batch.to_list() == [[[1, 1]], [[2, 2]] * 2, [[3, 3]] * 3]
    columns = tf.data.Dataset.range(3).map(lambda x: tf.fill([2, x, 2], x))
    batch = next(iter(columns.ragged_batch(3)))
    assert batch.to_list() == [[[[x, x]] * x] * 2 for x in range(3)] and batch.ragged_rank == 2


def test_padding_left_out_for_a_structure():
    dataset = tf.data.Dataset.range(1, 3).map(lambda x: (tf.fill([x], x), {"a": tf.as_string(tf.fill([x], x))}))
    batch = next(iter(dataset.padded_batch(2, ([-1], {"a": [-1]}), (tf.constant(-1, tf.int64), None))))
    assert batch[0].numpy().tolist() == [[1, -1], [2, 2]] and batch[1]["a"].numpy().tolist() == [[b"1", b""], [b"2", b"2"]]


def test_what_datasets_do_not_support():
    with pytest.raises(TypeError, match="does not support elements of type"):
        tf.data.Dataset.from_tensor_slices([1.0, 2.0]).unique()
    with pytest.raises(tf.errors.FailedPreconditionError, match="infinite cardinality"):
        tf.data.experimental.at(tf.data.Dataset.range(3).repeat(), 0)
    with pytest.raises(ValueError, match=r"padded shape \(1,\) is not compatible with the shape \(3,\)"):
        tf.data.Dataset.from_tensors([1, 2, 3]).padded_batch(5, padded_shapes=[1])
    with tf.Graph().as_default(), pytest.raises(TypeError, match="only supports `len` in eager mode"):
        len(tf.data.Dataset.range(3))


@pytest.mark.parametrize("sizes, drop, expected", [
    ([2, 2], False, 2), ([2, 2], True, 2), (2, False, 2), ([1, 3], False, None), ([3, 3], False, None), (3, False, None)])
def test_the_size_of_new_batches_is_known_if_none_is_cut_short(sizes, drop, expected):
    dataset = tf.data.Dataset.range(8).batch(4, drop_remainder=True).rebatch(sizes, drop)
    assert dataset.element_spec.shape.as_list() == [expected]
    assert [n for batch in dataset.as_numpy_iterator() for n in batch.tolist()] == list(range(8))


def test_choosing_goes_on_when_a_dataset_is_empty():
    """Of the two functions of that name, the older one."""
    few, more, choice = tf.data.Dataset.range(2), tf.data.Dataset.range(5), tf.data.Dataset.range(2).repeat(4)
    assert [int(n) for n in tf.data.experimental.choose_from_datasets([few, more], choice)] == [0, 0, 1, 1, 2, 3]
    assert [int(n) for n in tf.data.Dataset.choose_from_datasets([few, more], choice)] == [0, 0, 1, 1]


def test_an_empty_optional_by_its_specification():
    assert not tf.experimental.Optional.empty(element_spec=tf.TensorSpec([], tf.int32)).has_value()


def test_weights_and_datasets_have_one_length():
    numbers = tf.data.Dataset.range(2)
    with pytest.raises(ValueError, match="should have the same length"):
        tf.data.Dataset.sample_from_datasets([numbers, numbers], weights=[0.2, 0.3, 0.5])


@pytest.mark.parametrize("name, make", [
    ("MapDataset", lambda d: d.map(lambda x: 1 // x)), ("FilterDataset", lambda d: d.filter(lambda x: 1 // x > 0)),
    ("FlatMapDataset", lambda d: d.flat_map(lambda x: tf.data.Dataset.range(1 // x))),
    ("ParallelMapDatasetV2", lambda d: d.map(lambda x: 1 // x, num_parallel_calls=2))])
def test_the_error_of_a_function_names_the_transformation(name, make):
    kind = name.removesuffix("V2").removesuffix("Dataset")
    for dataset in (make(tf.data.Dataset.range(1)), make(tf.data.Dataset.range(1)).batch(2)):
        with pytest.raises(tf.errors.InvalidArgumentError) as e:
            list(dataset)
        assert (f"Error in user-defined function passed to {name} transformation with iterator: "
                f"Iterator::Root::{kind}") in str(e.value)
        assert str(e.value).count("user-defined") == 1


def test_random_numbers_of_each_iteration():
    """Recorded of TensorFlow."""
    dataset = tf.data.Dataset.random(seed=42, rerandomize_each_iteration=True).take(3)
    expected = [[1632911145, 3351202991, 521718116], [978081363, 95978499, 2394667100]]
    assert [[int(x) for x in dataset] for _ in range(2)] == expected


def test_elements_that_numpy_does_not_have():
    assert list(tf.data.Dataset.from_tensors((2, None)).as_numpy_iterator()) == [(2, None)]
    optional = tf.data.experimental.Optional.from_value(3)
    for dataset in (tf.data.Dataset.range(3).window(2), tf.data.Dataset.from_tensors(optional)):
        with pytest.raises(TypeError, match="is not supported for datasets that produce values of type"):
            dataset.as_numpy_iterator()


def test_zip_takes_its_datasets_once():
    with pytest.raises(TypeError, match="Both"):
        tf.data.Dataset.zip(tf.data.Dataset.range(2), datasets=tf.data.Dataset.range(3))
