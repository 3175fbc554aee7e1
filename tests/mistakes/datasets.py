"""Datasets and input pipelines."""
import os
import tempfile

import numpy as np


def error_in_a_map_of_a_dataset(tf):
    list(tf.data.Dataset.range(3).map(lambda x: tf.gather([1, 2], x)))


def batch_of_different_shapes(tf):
    data = tf.data.Dataset.from_generator(lambda: iter([[1], [1, 2]]), tf.int32, tf.TensorShape([None]))
    list(data.batch(2))


def record_file_that_does_not_exist(tf):
    list(tf.data.TFRecordDataset("/no/such/file"))


def zip_of_a_list(tf):
    tf.data.Dataset.zip(([1, 2], [3, 4]))


def tensors_of_different_lengths_as_slices(tf):
    tf.data.Dataset.from_tensor_slices((np.ones(3), np.ones(4)))


def generator_without_its_types(tf):
    tf.data.Dataset.from_generator(lambda: iter([1, 2]))


def batch_of_zero(tf):
    list(tf.data.Dataset.range(3).batch(0))


def map_with_too_few_parameters(tf):
    tf.data.Dataset.from_tensors((1, 2)).map(lambda x: x)


def concatenate_of_datasets_of_other_types(tf):
    tf.data.Dataset.range(2).concatenate(tf.data.Dataset.from_tensors("a"))


def filter_that_returns_a_number(tf):
    tf.data.Dataset.range(2).filter(lambda x: x)


def reduce_that_changes_the_state(tf):
    tf.data.Dataset.range(2).reduce(0, lambda s, x: tf.cast(x, tf.float32))


def generator_with_another_type(tf):
    list(tf.data.Dataset.from_generator(lambda: iter(["a"]), output_signature=tf.TensorSpec([], tf.int32)))


def generator_with_another_shape(tf):
    list(tf.data.Dataset.from_generator(lambda: iter([[1, 2]]), output_signature=tf.TensorSpec([3], tf.int32)))


def padded_batch_with_too_small_shapes(tf):
    list(tf.data.Dataset.from_tensors([1, 2, 3]).padded_batch(1, padded_shapes=[2]))


def length_of_a_dataset_that_has_none(tf):
    len(tf.data.Dataset.range(2).filter(lambda x: x > 0))


def shuffle_buffer_of_zero(tf):
    list(tf.data.Dataset.range(2).shuffle(0))


def dataset_indexed(tf):
    tf.data.Dataset.range(2)[0]


def batch_of_other_shapes(tf):
    list(tf.data.Dataset.from_generator(lambda: iter([[1], [1, 2]]), tf.int32).batch(2))


def slices_of_other_lengths(tf):
    tf.data.Dataset.from_tensor_slices((np.zeros(3), np.zeros(4)))


def generator_of_another_type(tf):
    list(tf.data.Dataset.from_generator(lambda: iter(["a"]), output_signature=tf.TensorSpec([], tf.int32)))


def generator_of_another_shape(tf):
    list(tf.data.Dataset.from_generator(lambda: iter([[1, 2]]), output_signature=tf.TensorSpec([3], tf.int32)))


def record_file_that_is_missing(tf):
    list(tf.data.TFRecordDataset("/no/such.tfrecord"))


def shuffle_buffer_of_no_elements(tf):
    list(tf.data.Dataset.range(3).shuffle(0))


def filter_that_returns_no_boolean(tf):
    list(tf.data.Dataset.range(3).filter(lambda x: x))


def map_that_returns_a_generator(tf):
    tf.data.Dataset.range(3).map(lambda x: (i for i in range(2)))


def map_over_a_dictionary_with_two_parameters(tf):
    tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": [3, 4]}).map(lambda a, b: a + b)


def map_that_asks_for_a_missing_key(tf):
    tf.data.Dataset.from_tensor_slices({"a": [1, 2]}).map(lambda d: d["b"])


def interleave_with_no_cycle(tf):
    tf.data.Dataset.range(3).interleave(tf.data.Dataset.from_tensors, cycle_length=0)


def zip_unpacked_into_too_many(tf):
    data = tf.data.Dataset.zip((tf.data.Dataset.range(2), tf.data.Dataset.range(2)))
    _, _, _ = next(iter(data))


def take_of_text(tf):
    tf.data.Dataset.range(3).take("two")


def batch_of_rows_of_other_lengths(tf):
    data = tf.data.Dataset.from_generator(lambda: iter([[1], [2, 3]]), output_signature=tf.TensorSpec([None], tf.int32))
    list(data.batch(2))


def numpy_function_of_another_type(tf):
    data = tf.data.Dataset.range(2).map(lambda x: tf.numpy_function(lambda v: float(v), [x], tf.int64))
    list(data)


def dataset_given_as_a_tensor(tf):
    tf.reduce_sum(tf.data.Dataset.range(3))


def map_that_returns_nothing(tf):
    list(tf.data.Dataset.range(3).map(lambda x: None).batch(2).map(lambda x: x + 1))


def map_that_opens_a_file(tf):
    list(tf.data.Dataset.from_tensor_slices(["a.txt", "b.txt"]).map(lambda name: len(open(name).read())))


def map_that_branches_in_python(tf):
    list(tf.data.Dataset.range(3).map(lambda x: {0: "a"}[x]))


def image_file_that_is_missing(tf):
    names = tf.data.Dataset.from_tensor_slices(["/no/such/picture.png"])
    list(names.map(tf.io.read_file).map(tf.io.decode_png))


def image_without_a_shape_resized_and_batched(tf):
    pictures = [tf.io.encode_png(tf.zeros([rows, 4, 3], tf.uint8)).numpy() for rows in (4, 5)]
    list(tf.data.Dataset.from_tensor_slices(pictures).map(tf.io.decode_png).batch(2))


def csv_columns_of_another_type(tf):
    path = os.path.join(tempfile.mkdtemp(), "a.csv")
    with open(path, "w") as file:
        file.write("x,y\n1,2\none,2\n")
    list(tf.data.experimental.CsvDataset(path, [tf.float32, tf.float32], header=True))


def csv_column_that_is_missing(tf):
    path = os.path.join(tempfile.mkdtemp(), "a.csv")
    with open(path, "w") as file:
        file.write("x,y\n1,2\n")
    tf.data.experimental.make_csv_dataset(path, 1, label_name="label")


def files_that_match_nothing(tf):
    tf.data.Dataset.list_files("/no/such/*.tfrecord")


def dataset_used_as_an_iterator(tf):
    next(tf.data.Dataset.range(3))


def batch_given_no_number(tf):
    tf.data.Dataset.range(3).batch(None)


def window_of_no_size(tf):
    list(tf.data.Dataset.range(3).window(0))


def slices_of_a_number(tf):
    tf.data.Dataset.from_tensor_slices(3)


def repeat_given_text(tf):
    tf.data.Dataset.range(3).repeat("2")


def text_files_named_by_a_number(tf):
    list(tf.data.TextLineDataset(5))


def apply_that_returns_a_number(tf):
    tf.data.Dataset.range(3).apply(lambda d: 3)


def unbatch_of_scalars(tf):
    tf.data.Dataset.range(3).unbatch()


def shard_beyond_the_number_of_shards(tf):
    list(tf.data.Dataset.range(3).shard(2, 5))


def windows_without_a_size(tf):
    tf.data.Dataset.range(3).group_by_window(lambda x: x % 2, lambda key, window: window.batch(2))


def generator_given_as_a_list(tf):
    tf.data.Dataset.from_generator([1, 2], tf.int32)


def sampling_with_too_few_weights(tf):
    dataset = tf.data.Dataset.range(3)
    tf.data.Dataset.sample_from_datasets([dataset, dataset], weights=[1.0])


def division_by_zero_in_a_map(tf):
    list(tf.data.Dataset.range(3).map(lambda x: 1 // x))


def error_in_a_generator(tf):
    def rows():
        yield 1
        raise KeyError("label")
    list(tf.data.Dataset.from_generator(rows, tf.int32))


def map_with_zero_parallel(tf):
    list(tf.data.Dataset.range(3).map(lambda x: x, num_parallel_calls=0))


def prefetch_of_text(tf):
    tf.data.Dataset.range(3).prefetch("auto")


def cache_in_a_number(tf):
    tf.data.Dataset.range(3).cache(3)


def batch_of_a_fraction(tf):
    tf.data.Dataset.range(3).batch(2.5)


def flat_map_without_a_dataset(tf):
    tf.data.Dataset.range(3).flat_map(lambda x: [x])


def slices_of_a_dictionary_of_other_lengths(tf):
    tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": [1]})


def bucket_with_wrong_sizes(tf):
    tf.data.Dataset.range(3).bucket_by_sequence_length(lambda x: 1, [2, 4], [1, 1])


def scan_that_changes_type(tf):
    tf.data.Dataset.range(3).scan(0, lambda s, x: (1.0, x))


def choose_from_floats(tf):
    tf.data.Dataset.choose_from_datasets([tf.data.Dataset.range(2)], tf.data.Dataset.from_tensors(1.0))


def load_of_a_missing_dataset(tf):
    tf.data.Dataset.load("/no/such/dataset")


def options_that_are_a_dictionary(tf):
    tf.data.Dataset.range(3).with_options({"deterministic": True})


def zip_with_a_tensor(tf):
    tf.data.Dataset.zip((tf.data.Dataset.range(3), tf.constant([1])))


def unknown_option(tf):
    options = tf.data.Options()
    options.experimental_determinism = True


def element_taken_by_get_single(tf):
    tf.data.Dataset.range(3).get_single_element()


def record_file_that_is_text(tf):
    path = os.path.join(tempfile.mkdtemp(), "a.tfrecord")
    with open(path, "w") as file:
        file.write("these are lines of text, and no records of a file\n" * 3)
    list(tf.data.TFRecordDataset(path))


def record_file_read_with_another_compression(tf):
    path = os.path.join(tempfile.mkdtemp(), "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(b"abc")
    list(tf.data.TFRecordDataset(path, compression_type="GZIP"))


def padded_batch_with_other_padding_values(tf):
    dataset = tf.data.Dataset.from_tensor_slices([1, 2, 3]).map(lambda n: tf.range(n))
    list(dataset.padded_batch(2, padding_values=0.5))


def element_indexed_in_a_map(tf):
    tf.data.Dataset.range(3).map(lambda x: x[0]).as_numpy_iterator().next()


def skip_of_text(tf):
    tf.data.Dataset.range(3).skip("one")


def cardinality_asserted_wrongly(tf):
    list(tf.data.Dataset.range(3).apply(tf.data.experimental.assert_cardinality(5)))


def group_by_window_without_a_reduce(tf):
    list(tf.data.Dataset.range(4).group_by_window(lambda x: x, lambda key, window: window.batch(2)))


def reduce_to_another_structure(tf):
    tf.data.Dataset.range(4).reduce(0, lambda state, x: (state, x))


def range_without_a_limit(tf):
    tf.data.Dataset.range()


def list_files_of_a_number(tf):
    tf.data.Dataset.list_files(3)


def window_used_as_a_tensor(tf):
    tf.data.Dataset.range(4).window(2).map(lambda w: w + 1)


def ragged_batch_of_a_size_of_zero(tf):
    next(iter(tf.data.Dataset.range(3).ragged_batch(0)))


def bucket_by_length_without_boundaries(tf):
    tf.data.Dataset.range(3).bucket_by_sequence_length(lambda x: 1, [], [])


def sample_from_no_datasets(tf):
    tf.data.Dataset.sample_from_datasets([])


def choose_from_datasets_of_other_types(tf):
    a, b = tf.data.Dataset.range(3), tf.data.Dataset.from_tensor_slices(["a"])
    tf.data.Dataset.choose_from_datasets([a, b], tf.data.Dataset.range(2))


def random_dataset_with_a_fraction(tf):
    tf.data.Dataset.random(seed=1.5)


def take_while_that_returns_a_number(tf):
    tf.data.Dataset.range(3).take_while(lambda x: x)


def fixed_length_records_of_no_bytes(tf):
    next(iter(tf.data.FixedLengthRecordDataset("/no/such", 0)))


def reduce_with_one_argument(tf):
    tf.data.Dataset.range(3).reduce(0, lambda s: s)


def dataset_added_to_a_dataset(tf):
    tf.data.Dataset.range(3) + tf.data.Dataset.range(3)
