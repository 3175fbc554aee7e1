"""Names of TensorFlow 2 and of its folders, by what programs use most: `tf` has the names of 2.x here."""
import os
import tempfile

import numpy as np


def optimizers(tf):
    for make, wanted in ((lambda: tf.optimizers.SGD(0.1), 2.4), (lambda: tf.optimizers.Adam(0.1), 2.9)):
        v = tf.Variable(3.0)
        with tf.GradientTape() as tape:
            loss = v * v
        make().apply_gradients([(tape.gradient(loss, v), v)])
        assert abs(v.numpy() - wanted) < 1e-5


def losses(tf):
    chances = np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], np.float32)
    wanted = -np.log([0.5, 0.8])
    np.testing.assert_allclose(tf.losses.sparse_categorical_crossentropy([0, 1], chances), wanted, rtol=1e-5, atol=1e-5)
    assert abs(tf.losses.SparseCategoricalCrossentropy()([0, 1], chances).numpy() - wanted.mean()) < 1e-5


def chance(tf):
    tf.random.set_seed(3)
    first = tf.random.uniform([4]).numpy()
    tf.random.set_seed(3)
    assert (tf.random.uniform([4]).numpy() == first).all()
    drawn = tf.initializers.RandomNormal(1.0, 0.5, seed=1)([10000]).numpy()
    assert abs(drawn.mean() - 1) < 0.05 and abs(drawn.std() - 0.5) < 0.05


def saving(tf):
    folder = tempfile.mkdtemp()

    class Twice(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def __call__(self, x):
            return 2 * x
    tf.compat.v2.saved_model.save(Twice(), os.path.join(folder, "twice"))
    assert tf.compat.v2.saved_model.load(os.path.join(folder, "twice"))(tf.constant([1.0, 2.0])).numpy().tolist() == [2, 4]
    v = tf.Variable(3.0)
    kept = tf.compat.v2.train.Checkpoint(v=v)
    path = kept.save(os.path.join(folder, "c"))
    v.assign(7.0)
    kept.restore(path)
    assert v.numpy() == 3
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=[3])])
    x, path = np.ones([1, 3], np.float32), os.path.join(folder, "m.h5")
    tf.compat.v2.keras.models.save_model(model, path)
    for load in (tf.keras.models.load_model, tf.python.keras.models.load_model):
        np.testing.assert_allclose(load(path).predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-6, atol=1e-6)


def files(tf):
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "a.txt"), "w") as f:
        f.write("text")
    path = tf.keras.utils.get_file("b.txt", "file://" + os.path.join(folder, "a.txt"), cache_dir=folder)
    with open(path) as f:
        assert f.read() == "text"
    digits = {f"{k}_{part}": v for part in ("train", "test") for k, v in (("x", [[0, 1], [2, 3]]), ("y", [3, 1]))}
    np.savez(os.path.join(folder, "digits.npz"), **digits)
    (x, y), _ = tf.compat.v2.keras.datasets.mnist.load_data(os.path.join(folder, "digits.npz"))
    assert x.tolist() == [[0, 1], [2, 3]] and y.tolist() == [3, 1]


def applications(tf):
    model = tf.keras.applications.VGG16(weights=None, input_shape=(32, 32, 3), classes=10)
    assert model.count_params() == 14_714_688 + (512 * 4096 + 4096) + (4096 * 4096 + 4096) + (4096 * 10 + 10)
    pixel = tf.keras.applications.vgg16.preprocess_input(np.full([1, 1, 1, 3], 128.0, np.float32))
    np.testing.assert_allclose(pixel[0, 0, 0], 128 - np.array([103.939, 116.779, 123.68]), rtol=1e-5, atol=1e-5)


def folders(tf):
    def plain(x):
        return x

    class Kept(tf.python.util.tf_decorator.TFDecorator):
        def __call__(self, *args):
            return self.decorated_target(*args) + 1
    assert tf.python.util.tf_decorator.make_decorator(plain, Kept("k", plain))(2) == 3
    assert tf.python.util.tf_decorator.unwrap(Kept("k", plain))[1] is plain
    entry = tf.core.util.test_log_pb2.BenchmarkEntries()
    entry.entry.add().name = "a"
    assert tf.core.util.test_log_pb2.BenchmarkEntries.FromString(entry.SerializeToString()).entry[0].name == "a"
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [2], name="x")
        tf.negative(tf.add(x, 1.0, name="y"), name="z")
    kept = tf.python.tools.strip_unused_lib.strip_unused(graph.as_graph_def(), ["x"], ["y"], tf.float32.as_datatype_enum)
    assert {n.name for n in kept.node} == {"x", "y", "y/y"}


def tools(tf):
    folder = os.path.join(tempfile.mkdtemp(), "model")
    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
        x = tf.compat.v1.placeholder(tf.float32, [2], name="x")
        tf.compat.v1.saved_model.simple_save(sess, folder, {"x": x}, {"y": x * 2})
    utils = tf.python.tools.saved_model_utils
    assert utils.get_saved_model_tag_sets(folder) == [["serve"]]
    assert utils.get_meta_graph_def(folder, "serve").signature_def["serving_default"].inputs["x"].name == "x:0"
    debugger = tf.python.debug.wrappers.local_cli_wrapper
    try:
        debugger.LocalCLIDebugWrapperSession(None)
    except tf.errors.UnimplementedError as e:
        assert "explain" in e.message
    else:
        raise AssertionError("there is no debugger")
    bad = tf.python.debug.has_inf_or_nan
    assert bad(None, np.array([1.0, np.inf])) and not bad(None, np.ones(2))


def data_service(tf):
    service = tf.data.experimental.service
    dispatcher = tf.data.experimental.service.DispatchServer()
    worker = tf.data.experimental.service.WorkerServer(tf.data.experimental.service.WorkerConfig(
        dispatcher_address=dispatcher.target.split("://")[1]))
    dataset = tf.data.Dataset.range(5).map(lambda x: x * 2).apply(
        tf.data.experimental.service.distribute("parallel_epochs", dispatcher.target))
    assert [x.numpy() for x in dataset] == [0, 2, 4, 6, 8] and service.ShardingPolicy.OFF == 0
    worker.stop()
    dispatcher.stop()
