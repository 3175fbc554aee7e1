"""Support for older programs: tf.contrib, and `import tensorflow` as penstock."""
