"""tf.contrib and the tutorials' helpers, by the names that programs use most."""
import gzip
import os
import tempfile

import numpy as np


def _run(tf, fetches):
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return sess.run(fetches)


def layers(tf):
    c = tf.contrib.layers
    x = np.ones([2, 4, 4, 1], np.float32)
    y = c.conv2d(x, 2, 3, padding="VALID", weights_initializer=tf.ones_initializer(), weights_regularizer=c.l2_regularizer(0.5))
    flat = c.flatten(c.dropout(y, 1.0))
    out = c.fully_connected(flat, 1, activation_fn=None, weights_initializer=tf.ones_initializer())
    normal = c.batch_norm(flat, is_training=True)
    values = _run(tf, [y, out, normal, c.layer_norm(flat), c.instance_norm(y), c.softmax(np.zeros([1, 2], np.float32)),
                       c.conv2d_transpose(x, 1, 2, 2), c.l1_regularizer(2.0)(tf.constant([-3.0])),
                       tf.losses.get_regularization_loss()])
    assert values[0].tolist() == np.full([2, 2, 2, 2], 9.0).tolist() and values[1].tolist() == [[72.0]] * 2
    assert abs(values[2]).max() < 1e-3 and abs(values[3]).max() < 1e-2 and abs(values[4]).max() < 1e-2
    assert values[5].tolist() == [[0.5, 0.5]] and values[6].shape == (2, 8, 8, 1) and values[7] == 6.0 and values[8] == 4.5
    cube = c.max_pool3d(c.conv3d(np.ones([1, 4, 4, 4, 1], np.float32), 1, 3, weights_initializer=tf.ones_initializer()), 2)
    assert _run(tf, cube).shape == (1, 2, 2, 2, 1)
    w = _run(tf, [c.xavier_initializer(seed=1)([100, 100]), c.variance_scaling_initializer(seed=1)([100, 100])])
    assert abs(w[0]).max() <= np.sqrt(6 / 200) and abs(w[1].std() - np.sqrt(2 / 100)) < 0.01
    v = tf.Variable(3.0)
    train = c.optimize_loss(tf.square(v), tf.train.get_or_create_global_step(), 0.1, "SGD")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train)
        assert abs(sess.run(v) - 2.4) < 1e-5


def slim(tf):
    s = tf.contrib.slim
    x = np.ones([1, 8, 8, 3], np.float32)
    with s.arg_scope([s.conv2d], normalizer_fn=s.batch_norm, weights_regularizer=s.l2_regularizer(0.1)):
        y = s.conv2d(x, 4, 3, scope="a")
    y = s.repeat(s.avg_pool2d(s.max_pool2d(y, 2), 2), 2, s.conv2d, 4, 1)
    y = s.separable_conv2d(y, 4, 3, 1)
    y = s.softmax(s.fully_connected(s.dropout(s.flatten(y), 0.9), 3, weights_initializer=s.variance_scaling_initializer()))
    assert abs(_run(tf, y).sum() - 1) < 1e-5
    names = [v.op.name for v in s.get_model_variables()]
    assert "a/weights" in names and "a/BatchNorm/moving_mean" in names and len(s.get_variables("a")) == len(names) - len(
        [n for n in names if not n.startswith("a/")])
    assert set(s.get_variables_to_restore(exclude=["a"])) <= set(s.get_variables())
    assert _run(tf, s.one_hot_encoding([1], 3)).tolist() == [[0, 1, 0]]
    assert _run(tf, s.variable("v", [2], initializer=tf.ones_initializer())).tolist() == [1, 1]

    @s.add_arg_scope
    def mine(a, b=1):
        return a + b
    with s.arg_scope([mine], b=10):
        assert mine(1) == 11
    assert s.arg_scope_func_key(mine) and s.utils.last_dimension(tf.TensorShape([2, 5])) == 5
    s.utils.collect_named_outputs("ends", "one", y)
    assert list(s.utils.convert_collection_to_dict("ends")) == ["one"]
    assert s.get_or_create_global_step() is tf.contrib.framework.get_global_step() is \
        tf.contrib.framework.get_or_create_global_step()
    assert len(tf.contrib.framework.get_variables()) >= len(names)
    with tf.contrib.framework.arg_scope([mine], b=5):
        assert mine(1) == 6
    assert tf.contrib.framework.add_arg_scope is not None


def rnn(tf):
    tf.set_random_seed(1)                   # from some weights, all that a cell returns is zero
    r = tf.contrib.rnn
    xs = [np.ones([2, 3], np.float32)] * 4
    for cell in (r.BasicLSTMCell(5), r.GRUCell(5), r.BasicRNNCell(5), r.LSTMBlockCell(5), r.NASCell(5),
                 r.MultiRNNCell([r.DropoutWrapper(r.BasicRNNCell(5), 1.0)]), r.DeviceWrapper(r.GRUCell(5), "/cpu:0")):
        with tf.variable_scope(None, "c"):
            outputs, state = r.static_rnn(cell, [tf.constant(x) for x in xs], dtype=tf.float32)
        values = _run(tf, outputs)
        assert len(values) == 4 and values[0].shape == (2, 5) and abs(values[3] - values[0]).max() > 0
    assert r.LSTMStateTuple(1, 2).h == 2
    both = r.static_bidirectional_rnn(r.GRUCell(2), r.GRUCell(2), [tf.constant(x) for x in xs], dtype=tf.float32)[0]
    assert both[0].shape.as_list() == [2, 4]


def hyperparameters(tf):
    h = tf.contrib.training.HParams(rate=0.1, sizes=[1, 2])
    h.parse("rate=0.5")
    assert h.rate == 0.5 and h.values()["sizes"] == [1, 2]
    assert tf.contrib.training.byte_size_load_fn(tf.placeholder(tf.float32, [2, 3]).op) == 24
    place = tf.contrib.training.GreedyLoadBalancingStrategy(2, lambda op: 1)
    assert [place(None), place(None)] == [0, 1]
    assert tf.contrib.util.make_tensor_proto([1, 2]).tensor_shape.dim[0].size == 2


def tutorials(tf):
    t = tf.examples.tutorials.mnist
    folder = tempfile.mkdtemp()
    images, labels = np.arange(6 * 784, dtype=np.uint8).reshape(6, 28, 28), np.array([3, 1, 4, 1, 5, 9], np.uint8)
    for name in ("train", "t10k"):
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            with gzip.open(os.path.join(folder, f"{name}-{kind}-ubyte.gz"), "wb") as f:
                f.write(np.array([2051 if array.ndim == 3 else 2049, *array.shape], ">u4").tobytes() + array.tobytes())
    data = t.input_data.read_data_sets(folder, one_hot=True, validation_size=2)
    assert (data.train.num_examples, data.validation.num_examples, data.test.num_examples) == (4, 2, 6)
    seen = np.concatenate([data.train.next_batch(3)[1], data.train.next_batch(3)[1]])
    assert seen.shape == (6, 10) and data.train.epochs_completed == 1 and seen[:4].sum(0)[[4, 1, 5, 9]].tolist() == [1, 1, 1, 1]
    np.testing.assert_allclose(data.test.images[0], images[0].ravel() / 255, rtol=1e-6, atol=1e-6)
    plain = tf.contrib.learn.python.learn.datasets.mnist.read_data_sets(folder, reshape=False, validation_size=0)
    assert plain.test.images.shape == (6, 28, 28, 1) and plain.test.labels.tolist() == labels.tolist()
    x, y = tf.constant(data.test.images), tf.constant(labels.astype(np.int32))
    tf.set_random_seed(1)
    logits = t.mnist.inference(x, 8, 4)
    loss = t.mnist.loss(logits, y)
    train, right = t.mnist.training(loss, 0.001), t.mnist.evaluation(logits, y)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run(loss)
        sess.run(train)
        assert sess.run(loss) < before and 0 <= sess.run(right) <= 6 and t.mnist.IMAGE_PIXELS == 784
    base = tf.contrib.learn.python.learn.datasets.base
    assert base.Dataset(data=1, target=2).target == 2 and base.Datasets(1, 2, 3).test == 3
    path = os.path.join(folder, "a.csv")
    with open(path, "w") as f:
        f.write("1\n2\n3\n")
    assert base.maybe_download("a.csv", folder, "https://nowhere.invalid/") == path
    base.shrink_csv(path, 2)
    with open(path.replace(".csv", "_small.csv")) as f:
        assert f.read() == "1\n3\n"


def devices(tf):
    from penstock._src.kernels.devices import device_config
    cpus = tf.config.experimental.list_physical_devices("CPU")
    try:
        tf.config.experimental.set_visible_devices(cpus, "CPU")
        assert tf.config.experimental.get_visible_devices("CPU") == cpus
        try:
            tf.config.experimental.set_memory_growth(cpus[0], True)
        except ValueError as e:
            assert "CPU" in str(e) or "GPU" in str(e)
    finally:
        device_config.reset()
    assert tf.python.eager.context.num_gpus() == len(tf.config.experimental.list_physical_devices("GPU"))
    path = os.path.join(tempfile.mkdtemp(), "r")
    with tf.io.TFRecordWriter(path) as w:
        w.write(b"a")
    assert list(tf.python_io.tf_record_iterator(path)) == [b"a"] and tf.python.pywrap_tensorflow.NewCheckpointReader
    tf.random.set_random_seed(3)


def sounds(tf):
    a = tf.contrib.framework.python.ops.audio_ops
    wave = np.sin(np.arange(64, dtype=np.float32))[:, None]
    spectrum = a.audio_spectrogram(wave, window_size=32, stride=32)
    with tf.Session() as sess:
        assert sess.run(spectrum).shape[1] == 2 and sess.run(a.mfcc(spectrum, 8000, dct_coefficient_count=4)).shape[-1] == 4
        assert abs(sess.run(a.decode_wav(a.encode_wav(wave, 8000)).audio) - wave).max() < 1e-3


def before_keras_moved(tf):
    assert tf.contrib.keras.datasets.cifar10.load_data is tf.keras.datasets.cifar10.load_data
    assert tf.contrib.keras.layers.Dense is tf.keras.layers.Dense
    with tf.python.eager.context.eager_mode():
        class Net(tf.contrib.eager.Network):
            def __init__(self):
                super().__init__()
                ones = tf.ones_initializer()
                self.first = self.track_layer(tf.layers.Dense(4, use_bias=False, kernel_initializer=ones))
                self.track_layer(tf.layers.Dense(1, kernel_initializer=ones))

            def call(self, x):
                return self.get_layer(index=1)(self.first(x))
        net = Net()
        assert net(tf.ones([1, 3])).numpy().tolist() == [[12.0]] and len(net.variables) == 3
        steps = tf.contrib.eager.Sequential([net, tf.negative])
        assert steps(tf.ones([1, 3])).numpy().tolist() == [[-12.0]] and len(steps.trainable_variables) == 3
        kept = tf.contrib.checkpoint.List([tf.layers.Dense(2)])
        kept.append(tf.layers.Dense(3))
        assert [layer.units for layer in kept] == [2, 3]


def forests(tf):
    from tensorflow.contrib.tensor_forest.python import tensor_forest
    assert tensor_forest.ForestHParams is tf.contrib.tensor_forest.python.tensor_forest.ForestHParams
    x = np.random.RandomState(0).rand(200, 2).astype(np.float32)
    params = tf.contrib.tensor_forest.python.tensor_forest.ForestHParams(
        num_classes=2, num_features=2, num_trees=3, max_nodes=50, split_after_samples=20, base_random_seed=1).fill()
    forest = tf.contrib.tensor_forest.python.tensor_forest.RandomForestGraphs(params)
    labels = (x[:, 0] > 0.5).astype(np.int32)
    train, (chances, _, _) = forest.training_graph(x, labels), forest.inference_graph(x)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            sess.run(train)
        assert (sess.run(chances).argmax(1) == labels).mean() > 0.9


def clusters(tf):
    x = np.array([[0, 0], [0, 1], [9, 9], [9, 8]], np.float32)
    _, index, distances, _, init, train = tf.contrib.factorization.KMeans(x, 2, initial_clusters=x[[0, 2]]).training_graph()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(init)
        sess.run(train)
        assert sess.run(index[0]).tolist() == [0, 0, 1, 1]
        np.testing.assert_allclose(sess.run(distances[0]), [0.25] * 4, atol=1e-3)


def walks(tf):
    a = tf.constant(1.0, name="a")
    b = tf.negative(a, name="b")
    found = tf.contrib.graph_editor.get_backward_walk_ops(b.op)
    assert [op.name for op in found] == ["b", "a"]
    assert tf.keras.__version__.endswith("-tf") and callable(tf.compat.v2.enable_v2_behavior)
    base = tf.python.keras.optimizer_v2.optimizer_v2.OptimizerV2
    assert isinstance(tf.keras.optimizers.SGD(0.1), base)
    folder = tempfile.mkdtemp()
    with tf.summary.FileWriter(folder) as writer:
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="t", simple_value=2.0)]), 7)
    last = tf.contrib.summary.summary_test_util.events_from_logdir(folder)[-1]
    assert last.step == 7 and last.summary.value[0].simple_value == 2


def sums_of_all(tf):
    reduce = tf.python.ops.collective_ops.all_reduce
    parts = []
    for k in range(2):
        with tf.device(f"/cpu:{k}"):
            parts.append(tf.python.ops.collective_ops.all_reduce(tf.constant([1.0, 2.0]) * (k + 1), 2, 1, 1, "Add", "Id"))
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as sess:
        assert [v.tolist() for v in sess.run(parts)] == [[3.0, 6.0]] * 2 and callable(reduce)


def quantize(tf):
    x = np.random.default_rng(0).uniform(size=[4, 8]).astype(np.float32)
    for create in (tf.contrib.quantize.create_training_graph, tf.contrib.quantize.create_eval_graph):
        tf.reset_default_graph()
        y = tf.nn.relu(tf.matmul(x, tf.get_variable("w", initializer=np.linspace(-0.3, 1, 16, dtype=np.float32).reshape(8, 2))))
        out = y + 0.0
        create()
        end = out.op.inputs[0].op
        assert end.type == "FakeQuantWithMinMaxVars"
        values, top = _run(tf, [out, end.inputs[2]])
        exact = np.maximum(x @ np.linspace(-0.3, 1, 16).reshape(8, 2), 0)
        assert abs(values - exact).max() < 0.1 and np.allclose(values * 255 / top, (values * 255 / top).round(), atol=1e-2)


def session_bundle(tf):
    from tensorflow.contrib.session_bundle import exporter, session_bundle
    x = tf.placeholder(tf.float32, [None], name="x")
    y = tf.identity(tf.Variable(3.0) * x, name="y")
    made = tf.contrib.session_bundle.exporter.Exporter(tf.train.Saver())
    made.init(default_graph_signature=exporter.generic_signature({"x": x, "y": y}))
    with tempfile.TemporaryDirectory() as folder:
        sess = tf.Session()
        sess.run(tf.global_variables_initializer())
        where = made.export(folder, tf.constant(7), sess).decode()
        sess.close()
        assert where.endswith("/00000007")
        with session_bundle.load_session_bundle_from_path(where)[0] as again:
            assert again.run("y:0", {"x:0": [2.0]}).tolist() == [6.0]


def nccl(tf):
    from tensorflow.contrib.nccl.ops import gen_nccl_ops
    from tensorflow.contrib.nccl.python.ops import nccl_ops
    assert nccl_ops._validate_and_load_nccl_so() is None
    with tf.device("/cpu:0"):
        x = tf.constant([1.0, 2.0])
    assert _run(tf, gen_nccl_ops.nccl_reduce([x, x], reduction="sum")).tolist() == [2.0, 4.0]
    assert _run(tf, tf.contrib.nccl.reduce_sum([x, x, x])).tolist() == [3.0, 6.0]


def hooked_session(tf):
    from tensorflow.python.training import monitored_session

    class Hook(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs(two)

        def after_run(self, run_context, run_values):
            self.seen = run_values.results
    one, two, hook = tf.constant(1), tf.constant(2), Hook()
    with tf.Session() as sess:
        assert monitored_session._HookedSession(sess, [hook]).run(one) == 1 and hook.seen == 2
