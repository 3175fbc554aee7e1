"""Mistakes of the first weeks with the library, in the form of `mistakes.py`: what tutorials are changed into.

Several of them pass through a mechanism of their own: Keras's functional API, sequences of data, summaries, signatures,
strategies.
"""
import os
import tempfile

import numpy as np


def compiled(tf, **arguments):
    """A small model that is ready to be trained."""
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
    model.compile("sgd", arguments.pop("loss", "mse"), **arguments)
    return model


# -- layers and models -----------------------------------------------------------------------------------------------------
def flatten_left_out_before_a_dense_layer(tf):
    model = tf.keras.Sequential([tf.keras.layers.Conv2D(4, 3, input_shape=(8, 8, 1)), tf.keras.layers.Dense(10)])
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(np.ones((4, 8, 8, 1)), np.ones((4,)), verbose=0)


def image_given_with_channels_first(tf):
    model = tf.keras.Sequential([tf.keras.layers.Conv2D(4, 3, input_shape=(32, 32, 3))])
    model.predict(np.ones((2, 3, 32, 32), "float32"), verbose=0)


def kernel_larger_than_the_image(tf):
    tf.keras.Sequential([tf.keras.layers.Conv2D(4, 9, input_shape=(8, 8, 1))])


def layers_that_shrink_the_image_to_nothing(tf):
    model = tf.keras.Sequential([tf.keras.Input((8, 8, 1))])
    for _ in range(4):
        model.add(tf.keras.layers.MaxPooling2D())


def one_layer_given_instead_of_a_list_of_inputs(tf):
    tf.keras.layers.Concatenate()(tf.keras.Input((3,)))


def model_given_a_layer_as_its_output(tf):
    inputs = tf.keras.Input((3,))
    tf.keras.Model(inputs, tf.keras.layers.Dense(1))


def model_given_numbers_as_its_input(tf):
    tf.keras.Model(np.ones((4, 3)), tf.keras.layers.Dense(1)(np.ones((4, 3), "float32")))


def two_layers_of_one_name(tf):
    tf.keras.Sequential([tf.keras.layers.Dense(2, name="a"), tf.keras.layers.Dense(2, name="a")])


def layer_asked_for_its_weights_before_it_has_some(tf):
    layer = tf.keras.layers.Dense(3)
    layer.kernel  # noqa: B018


def model_asked_for_its_input_before_it_has_one(tf):
    tf.keras.Sequential([tf.keras.layers.Dense(3)]).input  # noqa: B018


def weights_set_before_the_layer_is_built(tf):
    tf.keras.layers.Dense(3).set_weights([np.ones((2, 3)), np.ones(3)])


def unknown_argument_of_a_layer(tf):
    tf.keras.layers.Dense(3, activations="relu")


def return_sequences_left_out_between_two_lstms(tf):
    tf.keras.Sequential([tf.keras.layers.LSTM(4, input_shape=(5, 3)), tf.keras.layers.LSTM(4)])


def subclass_without_a_call(tf):
    class Empty(tf.keras.Model):
        pass

    Empty()(tf.ones([2, 2]))


def subclass_called_with_text(tf):
    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(2)

        def call(self, x):
            return self.dense(x)

    Net()(np.array(["one", "two"]))


def layer_that_raises_in_its_call(tf):
    class Faulty(tf.keras.layers.Layer):
        def call(self, x):
            return x + undefined_bias  # noqa: F821

    tf.keras.Sequential([tf.keras.Input((3,)), Faulty()])


def layer_that_uses_a_tensor_as_a_boolean(tf):
    class Choosing(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__(dynamic=False)

        def call(self, x):
            return [x, -x][tf.reduce_sum(x) > 0]

    tf.keras.Sequential([tf.keras.Input((3,)), Choosing()])


def numpy_applied_to_a_symbolic_tensor(tf):
    np.log(tf.keras.Input((3,)))


def function_of_the_api_on_a_symbolic_tensor_as_a_number(tf):
    float(tf.reduce_sum(tf.keras.Input((3,))))


# -- compile and fit -------------------------------------------------------------------------------------------------------


def model_compiled_without_a_loss(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
    model.compile("sgd")
    model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)


def evaluate_before_compile(tf):
    tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))]).evaluate(np.ones((4, 3)), np.ones((4, 2)))


def labels_as_text(tf):
    model = compiled(tf, loss="sparse_categorical_crossentropy")
    model.fit(np.ones((4, 3)), np.array(["cat", "dog", "cat", "dog"]), verbose=0)


def one_hot_labels_for_a_sparse_loss(tf):
    model = compiled(tf, loss="sparse_categorical_crossentropy")
    model.fit(np.ones((4, 3)), np.eye(2)[[0, 1, 0, 1]], verbose=0)


def misspelled_argument_of_fit(tf):
    compiled(tf).fit(np.ones((4, 3)), np.ones((4, 2)), epoch=3, verbose=0)


def epochs_given_as_text(tf):
    compiled(tf).fit(np.ones((4, 3)), np.ones((4, 2)), epochs="3", verbose=0)


def validation_data_of_one_array(tf):
    compiled(tf).fit(np.ones((4, 3)), np.ones((4, 2)), validation_data=np.ones((4, 3)), verbose=0)


def validation_data_of_another_width(tf):
    compiled(tf).fit(np.ones((4, 3)), np.ones((4, 2)), validation_data=(np.ones((4, 5)), np.ones((4, 2))), verbose=0)


def dataset_that_was_not_batched(tf):
    data = tf.data.Dataset.from_tensor_slices((np.ones((4, 3), "float32"), np.ones((4, 2), "float32")))
    compiled(tf).fit(data, verbose=0)


def dataset_without_labels(tf):
    compiled(tf).fit(tf.data.Dataset.from_tensor_slices(np.ones((4, 3), "float32")).batch(2), verbose=0)


def dataset_of_four_parts(tf):
    part = tf.data.Dataset.from_tensor_slices(np.ones((4, 3), "float32")).batch(2)
    compiled(tf).fit(tf.data.Dataset.zip((part, part, part, part)), verbose=0)


def sequence_that_fails(tf):
    class Files(tf.keras.utils.Sequence):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return np.ones((2, 3)) / [0, 1], np.ones((2, 2))

    compiled(tf).fit(Files(), verbose=0)


def callback_that_reads_a_missing_log(tf):
    class Printer(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            print(logs["val_loss"])

    compiled(tf).fit(np.ones((4, 3)), np.ones((4, 2)), callbacks=[Printer()], verbose=0)


def load_of_a_model_with_an_unknown_layer(tf):
    class Twice(tf.keras.layers.Layer):
        def call(self, x):
            return 2 * x

    path = os.path.join(tempfile.mkdtemp(), "model.h5")
    tf.keras.Sequential([tf.keras.Input((3,)), Twice()]).save(path)
    tf.keras.models.load_model(path)


def model_json_that_is_cut(tf):
    tf.keras.models.model_from_json(compiled(tf).to_json()[:-20])


# -- losses and gradients by hand ------------------------------------------------------------------------------------------
def loss_of_shapes_that_do_not_fit(tf):
    tf.keras.losses.MeanSquaredError()(tf.ones([4, 3]), tf.ones([4, 2]))


def logits_and_labels_in_the_wrong_order(tf):
    tf.keras.losses.sparse_categorical_crossentropy(tf.ones([4, 3]), tf.constant([0, 1, 2, 1]))


def gradient_outside_of_the_tape(tf):
    v = tf.Variable(1.0)
    with tf.GradientTape():
        y = v * v
    y.gradient(v)


def gradient_of_a_number(tf):
    v = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = v * v
    tape.gradient(float(y), v)


def apply_gradients_without_pairs(tf):
    v = tf.Variable(1.0)
    tf.keras.optimizers.SGD().apply_gradients([tf.constant(1.0), v])


def optimizer_with_a_learning_rate_of_text(tf):
    v = tf.Variable(1.0)
    tf.keras.optimizers.Adam("0.1").apply_gradients([(tf.constant(1.0), v)])


def variable_added_to_text(tf):
    tf.Variable(1.0) + "1"


def integer_variable_trained(tf):
    v = tf.Variable(1)
    with tf.GradientTape() as tape:
        y = v * v
    tf.keras.optimizers.SGD(0.1).apply_gradients([(tape.gradient(y, v), v)])


def double_precision_array_times_a_variable(tf):
    tf.matmul(np.ones((2, 2)), tf.Variable(tf.ones([2, 2])))


def int64_index_added_to_an_int32_one(tf):
    tf.range(3) + tf.argmax(tf.ones([3, 2]), axis=1)


def integer_tensor_averaged_with_a_float_weight(tf):
    tf.constant([1, 2]) * 0.5


def method_of_numpy_on_a_tensor(tf):
    tf.ones([2, 3]).reshape(3, 2)


def type_changed_as_in_numpy(tf):
    tf.ones([2, 3]).astype("int32")


def transposed_as_in_numpy(tf):
    return tf.ones([2, 3]).T


def size_asked_as_in_numpy(tf):
    return tf.ones([2, 3]).size


def list_asked_as_in_numpy(tf):
    tf.ones([2, 3]).tolist()


def mean_asked_as_in_numpy(tf):
    tf.ones([2, 3]).mean()


def item_asked_as_in_pytorch(tf):
    tf.constant(1.0).item()


def detached_as_in_pytorch(tf):
    tf.constant(1.0).detach()


def integers_times_a_list_of_floats(tf):
    tf.constant([1, 2]) - [0.5, 1.0]


# -- functions -------------------------------------------------------------------------------------------------------------
def python_list_as_a_loop_variable(tf):
    @tf.function
    def f(n):
        found = []
        for i in tf.range(n):
            found.append(i)
        return tf.stack(found)

    f(tf.constant(3))


def value_of_a_tensor_asked_in_a_function(tf):
    @tf.function
    def f(x):
        return x.numpy() + 1

    f(tf.constant(1.0))


def shape_with_none_used_as_a_number(tf):
    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def f(x):
        return tf.zeros([x.shape[0], 2])

    f(tf.ones([3, 2]))


def format_of_a_tensor_in_a_function(tf):
    @tf.function
    def f(x):
        return tf.constant(f"{x:.3f}")

    f(tf.constant(1.0))


def break_out_of_a_loop_with_an_undefined_value(tf):
    @tf.function
    def f(x):
        for i in tf.range(3):
            if x > 0:
                found = i
                break
        return found

    f(tf.constant(1.0))


def function_that_returns_an_object(tf):
    @tf.function
    def f():
        return object()

    f()


def input_signature_left_open_in_a_saved_model(tf):
    module = tf.Module()
    module.f = tf.function(lambda x: x + 1)
    tf.saved_model.save(module, tempfile.mkdtemp(), signatures=module.f)


def signature_called_without_its_name(tf):
    module = tf.Module()
    module.f = tf.function(lambda x: x + 1, input_signature=[tf.TensorSpec([], name="x")])
    path = tempfile.mkdtemp()
    tf.saved_model.save(module, path, signatures=module.f)
    tf.saved_model.load(path).signatures["serving_default"](tf.constant(1.0), tf.constant(2.0))


def signature_given_the_wrong_type(tf):
    module = tf.Module()
    module.f = tf.function(lambda x: x + 1, input_signature=[tf.TensorSpec([], name="x")])
    path = tempfile.mkdtemp()
    tf.saved_model.save(module, path, signatures=module.f)
    tf.saved_model.load(path).signatures["serving_default"](x=tf.constant("one"))


# -- datasets --------------------------------------------------------------------------------------------------------------
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


# -- graphs and sessions ---------------------------------------------------------------------------------------------------
def optimizer_run_before_its_slots_are_initialized(v1):
    w = v1.get_variable("w", [])
    initializer = v1.global_variables_initializer()
    train = v1.train.AdamOptimizer().minimize(w * w)
    with v1.Session() as session:
        session.run(initializer)
        session.run(train)


def minimize_of_a_loss_without_variables(v1):
    x = v1.placeholder(v1.float32, [2])
    v1.get_variable("w", [])
    v1.train.GradientDescentOptimizer(0.1).minimize(v1.reduce_sum(x))


def tensor_evaluated_with_numpy(v1):
    np.mean(float(v1.constant(2.0)))


def array_of_symbolic_tensors(v1):
    np.array([v1.constant(1.0), v1.constant(2.0)])


def python_condition_on_a_placeholder(v1):
    x = v1.placeholder(v1.float32, [])
    if x > 0:
        pass


def loop_over_a_tensor_of_unknown_length(v1):
    for _ in v1.placeholder(v1.float32, [None]):
        pass


def feed_of_rows_of_different_lengths(v1):
    x = v1.placeholder(v1.int32, [None, None])
    with v1.Session() as session:
        session.run(x + 1, {x: [[1, 2], [3]]})


def feed_of_one_image_without_its_batch(v1):
    x = v1.placeholder(v1.float32, [None, 28, 28, 1], name="images")
    with v1.Session() as session:
        session.run(x + 1, {x: np.ones((28, 28, 1))})


def feed_by_the_name_of_the_variable_in_python(v1):
    x = v1.placeholder(v1.float32, [])
    with v1.Session() as session:
        session.run(x + 1, {"x": 1.0})


def reuse_left_out_for_the_second_tower(v1):
    for _ in range(2):
        v1.layers.dense(v1.ones([2, 3]), 4, name="fc")


def layer_over_a_placeholder_without_a_last_size(v1):
    v1.layers.dense(v1.placeholder(v1.float32, [None, None]), 4)


def convolution_over_flat_rows(v1):
    v1.layers.conv2d(v1.placeholder(v1.float32, [None, 784]), 32, 5)


def reshape_that_does_not_divide(v1):
    x = v1.placeholder(v1.float32, [None, 10])
    with v1.Session() as session:
        session.run(v1.reshape(x, [-1, 7]), {x: np.ones((2, 10))})


def sparse_labels_given_as_floats(v1):
    v1.nn.sparse_softmax_cross_entropy_with_logits(labels=v1.placeholder(v1.float32, [None]), logits=v1.ones([2, 3]))


def check_that_finds_a_nan(v1):
    with v1.Session() as session:
        session.run(v1.check_numerics(v1.log(v1.constant([-1.0])), "loss"))


def saver_given_a_folder_that_is_missing(v1):
    v1.get_variable("w", [], initializer=v1.zeros_initializer())
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, "/proc/no/such/folder/model")


def meta_graph_that_is_missing(v1):
    v1.train.import_meta_graph("/no/such/model.meta")


def iterator_that_was_not_initialized(v1):
    data = v1.data.Dataset.range(3)
    iterator = v1.data.make_initializable_iterator(data)
    with v1.Session() as session:
        session.run(iterator.get_next())


def dataset_iterated_in_a_graph(v1):
    for _ in v1.data.Dataset.range(3):
        pass


def table_that_was_not_initialized(v1):
    table = v1.lookup.StaticHashTable(v1.lookup.KeyValueTensorInitializer(["a"], [1]), -1)
    with v1.Session() as session:
        session.run(table.lookup(v1.constant(["a"])))


def monitored_session_that_runs_a_closed_graph(v1):
    v1.train.get_or_create_global_step()
    with v1.train.MonitoredSession() as session:
        session.run(v1.constant(1))


def summary_given_no_session(v1):
    v1.summary.FileWriter(tempfile.mkdtemp()).add_summary(v1.summary.scalar("loss", v1.constant(1.0)), 0)


# -- distribution ----------------------------------------------------------------------------------------------------------


def model_made_outside_of_the_scope(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    with tf.distribute.MirroredStrategy(["cpu:0"]).scope():
        model.compile("sgd", "mse")


def loss_reduced_automatically_in_a_strategy(tf):
    strategy = tf.distribute.MirroredStrategy(["cpu:0"])
    with strategy.scope():
        loss = tf.keras.losses.MeanSquaredError()
    strategy.run(lambda: loss(tf.ones([2, 1]), tf.zeros([2, 1])))


FIRST_WEEKS = [value for name, value in list(globals().items())
               if getattr(value, "__module__", "") == __name__ and name != "compiled"]
