"""Models of Keras."""
import numpy as np

from tests.mistakes.made import compiled


def summary_of_an_unbuilt_model(tf):
    tf.keras.Sequential([tf.keras.layers.Dense(1)]).weights[0]


def functional_model_over_two_graphs_of_layers(tf):
    tf.keras.Model(tf.keras.Input((2,)), tf.keras.layers.Dense(1)(tf.keras.Input((2,))))


def call_without_its_argument(tf):
    class Model(tf.keras.Model):
        def call(self, x, y):
            return x + y
    Model()(tf.ones([1]))


def sequential_given_a_function(tf):
    tf.keras.Sequential([lambda x: x])


def model_called_with_a_missing_input(tf):
    a, b = tf.keras.Input((2,)), tf.keras.Input((2,))
    tf.keras.Model([a, b], tf.keras.layers.Add()([a, b]))(tf.ones([1, 2]))


def attribute_set_before_the_constructor(tf):
    class Model(tf.keras.Model):
        def __init__(self):
            self.dense = tf.keras.layers.Dense(1)
            super().__init__()

    Model()


def layer_that_is_not_in_the_model(tf):
    tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(3)]).get_layer("conv")


def weights_that_are_too_few(tf):
    compiled(tf).set_weights([np.zeros((3, 2))])


def layer_with_an_unknown_name(tf):
    compiled(tf).get_layer("conv")


def model_of_tensors_that_are_not_connected(tf):
    a, b = tf.keras.Input((3,)), tf.keras.Input((3,))
    tf.keras.Model(a, tf.keras.layers.Dense(1)(b))


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


def stateful_layer_without_a_batch_size(tf):
    tf.keras.Sequential([tf.keras.layers.LSTM(4, stateful=True, input_shape=(3, 5))])


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


def model_asked_for_its_input_before_it_has_one(tf):
    tf.keras.Sequential([tf.keras.layers.Dense(3)]).input  # noqa: B018


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


def function_of_the_api_on_a_symbolic_tensor_as_a_number(tf):
    float(tf.reduce_sum(tf.keras.Input((3,))))


def model_given_a_name_as_a_layer(tf):
    tf.keras.Sequential().add("dense")


def layer_asked_without_a_name(tf):
    tf.keras.Sequential([tf.keras.layers.Dense(1)]).get_layer()


def layer_with_several_outputs_in_a_sequential(tf):
    model = tf.keras.Sequential([tf.keras.layers.LSTM(4, return_state=True), tf.keras.layers.Dense(1)])
    model(tf.ones([2, 3, 4]))


def layer_that_makes_a_variable_in_its_call(tf):
    class Layer(tf.keras.layers.Layer):
        def call(self, x):
            return x * tf.Variable(1.0)
    model = tf.keras.Sequential([Layer()])
    model.compile("sgd", "mse")
    model.fit(np.ones([4, 2]), np.ones([4, 2]), verbose=0)


def model_with_the_wrong_number_of_inputs(tf):
    a, b = tf.keras.Input([2]), tf.keras.Input([2])
    model = tf.keras.Model([a, b], tf.keras.layers.add([a, b]))
    model(tf.ones([1, 2]))


def model_given_inputs_under_other_names(tf):
    a, b = tf.keras.Input([2], name="left"), tf.keras.Input([2], name="right")
    model = tf.keras.Model({"left": a, "right": b}, tf.keras.layers.add([a, b]))
    model({"left": tf.ones([1, 2]), "wrong": tf.ones([1, 2])})


def batch_normalization_of_an_unknown_width(tf):
    tf.keras.layers.BatchNormalization()(tf.keras.Input([None]))


def submodel_built_with_a_wrong_shape(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.build("wide")


def sequential_popped_when_empty(tf):
    tf.keras.Sequential().pop()


def layer_added_that_is_a_class(tf):
    tf.keras.Sequential().add(tf.keras.layers.Dense)


def model_called_with_an_unknown_argument(tf):
    class Model(tf.keras.Model):
        def call(self, x):
            return x

    Model()(tf.ones([1, 2]), dropout=True)


def layer_shared_with_another_width(tf):
    dense = tf.keras.layers.Dense(2)
    dense(tf.keras.Input([3]))
    dense(tf.keras.Input([4]))


def layer_indexed_beyond_the_model(tf):
    compiled(tf).get_layer(index=7)


def model_given_a_dictionary_with_a_missing_name(tf):
    inputs = {"a": tf.keras.Input([2], name="a"), "b": tf.keras.Input([2], name="b")}
    model = tf.keras.Model(inputs, tf.keras.layers.Add()([inputs["a"], inputs["b"]]))
    model({"a": tf.ones([1, 2])})


def output_shape_of_a_layer_called_twice(tf):
    dense = tf.keras.layers.Dense(2)
    dense(tf.keras.Input([3]))
    dense(tf.keras.Input([2, 3]))
    print(dense.output_shape)
