"""Families of Keras layers and the loops around them: video, keywords, volumes, masks, mixed losses, preprocessing, tiny
models."""
from __future__ import annotations

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def normal(*dims, seed=0):
    return np.random.RandomState(seed).randn(*dims).astype("f")


def ids(high, *dims, seed=0, low=0):
    return np.random.RandomState(seed).randint(low, high, dims)


def trained(tf, net, x, y, loss, optimizer):
    """One call of a compiled training step of a Keras model."""
    net(x)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            value = loss(y, net(x, training=True))
        weights = net.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(value, weights), weights, strict=True))
        return value
    return lambda: float(tf.reduce_mean(step(x, y)))


@workload
def convlstm_frames(tf):
    """Training of two layers of ConvLSTM on ten small frames."""
    K = tf.keras.layers
    net = tf.keras.Sequential([K.ConvLSTM2D(16, 3, padding="same", return_sequences=True), K.BatchNormalization(),
                               K.ConvLSTM2D(16, 3, padding="same"), K.Conv2D(1, 1, activation="sigmoid")])
    x, y = tf.constant(normal(4, 10, 24, 24, 1)), tf.constant(ids(2, 4, 24, 24, 1).astype("f"))
    return trained(tf, net, x, y, tf.keras.losses.BinaryCrossentropy(), tf.keras.optimizers.RMSprop(1e-3))


@workload
def frames_then_lstm_fit(tf):
    """`fit` of a small CNN on each frame (TimeDistributed), then an LSTM."""
    K = tf.keras.layers
    x, y = normal(64, 8, 24, 24, 1), ids(4, 64)
    frame = tf.keras.Sequential([K.Conv2D(8, 3, 2, activation="relu"), K.Conv2D(16, 3, 2, activation="relu"),
                                 K.GlobalAveragePooling2D()])
    net = tf.keras.Sequential([tf.keras.Input([8, 24, 24, 1]), K.TimeDistributed(frame), K.LSTM(32), K.Dense(4)])
    net.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return lambda: net.fit(x, y, batch_size=16, epochs=1, verbose=0).history["loss"][-1]


@workload
def volume_decoder(tf):
    """Training of an autoencoder of volumes: three-dimensional convolutions, transposed ones, and upsampling."""
    K = tf.keras.layers
    net = tf.keras.Sequential([K.Conv3D(8, 3, 2, padding="same", activation="relu"), K.Conv3D(16, 3, 2, padding="same"),
                               K.LayerNormalization(), K.Conv3DTranspose(8, 3, 2, padding="same", activation="relu"),
                               K.UpSampling3D(), K.Conv3D(1, 3, padding="same")])
    x = tf.constant(normal(2, 16, 16, 16, 1))
    return trained(tf, net, x, x, tf.keras.losses.MeanSquaredError(), tf.keras.optimizers.Adam(1e-3))


@workload
def keyword_spotting_fit(tf):
    """`fit` of separable one-dimensional convolutions with batch norm on frames of sound."""
    K = tf.keras.layers
    x, y = normal(128, 98, 40), ids(12, 128)
    layers = [tf.keras.Input([98, 40]), K.Conv1D(64, 3, padding="same"), K.BatchNormalization(), K.ReLU()]
    for _ in range(4):
        layers += [K.SeparableConv1D(64, 9, padding="same", use_bias=False), K.BatchNormalization(), K.ReLU()]
    net = tf.keras.Sequential([*layers, K.GlobalAveragePooling1D(), K.Dropout(0.2), K.Dense(12)])
    net.compile(tf.keras.optimizers.Adam(1e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return lambda: net.fit(x, y, batch_size=32, epochs=1, verbose=0).history["loss"][-1]


@workload
def translation_attention(tf):
    """`train_on_batch` of an encoder and a decoder with Keras's attention, causal and padded, for two lengths in turns."""
    K, D = tf.keras.layers, 64
    source, target = tf.keras.Input([None], dtype="int32"), tf.keras.Input([None], dtype="int32")
    e, d = K.Embedding(2000, D, mask_zero=True)(source), K.Embedding(2000, D, mask_zero=True)(target)
    for _ in range(2):
        e = K.LayerNormalization()(e + K.MultiHeadAttention(4, 16)(e, e))
        e = K.LayerNormalization()(e + K.Dense(D)(K.Dense(4 * D, activation="relu")(e)))
    for _ in range(2):
        d = K.LayerNormalization()(d + K.MultiHeadAttention(4, 16)(d, d, use_causal_mask=True))
        d = K.LayerNormalization()(d + K.MultiHeadAttention(4, 16)(d, e))
        d = K.LayerNormalization()(d + K.Dense(D)(K.Dense(4 * D, activation="gelu")(d)))
    net = tf.keras.Model([source, target], K.Dense(2000)(d))
    net.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    batches = [(ids(2000, 16, n, low=1), ids(2000, 16, n + 2, seed=1, low=1), ids(2000, 16, n + 2, seed=2)) for n in (20, 24)]
    for a, b, _ in batches:
        a[:, -4:], b[:, -5:] = 0, 0

    def call():
        for a, b, c in batches:
            loss = net.train_on_batch([a, b], c)
        return float(np.ravel(loss)[0])
    return call


@workload
def large_tables_each_optimizer(tf):
    """Rows of tables of 100,000 rows, one table per optimizer: SGD, momentum, Adagrad, RMSprop, Adam, FTRL, Nadam, Adamax."""
    O, K = tf.keras.optimizers, tf.keras.layers
    kinds = [O.SGD(0.1), O.SGD(0.1, momentum=0.9), O.Adagrad(0.1), O.RMSprop(1e-3), O.Adam(1e-3), O.Ftrl(0.1), O.Nadam(1e-3),
             O.Adamax(1e-3)]
    tables = [K.Embedding(100_000, 16) for _ in kinds]
    rows = tf.constant(ids(100_000, 256, 4))
    for table in tables:
        table(rows)

    @tf.function
    def step(rows):
        total = 0.0
        for table, kind in zip(tables, kinds, strict=True):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.reduce_sum(table(rows), 1) - 1.0))
            kind.apply_gradients(zip(tape.gradient(loss, table.trainable_variables), table.trainable_variables, strict=True))
            total += loss
        return total
    return lambda: float(step(rows))


@workload
def group_norm_residual(tf):
    """Training of residual blocks with group normalization and SiLU, batches of eight."""
    K = tf.keras.layers
    i = tf.keras.Input([32, 32, 3])
    h = K.Conv2D(32, 3, padding="same")(i)
    for width, stride in ((32, 1), (64, 2), (64, 1)):
        a = K.Activation("silu")(K.GroupNormalization(8)(h))
        z = K.Conv2D(width, 3, stride, padding="same")(a)
        z = K.Conv2D(width, 3, padding="same")(K.Activation("silu")(K.GroupNormalization(8)(z)))
        h = K.add([z, h if stride == 1 and h.shape[-1] == width else K.Conv2D(width, 1, stride)(a)])
    net = tf.keras.Model(i, K.Dense(10)(K.GlobalAveragePooling2D()(h)))
    x, y = tf.constant(normal(8, 32, 32, 3)), tf.constant(ids(10, 8))
    return trained(tf, net, x, y, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                   tf.keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True))


@workload
def several_heads_fit(tf):
    """`fit` with two inputs and three outputs, a loss, weight and metric for each, and weights of samples."""
    K = tf.keras.layers
    a, b = tf.keras.Input([20], name="a"), tf.keras.Input([12], dtype="int32", name="b")
    h = K.concatenate([K.Dense(64, activation="elu")(a), K.GlobalAveragePooling1D()(K.Embedding(500, 16)(b))])
    h = K.Dropout(0.1)(K.Dense(64, activation="selu")(h))
    outs = {"price": K.Dense(1, name="price")(h), "kind": K.Dense(5, activation="softmax", name="kind")(h),
            "flags": K.Dense(3, activation="sigmoid", name="flags")(h)}
    net = tf.keras.Model({"a": a, "b": b}, outs)
    net.compile(tf.keras.optimizers.Adam(1e-3, clipnorm=1.0),
                loss={"price": "huber", "kind": "sparse_categorical_crossentropy", "flags": "binary_crossentropy"},
                loss_weights={"price": 0.5, "kind": 1.0, "flags": 2.0}, metrics={"price": "mae", "kind": "accuracy"})
    x = {"a": normal(512, 20), "b": ids(500, 512, 12)}
    y = {"price": normal(512, 1), "kind": ids(5, 512), "flags": ids(2, 512, 3).astype("f")}
    weights = {name: np.random.RandomState(1).rand(512).astype("f") for name in y}
    return lambda: net.fit(x, y, sample_weight=weights, batch_size=32, epochs=1, verbose=0).history["loss"][-1]


@workload
def distillation_train_step(tf):
    """A model with its own `train_step`: a small network learns from a larger one, with two metrics."""
    K = tf.keras.layers
    teacher = tf.keras.Sequential([tf.keras.Input([64]), K.Dense(256, activation="relu"), K.Dense(10)])

    class Student(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.net = tf.keras.Sequential([K.Dense(64, activation="relu"), K.Dense(10)])
            self.mean = tf.keras.metrics.Mean(name="distillation")
            self.hits = tf.keras.metrics.SparseCategoricalAccuracy(name="hits")

        def call(self, x, training=False):
            return self.net(x)

        def train_step(self, data):
            x, y = data
            soft = tf.nn.softmax(teacher(x) / 3.0)
            with tf.GradientTape() as tape:
                scores = self(x, training=True)
                loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(y, scores, from_logits=True)) \
                    + 9.0 * tf.keras.losses.KLDivergence()(soft, tf.nn.softmax(scores / 3.0))
            weights = self.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            self.mean.update_state(loss)
            self.hits.update_state(y, scores)
            return {"distillation": self.mean.result(), "hits": self.hits.result()}
    student = Student()
    student.compile(optimizer=tf.keras.optimizers.Adam(1e-3))
    x, y = normal(1024, 64), ids(10, 1024)
    return lambda: student.fit(x, y, batch_size=32, epochs=1, verbose=0).history["distillation"][-1]


@workload
def tiny_fit_callbacks(tf):
    """Five epochs of a tiny model with validation, early stopping, a schedule and a callback per batch."""
    K, C = tf.keras.layers, tf.keras.callbacks
    x, y = normal(160, 8), normal(160, 1, seed=1)
    net = tf.keras.Sequential([tf.keras.Input([8]), K.Dense(16, activation="tanh"), K.Dense(1)])
    net.compile("sgd", "mse", metrics=["mae"])
    seen = []
    calls = [C.EarlyStopping(patience=50), C.ReduceLROnPlateau(patience=100), C.LearningRateScheduler(lambda e, r: r * 1.0),
             C.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(float(logs["loss"])))]

    def call():
        seen.clear()
        return net.fit(x, y, batch_size=16, epochs=5, validation_split=0.2, callbacks=calls, verbose=0).history["val_loss"][-1]
    return call


@workload
def tiny_evaluate_predict(tf):
    """`evaluate` with several metrics and `predict` of a tiny classifier, from arrays and from a dataset."""
    K, M = tf.keras.layers, tf.keras.metrics
    x, y = normal(256, 10), ids(2, 256)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)
    net = tf.keras.Sequential([tf.keras.Input([10]), K.Dense(16, activation="relu"), K.Dense(1, activation="sigmoid")])
    net.compile("adam", "binary_crossentropy", metrics=["accuracy", M.AUC(), M.Precision(), M.Recall()])

    def call():
        found = net.evaluate(x, y, batch_size=64, verbose=0)[0] + net.evaluate(data, verbose=0)[0]
        return found + float(np.sum(net.predict(x, verbose=0)))
    return call


@workload
def adversarial_train_on_batch(tf):
    """The usual loop of an adversarial network: `predict`, two `train_on_batch` of the critic and one of the pair."""
    K = tf.keras.layers
    maker = tf.keras.Sequential([tf.keras.Input([16]), K.Dense(64), K.LeakyReLU(), K.Dense(64, activation="tanh")])
    critic = tf.keras.Sequential([tf.keras.Input([64]), K.Dense(64), K.LeakyReLU(), K.Dropout(0.3),
                                  K.Dense(1, activation="sigmoid")])
    critic.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    critic.trainable = False
    both = tf.keras.Sequential([tf.keras.Input([16]), maker, critic])
    both.compile("adam", "binary_crossentropy")
    real, noise, one, zero = normal(32, 64), normal(32, 16, seed=1), np.ones((32, 1), "f"), np.zeros((32, 1), "f")

    def call():
        fake = maker.predict(noise, verbose=0)
        critic.train_on_batch(real, one)
        critic.train_on_batch(fake, zero)
        return float(np.ravel(both.train_on_batch(noise, one))[0])
    return call


@workload
def tagger_temporal_fit(tf):
    """`fit` of a tagger: masked embedding, two directions of GRU with all outputs, a weight for each position."""
    K = tf.keras.layers
    x, y = ids(2000, 128, 24, low=1), ids(9, 128, 24)
    x[:, 18:] = 0
    weights = (x > 0).astype("f")
    net = tf.keras.Sequential([tf.keras.Input([None], dtype="int32"), K.Embedding(2000, 32, mask_zero=True),
                               K.Bidirectional(K.GRU(32, return_sequences=True)), K.TimeDistributed(K.Dense(9))])
    net.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return lambda: net.fit(x, y, sample_weight=weights, batch_size=32, epochs=1, verbose=0).history["loss"][-1]


@workload
def one_step_lstm_calls(tf):
    """A recurrent policy, called from Python one observation at a time with its state."""
    K = tf.keras.layers
    cell, head = K.LSTMCell(48), K.Dense(6)
    seen = [tf.constant(normal(1, 24, seed=n)) for n in range(20)]

    def call():
        state = [tf.zeros([1, 48]), tf.zeros([1, 48])]
        for x in seen:
            h, state = cell(x, state)
            action = int(tf.argmax(head(h), -1)[0])
        return float(action)
    return call


@workload
def columns_preprocessed_fit(tf):
    """`fit` from columns of numbers and words through Keras's preprocessing layers."""
    K = tf.keras.layers
    r = np.random.RandomState(0)
    words = np.array(["red", "green", "blue", "black", "white"])
    columns = {"age": r.rand(600, 1).astype("f") * 80, "size": r.rand(600, 1).astype("f"),
               "colour": words[r.randint(0, 5, (600, 1))]}
    y = r.randint(0, 2, 600)
    inputs = {"age": tf.keras.Input([1], name="age"), "size": tf.keras.Input([1], name="size"),
              "colour": tf.keras.Input([1], dtype="string", name="colour")}
    size = K.Normalization(axis=None)
    size.adapt(columns["size"])
    parts = [K.CategoryEncoding(5, output_mode="one_hot")(K.Discretization([18.0, 30.0, 45.0, 60.0])(inputs["age"])),
             size(inputs["size"]), K.StringLookup(vocabulary=words.tolist(), output_mode="one_hot")(inputs["colour"])]
    prepare = tf.keras.Model(inputs, K.concatenate(parts))
    data = tf.data.Dataset.from_tensor_slices((columns, y)).batch(50).map(lambda x, y: (prepare(x), y)).prefetch(2)
    net = tf.keras.Sequential([tf.keras.Input([12]), K.Dense(16, activation="relu"), K.Dense(1, activation="sigmoid")])
    net.compile("adam", "binary_crossentropy")
    return lambda: net.fit(data, epochs=1, verbose=0).history["loss"][-1]


@workload
def depthwise_small_batches(tf):
    """Inference of a detector's backbone for one image at a time: depthwise convolutions, squeeze and excitation."""
    K = tf.keras.layers
    i = tf.keras.Input([96, 96, 3])
    h = K.Activation("swish")(K.BatchNormalization()(K.Conv2D(16, 3, 2, padding="same", use_bias=False)(i)))
    for width, stride in ((24, 2), (24, 1), (40, 2), (40, 1)):
        z = K.Activation("swish")(K.BatchNormalization()(K.Conv2D(4 * h.shape[-1], 1, use_bias=False)(h)))
        z = K.Activation("swish")(K.BatchNormalization()(K.DepthwiseConv2D(5, stride, padding="same", use_bias=False)(z)))
        s = K.GlobalAveragePooling2D(keepdims=True)(z)
        z = z * K.Conv2D(z.shape[-1], 1, activation="sigmoid")(K.Conv2D(8, 1, activation="swish")(s))
        z = K.BatchNormalization()(K.Conv2D(width, 1, use_bias=False)(z))
        h = K.add([z, h]) if stride == 1 else z
    net = tf.keras.Model(i, h)
    run = tf.function(lambda x: net(x, training=False))
    x = tf.constant(normal(1, 96, 96, 3))
    return lambda: float(tf.reduce_sum(run(x)))


@workload
def metrics_evaluate_cnn(tf):
    """`evaluate` of a CNN on arrays with top-k accuracy and a confusion matrix that a metric keeps."""
    K = tf.keras.layers
    x, y = normal(256, 28, 28, 1), ids(10, 256)
    net = tf.keras.Sequential([tf.keras.Input([28, 28, 1]), K.Conv2D(16, 3, activation="relu"), K.MaxPooling2D(),
                               K.Conv2D(32, 3, activation="relu"), K.AveragePooling2D(2), K.Flatten(),
                               K.Dense(10, activation="softmax")])
    net.compile("adam", "sparse_categorical_crossentropy",
                metrics=[tf.keras.metrics.SparseTopKCategoricalAccuracy(3), "accuracy"])
    return lambda: net.evaluate(x, y, batch_size=64, verbose=0)[0]
