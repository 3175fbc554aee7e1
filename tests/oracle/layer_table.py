"""Layers that penstock and real tf.keras run side by side; both import this, so it imports neither.

A row is a name, a function that makes the layer, the shapes of its inputs, and arguments of the call. Values are compared,
and the gradients of their weighted sum with respect to inputs and trainable weights.
"""
from __future__ import annotations

import sys

import numpy as np

ROWS = []


def row(name, make, *shapes, ints=0, grad=True, masked=False, spread=False, **call):
    """Adds a row; `ints` is a vocabulary, for inputs that are integers; `spread` returns the inputs one by one."""
    ROWS.append({"name": name, "make": make, "shapes": shapes, "ints": ints, "grad": grad, "masked": masked, "call": call,
                 "spread": spread})


row("dense", lambda L: L.Dense(3, activation="gelu"), (2, 5))
row("dense_3d", lambda L: L.Dense(3, activation="selu", use_bias=False), (2, 4, 5))
for _a in ("relu", "elu", "softplus", "softsign", "swish", "sigmoid", "tanh", "exponential", "mish", "softmax", "log_softmax"):
    row(f"activation_{_a}", lambda L, a=_a: L.Activation(a), (3, 4))
for _pad in ("valid", "same", "causal"):
    row(f"conv1d_{_pad}", lambda L, p=_pad: L.Conv1D(3, 3, padding=p, dilation_rate=2), (2, 9, 4))
for _pad in ("valid", "same"):
    row(f"conv2d_{_pad}", lambda L, p=_pad: L.Conv2D(3, (3, 2), strides=2, padding=p, activation="relu"), (2, 7, 8, 2))
    row(f"conv3d_{_pad}", lambda L, p=_pad: L.Conv3D(3, 2, padding=p), (2, 4, 5, 3, 2))
    row(f"conv2d_transpose_{_pad}", lambda L, p=_pad: L.Conv2DTranspose(3, 3, strides=2, padding=p), (2, 4, 5, 2))
    row(f"conv3d_transpose_{_pad}", lambda L, p=_pad: L.Conv3DTranspose(2, 2, strides=2, padding=p), (1, 3, 2, 3, 2))
    row(f"conv1d_transpose_{_pad}", lambda L, p=_pad: L.Conv1DTranspose(3, 3, strides=2, padding=p), (2, 5, 2))
    row(f"separable2d_{_pad}", lambda L, p=_pad: L.SeparableConv2D(4, 3, padding=p, depth_multiplier=2), (2, 6, 5, 2))
    row(f"separable1d_{_pad}", lambda L, p=_pad: L.SeparableConv1D(4, 3, padding=p), (2, 6, 3))
    row(f"depthwise2d_{_pad}", lambda L, p=_pad: L.DepthwiseConv2D(3, padding=p, depth_multiplier=2), (2, 6, 5, 2))
    row(f"depthwise1d_{_pad}", lambda L, p=_pad: L.DepthwiseConv1D(3, padding=p), (2, 6, 3))
    row(f"max_pool2d_{_pad}", lambda L, p=_pad: L.MaxPooling2D(2, padding=p), (2, 5, 6, 2))
    row(f"average_pool1d_{_pad}", lambda L, p=_pad: L.AveragePooling1D(3, strides=2, padding=p), (2, 7, 2))
    row(f"average_pool3d_{_pad}", lambda L, p=_pad: L.AveragePooling3D(2, padding=p), (2, 4, 5, 3, 2))
row("conv2d_groups", lambda L: L.Conv2D(4, 3, groups=2), (2, 5, 5, 4))
row("conv2d_dilated", lambda L: L.Conv2D(3, 3, dilation_rate=2, padding="same"), (2, 7, 7, 2))
for _g in ("GlobalAveragePooling2D", "GlobalMaxPooling2D"):
    row(_g, lambda L, g=_g: getattr(L, g)(), (2, 4, 5, 3))
row("upsampling_bilinear", lambda L: L.UpSampling2D((2, 3), interpolation="bilinear"), (2, 3, 4, 2))
row("upsampling3d", lambda L: L.UpSampling3D(2), (1, 2, 3, 2, 2))
row("cropping3d", lambda L: L.Cropping3D(1), (1, 4, 5, 3, 2))
row("zero_padding1d", lambda L: L.ZeroPadding1D((1, 2)), (2, 3, 2))
row("flatten", lambda L: L.Flatten(), (2, 3, 4))
row("permute", lambda L: L.Permute((2, 1)), (2, 3, 4))
row("repeat", lambda L: L.RepeatVector(3), (2, 4))
row("batch_norm_training", lambda L: L.BatchNormalization(), (4, 3, 5), training=True)
row("batch_norm_fused", lambda L: L.BatchNormalization(), (4, 3, 2, 5), training=True)
row("batch_norm_axis_1", lambda L: L.BatchNormalization(axis=1), (4, 3, 2, 5), training=True)
row("batch_norm_predicting", lambda L: L.BatchNormalization(), (4, 5), training=False)
row("layer_norm", lambda L: L.LayerNormalization(), (4, 5))
row("layer_norm_axes", lambda L: L.LayerNormalization(axis=(1, 2)), (4, 3, 5))
row("group_norm", lambda L: L.GroupNormalization(groups=2), (3, 4, 6))
row("unit_norm", lambda L: L.UnitNormalization(), (3, 4))
row("embedding", lambda L: L.Embedding(7, 3), (2, 4), ints=7)
for _m in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"):
    row(_m, lambda L, m=_m: getattr(L, m)(), (2, 3), (2, 3))
row("dot", lambda L: L.Dot(axes=(2, 1), normalize=True), (2, 3, 4), (2, 4, 5))
row("prelu", lambda L: L.PReLU(alpha_initializer="ones"), (3, 4))
row("leaky_relu", lambda L: L.LeakyReLU(negative_slope=0.2), (3, 4))
row("relu_layer", lambda L: L.ReLU(max_value=1., negative_slope=0.1, threshold=0.2), (3, 4))
row("softmax_layer", lambda L: L.Softmax(axis=1), (3, 4, 2))
for _r in ("SimpleRNN", "GRU", "LSTM"):
    row(f"{_r}_last", lambda L, r=_r: getattr(L, r)(4), (3, 5, 2))
    row(f"{_r}_all_backwards", lambda L, r=_r: getattr(L, r)(4, return_sequences=True, go_backwards=True), (3, 5, 2))
    row(f"{_r}_masked", lambda L, r=_r: getattr(L, r)(4, return_sequences=True), (3, 5, 2), masked=True)
    row(f"{_r}_hard", lambda L, r=_r: getattr(L, r)(4, activation="relu"), (3, 5, 2))
    row(f"{_r}_unrolled", lambda L, r=_r: getattr(L, r)(4, unroll=True), (3, 5, 2))
row("gru_reset_before", lambda L: L.GRU(4, reset_after=False), (3, 5, 2))
row("lstm_without_bias", lambda L: L.LSTM(4, use_bias=False), (3, 5, 2))
row("stacked_cells", lambda L: L.RNN([L.LSTMCell(3), L.GRUCell(4)]), (3, 5, 2))
row("bidirectional", lambda L: L.Bidirectional(L.LSTM(4, return_sequences=True)), (3, 5, 2))
row("bidirectional_sum", lambda L: L.Bidirectional(L.GRU(4), merge_mode="sum"), (3, 5, 2))
row("time_distributed", lambda L: L.TimeDistributed(L.Dense(3)), (2, 4, 5))
row("conv_lstm", lambda L: L.ConvLSTM2D(2, 3, padding="same", recurrent_activation="sigmoid"), (2, 3, 5, 4, 2))
row("conv_lstm_1d", lambda L: L.ConvLSTM1D(2, 3, recurrent_activation="sigmoid", return_sequences=True), (2, 3, 5, 2))
row("conv_lstm_3d", lambda L: L.ConvLSTM3D(2, 2, padding="same", recurrent_activation="sigmoid"), (2, 2, 3, 4, 3, 2))
row("identity", lambda L: L.Identity(), (2, 3))
row("attention", lambda L: L.Attention(use_scale=True), (2, 3, 4), (2, 5, 4))
row("attention_causal", lambda L: L.Attention(), (2, 4, 3), (2, 4, 3), use_causal_mask=True)
row("additive_attention", lambda L: L.AdditiveAttention(), (2, 3, 4), (2, 5, 4))
row("multi_head", lambda L: L.MultiHeadAttention(2, 3, value_dim=4), (2, 3, 5), (2, 4, 5), spread=True)
row("multi_head_causal", lambda L: L.MultiHeadAttention(2, 3), (2, 4, 5), (2, 4, 5), spread=True, use_causal_mask=True)
row("einsum_dense", lambda L: L.EinsumDense("abc,cd->abd", output_shape=(None, 6), bias_axes="d"), (2, 3, 4))
row("rescaling", lambda L: L.Rescaling(0.5, 1.), (2, 3))
row("normalization", lambda L: L.Normalization(mean=[1., 2., 3.], variance=[2., 3., 4.]), (2, 3))
row("discretization", lambda L: L.Discretization(bin_boundaries=[-0.5, 0., 0.5]), (2, 6), grad=False)
row("category_encoding", lambda L: L.CategoryEncoding(5, output_mode="count"), (2, 4), ints=5, grad=False)
row("center_crop", lambda L: L.CenterCrop(3, 2), (2, 5, 6, 1), grad=False)
row("resizing", lambda L: L.Resizing(3, 5), (2, 6, 4, 1), grad=False)


def numbers(shape, seed):
    """Some numbers, always the same."""
    return np.asarray(np.random.RandomState(seed).randn(*shape), "float32")


def run(tf, entry):
    """The layer's outputs and gradients, its weights replaced by fixed numbers."""
    layer = entry["make"](tf.keras.layers)
    if entry["ints"]:
        xs = [np.random.RandomState(i).randint(0, entry["ints"], s).astype("int32") for i, s in enumerate(entry["shapes"])]
    else:
        xs = [numbers(s, i) for i, s in enumerate(entry["shapes"])]
    inputs = [tf.constant(x) for x in xs]
    arguments = inputs if entry["spread"] or len(inputs) == 1 else [inputs]
    call = dict(entry["call"])
    if entry["masked"]:
        call["mask"] = tf.constant(np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1], [0, 1, 1, 1, 0]], bool))
    layer(*arguments, **call)
    shapes = [tuple(w.shape) for w in layer.weights]
    layer.set_weights([np.abs(numbers(s, 10 + i)) * 0.5 + 0.1 for i, s in enumerate(shapes)])
    if not entry["grad"]:
        return [np.asarray(layer(*arguments, **call), "float32")]
    with tf.GradientTape() as tape:
        if not entry["ints"]:
            tape.watch(inputs)
        y = layer(*arguments, **call)
        total = tf.reduce_sum(y * numbers(tuple(y.shape), 99))
    variables = [w if callable(w.value) else w.value for w in layer.trainable_weights]     # Keras 3 wraps them
    sources = variables + ([] if entry["ints"] else inputs)
    grads = tape.gradient(total, sources) if sources else []
    return [np.asarray(y)] + [np.asarray(tf.convert_to_tensor(g)) for g in grads]


def results(tf):
    """The arrays of all rows, by name and number; what fails is its message."""
    found = {}
    for entry in ROWS:
        try:
            for i, value in enumerate(run(tf, entry)):
                found[f"{entry['name']}/{i}"] = value
        except Exception as e:
            found[f"{entry['name']}/error"] = np.array(f"{type(e).__name__}: {e}"[:500])
    return found


if __name__ == "__main__":
    import tensorflow
    np.savez(sys.argv[1], **results(tensorflow))
