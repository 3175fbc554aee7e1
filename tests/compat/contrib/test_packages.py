"""eager, summary, tensorboard, data, learn and the small packages."""
import numpy as np
import pytest

import penstock.compat.v1 as tf


def test_eager_gradients_of_functions_and_variables():
    tfe = tf.contrib.eager
    v = tfe.Variable(3.0, name="v")
    value, ((gradient, variable),) = tfe.implicit_value_and_gradients(lambda x: v * v * x)(2.0)
    assert float(value) == 18 and float(gradient) == 12 and variable is v
    assert [float(g) for g in tfe.gradients_function(lambda x, y: x * x * y)(3.0, 2.0)] == [12, 9]
    assert float(tfe.gradients_function(lambda x, y: x * y, params=["y"])(3.0, 2.0)[0]) == 3
    with pytest.raises(ValueError, match="No trainable variables"):
        tfe.implicit_gradients(lambda x: x)(tf.constant(1.0))
    assert float(tfe.defun(lambda x: x + 1)(tf.constant(1.0))) == 2 and tfe.num_gpus() >= 0
    tfe.async_wait()


def test_eager_metrics_and_iterators(tmp_path):
    tfe = tf.contrib.eager
    mean, accuracy = tfe.metrics.Mean("loss"), tfe.metrics.Accuracy()
    for x in tfe.Iterator(tf.data.Dataset.from_tensor_slices([1.0, 2.0, 6.0])):
        mean(x)
    mean(10.0, weights=0.0)
    accuracy([1, 2, 3, 4], [1, 2, 0, 4])
    assert float(mean.result()) == 3 and float(accuracy.result()) == 0.75
    mean.init_variables()
    mean(4.0)
    assert float(mean.result()) == 4
    assert float(tfe.metrics.BinaryAccuracy(0.5)([1, 0], [0.9, 0.7]) is not None) == 1
    v = tfe.Variable([1.0, 2.0], name="w")
    path = tfe.Saver([v]).save(str(tmp_path / "m"))
    v.assign([0.0, 0.0])
    tfe.Saver([v]).restore(path)
    np.testing.assert_array_equal(v.numpy(), [1, 2])


def test_eager_summaries(tmp_path):
    summary = tf.contrib.summary
    writer = summary.create_file_writer(str(tmp_path), flush_millis=10)
    step = tf.train.get_or_create_global_step()
    step.assign(5)
    with writer.as_default():
        summary.scalar("silent", 1.0)                      # nothing is recorded until it is requested
        with summary.always_record_summaries():
            summary.scalar("loss", 2.0)
            summary.histogram("h", [1.0, 2.0])
        with summary.record_summaries_every_n_global_steps(2):
            summary.scalar("odd", 1.0)
        with summary.record_summaries_every_n_global_steps(5):
            summary.scalar("fifth", 1.0)
    writer.close()
    events = summary.summary_test_util.events_from_logdir(str(tmp_path))
    assert [(e.step, e.summary.value[0].tag) for e in events[1:]] == [(5, "loss"), (5, "h"), (5, "fifth")]
    assert events[1].summary.value[0].simple_value == 2.0


def test_summaries_of_a_graph(tmp_path):
    summary = tf.contrib.summary
    step = tf.train.get_or_create_global_step()
    with summary.create_file_writer(str(tmp_path)).as_default(), summary.always_record_summaries(), tf.Session() as session:
        summary.scalar("loss", tf.cast(step, tf.float32) * 2)
        session.run(tf.global_variables_initializer())
        summary.initialize(graph=tf.get_default_graph(), session=session)
        for _ in range(2):
            session.run([summary.all_summary_ops(), tf.assign_add(step, 1)])
        session.run(summary.flush())
    tags = [v.tag for e in summary.summary_test_util.events_from_logdir(str(tmp_path)) for v in e.summary.value]
    assert tags == ["loss", "loss"]


def test_projector_config(tmp_path):
    projector = tf.contrib.tensorboard.plugins.projector
    config = projector.ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name, embedding.metadata_path = "w", "labels.tsv"
    writer = tf.summary.FileWriter(str(tmp_path))
    projector.visualize_embeddings(writer, config)
    writer.close()
    assert 'tensor_name: "w"' in (tmp_path / "projector_config.pbtxt").read_text()


def test_eager_data_transformations():
    data = tf.contrib.data
    dataset = tf.data.Dataset.range(5).apply(data.map_and_batch(lambda x: x * 2, 2, drop_remainder=True))
    assert [x.numpy().tolist() for x in dataset] == [[0, 2], [4, 6]]
    assert [x.numpy().tolist() for x in tf.data.Dataset.range(5).apply(data.batch_and_drop_remainder(2))] == [[0, 1], [2, 3]]
    windows = tf.data.Dataset.range(4).apply(data.sliding_window_batch(window_size=2, window_shift=1))
    assert [x.numpy().tolist() for x in windows] == [[0, 1], [1, 2], [2, 3]]
    assert data.TextLineDataset is tf.data.TextLineDataset


def test_vocabularies(tmp_path):
    learn = tf.contrib.learn
    processor = learn.preprocessing.VocabularyProcessor(4)
    texts = ["a small cat", "a cat and a dog there"]
    np.testing.assert_array_equal(list(processor.fit_transform(texts)), [[1, 2, 3, 0], [1, 3, 4, 1]])
    assert len(processor.vocabulary_) == 7 and list(processor.transform(["a bird"]))[0].tolist() == [1, 0, 0, 0]
    processor.save(str(tmp_path / "vocab"))
    again = learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / "vocab"))
    assert list(again.transform(texts))[1].tolist() == [1, 3, 4, 1]
    assert next(again.reverse([[1, 3]])) == "a cat"
    rare = learn.preprocessing.VocabularyProcessor(3, min_frequency=1)
    np.testing.assert_array_equal(list(rare.fit_transform(["a b a", "a c b"])), [[1, 2, 1], [1, 0, 2]])
    assert learn.ModeKeys.TRAIN == "train"


def test_learn_data_sets(tmp_path):
    base = tf.contrib.learn.datasets.base
    path = tmp_path / "d.csv"
    path.write_text("2,2,a,b\n1.5,2.5,0\n3.5,4.5,1\n")
    found = base.load_csv_with_header(str(path), np.int64, np.float32)
    np.testing.assert_array_equal(found.data, [[1.5, 2.5], [3.5, 4.5]])
    np.testing.assert_array_equal(found.target, [0, 1])
    circles = tf.contrib.learn.datasets.make_dataset("circles", n_samples=20)
    radius = np.linalg.norm(circles.data, axis=1)
    np.testing.assert_allclose(radius[circles.target == 0], 1, rtol=1e-6)
    np.testing.assert_allclose(radius[circles.target == 1], 0.8, rtol=1e-6)


def test_small_packages(run):
    area = tf.contrib.staging.StagingArea([tf.float32], shapes=[[2]])
    put, got = area.put([tf.constant([1.0, 2.0])]), area.get()
    image = tf.reshape(tf.range(9.0), [1, 3, 3, 1])
    between = tf.contrib.resampler.resampler(image, tf.constant([[[0.5, 0.5], [2.0, 1.0], [5.0, 5.0]]]))
    stateless = tf.contrib.stateless.stateless_random_uniform([2], seed=[1, 2])
    with tf.Session() as session:
        session.run(put)
        np.testing.assert_array_equal(session.run(got), [1, 2] if not isinstance(got, list) else [[1, 2]])
        values = session.run(between)
        np.testing.assert_allclose(values[0, :, 0], [2, 5, 0], rtol=1e-6)
        np.testing.assert_array_equal(session.run(stateless), session.run(stateless))
        assert session.run(tf.contrib.memory_stats.MaxBytesInUse()) >= 0
    assert tf.contrib.util.constant_value(tf.constant(3)) == 3


def test_paths_of_modules():
    from penstock.compat.v1.contrib.layers.python.layers import initializers
    from penstock.compat.v1.contrib.rnn.python.ops import core_rnn_cell
    assert initializers.xavier_initializer is tf.contrib.layers.xavier_initializer
    assert core_rnn_cell.LSTMCell is tf.nn.rnn_cell.LSTMCell and callable(core_rnn_cell._linear)
    assert tf.contrib.slim.python.slim.learning.train is tf.contrib.slim.learning.train
