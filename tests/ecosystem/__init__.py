"""The tests of libraries built on TensorFlow, run on penstock and on TensorFlow itself."""
