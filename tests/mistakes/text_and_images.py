"""Text, images, records, ragged and sparse tensors."""
import os
import tempfile


def decode_of_a_file_that_is_not_an_image(tf):
    tf.io.decode_png("not an image")


def parse_of_a_word_as_a_number(tf):
    tf.strings.to_number("twelve")


def parse_of_a_missing_feature(tf):
    tf.io.parse_single_example(tf.train.Example().SerializeToString(), {"x": tf.io.FixedLenFeature([], tf.float32)})


def table_looked_up_with_another_type(tf):
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), -1)
    table.lookup(tf.constant([1, 2]))


def ragged_rows_that_exceed_the_values(tf):
    tf.RaggedTensor.from_row_lengths([1, 2, 3], [2, 2])


def ragged_sum_of_other_rows(tf):
    tf.ragged.constant([[1], [2, 3]]) + tf.ragged.constant([[1, 2], [3]])


def ragged_to_a_tensor_of_another_rank(tf):
    tf.ragged.constant([[1], [2, 3]]).to_tensor(shape=[1])


def ragged_with_text_and_numbers(tf):
    tf.ragged.constant([["a"], [1]])


def sparse_indices_out_of_bounds(tf):
    tf.sparse.to_dense(tf.SparseTensor([[5, 0]], [1.0], [2, 2]))


def sparse_values_of_another_length(tf):
    tf.SparseTensor([[0, 0], [1, 1]], [1.0], [2, 2])


def ragged_sum_with_a_wider_tensor(tf):
    tf.math.add(tf.ragged.constant([[1], [2, 3]]), tf.constant([[1, 2, 3], [4, 5, 6]]))


def ragged_given_where_a_tensor_is_needed(tf):
    tf.matmul(tf.ragged.constant([[1.0], [2.0, 3.0]]), tf.ones([2, 2]))


def sparse_given_where_a_tensor_is_needed(tf):
    tf.matmul(tf.sparse.from_dense([[1.0, 0.0]]), tf.ones([2, 2]))


def sparse_product_of_sizes_that_do_not_fit(tf):
    tf.sparse.sparse_dense_matmul(tf.sparse.from_dense([[1.0, 0.0]]), tf.ones([3, 2]))


def substring_past_the_end(tf):
    tf.strings.substr("abc", 5, 2)


def join_of_numbers(tf):
    tf.strings.join([tf.constant([1, 2]), tf.constant([3, 4])])


def table_with_duplicate_keys(tf):
    tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "a"], [1, 2]), -1)


def table_of_other_lengths(tf):
    tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2, 3]), -1)


def image_resized_to_one_number(tf):
    tf.image.resize(tf.ones([4, 4, 3]), 8)


def resize_with_an_unknown_method(tf):
    tf.image.resize(tf.ones([1, 4, 4, 3]), [8, 8], method="cubic")


def grayscale_of_two_channels(tf):
    tf.image.rgb_to_grayscale(tf.ones([4, 4, 2]))


def crop_outside_of_the_image(tf):
    tf.image.crop_to_bounding_box(tf.ones([4, 4, 3]), 2, 2, 4, 4)


def random_crop_larger(tf):
    tf.image.random_crop(tf.ones([4, 4, 3]), [8, 8, 3])


def boxes_of_another_length(tf):
    tf.image.non_max_suppression(tf.ones([3, 4]), tf.ones([2]), 1)


def extract_patches_of_rank_three(tf):
    tf.image.extract_patches(tf.ones([4, 4, 3]), [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID")


def encode_jpeg_of_floats(tf):
    tf.io.encode_jpeg(tf.ones([4, 4, 3]))


def decode_raw_of_a_wrong_length(tf):
    tf.io.decode_raw(tf.constant(b"abc"), tf.int32)


def csv_with_too_few_defaults(tf):
    tf.io.decode_csv(["1,2,3"], [[0], [0]])


def regex_with_an_open_bracket(tf):
    tf.strings.regex_replace(["a"], "(", "b")


def format_with_too_few_places(tf):
    tf.strings.format("{} {}", (tf.constant(1),))


def strings_joined_with_numbers_axis(tf):
    tf.strings.reduce_join([1, 2])


def ngrams_of_width_zero(tf):
    tf.strings.ngrams(tf.constant(["a", "b"]), 0)


def lookup_with_a_float_default(tf):
    tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), 1.5)


def table_from_a_missing_file(tf):
    tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer("/no/such/file", tf.string, 0, tf.int64, 1), -1)


def parse_without_a_key(tf):
    example = tf.train.Example(features=tf.train.Features(feature={
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[1.0]))}))
    tf.io.parse_single_example(example.SerializeToString(), {"y": tf.io.FixedLenFeature([], tf.float32)})


def parse_of_another_type(tf):
    example = tf.train.Example(features=tf.train.Features(feature={
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[1.0]))}))
    tf.io.parse_single_example(example.SerializeToString(), {"x": tf.io.FixedLenFeature([], tf.int64)})


def parse_of_another_length(tf):
    example = tf.train.Example(features=tf.train.Features(feature={
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[1.0, 2.0]))}))
    tf.io.parse_single_example(example.SerializeToString(), {"x": tf.io.FixedLenFeature([3], tf.float32)})


def parse_of_bytes_that_are_no_example(tf):
    tf.io.parse_single_example(b"not an example", {"x": tf.io.FixedLenFeature([], tf.int64)})


def feature_given_a_number_for_a_list(tf):
    tf.train.Feature(int64_list=tf.train.Int64List(value=3))


def feature_given_text_for_bytes(tf):
    tf.train.Feature(bytes_list=tf.train.BytesList(value=["text"]))


def record_written_that_is_no_bytes(tf):
    with tf.io.TFRecordWriter(os.path.join(tempfile.mkdtemp(), "a")) as writer:
        writer.write(3)


def text_split_by_a_number(tf):
    tf.strings.split("a b", 3)


def text_to_an_unknown_type(tf):
    tf.strings.to_number("1", tf.complex64)


def base64_that_is_wrong(tf):
    tf.io.decode_base64("a!b")


def jpeg_that_is_cut(tf):
    data = tf.io.encode_jpeg(tf.zeros([8, 8, 3], tf.uint8)).numpy()
    tf.io.decode_jpeg(data[:40])


def image_of_four_channels_as_jpeg(tf):
    tf.io.encode_jpeg(tf.zeros([8, 8, 4], tf.uint8))


def picture_flipped_that_is_a_row(tf):
    tf.image.flip_left_right(tf.ones([4]))


def hue_beyond_its_limit(tf):
    tf.image.adjust_hue(tf.ones([2, 2, 3]), 3.0)


def picture_padded_to_less(tf):
    tf.image.pad_to_bounding_box(tf.ones([8, 8, 3]), 0, 0, 4, 4)


def psnr_of_other_sizes(tf):
    tf.image.psnr(tf.ones([8, 8, 3]), tf.ones([4, 4, 3]), 1.0)


def ragged_indexed_inside_a_row(tf):
    tf.ragged.constant([[1], [2, 3]])[:, 1].numpy()


def ragged_from_decreasing_splits(tf):
    tf.RaggedTensor.from_row_splits([1, 2, 3], [0, 2, 1, 3])


def sparse_given_other_ranks(tf):
    tf.SparseTensor([[0, 0]], [1.0], [2])


def sparse_to_dense_out_of_order(tf):
    tf.sparse.to_dense(tf.SparseTensor([[1, 0], [0, 0]], [1.0, 2.0], [2, 2]))


def sparse_sum_of_unequal_shapes(tf):
    tf.sparse.add(tf.sparse.eye(2), tf.sparse.eye(3))
