"""Models of series: what they have learned shows in what they predict; the filter against numpy's."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

ts = tf.contrib.timeseries


def series(n=240, noise=0.02):
    times = np.arange(n)
    return times, 0.02 * times + np.sin(2 * np.pi * times / 12) + noise * np.random.default_rng(0).standard_normal(n)


def config():
    return tf.estimator.RunConfig(tf_random_seed=3)


def test_csv(tmp_path):
    (tmp_path / "a.csv").write_text("time,x,y,event\n1,0.5,2,no\n2,1.5,4,yes\n")
    reader = ts.CSVReader(str(tmp_path / "a.csv"), column_names=("times", "values", "values", "event"), skip_header_lines=1,
                          column_dtypes=(tf.int64, tf.float32, tf.float32, tf.string))
    features, labels = ts.WholeDatasetInputFn(reader)()
    with tf.Session() as session:
        got = session.run(features)
        assert labels is None and got["times"].tolist() == [[1, 2]] and got["values"].tolist() == [[[0.5, 2], [1.5, 4]]]
        assert got["event"].tolist() == [[[b"no"], [b"yes"]]]
    with pytest.raises(ValueError, match="windows of size 3"):
        ts.RandomWindowInputFn(reader, window_size=3, batch_size=1)()
    with pytest.raises(ValueError, match="missing"):
        ts.CSVReader("x.csv", column_names=("times",))


def test_windows():
    reader = ts.NumpyReader({"times": np.arange(50), "values": np.arange(50) * 2.0})
    features, _ = ts.RandomWindowInputFn(reader, window_size=5, batch_size=8, shuffle_seed=1)()
    with tf.Session() as session:
        one, two = session.run(features), session.run(features)
    assert one["values"].shape == (8, 5, 1) and (one["values"][..., 0] == one["times"] * 2).all()
    assert (np.diff(one["times"]) == 1).all() and (one["times"] != two["times"]).any()


def test_autoregression_learns_a_cycle(tmp_path):
    times, values = series(noise=0.0)
    values = values - 0.02 * times
    reader = ts.NumpyReader({"times": times, "values": values})
    estimator = ts.ARRegressor(12, input_window_size=8, output_window_size=4, num_features=1, model_dir=str(tmp_path),
                               loss=ts.ARModel.SQUARED_LOSS, optimizer=lambda: tf.train.AdamOptimizer(0.05), config=config())
    estimator.train(ts.RandomWindowInputFn(reader, window_size=12, batch_size=16), steps=120)
    evaluation = estimator.evaluate(ts.WholeDatasetInputFn(reader), steps=1)
    assert evaluation["mean"].shape == (1, 232, 1) and abs(evaluation["mean"] - evaluation["observed"]).mean() < 0.15
    prediction, = estimator.predict(ts.predict_continuation_input_fn(evaluation, steps=10))
    assert prediction["times"].tolist() == list(range(240, 250)) and prediction["covariance"].shape == (10, 1)
    assert abs(prediction["mean"][:, 0] - np.sin(2 * np.pi * np.arange(240, 250) / 12)).mean() < 0.3
    with pytest.raises(ValueError, match="window_size=12"):
        estimator.train(ts.RandomWindowInputFn(reader, window_size=10, batch_size=4), steps=1)


def test_structure_and_export(tmp_path):
    times, values = series(n=96)
    reader = ts.NumpyReader({"times": times, "values": values})
    estimator = ts.StructuralEnsembleRegressor(12, num_features=1, cycle_num_latent_values=6, moving_average_order=1,
                                               model_dir=str(tmp_path / "m"), config=config())
    estimator.train(ts.RandomWindowInputFn(reader, window_size=36, batch_size=4), steps=8)
    evaluation = estimator.evaluate(ts.WholeDatasetInputFn(reader), steps=1)
    prediction, = estimator.predict(ts.predict_continuation_input_fn(evaluation, steps=24))
    ahead = np.arange(96, 120)
    wanted = 0.02 * ahead + np.sin(2 * np.pi * ahead / 12)
    assert prediction["covariance"].shape == (24, 1, 1) and abs(prediction["mean"][:, 0] - wanted).mean() < 0.3
    assert (np.diff(prediction["covariance"][:, 0, 0])[-5:] > 0).all()                 # the farther, the less is known
    where = estimator.export_saved_model(str(tmp_path / "e"), estimator.build_raw_serving_input_receiver_fn())
    with tf.Graph().as_default(), tf.Session() as session:
        signatures = tf.saved_model.loader.load(session, ["serve"], where)
        saved = ts.saved_model_utils
        again = saved.predict_continuation(evaluation, signatures, session, steps=24)
        np.testing.assert_allclose(again["mean"][0], prediction["mean"], rtol=1e-6)
        half = saved.cold_start_filter(signatures, session, {"times": times[:50], "values": values[:50]})
        rest = saved.filter_continuation(half, signatures, session, {"times": times[50:], "values": values[50:]})
        both = np.concatenate([half["mean"], rest["mean"]], 1)
        np.testing.assert_allclose(both, evaluation["mean"], rtol=1e-6, atol=1e-8)


def test_the_filter_is_kalman_s(graph):
    """Against the formulas, for a model of level and trend alone, with a gap in time."""
    model = ts.StructuralEnsemble(None, 1, moving_average_order=0)
    times, values = np.array([[0, 1, 2, 5, 6]]), np.array([[[0.1], [0.4], [0.2], [1.0], [1.3]]])
    model.initialize_graph()
    outputs = model.get_batch_loss({"times": tf.constant(times), "values": tf.constant(values)}, "eval", model.start_state(1))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got, means, step, moved, noise, start = session.run([outputs.loss, outputs.predictions["mean"], model._step,
                                                             model._moved, model._noise, model.start_state(1)])
    mean, covariance, seen = start[0][0, 0], start[1][0, 0], np.array([1.0, 0.0, 1.0])
    loss, last, expected = 0.0, 0, []
    for time, value in zip(times[0], values[0, :, 0]):
        for _ in range(time - last):
            mean, covariance = step @ mean, step @ covariance @ step.T + moved
        last = time
        variance, miss = seen @ covariance @ seen + noise, value - seen @ mean
        expected.append(seen @ mean)
        loss += 0.5 * (np.log(2 * np.pi * variance) + miss**2 / variance) / 5
        gain = covariance @ seen / variance
        mean, covariance = mean + gain * miss, covariance - np.outer(gain, covariance @ seen)
    np.testing.assert_allclose(got, loss, rtol=1e-8)
    np.testing.assert_allclose(means[0, :, 0], expected, atol=1e-10)


@pytest.mark.slow
def test_known_events(tmp_path):
    """A jump that an exogenous feature announces is learned, and predicted where it is announced again."""
    times = np.arange(80)
    event = np.where(times % 20 == 10, "yes", "no")
    values = np.cumsum(event == "yes").astype(float)
    words = tf.feature_column.categorical_column_with_vocabulary_list("event", ["no", "yes"])
    column = tf.feature_column.indicator_column(words)
    estimator = ts.StructuralEnsembleRegressor(
        None, num_features=1, moving_average_order=0, exogenous_feature_columns=[column], model_dir=str(tmp_path),
        exogenous_update_condition=lambda times, features: tf.equal(tf.squeeze(features["event"], -1), "yes"),
        optimizer=lambda: tf.train.AdamOptimizer(0.1), config=config())
    reader = ts.NumpyReader({"times": times, "values": values, "event": event[:, None]})
    estimator.train(ts.RandomWindowInputFn(reader, window_size=30, batch_size=4), steps=40)
    evaluation = estimator.evaluate(ts.WholeDatasetInputFn(reader), steps=1)
    ahead = np.where(np.arange(10) == 5, "yes", "no").reshape(1, 10, 1)
    prediction, = estimator.predict(ts.predict_continuation_input_fn(evaluation, steps=10, exogenous_features={"event": ahead}))
    jump = prediction["mean"][5, 0] - prediction["mean"][4, 0]
    assert jump > 0.5 > abs(prediction["mean"][4, 0] - prediction["mean"][3, 0])
