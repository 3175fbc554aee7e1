"""Sessions of the 1.x API."""
import os
import tempfile

import numpy as np


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


def tensor_of_another_graph(v1):
    with v1.Graph().as_default():
        a = v1.constant(1)
    v1.Session().run(v1.constant(2) + a)


def session_that_is_closed(v1):
    session = v1.Session()
    session.close()
    session.run(v1.constant(1))


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


def session_used_after_with(v1):
    with v1.Session() as session:
        pass
    session.run(v1.constant(1))


def feed_by_a_name_without_its_output(v1):
    x = v1.placeholder(v1.float32, [2])
    v1.Session().run(x, {"x": [1.0, 2.0]})


def feed_of_the_wrong_type(v1):
    x = v1.placeholder(v1.int32, [])
    v1.Session().run(x, {x: "a"})


def evaluation_without_a_session(v1):
    v1.constant(1).eval()


def feed_of_a_name_that_does_not_exist(v1):
    x = v1.placeholder(v1.float32, [2])
    with v1.Session() as sess:
        sess.run(x, {x: np.zeros(2), "y:0": 1})


def fetch_of_an_output_that_does_not_exist(v1):
    v1.constant(1.0, name="a")
    with v1.Session() as sess:
        sess.run("a:3")


def session_of_an_empty_graph(v1):
    x = v1.constant(1.0)
    with v1.Graph().as_default(), v1.Session() as sess:
        sess.run(x)


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


def summary_of_a_matrix_as_a_scalar(v1):
    summary = v1.summary.scalar("loss", v1.ones([2, 2]))
    with v1.Session() as session:
        session.run(summary)


def partial_run_without_setup(v1):
    with v1.Session() as session:
        session.partial_run("handle", v1.constant(1.0))


def optimizer_run_before_its_slots_are_initialized(v1):
    w = v1.get_variable("w", [])
    initializer = v1.global_variables_initializer()
    train = v1.train.AdamOptimizer().minimize(w * w)
    with v1.Session() as session:
        session.run(initializer)
        session.run(train)


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


def reshape_that_does_not_divide(v1):
    x = v1.placeholder(v1.float32, [None, 10])
    with v1.Session() as session:
        session.run(v1.reshape(x, [-1, 7]), {x: np.ones((2, 10))})


def check_that_finds_a_nan(v1):
    with v1.Session() as session:
        session.run(v1.check_numerics(v1.log(v1.constant([-1.0])), "loss"))


def saver_given_a_folder_that_is_missing(v1):
    v1.get_variable("w", [], initializer=v1.zeros_initializer())
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, "/proc/no/such/folder/model")


def iterator_that_was_not_initialized(v1):
    data = v1.data.Dataset.range(3)
    iterator = v1.data.make_initializable_iterator(data)
    with v1.Session() as session:
        session.run(iterator.get_next())


def table_that_was_not_initialized(v1):
    table = v1.lookup.StaticHashTable(v1.lookup.KeyValueTensorInitializer(["a"], [1]), -1)
    with v1.Session() as session:
        session.run(table.lookup(v1.constant(["a"])))


def monitored_session_that_runs_a_closed_graph(v1):
    v1.train.get_or_create_global_step()
    with v1.train.MonitoredSession() as session:
        session.run(v1.constant(1))


def run_without_fetches(v1):
    with v1.Session() as session:
        session.run()


def feeds_given_as_a_list(v1):
    x = v1.placeholder(v1.float32)
    with v1.Session() as session:
        session.run(x, [1.0])


def operation_run_without_a_session(v1):
    v1.global_variables_initializer().run()


def restore_of_nothing(v1):
    v1.get_variable("w", [2])
    with v1.Session() as session:
        v1.train.Saver().restore(session, None)


def session_given_its_options_first(v1):
    v1.Session(v1.ConfigProto())


def exponential_decay_of_text(v1):
    with v1.Session() as s:
        s.run(v1.train.exponential_decay("0.1", 1, 2, 0.5))


def gradients_of_an_integer(v1):
    x = v1.constant(1)
    g = v1.gradients(x * 2, x)
    v1.Session().run(g)


def hook_that_is_a_function(v1):
    with v1.train.MonitoredSession(hooks=[lambda: 1]):
        pass


def sparse_placeholder_fed_an_array(v1):
    p = v1.sparse_placeholder(v1.float32)
    with v1.Session() as s:
        s.run(v1.sparse.reduce_sum(p), {p: np.ones((2, 2))})


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


def saver_restoring_another_type(v1):
    path = os.path.join(tempfile.mkdtemp(), "model")
    v1.get_variable("w", initializer=[1.0, 2.0])
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, path)
    with v1.Graph().as_default():
        v1.get_variable("w", initializer=[1, 2])
        v1.train.Saver().restore(v1.Session(), path)


def feed_of_a_constant_with_another_shape(v1):
    x = v1.constant([1.0, 2.0])
    with v1.Session() as session:
        session.run(x + 1, {x: [1.0, 2.0, 3.0]})


def make_callable_without_its_feed(v1):
    x = v1.placeholder(v1.float32)
    with v1.Session() as session:
        session.make_callable(x + 1, [x])()


def saver_restoring_into_another_shape(v1):
    path = os.path.join(tempfile.mkdtemp(), "c")
    v = v1.get_variable("v", [2], use_resource=False)
    with v1.Session() as session:
        session.run(v.initializer)
        v1.train.Saver().save(session, path)
    with v1.Graph().as_default(), v1.Session() as session:
        v1.get_variable("v", [3], use_resource=False)
        v1.train.Saver().restore(session, path)
