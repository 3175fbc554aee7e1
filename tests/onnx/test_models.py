"""Whole models as ONNX files: onnxruntime computes what they compute, for more than one batch size."""
import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is an extra")
pytest.importorskip("onnxruntime", reason="onnxruntime runs the exported files")

import penstock as tf
import penstock.compat.v1 as tf1
from tests.onnx.running import agree, batches, types

layers, keras = tf.keras.layers, tf.keras


def randomized(model, seed=0):
    """A model whose weights are all different, the statistics of normalization included."""
    draw = np.random.default_rng(seed)
    model.set_weights([np.abs(draw.normal(1, 0.2, w.shape)).astype(w.dtype) if "variance" in v.name else
                       (w + draw.normal(0, 0.1, w.shape)).astype(w.dtype) for v, w in zip(model.weights, model.get_weights())])
    return model


def only_input(model):
    return model.input_names[0]


def checked(model, folder, shape, **options):
    return agree(randomized(model), folder, batches(only_input(model), shape), **options)


def test_perceptron(tmp_path):
    model = keras.Sequential([layers.Input((8,)), layers.Dense(5, "relu"), layers.Dropout(0.5), layers.Dense(3, "softmax")])
    made = checked(model, tmp_path, (8,))
    assert made.graph.input[0].type.tensor_type.shape.dim[0].dim_param and types(made).count("MatMul") == 2


def residual(x, filters, stride):
    skip = layers.Conv2D(filters, 1, strides=stride)(x) if stride > 1 else x
    for s in (stride, 1):
        x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(filters, 3, strides=s, padding="same", use_bias=False)(x)))
    return layers.ReLU()(layers.Add()([x, skip]))


def test_residual_network_needs_two_transposes(tmp_path):
    x = inputs = layers.Input((17, 16, 3))
    x = layers.MaxPool2D(3, 2, padding="same")(layers.Conv2D(8, 5, padding="same")(x))
    x = residual(residual(x, 8, 1), 12, 2)
    x = layers.AveragePooling2D(2, padding="same")(x)
    made = checked(keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling2D()(x))), tmp_path, (17, 16, 3))
    assert types(made).count("Transpose") == 2


def test_convolutions_of_open_sizes(tmp_path):
    x = inputs = layers.Input((None, None, 3))
    x = layers.Conv2D(6, 3, strides=2, padding="same", groups=3)(x)
    x = layers.Conv2D(6, 3, dilation_rate=2, padding="same")(x)
    x = layers.Conv2DTranspose(4, 3, strides=2, padding="same")(x)
    x = layers.Conv2DTranspose(4, 2, strides=3, padding="valid")(x)
    model = randomized(keras.Model(inputs, x))
    feeds = [f for shape in ((8, 10, 3), (12, 6, 3)) for f in batches(only_input(model), shape)]
    agree(model, tmp_path, feeds)


def test_depthwise_network(tmp_path):
    x = inputs = layers.Input((12, 12, 4))
    for stride in (1, 2):
        x = layers.ZeroPadding2D(((0, 1), (0, 1)))(x)
        x = layers.DepthwiseConv2D(3, strides=stride, depth_multiplier=2, padding="valid")(x)
        x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
        x = layers.SeparableConv2D(6, 3, padding="same")(x)
    checked(keras.Model(inputs, x), tmp_path, (12, 12, 4))


def test_u_network(tmp_path):
    x = inputs = layers.Input((16, 16, 2))
    first = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    second = layers.Conv2D(8, 3, padding="same", activation="elu")(layers.MaxPool2D()(first))
    x = layers.UpSampling2D(2, interpolation="bilinear")(layers.MaxPool2D()(second))
    x = layers.Concatenate()([x, second])
    x = layers.Concatenate()([layers.Conv2DTranspose(4, 3, strides=2, padding="same")(x), first])
    made = checked(keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(x)), tmp_path, (16, 16, 2))
    assert types(made).count("Transpose") == 2


def test_volumes_and_sequences_of_convolutions(tmp_path):
    x = inputs = layers.Input((6, 6, 6, 2))
    x = layers.AveragePooling3D()(layers.MaxPool3D(2, 1, padding="same")(layers.Conv3D(4, 3, padding="same")(x)))
    checked(keras.Model(inputs, layers.Conv3DTranspose(2, 3, strides=2, padding="same")(x)), tmp_path, (6, 6, 6, 2))
    model = keras.Sequential([layers.Input((20, 3)), layers.Conv1D(4, 3, padding="causal", dilation_rate=2),
                              layers.MaxPool1D(), layers.GlobalMaxPool1D()])
    checked(model, tmp_path, (20, 3))


@pytest.mark.parametrize("make", [
    lambda: layers.LSTM(4), lambda: layers.LSTM(4, return_sequences=True), lambda: layers.GRU(4, return_sequences=True),
    lambda: layers.SimpleRNN(4), lambda: layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
    lambda: layers.LSTM(4, unroll=True), lambda: layers.GRU(4, go_backwards=True, reset_after=False),
    lambda: layers.RNN(layers.StackedRNNCells([layers.LSTMCell(3), layers.GRUCell(4)])),
], ids=["lstm", "lstm_sequences", "gru_sequences", "simple", "bidirectional", "unrolled", "backwards", "stacked"])
def test_recurrent_layers(make, tmp_path):
    checked(keras.Sequential([layers.Input((6, 5)), make()]), tmp_path, (6, 5))


def test_recurrent_layers_of_any_length(tmp_path):
    model = randomized(keras.Sequential([layers.Input((None, 5)), layers.GRU(4, return_sequences=True), layers.LSTM(3)]))
    agree(model, tmp_path, batches(only_input(model), (4, 5)) + batches(only_input(model), (7, 5)))


def test_transformer_encoder(tmp_path):
    words = layers.Input((7,), dtype="int32", name="words")
    x = layers.Embedding(20, 12)(words) + layers.Embedding(7, 12)(tf.range(7))
    for _ in range(2):
        x = layers.LayerNormalization(epsilon=1e-6)(x + layers.MultiHeadAttention(3, 4)(x, x))
        x = layers.LayerNormalization()(x + layers.Dense(12)(layers.Dense(24, activation="gelu")(x)))
    model = randomized(keras.Model(words, layers.Dense(5, "softmax")(x[:, 0])))
    draw = np.random.default_rng(1)
    agree(model, tmp_path, [{"words": draw.integers(0, 20, (n, 7), np.int32)} for n in (1, 4)])


def test_recommender_with_sums_of_embeddings(tmp_path):
    ids = layers.Input((4, 3), dtype="int64", name="ids")
    dense = layers.Input((5,), name="numbers")
    rows = tf.reduce_sum(layers.Embedding(50, 8)(ids), axis=2)
    linear = tf.reduce_sum(layers.Embedding(50, 1)(ids), axis=(1, 2))
    second = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(rows, 1)) - tf.reduce_sum(tf.square(rows), 1), 1, keepdims=True)
    deep = layers.Concatenate()([layers.Flatten()(rows), dense])
    for units in (16, 8):
        deep = layers.Dense(units, "relu")(deep)
    model = randomized(keras.Model([ids, dense], tf.sigmoid(layers.Dense(1)(deep) + linear + second)))
    draw = np.random.default_rng(1)
    feeds = [{"ids": draw.integers(0, 50, (n, 4, 3)), "numbers": draw.normal(size=(n, 5)).astype(np.float32)} for n in (2, 5)]
    agree(model, tmp_path, feeds, [model([f["ids"], f["numbers"]]) for f in feeds])


def test_graph_of_1x(tmp_path):
    with tf1.Graph().as_default(), tf1.Session() as sess:
        x = tf1.placeholder(tf1.float32, [None, 6, 6, 2], "x")
        w = tf1.get_variable("w", [3, 3, 2, 4], initializer=tf1.random_normal_initializer(seed=1), use_resource=False)
        hidden = tf1.nn.relu(tf1.nn.conv2d(x, w, [1, 2, 2, 1], "SAME"))
        flat = tf1.reshape(hidden, [tf1.shape(hidden)[0], 36])
        logits = tf1.layers.dense(flat, 3, kernel_initializer=tf1.random_normal_initializer(seed=2))
        sess.run(tf1.global_variables_initializer())
        outputs = {"logits": logits, "class": tf1.argmax(logits, 1)}
        tf1.saved_model.simple_save(sess, str(tmp_path / "m"), {"image": x}, outputs)
        feeds = batches("image", (6, 6, 2))
        expected = [sess.run(outputs, {x: f["image"]}) for f in feeds]
    agree(str(tmp_path / "m"), tmp_path, feeds, expected)


class Steps(tf.Module):
    def __init__(self):
        self.w = tf.Variable([[0.5, 1.0], [0.25, -1.0]])

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x"), tf.TensorSpec([], tf.int32, "n")])
    def run(self, x, n):
        for _ in tf.range(n):
            if tf.reduce_sum(x) > 0:
                x = tf.matmul(x, self.w)
            else:
                x = x + 1.0
        return {"y": x, "rounds": n}


def test_loops_and_conditionals(tmp_path):
    model = Steps()
    feeds = [{"x": np.float32(x), "n": np.array(n, np.int32)} for x, n in
             (([[1, 2]], 3), ([[1, -2], [3, -4]], 6), ([[1, 1]], 0))]
    agree(model.run, tmp_path, feeds, [model.run(tf.constant(f["x"]), tf.constant(f["n"])) for f in feeds])


def test_choice_among_branches(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([], tf.int32, "i")])
    def chosen(x, i):
        return tf.switch_case(i, [lambda: x + 1.0, lambda: x * 2.0, lambda: tf.exp(x)])
    feeds = [{"x": np.float32([1, 2]), "i": np.array(i, np.int32)} for i in (0, 1, 2, 7)]
    agree(chosen, tmp_path, feeds)


@pytest.mark.parametrize("make, size", [pytest.param("ResNet50", 64, marks=pytest.mark.slow), ("MobileNetV2", 64)])
def test_published_networks(make, size, tmp_path):
    model = getattr(keras.applications, make)(weights=None, input_shape=(size, size, 3), classes=10)
    made = agree(model, tmp_path, batches(only_input(model), (size, size, 3)))
    assert types(made).count("Transpose") == 2


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_keras_files(suffix, tmp_path):
    model = randomized(keras.Sequential([layers.Input((3,)), layers.Dense(2)]))
    model.save(str(tmp_path / f"m{suffix}"))
    feeds = batches(only_input(model), (3,))
    agree(str(tmp_path / f"m{suffix}"), tmp_path, feeds, [model(f[only_input(model)]) for f in feeds])


def test_many_loops(tmp_path):
    """Each loop has its own values, however many were written before it."""
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def call(x):
        for k in range(12):
            for i in tf.range(2):
                x = x * 0.5 + tf.cast(i, tf.float32) if k % 2 else tf.nn.relu(x - 0.1)
        return x
    agree(call, tmp_path, [{"x": np.float32([1, -2, 30])}, {"x": np.float32([5])}])
