"""Rarer mistakes, as functions of `tf`, in the form of `mistakes.py`: structures, state, loops, distribution and Estimators."""
import tempfile

import numpy as np


# -- tapes, loops and TensorArrays ------------------------------------------------------------------------------------------
def tape_watching_a_number(tf):
    with tf.GradientTape() as tape:
        tape.watch(3.0)


def gradient_with_an_unknown_choice_for_unconnected_inputs(tf):
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = tf.constant(1.0)
    tape.gradient(y, x, unconnected_gradients="nothing")


def tape_watching_a_list_of_numbers(tf):
    with tf.GradientTape() as tape:
        tape.watch([1.0, 2.0])


def tensor_array_read_past_its_end(tf):
    tf.TensorArray(tf.float32, size=2).unstack([1.0, 2.0]).read(2)


def tensor_array_given_another_type(tf):
    tf.TensorArray(tf.float32, size=2).write(0, tf.constant(1))


def tensor_array_given_another_shape(tf):
    array = tf.TensorArray(tf.float32, size=2, element_shape=[2])
    array.write(0, tf.ones([3]))


def loop_body_with_another_number_of_values(tf):
    tf.while_loop(lambda i, j: i < 3, lambda i, j: [i + 1], [tf.constant(0), tf.constant(0)])


def loop_that_changes_a_type(tf):
    @tf.function
    def f():
        i = tf.constant(0)
        while i < 3:
            i = tf.cast(i, tf.float32) + 1.0
        return i

    f()


def return_from_one_branch_only(tf):
    @tf.function
    def f(x):
        if x > 0:
            return x

    f(tf.constant(1.0))


def switch_case_without_branches(tf):
    tf.switch_case(tf.constant(0), [])


def condition_that_is_not_a_boolean(tf):
    @tf.function
    def f(x):
        return tf.while_loop(lambda i: i, lambda i: [i + 1.0], [x])

    f(tf.constant(1.0))


# -- ragged and sparse ------------------------------------------------------------------------------------------------------
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


# -- Keras ------------------------------------------------------------------------------------------------------------------
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


def sequential_given_a_function(tf):
    tf.keras.Sequential([lambda x: x])


def model_called_with_a_missing_input(tf):
    a, b = tf.keras.Input((2,)), tf.keras.Input((2,))
    tf.keras.Model([a, b], tf.keras.layers.Add()([a, b]))(tf.ones([1, 2]))


def targets_with_another_number_of_classes(tf):
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(3)])
    model.compile("sgd", "categorical_crossentropy")
    model.fit(np.ones([4, 2]), np.ones([4, 5]), verbose=0)


def labels_beyond_the_classes(tf):
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(3, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(np.ones([4, 2]), np.full([4], 3), verbose=0)


def validation_split_of_a_dataset(tf):
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    model.fit(tf.data.Dataset.from_tensors((np.ones([4, 2]), np.ones([4, 3]))), validation_split=0.5, verbose=0)


def labels_beside_a_dataset(tf):
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    model.fit(tf.data.Dataset.from_tensors((np.ones([4, 2]), np.ones([4, 3]))), np.ones([4, 3]), verbose=0)


def weights_of_a_model_with_other_layers(tf):
    path = tempfile.mkdtemp() + "/w.weights.h5"
    tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(3)]).save_weights(path)
    tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(4)]).load_weights(path)


def attribute_set_before_the_constructor(tf):
    class Model(tf.keras.Model):
        def __init__(self):
            self.dense = tf.keras.layers.Dense(1)
            super().__init__()

    Model()


def layer_that_is_not_in_the_model(tf):
    tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(3)]).get_layer("conv")


def output_of_a_layer_that_was_never_called(tf):
    tf.keras.layers.Dense(3).output  # noqa: B018


# -- datasets ---------------------------------------------------------------------------------------------------------------
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


# -- variables, checkpoints, distribution ------------------------------------------------------------------------------------
def checkpoint_of_another_shape(tf):
    path = tf.train.Checkpoint(w=tf.Variable([1.0, 2.0])).save(tempfile.mkdtemp() + "/c")
    tf.train.Checkpoint(w=tf.Variable([1.0])).restore(path)


def checkpoint_whose_objects_do_not_match(tf):
    path = tf.train.Checkpoint(w=tf.Variable(1.0)).save(tempfile.mkdtemp() + "/c")
    tf.train.Checkpoint(v=tf.Variable(1.0)).restore(path).assert_consumed()


def checkpoint_of_a_number(tf):
    tf.train.Checkpoint(w=3)


def signature_that_is_not_a_function(tf):
    tf.saved_model.save(tf.Module(), tempfile.mkdtemp(), signatures=lambda x: x)


def variable_without_a_value(tf):
    tf.Variable()


def variable_of_a_shape_that_does_not_fit(tf):
    tf.Variable([1.0, 2.0], shape=[3])


def strategy_scope_inside_of_another(tf):
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope(), tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
        pass


def optimizer_of_another_strategy(tf):
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    with strategy.scope():
        model.compile(tf.keras.optimizers.SGD(), "mse")


def merge_call_outside_of_a_replica(tf):
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    with strategy.scope():
        tf.distribute.get_replica_context().merge_call(lambda s: 1)


def reduction_over_an_unknown_choice(tf):
    tf.distribute.OneDeviceStrategy("/cpu:0").reduce("average", tf.ones([2]), axis=None)


# -- graphs, sessions, feature columns and Estimators -------------------------------------------------------------------------
def session_used_after_with(v1):
    with v1.Session() as session:
        pass
    session.run(v1.constant(1))


def gradient_of_a_tensor_of_another_graph(v1):
    with v1.Graph().as_default():
        x = v1.constant(1.0)
    v1.gradients(v1.constant(2.0), x)


def feed_by_a_name_without_its_output(v1):
    x = v1.placeholder(v1.float32, [2])
    v1.Session().run(x, {"x": [1.0, 2.0]})


def feed_of_the_wrong_type(v1):
    x = v1.placeholder(v1.int32, [])
    v1.Session().run(x, {x: "a"})


def evaluation_without_a_session(v1):
    v1.constant(1).eval()


def saver_without_variables(v1):
    v1.train.Saver()


def enqueue_of_another_shape(v1):
    queue = v1.FIFOQueue(2, v1.float32, shapes=[[2]])
    queue.enqueue(v1.ones([3]))


def import_of_a_graph_with_a_missing_input(v1):
    with v1.Graph().as_default() as graph:
        v1.identity(v1.constant(1))
    definition = graph.as_graph_def()
    del definition.node[0]
    v1.import_graph_def(definition)


def loop_that_adds_text_to_a_number(v1):
    v1.while_loop(lambda i: i < 3, lambda i: i + "a", [0])


def scope_named_with_a_space(v1):
    with v1.name_scope("two words"):
        pass


def coordinator_joining_a_number(v1):
    v1.train.Coordinator().join([1])


def bucketized_column_with_unsorted_boundaries(v1):
    v1.feature_column.bucketized_column(v1.feature_column.numeric_column("x"), [3, 1])


def input_layer_without_a_feature(v1):
    v1.feature_column.input_layer({"y": [[1.0]]}, [v1.feature_column.numeric_column("x")])


def input_layer_of_a_categorical_column(v1):
    column = v1.feature_column.categorical_column_with_identity("x", 3)
    v1.feature_column.input_layer({"x": [[1]]}, [column])


RARER = [value for value in list(globals().values()) if getattr(value, "__module__", "") == __name__]
