"""A 2.x training program: Keras models by configuration, fit, evaluate, callbacks, saving of weights."""
import os
import tempfile

import numpy as np

import penstock as tf


def build(units: int) -> tf.keras.Model:
    inputs = tf.keras.Input(shape=(4,))
    x = tf.keras.layers.Dense(units, activation="relu")(inputs)
    x = tf.keras.layers.Dropout(0.1)(x)
    outputs = tf.keras.layers.Dense(3)(x)
    return tf.keras.Model(inputs=inputs, outputs=outputs)


def main() -> float:
    tf.random.set_seed(1)
    model = build(8)
    model.compile(optimizer=tf.keras.optimizers.Adam(learning_rate=0.01),
                  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    x = np.random.RandomState(0).rand(32, 4).astype("float32")
    y = np.arange(32) % 3
    stop = tf.keras.callbacks.EarlyStopping(monitor="loss", patience=2)
    history = model.fit(x, y, epochs=2, batch_size=8, verbose=0, callbacks=[stop])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights.h5")
        model.save_weights(path)
        model.load_weights(path)
    predicted = model.predict(x, verbose=0)
    assert predicted.shape == (32, 3)
    return float(history.history["loss"][-1])


if __name__ == "__main__":
    print(main())
