"""Habits of TensorFlow 1.x, NumPy and PyTorch in a 2.x program."""
import numpy as np


def placeholder_in_eager_execution(tf):
    tf.compat.v1.placeholder(tf.float32)


def contrib_in_the_2_x_api(tf):
    tf.contrib.layers.fully_connected(tf.ones([1, 2]), 3)


def session_of_the_2_x_api(tf):
    tf.Session()


def numpy_applied_to_a_symbolic_tensor(tf):
    np.log(tf.keras.Input((3,)))


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
