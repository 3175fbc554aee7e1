"""slim, contrib.training, losses and metrics: training and evaluation from end to end, and the parts by hand."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

RNG = np.random.RandomState(0)
X = RNG.randn(64, 4).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


def model():
    slim = tf.contrib.slim
    with slim.arg_scope([slim.fully_connected], weights_regularizer=slim.l2_regularizer(1e-3)):
        net = slim.fully_connected(tf.constant(X), 8, scope="hidden")
        return slim.fully_connected(net, 2, activation_fn=None, scope="logits")


def test_slim_trains_and_evaluates(tmp_path):
    slim = tf.contrib.slim
    logits = model()
    slim.losses.softmax_cross_entropy(logits, slim.one_hot_encoding(Y, 2))
    total = slim.losses.get_total_loss()
    assert len(slim.losses.get_regularization_losses()) == 2 and len(slim.losses.get_losses()) == 1
    train_op = slim.learning.create_train_op(total, tf.train.AdamOptimizer(0.1), clip_gradient_norm=5.0,
                                             summarize_gradients=True)
    loss = slim.learning.train(train_op, str(tmp_path), number_of_steps=60, log_every_n_steps=20, save_summaries_secs=0)
    assert loss < 0.3
    path = tf.train.latest_checkpoint(str(tmp_path))
    assert path.endswith("-60")
    with tf.Graph().as_default():
        predictions = tf.argmax(model(), 1)
        values, updates = slim.metrics.aggregate_metric_map({
            "accuracy": slim.metrics.streaming_accuracy(predictions, Y),
            "recall": tf.contrib.metrics.streaming_recall(predictions, Y)})
        found = slim.evaluation.evaluate_once("", path, str(tmp_path / "eval"), num_evals=2, eval_op=list(updates.values()),
                                              final_op=values)
    assert found["accuracy"] > 0.95 and 0.9 < found["recall"] <= 1


def test_monitored_training(tmp_path):
    x = tf.get_variable("x", [], initializer=tf.constant_initializer(3.0))
    train_op = tf.contrib.training.create_train_op(tf.square(x), tf.train.GradientDescentOptimizer(0.1))
    loss = tf.contrib.training.train(train_op, str(tmp_path), hooks=[tf.train.StopAtStepHook(10)], save_summaries_steps=5)
    np.testing.assert_allclose(loss, (3 * 0.8**9) ** 2, rtol=1e-4)


def test_slim_data_provider(tmp_path):
    slim, path = tf.contrib.slim, str(tmp_path / "data.tfrecord")
    with tf.python_io.TFRecordWriter(path) as writer:
        for i in range(6):
            features = {"image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes([i] * 12)])),
                        "image/format": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"raw"])),
                        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    keys = {"image/encoded": tf.FixedLenFeature((), tf.string), "image/format": tf.FixedLenFeature((), tf.string),
            "label": tf.FixedLenFeature([1], tf.int64)}
    handlers = {"image": slim.tfexample_decoder.Image(shape=[2, 2, 3]),
                "label": slim.tfexample_decoder.Tensor("label", shape=[])}
    dataset = slim.dataset.Dataset(path, tf.TFRecordReader, slim.tfexample_decoder.TFExampleDecoder(keys, handlers), 6, {})
    provider = slim.dataset_data_provider.DatasetDataProvider(dataset, shuffle=False)
    image, label = provider.get(["image", "label"])
    batch = tf.train.batch([image, label], 3)
    images, labels = slim.prefetch_queue.prefetch_queue(batch).dequeue()
    with tf.Session() as session, slim.queues.QueueRunners(session):
        a, b = session.run([images, labels])
    np.testing.assert_array_equal(b, [0, 1, 2])
    np.testing.assert_array_equal(a[:, 0, 0, 0], [0, 1, 2])
    assert provider.num_samples() == 6 and set(provider.list_items()) == {"image", "label", "record_key"}


def test_analyzer_counts(capsys):
    tf.get_variable("a", [3, 4])
    tf.get_variable("b", [5])
    assert tf.contrib.slim.model_analyzer.analyze_vars(tf.global_variables(), print_info=True) == (17, 68)
    assert "Total size of variables: 17" in capsys.readouterr().out


def test_hyperparameters():
    hparams = tf.contrib.training.HParams(rate=0.1, layers=[1, 2], name="x", deep=True)
    assert hparams.parse("rate=1,layers=[3,4,5],name=y,deep=false") is hparams
    assert hparams.values() == {"rate": 1.0, "layers": [3, 4, 5], "name": "y", "deep": False}
    assert isinstance(hparams.rate, float) and "rate" in hparams and hparams.get("none", 3) == 3
    assert tf.contrib.training.HParams(**hparams.values()).parse_json(hparams.to_json()).values() == hparams.values()
    assert tf.contrib.training.parse_values("a[1]=2,b=3", {"a": int, "b": int}) == {"a": {1: 2}, "b": 3}
    for wrong, text in (("rate=abc", "Could not parse"), ("none=1", "Unknown"), ("rate=1,rate=2", "Multiple"), ("rate",
                                                                                                                "Malformed")):
        with pytest.raises(ValueError, match=text):
            hparams.parse(wrong)
    with pytest.raises(ValueError, match="Must pass a list"):
        hparams.set_hparam("layers", 3)
    with pytest.raises(ValueError, match="Could not cast"):
        hparams.set_hparam("layers", [1.5])
    with pytest.raises(ValueError, match="reserved"):
        hparams.add_hparam("rate", 1)


def test_buckets_by_length():
    lengths = tf.data.Dataset.from_tensor_slices([1, 5, 2, 6, 1, 7, 2, 5]).make_one_shot_iterator().get_next()
    out_lengths, (rows,) = tf.contrib.training.bucket_by_sequence_length(
        lengths, [tf.fill([lengths], lengths)], batch_size=2, bucket_boundaries=[4], dynamic_pad=True, capacity=8)
    with tf.Session() as session:
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        found = [session.run([out_lengths, rows]) for _ in range(4)]
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)
    assert sorted(tuple(n) for n, _ in found) == [(1, 2), (1, 2), (5, 6), (7, 5)]
    for n, row in found:
        assert row.shape == (2, max(n)) and (row.max(1) == n).all()


def test_placement_strategies():
    greedy = tf.contrib.training.GreedyLoadBalancingStrategy(2, tf.contrib.training.byte_size_load_fn)
    big, small, next_ = (tf.get_variable(n, [s], use_resource=False).op for n, s in (("a", 10), ("b", 2), ("c", 2)))
    assert [greedy(big), greedy(small), greedy(next_)] == [0, 1, 1]


def test_losses_and_metrics_by_hand(run):
    losses, metrics = tf.contrib.losses, tf.contrib.metrics
    p, t = np.array([0.9, 0.2, 0.6], np.float32), np.array([1.0, 0.0, 0.0], np.float32)
    correlation = metrics.streaming_pearson_correlation(p, t)
    _, mse, mae, hinge, r = run(losses.mean_squared_error(p, t), losses.absolute_difference(p, t),
                                losses.hinge_loss(tf.constant([0.5]), [1]), correlation[1])
    np.testing.assert_allclose(mse, ((p - t) ** 2).mean(), rtol=1e-5)
    np.testing.assert_allclose(mae, np.abs(p - t).mean(), rtol=1e-5)
    np.testing.assert_allclose(hinge, [0.5], rtol=1e-6)
    np.testing.assert_allclose(r, np.corrcoef(p, t)[0, 1], rtol=1e-4)


def test_f1_and_sgdr(run):
    labels, scores = np.array([1.0, 0.0, 1.0, 0.0]), np.array([0.9, 0.2, 0.6, 0.7])
    _, update = tf.contrib.metrics.f1_score(labels, scores)
    rate = tf.contrib.training.sgdr_decay(0.1, tf.constant(5), 10)
    later = tf.contrib.training.sgdr_decay(0.1, tf.constant(10), 10)
    _, f1, a, b = run(update, rate, later)
    np.testing.assert_allclose([f1, a, b], [0.8, 0.05, 0.1], rtol=1e-4)
