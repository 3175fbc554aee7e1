"""Training under a strategy follows training on one device: the same global batches, the same weights after 50 steps."""
import contextlib

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

CPUS = [f"/cpu:{i}" for i in range(4)]
STRATEGIES = {
    "one_device": lambda: tf.distribute.OneDeviceStrategy("/cpu:1"),
    "mirrored_2": lambda: tf.distribute.MirroredStrategy(CPUS[:2]),
    "mirrored_4_hierarchical": lambda: tf.distribute.MirroredStrategy(
        CPUS, cross_device_ops=tf.distribute.HierarchicalCopyAllReduce(num_packs=2)),
    "mirrored_3_parts": lambda: tf.distribute.MirroredStrategy(CPUS[:3], cross_device_ops=tf.distribute.NcclAllReduce()),
    "central": lambda: tf.distribute.experimental.CentralStorageStrategy(CPUS[:2], "/cpu:2"),
}
QUICK = {("mirrored_2", "Adam", "conv", "float64"), ("central", "Adam", "embedding", "float64"),
         ("mirrored_3_parts", "SGD", "dense", "float64"), ("mirrored_4_hierarchical", "SGD", "embedding", "float32")}
CASES = [pytest.param(s, o, m, d, marks=() if (s, o, m, d) in QUICK else pytest.mark.slow, id=f"{s}-{o}-{m}-{d}")
         for s in STRATEGIES for o in ("SGD", "Adam") for m in ("dense", "conv", "embedding") for d in ("float64", "float32")]
TOLERANCE = {"float64": 1e-4, "float32": 1e-2}
STEPS, BATCH = 50, 12


def layers(kind):
    L = tf.keras.layers
    if kind == "dense":
        return [L.Dense(8, activation="tanh", input_shape=(5,)), L.Dense(3)]
    if kind == "conv":                   # a bias before the normalization has no gradient but rounding, which Adam would follow
        return [L.Conv2D(4, 3, use_bias=False, input_shape=(6, 6, 2)), L.BatchNormalization(synchronized=True), L.ReLU(),
                L.Flatten(), L.Dense(3)]
    return [L.Embedding(11, 4, input_length=5), L.Flatten(), L.Dense(3)]


def data(kind, dtype):
    random = np.random.RandomState(0)
    x = {"dense": lambda: random.randn(STEPS * BATCH, 5).astype(dtype),
         "conv": lambda: random.randn(STEPS * BATCH, 6, 6, 2).astype(dtype),
         "embedding": lambda: random.randint(0, 11, (STEPS * BATCH, 5))}[kind]()
    return x, random.randn(STEPS * BATCH, 3).astype(dtype)


def optimizer(name):
    return tf.keras.optimizers.SGD(0.05, momentum=0.9) if name == "SGD" else tf.keras.optimizers.Adam(0.01)


@pytest.fixture
def floatx():
    return tf.keras.backend.set_floatx               # tests/conftest.py restores it


def trained(strategy, kind, opt, dtype):
    tf.random.set_seed(1)
    with strategy.scope() if strategy is not None else contextlib.nullcontext():
        model = tf.keras.Sequential(layers(kind))
        model.compile(optimizer(opt), "mse", metrics=["mae"])
    x, y = data(kind, dtype)
    history = model.fit(x, y, batch_size=BATCH, epochs=1, shuffle=False, verbose=0)
    assert int(model.optimizer.iterations) == STEPS
    return [history.history["loss"][0], history.history["mae"][0], *model.evaluate(x, y, batch_size=BATCH, verbose=0),
            model.predict(x[:7]), *model.get_weights()]


@pytest.mark.parametrize("name, opt, kind, dtype", CASES)
def test_keras(name, opt, kind, dtype, floatx):
    floatx(dtype)
    alone = trained(None, kind, opt, dtype)
    together = trained(STRATEGIES[name](), kind, opt, dtype)
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_allclose(b, a, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("name", [n if n == "mirrored_2" else pytest.param(n, marks=pytest.mark.slow)
                                  for n in STRATEGIES])
@pytest.mark.parametrize("opt", ["SGD", "Adam"])
def test_session(name, opt):
    """The same for graphs, v1 optimizers and sessions: dense and embedded inputs, gradients dense and sparse."""
    x, y = data("embedding", "float64")

    def train(strategy):
        with tf1.Graph().as_default(), strategy.scope() if strategy is not None else contextlib.nullcontext():
            tf1.set_random_seed(3)
            dataset = tf1.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)

            def step(inputs):
                ids, target = inputs
                table = tf1.get_variable("table", [11, 4], tf1.float64)
                kernel = tf1.get_variable("kernel", [4, 3], tf1.float64)
                out = tf1.reduce_mean(tf1.nn.embedding_lookup(table, ids), 1) @ kernel
                loss = tf1.reduce_sum((out - target) ** 2) / BATCH
                made = tf1.train.MomentumOptimizer(0.05, 0.9) if opt == "SGD" else tf1.train.AdamOptimizer(0.01)
                return made.minimize(loss, global_step=tf1.train.get_or_create_global_step()), loss
            if strategy is None:
                iterator = tf1.data.make_initializable_iterator(dataset)
                train_op, loss = step(iterator.get_next())
                start = iterator.initializer
            else:
                iterator = strategy.make_dataset_iterator(dataset)
                train_op, losses = strategy.experimental_run(step, iterator)
                train_op, loss = strategy.group(train_op), strategy.reduce("SUM", losses, axis=None)
                start = iterator.initialize()
            with tf1.Session() as sess:
                sess.run([tf1.global_variables_initializer(), start])
                seen = [sess.run([loss, train_op])[0] for _ in range(STEPS)]
                return [*seen, *sess.run([v for v in tf1.global_variables() if "power" not in v.name])]
    for a, b in zip(train(None), train(STRATEGIES[name]()), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-9)


def test_batches_that_do_not_divide(floatx):
    """The last batch has 5 rows for 3 replicas: each row still counts the same."""
    floatx("float64")
    x, y = (a[:29] for a in data("dense", "float64"))

    def train(strategy):
        tf.random.set_seed(1)
        with strategy.scope() if strategy is not None else contextlib.nullcontext():
            model = tf.keras.Sequential(layers("dense"))
            model.compile(optimizer("SGD"), "mse", metrics=["mae"])
        history = model.fit(x, y, batch_size=BATCH, epochs=3, shuffle=False, verbose=0, sample_weight=np.linspace(0, 1, 29))
        return [*history.history["loss"], *history.history["mae"], *model.evaluate(x, y, verbose=0), *model.get_weights()]
    for a, b in zip(train(None), train(STRATEGIES["mirrored_3_parts"]()), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)
