"""The helpers that TensorFlow's tutorials shipped with, which programs import from `tensorflow.examples.tutorials`."""
