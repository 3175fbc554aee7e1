"""Training: compile, fit, losses, metrics, optimizers and callbacks."""
import numpy as np

from tests.mistakes.made import INPUTS, LABELS, compiled, unbuilt


def fit_before_compile(tf):
    tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)]).fit(np.ones([4, 1]), np.ones([4, 1]), verbose=0)


def fit_with_different_numbers_of_rows(tf):
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones([4, 1]), np.ones([3, 1]), verbose=0)


def model_compiled_with_an_unknown_loss(tf):
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mean_square")
    model.fit(np.ones([4, 1]), np.ones([4, 1]), verbose=0)


def model_compiled_with_an_unknown_optimizer(tf):
    tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)]).compile("adamm", "mse")


def optimizer_given_no_gradients(tf):
    w = tf.Variable(1.0)
    tf.keras.optimizers.SGD(0.1).apply_gradients([(None, w)])


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


def fit_with_inputs_of_another_width(tf):
    compiled(tf).fit(np.zeros((4, 5), "f"), LABELS, verbose=0)


def fit_with_labels_of_another_width(tf):
    compiled(tf).fit(INPUTS, np.zeros((4, 5), "f"), verbose=0)


def fit_without_labels(tf):
    compiled(tf).fit(INPUTS, verbose=0)


def predict_with_a_missing_axis(tf):
    compiled(tf).predict(np.zeros((3,), "f"), verbose=0)


def fit_with_a_validation_split_of_a_dataset(tf):
    compiled(tf).fit(tf.data.Dataset.from_tensors((INPUTS, LABELS)), validation_split=0.5, verbose=0)


def fit_with_sample_weights_of_another_length(tf):
    compiled(tf).fit(INPUTS, LABELS, sample_weight=np.ones(3), verbose=0)


def fit_with_labels_outside_the_classes(tf):
    model = compiled(tf, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(INPUTS, np.array([0, 1, 0, 7]), verbose=0)


def fit_with_batches_of_no_rows(tf):
    compiled(tf).fit(INPUTS, LABELS, batch_size=0, verbose=0)


def fit_with_an_empty_dataset(tf):
    compiled(tf).fit(tf.data.Dataset.from_tensor_slices((INPUTS[:0], LABELS[:0])).batch(2), verbose=0)


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


def objects_given_to_fit(tf):
    compiled(tf).fit(np.array([[1], [2, 3]], dtype=object), np.ones((2, 2)), verbose=0)


def optimizer_given_gradients_of_another_shape(tf):
    v = tf.Variable([1.0, 2.0])
    tf.keras.optimizers.SGD(0.1).apply_gradients([(tf.ones([3]), v)])


def minimize_of_a_tensor(tf):
    v = tf.Variable(1.0)
    tf.keras.optimizers.SGD(0.1).minimize(v * 2.0, [v])


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


def loss_of_shapes_that_do_not_fit(tf):
    tf.keras.losses.MeanSquaredError()(tf.ones([4, 3]), tf.ones([4, 2]))


def logits_and_labels_in_the_wrong_order(tf):
    tf.keras.losses.sparse_categorical_crossentropy(tf.ones([4, 3]), tf.constant([0, 1, 2, 1]))


def apply_gradients_without_pairs(tf):
    v = tf.Variable(1.0)
    tf.keras.optimizers.SGD().apply_gradients([tf.constant(1.0), v])


def optimizer_with_a_learning_rate_of_text(tf):
    v = tf.Variable(1.0)
    tf.keras.optimizers.Adam("0.1").apply_gradients([(tf.constant(1.0), v)])


def integer_variable_trained(tf):
    v = tf.Variable(1)
    with tf.GradientTape() as tape:
        y = v * v
    tf.keras.optimizers.SGD(0.1).apply_gradients([(tape.gradient(y, v), v)])


def batch_size_with_a_fraction(tf):
    unbuilt(tf).fit(np.ones([4, 2]), np.ones([4, 1]), batch_size=2.5, verbose=0)


def metric_given_text(tf):
    tf.keras.metrics.Mean().update_state("a")


def train_step_that_returns_nothing(tf):
    class Model(tf.keras.Model):
        def call(self, x):
            return x

        def train_step(self, data):
            return None
    model = Model()
    model.compile("sgd", "mse")
    model.fit(np.ones([4, 2]), np.ones([4, 2]), verbose=0)


def metric_state_of_another_shape(tf):
    tf.keras.metrics.Precision(thresholds=1.5)


def auc_with_one_threshold(tf):
    tf.keras.metrics.AUC(num_thresholds=1)


def mean_iou_of_labels_beyond_classes(tf):
    m = tf.keras.metrics.MeanIoU(num_classes=2)
    m.update_state([0, 1, 2], [0, 1, 1])
    m.result()


def top_k_metric_on_a_vector(tf):
    m = tf.keras.metrics.SparseTopKCategoricalAccuracy(k=2)
    m.update_state([1], [0.1, 0.9])


def scheduler_that_returns_text(tf):
    m = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    m.compile("sgd", "mse")
    m.fit(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"), verbose=0,
          callbacks=[tf.keras.callbacks.LearningRateScheduler(lambda e: "slow")])


def reduce_on_plateau_by_more(tf):
    tf.keras.callbacks.ReduceLROnPlateau(factor=2.0)


def huber_with_from_logits(tf):
    tf.keras.losses.Huber(from_logits=True)


def piecewise_with_equal_lengths(tf):
    tf.keras.optimizers.schedules.PiecewiseConstantDecay([1, 2], [0.1, 0.2])


def optimizer_with_an_unknown_argument(tf):
    tf.keras.optimizers.Adam(momentum=0.9)


def loss_weights_for_another_output(tf):
    x = tf.keras.Input([2])
    model = tf.keras.Model(x, [tf.keras.layers.Dense(1, name="a")(x), tf.keras.layers.Dense(1, name="b")(x)])
    model.compile("sgd", {"a": "mse", "c": "mse"})
    model.fit(np.ones([4, 2]), [np.ones([4, 1]), np.ones([4, 1])], verbose=0)


def class_weight_with_several_outputs(tf):
    x = tf.keras.Input([2])
    model = tf.keras.Model(x, [tf.keras.layers.Dense(1)(x), tf.keras.layers.Dense(1)(x)])
    model.compile("sgd", "mse")
    model.fit(np.ones([4, 2]), [np.ones([4, 1]), np.ones([4, 1])], class_weight={0: 1.0}, verbose=0)


def steps_per_epoch_that_are_negative(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones([4, 2]), np.ones([4, 1]), steps_per_epoch=-3, verbose=0)


def generator_that_yields_a_scalar(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit((1.0 for _ in range(3)), steps_per_epoch=2, verbose=0)


def predict_of_text(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.predict([["a", "b"]], verbose=0)


def plain_function_given_as_a_metric_of_one_argument(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[lambda y: y])
    model.fit(np.ones([4, 2]), np.ones([4, 1]), verbose=0)


def fit_with_a_validation_split_of_one(tf):
    compiled(tf).fit(INPUTS, LABELS, validation_split=1.0, verbose=0)


def fit_with_labels_beside_a_generator(tf):
    compiled(tf).fit(((INPUTS, LABELS) for _ in range(2)), LABELS, verbose=0)


def callback_made_of_a_class(tf):
    compiled(tf).fit(INPUTS, LABELS, callbacks=[tf.keras.callbacks.EarlyStopping], verbose=0)


def precision_of_thresholds_above_one(tf):
    tf.keras.metrics.Precision(thresholds=1.5)


def binary_accuracy_of_other_shapes(tf):
    tf.keras.metrics.BinaryAccuracy()(tf.ones([2, 3]), tf.ones([2, 4]))


def specificity_above_one(tf):
    tf.keras.metrics.SensitivityAtSpecificity(1.5)


def loss_with_an_unknown_reduction(tf):
    tf.keras.losses.MeanSquaredError(reduction="average")([1.0], [2.0])


def optimizer_with_two_ways_to_clip(tf):
    tf.keras.optimizers.SGD(0.1, clipnorm=1.0, global_clipnorm=1.0)


def momentum_above_one(tf):
    tf.keras.optimizers.SGD(0.1, momentum=1.5)
