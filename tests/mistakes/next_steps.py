"""Mistakes of the steps after the first ones: arguments in another order, forgotten or swapped, and what functions return."""
import numpy as np


def compiled(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


# -- tensors ---------------------------------------------------------------------------------------------------------------
def one_hot_without_its_depth(tf):
    tf.one_hot([1, 2])


def random_integers_without_a_limit(tf):
    tf.random.uniform([2], dtype=tf.int32)


def random_shape_with_a_fraction(tf):
    tf.random.normal([3.5])


def image_resized_to_one_number(tf):
    tf.image.resize(tf.ones([4, 4, 3]), 8)


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


# -- datasets --------------------------------------------------------------------------------------------------------------
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


# -- functions -------------------------------------------------------------------------------------------------------------
def function_made_of_a_number(tf):
    tf.function(3)


def signature_that_is_not_a_list(tf):
    tf.function(lambda x: x, input_signature=tf.TensorSpec([]))


def branches_that_are_values(tf):
    tf.cond(tf.constant(True), 1, 2)


def loop_condition_that_is_a_value(tf):
    tf.while_loop(True, lambda i: i + 1, [0])


def map_fn_that_returns_a_pair(tf):
    tf.map_fn(lambda x: (x, x), tf.range(3))


def gradients_asked_in_eager_execution(tf):
    tf.gradients(tf.constant(1.0), tf.constant(1.0))


def unknown_keyword_of_a_function(tf):
    tf.function(lambda x: x)(y=1)


def assertion_that_fails_in_a_function(tf):
    @tf.function
    def f(x):
        tf.debugging.assert_positive(x, message="prices")
        return x
    f(tf.constant([-1.0]))


def list_indexed_by_a_symbolic_tensor(tf):
    @tf.function
    def f(i):
        return [1, 2, 3][i]
    f(tf.constant(1))


# -- sessions --------------------------------------------------------------------------------------------------------------
def run_without_fetches(v1):
    with v1.Session() as session:
        session.run()


def feeds_given_as_a_list(v1):
    x = v1.placeholder(v1.float32)
    with v1.Session() as session:
        session.run(x, [1.0])


def variable_without_a_shape(v1):
    v1.get_variable("w")


def variable_with_a_value_and_a_shape(v1):
    v1.get_variable("w", [2], initializer=v1.zeros([2]))


def placeholder_with_its_arguments_swapped(v1):
    v1.placeholder([None, 2], v1.float32)


def constant_assigned(v1):
    v1.assign(v1.constant(1.0), 2.0)


def recurrent_network_without_a_type(v1):
    v1.nn.dynamic_rnn(v1.nn.rnn_cell.GRUCell(4), v1.placeholder(v1.float32, [2, 5, 3]))


def lookup_of_float_indices(v1):
    v1.nn.embedding_lookup(v1.ones([4, 2]), v1.constant([1.0]))


def loss_of_other_lengths(v1):
    v1.losses.mean_squared_error(v1.ones([2]), v1.ones([3]))


def decay_without_a_step(v1):
    v1.train.exponential_decay(0.1, None, 100, 0.9)


def dependency_that_is_a_number(v1):
    with v1.control_dependencies([3.5]):
        v1.constant(1)


def operation_run_without_a_session(v1):
    v1.global_variables_initializer().run()


def restore_of_nothing(v1):
    v1.get_variable("w", [2])
    with v1.Session() as session:
        v1.train.Saver().restore(session, None)


def unknown_option_of_a_session(v1):
    v1.ConfigProto(gpu=1)


def session_given_its_options_first(v1):
    v1.Session(v1.ConfigProto())


def old_order_of_concat(v1):
    v1.concat(1, [v1.ones([2, 2]), v1.ones([2, 2])])


# -- Keras -----------------------------------------------------------------------------------------------------------------
def convolution_without_a_kernel_size(tf):
    tf.keras.layers.Conv2D(3)


def model_given_a_name_as_a_layer(tf):
    tf.keras.Sequential().add("dense")


def layer_asked_without_a_name(tf):
    tf.keras.Sequential([tf.keras.layers.Dense(1)]).get_layer()


def categories_beyond_their_number(tf):
    tf.keras.utils.to_categorical([0, 5], 3)


def layer_with_several_outputs_in_a_sequential(tf):
    model = tf.keras.Sequential([tf.keras.layers.LSTM(4, return_state=True), tf.keras.layers.Dense(1)])
    model(tf.ones([2, 3, 4]))


def pooling_of_a_matrix(tf):
    tf.keras.layers.GlobalAveragePooling2D()(tf.ones([2, 3]))


def batch_size_with_a_fraction(tf):
    compiled(tf).fit(np.ones([4, 2]), np.ones([4, 1]), batch_size=2.5, verbose=0)


def folder_of_texts_that_is_missing(tf):
    tf.keras.utils.text_dataset_from_directory("/no/such/folder")


def metric_given_text(tf):
    tf.keras.metrics.Mean().update_state("a")


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


def train_step_that_returns_nothing(tf):
    class Model(tf.keras.Model):
        def call(self, x):
            return x

        def train_step(self, data):
            return None
    model = Model()
    model.compile("sgd", "mse")
    model.fit(np.ones([4, 2]), np.ones([4, 2]), verbose=0)


def layer_that_makes_a_variable_in_its_call(tf):
    class Layer(tf.keras.layers.Layer):
        def call(self, x):
            return x * tf.Variable(1.0)
    model = tf.keras.Sequential([Layer()])
    model.compile("sgd", "mse")
    model.fit(np.ones([4, 2]), np.ones([4, 2]), verbose=0)


def constraint_with_an_unknown_name(tf):
    tf.keras.layers.Dense(1, kernel_constraint="positive")


NEXT_STEPS = [value for name, value in list(globals().items())
              if getattr(value, "__module__", "") == __name__ and name != "compiled"]
