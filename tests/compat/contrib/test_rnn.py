"""tf.contrib.rnn: cells against numpy where they are simple, shapes, variables and training for all."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

RNG = np.random.RandomState(1)
X = RNG.randn(2, 4, 3).astype(np.float32)
CELLS = {
    "LayerNormBasicLSTMCell": {}, "LayerNormLSTMCell": {"layer_norm": True, "use_peepholes": True, "num_proj": 3},
    "CoupledInputForgetGateLSTMCell": {"use_peepholes": True, "num_proj": 2}, "UGRNNCell": {}, "NASCell": {"use_bias": True},
    "IntersectionRNNCell": {"num_in_proj": 4}, "IndRNNCell": {}, "SRUCell": {}, "WeightNormLSTMCell": {"use_peepholes": True},
    "LSTMBlockCell": {"use_peephole": True}, "GRUBlockCell": {}, "GRUBlockCellV2": {}, "MinimalRNNCell": {}, "CFNCell": {},
    "IndyGRUCell": {},
}


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_trains(name):
    cell = getattr(tf.contrib.rnn, name)(4, **CELLS[name])
    outputs, _ = tf.nn.dynamic_rnn(cell, X, dtype=tf.float32)
    assert outputs.shape == (2, 4, cell.output_size)
    loss = tf.reduce_sum(tf.square(outputs - 0.5))
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(loss)
        for _ in range(5):
            session.run(train)
        assert session.run(loss) < before
    gradients = tf.gradients(loss, tf.trainable_variables())
    assert all(g is not None for g in gradients) and tf.trainable_variables()


def test_block_cells_are_the_plain_cells(run):
    with tf.variable_scope("a", initializer=tf.random_normal_initializer(seed=1)) as scope:
        plain, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(4, use_peepholes=True), X, dtype=tf.float32)
        scope.reuse_variables()
        block, _ = tf.nn.dynamic_rnn(tf.contrib.rnn.LSTMBlockCell(4, use_peephole=True), X, dtype=tf.float32)
    with tf.variable_scope("b", initializer=tf.random_normal_initializer(seed=1)) as scope:
        gru, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(4), X, dtype=tf.float32)
        scope.reuse_variables()
        gru_block, _ = tf.nn.dynamic_rnn(tf.contrib.rnn.GRUBlockCellV2(4), X, dtype=tf.float32)
    _, a, b, c, d = run(plain, block, gru, gru_block)
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(c, d, rtol=1e-4, atol=1e-5)


def test_fused_lstm_is_the_loop(run):
    time_major = X.transpose(1, 0, 2)
    fused = tf.contrib.rnn.LSTMBlockFusedCell(4, name="lstm_cell")
    outputs, state = fused(tf.constant(time_major), dtype=tf.float32, sequence_length=[2, 4])
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        cell = tf.nn.rnn_cell.LSTMCell(4, name="lstm_cell", reuse=True)
        steps, s = [], cell.zero_state(2, tf.float32)
        for t in range(4):
            o, s = cell(tf.constant(time_major[t]), s)
            steps.append(o)
    _, a, last, b = run(outputs, state, tf.stack(steps))
    b[2:, 0] = 0
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last.h, [b[1, 0], b[3, 1]], rtol=1e-4, atol=1e-5)


def test_layer_norm_lstm_by_hand(run):
    cell = tf.contrib.rnn.LayerNormBasicLSTMCell(4)
    state = cell.zero_state(2, tf.float32)
    output, _ = cell(tf.constant(X[:, 0]), state)
    w, out = run(output)
    p = "layer_norm_basic_lstm_cell/"
    assert set(w) == {p + "kernel", *(f"{p}{g}/{v}" for g in ("input", "transform", "forget", "output", "state")
                                      for v in ("gamma", "beta"))}

    def norm(v):
        return (v - v.mean(1, keepdims=True)) / v.std(1, keepdims=True)

    sigmoid = lambda v: 1 / (1 + np.exp(-v))
    i, j, f, o = map(norm, np.split(np.concatenate([X[:, 0], np.zeros((2, 4))], 1) @ w[p + "kernel"], 4, 1))
    np.testing.assert_allclose(out, np.tanh(norm(sigmoid(i) * np.tanh(j))) * sigmoid(o), rtol=1e-3, atol=1e-4)


def test_phased_and_frequency_cells(run):
    phased = tf.contrib.rnn.PhasedLSTMCell(4, use_peepholes=True)
    times = tf.constant(np.arange(8).reshape(2, 4, 1), tf.float32)
    a, _ = tf.nn.dynamic_rnn(phased, (times, X), dtype=tf.float32)
    tf_cell = tf.contrib.rnn.TimeFreqLSTMCell(2, feature_size=2, frequency_skip=1)
    b, state = tf_cell(tf.constant(X[:, 0]), tf.zeros([2, 8]))
    conv = tf.contrib.rnn.Conv2DLSTMCell(input_shape=[5, 5, 2], output_channels=3, kernel_shape=[3, 3])
    c, _ = tf.nn.dynamic_rnn(conv, RNG.randn(2, 3, 5, 5, 2).astype(np.float32), dtype=tf.float32)
    glstm = tf.contrib.rnn.GLSTMCell(4, number_of_groups=2)
    d, _ = glstm(tf.ones([2, 6]), glstm.zero_state(2, tf.float32))
    w, va, vb, vs, vc, vd = run(a, b, state, c, d)
    assert va.shape == (2, 4, 4) and vb.shape == (2, 4) and vs.shape == (2, 8) and vc.shape == (2, 3, 5, 5, 3)
    assert vd.shape == (2, 4) and all(np.isfinite(v).all() for v in (va, vb, vs, vc, vd))
    assert 1 <= w["rnn/phased_lstm_cell/period"].min() and w["rnn/phased_lstm_cell/period"].max() <= 1000
    assert (w["rnn/phased_lstm_cell/phase"] <= w["rnn/phased_lstm_cell/period"]).all()


def test_wrappers(run):
    rnn = tf.contrib.rnn
    projected, _ = tf.nn.dynamic_rnn(rnn.OutputProjectionWrapper(rnn.GRUCell(4), 2), X, dtype=tf.float32, scope="p")
    attended, state = tf.nn.dynamic_rnn(rnn.AttentionCellWrapper(rnn.GRUCell(4), attn_length=3), X, dtype=tf.float32, scope="a")
    ids = tf.constant([[[1], [0]], [[2], [1]]])
    embedded, _ = tf.nn.dynamic_rnn(rnn.EmbeddingWrapper(rnn.GRUCell(4), 3, 5), ids, dtype=tf.float32, scope="e")
    highway, _ = tf.nn.dynamic_rnn(rnn.HighwayWrapper(rnn.GRUCell(3)), X, dtype=tf.float32, scope="h")
    inner, _ = tf.nn.dynamic_rnn(rnn.InputProjectionWrapper(rnn.GRUCell(4), 6), X, dtype=tf.float32, scope="i")
    w, *values = run(projected, attended, embedded, highway, inner)
    assert [v.shape for v in values] == [(2, 4, 2), (2, 4, 4), (2, 2, 4), (2, 4, 3), (2, 4, 4)]
    assert w["p/output_projection_wrapper/kernel"].shape == (4, 2)
    assert w["e/embedding_wrapper/embedding"].shape == (3, 5) and w["h/carry_w"].shape == (3, 3)
    assert w["a/attention_cell_wrapper/attention/attn_w"].shape == (1, 1, 4, 4) and state[2].shape == (2, 12)


def test_stacks_of_both_directions():
    rnn = tf.contrib.rnn
    cells = lambda: [rnn.GRUCell(3), rnn.GRUCell(2)]
    outputs, fw, bw = rnn.stack_bidirectional_dynamic_rnn(cells(), cells(), X, dtype=tf.float32)
    assert outputs.shape == (2, 4, 4) and [s.shape.as_list() for s in fw] == [[2, 3], [2, 2]] and len(bw) == 2
    listed, _, _ = rnn.stack_bidirectional_rnn(cells(), cells(), tf.unstack(tf.constant(X), axis=1), dtype=tf.float32,
                                               scope="s")
    assert len(listed) == 4 and listed[0].shape == (2, 4)
    with pytest.raises(ValueError, match="same depth"):
        rnn.stack_bidirectional_dynamic_rnn(cells(), cells()[:1], X, dtype=tf.float32)


def test_old_names():
    assert tf.contrib.rnn.BasicLSTMCell is tf.nn.rnn_cell.BasicLSTMCell
    assert tf.contrib.rnn.static_rnn is tf.nn.static_rnn
    assert tf.contrib.rnn.transpose_batch_time(tf.ones([2, 3, 4])).shape == (3, 2, 4)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_minimal_cells_by_hand(run):
    x, state = X[:, 0], RNG.randn(2, 4).astype(np.float32)
    minimal, _ = tf.contrib.rnn.MinimalRNNCell(4, name="a")(tf.constant(x), tf.constant(state))
    chaos_free, _ = tf.contrib.rnn.CFNCell(4, name="b")(tf.constant(x), tf.constant(state))
    values, a, b = run(minimal, chaos_free)
    new = np.tanh(x @ values["a/kernel"][:3])
    keep = sigmoid(np.concatenate([new, state], 1) @ values["a/kernel"][3:] + 1)
    np.testing.assert_allclose(a, keep * state + (1 - keep) * new, rtol=1e-5, atol=1e-6)
    gates = sigmoid(state @ values["b/recurrent_kernel"] + x @ values["b/kernel"][:, :8] + 1)
    wanted = gates[:, :4] * np.tanh(state) + (1 - gates[:, 4:]) * np.tanh(x @ values["b/kernel"][:, 8:])
    np.testing.assert_allclose(b, wanted, rtol=1e-5, atol=1e-6)


def test_bias_without_layer_norm_starts_as_the_scope_says(run):
    with tf.variable_scope("s", initializer=tf.constant_initializer(0.5)):
        tf.contrib.rnn.LayerNormBasicLSTMCell(2, layer_norm=False)(tf.zeros([1, 3]), (tf.zeros([1, 2]),) * 2)
    values, = run()
    assert values["s/layer_norm_basic_lstm_cell/bias"].tolist() == [0.5] * 8


def test_names_of_the_variables_of_independent_units():
    tf.contrib.rnn.IndyGRUCell(2, name="cell")(tf.zeros([1, 3]), tf.zeros([1, 2]))
    assert sorted(v.op.name for v in tf.global_variables()) == [
        "cell/candidate/bias", "cell/candidate/kernel", "cell/candidate/kernel_u",
        "cell/gates/bias", "cell/gates/kernel_u", "cell/gates/kernel_w"]


def test_config_of_stacked_cells():
    assert tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(2)]).get_config()["trainable"]
