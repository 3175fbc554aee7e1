"""Mistakes that users of TensorFlow make, as functions of `tf`: each must raise.

The same functions run on penstock and on TensorFlow (`scripts/make_mistakes_page.py`). A function that takes `v1` uses the 1.x
API and runs in a graph of its own.
"""
import numpy as np


# -- shapes and types -----------------------------------------------------------------------------------------------------
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


def decode_of_a_file_that_is_not_an_image(tf):
    tf.io.decode_png("not an image")


# -- functions and eager execution ------------------------------------------------------------------------------------------
def tensor_that_leaves_a_function(tf):
    kept = []

    @tf.function
    def f(x):
        kept.append(x + 1)
        return x
    f(tf.constant(1.0))
    kept[0] + 1


def variable_made_in_every_call(tf):
    @tf.function
    def f(x):
        return tf.Variable(1.0) + x
    f(1.0)
    f(2.0)


def numpy_inside_a_function(tf):
    @tf.function
    def f(x):
        return x.numpy()
    f(tf.constant(1.0))


def condition_on_a_tensor_without_autograph(tf):
    @tf.function(autograph=False)
    def f(x):
        return 1 if x > 0 else 2
    f(tf.constant(1.0))


def branches_of_different_types(tf):
    @tf.function
    def f(x):
        return tf.cond(x > 0, lambda: 1, lambda: 2.0)
    f(tf.constant(1.0))


def loop_that_changes_a_shape(tf):
    @tf.function
    def f(x):
        return tf.while_loop(lambda i: tf.size(i) < 9, lambda i: [tf.concat([i, i], 0)], [x])
    f(tf.constant([1]))


def argument_that_does_not_fit_the_signature(tf):
    f = tf.function(lambda x: x, input_signature=[tf.TensorSpec([2], tf.float32)])
    f(tf.ones([3]))


def undefined_value_after_a_branch(tf):
    @tf.function
    def f(x):
        if x > 0:
            y = 1.0
        return y
    f(tf.constant(1.0))


def gradient_after_the_tape_was_used(tf):
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x * x
    tape.gradient(y, x)
    tape.gradient(y, x)


def placeholder_in_eager_execution(tf):
    tf.compat.v1.placeholder(tf.float32)


def contrib_in_the_2_x_api(tf):
    tf.contrib.layers.fully_connected(tf.ones([1, 2]), 3)


def session_of_the_2_x_api(tf):
    tf.Session()


# -- graphs and sessions --------------------------------------------------------------------------------------------------
def placeholder_without_a_feed(v1):
    x = v1.placeholder(v1.float32, [2], name="x")
    v1.Session().run(x * 2)


def feed_of_a_wrong_shape(v1):
    x = v1.placeholder(v1.float32, [None, 3])
    v1.Session().run(x, {x: [1.0, 2.0]})


def feed_of_a_tensor(v1):
    x = v1.placeholder(v1.float32)
    v1.Session().run(x, {x: v1.constant(1.0)})


def fetch_of_a_name_without_a_number(v1):
    v1.constant(1, name="a")
    v1.Session().run("b:0")


def fetch_of_a_number(v1):
    v1.Session().run(3)


def variable_without_initialization(v1):
    v = v1.get_variable("v", [2])
    v1.Session().run(v)


def variable_that_exists(v1):
    v1.get_variable("v", [2])
    v1.get_variable("v", [2])


def tensor_of_another_graph(v1):
    with v1.Graph().as_default():
        a = v1.constant(1)
    v1.Session().run(v1.constant(2) + a)


def session_that_is_closed(v1):
    session = v1.Session()
    session.close()
    session.run(v1.constant(1))


def tensor_as_a_condition(v1):
    if v1.placeholder(v1.float32) > 0:
        pass


def iteration_over_a_tensor(v1):
    for _ in v1.placeholder(v1.float32, [None]):
        pass


def checkpoint_without_a_variable(v1):
    import tempfile
    prefix = tempfile.mkdtemp() + "/model"
    v = v1.get_variable("v", initializer=1.0)
    with v1.Session() as session:
        session.run(v.initializer)
        v1.train.Saver().save(session, prefix)
        w = v1.get_variable("w", initializer=1.0)
        v1.train.Saver([w]).restore(session, prefix)


def device_that_does_not_exist(v1):
    with v1.device("/GPU:7"):
        x = v1.constant(1) + 1
    v1.Session().run(x)


# -- Keras and data ---------------------------------------------------------------------------------------------------------
def dense_layer_with_another_input_size(tf):
    layer = tf.keras.layers.Dense(2)
    layer(tf.ones([1, 3]))
    layer(tf.ones([1, 4]))


def fit_before_compile(tf):
    tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)]).fit(np.ones([4, 1]), np.ones([4, 1]), verbose=0)


def fit_with_different_numbers_of_rows(tf):
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones([4, 1]), np.ones([3, 1]), verbose=0)


def summary_of_an_unbuilt_model(tf):
    tf.keras.Sequential([tf.keras.layers.Dense(1)]).weights[0]


def error_in_a_map_of_a_dataset(tf):
    list(tf.data.Dataset.range(3).map(lambda x: tf.gather([1, 2], x)))


def batch_of_different_shapes(tf):
    data = tf.data.Dataset.from_generator(lambda: iter([[1], [1, 2]]), tf.int32, tf.TensorShape([None]))
    list(data.batch(2))


def record_file_that_does_not_exist(tf):
    list(tf.data.TFRecordDataset("/no/such/file"))


def saved_model_that_does_not_exist(tf):
    tf.saved_model.load("/no/such/folder")


# -- more of them -----------------------------------------------------------------------------------------------------------
def stack_of_different_shapes(tf):
    tf.stack([tf.ones([2]), tf.ones([3])])


def split_into_unequal_parts(tf):
    tf.split(tf.ones([7, 2]), 3)


def transpose_with_too_few_axes(tf):
    tf.transpose(tf.ones([2, 3, 4]), [1, 0])


def squeeze_of_an_axis_that_is_not_one(tf):
    tf.squeeze(tf.ones([2, 3]), axis=0)


def variable_assigned_another_shape(tf):
    tf.Variable([1.0, 2.0]).assign([1.0, 2.0, 3.0])


def variable_assigned_another_type(tf):
    tf.Variable([1.0, 2.0]).assign(tf.constant([1, 2]))


def element_of_a_variable_assigned(tf):
    tf.Variable([1.0, 2.0])[0] = 3.0


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


def parse_of_a_word_as_a_number(tf):
    tf.strings.to_number("twelve")


def inverse_of_a_matrix_that_is_not_square(tf):
    tf.linalg.inv(tf.ones([2, 3]))


def solve_of_a_singular_system(tf):
    tf.linalg.solve(tf.zeros([2, 2]), tf.ones([2, 1]))


def pooling_window_larger_than_the_image(tf):
    tf.nn.max_pool2d(tf.ones([1, 2, 2, 1]), 5, 1, "VALID")


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


def model_compiled_with_an_unknown_loss(tf):
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mean_square")
    model.fit(np.ones([4, 1]), np.ones([4, 1]), verbose=0)


def model_compiled_with_an_unknown_optimizer(tf):
    tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)]).compile("adamm", "mse")


def functional_model_over_two_graphs_of_layers(tf):
    tf.keras.Model(tf.keras.Input((2,)), tf.keras.layers.Dense(1)(tf.keras.Input((2,))))


def weights_of_another_shape(tf):
    layer = tf.keras.layers.Dense(2)
    layer.build((None, 3))
    layer.set_weights([np.ones([4, 2]), np.ones([2])])


def call_without_its_argument(tf):
    class Model(tf.keras.Model):
        def call(self, x, y):
            return x + y
    Model()(tf.ones([1]))


def model_file_that_does_not_exist(tf):
    tf.keras.models.load_model("/no/such/model.keras")


def zip_of_a_list(tf):
    tf.data.Dataset.zip(([1, 2], [3, 4]))


def tensors_of_different_lengths_as_slices(tf):
    tf.data.Dataset.from_tensor_slices((np.ones(3), np.ones(4)))


def generator_without_its_types(tf):
    tf.data.Dataset.from_generator(lambda: iter([1, 2]))


def batch_of_zero(tf):
    list(tf.data.Dataset.range(3).batch(0))


def parse_of_a_missing_feature(tf):
    tf.io.parse_single_example(tf.train.Example().SerializeToString(), {"x": tf.io.FixedLenFeature([], tf.float32)})


def function_called_with_too_many_arguments(tf):
    tf.function(lambda x: x)(1, 2)


def gradient_of_a_function_without_one(tf):
    @tf.custom_gradient
    def f(x):
        return x * 2
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = f(x)
    tape.gradient(y, x)


def optimizer_given_no_gradients(tf):
    w = tf.Variable(1.0)
    tf.keras.optimizers.SGD(0.1).apply_gradients([(None, w)])


def table_looked_up_with_another_type(tf):
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), -1)
    table.lookup(tf.constant([1, 2]))


def checkpoint_that_does_not_exist(tf):
    tf.train.Checkpoint(w=tf.Variable(1.0)).restore("/no/such/checkpoint")


def name_that_is_not_in_the_graph(v1):
    v1.get_default_graph().get_tensor_by_name("missing:0")


def variable_reused_that_does_not_exist(v1):
    with v1.variable_scope("s", reuse=True):
        v1.get_variable("w", [2])


def variable_reused_with_another_shape(v1):
    v1.get_variable("w", [2])
    with v1.variable_scope("", reuse=True):
        v1.get_variable("w", [3])


def optimizer_without_variables(v1):
    v1.train.GradientDescentOptimizer(0.1).minimize(v1.constant(1.0))


def graph_changed_after_it_was_finalized(v1):
    v1.get_default_graph().finalize()
    v1.constant(1)


def queue_that_is_closed(v1):
    queue = v1.FIFOQueue(2, v1.int32)
    with v1.Session() as sess:
        sess.run(queue.close())
        sess.run(queue.dequeue())


def end_of_a_dataset(v1):
    item = v1.data.make_one_shot_iterator(v1.data.Dataset.range(1)).get_next()
    with v1.Session() as sess:
        sess.run(item)
        sess.run(item)


MISTAKES = [value for value in list(globals().values()) if getattr(value, "__module__", "") == __name__]
