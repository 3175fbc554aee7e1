"""What mistakes are made with: small models, a loaded signature, and data."""
import tempfile

import numpy as np

INPUTS, LABELS = np.zeros((4, 3), np.float32), np.zeros((4, 2), np.float32)


def compiled(tf, loss="mse", **arguments):
    """A small model that is ready to be trained."""
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
    model.compile("sgd", loss, **arguments)
    return model


def unbuilt(tf):
    """A compiled model whose first input decides its shapes."""
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def signature(tf):
    """The signature of a SavedModel that was saved and loaded."""
    module, folder = tf.Module(), tempfile.mkdtemp()
    module.f = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    tf.saved_model.save(module, folder, {"serving_default": module.f})
    return tf.saved_model.load(folder).signatures["serving_default"]
