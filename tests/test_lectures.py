"""What lectures about TensorFlow show, call by call, typed as their readers type it; values are checked.

What they show of clusters, servers, distribution strategies, Keras and estimators is tested where those parts are.
"""
import contextlib
import io
import threading

import numpy as np
import pytest

import penstock
import penstock.compat.v1 as tf
from penstock import digits
from penstock._src.graph import context
from tests.checks import eventually

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


@pytest.fixture(autouse=True)
def _graphs():
    """The lectures are about graphs, unless they say otherwise."""
    tf.disable_v2_behavior()
    tf.reset_default_graph()


# -- A. the system ----------------------------------------------------------------------------------------------------
def test_deferred_execution_and_pruning():
    ran = []
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    unused = tf.py_func(lambda v: ran.append("unused") or v, [x], tf.float32)
    used = tf.py_func(lambda v: ran.append("used") or v, [x], tf.float32)
    y = tf.reduce_sum(used * 2)
    assert ran == []
    with tf.Session() as sess:
        assert sess.run(y, feed_dict={x: [[1, 2], [3, 4]]}) == 20
        assert ran == ["used"]
        sess.run([y, unused], feed_dict={x: [[1, 2]]})
    assert sorted(ran[1:]) == ["unused", "used"]


def test_any_edge_is_fed_and_fetched():
    a = tf.constant(3.0, name="a")
    b = a * 2
    c = tf.sqrt(b, name="c")
    with tf.Session() as sess:
        assert sess.run(c, feed_dict={b: 16.0}) == 4.0
        assert sess.run([a, b, "c:0"]) == [3.0, 6.0, pytest.approx(6 ** 0.5)]


def test_several_partial_steps_at_once():
    """Steps from several threads over one state, and one step in pieces."""
    v = tf.Variable(0.0, use_resource=True)
    add = tf.assign_add(v, 1.0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        threads = [threading.Thread(target=lambda: [sess.run(add) for _ in range(50)]) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert sess.run(v) == 200
        x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        first, second = x + 1, (x + 1) * y
        handle = sess.partial_run_setup([first, second], [x, y])
        r = sess.partial_run(handle, first, feed_dict={x: 2.0})
        assert (r, sess.partial_run(handle, second, feed_dict={y: r})) == (3.0, 9.0)


def test_tensors_of_bytes():
    words = tf.constant(["graph", b"\xff\x00"])
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(words), np.array([b"graph", b"\xff\x00"], object))


def test_a_variable_is_a_handle_with_ops_that_read_and_write_it():
    v = tf.Variable([1.0, 2.0], use_resource=True, name="v")
    assert v.handle.dtype == tf.resource and v.handle.op.type == "VarHandleOp"
    kinds = {op.type for op in tf.get_default_graph().get_operations()}
    assert {"VarHandleOp", "AssignVariableOp", "ReadVariableOp"} <= kinds
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(v.assign_add([1.0, 1.0]))
        np.testing.assert_array_equal(sess.run(v.read_value()), [2, 3])


def test_queues_block_and_push_back():
    q = tf.FIFOQueue(2, tf.int32, shapes=[[]])
    put, get, size = q.enqueue(tf.placeholder(tf.int32, [], name="item")), q.dequeue(), q.size()
    with tf.Session() as sess:
        done = []

        def produce():
            for i in range(6):
                sess.run(put, {"item:0": i})
                done.append(i)
        thread = threading.Thread(target=produce)
        thread.start()
        assert eventually(lambda: len(done) == 2 and len(sess._engine.running_steps()) == 1)
        assert len(done) == 2 == sess.run(size)        # the third waits: back-pressure
        assert [sess.run(get) for _ in range(6)] == list(range(6))
        thread.join(60)
        assert not thread.is_alive()


def test_switch_and_merge_pass_dead_tensors():
    p = tf.placeholder(tf.bool, [])
    no, yes = tf.raw_ops.Switch(data=tf.constant(7.0), pred=p)
    merged = tf.raw_ops.Merge(inputs=[no * 10, yes * 100])
    with tf.Session() as sess:
        assert sess.run([merged.output, merged.value_index], {p: True}) == [700.0, 1]
        assert sess.run([merged.output, merged.value_index], {p: False}) == [70.0, 0]


def test_a_recurrent_network_over_lengths_without_unrolling():
    """A while loop over the time steps of the longest sequence; sequences that have ended keep their state."""
    rng = np.random.default_rng(0)
    batch, lengths = rng.normal(size=(3, 5, 2)).astype(np.float32), np.array([5, 2, 3])
    w = tf.get_variable("w", [2 + 4, 4], initializer=tf.random_normal_initializer(seed=1))
    x, n = tf.placeholder(tf.float32, [None, None, 2]), tf.placeholder(tf.int32, [None])

    def step(t, h):
        new = tf.tanh(tf.matmul(tf.concat([x[:, t], h], 1), w))
        return t + 1, tf.where(tf.tile((t < n)[:, None], [1, 4]), new, h)
    _, last = tf.while_loop(lambda t, h: t < tf.reduce_max(n), step, [0, tf.zeros([tf.shape(x)[0], 4])],
                            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 4])])
    slope, = tf.gradients(tf.reduce_sum(last), w)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        weights = sess.run(w)
        h = np.zeros((3, 4), np.float32)
        for t in range(5):
            new = np.tanh(np.concatenate([batch[:, t], h], 1) @ weights)
            h = np.where((t < lengths)[:, None], new, h)
        got, grad = sess.run([last, slope], {x: batch, n: lengths})
        np.testing.assert_allclose(got, h, rtol=1e-5)
        assert grad.shape == (6, 4) and np.abs(grad).sum() > 0


def test_a_sharded_embedding_by_part_gather_and_stitch():
    rows = np.arange(20, dtype=np.float32).reshape(10, 2)
    shards = [tf.Variable(rows[i::2], name=f"shard{i}") for i in range(2)]
    ids = tf.placeholder(tf.int32, [None])
    parts = tf.dynamic_partition(ids // 2, ids % 2, 2)
    places = tf.dynamic_partition(tf.range(tf.size(ids)), ids % 2, 2)
    found = tf.dynamic_stitch(places, [tf.gather(s, p) for s, p in zip(shards, parts, strict=True)])
    slopes = tf.gradients(tf.reduce_sum(found), shards)
    assert all(isinstance(g, tf.IndexedSlices) for g in slopes)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        asked = [7, 0, 3, 3, 9]
        np.testing.assert_array_equal(sess.run(found, {ids: asked}), rows[asked])
        np.testing.assert_array_equal(sess.run(tf.nn.embedding_lookup(shards, ids), {ids: asked}), rows[asked])


def test_sampled_softmax_trains():
    rng = np.random.default_rng(0)
    w, b = tf.Variable(tf.zeros([50, 8])), tf.Variable(tf.zeros([50]))
    x, y = tf.placeholder(tf.float32, [None, 8]), tf.placeholder(tf.int64, [None, 1])
    loss = tf.reduce_mean(tf.nn.sampled_softmax_loss(w, b, y, x, num_sampled=10, num_classes=50, seed=1))
    full = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=y[:, 0], logits=tf.matmul(x, w, transpose_b=True) + b))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    feed = {x: rng.normal(size=(64, 8)), y: rng.integers(0, 50, (64, 1))}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run(full, feed)
        for _ in range(60):
            sess.run(train, feed)
        assert before == pytest.approx(np.log(50), rel=1e-3) and sess.run(full, feed) < before - 0.5


def test_transfer_learning_from_a_checkpoint(tmp_path):
    with tf.Graph().as_default(), tf.Session() as sess:
        base = tf.Variable([1.0, 2.0], name="base")
        tf.Variable(5.0, name="old_head")
        sess.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(sess, str(tmp_path / "model.ckpt"))
    with tf.Graph().as_default(), tf.Session() as sess:
        base = tf.Variable([0.0, 0.0], name="base")
        head = tf.Variable(7.0, name="new_head")
        sess.run(tf.global_variables_initializer())
        tf.train.Saver([base]).restore(sess, path)
        assert sess.run([base, head])[1] == 7.0
        np.testing.assert_array_equal(sess.run(base), [1, 2])


# -- B. devices -------------------------------------------------------------------------------------------------------
def test_config_protos_print_as_text():
    config = tf.ConfigProto()
    config.gpu_options.per_process_gpu_memory_fraction = 0.4
    config.log_device_placement = True
    config.allow_soft_placement = True
    config.operation_timeout_in_ms = 2000
    text = str(config)
    for line in ("gpu_options {\n  per_process_gpu_memory_fraction: 0.4\n}", "log_device_placement: true",
                 "allow_soft_placement: true", "operation_timeout_in_ms: 2000"):
        assert line in text
    with tf.Session(config=config) as sess:
        assert sess.run(tf.constant(3)) == 3


def test_devices_by_name_and_by_function():
    with tf.device("/cpu:0"):
        a = tf.Variable(3.0, name="a")
        b = tf.constant(4.0)
    c = a * b

    def variables_on_cpu(op):
        if op.type == "Variable" or op.type == "VariableV2":
            return "/cpu:0"
        return "/gpu:0"
    with tf.device(variables_on_cpu):
        i, d = tf.Variable(3, name="i"), c * 2
    assert a.device == "/device:CPU:0" and i.device == "/device:CPU:0" and d.device == "/device:GPU:0"
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
        sess.run(a.initializer)
        assert c.eval() == 12.0 and sess.run(d) == 24.0


def test_an_integer_variable_on_a_gpu_fails_or_falls_back():
    with tf.device("/gpu:0"):
        i = tf.Variable(3)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError):
        sess.run(i.initializer)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
        sess.run(i.initializer)
        assert sess.run(i) == 3


def test_the_placement_log(capfd):
    a = tf.constant(3.0, name="a")
    with tf.Session(config=tf.ConfigProto(log_device_placement=True)) as sess:
        assert sess.run(a * 2) == 6.0
    text = "".join(capfd.readouterr())
    assert f"a: (Const): {CPU}" in text and f"mul: (Mul): {CPU}" in text


def test_control_dependencies():
    v = tf.Variable(1.0, use_resource=True)
    a, b = v.assign_add(1.0), v.assign_add(10.0)
    with tf.control_dependencies([a, b]):
        x = v.read_value()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(x) == 12.0


def test_queues_of_tuples_and_many():
    q = tf.FIFOQueue(capacity=10, dtypes=[tf.int32, tf.string], shapes=[[], []], name="q", shared_name="shared_q")
    put = q.enqueue_many([[1, 2, 3, 4], ["a", "b", "c", "d"]])
    with tf.Session() as sess:
        sess.run(put)
        assert sess.run(q.dequeue()) == [1, b"a"]
        numbers, texts = sess.run(q.dequeue_many(2))
        assert numbers.tolist() == [2, 3] and texts.tolist() == [b"b", b"c"]
        sess.run(q.close())
        assert sess.run(q.dequeue_up_to(5))[0].tolist() == [4]
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(q.dequeue())
        with pytest.raises(tf.errors.CancelledError):
            sess.run(put)


def test_shuffling_and_padding_queues():
    r = tf.RandomShuffleQueue(capacity=50, min_after_dequeue=10, dtypes=[tf.int32], shapes=[()], name="r", shared_name="sr")
    p = tf.PaddingFIFOQueue(capacity=50, dtypes=[tf.float32], shapes=[(None, None)], name="p", shared_name="sp")
    v = tf.placeholder(tf.float32, [None, None])
    with tf.Session() as sess:
        sess.run(r.enqueue_many([np.arange(40)]))
        found = sess.run(r.dequeue_many(30)).tolist()
        assert sorted(found) != found and len(set(found)) == 30
        put = p.enqueue([v])
        sess.run(put, {v: [[1, 2], [3, 4], [5, 6]]})
        sess.run(put, {v: [[1]]})
        np.testing.assert_array_equal(sess.run(p.dequeue_many(2)),
                                      [[[1, 2], [3, 4], [5, 6]], [[1, 0], [0, 0], [0, 0]]])


CSV = "x1,x2,target\n1.,2.,0\n4.,5.,1\n7.,,0\n"


def test_reading_a_csv_file_by_hand(tmp_path):
    """A queue of file names, a reader, decode_csv, a queue of instances; the loop ends with OutOfRangeError."""
    path = tmp_path / "my_test.csv"
    path.write_text(CSV)
    names = tf.FIFOQueue(capacity=10, dtypes=[tf.string], shapes=[()])
    filename = tf.placeholder(tf.string)
    enqueue_filename, close_filenames = names.enqueue([filename]), names.close()
    reader = tf.TextLineReader(skip_header_lines=1)
    key, value = reader.read(names)
    x1, x2, target = tf.decode_csv(value, record_defaults=[[-1.0], [-1.0], [-1]])
    features = tf.stack([x1, x2])
    instances = tf.RandomShuffleQueue(capacity=10, min_after_dequeue=2, dtypes=[tf.float32, tf.int32], shapes=[[2], []],
                                      name="instance_q", shared_name="shared_instance_q")
    enqueue_instance, close_instances = instances.enqueue([features, target]), instances.close()
    batch, targets = instances.dequeue_up_to(2)
    seen = []
    with tf.Session() as sess:
        sess.run(enqueue_filename, feed_dict={filename: str(path)})
        sess.run(close_filenames)
        try:
            while True:
                sess.run(enqueue_instance)
        except tf.errors.OutOfRangeError:
            pass
        sess.run(close_instances)
        try:
            while True:
                got, wanted = sess.run([batch, targets])
                seen += [(*row, t) for row, t in zip(got.tolist(), wanted.tolist(), strict=True)]
        except tf.errors.OutOfRangeError:
            pass
    assert sorted(seen) == [(1, 2, 0), (4, 5, 1), (7, -1, 0)]
    with tf.Session() as sess:
        sess.run(names.enqueue(["unused"]))


def test_record_keys_are_file_and_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("header\nfirst\nsecond\n")
    names = tf.train.string_input_producer([str(path)], num_epochs=1, shuffle=False)
    key, value = tf.TextLineReader(skip_header_lines=1).read(names)
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(coord=coord)
        assert sess.run([key, value]) == [f"{path}:2".encode(), b"first"]
        assert sess.run([key, value]) == [f"{path}:3".encode(), b"second"]
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(value)
        coord.request_stop()
        coord.join(threads)


def test_a_coordinator_and_a_queue_runner():
    q = tf.FIFOQueue(20, tf.int64, shapes=[[]])
    counter = tf.Variable(0, dtype=tf.int64, use_resource=True)
    runner = tf.train.QueueRunner(q, [q.enqueue([counter.assign_add(1)])] * 3)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        coord = tf.train.Coordinator()
        threads = runner.create_threads(sess, coord=coord, start=True)
        found = {int(sess.run(q.dequeue())) for _ in range(30)}
        assert len(found) >= 28
        coord.request_stop()
        coord.join(threads)
    assert not any(t.is_alive() for t in threads)


@pytest.mark.parametrize("make", [
    lambda: tf.train.batch([tf.train.input_producer(np.arange(12), num_epochs=1, shuffle=False).dequeue()], 4),
    lambda: tf.train.batch([tf.train.range_input_producer(12, num_epochs=1, shuffle=False).dequeue()], 4),
    lambda: tf.train.batch(tf.train.slice_input_producer([np.arange(12)], num_epochs=1, shuffle=False), 4),
    lambda: tf.train.shuffle_batch(tf.train.slice_input_producer([np.arange(12)], num_epochs=1, shuffle=False), 4, 20, 4),
    lambda: tf.train.batch_join([tf.train.slice_input_producer([np.arange(12)], num_epochs=1, shuffle=False)], 4),
    lambda: tf.train.shuffle_batch_join([tf.train.slice_input_producer([np.arange(12)], num_epochs=1, shuffle=False)],
                                        4, 20, 4),
], ids=["input", "range", "slice", "shuffle_batch", "batch_join", "shuffle_batch_join"])
def test_producers_and_batches(make):
    batch = make()
    seen = []
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coord)
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while not coord.should_stop():
                seen += sess.run(batch).tolist()
        coord.request_stop()
        coord.join(threads)
    assert sorted(seen) == list(range(12))


def test_run_options_time_out():
    q = tf.FIFOQueue(1, tf.float32)
    get = q.dequeue()
    run_options = tf.RunOptions()
    run_options.timeout_in_ms = 200
    with tf.Session() as sess, pytest.raises(tf.errors.DeadlineExceededError):
        sess.run(get, options=run_options)
    config = tf.ConfigProto()
    config.operation_timeout_in_ms = 200
    with tf.Session(config=config) as sess:
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(get)
        assert sess.run(tf.constant(1)) == 1


# -- C. the implementation study --------------------------------------------------------------------------------------
def test_the_mnist_program_on_the_digits():
    """The program of the slides, with 8 x 8 digits in place of MNIST's."""
    (images, labels), (held_out, answers) = digits.load()
    images, held_out = (x.reshape(len(x), 64) for x in (images, held_out))
    rng = np.random.default_rng(1)
    image = tf.placeholder(tf.float32, [None, 8 * 8], name="image")
    label = tf.placeholder(tf.float32, [None, 10], name="label")
    w1 = tf.Variable(rng.normal(size=(64, 50), scale=0.1).astype(np.float32), name="w1")
    w2 = tf.Variable(rng.normal(size=(50, 10), scale=0.1).astype(np.float32), name="w2")
    hidden = tf.nn.relu(tf.matmul(image, w1, name="matmul1"))
    prob = tf.nn.softmax(tf.matmul(hidden, w2, name="matmul2"))
    with tf.variable_scope("loss"):
        loss = -tf.reduce_sum(label * tf.log(prob)) / 100.0
    step = tf.train.GradientDescentOptimizer(1e-1, name="step").minimize(loss)
    with tf.Session(target=str.encode("")) as sess:
        sess.run(tf.initialize_all_variables())
        losses = []
        for _ in range(400):
            rows = rng.integers(0, len(images), 100)
            _, value = sess.run([step, loss], feed_dict={image: images[rows], label: np.eye(10)[labels[rows]]})
            losses.append(value)
        right = np.mean(np.argmax(sess.run(prob, {image: held_out}), 1) == answers)
    assert w1.name == "w1:0" and step.name == "step" and loss.name.startswith("loss/")
    assert losses[0] > 2 and np.mean(losses[-20:]) < 0.3 and right > 0.9


def test_graphs_and_the_default_graph():
    g = tf.Graph()
    with g.as_default():
        c = tf.constant(5.0)
        assert c.graph is g and tf.get_default_graph() is g
    assert tf.get_default_graph() is not g
    definition = g.as_graph_def()
    assert [(n.name, n.op) for n in definition.node] == [("Const", "Const")]
    with tf.Graph().as_default() as again:
        tf.import_graph_def(definition, name="")
        with tf.Session(graph=again) as sess:
            assert sess.run("Const:0") == 5.0


def test_colocation_and_devices_of_nodes():
    with tf.device("/job:ps/replica:0/task:1/cpu:0"):
        v = tf.Variable(1.0, name="v")
    with tf.colocate_with(v.op):
        other = tf.constant(2.0, name="other")
    node = {n.name: n for n in tf.get_default_graph().as_graph_def().node}["other"]
    assert v.device == "/job:ps/replica:0/task:1/device:CPU:0"
    assert node.attr["_class"].list.s == [b"loc:@v"] and other.device == v.device


def test_flags(monkeypatch):
    flags = tf.app.flags
    flags.DEFINE_string("lecture_data", "./data", "where the data are")
    flags.DEFINE_integer("lecture_steps", 10, "how many steps")
    FLAGS = flags.FLAGS
    monkeypatch.setattr("sys.argv", ["prog", "--lecture_steps=20"])
    try:
        FLAGS(["prog", "--lecture_steps=20"])
        assert (FLAGS.lecture_data, FLAGS.lecture_steps) == ("./data", 20)
    finally:
        for name in ("lecture_data", "lecture_steps"):
            delattr(FLAGS, name)


# -- D, E. eager execution --------------------------------------------------------------------------------------------
def test_many_products_and_one_sum():
    """X·W for 256 numbers: multiply in one step, add in log steps."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 256)).astype(np.float32)
    product = tf.constant(a) * tf.constant(b)
    while product.shape[0].value > 1:
        product = product[0::2] + product[1::2]
    with tf.Session() as sess:
        np.testing.assert_allclose(sess.run(product)[0], a @ b, rtol=1e-4)


def test_constants_with_a_shape_on_a_device():
    with tf.device("/cpu:0"):
        a = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[2, 3], name="a")
        b = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[3, 2], name="b")
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(tf.matmul(a, b)), [[22, 28], [49, 64]])


def test_eager_tensors_print_and_say_where_they_are_computed(capfd):
    context_mode = context.process
    context_mode.eager = True
    penstock.debugging.set_log_device_placement(True)
    try:
        with penstock.device("/cpu:0"):
            a = penstock.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
            b = penstock.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        c = penstock.matmul(a, b)
        out = io.StringIO()
        print(c, file=out)
    finally:
        penstock.debugging.set_log_device_placement(False)
    assert out.getvalue() == "tf.Tensor(\n[[22. 28.]\n [49. 64.]], shape=(2, 2), dtype=float32)\n"
    logged = "".join(capfd.readouterr())
    assert f"Executing op MatMul in device {CPU}" in logged
    assert c.device == CPU


def test_data_parallelism_is_the_mean_of_gradients():
    """Two replicas with half of the batch each: the mean of their gradients is the gradient of the whole."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)).astype(np.float32), rng.normal(size=(8,)).astype(np.float32)
    w = tf.Variable(tf.ones([3, 1]))

    def loss(a, b):
        return tf.reduce_mean(tf.square(tf.matmul(a, w)[:, 0] - b))
    opt = tf.train.GradientDescentOptimizer(0.1)
    towers = [opt.compute_gradients(loss(x[i::2], y[i::2])) for i in range(2)]
    mean = [(tf.reduce_mean(tf.stack([g for g, _ in pair]), 0), pair[0][1]) for pair in zip(*towers, strict=True)]
    whole = tf.gradients(loss(x, y), w)[0]
    train = opt.apply_gradients(mean)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        np.testing.assert_allclose(*sess.run([mean[0][0], whole]), rtol=1e-5)
        before, slope = sess.run([w, whole])
        sess.run(train)
        np.testing.assert_allclose(sess.run(w), before - 0.1 * slope, rtol=1e-5)


def test_lower_precision_for_transfer():
    x = np.linspace(-3, 3, 100).astype(np.float32)
    short = tf.cast(tf.cast(x, tf.bfloat16), tf.float32)
    quantized = tf.quantize(x, -3.0, 3.0, tf.quint8)
    back = tf.dequantize(quantized.output, quantized.output_min, quantized.output_max)
    with tf.Session() as sess:
        np.testing.assert_allclose(sess.run(short), x, rtol=2 ** -8)
        np.testing.assert_allclose(sess.run(back), x, atol=6 / 255)
