"""The tests of libraries that stand on TensorFlow, run on penstock and on TensorFlow itself."""
