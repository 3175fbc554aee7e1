"""Recurrent layers: one op against cell by cell, states, masks, wrappers."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

L, V1 = tf.keras.layers, tf1.keras.layers
RNG = np.random.default_rng(4)
X = RNG.normal(size=(3, 5, 4)).astype("f")
MASK = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1], [0, 1, 1, 0, 1]], bool)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _lstm(x, kernel, recurrent, bias, mask=None):
    h = c = np.zeros((len(x), recurrent.shape[0]))
    outs = []
    for t in range(x.shape[1]):
        i, f, g, o = np.split(x[:, t] @ kernel + h @ recurrent + bias, 4, 1)
        new_c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        new_h = _sigmoid(o) * np.tanh(new_c)
        m = np.ones((len(x), 1), bool) if mask is None else mask[:, t:t + 1]
        h, c = np.where(m, new_h, h), np.where(m, new_c, c)
        outs.append(np.where(m, new_h, outs[-1] if outs else 0))
    return np.stack(outs, 1), h, c


@pytest.mark.parametrize("mask", [None, MASK])
def test_lstm_is_its_equations(mask):
    layer = L.LSTM(6, return_sequences=True, return_state=True, bias_initializer="ones")
    got = [t.numpy() for t in layer(X, mask=None if mask is None else tf.constant(mask))]
    for one, want in zip(got, _lstm(X, *layer.get_weights(), mask), strict=True):
        np.testing.assert_allclose(one, want, atol=1e-5)


@pytest.mark.parametrize("cls", [L.LSTM, L.GRU, L.SimpleRNN, V1.LSTM, V1.GRU])
def test_gradients_are_those_of_unrolled_layers(cls):
    looped, unrolled = cls(3, return_sequences=True), cls(3, return_sequences=True, unroll=True)
    grads = []
    for layer in (looped, unrolled):
        layer(X)
        layer.set_weights([RNG.normal(size=w.shape) * 0 + 0.1 * (i + 1) for i, w in enumerate(layer.get_weights())])

        @tf.function
        def gradients(x, layer=layer):
            with tf.GradientTape() as tape:
                total = tf.reduce_sum(layer(x) ** 2)
            return tape.gradient(total, layer.trainable_weights)
        grads.append([g.numpy() for g in gradients(tf.constant(X))])
    for a, b in zip(*grads, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_states_last_until_they_are_reset():
    layer = L.GRU(3, stateful=True)
    first, second = layer(X).numpy(), layer(X).numpy()
    assert np.abs(first - second).max() > 1e-3
    layer.reset_states()
    np.testing.assert_allclose(layer(X).numpy(), first, atol=1e-6)
    layer.reset_states(states=np.ones((3, 3)))
    assert np.abs(layer(X).numpy() - first).max() > 1e-3
    with pytest.raises(ValueError, match="incompatible with layer"):
        layer.reset_states(states=np.ones((2, 3)))
    with pytest.raises(AttributeError, match="must be stateful"):
        L.GRU(3).reset_states()


def test_initial_states_continue_a_sequence():
    layer = L.LSTM(3, return_state=True)
    whole = layer(X)[0].numpy()
    _, h, c = layer(X[:, :2])
    np.testing.assert_allclose(layer(X[:, 2:], initial_state=[h, c])[0].numpy(), whole, atol=1e-5)


def test_dropout_is_the_same_at_each_step():
    layer = L.RNN(L.SimpleRNNCell(4, activation="linear", dropout=0.5, kernel_initializer="identity", use_bias=False,
                                  recurrent_initializer="zeros"), return_sequences=True)
    y = layer(np.ones((2, 6, 4), "f"), training=True).numpy()
    np.testing.assert_array_equal(y, np.broadcast_to(y[:, :1], y.shape))
    assert set(np.unique(y)) <= {0., 2.}


def test_a_cell_of_ones_own_with_constants():
    class Cell(tf.keras.layers.Layer):
        state_size = 4

        def call(self, inputs, states, constants):
            out = inputs + states[0] + constants[0]
            return out, [out]
    layer = L.RNN(Cell())
    add = tf.constant(RNG.normal(size=(3, 4)).astype("f"))
    np.testing.assert_allclose(layer(X, constants=add).numpy(), X.sum(1) + 5 * add.numpy(), atol=1e-5)


def test_bidirectional_is_both_ways():
    layer = L.Bidirectional(L.LSTM(3, return_sequences=True))
    y = layer(X).numpy()
    weights = layer.get_weights()
    np.testing.assert_allclose(y[..., :3], _lstm(X, *weights[:3])[0], atol=1e-5)
    np.testing.assert_allclose(y[..., 3:], _lstm(X[:, ::-1], *weights[3:])[0][:, ::-1], atol=1e-5)


def test_cudnn_weights():
    cudnn, layer = V1.CuDNNGRU(3), L.GRU(3)
    want = cudnn(X).numpy()
    layer(X)
    kernel, recurrent, bias = cudnn.get_weights()
    layer.set_weights([kernel, recurrent, bias.reshape(2, 9)])
    np.testing.assert_allclose(layer(X).numpy(), want, atol=1e-6)
    with pytest.raises(ValueError, match="Masking is not supported"):
        V1.CuDNNLSTM(3).call(tf.constant(X), mask=tf.constant(MASK))


def test_graph_mode_trains_in_a_session():
    with tf1.Graph().as_default(), tf1.Session() as sess:
        x = tf1.placeholder(tf1.float32, [None, 5, 4])
        layer = V1.LSTM(3, recurrent_activation="sigmoid")
        loss = tf1.reduce_sum(layer(x) ** 2)
        grads = tf1.gradients(loss, layer.trainable_weights)
        sess.run(tf1.global_variables_initializer())
        value, *got = sess.run([loss, *grads], {x: X})
        kernel = sess.run(layer.cell.kernel)
        step = 1e-3 * np.sign(got[0])
        sess.run(layer.cell.kernel.assign(kernel + step))
        moved = sess.run(loss, {x: X})
    assert abs((moved - value) - (got[0] * step).sum()) < 0.1 * abs(moved - value) + 1e-5


@pytest.mark.parametrize("kind", ["SimpleRNNCell", "GRUCell", "LSTMCell"])
def test_cells_that_drop_are_called_in_several_functions(kind):
    cell = getattr(tf.keras.layers, kind)(4, dropout=0.5, recurrent_dropout=0.5)

    def steps(x):
        state = cell.get_initial_state(batch_size=2, dtype=tf.float32)
        state = state if isinstance(state, list | tuple) else [state]
        for _ in range(3):
            out, state = cell(x, state, training=True)
        return out
    x = tf.ones([2, 3])
    for function in (tf.function(steps), tf.function(steps), steps, steps):
        assert function(x).shape == (2, 4)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("make", [lambda **k: tf.keras.layers.LSTM(3, **k), lambda **k: tf.keras.layers.SimpleRNN(3, **k),
                                  lambda **k: tf.keras.layers.RNN(tf.keras.layers.GRUCell(3), **k)])
def test_ragged_sequences_are_as_each_on_its_own(make, back):
    """Of sequences with other lengths, and in functional models."""
    rows = [np.random.RandomState(n).rand(n, 2).astype("f") for n in (3, 1, 4)]
    ragged = tf.RaggedTensor.from_row_lengths(np.concatenate(rows), [3, 1, 4])
    layer = make(return_sequences=True, return_state=True, go_backwards=back)
    outputs, state, *_ = layer(ragged)
    given = tf.keras.Input([None, 2], ragged=True)
    modelled = tf.keras.Model(given, layer(given)[0])(ragged)
    for i, row in enumerate(rows):
        expected, last, *_ = layer(row[None])
        np.testing.assert_allclose(outputs[i], expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(modelled[i], expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(state[i], last[0], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="ragged"):
        layer(ragged, mask=tf.ones([3, 4], tf.bool))


@pytest.mark.parametrize("name", ["GRUCell", "SimpleRNNCell"])
def test_cells_with_one_state_take_it_without_a_list(name):
    cell = getattr(tf.keras.layers, name)(3)
    x = tf.constant(np.linspace(-1, 1, 8, dtype="f").reshape(2, 4))
    h = tf.constant(np.linspace(0, 1, 6, dtype="f").reshape(2, 3))
    np.testing.assert_array_equal(cell(x, h)[0], cell(x, [h])[0])


def test_weights_of_cells_are_named_after_the_cells():
    """As tf_keras names them; in graph mode, cells add nothing to the names."""
    class Mine(tf.keras.layers.Layer):
        state_size = 2

        def build(self, input_shape):
            self.kernel = self.add_weight(name="kernel", shape=(input_shape[-1], 2))

        def call(self, inputs, states):
            return states[0] + inputs @ self.kernel, states

    made = {"a": tf.keras.layers.LSTM(2, name="a"), "b": tf.keras.layers.RNN(Mine(name="mine"), name="b"),
            "c": tf.keras.layers.RNN([Mine(name="one"), Mine(name="two")], name="c")}
    for layer in made.values():
        layer(np.ones((1, 2, 3), "f"))
    assert [w.name for w in made["a"].weights] == [f"a/lstm_cell/{n}:0" for n in ("kernel", "recurrent_kernel", "bias")]
    assert [w.name for w in made["b"].weights] == ["b/mine/kernel:0"]
    assert [w.name.split("/")[2] for w in made["c"].weights] == ["one", "two"]
    assert tf.keras.layers.ConvLSTM2D(2, 2).name.startswith("conv_lstm2d")


def test_each_step_of_ragged_sequences_goes_through_a_layer():
    values = np.arange(12, dtype="f").reshape(6, 2)
    ragged = tf.RaggedTensor.from_row_lengths(values, [3, 1, 2])
    inputs = tf.keras.Input((None, 2), ragged=True)
    model = tf.keras.Model(inputs, tf.keras.layers.TimeDistributed(tf.keras.layers.Dense(1, kernel_initializer="ones"))(inputs))
    found = model(ragged)
    np.testing.assert_array_equal(found.values, values.sum(1, keepdims=True))
    np.testing.assert_array_equal(found.row_lengths(), [3, 1, 2])


@pytest.mark.parametrize("name, masked, eager, traced", [
    ("LSTM", False, [0.0095, -0.0127], [-0.0114, -0.0099]), ("LSTM", True, [-0.102, 0.0085], [0.1251, -0.0538]),
    ("GRU", False, [0.237, -0.232], [0.3823, -0.2246]), ("GRU", True, [0.1091, -0.2205], [0.3953, -0.2156])])
def test_inputs_are_dropped_as_in_tf_keras(name, masked, eager, traced):
    """With the default arguments, each step by itself; recorded after `set_random_seed(3)`."""
    rng = np.random.RandomState(0)
    x, mask = rng.rand(4, 6, 3).astype("f"), rng.rand(4, 6) > 0.3
    tf.keras.utils.set_random_seed(3)
    layer = getattr(tf.keras.layers, name)(2, dropout=0.4)
    arguments = {"training": True, **({"mask": mask} if masked else {})}
    np.testing.assert_allclose(layer(x, **arguments)[0], eager, atol=1e-4)
    np.testing.assert_allclose(tf.function(lambda a: layer(a, **arguments))(x)[0], traced, atol=1e-4)
