"""Runs a program with TensorFlow 2's compat.v1 as `tensorflow`, and small stand-ins for what it dropped of contrib."""
import os
import runpy
import sys
import types

os.environ["TF_USE_LEGACY_KERAS"] = "0"
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


class HParams:
    """contrib.training.HParams, as far as GPT-2's code uses it."""

    def __init__(self, **values):
        self.__dict__.update(values)

    def override_from_dict(self, values):
        self.__dict__.update(values)


def layer_norm(inputs, begin_norm_axis=1, begin_params_axis=-1, scope=None):
    """contrib.layers.layer_norm over the last axis, with its variables."""
    with tf.variable_scope(scope, "LayerNorm", [inputs]):
        size = inputs.shape[-1:]
        beta = tf.get_variable("beta", size, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", size, initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, offset=beta, scale=gamma, variance_epsilon=1e-12)


def dense(inputs, units, activation=None, kernel_initializer=None, name=None):
    """tf.layers.dense, which Keras 3 dropped: variables named as it named them."""
    with tf.variable_scope(name, "dense"):
        kernel = tf.get_variable("kernel", [inputs.shape[-1], units], initializer=kernel_initializer)
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        result = tf.nn.bias_add(tf.tensordot(inputs, kernel, 1), bias)
        return activation(result) if activation is not None else result


contrib, training, layers = (types.ModuleType(n) for n in ("tensorflow.contrib", "tensorflow.contrib.training", "layers"))
training.HParams, contrib.training, contrib.layers, layers.layer_norm = HParams, training, layers, layer_norm
facade = types.ModuleType("tensorflow")
facade.__getattr__ = lambda name: getattr(tf, name)
facade.contrib, facade.layers = contrib, types.SimpleNamespace(dense=dense)
facade.__path__ = []
sys.modules.update({"tensorflow": facade, "tensorflow.contrib": contrib, "tensorflow.contrib.training": training})
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
