"""Models: Keras, tf.layers, recurrent cells, feature columns, estimators, distribution strategies."""
