"""Names whose use takes more than an expression: each function checks what it did. `tf` is what programs import."""
# ruff: noqa: F821
import os
import tempfile

import numpy as np


def sessions(tf):
    g = tf.Graph()
    with g.as_default(), tf.device("/cpu:0"), tf.name_scope("a"):
        x = tf.placeholder(tf.float32, [None], name="x")
        y = tf.identity(x * 2, name="y")
    assert isinstance(y, tf.Tensor) and isinstance(y.op, tf.Operation) and y.name == "a/y:0"
    with tf.Session(graph=g) as sess:
        assert tf.get_default_session() is sess and sess.run("a/y:0", {x: [1]}) == [2]
    inter = tf.InteractiveSession()
    assert tf.constant(3).eval() == 3 and tf.get_default_graph() is inter.graph
    inter.close()
    assert tf.python.client.session.Session is tf.Session
    assert tf.python.framework.ops.Graph is tf.Graph and tf.python.framework.ops.get_default_session() is None
    tf.python.framework.ops.reset_default_graph()
    with tf.control_dependencies([tf.no_op()]), tf.colocate_with(tf.constant(1)):
        done = tf.group(tf.no_op())
    assert done.control_inputs


def variables(tf):
    with tf.variable_scope("s", reuse=tf.AUTO_REUSE):
        w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
        assert tf.get_variable("w", [2]) is w and tf.get_variable_scope().name == "s"
    v = tf.Variable([1.0, 2.0], name="v")
    local = tf.Variable(0, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    assert tf.trainable_variables() == tf.global_variables() == tf.all_variables() == [w, v] and tf.local_variables() == [local]
    tf.add_to_collection("mine", v)
    assert tf.get_collection("mine") == tf.get_collection_ref("mine") == [v]
    with tf.Session() as sess:
        assert len(sess.run(tf.report_uninitialized_variables())) == 3
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer(), tf.tables_initializer()])
        sess.run([tf.variables_initializer([v]), tf.initialize_all_variables(),
                  tf.python.ops.variables.global_variables_initializer()])
        assert sess.run(tf.assign(w, [5, 6])).tolist() == [5, 6] and sess.run(tf.assign_add(v, [1, 1])).tolist() == [2, 3]
    tf.enable_resource_variables()
    try:
        assert "Resource" in type(tf.Variable(1.0)).__name__
    finally:
        tf.disable_resource_variables()
    assert isinstance(v, tf.python.ops.variable_v1.VariableV1)


def optimizers(tf):
    """Each makes x² smaller."""
    step = tf.train.get_or_create_global_step()
    assert tf.train.get_global_step() is step
    for make in (tf.train.GradientDescentOptimizer, tf.train.AdamOptimizer, tf.train.RMSPropOptimizer,
                 tf.train.AdagradOptimizer, tf.train.AdadeltaOptimizer, tf.train.FtrlOptimizer,
                 lambda rate: tf.train.MomentumOptimizer(rate, 0.9)):
        x = tf.Variable(3.0)
        optimizer = make(0.1)
        assert isinstance(optimizer, tf.train.Optimizer)
        train = optimizer.minimize(tf.square(x), global_step=step)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run([train] * 1)
            assert sess.run(x) < 3.0 and sess.run(step) == 1
    average = tf.train.ExponentialMovingAverage(0.5)
    v = tf.Variable(4.0)
    update = average.apply([v])
    moved = tf.python.training.moving_averages.assign_moving_average(tf.Variable(0.0), 2.0, 0.5, zero_debias=False)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run([v.assign(0.0), tf.no_op()])
        sess.run(update)
        assert sess.run(average.average(v)) == 2.0 and sess.run(moved) == 1.0
    with tf.Graph().as_default():
        assert tf.train.create_global_step().name == "global_step:0"
    with tf.Graph().as_default():
        tf.losses.mean_squared_error([1.0], [3.0])
        assert tf.Session().run(tf.losses.get_total_loss()) == 4.0


def saving(tf):
    folder = tempfile.mkdtemp()
    v = tf.Variable(7.0, name="v")
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(v.initializer)
        path = saver.save(sess, os.path.join(folder, "model"), global_step=3)
        tf.train.write_graph(sess.graph_def, folder, "graph.pbtxt")
        tf.io.write_graph(sess.graph, folder, "graph.pb", as_text=False)
        tf.python.framework.graph_io.write_graph(sess.graph, folder, "again.pbtxt")
        frozen = tf.python.framework.graph_util.convert_variables_to_constants(sess, sess.graph_def, ["v/read"])
    assert tf.train.latest_checkpoint(folder) == path and tf.train.checkpoint_exists(path)
    assert tf.train.get_checkpoint_state(folder).model_checkpoint_path == path
    assert tf.train.NewCheckpointReader(path).get_tensor("v") == 7.0
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.train.import_meta_graph(path + ".meta").restore(sess, path)
        assert sess.run("v:0") == 7.0
    with tf.Graph().as_default(), tf.Session() as sess:
        w = tf.get_variable("w", [])
        tf.train.init_from_checkpoint(folder, {"v": w})
        sess.run(tf.global_variables_initializer())
        assert sess.run(w) == 7.0
    with tf.Graph().as_default(), tf.Session() as sess:
        assert sess.run(tf.import_graph_def(frozen, return_elements=["v/read:0"])) == [7.0]
        tf.python.framework.importer.import_graph_def(frozen, name="b")
        assert sess.run("b/v/read:0") == 7.0
    checkpoint = tf.train.Checkpoint(x=tf.Variable(1.0))
    assert checkpoint.x.shape == []


def files(tf):
    folder = os.path.join(tempfile.mkdtemp(), "a", "b")
    tf.gfile.MakeDirs(folder)
    path = os.path.join(folder, "f.txt")
    with tf.gfile.GFile(path, "w") as f:
        f.write("one\ntwo\n")
    assert tf.gfile.Exists(path) and tf.gfile.IsDirectory(folder) and tf.gfile.Stat(path).length == 8
    assert tf.gfile.Open(path).read() == tf.gfile.FastGFile(path, "r").read() == "one\ntwo\n"
    tf.gfile.Copy(path, path + "2")
    tf.gfile.Rename(path + "2", path + "3")
    assert [os.path.basename(p) for p in tf.gfile.Glob(folder + "/*3")] == ["f.txt3"]
    tf.gfile.Remove(path + "3")
    with tf.Session() as sess:
        assert sess.run(tf.read_file(path)) == sess.run(tf.io.read_file(path)) == b"one\ntwo\n"
        names = tf.train.match_filenames_once(folder + "/*.txt")
        sess.run(tf.local_variables_initializer())
        assert len(sess.run(names)) == 1
    assert tf.io.gfile.exists(path)
    tf.io.gfile.makedirs(folder + "/c")
    tf.io.gfile.rmtree(folder + "/c")
    g = tf.python.platform.gfile
    with g.Open(path) as f, g.GFile(path) as h, g.FastGFile(path) as k:
        assert f.read() == h.read() == k.read()
    g.MakeDirs(folder + "/d")
    assert g.Exists(path) and g.Glob(folder + "/d") == [folder + "/d"]
    assert tf.python.lib.io.file_io.FileIO(path, "r").read() == "one\ntwo\n"
    assert tf.resource_loader.get_data_files_path() == os.path.dirname(__file__)
    tf.gfile.DeleteRecursively(folder)
    assert not tf.gfile.Exists(folder)


def records(tf):
    folder = tempfile.mkdtemp()
    path, text = os.path.join(folder, "a.tfrecords"), os.path.join(folder, "a.csv")
    with tf.io.TFRecordWriter(path) as w:
        for k in range(4):
            w.write(b"r%d" % k)
    with open(text, "w") as f:
        f.write("1,2\n3,4\n")
    with tf.Session() as sess:
        assert sess.run(tf.data.make_one_shot_iterator(tf.data.TFRecordDataset(path).batch(4)).get_next()).tolist() == [
            b"r0", b"r1", b"r2", b"r3"]
        it = tf.data.make_initializable_iterator(tf.data.TextLineDataset(text))
        assert isinstance(it, tf.data.Iterator)
        sess.run(it.initializer)
        assert sess.run(it.get_next()) == b"1,2"
        csv = tf.data.make_one_shot_iterator(tf.data.experimental.CsvDataset(text, [0, 0])).get_next()
        assert sess.run(csv) == (1, 2)
        fixed = tf.data.make_one_shot_iterator(tf.data.FixedLengthRecordDataset(text, 4)).get_next()
        assert sess.run(fixed) == b"1,2\n"
        d = tf.data.Dataset.range(4)
        d = d.apply(tf.data.experimental.shuffle_and_repeat(1, 1)).apply(tf.data.experimental.map_and_batch(lambda x: x * 2, 2))
        d = d.apply(tf.data.experimental.unbatch()).apply(
            tf.data.experimental.parallel_interleave(lambda x: tf.data.Dataset.from_tensors(x), 1))
        assert sess.run(tf.data.make_one_shot_iterator(d.batch(4)).get_next()).tolist() == [0, 2, 4, 6]


def queues(tf):
    folder = tempfile.mkdtemp()
    text, fixed, path = (os.path.join(folder, n) for n in ("a.txt", "a.bin", "a.tfrecords"))
    with open(text, "w") as f:
        f.write("head\nx\ny\n")
    with open(fixed, "wb") as f:
        f.write(b"abcd")
    with tf.python_io.TFRecordWriter(path) as w:
        w.write(b"record")
    key, line = tf.TextLineReader(skip_header_lines=1).read(tf.train.string_input_producer([text], shuffle=False))
    part = tf.FixedLengthRecordReader(2).read(tf.train.string_input_producer([fixed])).value
    record = tf.TFRecordReader().read(tf.train.string_input_producer([path])).value
    index = tf.train.range_input_producer(3, shuffle=False).dequeue()
    item = tf.train.slice_input_producer([np.array([5, 6])], shuffle=False)[0]
    batch, shuffled = tf.train.batch([index], 2), tf.train.shuffle_batch([index], 2, 10, 2)
    queue = tf.FIFOQueue(2, [tf.int32], [[]])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(4)]))
    with tf.Session() as sess:
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coordinator)
        assert sess.run([key, line]) == [text.encode() + b":2", b"x"] and sess.run(part) == b"ab"
        assert sess.run([record, item, queue.dequeue()]) == [b"record", 5, 4]
        assert set(sess.run(batch)) | set(sess.run(shuffled)) <= {0, 1, 2}
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)
    with tf.Session() as sess:
        sess.run(queue.close())
        try:
            sess.run(queue.dequeue())
        except tf.errors.OutOfRangeError as e:
            assert "closed" in str(e)
    area = tf.python.ops.data_flow_ops.StagingArea([tf.float32])
    with tf.Session() as sess:
        sess.run(area.put([2.0]))
        assert np.ravel(sess.run(area.get())).tolist() == [2.0]


def summaries(tf):
    folder = tempfile.mkdtemp()
    tf.summary.scalar("loss", 2.0)
    tf.summary.histogram("h", [1.0, 2.0])
    tf.summary.image("i", np.zeros([1, 2, 2, 3], np.float32))
    tf.scalar_summary("old", 1.0), tf.image_summary("oi", np.zeros([1, 2, 2, 3], np.float32))
    merged, some = tf.summary.merge_all(), tf.merge_summary([tf.summary.scalar("b", 1.0)])
    assert tf.summary.merge([some]).dtype == tf.string
    with tf.Session() as sess, tf.summary.FileWriter(folder, sess.graph) as writer:
        writer.add_summary(sess.run(merged), 5)
    events = [e for e in tf.train.summary_iterator(os.path.join(folder, os.listdir(folder)[0]))]
    tags = {v.tag for e in events for v in e.summary.value}
    assert tags >= {"loss", "h", "i/image/0", "old"}, tags
    assert [e.step for e in events if e.summary.value] == [5]
    assert tf.train.SummaryWriter is tf.summary.FileWriter


def metrics(tf):
    pairs = [tf.metrics.accuracy([1, 0], [1, 1]), tf.metrics.mean([1.0, 3.0]), tf.metrics.root_mean_squared_error([0.0], [3.0])]
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        sess.run([update for _, update in pairs])
        assert sess.run([v for v, _ in pairs]) == [0.5, 2.0, 3.0]


def training(tf):
    folder = tempfile.mkdtemp()
    step = tf.train.get_or_create_global_step()
    count = step.assign_add(1)

    class Hook(tf.train.SessionRunHook):
        seen = []
        def before_run(self, context):
            return tf.train.SessionRunArgs(step)
        def after_run(self, context, values):
            self.seen.append(int(values.results))
    hooks = [tf.train.StopAtStepHook(last_step=3), tf.train.LoggingTensorHook({"step": step}, every_n_iter=2), Hook()]
    with tf.train.MonitoredTrainingSession(checkpoint_dir=folder, hooks=hooks, save_checkpoint_secs=None,
                                           save_summaries_secs=None, scaffold=tf.train.Scaffold()) as sess:
        while not sess.should_stop():
            sess.run(count)
    assert len(Hook.seen) == 3
    with tf.Graph().as_default():
        v = tf.Variable(4.0)
        with tf.train.MonitoredSession() as sess:
            assert sess.run(v) == 4.0
    with tf.Graph().as_default():
        v = tf.Variable(5.0)
        with tf.train.Supervisor(logdir=None).managed_session() as sess:
            assert sess.run(v) == 5.0
    tf.reset_default_graph()
    server = tf.train.Server.create_local_server()
    with tf.Session(server.target) as sess:
        assert sess.run(tf.constant(2) + 1) == 3
    server.stop()
    setter = tf.train.replica_device_setter(ps_tasks=2)
    with tf.Graph().as_default(), tf.device(setter):
        assert [tf.Variable(0.0).device, tf.Variable(0.0).device] == ["/job:ps/task:0", "/job:ps/task:1"]
    assert issubclass(tf.train.SyncReplicasOptimizer, tf.train.Optimizer)


def eager(tf):
    from penstock._src.graph import context
    with context.enter(None):
        assert tf.executing_eagerly()
        x = tf.Variable(3.0)
        with tf.GradientTape() as tape:
            y = x * x
        assert float(tape.gradient(y, x)) == 6.0
        assert float(tf.function(lambda a: a + 1)(tf.constant(1.0))) == 2.0

        @tf.custom_gradient
        def double(a):
            return a * 2, lambda dy: dy * 10
        with tf.GradientTape() as tape:
            z = double(x)
        assert float(tape.gradient(z, x)) == 10.0
        with tf.compat.v2.GradientTape() as tape:
            w = tf.compat.v2.Variable(2.0)
            z = w * w
        assert float(tape.gradient(z, w)) == 4.0 and int(next(iter(tf.compat.v2.data.Dataset.range(1)))) == 0
        assert float(tf.compat.v2.function(lambda: tf.constant(1.0))()) == 1.0


def checks(tf):
    case = tf.test.TestCase()
    case.assertAllClose([1.0], [1.0])
    assert os.path.isdir(tf.test.get_temp_dir()) and callable(tf.test.main) and tf.test.Benchmark.__name__ == "Benchmark"
    p = tf.python.platform.test
    assert p.TestCase is tf.test.TestCase and p.main is tf.test.main and p.get_temp_dir() == tf.test.get_temp_dir()
    assert tf.python.framework.test_util.TensorFlowTestCase is tf.test.TestCase
    assert tf.python.framework.test_util.IsMklEnabled() is False

    @tf.python.framework.test_util.run_deprecated_v1
    def body(self):
        return tf.executing_eagerly()
    assert body(case) is False

    @tf.python.framework.test_util.run_all_in_graph_and_eager_modes
    class Both(tf.test.TestCase):
        modes = []
        def test_it(self):
            self.modes.append(tf.executing_eagerly())
            self.assertEqual(self.evaluate(tf.constant(3)), 3)
    import unittest
    result = unittest.TestResult()
    Both("test_it").run(result)
    assert result.wasSuccessful() and Both.modes == [False, True], (Both.modes, result)
    with tf.Session() as sess:
        assert sess.run(tf.assert_positive([1.0])) is None


def flags_and_logs(tf):
    tf.flags.DEFINE_string("a_string", "x", "s"), tf.flags.DEFINE_string("needed", None, "n")
    tf.flags.DEFINE_integer("an_integer", 3, "i")
    tf.flags.DEFINE_float("a_float", 0.5, "f")
    tf.flags.DEFINE_bool("a_bool", True, "b")
    tf.flags.DEFINE_boolean("a_boolean", False, "b")
    tf.app.flags.DEFINE_string("b_string", "y", "s"), tf.app.flags.DEFINE_integer("b_integer", 4, "i")
    tf.app.flags.DEFINE_float("b_float", 1.5, "f"), tf.app.flags.DEFINE_bool("b_bool", True, "b")
    tf.app.flags.DEFINE_boolean("b_boolean", True, "b")
    tf.flags.mark_flag_as_required("needed")
    tf.flags.FLAGS(["program", "--an_integer=5", "--needed=n"])
    found = tf.app.flags.FLAGS
    assert [found.a_string, found.an_integer, found.a_float, found.a_bool, found.a_boolean] == ["x", 5, 0.5, True, False]
    assert [found.b_string, found.b_integer, found.b_float, found.b_bool, found.b_boolean] == ["y", 4, 1.5, True, True]
    before = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.logging.info("i"), tf.logging.debug("d"), tf.logging.warn("w"), tf.logging.warning("w")
    assert tf.logging.DEBUG < tf.logging.INFO < tf.logging.WARN < tf.logging.ERROR == tf.logging.get_verbosity()
    tf.logging.error("e"), tf.logging.fatal("f")
    tf.logging.set_verbosity(before)
    assert tf.python.platform.tf_logging.info is tf.logging.info and tf.python.platform.tf_logging.warning is tf.logging.warning
    assert tf.python.platform.app.run is tf.app.run
    assert tf.python.util.deprecation.deprecated(None, "use g")(lambda: 3)() == 3


def seeds(tf):
    tf.set_random_seed(1)
    with tf.Session() as a, tf.Session() as b:
        x = tf.random_uniform([2])
        assert a.run(x).tolist() == b.run(x).tolist()
    tf.compat.v2.random.uniform([1])
    assert tf.random.set_random_seed is tf.set_random_seed


def rnns(tf):
    x = np.ones([2, 3, 4], np.float32)
    cells = tf.nn.rnn_cell
    for cell in (cells.BasicLSTMCell(5), cells.LSTMCell(5), cells.GRUCell(5), cells.BasicRNNCell(5),
                 cells.MultiRNNCell([cells.DropoutWrapper(cells.BasicRNNCell(5), output_keep_prob=1.0)])):
        assert isinstance(cell, cells.RNNCell)
        with tf.variable_scope(None, "rnn"):
            outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, sequence_length=[3, 1])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            value = sess.run(outputs)
        assert value.shape == (2, 3, 5) and not value[1, 1:].any() and value[0].any()
    both, _ = tf.nn.bidirectional_dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), tf.nn.rnn_cell.GRUCell(2), x, dtype=tf.float32)
    assert both[1].shape.as_list() == [2, 3, 2]


def layers(tf):
    x = np.ones([2, 4, 4, 3], np.float32)
    with tf.Session() as sess:
        y = tf.layers.conv2d(x, 2, 3, kernel_initializer=tf.ones_initializer())
        pooled = [tf.layers.max_pooling2d(y, 2, 2), tf.layers.average_pooling2d(y, 2, 2)]
        flat = tf.layers.flatten(y)
        out = tf.layers.dense(tf.layers.dropout(flat, 0.5), 1, kernel_initializer=tf.ones_initializer())
        normal = tf.layers.batch_normalization(flat)
        up = tf.layers.conv2d_transpose(x, 2, 2, 2)
        row = tf.layers.conv1d(np.ones([1, 4, 1], np.float32), 1, 2, kernel_initializer=tf.ones_initializer())
        layer = tf.layers.Dense(3)
        assert isinstance(layer, tf.layers.Layer) and isinstance(tf.layers.BatchNormalization(), tf.layers.Layer)
        made = layer(flat)
        sess.run(tf.global_variables_initializer())
        assert sess.run(y).tolist() == np.full([2, 2, 2, 2], 27.0).tolist() and sess.run(pooled[0]).max() == 27.0
        assert sess.run(out).tolist() == [[27.0 * 8]] * 2 and sess.run(row)[0, :, 0].tolist() == [2, 2, 2]
        assert sess.run(up).shape == (2, 8, 8, 2) and sess.run(made).shape == (2, 3) and sess.run(pooled[1]).max() == 27.0
        np.testing.assert_allclose(sess.run(normal), sess.run(flat) / np.sqrt(1.001), rtol=1e-5, atol=1e-5)


def inside(tf):
    g = tf.python.ops
    area = g.lookup_ops.index_table_from_file
    path = os.path.join(tempfile.mkdtemp(), "words")
    with open(path, "w") as f:
        f.write("a\nb\n")
    table, back = area(path), g.lookup_ops.index_to_string_table_from_file(path)
    with tf.Session() as sess:
        sess.run(tf.tables_initializer())
        assert sess.run(table.lookup(tf.constant(["b"]))).tolist() == [1]
        assert sess.run(back.lookup(tf.constant([0], tf.int64))).tolist() == [b"a"]
        sess.run(g.resources.initialize_resources(g.resources.shared_resources()))
        metadata = tf.RunMetadata()
        sess.run(tf.constant(1) + 1, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    trace = tf.python.client.timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
    assert "traceEvents" in trace

    @tf.python.framework.ops.RegisterGradient("SymbolsTestGradient")
    def gradient(op, dy):
        return dy * 7
    with tf.get_default_graph().gradient_override_map({"Identity": "SymbolsTestGradient"}):
        x = tf.constant(1.0)
        y = tf.identity(x)
    with tf.Session() as sess:
        assert sess.run(tf.gradients(y, x)) == [7.0]
        frozen = tf.get_default_graph().as_graph_def()
        lib = tf.python.tools.optimize_for_inference_lib.optimize_for_inference
    with tf.Graph().as_default() as graph:
        a = tf.placeholder(tf.float32, [], name="a")
        tf.square(tf.identity(a), name="b")
        small = lib(graph.as_graph_def(), ["a"], ["b"], tf.float32.as_datatype_enum)
    assert {n.name for n in small.node} == {"a", "b"} and frozen.node
    builder = tf.python.saved_model.builder.SavedModelBuilder(os.path.join(tempfile.mkdtemp(), "m"))
    with tf.Graph().as_default(), tf.Session() as sess:
        info = tf.python.saved_model.utils.build_tensor_info(tf.constant(1.0, name="c"))
        signature = tf.python.saved_model.signature_def_utils.build_signature_def({}, {"y": info}, "m")
        builder.add_meta_graph_and_variables(sess, ["serve"], {"s": signature})
    assert os.path.exists(builder.save())
    try:
        tf.load_op_library("nothing.so")
    except tf.errors.NotFoundError as e:
        assert "nothing.so" in str(e)
    assert tf.profiler.ProfileOptionBuilder.float_operation()["order_by"] == "float_ops"


def modes(tf):
    """Eager execution is requested at the start of a program."""
    tf.contrib.eager.enable_eager_execution()
    tf.enable_eager_execution()
    assert tf.executing_eagerly() and float(tf.contrib.eager.Variable(2.0) * 3) == 6.0
    tf.disable_v2_behavior()
    assert not tf.executing_eagerly()
