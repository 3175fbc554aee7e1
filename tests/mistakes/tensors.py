"""Tensors: shapes, types, indices and values."""


def matmul_of_sizes_that_do_not_fit(tf):
    tf.matmul(tf.ones([2, 3]), tf.ones([4, 5]))


def add_of_shapes_that_do_not_broadcast(tf):
    tf.ones([2, 3]) + tf.ones([4])


def add_of_different_types(tf):
    tf.constant(1) + tf.constant(2.0)


def reshape_to_another_number_of_elements(tf):
    tf.reshape(tf.ones([6]), [4, 2])


def concat_of_different_ranks(tf):
    tf.concat([tf.ones([2, 2]), tf.ones([2])], 0)


def float_given_for_an_integer_tensor(tf):
    tf.constant(1.5, tf.int32)


def text_given_for_a_number(tf):
    tf.constant("one", tf.float32)


def list_of_rows_of_different_lengths(tf):
    tf.constant([[1, 2], [3]])


def index_out_of_range(tf):
    tf.gather([1, 2, 3], [5])


def slice_index_out_of_range(tf):
    tf.constant([1, 2, 3])[5]


def assignment_to_an_element(tf):
    tf.constant([1, 2, 3])[0] = 5


def axis_out_of_range(tf):
    tf.reduce_sum(tf.ones([2, 2]), axis=3)


def label_out_of_range(tf):
    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[7], logits=tf.zeros([1, 3]))


def unknown_padding(tf):
    tf.nn.conv2d(tf.ones([1, 4, 4, 1]), tf.ones([2, 2, 1, 1]), 1, "same-ish")


def channels_of_filter_and_image_differ(tf):
    tf.nn.conv2d(tf.ones([1, 4, 4, 3]), tf.ones([2, 2, 1, 8]), 1, "SAME")


def cholesky_of_a_vector(tf):
    tf.linalg.cholesky(tf.ones([3]))


def einsum_with_a_wrong_equation(tf):
    tf.einsum("ij,jk->ik", tf.ones([2, 3]), tf.ones([2, 3]))


def stack_of_different_shapes(tf):
    tf.stack([tf.ones([2]), tf.ones([3])])


def split_into_unequal_parts(tf):
    tf.split(tf.ones([7, 2]), 3)


def transpose_with_too_few_axes(tf):
    tf.transpose(tf.ones([2, 3, 4]), [1, 0])


def squeeze_of_an_axis_that_is_not_one(tf):
    tf.squeeze(tf.ones([2, 3]), axis=0)


def one_hot_with_a_float_index(tf):
    tf.one_hot([0.5, 1.0], 3)


def tensor_used_as_a_dictionary_key(tf):
    {tf.constant(1): "one"}


def truth_of_many_elements(tf):
    if tf.constant([True, False]):
        pass


def range_over_a_float(tf):
    for _ in range(tf.constant(3.0)):
        pass


def inverse_of_a_matrix_that_is_not_square(tf):
    tf.linalg.inv(tf.ones([2, 3]))


def solve_of_a_singular_system(tf):
    tf.linalg.solve(tf.zeros([2, 2]), tf.ones([2, 1]))


def pooling_window_larger_than_the_image(tf):
    tf.nn.max_pool2d(tf.ones([1, 2, 2, 1]), 5, 1, "VALID")


def tensor_of_an_object(tf):
    tf.constant(object())


def tensor_of_a_dictionary(tf):
    tf.convert_to_tensor({"a": 1.0})


def tensor_of_a_set_in_a_list(tf):
    tf.reduce_sum([{1, 2}])


def tensor_plus_a_function(tf):
    tf.ones([2]) + (lambda: 1.0)


def cast_of_text(tf):
    tf.cast("1.5", tf.float32)


def int64_index_added_to_an_int32_one(tf):
    tf.range(3) + tf.argmax(tf.ones([3, 2]), axis=1)


def integer_tensor_averaged_with_a_float_weight(tf):
    tf.constant([1, 2]) * 0.5


def integers_times_a_list_of_floats(tf):
    tf.constant([1, 2]) - [0.5, 1.0]


def one_hot_without_its_depth(tf):
    tf.one_hot([1, 2])


def random_integers_without_a_limit(tf):
    tf.random.uniform([2], dtype=tf.int32)


def random_shape_with_a_fraction(tf):
    tf.random.normal([3.5])


def tile_with_too_few_multiples(tf):
    tf.tile(tf.ones([2, 3]), [2])


def where_with_a_condition_of_another_length(tf):
    tf.where([True, False], [1, 2, 3], [4, 5, 6])


def padding_that_is_a_vector(tf):
    tf.pad(tf.ones([2, 2]), [1, 1])


def mask_of_words(tf):
    tf.sequence_mask(["a"])


def mask_of_another_length(tf):
    tf.boolean_mask(tf.ones([3]), [True, False])


def scatter_beyond_the_shape(tf):
    tf.scatter_nd([[5]], [1.0], [3])


def length_of_a_scalar(tf):
    len(tf.constant(3))


def unpacked_into_too_many_names(tf):
    a, b, c = tf.constant([1, 2])


def top_k_of_too_many(tf):
    tf.math.top_k([1, 2, 3], k=5)


def segments_that_are_not_sorted(tf):
    tf.math.segment_sum([1.0, 2.0, 3.0], [1, 0, 1])


def complex_numbers_compared(tf):
    tf.constant(1j) < tf.constant(2j)  # noqa: B015


def number_added_to_text(tf):
    tf.constant("a") + 1


def float_slice_of_a_tensor(tf):
    tf.range(5)[1.5:]


def list_of_booleans_as_an_index(tf):
    tf.range(3)[[True, False, True]]


def reduce_over_a_repeated_axis(tf):
    tf.reduce_sum(tf.ones([2, 3]), axis=[0, 0])


def concat_of_one_number(tf):
    tf.concat([tf.constant(1), tf.constant(2)], 0)


def concat_of_two_types(tf):
    tf.concat([tf.ones([2]), tf.ones([2], tf.int32)], 0)


def transpose_with_a_repeated_axis(tf):
    tf.transpose(tf.ones([2, 3]), [0, 0])


def reshape_with_two_open_sizes(tf):
    tf.reshape(tf.ones([6]), [-1, -1])


def slice_longer_than_the_tensor(tf):
    tf.slice(tf.ones([3]), [1], [5])


def strided_slice_with_a_step_of_zero(tf):
    tf.ones([3])[::0]


def too_many_indices(tf):
    tf.ones([3])[0, 0]


def two_ellipses(tf):
    tf.ones([3, 3, 3])[..., 0, ...]


def pad_with_negative_numbers(tf):
    tf.pad(tf.ones([3]), [[-1, 0]])


def bitcast_that_does_not_divide(tf):
    tf.bitcast(tf.ones([3], tf.int16), tf.float32)


def none_in_a_list(tf):
    tf.constant([1, None])


def float16_plus_float32(tf):
    tf.ones([1], tf.float16) + tf.ones([1])


def boolean_sum(tf):
    tf.reduce_sum(tf.constant([True]))


def dimension_of_text(tf):
    tf.TensorShape(["a"])


def as_list_of_an_unknown_shape(tf):
    tf.TensorShape(None).as_list()
