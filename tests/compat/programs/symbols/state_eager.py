"""Eager execution, summaries and datasets as tf.contrib had them, by the names that programs use most."""
import os
import tempfile


def gradients(tf):
    tfe = tf.contrib.eager
    with tf.python.eager.context.eager_mode():
        w = tfe.Variable(3.0)
        (slope, variable), = tfe.implicit_gradients(lambda x: w * w * x)(tf.constant(2.0))
        assert slope.numpy() == 12 and variable is w
        value, pairs = tfe.implicit_value_and_gradients(lambda: w * 5.0)()
        assert value.numpy() == 15 and pairs[0][0].numpy() == 5
        (same, _), = tf.contrib.eager.python.tfe.implicit_gradients(lambda: w * 7.0)()
        assert same.numpy() == 7
        assert tfe.defun(lambda x: x * x)(tf.constant(4.0)).numpy() == 16
        assert tfe.function(lambda x: x + 1)(tf.constant(4.0)).numpy() == 5


def execution(tf):
    tfe = tf.contrib.eager
    gpus = len(tf.config.experimental.list_physical_devices("GPU"))
    assert tfe.num_gpus() == gpus == tf.contrib.eager.python.tfe.num_gpus()
    with tf.python.eager.context.eager_mode():
        assert tfe.ASYNC != tfe.SYNC
        with tfe.execution_mode(tfe.ASYNC):
            total = tf.add_n([tf.constant(1.0), tf.constant(2.0)])
            tfe.async_wait()
        assert total.numpy() == 3
        seen = [(x.numpy(), y.numpy()) for x, y in tfe.Iterator(tf.data.Dataset.from_tensor_slices(([1, 2], [3, 4])))]
        assert seen == [(1, 3), (2, 4)]
        mean, right = tfe.metrics.Mean(), tfe.metrics.Accuracy()
        mean(tf.constant([1.0, 2.0]))
        mean(tf.constant(6.0))
        right(tf.constant([1, 2, 3]), tf.constant([1, 2, 4]))
        assert mean.result().numpy() == 3 and abs(right.result().numpy() - 2 / 3) < 1e-6


def summaries(tf):
    s, folder = tf.contrib.summary, tempfile.mkdtemp()
    step = tf.train.get_or_create_global_step()
    writer = s.create_file_writer(folder, flush_millis=1)
    with writer.as_default():
        with s.always_record_summaries():
            s.scalar("always", 2.5)
            s.image("picture", tf.zeros([1, 3, 4, 1]), max_images=1)
        with s.record_summaries_every_n_global_steps(2):
            s.scalar("even", tf.cast(step, tf.float32))
    ops = s.all_summary_ops()
    with tf.Session() as sess, writer.as_default():
        sess.run(tf.global_variables_initializer())
        s.initialize(session=sess)
        for _ in range(3):
            sess.run(ops)
            sess.run(tf.assign_add(step, 1))
        sess.run(s.flush())
    events = [e for name in os.listdir(folder) for e in tf.train.summary_iterator(os.path.join(folder, name))]
    values = [(e.step, v.tag, v.simple_value) for e in events for v in e.summary.value if not v.HasField("image")]
    assert sorted(values) == [(0, "always", 2.5), (0, "even", 0), (1, "always", 2.5), (2, "always", 2.5), (2, "even", 2)]
    pictures = [v.image for e in events for v in e.summary.value if v.HasField("image")]
    assert [(p.height, p.width) for p in pictures] == [(3, 4)] * 3


def _elements(tf, dataset):
    get, found = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next(), []
    with tf.Session() as sess:
        while True:
            try:
                found.append(sess.run(get).tolist())
            except tf.errors.OutOfRangeError:
                return found


def datasets(tf):
    d, numbers = tf.contrib.data, tf.data.Dataset.range(6)
    doubled = numbers.apply(d.map_and_batch(lambda x: x * 2, 3, num_parallel_calls=d.AUTOTUNE))
    assert _elements(tf, doubled) == [[0, 2, 4], [6, 8, 10]]
    joined = tf.data.Dataset.range(2).apply(d.parallel_interleave(
        lambda x: tf.data.Dataset.from_tensors(x).repeat(2), cycle_length=2, block_length=1))
    assert _elements(tf, joined) == [0, 1, 0, 1]
    grouped = numbers.apply(d.group_by_window(lambda x: x % 2, lambda key, group: group.batch(3), 3))
    assert sorted(_elements(tf, grouped)) == [[0, 2, 4], [1, 3, 5]]
    path = os.path.join(tempfile.mkdtemp(), "lines")
    with open(path, "w") as f:
        f.write("one\ntwo\n")
    lines = d.TextLineDataset(path).map(tf.strings.length)
    assert _elements(tf, lines) == [3, 3]


def memory(tf):
    with tf.Session() as sess:
        most = sess.run(tf.contrib.memory_stats.MaxBytesInUse())
    assert most == 0 if not tf.test.is_gpu_available() else most > 0
