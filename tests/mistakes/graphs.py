"""Graphs of the 1.x API."""
import tempfile

import numpy as np


def variable_that_exists(v1):
    v1.get_variable("v", [2])
    v1.get_variable("v", [2])


def tensor_as_a_condition(v1):
    if v1.placeholder(v1.float32) > 0:
        pass


def iteration_over_a_tensor(v1):
    for _ in v1.placeholder(v1.float32, [None]):
        pass


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


def gradient_of_a_tensor_of_another_graph(v1):
    with v1.Graph().as_default():
        x = v1.constant(1.0)
    v1.gradients(v1.constant(2.0), x)


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


def iterator_of_another_structure(v1):
    data = v1.data.Dataset.range(3)
    iterator = v1.data.Iterator.from_structure(v1.float32, [])
    iterator.make_initializer(data)


def object_in_a_graph(v1):
    v1.constant(object())


def while_loop_with_another_shape(v1):
    v1.while_loop(lambda x: v1.reduce_sum(x) < 10.0, lambda x: [v1.concat([x, x], 0)], [v1.ones([2])])


def import_of_a_graph_with_an_unknown_op(v1):
    definition = v1.GraphDef()
    definition.node.add(name="a", op="NoSuchOp")
    v1.import_graph_def(definition)


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


def reuse_left_out_for_the_second_tower(v1):
    for _ in range(2):
        v1.layers.dense(v1.ones([2, 3]), 4, name="fc")


def layer_over_a_placeholder_without_a_last_size(v1):
    v1.layers.dense(v1.placeholder(v1.float32, [None, None]), 4)


def convolution_over_flat_rows(v1):
    v1.layers.conv2d(v1.placeholder(v1.float32, [None, 784]), 32, 5)


def sparse_labels_given_as_floats(v1):
    v1.nn.sparse_softmax_cross_entropy_with_logits(labels=v1.placeholder(v1.float32, [None]), logits=v1.ones([2, 3]))


def meta_graph_that_is_missing(v1):
    v1.train.import_meta_graph("/no/such/model.meta")


def dataset_iterated_in_a_graph(v1):
    for _ in v1.data.Dataset.range(3):
        pass


def summary_given_no_session(v1):
    v1.summary.FileWriter(tempfile.mkdtemp()).add_summary(v1.summary.scalar("loss", v1.constant(1.0)), 0)


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


def unknown_option_of_a_session(v1):
    v1.ConfigProto(gpu=1)


def old_order_of_concat(v1):
    v1.concat(1, [v1.ones([2, 2]), v1.ones([2, 2])])


def layers_dense_of_a_vector(v1):
    v1.layers.dense(v1.placeholder(v1.float32, [None]), 3)


def conv_of_a_placeholder_without_channels(v1):
    v1.layers.conv2d(v1.placeholder(v1.float32, [None, 8, 8, None]), 3, 3)


def moving_average_applied_to_a_number(v1):
    v1.train.ExponentialMovingAverage(0.9).apply([1.0])


def clip_by_norm_of_nothing(v1):
    v1.clip_by_global_norm([1.0, None], "a")


def scope_of_nothing(v1):
    with v1.variable_scope(None):
        pass


def get_variable_with_a_partition(v1):
    v1.get_variable("v", [4], partitioner=v1.fixed_size_partitioner(3), initializer=v1.constant([1., 2., 3.]))


def collection_of_an_unhashable(v1):
    v1.add_to_collection(["a"], 1)


def global_step_twice(v1):
    v1.train.create_global_step()
    v1.train.create_global_step()


def dynamic_rnn_of_a_matrix(v1):
    v1.nn.dynamic_rnn(v1.nn.rnn_cell.BasicLSTMCell(3), v1.placeholder(v1.float32, [None, 4]), dtype=v1.float32)


def multi_cell_of_one_cell(v1):
    v1.nn.rnn_cell.MultiRNNCell(v1.nn.rnn_cell.BasicLSTMCell(3))


def cond_of_a_python_bool(v1):
    v1.cond(True, v1.constant(1), v1.constant(2))


def assign_of_another_shape(v1):
    v = v1.get_variable("v", [2])
    v1.assign(v, [1.0, 2.0, 3.0])


def batch_of_unknown_shapes(v1):
    v1.train.batch([v1.placeholder(v1.float32)], 2)


def reader_of_a_list(v1):
    v1.TFRecordReader().read(["a"])


def string_of_a_device_function(v1):
    with v1.device("/gpu:x"):
        v1.constant(1)


def nce_with_wrong_rank(v1):
    v1.nn.nce_loss(v1.ones([5, 3]), v1.ones([5]), v1.ones([2, 2, 1]), v1.ones([2, 3]), 2, 5)


def print_of_a_tuple(v1):
    v1.Print(v1.constant(1), v1.constant(2))


def variable_scope_given_a_number(v1):
    with v1.variable_scope(3):
        pass


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


def control_dependency_on_text(v1):
    with v1.control_dependencies(["init"]):
        v1.no_op()


def tensor_found_by_the_name_of_an_operation(v1):
    v1.constant(1, name="a")
    v1.get_default_graph().get_tensor_by_name("a")


def variables_with_one_name_and_another_type(v1):
    v1.get_variable("w", [2])
    v1.get_variable_scope().reuse_variables()
    v1.get_variable("w", [2], v1.int32)


def string_to_number_of_a_placeholder(v1):
    x = v1.placeholder(v1.float32, [2])
    v1.string_to_number(x)


def gradients_with_weights_of_another_number(v1):
    x = v1.constant(1.0)
    v1.gradients([x * 2.0], [x], grad_ys=[v1.constant(1.0), v1.constant(2.0)])


def name_scope_of_a_number(v1):
    with v1.name_scope(3):
        v1.constant(1)


def embedding_lookup_of_nothing(v1):
    v1.nn.embedding_lookup([], [1])
