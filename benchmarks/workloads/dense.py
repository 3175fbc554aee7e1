"""Five convolutional programs beside TensorFlow on the CPU: one, two and three dimensions, both APIs, unknown batch sizes.

They were written after the compiler, and nothing in it was made for one of them.
"""
from __future__ import annotations

import itertools

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def normal(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype("f")


@workload
def audio_autoencoder(tf):
    """One dimension: strided and dilated convolutions down, transposed ones up, batches of two sizes in turns."""
    K = tf.keras.layers
    model = tf.keras.Sequential([
        K.Input((512, 1)), K.Conv1D(16, 9, 2, "same", activation="elu"), K.Conv1D(32, 9, 2, "same", activation="elu"),
        K.Conv1D(32, 3, padding="same", dilation_rate=2, activation="elu"), K.BatchNormalization(),
        K.Conv1D(32, 3, padding="same", dilation_rate=4, activation="elu"),
        K.Conv1DTranspose(16, 9, 2, "same", activation="elu"), K.Conv1DTranspose(1, 9, 2, "same", activation="tanh")])
    optimizer = tf.keras.optimizers.RMSprop(1e-3)

    @tf.function(input_signature=[tf.TensorSpec([None, 512, 1])])
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(model(x, training=True) - x))
        values = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, values), values, strict=True))
        return loss
    batches = itertools.cycle([tf.constant(normal(16, 512, 1)), tf.constant(normal(12, 512, 1, seed=1))])
    return lambda: float(step(next(batches)))


@workload
def video_classifier(tf):
    """Three dimensions: convolutions with batch norm and pooling over short clips, trained by `train_on_batch`."""
    K = tf.keras.layers
    model = tf.keras.Sequential([
        K.Input((8, 32, 32, 3)), K.Conv3D(16, 3, padding="same", use_bias=False), K.BatchNormalization(), K.ReLU(),
        K.MaxPooling3D((1, 2, 2)), K.Conv3D(32, 3, padding="same", use_bias=False), K.BatchNormalization(), K.ReLU(),
        K.MaxPooling3D(2), K.Conv3D(32, 3, padding="same", activation="relu"), K.GlobalAveragePooling3D(), K.Dense(5)])
    model.compile(tf.keras.optimizers.SGD(0.01, momentum=0.9), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = normal(4, 8, 32, 32, 3), np.random.RandomState(0).randint(0, 5, 4)
    return lambda: float(np.ravel(model.train_on_batch(x, y))[0])


@workload
def separable_predict(tf):
    """Two dimensions, separable and depthwise: `predict` of images whose last batch is smaller."""
    K = tf.keras.layers
    x = tf.keras.Input((64, 64, 3))
    h = K.ReLU()(K.BatchNormalization()(K.Conv2D(16, 3, 2, "same", use_bias=False)(x)))
    for width, stride in ((32, 1), (64, 2), (64, 1), (96, 2)):
        z = K.BatchNormalization()(K.SeparableConv2D(width, 3, padding="same", use_bias=False)(h))
        z = K.BatchNormalization()(K.DepthwiseConv2D(5, stride, "same", use_bias=False)(K.Activation("swish")(z)))
        h = K.add([z, K.Conv2D(width, 1, stride, "same")(h)])
    model = tf.keras.Model(x, K.Dense(10, "softmax")(K.GlobalAveragePooling2D()(h)))
    images = normal(40, 64, 64, 3)
    return lambda: float(model.predict(images, batch_size=16, verbose=0).max())


@workload
def half_precision_training(tf):
    """The policy mixed_bfloat16: convolutions, a dense layer, dropout, Adam, by `fit` on a dataset."""
    K = tf.keras.layers
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    model = tf.keras.Sequential([
        K.Input((32, 32, 3)), K.Conv2D(32, 3, padding="same", activation="relu"), K.MaxPooling2D(),
        K.Conv2D(64, 3, padding="same", activation="relu"), K.AveragePooling2D(2), K.Flatten(), K.Dense(128, activation="relu"),
        K.Dropout(0.2), K.Dense(10, dtype="float32")])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    data = tf.data.Dataset.from_tensor_slices((normal(64, 32, 32, 3), np.random.RandomState(0).randint(0, 10, 64))).batch(16)
    return lambda: float(model.fit(data, epochs=1, verbose=0).history["loss"][-1])


@workload
def segmentation_session(tf):
    """A 1.x graph with placeholders of unknown batch size: convolutions, transposed ones, cross entropy of pixels, momentum."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        x, y = v1.placeholder(tf.float32, [None, 48, 48, 3]), v1.placeholder(tf.int32, [None, 48, 48])

        def conv(h, width, stride=1):
            w = v1.get_variable(f"w{len(v1.global_variables())}", [3, 3, h.shape[-1], width])
            b = v1.get_variable(f"b{len(v1.global_variables())}", [width], initializer=v1.zeros_initializer())
            return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(h, w, stride, "SAME"), b))

        def up(h, width, like):
            w = v1.get_variable(f"w{len(v1.global_variables())}", [4, 4, width, h.shape[-1]])
            return tf.concat([tf.nn.conv2d_transpose(h, w, tf.concat([tf.shape(like)[:3], [width]], 0), 2), like], 3)
        first = conv(x, 16)
        second = conv(conv(first, 24, 2), 24)
        h = conv(conv(second, 48, 2), 48)
        h = conv(tf.ensure_shape(up(h, 24, second), [None, 24, 24, 48]), 24)
        h = conv(tf.ensure_shape(up(h, 16, first), [None, 48, 48, 32]), 8)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h))
        train = v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
        session = v1.Session()
        session.run(v1.global_variables_initializer())
    feeds = {x: normal(4, 48, 48, 3), y: np.random.RandomState(0).randint(0, 8, [4, 48, 48])}
    return lambda: float(session.run([loss, train], feeds)[0])
