"""A masked LSTM as one op computes what the loop over time computes: outputs, states and gradients."""
import itertools

import numpy as np
import pytest

import penstock as tf

ROWS, STEPS, FEATURES, UNITS = 5, 7, 4, 6
MASKS = {"holes": np.random.RandomState(0).rand(ROWS, STEPS) > 0.4,
         "padded": np.arange(STEPS)[None] < np.array([3, 7, 0, 1, 5])[:, None],
         "padded in front": np.arange(STEPS)[None] >= np.array([3, 7, 0, 1, 5])[:, None],
         "all": np.ones((ROWS, STEPS), bool)}


def results(fused, mask, sequences, backwards, zeros, start, unknown):
    draw = np.random.RandomState(1)
    x, states = draw.randn(ROWS, STEPS, FEATURES).astype("f"), draw.randn(2, ROWS, UNITS).astype("f")
    layer = tf.keras.layers.LSTM(UNITS, return_sequences=sequences, return_state=True, go_backwards=backwards)
    layer.zero_output_for_mask = zeros
    layer.build((ROWS, STEPS, FEATURES))
    layer.set_weights([draw.randn(*w.shape).astype("f") * 0.3 for w in layer.get_weights()])
    if not fused:
        layer._is_fusible = lambda *args: False

    @tf.function(input_signature=[tf.TensorSpec([None, None, FEATURES] if unknown else x.shape, tf.float32),
                                  tf.TensorSpec([None, None] if unknown else mask.shape, tf.bool)])
    def run(x, mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            out = layer(x, mask=mask, initial_state=list(tf.unstack(tf.constant(states))) if start else None)
            loss = tf.add_n([tf.reduce_sum(tf.sin(o)) * (i + 1) for i, o in enumerate(out)])
        return out, tape.gradient(loss, [x, *layer.trainable_variables])
    return [v.numpy() for v in tf.nest.flatten(run(tf.constant(x), tf.constant(mask)))]


@pytest.mark.parametrize("unknown", [False, True], ids=["static", "unknown"])
@pytest.mark.parametrize("mask", MASKS)
def test_the_op_agrees_with_the_loop(mask, unknown):
    for how in itertools.product([False, True], repeat=4):
        with_op, with_loop = (results(fused, MASKS[mask], *how, unknown) for fused in (True, False))
        for ours, loop in zip(with_op, with_loop, strict=True):
            np.testing.assert_allclose(ours, loop, rtol=1e-4, atol=2e-5, err_msg=str(how))
