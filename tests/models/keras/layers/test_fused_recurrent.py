"""GRU and SimpleRNN as one op: outputs, states and gradients as of the loop over time, and graphs that others can read."""
import itertools

import numpy as np
import pytest

import penstock as tf
from penstock._src.kernels import recurrent
from penstock._src.state.saved_model.frozen import convert_variables_to_constants_v2

ROWS, STEPS, FEATURES, UNITS = 5, 7, 4, 6
MASKS = {"none": None, "holes": np.random.RandomState(0).rand(ROWS, STEPS) > 0.4,
         "padded in front": np.arange(STEPS)[None] >= np.array([3, 7, 0, 1, 5])[:, None]}
LAYERS = {"gru": lambda **k: tf.keras.layers.GRU(UNITS, **k),
          "gru, relu": lambda **k: tf.keras.layers.GRU(UNITS, activation="relu", recurrent_activation="hard_sigmoid", **k),
          "gru without bias": lambda **k: tf.keras.layers.GRU(UNITS, use_bias=False, **k),
          "simple": lambda **k: tf.keras.layers.SimpleRNN(UNITS, **k),
          "simple, linear": lambda **k: tf.keras.layers.SimpleRNN(UNITS, activation=None, use_bias=False, **k)}


def results(make, fused, mask, backwards, zeros, start, unknown):
    draw = np.random.RandomState(1)
    x, state = draw.randn(ROWS, STEPS, FEATURES).astype("f"), draw.randn(ROWS, UNITS).astype("f")
    layer = make(return_sequences=True, return_state=True, go_backwards=backwards)
    layer.zero_output_for_mask = zeros
    layer.build((ROWS, STEPS, FEATURES))
    layer.set_weights([draw.randn(*w.shape).astype("f") * 0.3 for w in layer.get_weights()])
    if not fused:
        layer._is_fusible = lambda *args: False
    shape = [None, None, FEATURES] if unknown else x.shape

    @tf.function(input_signature=[tf.TensorSpec(shape, tf.float32)])
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            given = {} if mask is None else {"mask": tf.constant(mask)}
            out = layer(x, initial_state=[tf.constant(state)] if start else None, **given)
            loss = tf.add_n([tf.reduce_sum(tf.sin(o)) * (i + 1) for i, o in enumerate(out)])
        return out, tape.gradient(loss, [x, *layer.trainable_variables])
    return [v.numpy() for v in tf.nest.flatten(run(tf.constant(x)))]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("layer", LAYERS)
def test_the_op_agrees_with_the_loop(layer, mask, compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(recurrent, "fits", lambda *tensors: False)
    for how in list(itertools.product([False, True], repeat=3))[::1 if mask == "holes" else 3]:
        with_op, with_loop = (results(LAYERS[layer], fused, MASKS[mask], *how, unknown=how[0]) for fused in (True, False))
        for ours, loop in zip(with_op, with_loop, strict=True):
            np.testing.assert_allclose(ours, loop, rtol=1e-4, atol=2e-5, err_msg=str(how))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("layer", ["gru", "simple"])
def test_saved_models_hold_a_loop(layer, masked, tmp_path):
    draw = np.random.RandomState(0)
    module = tf.Module()
    module.layer = LAYERS[layer](return_sequences=True)
    mask = tf.constant(MASKS["holes"]) if masked else None
    module.run = tf.function(lambda x: module.layer(x, mask=mask), input_signature=[tf.TensorSpec([ROWS, None, FEATURES])])
    x = draw.randn(ROWS, STEPS, FEATURES).astype("f")
    wanted = module.run(x).numpy()
    tf.saved_model.save(module, str(tmp_path))
    np.testing.assert_allclose(tf.saved_model.load(str(tmp_path)).run(x).numpy(), wanted, rtol=1e-5, atol=1e-6)
    found = module.run.get_concrete_function().graph.as_graph_def()
    assert not any(n.op.startswith("_") for n in [*found.node, *(n for f in found.library.function for n in f.node_def)])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("layer", [*LAYERS, "lstm"])
def test_frozen_graphs_hold_a_loop(layer, masked):
    draw = np.random.RandomState(0)
    layer = tf.keras.layers.LSTM(UNITS, return_sequences=True, return_state=True) if layer == "lstm" else LAYERS[layer]()
    mask = tf.constant(MASKS["holes"]) if masked else None
    run = tf.function(lambda x: layer(x, mask=mask), input_signature=[tf.TensorSpec([ROWS, None, FEATURES])])
    x = tf.constant(draw.randn(ROWS, STEPS, FEATURES).astype("f"))
    wanted = tf.nest.flatten(run(x))
    frozen = convert_variables_to_constants_v2(run.get_concrete_function())
    for value, expected in zip(tf.nest.flatten(frozen(x)), wanted, strict=True):
        np.testing.assert_allclose(value.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    types = {n.op for n in frozen.graph.as_graph_def().node}
    assert types & {"While", "StatelessWhile"} and not types & {"BlockLSTMV2", "PartitionedCall"}
    names = {n.name for n in frozen.graph.as_graph_def().node}
    assert names >= {i.split(":")[0].lstrip("^") for n in frozen.graph.as_graph_def().node for i in n.input}
    again = tf.Graph()
    with again.as_default():
        tf.import_graph_def(frozen.graph.as_graph_def(), name="")


def test_eager_and_stateful():
    x = np.random.RandomState(0).randn(2, 2, STEPS, FEATURES).astype("f")
    layer = tf.keras.layers.GRU(UNITS, stateful=True)
    one = tf.keras.layers.GRU(UNITS)
    model = tf.keras.Sequential([tf.keras.Input(batch_shape=(2, STEPS, FEATURES)), layer])
    one.build((2, 2 * STEPS, FEATURES))
    one.set_weights(layer.get_weights())
    model(x[0])
    np.testing.assert_allclose(model(x[1]).numpy(), one(np.concatenate(list(x), 1)).numpy(), rtol=1e-5, atol=1e-6)


def test_wrong_shapes():
    from penstock._src.ops.nn.recurrent_layer import layer
    with pytest.raises(tf.errors.InvalidArgumentError, match="weights of a recurrent layer"):
        layer(tf.zeros([3, 2, 4]), tf.zeros([2, 4]), tf.zeros([3, 4]), tf.zeros([0]), tf.zeros([0], tf.bool), kind="simple",
              activation="tanh", gate_activation="sigmoid", written_as="")
