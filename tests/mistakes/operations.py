"""Operations: numbers, linear algebra, neural networks, random numbers."""


def stft_of_a_scalar(tf):
    tf.signal.stft(tf.constant(1.0), 4, 2)


def fft_of_real_numbers(tf):
    tf.signal.fft(tf.ones([8]))


def dct_of_an_unknown_type(tf):
    tf.signal.dct(tf.ones([8]), type=5)


def qr_of_integers(tf):
    tf.linalg.qr(tf.constant([[1, 2], [3, 4]]))


def triangular_solve_of_other_rows(tf):
    tf.linalg.triangular_solve(tf.eye(3), tf.ones([2, 1]))


def norm_of_an_unknown_order(tf):
    tf.norm(tf.ones([2]), ord="max")


def tensordot_of_other_axes(tf):
    tf.tensordot(tf.ones([2, 3]), tf.ones([4, 5]), axes=1)


def normal_with_negative_shape(tf):
    tf.random.normal([-1, 2])


def categorical_of_a_vector(tf):
    tf.random.categorical(tf.ones([3]), 2)


def stateless_without_a_pair(tf):
    tf.random.stateless_normal([2], seed=3)


def uniform_integers_reversed(tf):
    tf.random.uniform([2], 5, 1, tf.int32)


def generator_from_text(tf):
    tf.random.Generator.from_seed("a")


def bincount_of_negative(tf):
    tf.math.bincount(tf.constant([-1, 2]))


def confusion_of_other_lengths(tf):
    tf.math.confusion_matrix([0, 1], [0, 1, 1])


def histogram_with_equal_ends(tf):
    tf.histogram_fixed_width(tf.ones([3]), [1.0, 1.0])


def argsort_of_a_direction(tf):
    tf.argsort([1, 2], direction="UP")


def searchsorted_of_scalars(tf):
    tf.searchsorted(tf.constant(1.0), tf.constant(2.0))


def gather_nd_too_deep(tf):
    tf.gather_nd(tf.ones([2, 2]), [[0, 0, 0]])


def scatter_update_of_a_wrong_shape(tf):
    tf.tensor_scatter_nd_update(tf.ones([3]), [[0], [1]], [1.0])


def broadcast_to_fewer(tf):
    tf.broadcast_to(tf.ones([2, 3]), [3])


def meshgrid_of_matrices(tf):
    tf.meshgrid(tf.ones([2]), tf.ones([3]), indexing="kl")


def roll_with_other_axes(tf):
    tf.roll(tf.ones([4]), shift=[1, 2], axis=[0])


def space_to_depth_that_does_not_divide(tf):
    tf.nn.space_to_depth(tf.ones([1, 3, 3, 1]), 2)


def max_pool_with_three_numbers(tf):
    tf.nn.max_pool2d(tf.ones([1, 4, 4, 1]), [2, 2, 2], 1, "SAME")


def ctc_without_lengths(tf):
    tf.nn.ctc_loss(tf.constant([[1, 2]]), tf.ones([4, 1, 3]), None, None)


def sampled_softmax_of_wrong_labels(tf):
    tf.nn.sampled_softmax_loss(tf.ones([5, 3]), tf.ones([5]), tf.constant([1, 2]), tf.ones([2, 3]), 2, 5)


def batch_norm_of_other_mean(tf):
    tf.nn.batch_normalization(tf.ones([2, 3]), tf.ones([4]), tf.ones([4]), None, None, 1e-3)


def dropout_rate_of_one_and_a_half(tf):
    tf.nn.dropout(tf.ones([3]), rate=1.5)


def l2_normalize_text(tf):
    tf.nn.l2_normalize(["a"])


def crelu_of_integers(tf):
    tf.nn.selu(tf.constant([1, 2]))


def numpy_api_of_unequal(tf):
    tf.experimental.numpy.add(tf.ones([2]), tf.ones([3]))


def matrix_times_vector_by_matmul(tf):
    tf.ones([2, 3]) @ tf.ones([3])


def bitwise_of_floats(tf):
    tf.bitwise.bitwise_and(1.0, 2.0)


def logical_of_integers(tf):
    tf.logical_and(1, 2)


def argmax_of_text(tf):
    tf.argmax(["a", "b"])


def cumsum_over_a_missing_axis(tf):
    tf.cumsum([1.0, 2.0], axis=3)


def linspace_of_negative_length(tf):
    tf.linspace(0.0, 1.0, -2)


def eye_of_a_fraction(tf):
    tf.eye(2.5)


def fill_with_a_matrix(tf):
    tf.fill([2, 2], [1.0, 2.0])


def range_with_a_step_of_zero(tf):
    tf.range(0, 5, 0)


def gather_beyond_the_end(tf):
    tf.gather([1, 2, 3], [7])


def gather_of_other_batches(tf):
    tf.gather(tf.ones([2, 3]), tf.zeros([3, 1], tf.int32), batch_dims=1)


def scatter_of_other_updates(tf):
    tf.tensor_scatter_nd_update(tf.zeros([4]), [[0], [1]], [1.0, 2.0, 3.0])


def unstack_of_a_wrong_number(tf):
    tf.unstack(tf.ones([3, 2]), num=4)


def expand_beyond_the_rank(tf):
    tf.expand_dims(tf.ones([2]), 4)


def svd_of_text(tf):
    tf.linalg.svd([["a"]])


def solve_with_other_rows(tf):
    tf.linalg.solve(tf.eye(2), tf.ones([3, 1]))


def determinant_of_a_rectangle(tf):
    tf.linalg.det(tf.ones([2, 3]))


def nan_found_by_a_check(tf):
    tf.debugging.check_numerics(tf.constant([1.0, float("nan")]), "loss")


def assertion_of_shapes(tf):
    tf.debugging.assert_shapes([(tf.ones([2, 3]), ("n", 4))])


def assertion_of_equal_values(tf):
    tf.debugging.assert_equal([1, 2], [1, 3], message="labels differ")


def assertion_of_a_rank(tf):
    tf.debugging.assert_rank(tf.ones([2]), 2)


def shape_asserted_of_another_tensor(tf):
    tf.TensorShape([2]).assert_is_compatible_with([3])


def shape_merged_with_another(tf):
    tf.TensorShape([2, None]).merge_with([3, 4])


def dtype_that_is_unknown(tf):
    tf.zeros([2], "float33")


def dtype_of_a_class(tf):
    tf.cast(1.0, dict)


def nested_structures_of_other_keys(tf):
    tf.nest.map_structure(lambda a, b: a, {"x": 1}, {"y": 2})


def modulo_by_an_integer_zero(tf):
    tf.constant(3) % tf.constant(0)


def shift_of_floats(tf):
    tf.bitwise.left_shift(1.0, 2.0)


def power_of_an_integer_by_a_negative(tf):
    tf.pow(2, -1)


def matmul_of_vectors(tf):
    tf.ones([3]) @ tf.ones([3])


def conv_with_a_filter_of_three_axes(tf):
    tf.nn.conv2d(tf.ones([1, 4, 4, 1]), tf.ones([2, 2, 1]), 1, "SAME")


def softmax_cross_entropy_with_other_shapes(tf):
    tf.nn.softmax_cross_entropy_with_logits(labels=tf.ones([2, 3]), logits=tf.ones([2, 4]))


def moments_over_a_missing_axis(tf):
    tf.nn.moments(tf.ones([2]), [3])
