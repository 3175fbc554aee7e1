"""Mistakes of people who move from a first program to their own: as functions of `tf`, in the form of `mistakes.py`."""
import os
import tempfile

import numpy as np


# -- 1.x habits in 2.x programs --------------------------------------------------------------------
def get_variable_of_the_2_x_api(tf):
    tf.get_variable("w", [2])


def feed_dict_given_to_a_function(tf):
    @tf.function
    def f(x):
        return x + 1

    f(feed_dict={"x": 1.0})


def optimizer_of_1_x_given_a_tensor(tf):
    w = tf.Variable(1.0)
    tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(w * w, var_list=[w])


def gradients_named_as_in_1_x(tf):
    w = tf.Variable(1.0)
    tf.gradients(w * w, w)


def initializer_called_in_2_x(tf):
    tf.global_variables_initializer()


def variable_evaluated_in_2_x(tf):
    tf.constant(1.0).eval()


def variable_initialized_with_none(tf):
    tf.Variable(None, dtype=tf.float32)


def variable_scope_given_a_number(v1):
    with v1.variable_scope(3):
        pass


def collection_of_a_variable_by_a_list(v1):
    v1.get_variable("w", [2], collections="trainable")
    v1.Session().run(v1.get_collection(["trainable"]))


def feed_of_a_longer_static_size(v1):
    x = v1.placeholder(v1.int32, [2])
    v1.Session().run(x + 1, {x: [1, 2, 3]})


def fetch_of_a_graph_that_fails_in_a_dependency(v1):
    with v1.control_dependencies([v1.Assert(v1.constant(False), ["no rows"])]):
        y = v1.constant(1.0) * 2.0
    v1.Session().run(y)


def names_that_collide_in_an_import(v1):
    graph = v1.GraphDef()
    for _ in range(2):
        node = graph.node.add()
        node.name, node.op = "a", "NoOp"
    v1.import_graph_def(graph)


def import_asked_for_an_element_that_is_missing(v1):
    v1.import_graph_def(v1.GraphDef(), return_elements=["missing:0"])


def import_mapping_an_input_that_is_unused(v1):
    v1.import_graph_def(v1.GraphDef(), input_map={"x:0": v1.constant(1.0)})


def saver_restoring_another_type(v1):
    path = os.path.join(tempfile.mkdtemp(), "model")
    v1.get_variable("w", initializer=[1.0, 2.0])
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, path)
    with v1.Graph().as_default():
        v1.get_variable("w", initializer=[1, 2])
        v1.train.Saver().restore(v1.Session(), path)


def rnn_cell_used_in_two_scopes(v1):
    cell = v1.nn.rnn_cell.LSTMCell(3)
    with v1.variable_scope("one"):
        v1.nn.dynamic_rnn(cell, v1.ones([2, 3, 4]), dtype=v1.float32)
    with v1.variable_scope("two"):
        v1.nn.dynamic_rnn(cell, v1.ones([2, 3, 5]), dtype=v1.float32)


def rnn_over_sequences_of_other_lengths(v1):
    cell = v1.nn.rnn_cell.GRUCell(3)
    v1.nn.dynamic_rnn(cell, v1.ones([2, 3, 4]), sequence_length=[1, 2, 3], dtype=v1.float32)


def rnn_state_of_another_batch(v1):
    cell = v1.nn.rnn_cell.GRUCell(3)
    v1.nn.dynamic_rnn(cell, v1.ones([2, 3, 4]), initial_state=v1.ones([5, 3]))


def loss_collected_of_other_weights(v1):
    v1.losses.mean_squared_error(v1.ones([4, 2]), v1.ones([4, 2]), weights=v1.ones([3]))


def metric_of_other_shapes(v1):
    v1.metrics.accuracy(v1.ones([3]), v1.ones([4]))


def monitored_session_without_a_global_step(v1):
    v1.train.StopAtStepHook(last_step=3).begin()


def hook_with_two_limits(v1):
    v1.train.StopAtStepHook(num_steps=3, last_step=4)


def checkpoint_hook_without_an_interval(v1):
    v1.train.CheckpointSaverHook("/tmp/x", save_steps=10, saver=v1.train.Saver([v1.get_variable("w", [1])]),
                                 scaffold=v1.train.Scaffold())


def cluster_with_a_number_as_a_job(v1):
    v1.train.ClusterSpec({"worker": 3})


def cluster_asked_for_a_missing_task(v1):
    v1.train.ClusterSpec({"worker": ["localhost:1"]}).task_address("worker", 2)


def cluster_asked_for_a_missing_job(v1):
    v1.train.ClusterSpec({"ps": ["localhost:1"]}).num_tasks("worker")


# -- models of Keras -------------------------------------------------------------------------------
def concatenate_over_a_missing_axis(tf):
    tf.keras.layers.Concatenate(axis=4)([tf.ones([2, 3]), tf.ones([2, 3])])


def model_with_the_wrong_number_of_inputs(tf):
    a, b = tf.keras.Input([2]), tf.keras.Input([2])
    model = tf.keras.Model([a, b], tf.keras.layers.add([a, b]))
    model(tf.ones([1, 2]))


def model_given_inputs_under_other_names(tf):
    a, b = tf.keras.Input([2], name="left"), tf.keras.Input([2], name="right")
    model = tf.keras.Model({"left": a, "right": b}, tf.keras.layers.add([a, b]))
    model({"left": tf.ones([1, 2]), "wrong": tf.ones([1, 2])})


def loss_weights_for_another_output(tf):
    x = tf.keras.Input([2])
    model = tf.keras.Model(x, [tf.keras.layers.Dense(1, name="a")(x), tf.keras.layers.Dense(1, name="b")(x)])
    model.compile("sgd", {"a": "mse", "c": "mse"})
    model.fit(np.ones([4, 2]), [np.ones([4, 1]), np.ones([4, 1])], verbose=0)


def one_weight_given_to_a_layer_of_two(tf):
    layer = tf.keras.layers.Dense(2)
    layer.build([None, 3])
    layer.set_weights([np.ones([3, 2])])


def function_wrapped_as_a_layer(tf):
    tf.keras.layers.TimeDistributed(lambda x: x)


def class_weight_with_several_outputs(tf):
    x = tf.keras.Input([2])
    model = tf.keras.Model(x, [tf.keras.layers.Dense(1)(x), tf.keras.layers.Dense(1)(x)])
    model.compile("sgd", "mse")
    model.fit(np.ones([4, 2]), [np.ones([4, 1]), np.ones([4, 1])], class_weight={0: 1.0}, verbose=0)


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


def batch_normalization_of_an_unknown_width(tf):
    tf.keras.layers.BatchNormalization()(tf.keras.Input([None]))


def steps_per_epoch_that_are_negative(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones([4, 2]), np.ones([4, 1]), steps_per_epoch=-3, verbose=0)


def generator_that_yields_a_scalar(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit((1.0 for _ in range(3)), steps_per_epoch=2, verbose=0)


def submodel_built_with_a_wrong_shape(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.build("wide")


def sequential_popped_when_empty(tf):
    tf.keras.Sequential().pop()


def layer_added_that_is_a_class(tf):
    tf.keras.Sequential().add(tf.keras.layers.Dense)


def predict_of_text(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.predict([["a", "b"]], verbose=0)


def tokenizer_matrix_without_words(tf):
    tf.keras.preprocessing.text.Tokenizer().texts_to_matrix(["a b"])


def categorical_beyond_its_classes(tf):
    tf.keras.utils.to_categorical([0, 5], num_classes=3)


def plain_function_given_as_a_metric_of_one_argument(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[lambda y: y])
    model.fit(np.ones([4, 2]), np.ones([4, 1]), verbose=0)


# -- input pipelines -------------------------------------------------------------------------------
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


# -- functions, variables and saved objects --------------------------------------------------------
def concrete_function_given_too_many_arguments(tf):
    f = tf.function(lambda x: x).get_concrete_function(tf.TensorSpec([], tf.float32))
    f(tf.constant(1.0), tf.constant(2.0))


def concrete_function_without_an_argument(tf):
    f = tf.function(lambda x: x).get_concrete_function(tf.TensorSpec([], tf.float32))
    f()


def concrete_function_asked_for_without_arguments(tf):
    tf.function(lambda x: x).get_concrete_function()


def while_loop_with_a_shape_that_grows(tf):
    @tf.function
    def f():
        x = tf.ones([1])
        for _ in tf.range(3):
            x = tf.concat([x, x], 0)
        return x

    f()


def value_first_made_in_a_branch_of_a_function(tf):
    @tf.function
    def f(x):
        if x > 0:
            y = tf.Variable(1.0)
        return y

    f(tf.constant(1.0))


def module_saved_that_is_a_list(tf):
    tf.saved_model.save([tf.Variable(1.0)], tempfile.mkdtemp())


def signature_that_returns_nested_lists(tf):
    module = tf.Module()
    module.f = tf.function(lambda x: [x, [x]], input_signature=[tf.TensorSpec([], tf.float32)])
    tf.saved_model.save(module, tempfile.mkdtemp(), signatures=module.f)


def saved_model_that_uses_a_variable_left_untracked(tf):
    w = tf.Variable(2.0)
    module = tf.Module()
    module.f = tf.function(lambda x: x * w, input_signature=[tf.TensorSpec([], tf.float32)])
    tf.saved_model.save(module, tempfile.mkdtemp())


def saved_model_with_a_missing_tag(tf):
    folder = tempfile.mkdtemp()
    tf.saved_model.save(tf.Module(), folder)
    tf.saved_model.load(folder, tags=["gpu"])


def checkpoint_read_by_a_missing_name(tf):
    path = tf.train.Checkpoint(w=tf.Variable(1.0)).write(os.path.join(tempfile.mkdtemp(), "a"))
    tf.train.load_checkpoint(path).get_tensor("v")


def checkpoint_of_nothing_listed(tf):
    tf.train.list_variables(tempfile.mkdtemp())


def variable_added_to_in_another_type(tf):
    tf.Variable([1, 2]).assign_add([0.5, 0.5])


def variable_scattered_outside(tf):
    tf.Variable([1.0, 2.0]).scatter_update(tf.IndexedSlices(tf.constant([3.0]), tf.constant([5])))


def variable_deleted_by_an_index(tf):
    del tf.Variable([1.0, 2.0])[0]


def variable_compared_to_a_shape_that_does_not_fit(tf):
    tf.Variable([1.0, 2.0]) < tf.constant([1.0, 2.0, 3.0])  # noqa: B015


# -- distribution ----------------------------------------------------------------------------------
def strategy_that_runs_with_a_list(tf):
    tf.distribute.MirroredStrategy(["cpu:0"]).run(lambda x: x, args=3)


def reduce_without_an_axis(tf):
    tf.distribute.MirroredStrategy(["cpu:0"]).reduce(tf.distribute.ReduceOp.SUM, tf.ones([2]))


# -- numbers, texts, pictures ----------------------------------------------------------------------
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


SECOND_PROJECT = [f for f in list(globals().values()) if callable(f) and getattr(f, "__module__", "") == __name__]
