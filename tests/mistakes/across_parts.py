"""Mistakes where two parts of the library meet, in the form of `mistakes.py`: layers and losses, functions and variables,
checkpoints and objects, graphs and sessions and strategies."""
import tempfile

import numpy as np


def compiled(tf, **arguments):
    """A small model that is ready to be trained."""
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
    model.compile("sgd", arguments.pop("loss", "mse"), **arguments)
    return model


# -- custom layers, losses and metrics --------------------------------------------------------------------------------------
def layer_that_multiplies_by_weights_of_another_shape(tf):
    class Projection(tf.keras.layers.Layer):
        def build(self, shape):
            self.w = self.add_weight("w", (7, 2))

        def call(self, x):
            return tf.matmul(x, self.w)

    Projection()(tf.ones([4, 3]))


def layer_called_before_its_constructor(tf):
    class Headless(tf.keras.layers.Layer):
        def __init__(self):
            self.units = 3

        def call(self, x):
            return x

    Headless()(tf.ones([2, 3]))


def weight_with_an_unknown_initializer(tf):
    tf.keras.layers.Dense(3, kernel_initializer="glorot")


def loss_function_with_one_argument(tf):
    compiled(tf, loss=lambda y: y).fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)


def loss_with_other_last_axes(tf):
    compiled(tf, loss="categorical_crossentropy").fit(np.ones((4, 3)), np.ones((4, 5)), verbose=0)


def losses_for_other_outputs(tf):
    inputs = tf.keras.Input((3,))
    model = tf.keras.Model(inputs, [tf.keras.layers.Dense(1, name="a")(inputs), tf.keras.layers.Dense(1, name="b")(inputs)])
    model.compile("sgd", {"a": "mse", "c": "mse"})
    model.fit(np.ones((4, 3)), [np.ones((4, 1)), np.ones((4, 1))], verbose=0)


def class_weights_that_lack_a_class(tf):
    model = compiled(tf, loss="sparse_categorical_crossentropy")
    model.fit(np.ones((4, 3)), np.array([0, 1, 1, 0]), class_weight={0: 1.0, 2: 1.0}, verbose=0)


def callback_that_is_a_function(tf):
    compiled(tf).fit(np.ones((4, 3)), np.ones((4, 2)), callbacks=[lambda epoch: None], verbose=0)


def learning_rate_schedule_that_returns_text(tf):
    model = compiled(tf)
    callback = tf.keras.callbacks.LearningRateScheduler(lambda epoch: "fast")
    model.fit(np.ones((4, 3)), np.ones((4, 2)), callbacks=[callback], verbose=0)


def text_given_to_a_dense_layer(tf):
    compiled(tf).predict(np.array([["a", "b", "c"]]), verbose=0)


def objects_given_to_fit(tf):
    compiled(tf).fit(np.array([[1], [2, 3]], dtype=object), np.ones((2, 2)), verbose=0)


def bidirectional_around_a_dense_layer(tf):
    tf.keras.layers.Bidirectional(tf.keras.layers.Dense(3))


def recurrent_layer_given_one_state_of_two(tf):
    tf.keras.layers.LSTM(4)(tf.ones([2, 3, 5]), initial_state=[tf.zeros([2, 4])])


def stateful_layer_without_a_batch_size(tf):
    tf.keras.Sequential([tf.keras.layers.LSTM(4, stateful=True, input_shape=(3, 5))])


def attention_given_no_list(tf):
    tf.keras.layers.Attention()(tf.ones([2, 3, 4]))


def normalization_over_an_axis_that_is_missing(tf):
    tf.keras.layers.BatchNormalization(axis=3)(tf.ones([2, 3]))


def lookup_layer_with_a_repeated_word(tf):
    tf.keras.layers.StringLookup(vocabulary=["a", "a"])


# -- functions, tapes and gradients -----------------------------------------------------------------------------------------
def signature_given_another_type(tf):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def f(x):
        return x

    f(tf.constant([1, 2], tf.int64))


def signature_with_fewer_specs_than_parameters(tf):
    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def f(x, y):
        return x + y

    f(tf.constant(1.0), tf.constant(2.0))


def signature_that_is_a_type(tf):
    @tf.function(input_signature=[tf.float32])
    def f(x):
        return x

    f(tf.constant(1.0))


def concrete_function_given_another_type(tf):
    f = tf.function(lambda x: x * 2).get_concrete_function(tf.TensorSpec([3], tf.float32))
    f(tf.ones([3], tf.int32))


def tensor_kept_in_a_list(tf):
    kept = []

    @tf.function
    def f(x):
        kept.append(x + 1.0)
        return x

    f(tf.constant(1.0))
    kept[0] + 1.0


def list_changed_in_a_loop(tf):
    @tf.function
    def f(n):
        parts = []
        for i in tf.range(n):
            parts.append(i)
        return parts[0]

    f(tf.constant(3)).numpy()


def gradient_that_is_none(tf):
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.constant(x.numpy()) * 3.0
    tape.gradient(y, x) * 2.0


def batch_jacobian_of_other_batches(tf):
    x = tf.ones([2, 3])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.ones([4, 3]) * tf.reduce_sum(x)
    tape.batch_jacobian(y, x)


def custom_gradient_with_too_few_gradients(tf):
    @tf.custom_gradient
    def f(x, y):
        return x * y, lambda dz: dz

    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        z = f(x, x)
    tape.gradient(z, x)


def optimizer_given_gradients_of_another_shape(tf):
    v = tf.Variable([1.0, 2.0])
    tf.keras.optimizers.SGD(0.1).apply_gradients([(tf.ones([3]), v)])


def minimize_of_a_tensor(tf):
    v = tf.Variable(1.0)
    tf.keras.optimizers.SGD(0.1).minimize(v * 2.0, [v])


# -- structures of datasets -------------------------------------------------------------------------------------------------
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


def iterator_of_another_structure(v1):
    data = v1.data.Dataset.range(3)
    iterator = v1.data.Iterator.from_structure(v1.float32, [])
    iterator.make_initializer(data)


# -- checkpoints, saved models and devices ----------------------------------------------------------------------------------
def checkpoint_asserted_without_an_object(tf):
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).save(tempfile.mkdtemp() + "/c")
    tf.train.Checkpoint(v=tf.Variable(1.0), w=tf.Variable(2.0)).restore(path).assert_existing_objects_matched()


def checkpoint_of_another_type(tf):
    path = tf.train.Checkpoint(v=tf.Variable([1.0])).write(tempfile.mkdtemp() + "/c")
    tf.train.Checkpoint(v=tf.Variable([1])).read(path)


def checkpoint_manager_without_a_limit(tf):
    tf.train.CheckpointManager(tf.train.Checkpoint(v=tf.Variable(1.0)), tempfile.mkdtemp(), max_to_keep=0)


def checkpoint_variable_that_is_missing(tf):
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).write(tempfile.mkdtemp() + "/c")
    tf.train.load_variable(path, "v")


def saved_model_of_a_number(tf):
    tf.saved_model.save(3.0, tempfile.mkdtemp())


def saved_function_called_with_another_shape(tf):
    module = tf.Module()
    module.f = tf.function(lambda x: x, input_signature=[tf.TensorSpec([2], tf.float32)])
    folder = tempfile.mkdtemp()
    tf.saved_model.save(module, folder)
    tf.saved_model.load(folder).f(tf.ones([3]))


def device_with_a_wrong_name(tf):
    with tf.device("/gpu:first"):
        tf.constant(1.0) + 1.0


def device_that_is_not_text(tf):
    with tf.device(0):
        tf.constant(1.0)


def threads_set_too_late(tf):
    tf.constant(1.0) + 1.0
    tf.config.threading.set_inter_op_parallelism_threads(3)


# -- strategies -------------------------------------------------------------------------------------------------------------
def strategy_given_a_device_without_a_task(tf):
    tf.distribute.MirroredStrategy(["/job:worker/replica:0"])


# -- ragged, sparse and text ------------------------------------------------------------------------------------------------
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


# -- values that no tensor can hold -----------------------------------------------------------------------------------------
def tensor_of_an_object(tf):
    tf.constant(object())


def tensor_of_a_dictionary(tf):
    tf.convert_to_tensor({"a": 1.0})


def tensor_of_a_set_in_a_list(tf):
    tf.reduce_sum([{1, 2}])


def tensor_plus_a_function(tf):
    tf.ones([2]) + (lambda: 1.0)


def dataset_given_as_a_tensor(tf):
    tf.reduce_sum(tf.data.Dataset.range(3))


def variable_of_an_object(tf):
    tf.Variable(object())


def cast_of_text(tf):
    tf.cast("1.5", tf.float32)


def object_in_a_graph(v1):
    v1.constant(object())


# -- graphs and sessions ----------------------------------------------------------------------------------------------------
def fetch_of_nothing(v1):
    with v1.Session() as session:
        session.run(None)


def feed_of_two_keys_and_one_value(v1):
    x = v1.placeholder(v1.float32, [])
    with v1.Session() as session:
        session.run(x * 2.0, {(1, 2): 3.0})


def feed_of_text_for_a_number(v1):
    x = v1.placeholder(v1.float32, [])
    with v1.Session() as session:
        session.run(x * 2.0, {x: "one"})


def session_given_a_tensor_of_another_graph(v1):
    with v1.Graph().as_default():
        other = v1.constant(1.0)
    v1.constant(2.0)
    with v1.Session() as session:
        session.run(other)


def while_loop_with_another_shape(v1):
    v1.while_loop(lambda x: v1.reduce_sum(x) < 10.0, lambda x: [v1.concat([x, x], 0)], [v1.ones([2])])


def import_of_a_graph_with_an_unknown_op(v1):
    definition = v1.GraphDef()
    definition.node.add(name="a", op="NoSuchOp")
    v1.import_graph_def(definition)


def summary_of_a_matrix_as_a_scalar(v1):
    summary = v1.summary.scalar("loss", v1.ones([2, 2]))
    with v1.Session() as session:
        session.run(summary)


def partial_run_without_setup(v1):
    with v1.Session() as session:
        session.partial_run("handle", v1.constant(1.0))


ACROSS_PARTS = [value for name, value in list(globals().items())
                if getattr(value, "__module__", "") == __name__ and name != "compiled"]
