"""tf.keras, by the names that programs use most."""
import os
import tempfile

import numpy as np


def models(tf):
    tf.keras.backend.clear_session()
    model = tf.keras.Sequential([
        tf.keras.layers.InputLayer((6, 6, 1)), tf.keras.layers.Conv2D(2, 3, kernel_regularizer=tf.keras.regularizers.l2(0.01)),
        tf.keras.layers.BatchNormalization(), tf.keras.layers.Activation("relu"), tf.keras.layers.MaxPooling2D(2),
        tf.keras.layers.Flatten(), tf.keras.layers.Dropout(0.1), tf.keras.layers.Dense(3, activation="softmax")])
    model.compile(tf.keras.optimizers.Adam(0.01), tf.keras.losses.categorical_crossentropy, metrics=["accuracy"])
    x = np.random.RandomState(0).rand(16, 6, 6, 1).astype(np.float32)
    y = tf.keras.utils.to_categorical(np.arange(16) % 3, 3)

    class Count(tf.keras.callbacks.Callback):
        epochs = 0
        def on_epoch_end(self, epoch, logs=None):
            self.epochs += 1
    count, path = Count(), os.path.join(tempfile.mkdtemp(), "best.h5")
    history = model.fit(x, y, epochs=3, verbose=0, callbacks=[
        count, tf.keras.callbacks.EarlyStopping("loss", patience=9), tf.keras.callbacks.ReduceLROnPlateau("loss"),
        tf.keras.callbacks.TerminateOnNaN()])
    assert count.epochs == 3 and len(history.history["loss"]) == 3 and path
    assert model.predict(x).shape == (16, 3) and isinstance(model, tf.keras.models.Sequential)
    assert tf.python.keras.models.Model is tf.keras.Model is tf.keras.models.Model


def layers(tf):
    k = tf.keras
    x = k.layers.Input([4])
    y = k.layers.Concatenate()([k.layers.Reshape([2, 2])(x), k.layers.Reshape([2, 2])(x)])
    model = k.Model(x, y)
    assert model.predict(np.array([[1.0, 2, 3, 4]], np.float32)).tolist() == [[[1, 2, 1, 2], [3, 4, 3, 4]]]
    assert isinstance(model.layers[1], k.layers.Layer)
    for layer, shape, wanted in (
            (k.layers.GlobalAveragePooling2D(), [2, 2, 1], [[1.0]]), (k.layers.AveragePooling2D(2), [2, 2, 1], [[[[1.0]]]]),
            (k.layers.MaxPool2D(2), [2, 2, 1], [[[[1.0]]]]), (k.layers.RepeatVector(2), [1], [[[1.0], [1.0]]]),
            (k.layers.ThresholdedReLU(2.0), [1], [[0.0]]), (tf.python.keras.layers.Lambda(lambda v: v * 3), [1], [[3.0]])):
        i = tf.python.keras.layers.Input(shape)
        assert k.Model(i, layer(i)).predict(np.ones([1, *shape], np.float32)).tolist() == wanted
    for layer, shape, size in ((k.layers.LSTM(3), [5, 2], (1, 3)), (k.layers.GRU(3), [5, 2], (1, 3)),
                               (k.layers.TimeDistributed(k.layers.Dense(3)), [5, 2], (1, 5, 3)),
                               (k.layers.Conv2DTranspose(1, 2, 2), [2, 2, 1], (1, 4, 4, 1))):
        i = k.layers.Input(shape)
        assert k.Model(i, layer(i)).predict(np.ones([1, *shape], np.float32)).shape == size
    i = k.layers.Input([2], dtype="int32")
    assert k.Model(i, k.layers.Embedding(4, 3)(i)).predict(np.array([[1, 2]])).shape == (1, 2, 3)
    p = tf.python.keras.layers
    assert (p.Activation, p.BatchNormalization, p.Conv2D, p.MaxPooling2D) == (
        k.layers.Activation, k.layers.BatchNormalization, k.layers.Conv2D, k.layers.MaxPooling2D)


def backend(tf):
    b = tf.keras.backend
    b.set_learning_phase(0)
    v = b.variable(3.0)
    b.set_value(v, 4.0)
    assert b.get_value(v) == 4.0 and b.image_data_format() == "channels_last" == tf.python.keras.backend.image_data_format()
    b.set_image_data_format("channels_first")
    b.set_image_data_format("channels_last")
    assert tf.python.keras.backend.permute_dimensions(tf.zeros([2, 3]), [1, 0]).shape.as_list() == [3, 2]
    with tf.Session() as sess:
        b.set_session(sess)
        assert b.get_session() is sess
        losses = tf.keras.losses
        value = sess.run([losses.mean_squared_error([1.0], [3.0]), losses.MSE([1.0], [3.0]),
                          losses.sparse_categorical_crossentropy([1], [[0.5, 0.5]])[0],
                          tf.keras.metrics.categorical_accuracy([[0.0, 1.0]], [[0.1, 0.9]])[0],
                          tf.keras.initializers.Constant(2.0)([])])
    np.testing.assert_allclose(value, [4, 4, np.log(2), 1, 2], rtol=1e-5, atol=1e-5)
    b.clear_session()
    for make in (tf.keras.optimizers.SGD, tf.keras.optimizers.RMSprop, tf.keras.optimizers.Adadelta):
        assert isinstance(make(0.1), tf.keras.optimizers.Optimizer)
    texts = tf.keras.preprocessing.text.Tokenizer()
    texts.fit_on_texts(["a b a"])
    assert texts.texts_to_sequences(["b a"]) == [[2, 1]]
    assert tf.keras.preprocessing.sequence.pad_sequences([[1], [2, 3]]).tolist() == [[0, 1], [2, 3]]


def second(tf):
    """The same under tf.compat.v2."""
    k = tf.compat.v2.keras
    x = k.Input([4, 4, 1])
    y = k.layers.Dense(2)(k.layers.Dropout(0.5)(k.layers.Flatten()(k.layers.MaxPooling2D()(k.layers.Conv2D(1, 1)(x)))))
    assert k.Model(x, y).output_shape == (None, 2) and isinstance(k.Sequential([k.layers.Dense(1)]), k.Model)
    assert k.layers.LSTMCell(3).units == 3 and float(k.regularizers.l2(0.5).l2) == 0.5 and k.optimizers.SGD(0.1)
    with tf.Session() as sess:
        loss = sess.run(k.losses.categorical_crossentropy([[0.0, 1.0]], [[0.5, 0.5]]))
    np.testing.assert_allclose(loss, [np.log(2)], rtol=1e-5, atol=1e-5)


def callbacks(tf):
    folder = tempfile.mkdtemp()
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[2])])
    model.compile("sgd", "mse")
    saved = os.path.join(folder, "weights")
    model.fit(np.ones([4, 2], np.float32), np.ones([4, 1], np.float32), verbose=0, callbacks=[
        tf.keras.callbacks.ModelCheckpoint(saved, save_weights_only=True), tf.keras.callbacks.TensorBoard(folder + "/logs")])
    before = model.get_weights()[0]
    model.set_weights([np.zeros([2, 1]), np.zeros([1])])
    model.load_weights(saved)
    assert np.array_equal(model.get_weights()[0], before)
    assert [f for _, _, files in os.walk(folder + "/logs") for f in files if "tfevents" in f]


def digits(tf):
    """An existing file is not fetched."""
    path = os.path.join(tempfile.mkdtemp(), "mnist.npz")
    x, y = np.zeros([2, 28, 28], np.uint8), np.array([1, 2], np.uint8)
    np.savez(path, x_train=x, y_train=y, x_test=x[:1], y_test=y[:1])
    (images, labels), (test, _) = tf.keras.datasets.mnist.load_data(path)
    assert images.shape == (2, 28, 28) and labels.tolist() == [1, 2] and len(test) == 1
