"""Keras models in files, for one side of an exchange: real tf.keras runs this file as a script (`make oracle`).

    python keras_files.py FOLDER [--legacy] write|read

`write` saves each model and what it predicts; `read` predicts with the models that the other side has written. With --legacy
tf.keras is Keras 2 (the package tf_keras), which writes whole models as SavedModels.
"""
import os
import sys

import numpy as np


def models(keras):
    """Models by name, with inputs for them."""
    layers, draw = keras.layers, np.random.RandomState(0)
    images = layers.InputLayer((8, 8, 1)) if keras.__name__.startswith("penstock") else keras.Input((8, 8, 1))
    cnn = keras.Sequential([images, layers.Conv2D(4, 3, activation="relu"), layers.BatchNormalization(),
                            layers.MaxPooling2D(), layers.Flatten(), layers.Dense(5, activation="softmax")])
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    hidden = layers.Dense(4, activation="tanh")(a)
    joined = layers.Concatenate()([hidden, b])
    two = keras.Model([a, b], [layers.Dense(2, name="one")(joined), layers.Dense(1, name="two")(hidden)])
    words = keras.Input((5,), dtype="int32")
    states = layers.LSTM(6, return_sequences=True)(layers.Embedding(11, 4)(words))
    rnn = keras.Model(words, layers.Dense(2)(layers.GRU(3)(states)))
    return {"cnn": (cnn, [draw.rand(4, 8, 8, 1).astype(np.float32)]),
            "two": (two, [draw.rand(4, 3).astype(np.float32), draw.rand(4, 3).astype(np.float32)]),
            "rnn": (rnn, [draw.randint(0, 11, (4, 5)).astype(np.int32)])}


def predicted(model, inputs):
    """What a model predicts, as a list of arrays."""
    out = model.predict(inputs if len(inputs) > 1 else inputs[0], verbose=0)
    return out if isinstance(out, list) else [out]


def train(tf, model, inputs):
    """A few steps, so that no weight is what it was at first."""
    model.compile("adam", tf.keras.losses.MeanSquaredError())        # Keras 3 does not find "mse" in HDF5 files, not in its own
    outputs = [np.zeros_like(y) for y in predicted(model, inputs)]
    model.fit(inputs if len(inputs) > 1 else inputs[0], outputs if len(outputs) > 1 else outputs[0], epochs=2, verbose=0)


def write(tf, folder, forms):
    """Saves all models in all forms: the file name for each."""
    for name, (model, inputs) in models(tf.keras).items():
        train(tf, model, inputs)
        np.savez(f"{folder}/{name}.npz", *predicted(model, inputs))
        for form in forms:
            save_as(tf, model, f"{folder}/{name}", form)


def save_as(tf, model, path, form):
    """One file or folder of a model."""
    if form == "exported":                                       # Keras 3: a SavedModel that can be served, and no model
        model.export(path + ".exported", verbose=False)
    elif form == "folder":
        model.save(path + ".folder", save_format="tf")
    else:
        model.save(f"{path}.{form}")


def apart(tf, folder, forms):
    """The largest difference between what a file predicts and what its writer predicted, by file."""
    found = {}
    for name, (_, inputs) in models(tf.keras).items():
        with np.load(f"{folder}/{name}.npz") as file:
            wanted = list(file.values())
        for form in forms:
            path = f"{folder}/{name}.{form}"
            if form in ("exported", "served"):
                got = served(tf, path.replace(".served", ".folder"), inputs)
            else:
                model = tf.keras.models.load_model(path)
                got = predicted(model, inputs)
                train(tf, model, inputs)                             # what was loaded continues learning
            found[f"{name}.{form}"] = max(float(np.max(np.abs(g - w))) for g, w in zip(got, wanted, strict=True))
    return found


def served(tf, path, inputs):
    """The outputs of the signature of a SavedModel."""
    signature = tf.saved_model.load(path).signatures["serving_default"]
    names = sorted(signature.structured_input_signature[1])
    out = signature(**{n: tf.constant(x) for n, x in zip(names, inputs, strict=True)})
    return [out[k].numpy() for k in sorted(out)]


if __name__ == "__main__":
    os.environ["TF_USE_LEGACY_KERAS"] = str(int("--legacy" in sys.argv))
    import tensorflow
    legacy = "--legacy" in sys.argv
    if sys.argv[-1] == "write":
        write(tensorflow, sys.argv[1], ["h5", "keras", "folder"] if legacy else ["h5", "keras", "exported"])
    else:
        differences = apart(tensorflow, sys.argv[1], ["h5", "folder" if legacy else "keras", "served"])
        assert max(differences.values()) < 1e-5, differences
        print(differences)
