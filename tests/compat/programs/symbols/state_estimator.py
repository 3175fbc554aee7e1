"""tf.estimator and tf.feature_column, by the names that programs use most."""
import os
import tempfile

import numpy as np


def own_model(tf):
    x = np.linspace(-1, 1, 32, dtype=np.float32)[:, None]

    def model_fn(features, labels, mode):
        w = tf.get_variable("w", [1, 1], initializer=tf.zeros_initializer())
        y = tf.matmul(features["x"], w)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"y": y},
                                              export_outputs={"y": tf.estimator.export.PredictOutput({"y": y})})
        loss = tf.losses.mean_squared_error(labels, y)
        train = None
        if mode == tf.estimator.ModeKeys.TRAIN:
            train = tf.train.GradientDescentOptimizer(0.5).minimize(loss, tf.train.get_global_step())
        else:
            assert mode == tf.estimator.ModeKeys.EVAL
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)
    config = tf.estimator.RunConfig(model_dir=tempfile.mkdtemp(), save_checkpoints_steps=50)
    model = tf.estimator.Estimator(model_fn, config=config)
    feed = tf.estimator.inputs.numpy_input_fn({"x": x}, 3 * x, batch_size=8, num_epochs=None, shuffle=True)
    once = tf.estimator.inputs.numpy_input_fn({"x": x}, 3 * x, batch_size=8, num_epochs=1, shuffle=False)
    result, _ = tf.estimator.train_and_evaluate(model, tf.estimator.TrainSpec(feed, max_steps=60),
                                                tf.estimator.EvalSpec(once, steps=None))
    assert result["global_step"] == 60 and result["loss"] < 1e-2
    found = np.array([p["y"] for p in model.predict(once)])
    np.testing.assert_allclose(found, x * model.get_variable_value("w"), rtol=1e-5, atol=1e-6)


def ready_models(tf):
    draw = np.random.RandomState(0)
    x, words = draw.randn(64, 2).astype(np.float32), np.array(["a", "b"])[draw.randint(0, 2, 64)]
    labels = (x[:, 0] > 0).astype(np.int32)
    number = tf.feature_column.numeric_column("x", shape=[2])
    word = tf.feature_column.categorical_column_with_vocabulary_list("w", ["a", "b"])
    hashed = tf.feature_column.categorical_column_with_hash_bucket("w", 5)
    deep = [number, tf.feature_column.embedding_column(hashed, 2), tf.feature_column.indicator_column(word)]
    feed = tf.estimator.inputs.numpy_input_fn({"x": x, "w": words}, labels, 16, None, shuffle=True)
    once = tf.estimator.inputs.numpy_input_fn({"x": x, "w": words}, labels, 16, 1, shuffle=False)
    for model in (tf.estimator.DNNClassifier([8], deep, n_classes=2), tf.estimator.LinearClassifier([number, word]),
                  tf.estimator.DNNLinearCombinedClassifier(linear_feature_columns=[word], dnn_feature_columns=deep,
                                                           dnn_hidden_units=[8])):
        assert model.train(feed, steps=60).evaluate(once)["accuracy"] > 0.8
    spec = tf.feature_column.make_parse_example_spec(deep)
    assert set(spec) == {"x", "w"}


def columns(tf):
    age = tf.feature_column.bucketized_column(tf.feature_column.numeric_column("age"), [10, 20])
    crossed = tf.feature_column.indicator_column(tf.feature_column.crossed_column(["w", age], 4))
    made = tf.feature_column.input_layer({"age": tf.constant([5., 15.]), "w": tf.constant(["a", "b"])}, [age, crossed])
    with tf.Session() as sess:
        found = sess.run(made)
    np.testing.assert_array_equal(found[:, :3], [[1, 0, 0], [0, 1, 0]])
    assert found.shape == (2, 7) and found[:, 3:].sum() == 2


def trees(tf):
    from tensorflow.contrib.boosted_trees.proto import learner_pb2
    x = np.random.RandomState(0).rand(100, 1).astype(np.float32)
    labels = (x[:, 0] > 0.4).astype(np.int32)
    feed = tf.estimator.inputs.numpy_input_fn({"x": x}, labels, 100, None, shuffle=False)
    once = tf.estimator.inputs.numpy_input_fn({"x": x}, labels, 100, 1, shuffle=False)
    column = tf.feature_column.bucketized_column(tf.feature_column.numeric_column("x"), [0.2, 0.4, 0.6])
    model = tf.estimator.BoostedTreesClassifier([column], 1, n_trees=2, max_depth=2)
    assert model.train(feed, max_steps=20).evaluate(once)["accuracy"] == 1
    model = tf.estimator.BoostedTreesRegressor([column], 1, n_trees=5, max_depth=2, learning_rate=0.8)
    assert model.train(feed, max_steps=20).evaluate(once)["average_loss"] < 0.01
    config = tf.contrib.boosted_trees.proto.learner_pb2.LearnerConfig()
    config.growing_mode = tf.contrib.boosted_trees.proto.learner_pb2.LearnerConfig.LAYER_BY_LAYER
    config.multi_class_strategy = tf.contrib.boosted_trees.proto.learner_pb2.LearnerConfig.DIAGONAL_HESSIAN
    assert config.growing_mode == learner_pb2.LearnerConfig.LAYER_BY_LAYER == 2
    model = tf.contrib.boosted_trees.estimator_batch.estimator.GradientBoostedDecisionTreeClassifier(
        config, examples_per_layer=100, num_trees=2, center_bias=False)
    model.fit(input_fn=feed, max_steps=20)
    assert model.evaluate(input_fn=once)["accuracy"] == 1


def strategies(tf):
    x = np.linspace(-1, 1, 16, dtype=np.float32)[:, None]

    def model_fn(features, labels, mode):
        loss = tf.losses.mean_squared_error(labels, tf.layers.dense(features, 1, use_bias=False))
        train = tf.train.GradientDescentOptimizer(0.5).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)
    data = tf.data.Dataset.from_tensor_slices((x, 2 * x))
    alone = tf.contrib.distribute.CollectiveAllReduceStrategy()
    assert isinstance(alone, tf.distribute.experimental.MultiWorkerMirroredStrategy) and alone.num_replicas_in_sync == 1
    chosen = tf.contrib.distribute.DistributeConfig(train_distribute=tf.contrib.distribute.MirroredStrategy(devices=["/cpu:0"]))
    assert chosen.eval_distribute is None and chosen.train_distribute.num_replicas_in_sync == 1
    model = tf.estimator.Estimator(model_fn, config=tf.estimator.RunConfig(train_distribute=chosen.train_distribute))
    model.train(lambda: data.repeat().batch(8), steps=60)
    assert model.evaluate(lambda: data.batch(8))["loss"] < 1e-3


def timeseries(tf):
    ts, keys = tf.contrib.timeseries, tf.contrib.timeseries.TrainEvalFeatures
    assert tf.contrib.timeseries.TrainEvalFeatures.TIMES == "times"
    assert tf.contrib.timeseries.TrainEvalFeatures.VALUES == "values"
    times = np.arange(48)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "series.csv")
        with open(path, "w") as file:
            file.writelines(f"{t},{5 + (t % 4)}\n" for t in times)
        reader = tf.contrib.timeseries.CSVReader(path, column_names=(keys.TIMES, keys.VALUES))
        for estimator, size, near in (
                (tf.contrib.timeseries.ARRegressor(4, 4, 2, 1, model_dir=os.path.join(folder, "a"),
                                                   loss=tf.contrib.timeseries.ARModel.SQUARED_LOSS,
                                                   optimizer=lambda: tf.train.AdamOptimizer(0.03)), 6, 0.3),
                (tf.contrib.timeseries.StructuralEnsembleRegressor(4, 1, cycle_num_latent_values=4, moving_average_order=0,
                                                                   model_dir=os.path.join(folder, "s")), 16, 0.6)):
            estimator.train(tf.contrib.timeseries.RandomWindowInputFn(reader, window_size=size, batch_size=16),
                            steps=300 if size == 6 else 5)
            evaluation = estimator.evaluate(tf.contrib.timeseries.WholeDatasetInputFn(reader), steps=1)
            ahead = tf.contrib.timeseries.predict_continuation_input_fn(evaluation, steps=4)
            prediction, = estimator.predict(ahead)
            assert abs(prediction["mean"][:, 0] - [5, 6, 7, 8]).max() < near, prediction["mean"]
            assert prediction["times"].tolist() == [48, 49, 50, 51]
        where = estimator.export_saved_model(folder, estimator.build_raw_serving_input_receiver_fn())
        with tf.Session(graph=tf.Graph()) as sess:
            signatures = tf.saved_model.loader.load(sess, ["serve"], where)
            again = tf.contrib.timeseries.saved_model_utils.predict_continuation(evaluation, signatures, sess, steps=4)
            assert abs(again["mean"][0] - prediction["mean"]).max() < 1e-6 and ts.ARModel.SQUARED_LOSS == "squared_loss"
