"""Layers of Keras."""
import numpy as np

from tests.mistakes.made import compiled


def dense_layer_with_another_input_size(tf):
    layer = tf.keras.layers.Dense(2)
    layer(tf.ones([1, 3]))
    layer(tf.ones([1, 4]))


def dense_layer_given_a_vector(tf):
    tf.keras.layers.Dense(2)(tf.ones([3]))


def convolution_given_images_without_channels(tf):
    tf.keras.layers.Conv2D(4, 3)(tf.ones([2, 8, 8]))


def recurrent_layer_given_a_matrix(tf):
    tf.keras.layers.LSTM(4)(tf.ones([2, 8]))


def embedding_of_an_index_out_of_range(tf):
    tf.keras.layers.Embedding(10, 4)(tf.constant([[10]]))


def layer_with_an_unknown_activation(tf):
    tf.keras.layers.Dense(2, activation="rellu")


def weights_of_another_shape(tf):
    layer = tf.keras.layers.Dense(2)
    layer.build((None, 3))
    layer.set_weights([np.ones([4, 2]), np.ones([2])])


def concatenate_layer_with_different_rows(tf):
    tf.keras.layers.Concatenate()([tf.ones([2, 3]), tf.ones([3, 3])])


def add_layer_with_one_input(tf):
    tf.keras.layers.Add()(tf.ones([2, 3]))


def reshape_layer_to_another_size(tf):
    tf.keras.layers.Reshape((5,))(tf.ones([2, 3]))


def negative_units(tf):
    tf.keras.layers.Dense(-1)


def dropout_above_one(tf):
    tf.keras.layers.Dropout(2.0)


def output_of_a_layer_that_was_never_called(tf):
    tf.keras.layers.Dense(3).output  # noqa: B018


def dense_layer_on_a_scalar(tf):
    tf.keras.layers.Dense(2)(tf.constant(1.0))


def embedding_of_an_index_outside(tf):
    tf.keras.layers.Embedding(3, 2)(tf.constant([[5]]))


def feature_that_is_missing(tf):
    tf.keras.layers.DenseFeatures([tf.feature_column.numeric_column("a")])({"b": tf.constant([[1.0]])})


def categorical_column_without_an_embedding(tf):
    column = tf.feature_column.categorical_column_with_identity("a", 3)
    tf.keras.layers.DenseFeatures([column])({"a": tf.constant([[1]])})


def boundaries_out_of_order(tf):
    tf.feature_column.bucketized_column(tf.feature_column.numeric_column("a"), [3, 1])


def weight_with_an_unknown_initializer(tf):
    tf.keras.layers.Dense(3, kernel_initializer="glorot")


def text_given_to_a_dense_layer(tf):
    compiled(tf).predict(np.array([["a", "b", "c"]]), verbose=0)


def bidirectional_around_a_dense_layer(tf):
    tf.keras.layers.Bidirectional(tf.keras.layers.Dense(3))


def recurrent_layer_given_one_state_of_two(tf):
    tf.keras.layers.LSTM(4)(tf.ones([2, 3, 5]), initial_state=[tf.zeros([2, 4])])


def attention_given_no_list(tf):
    tf.keras.layers.Attention()(tf.ones([2, 3, 4]))


def normalization_over_an_axis_that_is_missing(tf):
    tf.keras.layers.BatchNormalization(axis=3)(tf.ones([2, 3]))


def lookup_layer_with_a_repeated_word(tf):
    tf.keras.layers.StringLookup(vocabulary=["a", "a"])


def layer_asked_for_its_weights_before_it_has_some(tf):
    layer = tf.keras.layers.Dense(3)
    layer.kernel  # noqa: B018


def weights_set_before_the_layer_is_built(tf):
    tf.keras.layers.Dense(3).set_weights([np.ones((2, 3)), np.ones(3)])


def unknown_argument_of_a_layer(tf):
    tf.keras.layers.Dense(3, activations="relu")


def convolution_without_a_kernel_size(tf):
    tf.keras.layers.Conv2D(3)


def categories_beyond_their_number(tf):
    tf.keras.utils.to_categorical([0, 5], 3)


def pooling_of_a_matrix(tf):
    tf.keras.layers.GlobalAveragePooling2D()(tf.ones([2, 3]))


def strides_beside_dilation(tf):
    tf.keras.layers.Conv2D(3, 3, strides=2, dilation_rate=2)(tf.ones([1, 9, 9, 1]))


def data_format_of_the_low_level_api(tf):
    tf.keras.layers.Conv2D(3, 3, data_format="NHWC")


def groups_that_do_not_divide_the_filters(tf):
    tf.keras.layers.Conv2D(4, 3, groups=3)(tf.ones([1, 9, 9, 4]))


def attention_without_a_key_size(tf):
    tf.keras.layers.MultiHeadAttention(2)


def dot_layer_of_other_sizes(tf):
    tf.keras.layers.Dot(1)([tf.ones([2, 3]), tf.ones([2, 4])])


def constraint_with_an_unknown_name(tf):
    tf.keras.layers.Dense(1, kernel_constraint="positive")


def normalization_layer_not_adapted_to_text(tf):
    tf.keras.layers.Normalization().adapt(["a", "b"])


def string_lookup_that_was_not_adapted(tf):
    tf.keras.layers.StringLookup()(tf.constant(["a"]))


def text_vectorization_of_a_matrix(tf):
    layer = tf.keras.layers.TextVectorization(vocabulary=["a", "b"])
    layer(tf.constant([["a", "b"], ["b", "a"]]))


def category_encoding_without_tokens(tf):
    tf.keras.layers.CategoryEncoding(output_mode="one_hot")


def hashing_without_bins(tf):
    tf.keras.layers.Hashing(num_bins=0)


def random_rotation_of_text(tf):
    tf.keras.layers.RandomRotation("a lot")


def resizing_to_nothing(tf):
    tf.keras.layers.Resizing(0, 10)(tf.ones([1, 4, 4, 3]))


def center_crop_larger_than_the_image_of_rank_two(tf):
    tf.keras.layers.CenterCrop(8, 8)(tf.ones([4, 4]))


def time_distributed_over_a_matrix(tf):
    tf.keras.layers.TimeDistributed(tf.keras.layers.Dense(2))(tf.ones([3, 4]))


def rnn_around_a_layer(tf):
    tf.keras.layers.RNN(tf.keras.layers.Dense(3))(tf.ones([2, 3, 4]))


def conv_transpose_with_output_padding_too_large(tf):
    tf.keras.layers.Conv2DTranspose(3, 3, strides=2, output_padding=2)(tf.ones([1, 4, 4, 2]))


def cropping_everything(tf):
    tf.keras.layers.Cropping2D(3)(tf.ones([1, 4, 4, 1]))


def upsampling_of_a_matrix(tf):
    tf.keras.layers.UpSampling2D()(tf.ones([4, 4]))


def permute_of_wrong_dims(tf):
    tf.keras.layers.Permute((0, 1))(tf.ones([2, 3, 4]))


def repeat_vector_of_an_image(tf):
    tf.keras.layers.RepeatVector(3)(tf.ones([2, 3, 4]))


def softmax_layer_over_a_missing_axis(tf):
    tf.keras.layers.Softmax(axis=3)(tf.ones([2, 3]))


def layer_normalization_of_a_scalar(tf):
    tf.keras.layers.LayerNormalization()(tf.constant(1.0))


def group_normalization_that_does_not_divide(tf):
    tf.keras.layers.GroupNormalization(groups=3)(tf.ones([1, 4, 4, 8]))


def categorical_with_strings(tf):
    tf.keras.utils.to_categorical(["a", "b"])


def pad_sequences_of_numbers(tf):
    tf.keras.utils.pad_sequences([1, 2, 3])


def initializer_with_wrong_shape(tf):
    tf.keras.initializers.Identity()(shape=(2, 3, 4))


def orthogonal_of_a_vector(tf):
    tf.keras.initializers.Orthogonal()((3,))


def variance_scaling_with_an_unknown_mode(tf):
    tf.keras.initializers.VarianceScaling(mode="fan_both")


def mixed_precision_of_an_unknown_policy(tf):
    tf.keras.mixed_precision.Policy("mixed_half")


def loss_scale_optimizer_around_text(tf):
    tf.keras.mixed_precision.LossScaleOptimizer("adam")


def concatenate_over_a_missing_axis(tf):
    tf.keras.layers.Concatenate(axis=4)([tf.ones([2, 3]), tf.ones([2, 3])])


def one_weight_given_to_a_layer_of_two(tf):
    layer = tf.keras.layers.Dense(2)
    layer.build([None, 3])
    layer.set_weights([np.ones([3, 2])])


def function_wrapped_as_a_layer(tf):
    tf.keras.layers.TimeDistributed(lambda x: x)


def initial_state_of_the_wrong_number(tf):
    tf.keras.layers.LSTM(3)(tf.ones([2, 4, 5]), initial_state=[tf.ones([2, 3])])


def embedding_with_negative_size(tf):
    tf.keras.layers.Embedding(-3, 2)


def conv_with_a_filter_count_of_zero(tf):
    tf.keras.layers.Conv2D(0, 3)


def conv_with_three_kernel_sizes(tf):
    tf.keras.layers.Conv2D(4, (3, 3, 3))


def conv_with_unknown_padding(tf):
    tf.keras.layers.Conv2D(4, 3, padding="full")


def causal_padding_of_an_image(tf):
    tf.keras.layers.Conv2D(4, 3, padding="causal")


def bidirectional_with_an_unknown_merge(tf):
    tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(2), merge_mode="product")


def multi_head_attention_of_matrices(tf):
    tf.keras.layers.MultiHeadAttention(2, 4)(tf.ones([2, 3]), tf.ones([2, 3]))


def tokenizer_matrix_without_words(tf):
    tf.keras.preprocessing.text.Tokenizer().texts_to_matrix(["a b"])


def categorical_beyond_its_classes(tf):
    tf.keras.utils.to_categorical([0, 5], num_classes=3)


def hashed_crossing_of_one_feature(tf):
    tf.keras.layers.HashedCrossing(num_bins=5)([tf.constant(["a"])])


def gru_with_an_unknown_activation_of_its_gates(tf):
    tf.keras.layers.GRU(3, recurrent_activation="hard")(tf.ones([1, 2, 3]))


def masking_of_a_vector_of_text(tf):
    tf.keras.layers.Masking()(tf.constant([["a", "b"]]))


def zero_padding_with_three_pairs(tf):
    tf.keras.layers.ZeroPadding2D(((1, 1), (1, 1), (1, 1)))


def einsum_dense_without_an_output_shape(tf):
    tf.keras.layers.EinsumDense("ab,bc->ac")


def einsum_dense_of_an_equation_without_weights(tf):
    tf.keras.layers.EinsumDense("ab->ab", output_shape=3)(tf.ones([2, 3]))


def unit_normalization_over_text(tf):
    tf.keras.layers.UnitNormalization(axis="last")(tf.ones([2, 3]))


def relu_with_a_negative_maximum(tf):
    tf.keras.layers.ReLU(max_value=-1.0)


def leaky_relu_without_a_slope(tf):
    tf.keras.layers.LeakyReLU(alpha=None)


def random_zoom_below_minus_one(tf):
    tf.keras.layers.RandomZoom(height_factor=(-2.0, 0.5))(tf.ones([1, 8, 8, 3]))


def string_lookup_inverted_without_words(tf):
    tf.keras.layers.StringLookup(invert=True)(tf.constant([1]))


def category_beyond_the_tokens(tf):
    tf.keras.layers.CategoryEncoding(num_tokens=3)(tf.constant([[1, 7]]))


def conv_lstm_given_four_axes(tf):
    tf.keras.layers.ConvLSTM2D(4, 3)(tf.ones([2, 8, 8, 3]))


def separable_convolution_with_a_multiplier_of_zero(tf):
    tf.keras.layers.SeparableConv2D(4, 3, depth_multiplier=0)(tf.ones([1, 8, 8, 3]))


def average_pooling_with_negative_strides(tf):
    tf.keras.layers.AveragePooling2D(2, strides=-1)(tf.ones([1, 4, 4, 1]))


def spectral_normalization_of_a_layer_without_a_kernel(tf):
    tf.keras.layers.SpectralNormalization(tf.keras.layers.ReLU())(tf.ones([2, 3]))
