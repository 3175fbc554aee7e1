"""Ordinary models: convolutions, attention, images, and the loops of Keras."""
from __future__ import annotations

import math

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def draw(seed=0):
    return np.random.RandomState(seed)


def images(tf, *shape, classes=10):
    """Random images and labels."""
    r = draw()
    return tf.constant(r.randn(*shape).astype("f")), tf.constant(r.randint(0, classes, shape[0]))


def crossentropy(tf):
    return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def trained(tf, model, x, y, loss=None, optimizer=None):
    """A training step as a tf.function."""
    loss, optimizer = loss or crossentropy(tf), optimizer or tf.keras.optimizers.Adam(1e-3)
    model(x)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(value, weights), weights))
        return value
    return lambda: float(step(x, y))


def inferred(tf, model, x):
    """Inference as a tf.function."""
    f = tf.function(lambda x: model(x, training=False))
    return lambda: float(tf.reduce_sum(f(x)))


# convolutions, inference

@workload
def mobilenet_one(tf):
    """Depthwise convolutions, batch norm, batch 1."""
    x, _ = images(tf, 1, 160, 160, 3)
    return inferred(tf, tf.keras.applications.MobileNetV2((160, 160, 3), weights=None), x)


@workload
def mobilenet_predict(tf):
    """`predict` over four batches of 8."""
    m, x = tf.keras.applications.MobileNetV2((96, 96, 3), alpha=0.5, weights=None), draw().randn(32, 96, 96, 3).astype("f")
    return lambda: m.predict(x, batch_size=8, verbose=0).sum()


@workload
def resnet50_one(tf):
    x, _ = images(tf, 1, 224, 224, 3)
    return inferred(tf, tf.keras.applications.ResNet50(weights=None), x)


@workload
def efficientnet_batch(tf):
    """Squeeze and excitation, swish, depthwise 5x5."""
    x, _ = images(tf, 4, 128, 128, 3)
    return inferred(tf, tf.keras.applications.EfficientNetB0(weights=None, input_shape=(128, 128, 3)), x)


@workload
def superresolution(tf):
    """One large image through few channels, depth_to_space at the end."""
    K = tf.keras.layers
    m = tf.keras.Sequential([K.Conv2D(64, 5, padding="same", activation="tanh"),
                             K.Conv2D(32, 3, padding="same", activation="tanh"),
                             K.Conv2D(12, 3, padding="same"), K.Lambda(lambda t: tf.nn.depth_to_space(t, 2))])
    x, _ = images(tf, 1, 180, 240, 3)
    return inferred(tf, m, x)


@workload
def predict_one(tf):
    """A small network and one image: the overhead of `predict`."""
    K, x = tf.keras.layers, draw().randn(1, 28, 28, 1).astype("f")
    m = tf.keras.Sequential([K.Conv2D(8, 3, activation="relu"), K.MaxPooling2D(), K.Flatten(),
                             K.Dense(10, activation="softmax")])
    return lambda: m.predict(x, verbose=0).sum()


# convolutions, training

@workload
def vgg_batchnorm_fit(tf):
    """`fit` of a network with batch norm, pooling and dropout."""
    K, r = tf.keras.layers, draw()
    layers = []
    for c in (16, 32, 64):
        layers += [K.Conv2D(c, 3, padding="same"), K.BatchNormalization(), K.Activation("relu"),
                   K.Conv2D(c, 3, padding="same"), K.BatchNormalization(), K.Activation("relu"),
                   K.MaxPooling2D(), K.Dropout(0.2)]
    m = tf.keras.Sequential([*layers, K.Flatten(), K.Dense(64, activation="relu"), K.Dense(10)])
    m.compile("adam", crossentropy(tf), metrics=["accuracy"])
    x, y = r.randn(128, 32, 32, 3).astype("f"), r.randint(0, 10, 128)
    return lambda: m.fit(x, y, batch_size=32, verbose=0).history["loss"][-1]


@workload
def separable_train(tf):
    """Separable convolutions with residuals, as in Xception."""
    K = tf.keras.layers
    i = tf.keras.Input((48, 48, 3))
    h = K.Conv2D(32, 3, 2, padding="same", use_bias=False)(i)
    for c in (64, 128):
        skip = K.BatchNormalization()(K.Conv2D(c, 1, 2, use_bias=False)(h))
        for _ in range(2):
            h = K.BatchNormalization()(K.SeparableConv2D(c, 3, padding="same", use_bias=False)(K.ReLU()(h)))
        h = K.add([K.MaxPooling2D(3, 2, padding="same")(h), skip])
    x, y = images(tf, 16, 48, 48, 3)
    return trained(tf, tf.keras.Model(i, K.Dense(10)(K.GlobalAveragePooling2D()(h))), x, y)


@workload
def unet_train(tf):
    """Transposed convolutions and concatenation."""
    K = tf.keras.layers

    def twice(h, c):
        for _ in range(2):
            h = K.Conv2D(c, 3, padding="same", activation="relu")(h)
        return h
    i = tf.keras.Input((64, 64, 3))
    a = twice(i, 16)
    b = twice(K.MaxPooling2D()(a), 32)
    c = twice(K.MaxPooling2D()(b), 64)
    b = twice(K.concatenate([K.Conv2DTranspose(32, 2, 2)(c), b]), 32)
    a = twice(K.concatenate([K.Conv2DTranspose(16, 2, 2)(b), a]), 16)
    x, y = images(tf, 8, 64, 64, 3)[0], tf.constant(draw().randint(0, 4, [8, 64, 64]))
    return trained(tf, tf.keras.Model(i, K.Conv2D(4, 1)(a)), x, y)


@workload
def wavenet_train(tf):
    """Dilated causal convolutions with gates, one-dimensional."""
    K = tf.keras.layers
    i = tf.keras.Input((256, 16))
    h, out = K.Conv1D(32, 1)(i), 0
    for d in (1, 2, 4, 8, 16):
        z = K.multiply([K.Conv1D(32, 2, padding="causal", dilation_rate=d, activation="tanh")(h),
                        K.Conv1D(32, 2, padding="causal", dilation_rate=d, activation="sigmoid")(h)])
        s = K.Conv1D(32, 1)(z)
        h, out = K.add([h, s]), s if isinstance(out, int) else K.add([out, s])
    x, y = images(tf, 8, 256, 16)[0], tf.constant(draw().randint(0, 16, [8, 256]))
    return trained(tf, tf.keras.Model(i, K.Conv1D(16, 1)(K.ReLU()(out))), x, y)


@workload
def volumes_train(tf):
    """Three-dimensional convolutions."""
    K = tf.keras.layers
    m = tf.keras.Sequential([K.Conv3D(8, 3, activation="relu"), K.MaxPooling3D(), K.Conv3D(16, 3, activation="relu"),
                             K.BatchNormalization(), K.GlobalAveragePooling3D(), K.Dense(4)])
    x, y = images(tf, 4, 20, 24, 24, 1, classes=4)
    return trained(tf, m, x, y)


@workload
def resnext_train(tf):
    """Grouped convolutions."""
    K = tf.keras.layers
    i = tf.keras.Input((24, 24, 32))
    h = i
    for _ in range(2):
        z = K.ReLU()(K.BatchNormalization()(K.Conv2D(64, 1, use_bias=False)(h)))
        z = K.ReLU()(K.BatchNormalization()(K.Conv2D(64, 3, padding="same", groups=8, use_bias=False)(z)))
        h = K.ReLU()(K.add([h, K.BatchNormalization()(K.Conv2D(32, 1, use_bias=False)(z))]))
    x, y = images(tf, 16, 24, 24, 32)
    return trained(tf, tf.keras.Model(i, K.Dense(10)(K.GlobalAveragePooling2D()(h))), x, y)


@workload
def densenet_train(tf):
    """Many concatenations and small convolutions."""
    K = tf.keras.layers
    i = tf.keras.Input((32, 32, 3))
    h = K.Conv2D(24, 3, padding="same")(i)
    for _ in range(2):
        for _ in range(4):
            z = K.Conv2D(12, 3, padding="same", use_bias=False)(K.ReLU()(K.BatchNormalization()(h)))
            h = K.concatenate([h, z])
        h = K.AveragePooling2D()(K.Conv2D(32, 1)(K.ReLU()(K.BatchNormalization()(h))))
    x, y = images(tf, 16, 32, 32, 3)
    return trained(tf, tf.keras.Model(i, K.Dense(10)(K.Flatten()(h))), x, y)


@workload
def gan_train(tf):
    """Generator and discriminator, two tapes in one function."""
    K, keras = tf.keras.layers, tf.keras
    g = keras.Sequential([K.Dense(7 * 7 * 64, use_bias=False), K.BatchNormalization(), K.LeakyReLU(), K.Reshape((7, 7, 64)),
                          K.Conv2DTranspose(32, 5, 2, padding="same", use_bias=False), K.BatchNormalization(), K.LeakyReLU(),
                          K.Conv2DTranspose(1, 5, 2, padding="same", activation="tanh")])
    d = keras.Sequential([K.Conv2D(32, 5, 2, padding="same"), K.LeakyReLU(), K.Dropout(0.3),
                          K.Conv2D(64, 5, 2, padding="same"), K.LeakyReLU(), K.Dropout(0.3), K.Flatten(), K.Dense(1)])
    bce, a, b = keras.losses.BinaryCrossentropy(from_logits=True), keras.optimizers.Adam(1e-4), keras.optimizers.Adam(1e-4)
    x = images(tf, 32, 28, 28, 1)[0]
    d(g(tf.zeros([1, 64])))

    @tf.function
    def step(x):
        with tf.GradientTape() as gt, tf.GradientTape() as dt:
            fake = d(g(tf.random.normal([32, 64]), training=True), training=True)
            real = d(x, training=True)
            gl = bce(tf.ones_like(fake), fake)
            dl = bce(tf.ones_like(real), real) + bce(tf.zeros_like(fake), fake)
        a.apply_gradients(zip(gt.gradient(gl, g.trainable_variables), g.trainable_variables))
        b.apply_gradients(zip(dt.gradient(dl, d.trainable_variables), d.trainable_variables))
        return dl
    return lambda: float(step(x))


@workload
def vae_fit(tf):
    """A subclassed model with its own train_step."""
    K, keras = tf.keras.layers, tf.keras

    class Vae(keras.Model):
        def __init__(self):
            super().__init__()
            self.e = keras.Sequential([K.Conv2D(16, 3, 2, activation="relu"), K.Conv2D(32, 3, 2, activation="relu"),
                                       K.Flatten(), K.Dense(16)])
            self.d = keras.Sequential([K.Dense(7 * 7 * 16, activation="relu"), K.Reshape((7, 7, 16)),
                                       K.Conv2DTranspose(16, 3, 2, padding="same", activation="relu"),
                                       K.Conv2DTranspose(1, 3, 2, padding="same")])

        def train_step(self, x):
            with tf.GradientTape() as tape:
                mean, logvar = tf.split(self.e(x), 2, 1)
                y = self.d(mean + tf.exp(logvar / 2) * tf.random.normal(tf.shape(mean)))
                kl = -0.5 * tf.reduce_sum(1 + logvar - mean ** 2 - tf.exp(logvar), 1)
                entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=y)
                loss = tf.reduce_mean(tf.reduce_sum(entropy, [1, 2, 3]) + kl)
            self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
            return {"loss": loss}
    m, x = Vae(), draw().rand(256, 28, 28, 1).astype("f")
    m.e(x[:1])
    m.d(tf.zeros([1, 8]))
    m.compile(keras.optimizers.Adam(1e-3))
    return lambda: m.fit(x, batch_size=32, verbose=0).history["loss"][-1]


@workload
def session_lenet(tf):
    """A graph of the 1.x API, trained through a session."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        x, y = v1.placeholder(tf.float32, [None, 28, 28, 1]), v1.placeholder(tf.int64, [None])
        h, c = x, 1
        for i, n in enumerate((20, 50)):
            w = v1.get_variable(f"w{i}", [5, 5, c, n])
            h = tf.nn.bias_add(tf.nn.conv2d(h, w, 1, "SAME"), v1.get_variable(f"b{i}", [n], initializer=v1.zeros_initializer()))
            h, c = tf.nn.max_pool2d(tf.nn.relu(h), 2, 2, "SAME"), n
        h = tf.reshape(h, [-1, 7 * 7 * 50])
        h = tf.nn.relu(h @ v1.get_variable("w2", [7 * 7 * 50, 256]))
        logits = h @ v1.get_variable("w3", [256, 10])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        train = v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
        session = v1.Session(graph=graph)
        session.run(v1.global_variables_initializer())
    feed = {x: draw().randn(32, 28, 28, 1), y: draw().randint(0, 10, 32)}
    return lambda: session.run([loss, train], feed)[0]


@workload
def evaluate_cnn(tf):
    """`evaluate` over eight batches."""
    K, r = tf.keras.layers, draw()
    m = tf.keras.Sequential([K.Conv2D(16, 3, activation="relu"), K.MaxPooling2D(), K.Conv2D(32, 3, activation="relu"),
                             K.Flatten(), K.Dense(10)])
    m.compile("adam", crossentropy(tf), metrics=["accuracy"])
    x, y = r.randn(256, 28, 28, 1).astype("f"), r.randint(0, 10, 256)
    return lambda: m.evaluate(x, y, batch_size=32, verbose=0)[0]


# attention and other networks of products

def block(tf, h, width, heads, activation="gelu", rate=0.1):
    """An encoder block of Keras layers."""
    K = tf.keras.layers
    a = K.MultiHeadAttention(heads, width // heads, dropout=rate)(h, h)
    h = K.LayerNormalization(epsilon=1e-6)(K.add([h, K.Dropout(rate)(a)]))
    f = K.Dense(width)(K.Dense(4 * width, activation=activation)(h))
    return K.LayerNormalization(epsilon=1e-6)(K.add([h, K.Dropout(rate)(f)]))


@workload
def encoder_fit(tf):
    """`fit` of a text classifier with one encoder block."""
    K, r = tf.keras.layers, draw()
    i = tf.keras.Input((64,), dtype="int32")
    h = block(tf, K.Embedding(5000, 64)(i), 64, 4, "relu")
    m = tf.keras.Model(i, K.Dense(2)(K.Dropout(0.1)(K.GlobalAveragePooling1D()(h))))
    m.compile("adam", crossentropy(tf), metrics=["accuracy"])
    x, y = r.randint(0, 5000, [128, 64]), r.randint(0, 2, 128)
    return lambda: m.fit(x, y, batch_size=32, verbose=0).history["loss"][-1]


@workload
def vit_train(tf):
    """Patches of images, three encoder blocks."""
    K = tf.keras.layers
    i = tf.keras.Input((32, 32, 3))
    h = K.Reshape((64, 96))(K.Conv2D(96, 4, 4)(i))
    for _ in range(3):
        h = block(tf, h, 96, 4)
    x, y = images(tf, 16, 32, 32, 3)
    return trained(tf, tf.keras.Model(i, K.Dense(10)(K.Flatten()(h))), x, y)


@workload
def bert_one(tf):
    """Inference with one sequence and a mask."""
    K = tf.keras.layers
    i, k = tf.keras.Input((128,), dtype="int32"), tf.keras.Input((1, 128), dtype="bool")
    h = K.Embedding(2000, 256)(i)
    for _ in range(4):
        a = K.MultiHeadAttention(4, 64)(h, h, attention_mask=k)
        h = K.LayerNormalization()(K.add([h, a]))
        h = K.LayerNormalization()(K.add([h, K.Dense(256)(K.Dense(1024, activation="gelu")(h))]))
    m = tf.keras.Model([i, k], K.Dense(2)(K.Lambda(lambda t: t[:, 0])(h)))
    x, mask = tf.constant(draw().randint(0, 2000, [1, 128])), tf.sequence_mask([[100]], 128)
    f = tf.function(lambda x, mask: m([x, mask], training=False))
    return lambda: float(tf.reduce_sum(f(x, mask)))


@workload
def generate_loop(tf):
    """Sixteen tokens by a loop in a tf.function, with a cache of keys and values."""
    r, d, heads, length = draw(), 128, 4, 16
    w = {k: tf.Variable(r.randn(*s).astype("f") * 0.05) for k, s in
         dict(e=(1000, d), qkv=(d, 3 * d), o=(d, d), a=(d, 4 * d), b=(4 * d, d)).items()}

    @tf.function
    def generate(token):
        keys, values = tf.zeros([1, heads, length, d // heads]), tf.zeros([1, heads, length, d // heads])
        for t in tf.range(length):
            h = tf.gather(w["e"], token)
            q, k, v = tf.split(tf.reshape(h @ w["qkv"], [1, 3 * heads, 1, d // heads]), 3, 1)
            here = tf.reshape(tf.one_hot(t, length), [1, 1, length, 1])
            keys, values = keys + here * k, values + here * v
            s = tf.matmul(q, keys, transpose_b=True) / math.sqrt(d // heads)
            s = tf.where(tf.range(length) <= t, s, -1e9)
            h += tf.reshape(tf.nn.softmax(s) @ values, [1, d]) @ w["o"]
            h += tf.nn.gelu(h @ w["a"]) @ w["b"]
            token = tf.argmax(tf.matmul(h, w["e"], transpose_b=True), 1)
        return token
    start = tf.constant([1], tf.int64)
    return lambda: float(generate(start)[0])


@workload
def mixer_train(tf):
    """Products over tokens and over channels, layer norm, gelu."""
    K = tf.keras.layers
    i = tf.keras.Input((49, 128))
    h = i
    for _ in range(3):
        z = K.Permute((2, 1))(K.LayerNormalization()(h))
        h = K.add([h, K.Permute((2, 1))(K.Dense(49)(K.Dense(64, activation="gelu")(z)))])
        h = K.add([h, K.Dense(128)(K.Dense(256, activation="gelu")(K.LayerNormalization()(h)))])
    x, y = images(tf, 32, 49, 128)
    return trained(tf, tf.keras.Model(i, K.Dense(10)(K.GlobalAveragePooling1D()(h))), x, y)


@workload
def nerf_train(tf):
    """Sines and cosines of coordinates through a deep network with a large batch."""
    K = tf.keras.layers
    m = tf.keras.Sequential([*[K.Dense(128, activation="relu") for _ in range(5)], K.Dense(4)])
    x, y = tf.constant(draw().rand(4096, 3).astype("f")), tf.constant(draw().rand(4096, 4).astype("f"))
    scales = tf.constant([2.0 ** k for k in range(8)])

    def encoded(x):
        a = tf.reshape(x[:, :, None] * scales, [-1, 24])
        return tf.concat([x, tf.sin(a), tf.cos(a)], 1)

    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.m = m

        def call(self, x, training=False):
            h = self.m(encoded(x))
            return tf.concat([tf.sigmoid(h[:, :3]), tf.nn.softplus(h[:, 3:])], 1)
    return trained(tf, Net(), x, y, tf.keras.losses.MeanSquaredError())


@workload
def text_conv_fit(tf):
    """Embedding, one-dimensional convolution, global pooling."""
    K, r = tf.keras.layers, draw()
    m = tf.keras.Sequential([K.Embedding(5000, 50), K.Dropout(0.2), K.Conv1D(128, 3, activation="relu"), K.GlobalMaxPooling1D(),
                             K.Dense(64, activation="relu"), K.Dropout(0.2), K.Dense(1, activation="sigmoid")])
    m.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    x, y = r.randint(0, 5000, [128, 200]), r.randint(0, 2, 128).astype("f")
    return lambda: m.fit(x, y, batch_size=32, verbose=0).history["loss"][-1]


@workload
def tabular_fit(tf):
    """Dense layers with batch norm, selu and dropout, from a dataset."""
    K, r = tf.keras.layers, draw()
    m = tf.keras.Sequential([K.Dense(128), K.BatchNormalization(), K.Activation("selu"), K.Dropout(0.3),
                             K.Dense(64, activation="swish", kernel_regularizer="l2"), K.Dense(1)])
    m.compile(tf.keras.optimizers.RMSprop(1e-3), "mse", metrics=["mae"])
    ds = tf.data.Dataset.from_tensor_slices((r.randn(2048, 40).astype("f"), r.randn(2048, 1).astype("f")))
    ds = ds.shuffle(2048).batch(64)
    return lambda: m.fit(ds, verbose=0).history["loss"][-1]


# images

def jpegs(tf, count, height, width):
    """Smooth random images, encoded."""
    made = []
    for i in range(count):
        a = tf.image.resize(draw(i).rand(12, 16, 3).astype("f") * 255, [height, width], method="bicubic")
        made.append(tf.io.encode_jpeg(tf.constant(np.clip(a.numpy(), 0, 255).astype("uint8"))).numpy())
    return made


def last(ds):
    """One pass; a value of the last batch."""
    def step():
        for b in ds:
            value = b
        return float(value[0, 0, 0, 0])
    return step


@workload
def decode_pipeline(tf):
    """Decode, resize, scale, batch."""
    ds = tf.data.Dataset.from_tensor_slices(jpegs(tf, 32, 360, 480))

    def read(s):
        return tf.image.resize(tf.io.decode_jpeg(s, channels=3), [224, 224]) / 255.0
    return last(ds.map(read, num_parallel_calls=tf.data.AUTOTUNE).batch(8).prefetch(tf.data.AUTOTUNE))


@workload
def augment_pipeline(tf):
    """Colours, flips and crops of images in memory."""
    x = draw().randint(0, 255, [256, 64, 64, 3]).astype("uint8")

    def change(a):
        a = tf.image.convert_image_dtype(a, tf.float32)
        a = tf.image.random_crop(tf.image.resize_with_crop_or_pad(a, 72, 72), [64, 64, 3])
        a = tf.image.random_flip_left_right(a)
        a = tf.image.random_contrast(tf.image.random_brightness(a, 0.2), 0.8, 1.2)
        return tf.image.per_image_standardization(tf.image.random_saturation(a, 0.8, 1.2))
    return last(tf.data.Dataset.from_tensor_slices(x).map(change, num_parallel_calls=2).batch(32))


@workload
def image_function(tf):
    """tf.image on a batch, in a tf.function."""
    x = tf.constant(draw().rand(8, 128, 128, 3).astype("f"))

    @tf.function
    def change(a):
        a = tf.image.resize(a, [96, 96])
        a = tf.image.adjust_hue(tf.image.adjust_saturation(tf.image.flip_left_right(a), 1.2), 0.1)
        g = tf.image.sobel_edges(tf.image.rgb_to_grayscale(a))
        return tf.reduce_mean(tf.image.ssim(a, tf.clip_by_value(a + 0.01, 0, 1), 1.0)) + tf.reduce_mean(tf.abs(g))
    return lambda: float(change(x))
