"""Programs of the shapes that lectures about TensorFlow show, typed as their readers type them, under `penstock run`."""
import gzip
import os
import subprocess
import sys

import numpy as np
import pytest

from penstock._src.cluster.ports import free_addresses
from tests.compat.programs.running import SRC, output, program


def digits(folder):
    """Small files of MNIST's form: the label is the brightest of ten columns."""
    folder.mkdir()
    draw = np.random.RandomState(0)
    for name, count in (("train", 600), ("t10k", 100)):
        labels = draw.randint(0, 10, count).astype(np.uint8)
        images = draw.randint(0, 60, [count, 28, 28]).astype(np.uint8)
        images[np.arange(count), :, 2 * labels] += 190
        for kind, array, magic in (("images-idx3", images, 2051), ("labels-idx1", labels, 2049)):
            with gzip.open(folder / f"{name}-{kind}-ubyte.gz", "wb") as f:
                f.write(np.array([magic, *array.shape], ">u4").tobytes() + array.tobytes())


MNIST = """
    import numpy as np
    import tensorflow as tf
    from tensorflow.examples.tutorials.mnist import input_data as data

    mnist = data.read_data_sets('./data', one_hot=True, validation_size=0)
    image = tf.placeholder(tf.float32, [None, 28 * 28], name="image")
    label = tf.placeholder(tf.float32, [None, 10], name="label")
    rand = np.random.RandomState(0)
    w1 = tf.Variable(rand.normal(0, 0.05, (784, 50)).astype(np.float32), name="w1")
    w2 = tf.Variable(rand.normal(0, 0.05, (50, 10)).astype(np.float32), name="w2")
    hidden = tf.nn.relu(tf.matmul(image, w1, name="m1"))
    prob = tf.nn.softmax(tf.matmul(hidden, w2, name="m2"))
    with tf.variable_scope("loss"):
        loss = -tf.reduce_sum(label * tf.log(prob + 1e-8))
    step = tf.train.GradientDescentOptimizer(1e-3, name="step").minimize(loss)
    sess = tf.Session(target=str.encode(''))
    sess.run(tf.initialize_all_variables())
    for i in range(60):
        images, labels = mnist.train.next_batch(100)
        _, value = sess.run([step, loss], {image: images, label: labels})
    right = tf.equal(tf.argmax(prob, 1), tf.argmax(label, 1))
    accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
    print("accuracy %.2f" % sess.run(accuracy, {image: mnist.test.images, label: mnist.test.labels}))
    print([n.name for n in tf.get_default_graph().as_graph_def().node if n.name in ("image", "w1", "m1", "loss/Sum", "step")])
    """


def test_the_mnist_program(tmp_path):
    digits(tmp_path / "data")
    lines = output(tmp_path, MNIST).splitlines()
    assert float(lines[-2].split()[1]) > 0.9 and lines[-1] == "['image', 'w1', 'm1', 'loss/Sum', 'step']"


def test_devices_and_options(tmp_path):
    out = output(tmp_path, """
        import tensorflow as tf
        config = tf.ConfigProto()
        config.gpu_options.per_process_gpu_memory_fraction = 0.4
        config.allow_soft_placement = True
        config.operation_timeout_in_ms = 200
        print(config)

        def variables_on_cpu(op):
            return "/cpu:0" if op.type == "Variable" or op.type == "VariableV2" else "/gpu:0"

        with tf.device(variables_on_cpu):
            v = tf.Variable(3.0)
            w = v * 2.0
        print(v.device, w.device)
        with tf.device("/gpu:0"):
            i = tf.Variable(3)
        with tf.Session() as sess:
            try:
                sess.run(i.initializer)
            except tf.errors.InvalidArgumentError as e:
                print("refused:", "/device:GPU:0" in str(e) or "gpu" in str(e).lower())
        queue = tf.FIFOQueue(1, [tf.float32])
        with tf.Session(config=config) as sess:
            sess.run(i.initializer)
            sess.run(v.initializer)
            a = v.assign_add(1.0)
            with tf.control_dependencies([a]):
                c = tf.identity(w)
            print(c.eval(), i.eval())
            try:
                sess.run(queue.dequeue())
            except tf.errors.DeadlineExceededError:
                print("deadline of the config")
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
            run_options = tf.RunOptions()
            run_options.timeout_in_ms = 200
            try:
                sess.run(queue.dequeue(), options=run_options)
            except tf.errors.DeadlineExceededError:
                print("deadline of the run")
        """)
    assert "per_process_gpu_memory_fraction: 0.4" in out and "allow_soft_placement: true" in out
    assert out.splitlines()[-5:-3] == ["/device:CPU:0 /device:GPU:0", "refused: True"]
    assert out.splitlines()[-2:] == ["deadline of the config", "deadline of the run"]


def test_queues_of_csv_lines(tmp_path):
    assert output(tmp_path, """
        import tensorflow as tf
        with open("my_test.csv", "w") as f:
            f.write("x1,x2,target\\n1.,2.,0\\n4.,5.,1\\n7.,,0\\n")
        filename_queue = tf.FIFOQueue(capacity=10, dtypes=[tf.string], shapes=[()])
        filename = tf.placeholder(tf.string)
        enqueue_filename = filename_queue.enqueue([filename])
        close_filename_queue = filename_queue.close()
        reader = tf.TextLineReader(skip_header_lines=1)
        key, value = reader.read(filename_queue)
        x1, x2, target = tf.decode_csv(value, record_defaults=[[-1.], [-1.], [-1]])
        features = tf.stack([x1, x2])
        instance_queue = tf.RandomShuffleQueue(capacity=10, min_after_dequeue=2, dtypes=[tf.float32, tf.int32],
                                               shapes=[[2], []], name="instance_q", shared_name="shared_instance_q")
        enqueue_instance = instance_queue.enqueue([features, target])
        close_instance_queue = instance_queue.close()
        minibatch_instances, minibatch_targets = instance_queue.dequeue_up_to(2)
        with tf.Session() as sess:
            sess.run(enqueue_filename, feed_dict={filename: "my_test.csv"})
            sess.run(close_filename_queue)
            try:
                while True:
                    sess.run(enqueue_instance)
            except tf.errors.OutOfRangeError:
                print("No more files to read")
            sess.run(close_instance_queue)
            total = 0
            try:
                while True:
                    total += sess.run(minibatch_instances).sum()
            except tf.errors.OutOfRangeError:
                print("No more training instances", total)
        """) == "No more files to read\nNo more training instances 18.0\n"


def test_eager_on_a_device(tmp_path):
    out = output(tmp_path, """
        import tensorflow as tf
        tf.debugging.set_log_device_placement(True)
        with tf.device('/cpu:0'):
            a = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
            b = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        c = tf.matmul(a, b)
        print(c)
        """)
    assert out == "tf.Tensor(\n[[22. 28.]\n [49. 64.]], shape=(2, 2), dtype=float32)\n"


def test_a_network_of_keras_layers(tmp_path):
    out = output(tmp_path, """
        import numpy as np
        import tensorflow as tf
        from tensorflow.keras.models import Sequential
        from tensorflow.keras.layers import Conv2D, Dense, Dropout, Flatten, MaxPooling2D
        tf.random.set_seed(0)
        np.random.seed(0)
        model = Sequential()
        model.add(Conv2D(8, kernel_size=(3, 3), activation='relu', input_shape=(8, 8, 1)))
        model.add(MaxPooling2D(pool_size=(2, 2)))
        model.add(Dropout(0.25))
        model.add(Flatten())
        model.add(Dense(2, activation='softmax'))
        model.compile(loss='categorical_crossentropy', optimizer='adam', metrics=['accuracy'])
        x = np.random.RandomState(0).rand(200, 8, 8, 1).astype('float32')
        y = (x[:, :, :4].mean((1, 2, 3)) > x[:, :, 4:].mean((1, 2, 3))).astype('int32')
        model.fit(x, tf.keras.utils.to_categorical(y, 2), epochs=40, batch_size=20, verbose=0)
        print('accuracy', model.evaluate(x, tf.keras.utils.to_categorical(y, 2), verbose=0)[1])
        """)
    assert float(out.split()[-1]) > 0.6


def test_estimators(tmp_path):
    """Those that come ready, a model function of keras layers, a keras model; trained and evaluated in one call."""
    out = output(tmp_path, """
        import numpy as np
        import tensorflow as tf
        tf.logging.set_verbosity(tf.logging.ERROR)
        x = np.linspace(-1, 1, 64, dtype=np.float32)
        columns = [tf.feature_column.numeric_column("x")]
        e = tf.estimator

        def feed(labels, epochs):
            return e.inputs.numpy_input_fn({"x": x}, labels, 16, epochs, shuffle=epochs is None)
        for name, model in {
                "linear": e.LinearClassifier(columns), "dnn": e.DNNClassifier([4], columns), "baseline": e.BaselineClassifier(),
                "both": e.DNNLinearCombinedClassifier(linear_feature_columns=columns, dnn_feature_columns=columns,
                                                      dnn_hidden_units=[4])}.items():
            labels = (x > 0).astype(np.int32)
            model.train(input_fn=feed(labels, None), steps=10)
            found = model.evaluate(input_fn=feed(labels, 1))
            first = next(model.predict(input_fn=feed(None, 1)))
            print(name, found["global_step"], 0 <= found["accuracy"] <= 1, len(first["probabilities"]))
        for name, model in {
                "linear": e.LinearRegressor(columns), "dnn": e.DNNRegressor([4], columns), "baseline": e.BaselineRegressor(),
                "both": e.DNNLinearCombinedRegressor(linear_feature_columns=columns, dnn_feature_columns=columns,
                                                     dnn_hidden_units=[4])}.items():
            model.train(input_fn=feed(2 * x, None), steps=10)
            print(name, model.evaluate(input_fn=feed(2 * x, 1))["average_loss"] < 3)

        def model_fn(features, labels, mode):
            y = tf.keras.layers.Dense(1, use_bias=False)(features["x"][:, None])
            loss = tf.losses.mean_squared_error(labels[:, None], y)
            train = tf.train.GradientDescentOptimizer(0.5).minimize(loss, tf.train.get_global_step())
            return e.EstimatorSpec(mode, loss=loss, train_op=train)
        result, _ = e.train_and_evaluate(e.Estimator(model_fn), e.TrainSpec(feed(2 * x, None), max_steps=60),
                                         e.EvalSpec(feed(2 * x, 1)))
        print("own", result["global_step"], result["loss"] < 1e-3)
        keras = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[1])])
        keras.compile("sgd", "mse")
        model = tf.keras.estimator.model_to_estimator(keras)

        def data():
            rows = {keras.input_names[0]: x[:, None]}, 2 * x[:, None]
            return tf.data.Dataset.from_tensor_slices(rows).repeat().batch(16)
        print("keras", model.train(data, steps=5).evaluate(data, steps=2)["global_step"])
        """, timeout=280)
    assert out.splitlines() == [
        "linear 10 True 2", "dnn 10 True 2", "baseline 10 True 2", "both 10 True 2", "linear True", "dnn True", "baseline True",
        "both True", "own 60 True", "keras 5"]


def test_a_model_mirrored_on_devices(tmp_path):
    out = output(tmp_path, """
        import numpy as np
        import tensorflow as tf
        distribution = tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.HierarchicalCopyAllReduce())
        with distribution.scope():
            model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, input_shape=[1])])
            model.compile(loss="mse", optimizer=tf.keras.optimizers.SGD(0.5))
        x = np.linspace(-1, 1, 32, dtype="float32")[:, None]
        model.fit(x, 3 * x, epochs=20, batch_size=16, verbose=0)
        print(np.abs(model.predict(x, verbose=0) - 3 * x).max() < 0.05)
        """, timeout=280)
    assert out == "True\n"


CLIENT = """
    import tensorflow as tf
    flags = tf.app.flags
    flags.DEFINE_string("target", "", "where")
    flags.DEFINE_integer("init", 0, "whether to initialize")
    FLAGS = flags.FLAGS
    x = tf.Variable(0.0, name="x")
    increment_x = tf.assign(x, x + 1)
    with tf.Session("grpc://" + FLAGS.target) as sess:
        if FLAGS.init:
            sess.run(x.initializer)
        sess.run(increment_x)
        print(x.eval())
    """
SERVER = """
    import tensorflow as tf
    tf.app.flags.DEFINE_string("job_name", "worker", "job")
    tf.app.flags.DEFINE_integer("task_index", 0, "task")
    tf.app.flags.DEFINE_string("address", "", "where")
    FLAGS = tf.app.flags.FLAGS
    cluster = tf.make_cluster_def({"worker": [FLAGS.address]})
    server_def = tf.ServerDef(cluster=cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index, protocol="grpc")
    server = tf.GrpcServer(server_def)
    print("serving", flush=True)
    server.join()
    """


@pytest.mark.distributed
def test_clients_share_the_state_of_a_server(tmp_path):
    address, = free_addresses(1, "127.0.0.1")
    env = {**os.environ, "PYTHONPATH": SRC, "PENSTOCK_SECRET": "a secret for this test"}
    server = subprocess.Popen([sys.executable, "-m", "penstock", "run", str(program(tmp_path, SERVER, "server.py")),
                               f"--address={address}"], env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout.readline() == "serving\n"
        values = [subprocess.run([sys.executable, "-m", "penstock", "run", str(program(tmp_path, CLIENT, "client.py")),
                                  f"--target={address}", f"--init={init}"], env=env, capture_output=True, text=True,
                                 timeout=100)
                  for init in (1, 0)]
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    assert [v.stdout for v in values] == ["1.0\n", "2.0\n"], values[0].stderr + values[1].stderr
