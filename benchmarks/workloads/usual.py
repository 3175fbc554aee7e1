"""Programs as tutorials and courses write them: `fit` with callbacks, models with a `train_step`, eager loops, agents, text and
tables through preprocessing layers, transfer learning, `predict` on single rows, 1.x sessions with feeds and hooks."""
from __future__ import annotations

import os
import tempfile

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def normal(*dims, seed=0):
    return np.random.RandomState(seed).randn(*dims).astype("f")


def ids(high, *dims, seed=0, low=0):
    return np.random.RandomState(seed).randint(low, high, dims)


def last(history):
    """The last loss of a `fit`."""
    return float(history.history["loss"][-1])


# fit

@workload
def mlp_fit_numpy(tf):
    """The first tutorial: a dense network with dropout, batches of 32 arrays, accuracy and a validation split."""
    K = tf.keras.layers
    model = tf.keras.Sequential([tf.keras.Input([28, 28]), K.Flatten(), K.Dense(128, activation="relu"), K.Dropout(0.2),
                                 K.Dense(10, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    x, y = normal(1280, 28, 28), ids(10, 1280)
    return lambda: last(model.fit(x, y, epochs=1, validation_split=0.2, verbose=0))


@workload
def cnn_fit_mnist(tf):
    """Keras's convolution network for digits: two convolutions, poolings, dropout; batches of 64, one-hot labels."""
    K = tf.keras.layers
    model = tf.keras.Sequential([
        tf.keras.Input([28, 28, 1]), K.Conv2D(32, 3, activation="relu"), K.MaxPooling2D(2), K.Conv2D(64, 3, activation="relu"),
        K.MaxPooling2D(2), K.Flatten(), K.Dropout(0.5), K.Dense(10, activation="softmax")])
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
    x, y = normal(512, 28, 28, 1), np.eye(10, dtype="f")[ids(10, 512)]
    return lambda: last(model.fit(x, y, batch_size=64, epochs=1, verbose=0))


@workload
def lstm_forecast_fit(tf):
    """A forecast of a series: windows of 30, two LSTM layers with dropout, EarlyStopping and validation data."""
    K = tf.keras.layers
    series = np.sin(np.arange(700) / 9.0).astype("f") + 0.1 * normal(700)
    x = np.stack([series[i:i + 30] for i in range(640)])[..., None]
    y = series[30:670]
    model = tf.keras.Sequential([tf.keras.Input([30, 1]), K.LSTM(50, return_sequences=True), K.Dropout(0.2), K.LSTM(50),
                                 K.Dropout(0.2), K.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"])
    stop = tf.keras.callbacks.EarlyStopping("val_loss", patience=100)
    return lambda: last(model.fit(x[:512], y[:512], batch_size=32, epochs=1, validation_data=(x[512:], y[512:]),
                                  callbacks=[stop], verbose=0))


@workload
def autoencoder_anomaly(tf):
    """An autoencoder of sensor rows: a short `fit`, then `predict`, and the rows above a threshold."""
    K = tf.keras.layers
    model = tf.keras.Sequential([
        tf.keras.Input([64]), K.Dense(32, activation="relu"), K.BatchNormalization(), K.Dense(8, activation="relu"),
        K.Dense(32, activation="relu"), K.BatchNormalization(), K.Dense(64, activation="sigmoid")])
    model.compile("adam", "mae")
    x = normal(1024, 64)

    def call():
        model.fit(x, x, epochs=1, batch_size=128, verbose=0)
        errors = np.mean(np.abs(model.predict(x, verbose=0) - x), 1)
        return float(np.sum(errors > np.percentile(errors, 95)))
    return call


@workload
def ratings_embedding_fit(tf):
    """Collaborative filtering: embeddings of users and movies, their dot product with biases, batches of 64 pairs."""
    K = tf.keras.layers
    user, movie = tf.keras.Input([1]), tf.keras.Input([1])

    def rows(size, width, x):
        return K.Flatten()(K.Embedding(size, width, embeddings_regularizer=tf.keras.regularizers.L2(1e-6))(x))
    score = K.Dot(1)([rows(6000, 50, user), rows(4000, 50, movie)])
    out = K.Activation("sigmoid")(K.Add()([score, rows(6000, 1, user), rows(4000, 1, movie)]))
    model = tf.keras.Model([user, movie], out)
    model.compile(tf.keras.optimizers.Adam(1e-3), "binary_crossentropy")
    x, y = [ids(6000, 1280, 1), ids(4000, 1280, 1, seed=1)], np.random.RandomState(0).rand(1280).astype("f")
    return lambda: last(model.fit(x, y, batch_size=64, epochs=1, verbose=0))


@workload
def residual_augmented_fit(tf):
    """A small residual network on 32×32 images from a dataset with random crops and flips, and a schedule of rates."""
    K = tf.keras.layers

    def block(x, width, stride):
        y = K.ReLU()(K.BatchNormalization()(K.Conv2D(width, 3, stride, "same", use_bias=False)(x)))
        y = K.BatchNormalization()(K.Conv2D(width, 3, 1, "same", use_bias=False)(y))
        if stride > 1:
            x = K.Conv2D(width, 1, stride, use_bias=False)(x)
        return K.ReLU()(K.Add()([x, y]))
    inputs = tf.keras.Input([32, 32, 3])
    x = K.ReLU()(K.BatchNormalization()(K.Conv2D(16, 3, 1, "same", use_bias=False)(inputs)))
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        x = block(x, width, stride)
    model = tf.keras.Model(inputs, K.Dense(10)(K.GlobalAveragePooling2D()(x)))
    rates = tf.keras.optimizers.schedules.PiecewiseConstantDecay([1000, 2000], [0.1, 0.01, 0.001])
    model.compile(tf.keras.optimizers.SGD(rates, momentum=0.9, nesterov=True),
                  tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])

    def changed(image, label):
        image = tf.image.resize_with_crop_or_pad(tf.cast(image, tf.float32) / 255.0, 40, 40)
        return tf.image.random_flip_left_right(tf.image.random_crop(image, [32, 32, 3])), label
    data = tf.data.Dataset.from_tensor_slices((ids(256, 256, 32, 32, 3).astype(np.uint8), ids(10, 256)))
    data = data.shuffle(256).map(changed, num_parallel_calls=tf.data.AUTOTUNE).batch(64).prefetch(tf.data.AUTOTUNE)
    return lambda: last(model.fit(data, epochs=1, verbose=0))


@workload
def transfer_frozen_base(tf):
    """Transfer learning: random flips and rotations, a frozen MobileNetV2, and a head that is trained."""
    K, keras = tf.keras.layers, tf.keras
    base = keras.applications.MobileNetV2((96, 96, 3), alpha=0.5, include_top=False, weights=None)
    base.trainable = False
    inputs = keras.Input([96, 96, 3])
    x = K.RandomRotation(0.1)(K.RandomFlip("horizontal")(inputs))
    x = base(K.Rescaling(1 / 127.5, -1)(x), training=False)
    model = keras.Model(inputs, K.Dense(1)(K.Dropout(0.2)(K.GlobalAveragePooling2D()(x))))
    model.compile(keras.optimizers.Adam(1e-4), keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
    data = tf.data.Dataset.from_tensor_slices((ids(256, 64, 96, 96, 3).astype("f"), ids(2, 64, 1))).batch(16)
    return lambda: last(model.fit(data, epochs=1, verbose=0))


@workload
def transfer_fine_tuned(tf):
    """Fine tuning of the last blocks of a MobileNetV2 whose batch norms are in inference mode."""
    K, keras = tf.keras.layers, tf.keras
    base = keras.applications.MobileNetV2((96, 96, 3), alpha=0.5, include_top=False, weights=None)
    for layer in base.layers[:100]:
        layer.trainable = False
    inputs = keras.Input([96, 96, 3])
    model = keras.Model(inputs, K.Dense(5)(K.GlobalAveragePooling2D()(base(inputs, training=False))))
    model.compile(keras.optimizers.RMSprop(1e-5), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = normal(32, 96, 96, 3), ids(5, 32)
    return lambda: last(model.fit(x, y, batch_size=16, epochs=1, verbose=0))


@workload
def causal_series_fit(tf):
    """Windows of a table by `timeseries_dataset_from_array`, dilated causal convolutions, a Huber loss."""
    K = tf.keras.layers
    table = normal(600, 7)
    data = tf.keras.utils.timeseries_dataset_from_array(table[:-24], table[24:, :1], 48, batch_size=32, shuffle=True)
    model = tf.keras.Sequential([tf.keras.Input([48, 7])] + [
        K.Conv1D(32, 3, padding="causal", dilation_rate=2 ** i, activation="relu") for i in range(4)] + [
        K.GlobalAveragePooling1D(), K.Dense(1)])
    model.compile("adam", tf.keras.losses.Huber(), metrics=["mae"])
    return lambda: last(model.fit(data, epochs=1, verbose=0))


# models with a train_step

@workload
def gan_model_fit(tf):
    """A GAN as a Model with two optimizers, metrics and a `train_step`, trained by `fit`."""
    K, keras = tf.keras.layers, tf.keras
    critic = keras.Sequential([
        keras.Input([28, 28, 1]), K.Conv2D(32, 3, 2, "same"), K.LeakyReLU(), K.Conv2D(64, 3, 2, "same"), K.LeakyReLU(),
        K.GlobalMaxPooling2D(), K.Dense(1)])
    maker = keras.Sequential([
        keras.Input([64]), K.Dense(7 * 7 * 32), K.LeakyReLU(), K.Reshape([7, 7, 32]), K.Conv2DTranspose(32, 4, 2, "same"),
        K.LeakyReLU(), K.Conv2DTranspose(32, 4, 2, "same"), K.LeakyReLU(),
        K.Conv2D(1, 7, padding="same", activation="sigmoid")])

    class GAN(keras.Model):
        def __init__(self):
            super().__init__()
            self.critic, self.maker = critic, maker
            self.one, self.two = keras.metrics.Mean("d_loss"), keras.metrics.Mean("loss")

        def compile(self, d_optimizer, g_optimizer, loss_fn):
            super().compile()
            self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss_fn

        @property
        def metrics(self):
            return [self.one, self.two]

        def train_step(self, real):
            n = tf.shape(real)[0]
            made = self.maker(tf.random.normal([n, 64]))
            labels = tf.concat([tf.ones([n, 1]), tf.zeros([n, 1])], 0)
            labels += 0.05 * tf.random.uniform(tf.shape(labels))
            with tf.GradientTape() as tape:
                d_loss = self.loss_fn(labels, self.critic(tf.concat([made, real], 0)))
            weights = self.critic.trainable_weights
            self.d_optimizer.apply_gradients(zip(tape.gradient(d_loss, weights), weights))
            with tf.GradientTape() as tape:
                g_loss = self.loss_fn(tf.zeros([n, 1]), self.critic(self.maker(tf.random.normal([n, 64]))))
            weights = self.maker.trainable_weights
            self.g_optimizer.apply_gradients(zip(tape.gradient(g_loss, weights), weights))
            self.one.update_state(d_loss)
            self.two.update_state(g_loss)
            return {m.name: m.result() for m in self.metrics}
    gan = GAN()
    gan.compile(keras.optimizers.Adam(3e-4), keras.optimizers.Adam(3e-4), keras.losses.BinaryCrossentropy(from_logits=True))
    data = tf.data.Dataset.from_tensor_slices(np.random.RandomState(0).rand(128, 28, 28, 1).astype("f")).shuffle(128).batch(32)
    return lambda: last(gan.fit(data, epochs=1, verbose=0))


@workload
def vae_train_step(tf):
    """A variational autoencoder with a sampling layer, three metrics and a `train_step`, trained by `fit`."""
    K, keras = tf.keras.layers, tf.keras
    inputs = keras.Input([28, 28, 1])
    x = K.Conv2D(32, 3, 2, "same", activation="relu")(inputs)
    x = K.Dense(16, activation="relu")(K.Flatten()(K.Conv2D(64, 3, 2, "same", activation="relu")(x)))
    encoder = keras.Model(inputs, [K.Dense(2)(x), K.Dense(2)(x)])
    code = keras.Input([2])
    x = K.Conv2DTranspose(64, 3, 2, "same", activation="relu")(K.Reshape([7, 7, 64])(K.Dense(7 * 7 * 64, "relu")(code)))
    x = K.Conv2DTranspose(32, 3, 2, "same", activation="relu")(x)
    decoder = keras.Model(code, K.Conv2DTranspose(1, 3, padding="same", activation="sigmoid")(x))

    class VAE(keras.Model):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = encoder, decoder
            self.seen = [keras.metrics.Mean(name) for name in ("loss", "reconstruction", "kl")]

        @property
        def metrics(self):
            return self.seen

        def train_step(self, data):
            with tf.GradientTape() as tape:
                mean, log_var = self.encoder(data)
                z = mean + tf.exp(0.5 * log_var) * tf.random.normal(tf.shape(mean))
                made = self.decoder(z)
                fit = tf.reduce_mean(tf.reduce_sum(keras.losses.binary_crossentropy(data, made), (1, 2)))
                kl = tf.reduce_mean(tf.reduce_sum(-0.5 * (1 + log_var - tf.square(mean) - tf.exp(log_var)), 1))
                loss = fit + kl
            self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_weights), self.trainable_weights))
            for metric, value in zip(self.seen, (loss, fit, kl)):
                metric.update_state(value)
            return {m.name: m.result() for m in self.metrics}
    vae = VAE()
    vae.compile(keras.optimizers.Adam())
    x = np.random.RandomState(0).rand(256, 28, 28, 1).astype("f")
    return lambda: last(vae.fit(x, epochs=1, batch_size=64, verbose=0))


@workload
def retrieval_two_towers(tf):
    """Retrieval: StringLookup and Embedding towers, in-batch softmax, Adagrad, a `train_step` over dictionaries."""
    K, keras = tf.keras.layers, tf.keras
    users, movies = [str(i) for i in range(900)], [f"film {i}" for i in range(1600)]

    class Retrieval(keras.Model):
        def __init__(self):
            super().__init__()
            self.user = keras.Sequential([K.Embedding(901, 32), K.Dense(32)])
            self.movie = keras.Sequential([K.Embedding(1601, 32), K.Dense(32)])
            self.mean = keras.metrics.Mean("loss")

        def train_step(self, row):
            with tf.GradientTape() as tape:
                scores = tf.matmul(self.user(row["user"]), self.movie(row["movie"]), transpose_b=True)
                labels = tf.eye(tf.shape(scores)[0])
                loss = tf.reduce_sum(keras.losses.categorical_crossentropy(labels, scores, from_logits=True))
            self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
            self.mean.update_state(loss)
            return {"loss": self.mean.result()}
    user_ids, movie_ids = K.StringLookup(vocabulary=users), K.StringLookup(vocabulary=movies)
    rows = {"user": np.array(users)[ids(900, 2048)], "movie": np.array(movies)[ids(1600, 2048, seed=1)]}
    data = tf.data.Dataset.from_tensor_slices(rows).shuffle(2048).batch(256).map(
        lambda row: {"user": user_ids(row["user"]), "movie": movie_ids(row["movie"])})
    model = Retrieval()
    model.compile(keras.optimizers.Adagrad(0.1))
    return lambda: last(model.fit(data, epochs=1, verbose=0))


@workload
def triplet_siamese(tf):
    """A siamese network of images with a triplet loss, a Mean metric and a `train_step`."""
    K, keras = tf.keras.layers, tf.keras
    embed = keras.Sequential([
        keras.Input([32, 32, 3]), K.Conv2D(32, 3, activation="relu"), K.MaxPooling2D(), K.Conv2D(64, 3, activation="relu"),
        K.BatchNormalization(), K.MaxPooling2D(), K.Flatten(), K.Dense(128, activation="relu"), K.Dense(64)])

    class Siamese(keras.Model):
        def __init__(self):
            super().__init__()
            self.embed, self.mean = embed, keras.metrics.Mean("loss")

        def call(self, images):
            a, p, n = (self.embed(x) for x in images)
            return tf.reduce_sum(tf.square(a - p), -1), tf.reduce_sum(tf.square(a - n), -1)

        def train_step(self, images):
            with tf.GradientTape() as tape:
                near, far = self(images)
                loss = tf.maximum(near - far + 0.5, 0.0)
            weights = self.embed.trainable_weights
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
            self.mean.update_state(loss)
            return {"loss": self.mean.result()}
    model = Siamese()
    model.compile(keras.optimizers.Adam(1e-4))
    data = tf.data.Dataset.zip(tuple(tf.data.Dataset.from_tensor_slices(normal(96, 32, 32, 3, seed=i)) for i in range(3)))
    data = data.batch(32).prefetch(2)
    return lambda: last(model.fit(data, epochs=1, verbose=0))


# text and tables

@workload
def reviews_text_fit(tf):
    """TextVectorization in the dataset, masked embeddings, a bidirectional GRU; batches of 32 reviews."""
    K = tf.keras.layers
    words = np.array([f"word{i}" for i in range(2000)])
    texts = [" ".join(words[ids(2000, n, seed=i)]) + "!" for i, n in enumerate(ids(60, 192, low=10))]
    vectorize = K.TextVectorization(1000, output_sequence_length=50)
    vectorize.adapt(texts)
    data = tf.data.Dataset.from_tensor_slices((texts, ids(2, 192))).batch(32).map(lambda t, y: (vectorize(t), y)).prefetch(1)
    model = tf.keras.Sequential([K.Embedding(1000, 32, mask_zero=True), K.Bidirectional(K.GRU(32)),
                                 K.Dense(32, activation="relu"), K.Dense(1)])
    model.compile("adam", tf.keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
    return lambda: last(model.fit(data, epochs=1, verbose=0))


@workload
def wide_deep_strings(tf):
    """A table of strings and numbers: StringLookup, Hashing, Discretization, Normalization, a wide and a deep part."""
    K, keras = tf.keras.layers, tf.keras
    n, cities = 640, [f"city{i}" for i in range(50)]
    rows = {"city": np.array(cities)[ids(50, n)][:, None], "user": np.array([f"u{i}" for i in ids(5000, n)])[:, None],
            "age": (40 + 10 * normal(n, 1)), "pay": normal(n, 1, seed=2)}
    inputs = {name: keras.Input([1], name=name, dtype="string" if column.dtype.kind == "U" else "float32")
              for name, column in rows.items()}
    scaled = K.Normalization()
    scaled.adapt(rows["pay"])
    city = K.StringLookup(vocabulary=cities, output_mode="one_hot")(inputs["city"])
    user = K.Flatten()(K.Embedding(1000, 16)(K.Hashing(1000)(inputs["user"])))
    age = K.CategoryEncoding(6, "one_hot")(K.Discretization([20.0, 30.0, 40.0, 50.0, 60.0])(inputs["age"]))
    deep = K.Concatenate()([user, scaled(inputs["pay"]), age])
    for width in (64, 32):
        deep = K.Dropout(0.1)(K.BatchNormalization()(K.Dense(width, activation="relu")(deep)))
    out = K.Dense(1, activation="sigmoid")(K.Concatenate()([K.Concatenate()([city, age]), deep]))
    model = keras.Model(inputs, out)
    model.compile("adam", "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC()])
    data = tf.data.Dataset.from_tensor_slices((rows, ids(2, n, 1))).shuffle(n).batch(64)
    return lambda: last(model.fit(data, epochs=1, verbose=0))


@workload
def transformer_translation_fit(tf):
    """An encoder and a decoder of Keras's attention layers with masks of padding, masked loss and accuracy, rising rates."""
    K, keras = tf.keras.layers, tf.keras
    width, heads = 64, 4

    class Positions(K.Layer):
        def __init__(self, size):
            super().__init__()
            self.tokens, self.places = K.Embedding(size, width, mask_zero=True), K.Embedding(40, width)

        def compute_mask(self, x, mask=None):
            return self.tokens.compute_mask(x)

        def call(self, x):
            return self.tokens(x) * 8.0 + self.places(tf.range(tf.shape(x)[1]))

    def attended(x, other, causal=False):
        y = K.MultiHeadAttention(heads, width // heads, dropout=0.1)(x, other, use_causal_mask=causal)
        return K.LayerNormalization()(K.Add()([x, y]))

    def forward(x):
        return K.LayerNormalization()(K.Add()([x, K.Dropout(0.1)(K.Dense(width)(K.Dense(128, activation="relu")(x)))]))
    source, target = keras.Input([None], dtype="int64"), keras.Input([None], dtype="int64")
    x, y = Positions(600)(source), Positions(500)(target)
    for _ in range(2):
        x = forward(attended(x, x))
    for _ in range(2):
        y = forward(attended(attended(y, y, causal=True), x))
    model = keras.Model([source, target], K.Dense(500)(y))

    class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            step = tf.cast(step, tf.float32)
            return 0.125 * tf.minimum(tf.math.rsqrt(step + 1.0), step * 4000 ** -1.5)

    def masked_loss(label, pred):
        mask = label != 0
        loss = keras.losses.sparse_categorical_crossentropy(label, pred, from_logits=True)
        mask = tf.cast(mask, loss.dtype)
        return tf.reduce_sum(loss * mask) / tf.reduce_sum(mask)

    def masked_accuracy(label, pred):
        match = (tf.cast(label, tf.int64) == tf.argmax(pred, 2)) & (label != 0)
        return tf.reduce_sum(tf.cast(match, tf.float32)) / tf.reduce_sum(tf.cast(label != 0, tf.float32))
    model.compile(keras.optimizers.Adam(WarmUp(), beta_2=0.98, epsilon=1e-9), masked_loss, metrics=[masked_accuracy])

    def sentences(size, seed):
        table = ids(size, 128, 24, seed=seed, low=1)
        return table * (np.arange(24) < ids(25, 128, 1, seed=seed + 1, low=8))
    a, b = sentences(600, 0), sentences(500, 2)
    data = tf.data.Dataset.from_tensor_slices(((a, b[:, :-1]), b[:, 1:])).batch(32)
    return lambda: last(model.fit(data, epochs=1, verbose=0))


# loops of one's own

@workload
def linear_regression_eager(tf):
    """Twenty eager steps of a line through 1,000 points, without optimizer and tf.function."""
    x = tf.constant(normal(1000, 1))
    y = 3.0 * x + 2.0 + 0.1 * tf.constant(normal(1000, 1, seed=1))
    w, b = tf.Variable(5.0), tf.Variable(0.0)

    def call():
        for _ in range(20):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(y - (w * x + b)))
            dw, db = tape.gradient(loss, [w, b])
            w.assign_sub(0.1 * dw)
            b.assign_sub(0.1 * db)
        return float(loss)
    return call


@workload
def keras_loop_eager(tf):
    """An eager loop over a dataset: tape, optimizer, loss and two metrics, batches of 32."""
    K, keras = tf.keras.layers, tf.keras
    model = keras.Sequential([keras.Input([20]), K.Dense(64, activation="relu"), K.Dense(64, activation="relu"), K.Dense(3)])
    loss_fn, opt = keras.losses.SparseCategoricalCrossentropy(from_logits=True), keras.optimizers.Adam()
    mean, accuracy = keras.metrics.Mean(), keras.metrics.SparseCategoricalAccuracy()
    data = tf.data.Dataset.from_tensor_slices((normal(256, 20), ids(3, 256))).shuffle(256).batch(32)

    def call():
        mean.reset_state()
        accuracy.reset_state()
        for x, y in data:
            with tf.GradientTape() as tape:
                scores = model(x, training=True)
                loss = loss_fn(y, scores)
            grads = tape.gradient(loss, model.trainable_variables)
            opt.apply_gradients(zip(grads, model.trainable_variables))
            mean(loss)
            accuracy(y, scores)
        return float(mean.result())
    return call


@workload
def function_loop_metrics(tf):
    """The expert's quickstart: a subclassed CNN, train and test steps as tf.functions with metrics, a short last batch."""
    K, keras = tf.keras.layers, tf.keras

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.conv, self.flat = K.Conv2D(32, 3, activation="relu"), K.Flatten()
            self.one, self.two = K.Dense(128, activation="relu"), K.Dense(10)

        def call(self, x):
            return self.two(self.one(self.flat(self.conv(x))))
    model, opt = Net(), keras.optimizers.Adam()
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    names = [keras.metrics.Mean(), keras.metrics.SparseCategoricalAccuracy(), keras.metrics.Mean(),
             keras.metrics.SparseCategoricalAccuracy()]

    @tf.function
    def train(x, y):
        with tf.GradientTape() as tape:
            scores = model(x, training=True)
            loss = loss_fn(y, scores)
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        names[0](loss)
        names[1](y, scores)

    @tf.function
    def test(x, y):
        scores = model(x, training=False)
        names[2](loss_fn(y, scores))
        names[3](y, scores)
    data = tf.data.Dataset.from_tensor_slices((normal(80, 28, 28, 1), ids(10, 80)))
    training, testing = data.shuffle(1000).batch(32), data.batch(32)

    def call():
        for metric in names:
            metric.reset_state()
        for x, y in training:
            train(x, y)
        for x, y in testing:
            test(x, y)
        return float(names[0].result())
    return call


@workload
def accumulation_eager_outer(tf):
    """Gradients of four small batches by a tf.function, added up eagerly, clipped and applied."""
    K, keras = tf.keras.layers, tf.keras
    model = keras.Sequential([keras.Input([32, 16]), K.Conv1D(32, 3, activation="gelu"), K.LayerNormalization(),
                              K.GlobalAveragePooling1D(), K.Dense(64, activation="gelu"), K.Dense(4)])
    opt, loss_fn = keras.optimizers.AdamW(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    batches = [(tf.constant(normal(8, 32, 16, seed=i)), tf.constant(ids(4, 8, seed=i))) for i in range(4)]

    @tf.function
    def gradients(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        return loss, tape.gradient(loss, model.trainable_variables)

    def call():
        total, summed = 0.0, [tf.zeros_like(v) for v in model.trainable_variables]
        for x, y in batches:
            loss, grads = gradients(x, y)
            summed = [a + g / 4.0 for a, g in zip(summed, grads)]
            total += float(loss)
        summed, _ = tf.clip_by_global_norm(summed, 1.0)
        opt.apply_gradients(zip(summed, model.trainable_variables))
        return total
    return call


@workload
def meta_learning_steps(tf):
    """Model-agnostic meta-learning of sinusoids: an inner step in a tape, the outer gradient through it, eight tasks."""
    shapes = [(1, 40), (40,), (40, 40), (40,), (40, 1), (1,)]
    weights = [tf.Variable(0.3 * normal(*s, seed=i)) for i, s in enumerate(shapes)]
    opt = tf.keras.optimizers.Adam(1e-3)

    def forward(x, w):
        return tf.nn.relu(tf.nn.relu(x @ w[0] + w[1]) @ w[2] + w[3]) @ w[4] + w[5]

    @tf.function
    def step(x, y, qx, qy):
        with tf.GradientTape() as outer:
            total = 0.0
            for task in range(8):
                with tf.GradientTape() as inner:
                    loss = tf.reduce_mean((forward(x[task], weights) - y[task]) ** 2)
                fast = [w - 0.01 * g for w, g in zip(weights, inner.gradient(loss, weights))]
                total += tf.reduce_mean((forward(qx[task], fast) - qy[task]) ** 2)
        opt.apply_gradients(zip(outer.gradient(total, weights), weights))
        return total
    data = [tf.constant(normal(8, 10, 1, seed=i)) for i in range(4)]
    return lambda: float(step(*data))


@workload
def open_lengths_function(tf):
    """Stacked bidirectional GRUs with Masking in a tf.function of open shapes, called with four lengths in turns."""
    K, keras = tf.keras.layers, tf.keras
    model = keras.Sequential([keras.Input([None, 12]), K.Masking(), K.Bidirectional(K.GRU(32, return_sequences=True)),
                              K.Bidirectional(K.GRU(32)), K.Dense(5)])
    opt, loss_fn = keras.optimizers.RMSprop(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(input_signature=[tf.TensorSpec([None, None, 12]), tf.TensorSpec([None], tf.int64)])
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss
    batches = []
    for seed, length in enumerate((12, 20, 17, 9)):
        x = normal(16, length, 12, seed=seed)
        x[::2, length - 4:] = 0.0
        batches.append((tf.constant(x), tf.constant(ids(5, 16, seed=seed))))
    return lambda: sum(float(step(x, y)) for x, y in batches)


@workload
def translation_words_attention(tf):
    """Sequence to sequence with additive attention: a GRU encoder, a decoder cell called for each word, in a tf.function."""
    K, keras = tf.keras.layers, tf.keras
    embed, encoder = K.Embedding(800, 32), K.GRU(48, return_sequences=True, return_state=True)
    words, cell, out = K.Embedding(700, 32), K.GRU(48, return_state=True), K.Dense(700)
    w1, w2, v = K.Dense(32), K.Dense(32), K.Dense(1)
    opt = keras.optimizers.Adam()
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    @tf.function
    def step(source, target):
        loss = 0.0
        with tf.GradientTape() as tape:
            seen, state = encoder(embed(source))
            for t in range(1, target.shape[1]):
                scores = v(tf.nn.tanh(w1(seen) + w2(state)[:, None]))
                context = tf.reduce_sum(tf.nn.softmax(scores, 1) * seen, 1)
                x = tf.concat([context[:, None], words(target[:, t - 1:t])], -1)
                y, state = cell(x, initial_state=state)
                each = loss_fn(target[:, t], out(y))
                loss += tf.reduce_mean(each * tf.cast(target[:, t] != 0, each.dtype))
        layers = (embed, encoder, words, cell, out, w1, w2, v)
        weights = [w for layer in layers for w in layer.trainable_variables]
        opt.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss
    source, target = tf.constant(ids(800, 32, 12)), tf.constant(ids(700, 32, 10, seed=1))
    return lambda: float(step(source, target))


@workload
def pix2pix_step(tf):
    """A U-Net that translates images and a patch critic: strided and transposed convolutions, batch norm, two tapes."""
    K, keras = tf.keras.layers, tf.keras

    def down(x, width, norm=True):
        x = K.Conv2D(width, 4, 2, "same", use_bias=False)(x)
        return K.LeakyReLU()(K.BatchNormalization()(x) if norm else x)

    def up(x, width, skip):
        x = K.BatchNormalization()(K.Conv2DTranspose(width, 4, 2, "same", use_bias=False)(x))
        return K.Concatenate()([K.ReLU()(K.Dropout(0.5)(x)), skip])
    inputs = keras.Input([64, 64, 3])
    a = down(inputs, 16, norm=False)
    b = down(a, 32)
    c = down(b, 64)
    x = up(up(down(c, 64), 64, c), 32, b)
    maker = keras.Model(inputs, K.Conv2DTranspose(3, 4, 2, "same", activation="tanh")(up(x, 16, a)))
    other = keras.Input([64, 64, 3])
    critic = keras.Model([inputs, other], K.Conv2D(1, 4)(down(down(K.Concatenate()([inputs, other]), 32, norm=False), 64)))
    bce = keras.losses.BinaryCrossentropy(from_logits=True)
    first, second = keras.optimizers.Adam(2e-4, beta_1=0.5), keras.optimizers.Adam(2e-4, beta_1=0.5)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as g_tape, tf.GradientTape() as d_tape:
            made = maker(x, training=True)
            real, fake = critic([x, y], training=True), critic([x, made], training=True)
            g_loss = bce(tf.ones_like(fake), fake) + 100.0 * tf.reduce_mean(tf.abs(y - made))
            d_loss = bce(tf.ones_like(real), real) + bce(tf.zeros_like(fake), fake)
        first.apply_gradients(zip(g_tape.gradient(g_loss, maker.trainable_variables), maker.trainable_variables))
        second.apply_gradients(zip(d_tape.gradient(d_loss, critic.trainable_variables), critic.trainable_variables))
        return g_loss
    x, y = tf.constant(normal(4, 64, 64, 3)), tf.constant(normal(4, 64, 64, 3, seed=1))
    return lambda: float(step(x, y))


# agents

@workload
def dqn_predict_and_fit(tf):
    """Deep Q-learning as in courses: `predict` for each observation, a replay buffer, `train_on_batch`, a target network."""
    K, keras = tf.keras.layers, tf.keras

    def network():
        return keras.Sequential([keras.Input([4]), K.Dense(24, activation="relu"), K.Dense(24, activation="relu"), K.Dense(2)])
    online, target = network(), network()
    online.compile(keras.optimizers.Adam(1e-3), "mse")
    random, memory = np.random.RandomState(0), []

    def call():
        state = random.randn(4).astype("f")
        for _ in range(6):
            action = int(np.argmax(online.predict(state[None], verbose=0)[0]))
            new = 0.9 * state + 0.1 * action + 0.1 * random.randn(4).astype("f")
            memory.append((state, action, float(-abs(new).sum()), new))
            state = new
        rows = [memory[i] for i in random.randint(0, len(memory), 32)]
        states, actions, rewards, following = (np.array(column, "f") for column in zip(*rows))
        goals = online.predict(states, verbose=0)
        goals[np.arange(32), actions.astype(int)] = rewards + 0.99 * target.predict(following, verbose=0).max(1)
        loss = online.train_on_batch(states, goals)
        target.set_weights(online.get_weights())
        return float(np.ravel(loss)[0])
    return call


@workload
def actor_critic_episode(tf):
    """An episode of a pole in a loop of a tf.function with TensorArrays, discounted returns, and gradients of both losses."""
    K, keras = tf.keras.layers, tf.keras
    common, actor, critic = K.Dense(128, activation="relu"), K.Dense(2), K.Dense(1)
    opt, huber = keras.optimizers.Adam(0.01), keras.losses.Huber(reduction="sum")

    def move(s, action):
        force = 10.0 * (2.0 * tf.cast(action, tf.float32) - 1.0)
        x, v, angle, speed = tf.unstack(s)
        pull = (force + 0.05 * speed ** 2 * tf.sin(angle)) / 1.1
        turn = (9.8 * tf.sin(angle) - tf.cos(angle) * pull) / (0.5 * (4 / 3 - 0.1 * tf.cos(angle) ** 2 / 1.1))
        return tf.stack([x + 0.02 * v, v + 0.02 * pull, angle + 0.02 * speed, speed + 0.02 * turn])

    @tf.function
    def step(state):
        with tf.GradientTape() as tape:
            logs, values = tf.TensorArray(tf.float32, 0, True), tf.TensorArray(tf.float32, 0, True)
            rewards = tf.TensorArray(tf.float32, 0, True)
            for t in tf.range(50):
                h = common(state[None])
                scores = actor(h)
                action = tf.random.categorical(scores, 1)[0, 0]
                values = values.write(t, tf.squeeze(critic(h)))
                logs = logs.write(t, tf.nn.softmax(scores)[0, action])
                state = move(state, action)
                state.set_shape([4])
                rewards = rewards.write(t, 1.0)
                if tf.abs(state[2]) > 3.0:
                    break
            logs, values, rewards = logs.stack(), values.stack(), rewards.stack()
            returns, total = tf.TensorArray(tf.float32, tf.shape(rewards)[0]), tf.constant(0.0)
            backward = rewards[::-1]
            for i in tf.range(tf.shape(rewards)[0]):
                total = backward[i] + 0.99 * total
                total.set_shape([])
                returns = returns.write(i, total)
            returns = returns.stack()[::-1]
            returns = (returns - tf.reduce_mean(returns)) / (tf.math.reduce_std(returns) + 1e-6)
            loss = -tf.reduce_sum(tf.math.log(logs) * (returns - values)) + huber(values, returns)
        weights = [w for layer in (common, actor, critic) for w in layer.trainable_variables]
        opt.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return tf.reduce_sum(rewards)
    start = tf.constant([0.0, 0.0, 0.01, 0.0])
    return lambda: float(step(start))


# inference

@workload
def predict_rows_one_by_one(tf):
    """`predict` on single rows in a loop."""
    K = tf.keras.layers
    model = tf.keras.Sequential([tf.keras.Input([16]), K.Dense(32, activation="relu"), K.Dense(3, activation="softmax")])
    rows = normal(8, 16)
    return lambda: sum(float(model.predict(row[None], verbose=0)[0, 0]) for row in rows)


@workload
def efficientnet_one(tf):
    """One image through EfficientNetB0 by calling the model eagerly."""
    model = tf.keras.applications.EfficientNetB0(weights=None, input_shape=(128, 128, 3), classes=10)
    x = tf.constant(255.0 * np.random.RandomState(0).rand(1, 128, 128, 3).astype("f"))
    return lambda: float(tf.reduce_max(model(x, training=False)))


@workload
def saliency_eager(tf):
    """Grad-CAM: an eager tape over a sub-model with two outputs, a weighted map, resized over the image."""
    K, keras = tf.keras.layers, tf.keras
    inputs = keras.Input([64, 64, 3])
    x = inputs
    for width in (16, 32, 64):
        x = K.MaxPooling2D()(K.Conv2D(width, 3, padding="same", activation="relu")(x))
    model = keras.Model(inputs, [x, K.Dense(10)(K.GlobalAveragePooling2D()(x))])
    image = tf.constant(normal(1, 64, 64, 3))

    def call():
        with tf.GradientTape() as tape:
            features, scores = model(image)
            top = scores[:, tf.argmax(scores[0])]
        weights = tf.reduce_mean(tape.gradient(top, features), (0, 1, 2))
        heat = tf.squeeze(features[0] @ weights[..., tf.newaxis])
        heat = tf.maximum(heat, 0) / (tf.reduce_max(heat) + 1e-6)
        return float(tf.reduce_sum(tf.image.resize(heat[..., None], [64, 64])))
    return call


# pipelines

@workload
def augmented_flowers(tf):
    """Random brightness, contrast, saturation, flips and crops of images in a shuffled dataset, read eagerly."""
    images = ids(256, 64, 72, 72, 3).astype(np.uint8)

    def augment(image, label):
        image = tf.image.convert_image_dtype(image, tf.float32)
        image = tf.image.random_crop(tf.image.resize(image, [80, 80]), [64, 64, 3])
        image = tf.image.random_saturation(tf.image.random_contrast(tf.image.random_brightness(image, 0.3), 0.7, 1.3), 0.7, 1.3)
        return tf.clip_by_value(tf.image.random_flip_left_right(image), 0.0, 1.0), label
    data = tf.data.Dataset.from_tensor_slices((images, ids(5, 64))).cache().shuffle(64)
    data = data.map(augment, num_parallel_calls=tf.data.AUTOTUNE).batch(16).prefetch(tf.data.AUTOTUNE)
    return lambda: float(sum(int(tf.reduce_sum(labels)) for _, labels in data))


@workload
def jpeg_directory(tf):
    """`image_dataset_from_directory` of 48 JPEG files in three classes, scaled by a layer in a map."""
    folder = tempfile.mkdtemp()
    for i in range(48):
        name = os.path.join(folder, f"class{i % 3}", f"{i}.jpg")
        os.makedirs(os.path.dirname(name), exist_ok=True)
        smooth = np.random.RandomState(i).randint(0, 256, (10, 12, 3)).repeat(24, 0).repeat(24, 1).astype(np.uint8)
        tf.io.write_file(name, tf.io.encode_jpeg(smooth))
    data = tf.keras.utils.image_dataset_from_directory(folder, image_size=(128, 128), batch_size=16, seed=1)
    scale = tf.keras.layers.Rescaling(1 / 255.0)
    data = data.map(lambda x, y: (scale(x), y)).prefetch(tf.data.AUTOTUNE)
    return lambda: float(sum(float(tf.reduce_mean(x)) for x, _ in data))


@workload
def records_padded_fit(tf):
    """TFRecords of examples with lists of ids, parsed one by one, padded batches, an average of embeddings; `fit`."""
    K = tf.keras.layers
    path = os.path.join(tempfile.mkdtemp(), "rows.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for i, n in enumerate(ids(20, 512, low=3)):
            feature = {"ids": tf.train.Feature(int64_list=tf.train.Int64List(value=ids(1000, n, seed=i, low=1).tolist())),
                       "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i % 2]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    spec = {"ids": tf.io.VarLenFeature(tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(record):
        row = tf.io.parse_single_example(record, spec)
        return tf.sparse.to_dense(row["ids"]), row["label"]
    data = tf.data.TFRecordDataset(path).map(parse, num_parallel_calls=tf.data.AUTOTUNE).shuffle(512)
    data = data.padded_batch(64, ([None], [])).prefetch(tf.data.AUTOTUNE)
    model = tf.keras.Sequential([K.Embedding(1000, 16, mask_zero=True), K.GlobalAveragePooling1D(), K.Dense(16, "relu"),
                                 K.Dense(1)])
    model.compile("adam", tf.keras.losses.BinaryCrossentropy(from_logits=True))
    return lambda: last(model.fit(data, epochs=1, verbose=0))


# sessions

@workload
def v1_digits_feed(tf):
    """The old tutorial of deep networks for digits: batches of 50 fed to convolutions, dropout, decayed rates, summaries."""
    v1, g = tf.compat.v1, tf.Graph()
    with g.as_default():
        x, y = v1.placeholder(tf.float32, [None, 784]), v1.placeholder(tf.float32, [None, 10])
        keep = v1.placeholder(tf.float32, [])

        def weight(*dims):
            return v1.Variable(v1.truncated_normal(dims, stddev=0.1, seed=1)), v1.Variable(tf.constant(0.1, shape=dims[-1:]))
        h = tf.reshape(x, [-1, 28, 28, 1])
        for inside, width in ((1, 16), (16, 32)):
            w, b = weight(5, 5, inside, width)
            h = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(h, w, 1, "SAME") + b), 2, 2, "SAME")
        w, b = weight(7 * 7 * 32, 128)
        h = v1.nn.dropout(tf.nn.relu(tf.matmul(tf.reshape(h, [-1, 7 * 7 * 32]), w) + b), rate=1 - keep)
        w, b = weight(128, 10)
        scores = tf.matmul(h, w) + b
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=scores))
        step = v1.train.get_or_create_global_step()
        rate = v1.train.exponential_decay(1e-3, step, 100, 0.96)
        train = v1.train.AdamOptimizer(rate).minimize(loss, global_step=step)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(scores, 1), tf.argmax(y, 1)), tf.float32))
        v1.summary.scalar("loss", loss)
        v1.summary.scalar("accuracy", accuracy)
        merged = v1.summary.merge_all()
        session = v1.Session(graph=g)
        session.run(v1.global_variables_initializer())
    images, labels = normal(50, 784), np.eye(10, dtype="f")[ids(10, 50)]

    def call():
        session.run(train, {x: images, y: labels, keep: 0.5})
        summary, value = session.run([merged, accuracy], {x: images, y: labels, keep: 1.0})
        return len(summary) > 0 and float(value)
    return call


@workload
def v1_logistic_loop(tf):
    """Logistic regression: 50 tiny steps with feeds, losses fetched each time."""
    v1, g = tf.compat.v1, tf.Graph()
    with g.as_default():
        x, y = v1.placeholder(tf.float32, [None, 8]), v1.placeholder(tf.float32, [None, 1])
        w, b = v1.Variable(tf.zeros([8, 1])), v1.Variable(tf.zeros([1]))
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=tf.matmul(x, w) + b))
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        session = v1.Session(graph=g)
        session.run(v1.global_variables_initializer())
    rows, labels = normal(800, 8), ids(2, 800, 1).astype("f")

    def call():
        for i in range(50):
            at = slice(16 * i, 16 * i + 16)
            _, value = session.run([train, loss], feed_dict={x: rows[at], y: labels[at]})
        return float(value)
    return call


@workload
def v1_sentence_convolutions(tf):
    """Convolutions of three widths over embedded sentences, fed in batches of 64, with L2 and dropout."""
    v1, g = tf.compat.v1, tf.Graph()
    with g.as_default():
        x, y = v1.placeholder(tf.int32, [None, 30]), v1.placeholder(tf.int64, [None])
        table = v1.Variable(v1.random_uniform([2000, 64], -1.0, 1.0, seed=1))
        h, pooled = tf.expand_dims(tf.nn.embedding_lookup(table, x), -1), []
        for size in (3, 4, 5):
            w = v1.Variable(v1.truncated_normal([size, 64, 1, 64], stddev=0.1, seed=size))
            b = v1.Variable(tf.constant(0.1, shape=[64]))
            conv = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(h, w, [1, 1, 1, 1], "VALID"), b))
            pooled.append(tf.nn.max_pool2d(conv, [1, 31 - size, 1, 1], [1, 1, 1, 1], "VALID"))
        flat = v1.nn.dropout(tf.reshape(tf.concat(pooled, 3), [-1, 192]), rate=0.5)
        out, b = v1.get_variable("out", initializer=0.1 * normal(192, 2)), v1.Variable(tf.constant(0.1, shape=[2]))
        scores = v1.nn.xw_plus_b(flat, out, b)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=scores))
        loss += 0.1 * tf.nn.l2_loss(out)
        optimizer = v1.train.AdamOptimizer(1e-3)
        train = optimizer.apply_gradients(optimizer.compute_gradients(loss))
        session = v1.Session(graph=g)
        session.run(v1.global_variables_initializer())
    feed = {x: ids(2000, 64, 30), y: ids(2, 64)}
    return lambda: float(session.run([train, loss], feed)[1])


@workload
def v1_monitored_hooks(tf):
    """A MonitoredTrainingSession with hooks and a checkpoint directory: 30 steps of a small network from a dataset."""
    v1, folder = tf.compat.v1, tempfile.mkdtemp()

    def call():
        with tf.Graph().as_default():
            data = tf.data.Dataset.from_tensor_slices((normal(256, 16), ids(4, 256))).repeat().batch(32)
            x, y = v1.data.make_one_shot_iterator(data).get_next()
            w1 = v1.get_variable("w1", initializer=0.1 * normal(16, 32))
            w2 = v1.get_variable("w2", initializer=0.1 * normal(32, 4))
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=tf.nn.relu(x @ w1) @ w2))
            step = v1.train.get_or_create_global_step()
            train = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss, global_step=step)
            hooks = [v1.train.NanTensorHook(loss), v1.train.StopAtStepHook(num_steps=30)]
            with v1.train.MonitoredTrainingSession(checkpoint_dir=folder, hooks=hooks, log_step_count_steps=None) as session:
                value = 0.0
                while not session.should_stop():
                    _, value = session.run([train, loss])
        return float(value)
    return call
