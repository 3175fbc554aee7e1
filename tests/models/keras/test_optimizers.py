"""Optimizers of tf.keras: against what real Keras computed (recorded_optimizers.json), in functions, in graphs; their state."""
import json
import pathlib

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

RECORD = json.loads((pathlib.Path(__file__).parent / "recorded_optimizers.json").read_text())
NAMES = ["SGD", "Adam", "Adamax", "Nadam", "Adagrad", "Adadelta", "RMSprop", "Ftrl", "Lion", "Adafactor", "AdamW"]


def case(name, options):
    """The variables, gradients and optimizer that the record was created with."""
    rng = np.random.RandomState(0)
    variables = [rng.randn(3, 4).astype("f"), rng.randn(4).astype("f")]
    grads = [(rng.randn(3, 4).astype("f") * 0.01, rng.randn(4).astype("f")) for _ in range(6)]
    return variables, grads, lambda api: getattr(api.keras.optimizers, name)(learning_rate=0.05, **options)


@pytest.mark.parametrize("name, options, a, b", RECORD, ids=[f"{r[0]}-{'-'.join(r[1])}" for r in RECORD])
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "function"])
def test_steps_are_those_of_keras(name, options, a, b, traced):
    values, grads, make = case(name, options)
    variables, opt = [tf.Variable(v) for v in values], make(tf)

    def step(*g):
        opt.apply_gradients(list(zip(g, variables, strict=True)))
    step = tf.function(step) if traced else step
    for g in grads:
        step(*(tf.constant(x) for x in g))
    np.testing.assert_allclose(variables[0].numpy().ravel(), a, atol=5e-6)
    np.testing.assert_allclose(variables[1].numpy(), b, atol=5e-6)
    assert int(opt.iterations) == len(grads)


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adamax", "Nadam", "Adagrad", "Adadelta", "RMSprop", "Ftrl"])
def test_graphs_take_the_same_steps_as_eager_mode(name):
    values, grads, make = case(name, {})
    with tf.Graph().as_default(), tf1.Session() as session:
        variables, opt = [tf1.Variable(v, use_resource=True) for v in values], make(tf1)
        feeds = [tf1.placeholder("float32", v.shape) for v in values]
        train = opt.apply_gradients(list(zip(feeds, variables, strict=True)))
        session.run(tf1.global_variables_initializer())
        for g in grads:
            session.run(train, dict(zip(feeds, g, strict=True)))
        found, count = session.run([variables, opt.iterations])
    variables, opt = [tf.Variable(v) for v in values], make(tf1)
    for g in grads:
        opt.apply_gradients(list(zip((tf.constant(x) for x in g), variables, strict=True)))
    assert count == len(grads)
    for x, y in zip(found, variables, strict=True):
        np.testing.assert_allclose(x, y.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adamax", "Nadam", "Adagrad", "Adadelta", "RMSprop", "Ftrl"])
def test_repeated_rows_are_added_up(name):
    """In the 1.x API a sparse first step changes the rows it names as the dense one does."""
    opt, dense = getattr(tf1.keras.optimizers, name)(0.1), getattr(tf1.keras.optimizers, name)(0.1)
    a, b = tf.Variable(np.ones((4, 2), "f")), tf.Variable(np.ones((4, 2), "f"))
    rows = np.array([[1., 2.], [3., 4.], [5., 6.]], "f")
    opt.apply_gradients([(tf.IndexedSlices(tf.constant(rows), tf.constant([1, 3, 1]), tf.constant([4, 2])), a)])
    full = np.zeros((4, 2), "f")
    np.add.at(full, [1, 3, 1], rows)
    dense.apply_gradients([(tf.constant(full), b)])
    np.testing.assert_allclose(a.numpy()[[1, 3]], b.numpy()[[1, 3]], rtol=1e-5)


SPARSE = json.loads((pathlib.Path(__file__).parent / "recorded_sparse_updates.json").read_text())


@pytest.mark.parametrize("name, options, expected", SPARSE, ids=[f"{r[0]}-{'-'.join(r[1])}" for r in SPARSE])
def test_sparse_steps_are_those_of_keras(name, options, expected):
    """The 2.x optimizers add up the rows of repeated indices, and move all rows. Recorded from tf_keras."""
    table, opt = tf.Variable(np.arange(1, 7, dtype="f").reshape(3, 2)), getattr(tf.keras.optimizers, name)(0.1, **options)
    rows = tf.constant(np.array([[1, 2], [3, 4], [0.5, 0.25]], "f"))
    for at in ([0, 2, 0], [2, 2, 1], [1, 1, 1]):
        opt.apply_gradients([(tf.IndexedSlices(rows, tf.constant(at), tf.constant([3, 2])), table)])
    np.testing.assert_allclose(table.numpy().ravel(), expected, atol=2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_optimizers_found_by_name_have_the_defaults(name):
    assert tf.keras.optimizers.get(name.lower()).get_config() == getattr(tf.keras.optimizers, name)().get_config()


def test_adagrad_of_old_configurations_starts_at_zero():
    assert tf1.keras.optimizers.Adagrad.from_config({}).initial_accumulator_value == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_configurations_and_weights_come_back(name):
    opt = getattr(tf.keras.optimizers, name)(0.25, clipnorm=2.0)
    v = tf.Variable([1.0, 2.0])
    opt.minimize(lambda: tf.reduce_sum(v * v), [v])
    again = tf.keras.optimizers.deserialize(tf.keras.optimizers.serialize(opt))
    assert type(again) is type(opt) and again.get_config() == opt.get_config() and again.clipnorm == 2.0
    w = tf.Variable(v.numpy())
    again.build([w])
    again.set_weights(opt.get_weights())
    opt.minimize(lambda: tf.reduce_sum(v * v), [v])
    again.minimize(lambda: tf.reduce_sum(w * w), [w])
    np.testing.assert_allclose(v.numpy(), w.numpy(), rtol=1e-6 if name == "Nadam" else 0)


def test_hyperparameters_are_variables():
    opt = tf.keras.optimizers.SGD(1.0)
    v = tf.Variable(10.0)
    step = tf.function(lambda: opt.minimize(lambda: 1.0 * v, [v]))
    step()
    opt.learning_rate = 0.5
    step()
    assert v.numpy() == 8.5 and float(opt.lr) == 0.5
    opt.learning_rate.assign(0.25)
    step()
    assert v.numpy() == 8.25


def test_schedules_follow_the_iterations():
    opt = tf.keras.optimizers.SGD(tf.keras.optimizers.schedules.PiecewiseConstantDecay([1], [1.0, 0.125]))
    v = tf.Variable(10.0)
    for _ in range(4):
        opt.minimize(lambda: 1.0 * v, [v])
    assert v.numpy() == 10 - 1 - 1 - 0.125 - 0.125
    assert tf.keras.optimizers.SGD.from_config(opt.get_config()).learning_rate(5).numpy() == 0.125
    warm = tf.keras.optimizers.schedules.CosineDecay(0.0, 10, warmup_target=1.0, warmup_steps=4)
    np.testing.assert_allclose([float(warm(s)) for s in (0, 2, 4, 9, 14)], [0, 0.5, 1, 0.5, 0], atol=1e-6)


def test_checkpoints_keep_slots(tmp_path):
    def fresh():
        v = tf.Variable([1.0, 2.0])
        return v, tf.keras.optimizers.Adam(0.1)
    v, opt = fresh()
    opt.minimize(lambda: v * v, [v])
    path = tf.train.Checkpoint(v=v, opt=opt).save(str(tmp_path / "c"))
    w, other = fresh()
    status = tf.train.Checkpoint(v=w, opt=other).restore(path)
    other.minimize(lambda: w * w, [w])
    status.assert_consumed()
    opt.minimize(lambda: v * v, [v])
    np.testing.assert_array_equal(v.numpy(), w.numpy())
    assert int(other.iterations) == 2


def test_constraints_and_moving_averages():
    v = tf.Variable([1.0, -3.0], constraint=lambda x: tf.maximum(x, 0.0))
    opt = tf.keras.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.5)
    opt.minimize(lambda: tf.reduce_sum(v), [v])
    np.testing.assert_array_equal(v.numpy(), [0, 0])
    w = tf.Variable(0.0)
    opt = tf.keras.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.5)
    for _ in range(3):
        opt.minimize(lambda: -w, [w])
    opt.finalize_variable_values([w])
    assert w.numpy() == 2.125          # 0, then (0 + 1) / 2, then (0.5 + 2) / 2, then (1.25 + 3) / 2


def test_users_write_optimizers():
    class Sign(tf.keras.optimizers.Optimizer):
        def __init__(self, learning_rate=0.1, name="Sign", **kwargs):
            super().__init__(name, **kwargs)
            self._set_hyper("learning_rate", learning_rate)

        def _resource_apply_dense(self, grad, var):
            return var.assign_sub(self._get_hyper("learning_rate") * tf.sign(grad))

    v = tf.Variable([1.0, -1.0])
    Sign().minimize(lambda: tf.reduce_sum(v * v), [v])
    np.testing.assert_allclose(v.numpy(), [0.9, -0.9], rtol=1e-6)


def test_optimizers_of_tf_train_are_wrapped():
    opt = tf.keras.optimizers.get(tf1.train.GradientDescentOptimizer(0.5))
    v = tf.Variable(4.0)
    opt.minimize(lambda: v * v, [v])
    assert v.numpy() == 0.0 and int(opt.iterations) == 1


def test_mistakes_are_named():
    v = tf.Variable(1.0)
    with pytest.raises(TypeError, match="Unexpected keyword argument"):
        tf.keras.optimizers.SGD(clip=1)
    with pytest.raises(ValueError, match=">= 0"):
        tf.keras.optimizers.SGD(clipnorm=-1.0)
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        tf.keras.optimizers.SGD().apply_gradients([(None, v)])
    with pytest.raises(ValueError, match="weight list of length 1"):
        opt = tf.keras.optimizers.Adam()
        opt.build([v])
        opt.set_weights([np.array(0)])
    with pytest.raises(ValueError, match="nothing"):
        tf.keras.optimizers.get("nothing")


def test_gradients_of_a_subclass_that_knows_no_tape():
    class Old(tf.keras.optimizers.legacy.SGD):
        def _compute_gradients(self, loss, var_list, grad_loss=None):
            return [(2.0 * g, v) for g, v in super()._compute_gradients(loss, var_list=var_list, grad_loss=grad_loss)]
    v = tf.Variable(4.0)
    Old(0.25).minimize(lambda: v * v, [v])
    assert v.numpy() == 0.0


def test_legacy_optimizers_are_no_instances_of_the_newer_base():
    newer = tf.keras.optimizers.experimental.Optimizer
    assert isinstance(tf.keras.optimizers.Adam(), newer) and isinstance(tf.keras.optimizers.Lion(), newer)
    assert not isinstance(tf.keras.optimizers.legacy.Adam(), newer)
    assert isinstance(tf.keras.optimizers.legacy.Adam(), tf.keras.optimizers.legacy.Optimizer)


def test_keras_fills_variables_with_tensors():
    """tf.constant_initializer refuses tensors; the class of Keras takes them."""
    layer = tf.keras.layers.Layer()
    v = layer.add_weight("v", [2], tf.int32, tf.keras.initializers.Constant(tf.constant([3, 4])), trainable=False)
    assert v.numpy().tolist() == [3, 4]
    with pytest.raises(TypeError, match="Invalid type"):
        tf.constant_initializer(tf.constant(3))


def test_lion_takes_short_steps_by_default():
    assert float(tf.keras.optimizers.Lion().learning_rate) == pytest.approx(1e-4)     # as in tf_keras


# The variables of the newer optimizers for a matrix `k` and a vector `b`, as tf_keras 2.21 names and orders them.
VARIABLES = [
    ("Adam", {"amsgrad": True, "use_ema": True}, "average/k average/b m/k v/k m/b v/b vhat/k vhat/b"),
    ("RMSprop", {"momentum": 0.9, "centered": True}, "velocity/k velocity/b momentum/k momentum/b average_gradient/k "
                                                     "average_gradient/b"),
    ("Adamax", {}, "m/k u/k m/b u/b"), ("Nadam", {}, "m/k v/k m/b v/b"), ("SGD", {"momentum": 0.5}, "m/k m/b"),
    ("Adagrad", {}, "accumulator/k accumulator/b"), ("Ftrl", {}, "accumulator/k linear/k accumulator/b linear/b"),
    ("Adadelta", {}, "accumulated_grad/k accumulated_delta_var/k accumulated_grad/b accumulated_delta_var/b"),
    ("Lion", {}, "m/k m/b"), ("Adafactor", {}, "r/k c/k v/k v/b")]


@pytest.mark.parametrize("name, options, expected", VARIABLES, ids=[v[0] for v in VARIABLES])
def test_variables_have_the_names_and_the_order_of_newer_keras(name, options, expected):
    opt = getattr(tf.keras.optimizers, name)(**options)
    assert [v.name for v in opt.variables] == ["iteration:0"] == [v.name for v in opt.variables()]
    opt.build([tf.Variable(np.ones((2, 2), "f"), name="k"), tf.Variable([1.0], name="b")])
    assert [v.name for v in opt.variables] == ["iteration:0", *(f"{n}:0" for n in expected.split())]
    store = {}
    opt.save_own_variables(store)
    assert [store[str(i)].shape for i in range(len(store))] == [tuple(v.shape) for v in opt.variables]


def test_configurations_have_the_options_of_newer_keras():
    config = tf.keras.optimizers.Adam(0.5, clipnorm=2.0).get_config()
    assert list(config) == ["name", "weight_decay", "clipnorm", "global_clipnorm", "clipvalue", "use_ema", "ema_momentum",
                            "ema_overwrite_frequency", "jit_compile", "is_legacy_optimizer", "learning_rate", "beta_1",
                            "beta_2", "epsilon", "amsgrad"]
    assert config["clipnorm"] == 2.0 and config["learning_rate"] == np.float32(0.5) and config["beta_1"] == 0.9
    legacy = tf.keras.optimizers.legacy.Adam(0.5).get_config()
    assert list(legacy) == ["name", "learning_rate", "decay", "beta_1", "beta_2", "epsilon", "amsgrad"]


def test_the_rate_of_a_schedule_is_a_number_and_a_schedule():
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    opt, v = tf.keras.optimizers.Adam(schedule), tf.Variable([1.0])
    assert float(opt.learning_rate) == np.float32(0.1)
    for _ in range(3):
        opt.minimize(lambda: tf.reduce_sum(v * v), [v])
    np.testing.assert_allclose(float(opt.learning_rate), 0.1 * 0.5 ** 0.2, rtol=1e-6)       # that of the last step
    np.testing.assert_allclose(opt.lr * 2.0, 0.2 * 0.5 ** 0.2, rtol=1e-6)
    np.testing.assert_allclose(tf.keras.backend.get_value(opt.lr), 0.1 * 0.5 ** 0.2, rtol=1e-6)
    assert isinstance(opt.learning_rate, tf.keras.optimizers.schedules.LearningRateSchedule)
    np.testing.assert_allclose(opt.learning_rate(10), 0.05, rtol=1e-6)
    assert opt._learning_rate is schedule
    again = tf.keras.optimizers.Adam.from_config(opt.get_config())
    assert again._learning_rate.get_config() == schedule.get_config()


@pytest.mark.parametrize("when", ["before", "after"])
def test_checkpoints_have_a_list_of_variables(tmp_path, when):
    """They have the structure of tf_keras since 2.11, and are restored before and after the variables exist."""
    def trained():
        opt, v = tf.keras.optimizers.Adam(0.1), tf.Variable([1.0, 2.0])
        opt.minimize(lambda: tf.reduce_sum(v * v), [v])
        return opt, v

    opt, v = trained()
    path = tf.train.Checkpoint(opt=opt, v=v).write(str(tmp_path / "ck"))
    names = {n.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE") for n, _ in tf.train.list_variables(path)}
    assert {"opt/_iterations", "opt/_learning_rate", "opt/_variables/1", "opt/_variables/2", "v"} <= names
    assert len(names) == 6                                                                   # and the graph of objects
    opt.learning_rate = 0.3
    expected = [x.numpy() for x in opt.variables]
    again, w = trained() if when == "after" else (tf.keras.optimizers.Adam(0.7), tf.Variable([5.0, 6.0]))
    if when == "after":
        again.minimize(lambda: tf.reduce_sum(w), [w])
    status = tf.train.Checkpoint(opt=again, v=w).read(path)
    again.build([w])
    status.assert_consumed()
    for a, b in zip(again.variables, expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    assert float(again.learning_rate) == np.float32(0.1)


def test_checkpoints_with_slots_are_read(tmp_path):
    """Those of Keras before 2.11, which the legacy optimizers write."""
    old, v = tf.keras.optimizers.legacy.Adam(0.1), tf.Variable([1.0, 2.0])
    old.minimize(lambda: tf.reduce_sum(v * v), [v])
    path = tf.train.Checkpoint(opt=old, v=v).write(str(tmp_path / "ck"))
    opt, w = tf.keras.optimizers.Adam(0.5), tf.Variable([0.0, 0.0])
    opt.build([w])
    tf.train.Checkpoint(opt=opt, v=w).read(path).assert_existing_objects_matched().expect_partial()
    assert int(opt.iterations) == 1 and float(opt.learning_rate) == np.float32(0.1)
    for slot in ("m", "v"):
        np.testing.assert_array_equal(opt.get_slot(w, slot).numpy(), old.get_slot(v, slot).numpy())


def test_subclasses_in_the_older_style_are_legacy_optimizers():
    class Plain(tf.keras.optimizers.Optimizer):
        def __init__(self, learning_rate=0.5, name="Plain"):
            super().__init__(name)
            self._set_hyper("learning_rate", learning_rate)

        def _create_slots(self, var_list):
            for v in var_list:
                self.add_slot(v, "sum")

        def _resource_apply_dense(self, grad, var, apply_state=None):
            total = self.get_slot(var, "sum").assign_add(grad)
            return var.assign_sub(self._get_hyper("learning_rate", var.dtype) * total)

        def get_config(self):
            return {**super().get_config(), "learning_rate": self._serialize_hyperparameter("learning_rate")}

    opt, v = Plain(), tf.Variable(4.0, name="v")
    for _ in range(2):
        opt.apply_gradients([(tf.constant(1.0), v)])
    assert v.numpy() == 4.0 - 0.5 * (1 + 2)
    assert set(opt.get_config()) == {"name", "learning_rate"} and Plain.from_config(opt.get_config()).name == "Plain"
    assert [w.name.rpartition("/")[2] for w in opt.weights] == ["iter:0", "sum:0"]


def test_fit_ends_with_the_averages():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=(1,))])
    model.compile(tf.keras.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.5), lambda y, p: -p)
    model.fit(np.ones((2, 1)), np.ones((2, 1)), batch_size=1, verbose=0)
    assert model.get_weights()[0].item() == 0.5 * 0.5 + 0.5 * 2           # the average of 0, 1 and 2
