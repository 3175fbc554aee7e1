"""tf.keras.layers: one module for each family of layers."""
from penstock.keras.layers import (
    advanced_activations,
    convolutional,
    convolutional_separable,
    core,
    embeddings,
    lambda_layer,
    layer_normalization,
    merge,
    noise,
    normalization,
    pooling,
    recurrent,
    rnn_cells,
    rnn_layers,
    serialization,
    spatial,
)
