"""Strategies over GPUs match one device: two logical GPUs, and a GPU beside the CPU. Logical CPUs run the same code."""
import contextlib

import numpy as np
import pytest
import torch

import penstock as tf
import penstock.compat.v1 as tf1

gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
PLACES = [
    pytest.param(["/cpu:0", "/cpu:1"], id="cpus"),
    pytest.param(["/gpu:0", "/gpu:1"], id="two_logical_gpus", marks=(gpu, needs_gpu)),
    pytest.param(["/gpu:0", "/cpu:0"], id="gpu_and_cpu", marks=(gpu, needs_gpu)),
]


@pytest.fixture(autouse=True)
def _logical_gpus():
    """Two logical GPUs on the first one, where there is one."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_logical_device_configuration(gpus[0], [tf.config.LogicalDeviceConfiguration(memory_limit=4096)] * 2)


def strategies(devices):
    return {
        "mirrored": lambda: tf.distribute.MirroredStrategy(devices),
        "hierarchical": lambda: tf.distribute.MirroredStrategy(devices, tf.distribute.HierarchicalCopyAllReduce()),
        "nccl": lambda: tf.distribute.MirroredStrategy(devices, tf.distribute.NcclAllReduce(num_packs=2)),
        "central": lambda: tf.distribute.experimental.CentralStorageStrategy(devices, "/cpu:0"),
    }


def keras_training(strategy, where=None):
    tf.random.set_seed(1)
    random = np.random.RandomState(0)
    x, y = random.rand(120, 8, 8, 1).astype(np.float32), random.randint(0, 4, 120)
    with strategy.scope() if strategy is not None else tf.device(where):
        L = tf.keras.layers
        model = tf.keras.Sequential([L.Conv2D(4, 3, use_bias=False, input_shape=(8, 8, 1)),
                                     L.BatchNormalization(synchronized=True), L.ReLU(), L.Flatten(), L.Dense(4)])
        model.compile(tf.keras.optimizers.Adam(0.01),
                      tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    with tf.device(where) if strategy is None else contextlib.nullcontext():
        history = model.fit(x, y, batch_size=12, epochs=5, shuffle=False, verbose=0)                   # 50 steps
        return [*history.history["loss"], *model.evaluate(x, y, verbose=0), model.predict(x[:9]), *model.get_weights()], model


@pytest.mark.parametrize("devices", PLACES)
@pytest.mark.parametrize("name", ["mirrored", "hierarchical", "nccl", "central"])
def test_keras(devices, name, request):
    if name in ("hierarchical", "central") and not request.node.get_closest_marker("gpu"):
        pytest.skip("tests/models/distribute/test_equivalence.py has these on CPUs")
    strategy = strategies(devices)[name]()
    alone, _ = keras_training(None, devices[0])
    together, model = keras_training(strategy)
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-2, atol=1e-2)
    if name != "central":
        for v in model.variables:
            where = [c.device.rsplit("device:", 1)[-1].lower() for c in v.values]
            assert where == [d.strip("/") for d in devices]
            np.testing.assert_allclose(v.values[1].numpy(), v.values[0].numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("devices", PLACES)
def test_eager_and_traced_loop(devices):
    strategy = tf.distribute.MirroredStrategy(devices)
    with strategy.scope():
        v = tf.Variable([1.0, 2.0])
        optimizer = tf.keras.optimizers.SGD(0.1)

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(v * x)
        optimizer.apply_gradients([(tape.gradient(loss, v), v)])
        return loss
    dataset = tf.data.Dataset.from_tensor_slices(np.ones((4, 2), np.float32)).batch(2)
    for run in (strategy.run, tf.function(lambda fn, args: strategy.run(fn, args=args))):
        for batch in strategy.experimental_distribute_dataset(dataset):
            losses = run(step, args=(tf.nest.map_structure(lambda x: x, batch),))
    np.testing.assert_allclose(v.numpy(), [1.0 - 0.1 * 2 * 4, 2.0 - 0.1 * 2 * 4], rtol=1e-5)
    assert np.isfinite(strategy.reduce("SUM", losses, axis=None).numpy())


@pytest.mark.parametrize("devices", PLACES)
def test_session(devices):
    strategy = tf.distribute.MirroredStrategy(devices)
    with tf1.Graph().as_default(), strategy.scope():
        iterator = strategy.make_dataset_iterator(tf1.data.Dataset.from_tensor_slices(
            np.arange(8, dtype=np.float32).reshape(8, 1)).batch(4))

        def step(x):
            w = tf1.get_variable("w", [1, 1], initializer=tf1.ones_initializer())
            loss = tf1.reduce_sum(x @ w) / 4.0
            return tf1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        train = strategy.group(strategy.experimental_run(step, iterator))
        w = tf1.trainable_variables()[0]
        with tf1.Session(config=tf1.ConfigProto(allow_soft_placement=True)) as sess:
            sess.run([tf1.global_variables_initializer(), iterator.initialize()])
            sess.run(train)
            sess.run(train)
            for copy in w.values:
                np.testing.assert_allclose(sess.run(copy), [[1 - 0.1 * 1.5 - 0.1 * (0.9 * 1.5 + 5.5)]], rtol=1e-5)


@gpu
@needs_gpu
def test_all_gpus_are_the_default():
    strategy = tf.distribute.MirroredStrategy()
    assert [d.rsplit("/", 1)[-1] for d in strategy.extended.worker_devices] == ["device:GPU:0", "device:GPU:1"]
    assert isinstance(strategy.extended._cross_device_ops, tf.distribute.NcclAllReduce)
    total = strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.ones([1000])))
    for v in strategy.experimental_local_results(total):
        assert "GPU" in v.device
        np.testing.assert_allclose(v.numpy(), np.full(1000, 2.0), rtol=1e-6)
