"""Mistakes in less used parts of the API, as functions of `tf` or `v1`, in the form of `mistakes.py`."""
import tempfile

import numpy as np


# -- layers, metrics and callbacks ------------------------------------------------------------------------------------------
def normalization_layer_not_adapted_to_text(tf):
    tf.keras.layers.Normalization().adapt(["a", "b"])


def string_lookup_that_was_not_adapted(tf):
    tf.keras.layers.StringLookup()(tf.constant(["a"]))


def text_vectorization_of_a_matrix(tf):
    layer = tf.keras.layers.TextVectorization(vocabulary=["a", "b"])
    layer(tf.constant([["a", "b"], ["b", "a"]]))


def category_encoding_without_tokens(tf):
    tf.keras.layers.CategoryEncoding(output_mode="one_hot")


def hashing_without_bins(tf):
    tf.keras.layers.Hashing(num_bins=0)


def random_rotation_of_text(tf):
    tf.keras.layers.RandomRotation("a lot")


def resizing_to_nothing(tf):
    tf.keras.layers.Resizing(0, 10)(tf.ones([1, 4, 4, 3]))


def center_crop_larger_than_the_image_of_rank_two(tf):
    tf.keras.layers.CenterCrop(8, 8)(tf.ones([4, 4]))


def time_distributed_over_a_matrix(tf):
    tf.keras.layers.TimeDistributed(tf.keras.layers.Dense(2))(tf.ones([3, 4]))


def rnn_around_a_layer(tf):
    tf.keras.layers.RNN(tf.keras.layers.Dense(3))(tf.ones([2, 3, 4]))


def conv_transpose_with_output_padding_too_large(tf):
    tf.keras.layers.Conv2DTranspose(3, 3, strides=2, output_padding=2)(tf.ones([1, 4, 4, 2]))


def cropping_everything(tf):
    tf.keras.layers.Cropping2D(3)(tf.ones([1, 4, 4, 1]))


def upsampling_of_a_matrix(tf):
    tf.keras.layers.UpSampling2D()(tf.ones([4, 4]))


def permute_of_wrong_dims(tf):
    tf.keras.layers.Permute((0, 1))(tf.ones([2, 3, 4]))


def repeat_vector_of_an_image(tf):
    tf.keras.layers.RepeatVector(3)(tf.ones([2, 3, 4]))


def softmax_layer_over_a_missing_axis(tf):
    tf.keras.layers.Softmax(axis=3)(tf.ones([2, 3]))


def layer_normalization_of_a_scalar(tf):
    tf.keras.layers.LayerNormalization()(tf.constant(1.0))


def group_normalization_that_does_not_divide(tf):
    tf.keras.layers.GroupNormalization(groups=3)(tf.ones([1, 4, 4, 8]))


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


def checkpoint_callback_with_a_missing_field(tf):
    m = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    m.compile("sgd", "mse")
    m.fit(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"), verbose=0,
          callbacks=[tf.keras.callbacks.ModelCheckpoint("/tmp/{val_acc:.2f}.weights.h5", save_weights_only=True)])


def checkpoint_callback_with_a_wrong_frequency(tf):
    tf.keras.callbacks.ModelCheckpoint("x", save_freq="batch")


def csv_logger_into_a_missing_folder(tf):
    m = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    m.compile("sgd", "mse")
    m.fit(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"), verbose=0,
          callbacks=[tf.keras.callbacks.CSVLogger("/no/such/folder/log.csv")])


def subclassed_model_saved_as_h5(tf):
    class M(tf.keras.Model):
        def call(self, x):
            return x
    m = M()
    m(tf.ones([1, 2]))
    m.save(tempfile.mkdtemp() + "/m.h5")


def layer_from_config_with_an_unknown_key(tf):
    tf.keras.layers.Dense.from_config({"units": 3, "unit": 4})


def categorical_with_strings(tf):
    tf.keras.utils.to_categorical(["a", "b"])


def pad_sequences_of_numbers(tf):
    tf.keras.utils.pad_sequences([1, 2, 3])


def image_folder_that_is_missing(tf):
    tf.keras.utils.image_dataset_from_directory("/no/such/folder")


def initializer_with_wrong_shape(tf):
    tf.keras.initializers.Identity()(shape=(2, 3, 4))


def orthogonal_of_a_vector(tf):
    tf.keras.initializers.Orthogonal()((3,))


def variance_scaling_with_an_unknown_mode(tf):
    tf.keras.initializers.VarianceScaling(mode="fan_both")


def mixed_precision_of_an_unknown_policy(tf):
    tf.keras.mixed_precision.Policy("mixed_half")


def loss_scale_optimizer_around_text(tf):
    tf.keras.mixed_precision.LossScaleOptimizer("adam")


def huber_with_from_logits(tf):
    tf.keras.losses.Huber(from_logits=True)


def piecewise_with_equal_lengths(tf):
    tf.keras.optimizers.schedules.PiecewiseConstantDecay([1, 2], [0.1, 0.2])


def optimizer_with_an_unknown_argument(tf):
    tf.keras.optimizers.Adam(momentum=0.9)


# -- operations ----------------------------------------------------------------------------------------------------------------
def stft_of_a_scalar(tf):
    tf.signal.stft(tf.constant(1.0), 4, 2)


def fft_of_real_numbers(tf):
    tf.signal.fft(tf.ones([8]))


def dct_of_an_unknown_type(tf):
    tf.signal.dct(tf.ones([8]), type=5)


def resize_with_an_unknown_method(tf):
    tf.image.resize(tf.ones([1, 4, 4, 3]), [8, 8], method="cubic")


def grayscale_of_two_channels(tf):
    tf.image.rgb_to_grayscale(tf.ones([4, 4, 2]))


def crop_outside_of_the_image(tf):
    tf.image.crop_to_bounding_box(tf.ones([4, 4, 3]), 2, 2, 4, 4)


def random_crop_larger(tf):
    tf.image.random_crop(tf.ones([4, 4, 3]), [8, 8, 3])


def boxes_of_another_length(tf):
    tf.image.non_max_suppression(tf.ones([3, 4]), tf.ones([2]), 1)


def extract_patches_of_rank_three(tf):
    tf.image.extract_patches(tf.ones([4, 4, 3]), [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID")


def encode_jpeg_of_floats(tf):
    tf.io.encode_jpeg(tf.ones([4, 4, 3]))


def decode_raw_of_a_wrong_length(tf):
    tf.io.decode_raw(tf.constant(b"abc"), tf.int32)


def csv_with_too_few_defaults(tf):
    tf.io.decode_csv(["1,2,3"], [[0], [0]])


def regex_with_an_open_bracket(tf):
    tf.strings.regex_replace(["a"], "(", "b")


def format_with_too_few_places(tf):
    tf.strings.format("{} {}", (tf.constant(1),))


def strings_joined_with_numbers_axis(tf):
    tf.strings.reduce_join([1, 2])


def ngrams_of_width_zero(tf):
    tf.strings.ngrams(tf.constant(["a", "b"]), 0)


def qr_of_integers(tf):
    tf.linalg.qr(tf.constant([[1, 2], [3, 4]]))


def triangular_solve_of_other_rows(tf):
    tf.linalg.triangular_solve(tf.eye(3), tf.ones([2, 1]))


def norm_of_an_unknown_order(tf):
    tf.norm(tf.ones([2]), ord="max")


def tensordot_of_other_axes(tf):
    tf.tensordot(tf.ones([2, 3]), tf.ones([4, 5]), axes=1)


def normal_with_negative_shape(tf):
    tf.random.normal([-1, 2])


def categorical_of_a_vector(tf):
    tf.random.categorical(tf.ones([3]), 2)


def stateless_without_a_pair(tf):
    tf.random.stateless_normal([2], seed=3)


def uniform_integers_reversed(tf):
    tf.random.uniform([2], 5, 1, tf.int32)


def generator_from_text(tf):
    tf.random.Generator.from_seed("a")


def bincount_of_negative(tf):
    tf.math.bincount(tf.constant([-1, 2]))


def confusion_of_other_lengths(tf):
    tf.math.confusion_matrix([0, 1], [0, 1, 1])


def histogram_with_equal_ends(tf):
    tf.histogram_fixed_width(tf.ones([3]), [1.0, 1.0])


def argsort_of_a_direction(tf):
    tf.argsort([1, 2], direction="UP")


def searchsorted_of_scalars(tf):
    tf.searchsorted(tf.constant(1.0), tf.constant(2.0))


def gather_nd_too_deep(tf):
    tf.gather_nd(tf.ones([2, 2]), [[0, 0, 0]])


def scatter_update_of_a_wrong_shape(tf):
    tf.tensor_scatter_nd_update(tf.ones([3]), [[0], [1]], [1.0])


def broadcast_to_fewer(tf):
    tf.broadcast_to(tf.ones([2, 3]), [3])


def meshgrid_of_matrices(tf):
    tf.meshgrid(tf.ones([2]), tf.ones([3]), indexing="kl")


def roll_with_other_axes(tf):
    tf.roll(tf.ones([4]), shift=[1, 2], axis=[0])


def space_to_depth_that_does_not_divide(tf):
    tf.nn.space_to_depth(tf.ones([1, 3, 3, 1]), 2)


def max_pool_with_three_numbers(tf):
    tf.nn.max_pool2d(tf.ones([1, 4, 4, 1]), [2, 2, 2], 1, "SAME")


def ctc_without_lengths(tf):
    tf.nn.ctc_loss(tf.constant([[1, 2]]), tf.ones([4, 1, 3]), None, None)


def sampled_softmax_of_wrong_labels(tf):
    tf.nn.sampled_softmax_loss(tf.ones([5, 3]), tf.ones([5]), tf.constant([1, 2]), tf.ones([2, 3]), 2, 5)


def batch_norm_of_other_mean(tf):
    tf.nn.batch_normalization(tf.ones([2, 3]), tf.ones([4]), tf.ones([4]), None, None, 1e-3)


def dropout_rate_of_one_and_a_half(tf):
    tf.nn.dropout(tf.ones([3]), rate=1.5)


def l2_normalize_text(tf):
    tf.nn.l2_normalize(["a"])


def crelu_of_integers(tf):
    tf.nn.selu(tf.constant([1, 2]))


# -- datasets ------------------------------------------------------------------------------------------------------------------
def map_with_zero_parallel(tf):
    list(tf.data.Dataset.range(3).map(lambda x: x, num_parallel_calls=0))


def prefetch_of_text(tf):
    tf.data.Dataset.range(3).prefetch("auto")


def cache_in_a_number(tf):
    tf.data.Dataset.range(3).cache(3)


def batch_of_a_fraction(tf):
    tf.data.Dataset.range(3).batch(2.5)


def flat_map_without_a_dataset(tf):
    tf.data.Dataset.range(3).flat_map(lambda x: [x])


def slices_of_a_dictionary_of_other_lengths(tf):
    tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": [1]})


def bucket_with_wrong_sizes(tf):
    tf.data.Dataset.range(3).bucket_by_sequence_length(lambda x: 1, [2, 4], [1, 1])


def scan_that_changes_type(tf):
    tf.data.Dataset.range(3).scan(0, lambda s, x: (1.0, x))


def choose_from_floats(tf):
    tf.data.Dataset.choose_from_datasets([tf.data.Dataset.range(2)], tf.data.Dataset.from_tensors(1.0))


def load_of_a_missing_dataset(tf):
    tf.data.Dataset.load("/no/such/dataset")


def options_that_are_a_dictionary(tf):
    tf.data.Dataset.range(3).with_options({"deterministic": True})


def zip_with_a_tensor(tf):
    tf.data.Dataset.zip((tf.data.Dataset.range(3), tf.constant([1])))


def unknown_option(tf):
    options = tf.data.Options()
    options.experimental_determinism = True


def element_taken_by_get_single(tf):
    tf.data.Dataset.range(3).get_single_element()


# -- functions and state -------------------------------------------------------------------------------------------------------
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


def export_without_signature(tf):
    m = tf.Module()
    m.f = tf.function(lambda x: x)
    d = tempfile.mkdtemp()
    tf.saved_model.save(m, d)
    tf.saved_model.load(d).f(tf.constant(1))


def lookup_with_a_float_default(tf):
    tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), 1.5)


def table_from_a_missing_file(tf):
    tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer("/no/such/file", tf.string, 0, tf.int64, 1), -1)


def numpy_api_of_unequal(tf):
    tf.experimental.numpy.add(tf.ones([2]), tf.ones([3]))


def profiler_stopped_twice(tf):
    tf.profiler.experimental.stop()


# -- the 1.x API ---------------------------------------------------------------------------------------------------------------
def layers_dense_of_a_vector(v1):
    v1.layers.dense(v1.placeholder(v1.float32, [None]), 3)


def conv_of_a_placeholder_without_channels(v1):
    v1.layers.conv2d(v1.placeholder(v1.float32, [None, 8, 8, None]), 3, 3)


def moving_average_applied_to_a_number(v1):
    v1.train.ExponentialMovingAverage(0.9).apply([1.0])


def exponential_decay_of_text(v1):
    with v1.Session() as s:
        s.run(v1.train.exponential_decay("0.1", 1, 2, 0.5))


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


def gradients_of_an_integer(v1):
    x = v1.constant(1)
    g = v1.gradients(x * 2, x)
    v1.Session().run(g)


def batch_of_unknown_shapes(v1):
    v1.train.batch([v1.placeholder(v1.float32)], 2)


def reader_of_a_list(v1):
    v1.TFRecordReader().read(["a"])


def hook_that_is_a_function(v1):
    with v1.train.MonitoredSession(hooks=[lambda: 1]):
        pass


def string_of_a_device_function(v1):
    with v1.device("/gpu:x"):
        v1.constant(1)


def nce_with_wrong_rank(v1):
    v1.nn.nce_loss(v1.ones([5, 3]), v1.ones([5]), v1.ones([2, 2, 1]), v1.ones([2, 3]), 2, 5)


def sparse_placeholder_fed_an_array(v1):
    p = v1.sparse_placeholder(v1.float32)
    with v1.Session() as s:
        s.run(v1.sparse.reduce_sum(p), {p: np.ones((2, 2))})


def print_of_a_tuple(v1):
    v1.Print(v1.constant(1), v1.constant(2))


LESS_USED = [f for f in list(globals().values()) if callable(f) and getattr(f, "__module__", "") == __name__]
