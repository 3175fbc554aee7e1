"""Mistakes with `fit`, datasets, checkpoints, SavedModels, sessions and feature columns, in the form of `mistakes.py`."""
import tempfile

import numpy as np


class _Made:
    """Models that mistakes are made with; no mistake itself."""

    @staticmethod
    def compiled(tf, loss="mse"):
        model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
        model.compile("sgd", loss)
        return model

    @staticmethod
    def signature(tf):
        module, folder = tf.Module(), tempfile.mkdtemp()
        module.f = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([None], tf.float32, "x")])
        tf.saved_model.save(module, folder, {"serving_default": module.f})
        return tf.saved_model.load(folder).signatures["serving_default"]


INPUTS, LABELS = np.zeros((4, 3), np.float32), np.zeros((4, 2), np.float32)


# -- fit and models ---------------------------------------------------------------------------------------------------------
def fit_with_inputs_of_another_width(tf):
    _Made.compiled(tf).fit(np.zeros((4, 5), "f"), LABELS, verbose=0)


def fit_with_labels_of_another_width(tf):
    _Made.compiled(tf).fit(INPUTS, np.zeros((4, 5), "f"), verbose=0)


def fit_without_labels(tf):
    _Made.compiled(tf).fit(INPUTS, verbose=0)


def predict_with_a_missing_axis(tf):
    _Made.compiled(tf).predict(np.zeros((3,), "f"), verbose=0)


def fit_with_a_validation_split_of_a_dataset(tf):
    _Made.compiled(tf).fit(tf.data.Dataset.from_tensors((INPUTS, LABELS)), validation_split=0.5, verbose=0)


def fit_with_sample_weights_of_another_length(tf):
    _Made.compiled(tf).fit(INPUTS, LABELS, sample_weight=np.ones(3), verbose=0)


def fit_with_labels_outside_the_classes(tf):
    model = _Made.compiled(tf, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(INPUTS, np.array([0, 1, 0, 7]), verbose=0)


def fit_with_batches_of_no_rows(tf):
    _Made.compiled(tf).fit(INPUTS, LABELS, batch_size=0, verbose=0)


def fit_with_an_empty_dataset(tf):
    _Made.compiled(tf).fit(tf.data.Dataset.from_tensor_slices((INPUTS[:0], LABELS[:0])).batch(2), verbose=0)


def weights_that_are_too_few(tf):
    _Made.compiled(tf).set_weights([np.zeros((3, 2))])


def layer_with_an_unknown_name(tf):
    _Made.compiled(tf).get_layer("conv")


def model_of_tensors_that_are_not_connected(tf):
    a, b = tf.keras.Input((3,)), tf.keras.Input((3,))
    tf.keras.Model(a, tf.keras.layers.Dense(1)(b))


def dense_layer_on_a_scalar(tf):
    tf.keras.layers.Dense(2)(tf.constant(1.0))


def embedding_of_an_index_outside(tf):
    tf.keras.layers.Embedding(3, 2)(tf.constant([[5]]))


# -- datasets ---------------------------------------------------------------------------------------------------------------
def batch_of_other_shapes(tf):
    list(tf.data.Dataset.from_generator(lambda: iter([[1], [1, 2]]), tf.int32).batch(2))


def slices_of_other_lengths(tf):
    tf.data.Dataset.from_tensor_slices((np.zeros(3), np.zeros(4)))


def generator_of_another_type(tf):
    list(tf.data.Dataset.from_generator(lambda: iter(["a"]), output_signature=tf.TensorSpec([], tf.int32)))


def generator_of_another_shape(tf):
    list(tf.data.Dataset.from_generator(lambda: iter([[1, 2]]), output_signature=tf.TensorSpec([3], tf.int32)))


def record_file_that_is_missing(tf):
    list(tf.data.TFRecordDataset("/no/such.tfrecord"))


def shuffle_buffer_of_no_elements(tf):
    list(tf.data.Dataset.range(3).shuffle(0))


def filter_that_returns_no_boolean(tf):
    list(tf.data.Dataset.range(3).filter(lambda x: x))


# -- files ------------------------------------------------------------------------------------------------------------------
def load_of_a_folder_without_a_saved_model(tf):
    tf.saved_model.load(tempfile.mkdtemp())


def signature_with_too_many_arguments(tf):
    _Made.signature(tf)(tf.ones([1]), tf.ones([1]))


def signature_with_an_unknown_input(tf):
    _Made.signature(tf)(z=tf.ones([1]))


def weights_file_that_is_missing(tf):
    _Made.compiled(tf).load_weights("/no/such.weights.h5")


def model_file_that_is_missing(tf):
    tf.keras.models.load_model("/no/such.keras")


def checkpoint_of_other_objects(tf):
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).write(tempfile.mkdtemp() + "/c")
    tf.train.Checkpoint(w=tf.Variable(1.0)).read(path).assert_consumed()


# -- sessions, strategies and feature columns ---------------------------------------------------------------------------------
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


def strategy_that_runs_a_number(tf):
    tf.distribute.MirroredStrategy(["cpu:0"]).run(1)


def feature_that_is_missing(tf):
    tf.keras.layers.DenseFeatures([tf.feature_column.numeric_column("a")])({"b": tf.constant([[1.0]])})


def categorical_column_without_an_embedding(tf):
    column = tf.feature_column.categorical_column_with_identity("a", 3)
    tf.keras.layers.DenseFeatures([column])({"a": tf.constant([[1]])})


def boundaries_out_of_order(tf):
    tf.feature_column.bucketized_column(tf.feature_column.numeric_column("a"), [3, 1])


KERAS_AND_DATA = [value for name, value in list(globals().items())
                  if getattr(value, "__module__", "") == __name__ and not name.startswith("_")]
