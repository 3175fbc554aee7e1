"""slim's training, evaluation, data and networks, by the names that programs use most."""
import os
import tempfile

import numpy as np


def _model(tf, x, labels):
    s = tf.contrib.slim
    logits = s.fully_connected(tf.constant(x), 2, activation_fn=None, scope="out", weights_initializer=tf.zeros_initializer())
    loss = s.losses.softmax_cross_entropy(logits, s.one_hot_encoding(labels, 2))
    assert s.losses.get_losses() == [loss]
    return logits, loss


def training(tf):
    s, folder = tf.contrib.slim, tempfile.mkdtemp()
    x = np.random.RandomState(0).randn(32, 2).astype(np.float32)
    labels = (x[:, 0] > 0).astype(np.int64)
    with tf.Graph().as_default():
        _, loss = _model(tf, x, labels)
        step = s.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(1.0))
        last = s.learning.train(step, folder, number_of_steps=20, log_every_n_steps=50, save_summaries_secs=600)
        assert 0 < last < np.log(2) / 2

    logits, loss = _model(tf, x, labels)
    assert s.model_analyzer.analyze_vars(s.get_model_variables()) == (6, 24)
    summary = s.summaries.add_scalar_summary(loss, "cost", prefix="train")
    restore = s.assign_from_checkpoint_fn(tf.train.latest_checkpoint(folder), s.get_model_variables())
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        fresh = sess.run(loss)
        restore(sess)
        assert abs(fresh - np.log(2)) < 1e-5 and sess.run(loss) < last + 1e-6
        written = tf.Summary.FromString(sess.run(summary)).value[0]
        assert written.tag == "train/cost" and abs(written.simple_value - sess.run(loss)) < 1e-6

    s.get_or_create_global_step()
    values, updates = s.metrics.aggregate_metric_map({
        "accuracy": s.metrics.streaming_accuracy(tf.argmax(logits, 1), labels),
        "recall": s.metrics.streaming_recall_at_k(logits, labels, 1),
        "auc": tf.contrib.metrics.streaming_auc(tf.nn.softmax(logits)[:, 1], labels)})
    found = s.evaluation.evaluate_once("", tf.train.latest_checkpoint(folder), None, eval_op=list(updates.values()),
                                       final_op=values, summary_op=None)
    assert found["accuracy"] > 0.9 and abs(found["accuracy"] - found["recall"]) < 1e-6 and found["auc"] > 0.95


def data(tf):
    s, path = tf.contrib.slim, os.path.join(tempfile.mkdtemp(), "records")
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    with tf.Session() as sess:
        png = sess.run(tf.image.encode_png(pixels))
    with tf.python_io.TFRecordWriter(path) as writer:
        for label in (3, 5):
            example = tf.train.Example()
            example.features.feature["image/encoded"].bytes_list.value.append(png)
            example.features.feature["image/format"].bytes_list.value.append(b"png")
            example.features.feature["label"].int64_list.value.append(label)
            writer.write(example.SerializeToString())
    d = s.tfexample_decoder
    decoder = d.TFExampleDecoder(
        {"image/encoded": tf.FixedLenFeature([], tf.string), "image/format": tf.FixedLenFeature([], tf.string),
         "label": tf.FixedLenFeature([], tf.int64)}, {"image": d.Image(shape=[2, 2, 3]), "label": d.Tensor("label")})
    dataset = s.dataset.Dataset(path, tf.TFRecordReader, decoder, 2, {"image": "a picture", "label": "its class"})
    image, label = s.dataset_data_provider.DatasetDataProvider(dataset, shuffle=False).get(["image", "label"])
    images, labels = s.prefetch_queue.prefetch_queue(list(tf.train.batch([image, label], 2)), capacity=2).dequeue()
    with tf.train.MonitoredSession() as sess:
        images, labels = sess.run([images, labels])
    assert (images == pixels).all() and labels.tolist() == [3, 5]


def inception(tf):
    from tensorflow.contrib.slim.python.slim.nets import inception_v3
    assert inception_v3 is tf.contrib.slim.python.slim.nets.inception_v3
    with tf.contrib.slim.arg_scope(tf.contrib.slim.python.slim.nets.inception_v3.inception_v3_arg_scope()):
        logits, ends = tf.contrib.slim.python.slim.nets.inception_v3.inception_v3(
            tf.ones([1, 139, 139, 3]), 7, is_training=False, depth_multiplier=0.1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        logits, chances = sess.run([logits, ends["Predictions"]])
    assert logits.shape == (1, 7)
    np.testing.assert_allclose(chances, np.exp(logits) / np.exp(logits).sum(), rtol=1e-4, atol=1e-4)
