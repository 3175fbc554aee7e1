"""Functions, control flow, gradients and variables."""
import numpy as np


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


def variable_assigned_another_shape(tf):
    tf.Variable([1.0, 2.0]).assign([1.0, 2.0, 3.0])


def variable_assigned_another_type(tf):
    tf.Variable([1.0, 2.0]).assign(tf.constant([1, 2]))


def element_of_a_variable_assigned(tf):
    tf.Variable([1.0, 2.0])[0] = 3.0


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


def variable_without_a_value(tf):
    tf.Variable()


def variable_of_a_shape_that_does_not_fit(tf):
    tf.Variable([1.0, 2.0], shape=[3])


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


def variable_of_an_object(tf):
    tf.Variable(object())


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


def variable_added_to_text(tf):
    tf.Variable(1.0) + "1"


def double_precision_array_times_a_variable(tf):
    tf.matmul(np.ones((2, 2)), tf.Variable(tf.ones([2, 2])))


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


def function_with_a_set_argument(tf):
    @tf.function
    def f(x):
        return x
    f({1, 2})


def yield_in_a_function(tf):
    @tf.function
    def f(x):
        yield from tf.range(x)
    list(f(3))


def append_in_a_while_loop(tf):
    @tf.function
    def f(n):
        out = []
        for i in tf.range(n):
            out.append(i)
        return tf.stack(out)
    f(tf.constant(3))


def return_in_one_branch_of_tensors(tf):
    @tf.function
    def f(x):
        if x > 0:
            y = 1
        else:
            y = "a"
        return y
    f(tf.constant(1))


def variable_assigned_none(tf):
    tf.Variable([1.0]).assign(None)


def py_function_without_types(tf):
    tf.py_function(lambda x: x, [tf.constant(1)])


def vectorized_map_of_a_number(tf):
    tf.vectorized_map(lambda x: x, 3)


def scan_with_another_structure(tf):
    tf.scan(lambda a, x: (a, x), tf.constant([1, 2]), initializer=tf.constant(0))


def foldl_over_nothing(tf):
    tf.foldl(lambda a, x: a + x, tf.constant([], tf.float32))


def profiler_stopped_twice(tf):
    tf.profiler.experimental.stop()


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


def variable_added_to_in_another_type(tf):
    tf.Variable([1, 2]).assign_add([0.5, 0.5])


def variable_scattered_outside(tf):
    tf.Variable([1.0, 2.0]).scatter_update(tf.IndexedSlices(tf.constant([3.0]), tf.constant([5])))


def variable_deleted_by_an_index(tf):
    del tf.Variable([1.0, 2.0])[0]


def variable_compared_to_a_shape_that_does_not_fit(tf):
    tf.Variable([1.0, 2.0]) < tf.constant([1.0, 2.0, 3.0])  # noqa: B015


def loop_variable_that_changes_structure(tf):
    @tf.function
    def f(n):
        state = (tf.constant(0), tf.constant(0))
        while state[0] < n:
            state = (state[0] + 1,)
        return state

    f(tf.constant(3))


def loop_variable_that_becomes_text(tf):
    @tf.function
    def f(n):
        y = tf.constant(0)
        for _ in tf.range(n):
            y = "a"
        return y

    f(tf.constant(3))


def loop_variable_that_becomes_none(tf):
    @tf.function
    def f(n):
        y = tf.constant(1)
        for _ in tf.range(n):
            y = None
        return y

    f(tf.constant(3))


def branch_that_returns_none(tf):
    @tf.function
    def f(x):
        return tf.cond(x > 0, lambda: x, lambda: None)

    f(tf.constant(1.0))


def condition_of_a_vector_in_a_function(tf):
    @tf.function
    def f(x):
        if x > 0:
            return 1
        return 2

    f(tf.constant([1.0, 2.0]))


def and_of_a_vector_in_a_function(tf):
    @tf.function
    def f(x):
        if x > 0 and x < 5:
            return 1
        return 2

    f(tf.constant([1.0, 2.0]))


def function_with_a_list_appended_in_a_loop(tf):
    @tf.function
    def f(n):
        found = []
        for i in tf.range(n):
            found.append(i)
        return tf.stack(found)

    f(tf.constant(3))


def python_list_of_a_symbolic_range(tf):
    @tf.function
    def f(x):
        return list(range(x))

    f(tf.constant(3))


def function_called_with_ragged_for_a_dense_signature(tf):
    f = tf.function(lambda x: x, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    f(tf.ragged.constant([[1], [2, 3]]))


def map_fn_without_a_signature_of_its_result(tf):
    tf.map_fn(lambda x: tf.cast(x, tf.float32), tf.range(3))


def map_fn_over_other_lengths(tf):
    tf.map_fn(lambda x: x[0] + x[1], (tf.range(3), tf.range(4)), fn_output_signature=tf.int32)


def gradient_with_output_gradients_of_another_shape(tf):
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = x * x
    tape.gradient(y, x, output_gradients=tf.ones([3]))


def tape_entered_twice(tf):
    with tf.GradientTape() as tape:
        with tape:
            pass


def custom_gradient_without_a_function(tf):
    @tf.custom_gradient
    def f(x):
        return x * 2.0

    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        f(x)


def sparse_read_beyond_the_variable(tf):
    tf.Variable([1.0, 2.0]).sparse_read([5])
