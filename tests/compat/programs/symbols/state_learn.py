"""contrib.learn, contrib.tpu, the projector and what estimators export, by the names that programs use most."""
import os
import tempfile

import numpy as np


def learn(tf):
    c = tf.contrib.learn
    x = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]

    def model_fn(features, targets, mode):
        y = tf.layers.dense(features, 1, use_bias=False, kernel_initializer=tf.zeros_initializer())[:, 0]
        if mode == c.ModeKeys.INFER:
            return y, None, None
        assert mode in (c.ModeKeys.TRAIN, c.ModeKeys.EVAL)
        loss = tf.losses.mean_squared_error(targets, y)
        return y, loss, tf.contrib.layers.optimize_loss(loss, tf.train.get_global_step(), 0.5, "SGD")
    config = c.RunConfig(save_checkpoints_secs=600, tf_random_seed=1)
    assert config.tf_random_seed == 1
    inner = c.Estimator(model_fn, config=config)
    model = tf.contrib.learn.python.learn.estimators.estimator.SKCompat(inner)
    model.fit(x, 3 * x[:, 0], batch_size=40, steps=60)
    np.testing.assert_allclose(model.predict(x), 3 * x[:, 0], atol=1e-2)


def vocabulary(tf):
    v = tf.contrib.learn.preprocessing.VocabularyProcessor(4)
    rows = list(v.fit_transform(["the cat sat", "the dog sat down there"]))
    assert [r.tolist() for r in rows] == [[1, 2, 3, 0], [1, 4, 3, 5]]
    path = os.path.join(tempfile.mkdtemp(), "vocabulary")
    v.save(path)
    same = tf.contrib.learn.preprocessing.VocabularyProcessor.restore(path)
    assert next(same.transform(["the bird sat"])).tolist() == [1, 0, 3, 0]


def points(tf):
    s = tf.contrib.learn.python.learn.datasets.synthetic
    rings = s.circles(60, n_classes=3, factor=0.5, seed=1)
    radius = np.hypot(*rings.data.T)
    for k in range(3):
        assert np.ptp(radius[rings.target == k]) < 1e-6
    assert len(set(np.round(radius, 6))) == 3
    arms = tf.contrib.learn.python.learn.datasets.synthetic.spirals(40, seed=1)
    assert arms.data.shape == (40, 2) and sorted(set(arms.target.tolist())) == [0, 1]
    folder = os.path.join(tempfile.mkdtemp(), "dbpedia_csv")
    os.makedirs(folder)
    for name, text in (("train.csv", '1,"a title","a text"\n'), ("test.csv", '2,"other","words"\n')):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
    t = tf.contrib.learn.python.learn.datasets.text_datasets
    texts = t.load_dbpedia(data_dir=os.path.dirname(folder))
    assert set(t.load_dbpedia(test_with_fake_data=True).train.target) == set(range(1, 16))
    assert texts.train.target.tolist() == [1] and texts.test.data.tolist() == [["other", "words"]]


def projector(tf):
    p, folder = tf.contrib.tensorboard.plugins.projector, tempfile.mkdtemp()
    config = p.ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name, embedding.metadata_path = "words:0", "words.tsv"
    tf.contrib.tensorboard.plugins.projector.visualize_embeddings(tf.summary.FileWriter(folder), config)
    with open(os.path.join(folder, "projector_config.pbtxt")) as f:
        text = f.read()
    assert 'tensor_name: "words:0"' in text and 'metadata_path: "words.tsv"' in text


def tpu(tf):
    t = tf.contrib.tpu
    x = np.linspace(-1, 1, 24, dtype=np.float32)[:, None]

    def model_fn(features, labels, mode, params):
        loss = tf.losses.mean_squared_error(labels, tf.layers.dense(features, 1, use_bias=False))
        optimizer = t.CrossShardOptimizer(tf.train.GradientDescentOptimizer(0.5))
        return t.TPUEstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, tf.train.get_global_step()))

    def input_fn(params):
        return tf.data.Dataset.from_tensor_slices((x, 2 * x)).repeat().batch(params["batch_size"])
    config = t.RunConfig(model_dir=tempfile.mkdtemp(), tpu_config=t.TPUConfig(
        5, per_host_input_for_training=t.InputPipelineConfig.PER_HOST_V2))
    assert config.tpu_config.iterations_per_loop == 5
    model = t.TPUEstimator(model_fn, config=config, use_tpu=False, train_batch_size=8, eval_batch_size=8)
    assert model.train(input_fn, max_steps=40).evaluate(input_fn, steps=3)["loss"] < 1e-3
    try:
        tf.contrib.cluster_resolver.TPUClusterResolver("name")
    except tf.errors.UnavailableError as e:
        assert "TPU" in e.message
    else:
        raise AssertionError("a TPU was found")


def regressors(tf):
    x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    column = tf.feature_column.numeric_column("x")
    feed = tf.estimator.inputs.numpy_input_fn({"x": x}, 2 * x + 1, 16, None, shuffle=True)
    once = tf.estimator.inputs.numpy_input_fn({"x": x}, 2 * x + 1, 16, 1, shuffle=False)
    for model in (tf.estimator.LinearRegressor([column], optimizer=tf.train.FtrlOptimizer(0.5)),
                  tf.estimator.DNNRegressor([8], [column], optimizer=tf.train.AdamOptimizer(0.05))):
        assert model.train(feed, steps=150).evaluate(once)["average_loss"] < 0.1
    receive = tf.estimator.export.build_raw_serving_input_receiver_fn({"x": tf.placeholder(tf.float32, [None, 1])})
    receiver = receive()
    assert isinstance(receiver, tf.estimator.export.ServingInputReceiver)
    assert receiver.features["x"].shape.as_list() == [None, 1]
    single = tf.estimator.export.TensorServingInputReceiver(receiver.features["x"], receiver.receiver_tensors)
    assert single.features is receiver.features["x"]
    path = model.export_savedmodel(tempfile.mkdtemp(), receive)
    serve = tf.contrib.predictor.from_saved_model(path, signature_def_key="predict")
    answer = serve({"x": x})["predictions"]
    np.testing.assert_allclose(answer, [p["predictions"] for p in model.predict(once)], rtol=1e-5, atol=1e-6)
    serve = tf.contrib.predictor.from_estimator(model, receive, output_key="predict")
    np.testing.assert_allclose(serve({"x": x})["predictions"], answer, rtol=1e-5, atol=1e-6)


def from_keras(tf):
    tf.keras.backend.clear_session()
    keras = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, input_shape=[1])])
    keras.compile(tf.train.GradientDescentOptimizer(0.5), "mse")
    model = tf.keras.estimator.model_to_estimator(keras, model_dir=tempfile.mkdtemp())
    x = np.linspace(-1, 1, 32, dtype=np.float32)[:, None]
    feed = tf.estimator.inputs.numpy_input_fn({keras.input_names[0]: x}, 3 * x, 32, 60, shuffle=False)
    once = tf.estimator.inputs.numpy_input_fn({keras.input_names[0]: x}, 3 * x, 32, 1, shuffle=False)
    assert model.train(feed).evaluate(once)["loss"] < 1e-3


def experiment(tf):
    x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]

    def make(config, hparams):
        estimator = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")], config=config,
                                                 optimizer=tf.train.GradientDescentOptimizer(hparams.rate))
        fed = tf.estimator.inputs.numpy_input_fn({"x": x}, 2 * x, batch_size=64, num_epochs=None, shuffle=False)
        return tf.contrib.learn.Experiment(estimator, fed, fed, train_steps=40, eval_steps=1, min_eval_frequency=20)
    with tempfile.TemporaryDirectory() as folder:
        metrics, exports = tf.contrib.learn.learn_runner.run(
            make, run_config=tf.contrib.learn.RunConfig(model_dir=folder), hparams=tf.contrib.training.HParams(rate=0.03))
    assert metrics["global_step"] == 40 and metrics["average_loss"] < 1e-3 and exports == []


def defun(tf):
    from tensorflow.python.framework import function
    from tensorflow.python.ops import control_flow_ops

    @function.Defun(tf.float32, tf.float32)
    def weighted(a, b):
        return a * 2.0 + b

    @function.Defun(tf.float32, grad_func=lambda x, dy: dy * 100.0)
    def odd(x):
        return x * x

    @function.Defun(python_grad_func=lambda op, dy: dy * op.inputs[0] * 5.0, shape_func=lambda op: [op.inputs[0].get_shape()])
    def of_op(x):
        return x + 1.0
    x = tf.constant(3.0)
    switched = control_flow_ops.switch(x, tf.constant(True))
    merged = control_flow_ops.merge(switched)
    with tf.Session() as sess:
        assert sess.run(weighted(x, 1.0)) == 7 and sess.run(tf.gradients(weighted(x, x), x)[0]) == 3
        assert sess.run([odd(x), tf.gradients(odd(x), x)[0]]) == [9, 100]
        assert sess.run([of_op(x), tf.gradients(of_op(x), x)[0]]) == [4, 15]
        assert sess.run(merged[0]) == 3 and sess.run(merged[1]) == 1
        assert sess.run(tf.concat_v2([[1], [2]], 0)).tolist() == [1, 2]
        singular, _, _ = tf.batch_svd(np.diag([3.0, 2.0])[None])
        assert sess.run(singular).tolist() == [[3, 2]]
    assert tf.compat.v2.compat.v1.Graph is tf.Graph and tf.compat.v2.compat.v1.Session is tf.Session
