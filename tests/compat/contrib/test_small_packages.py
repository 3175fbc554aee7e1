"""Packages of contrib with a few names each: integrate, sparsemax, mixed_precision, and single functions of others."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

contrib = tf.contrib


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_odeint_of_an_oscillator(session):
    times = np.linspace(0, 10, 41)
    found, info = contrib.integrate.odeint(lambda y, t: tf.stack([y[1], -y[0]]), tf.constant([0.0, 1.0], tf.float64), times,
                                           full_output=True)
    assert found.shape == [41, 2]
    values, info = session.run([found, info])
    np.testing.assert_allclose(values, np.stack([np.sin(times), np.cos(times)], 1), atol=1e-5)
    assert info["num_func_evals"] == 6 * len(info["integrate_points"]) + 1 and info["integrate_points"][-1] >= 10
    assert np.all(np.diff(info["integrate_points"])[info["error_ratio"][1:] <= 1] > 0)


def test_odeint_is_differentiated(session):
    rate = tf.constant(0.5, tf.float64)
    found = contrib.integrate.odeint(lambda y, t: -rate * y, tf.constant(2.0, tf.float64), [0.0, 1.0, 3.0])
    np.testing.assert_allclose(session.run(tf.gradients(found[-1], rate)[0]), -3 * 2 * np.exp(-1.5), rtol=1e-4)


@pytest.mark.parametrize("method,tolerance", [("euler", 0.1), ("midpoint", 1e-2), ("rk4", 1e-5)])
def test_fixed_steps(session, method, tolerance):
    times = np.linspace(0, 2, 21)
    found = contrib.integrate.odeint_fixed(lambda y, t: tf.cast(t, y.dtype) * y, 1.0, times, method=method)
    start = tf.constant(1.0, tf.float64)
    finer = contrib.integrate.odeint_fixed(lambda y, t: -y, start, [0.0, 1.0, 2.0], dt=0.03, method=method)
    values, finer = session.run([found, finer])
    np.testing.assert_allclose(values / np.exp(times ** 2 / 2), 1, atol=3 * tolerance)
    np.testing.assert_allclose(finer, np.exp([0.0, -1.0, -2.0]), atol=tolerance)


def test_odeint_arguments():
    with pytest.raises(ValueError, match="dopri5"):
        contrib.integrate.odeint(lambda y, t: y, 1.0, [0.0, 1.0], method="rk4")
    with pytest.raises(ValueError, match="steps"):
        contrib.integrate.odeint(lambda y, t: y, 1.0, [0.0, 1.0], method="dopri5", options={"steps": 3})
    with pytest.raises(TypeError, match="int32"):
        contrib.integrate.odeint(lambda y, t: y, 1, [0.0, 1.0])


def _simplex(row):
    """The nearest point of the simplex, by bisection."""
    low, high = row.min() - 1, row.max()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(row - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(row - low, 0)


def test_sparsemax_and_its_loss(session):
    z = np.random.RandomState(0).randn(5, 7)
    logits, labels = tf.constant(z), tf.one_hot([0, 1, 2, 3, 4], 7, dtype=tf.float64)
    p = contrib.sparsemax.sparsemax(logits)
    loss = contrib.sparsemax.sparsemax_loss(logits, p, labels)
    found, slope, target, losses = session.run([p, tf.gradients(loss, logits)[0], labels, loss])
    np.testing.assert_allclose(found, [_simplex(r) for r in z], atol=1e-10)
    np.testing.assert_allclose(slope, found - target, atol=1e-10)
    assert np.all(losses >= 0)
    bad = session.run(contrib.sparsemax.sparsemax([[0.0, np.nan], [np.inf, 0.0], [1.0, -np.inf]]))
    np.testing.assert_array_equal(bad, [[np.nan] * 2, [np.nan] * 2, [1, 0]])


def test_loss_scale_grows_and_shrinks(session):
    manager = contrib.mixed_precision.ExponentialUpdateLossScaleManager(8.0, incr_every_n_steps=2, decr_every_n_nan_or_inf=1,
                                                                        decr_ratio=0.5)
    optimizer = contrib.mixed_precision.LossScaleOptimizer(tf.train.GradientDescentOptimizer(0.5), manager)
    x, factor = tf.get_variable("x", initializer=1.0), tf.placeholder(tf.float32, [])
    step = optimizer.minimize(factor * x, tf.train.get_or_create_global_step())
    session.run(tf.global_variables_initializer())
    seen = []
    for value in (1.0, 1.0, np.inf, np.inf, 1.0):
        session.run(step, {factor: value})
        seen.append(session.run((x, manager.get_loss_scale())))
    assert seen == [(0.5, 8), (0.0, 16), (0.0, 8), (0.0, 4), (-0.5, 4)]
    assert session.run(tf.train.get_global_step()) == 3
    with pytest.raises(ValueError, match="at least 1"):
        contrib.mixed_precision.FixedLossScaleManager(0.5)


def test_dense_image_warp(session):
    image = np.random.RandomState(0).rand(2, 5, 6, 3).astype(np.float32)
    shift = np.zeros((2, 5, 6, 2), np.float32)
    shift[..., 0], shift[..., 1] = 1, -2
    half = np.zeros_like(shift)
    half[..., 1] = 0.5
    moved, between = session.run([contrib.image.dense_image_warp(image, shift), contrib.image.dense_image_warp(image, half)])
    rows, columns = np.clip(np.arange(5) - 1, 0, 4), np.clip(np.arange(6) + 2, 0, 5)
    np.testing.assert_allclose(moved, image[:, rows][:, :, columns], atol=1e-6)
    np.testing.assert_allclose(between[:, :, 1:], (image[:, :, 1:] + image[:, :, :-1]) / 2, atol=1e-6)
    np.testing.assert_allclose(between[:, :, 0], image[:, :, 0], atol=1e-6)


def test_adamax(session):
    x = tf.get_variable("x", initializer=[1.0, 2.0])
    step = contrib.opt.AdaMaxOptimizer(0.1).minimize(tf.reduce_sum(tf.square(x)))
    session.run(tf.global_variables_initializer())
    want, m, v = np.array([1.0, 2.0]), 0.0, 0.0
    for t in range(1, 4):
        g = 2 * want
        m, v = 0.9 * m + 0.1 * g, np.maximum(0.999 * v, np.abs(g))
        want = want - 0.1 / (1 - 0.9 ** t) * m / (v + 1e-8)
        session.run(step)
        np.testing.assert_allclose(session.run(x), want, rtol=1e-5)


def test_functions_of_nn_and_metrics(session):
    logits, labels = tf.constant([[1.0, -2.0]]), tf.constant([[0.0, 1.0]])
    same = [(contrib.nn.deprecated_flipped_sigmoid_cross_entropy_with_logits(logits, labels),
             tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)),
            (contrib.nn.deprecated_flipped_sparse_softmax_cross_entropy_with_logits(logits, [1]),
             tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1], logits=logits)),
            (contrib.nn.scaled_softplus(logits, 2.0, 1.0), tf.minimum(2 * tf.nn.softplus(logits / 2), 1.0)),
            (contrib.nn.nth_element([[3.0, 1.0, 2.0]], 1), tf.constant([2.0]))]
    for found, want in session.run(same):
        np.testing.assert_allclose(found, want, rtol=1e-6)
    rates = [f([1, 1, 0, 0, 1], [0, 1, 0, 1, 0]) for f in (contrib.metrics.streaming_false_positive_rate,
                                                          contrib.metrics.streaming_false_negative_rate)]
    clipped, norm = contrib.opt.clip_gradients_by_global_norm([(tf.constant([3.0]), "a"), (tf.constant([4.0]), "b")], 1.0)
    session.run(tf.local_variables_initializer())
    np.testing.assert_allclose(session.run([u for _, u in rates]), [2 / 3, 1 / 2], rtol=1e-6)
    np.testing.assert_allclose(session.run([v for v, _ in rates]), [2 / 3, 1 / 2], rtol=1e-6)
    np.testing.assert_allclose(session.run([g for g, _ in clipped]), [[0.6], [0.8]], rtol=1e-6)
    assert session.run(norm) == 5.0 and [v for _, v in clipped] == ["a", "b"]


def test_names_that_have_moved():
    assert contrib.cluster_resolver.SimpleClusterResolver is tf.distribute.cluster_resolver.SimpleClusterResolver
    assert contrib.feature_column.sequence_numeric_column is tf.feature_column.sequence_numeric_column
    assert contrib.hooks.ProfilerHook is tf.train.ProfilerHook
    assert contrib.checkpoint.CheckpointManager is tf.train.CheckpointManager
    assert contrib.deprecated.scalar_summary is tf.summary.scalar
    assert contrib.saved_model.load_keras_model is tf.keras.experimental.load_from_saved_model
    assert contrib.learn.PredictionKey.CLASSES == "classes"


def test_linear_models_of_learn(session):
    x = np.random.RandomState(0).randn(20, 3).astype(np.float32)
    given = tf.constant(x)
    found, loss = contrib.learn.models.linear_regression_zero_init(given, tf.constant(x[:, 0]))
    chances, entropy = contrib.learn.models.logistic_regression_zero_init(given, tf.one_hot(x[:, 0] > 0, 2))
    session.run(tf.global_variables_initializer())
    assert found.shape == [20] and [v.op.name for v in tf.trainable_variables()][:2] == ["linear_regression/weights",
                                                                                         "linear_regression/bias"]
    np.testing.assert_allclose(session.run(loss), np.mean(x[:, 0] ** 2), rtol=1e-6)
    np.testing.assert_allclose(session.run(entropy), np.log(2), rtol=1e-6)
    np.testing.assert_allclose(session.run(chances), 0.5, rtol=1e-6)


def test_strings_to_positions(session):
    ids = contrib.lookup.string_to_index(tf.constant(["b", "z", "a"]), tf.constant(["a", "b"]))
    names = contrib.lookup.index_to_string(tf.constant([1, 5], tf.int64), tf.constant(["a", "b"]))
    session.run(tf.tables_initializer())
    assert session.run(ids).tolist() == [1, -1, 0] and session.run(names).tolist() == [b"b", b"UNK"]


def test_model_analysis_of_tfprof(capfd):
    analyzer = contrib.tfprof.model_analyzer
    with tf.Graph().as_default() as graph:
        tf.get_variable("w", [4, 3])
        tf.get_variable("step", [], trainable=False)
        found = analyzer.print_model_analysis(graph, tfprof_options=analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS)
    assert found.total_parameters == 12 and "w (4x3" in capfd.readouterr().out


def test_independent_cells(session):
    x, h, c = (np.random.RandomState(i).randn(2, 3).astype(np.float32) for i in range(3))

    def sigmoid(v):
        return 1 / (1 + np.exp(-v))
    lstm, gru = contrib.rnn.IndyLSTMCell(3, name="lstm"), contrib.rnn.IndyGRUCell(3, name="gru")
    out, state = lstm(tf.constant(x), tf.nn.rnn_cell.LSTMStateTuple(c, h))
    new, _ = gru(tf.constant(x), tf.constant(h))
    session.run(tf.global_variables_initializer())
    values = {v.op.name: session.run(v) for v in tf.trainable_variables()}
    assert sorted(values) == ["gru/candidate/bias", "gru/candidate/kernel", "gru/candidate/kernel_u", "gru/gates/bias",
                              "gru/gates/kernel_u", "gru/gates/kernel_w", "lstm/bias", "lstm/kernel_u", "lstm/kernel_w"]
    i, j, f, o = np.split(x @ values["lstm/kernel_w"] + np.tile(h, 4) * values["lstm/kernel_u"], 4, axis=1)
    want = c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
    np.testing.assert_allclose(session.run(state.c), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(session.run(out), np.tanh(want) * sigmoid(o), rtol=1e-5, atol=1e-6)
    r, u = np.split(sigmoid(x @ values["gru/gates/kernel_w"] + np.tile(h, 2) * values["gru/gates/kernel_u"] + 1), 2, axis=1)
    candidate = np.tanh(x @ values["gru/candidate/kernel"] + r * h * values["gru/candidate/kernel_u"])
    np.testing.assert_allclose(session.run(new), u * h + (1 - u) * candidate, rtol=1e-5, atol=1e-6)


def test_with_shape(session):
    check, unknown = contrib.framework.with_shape, tf.placeholder(tf.float32)
    fixed = tf.zeros([2, 3])
    assert check([2, 3], fixed) is fixed and check((None, 3), fixed) is fixed
    with pytest.raises(ValueError, match="Invalid shape"):
        check([3, 2], fixed)
    for wrong, words in ((1.5, "Invalid dtype"), ([[2, 3]], "Invalid rank"), (tf.constant([1.0]), "Invalid dtype")):
        with pytest.raises(ValueError, match=words):
            check(wrong, fixed)
    partly = check([None, 2], unknown)
    assert partly.shape.as_list() == [None, 2]
    assert session.run(partly, {unknown: np.ones([3, 2])}).shape == (3, 2)
    for wrong in ([3, 3], [2]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Wrong shape"):
            session.run(partly, {unknown: np.ones(wrong)})
    assert check([], tf.ones([1])).shape == []
    with pytest.raises(tf.errors.InvalidArgumentError, match="Wrong shape"):
        session.run(check(tf.constant([2]), fixed))


def test_names_of_contrib_leave_functions_their_own():
    assert contrib.keras.losses.mse is tf.keras.losses.mse
    assert contrib.keras.losses.mse.__name__ == "mean_squared_error"
