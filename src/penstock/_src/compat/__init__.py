"""What older programs need: tf.contrib, and `import tensorflow` finding penstock."""
