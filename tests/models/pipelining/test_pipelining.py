"""Pipelines: schedules as computed, results as without them, bubbles as measured; layers that are cut over devices."""
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as tf
import penstock.compat.v1 as tf1
from benchmarks.pipelining import napping
from penstock._src.models.pipelining import schedule as schedules
from penstock._src.models.pipelining.cut import balanced

E = tf.distribute.experimental
L = tf.keras.layers
CPUS = ["/cpu:0", "/cpu:0", "/cpu:0"]        # stages of one device: the tests of other files have one CPU
DRAW = np.random.RandomState(0)
X, Y = DRAW.randn(48, 8).astype(np.float32), DRAW.randint(0, 3, 48)


# -- schedules -------------------------------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.integers(1, 12), st.sampled_from(sorted(schedules.SCHEDULES)))
def test_schedules_do_everything_once_with_the_bubble_of_the_formula(stages, micro, name):
    plan = schedules.schedule(name, stages, micro)
    for tasks in plan:
        assert sorted(tasks) == sorted(schedules.Task(k, i) for k in ("backward", "forward") for i in range(micro))
    times = schedules.times(plan, forward=1, backward=1)
    idle = schedules.idle([[times[s, t] for t in tasks] for s, tasks in enumerate(plan)])
    assert idle == pytest.approx(schedules.bubble(stages, micro))
    held = schedules.most_held(plan)
    assert held == ([micro] * stages if name == "gpipe" else [min(micro, stages - s) for s in range(stages)])


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 8), st.sampled_from(sorted(schedules.SCHEDULES)), st.floats(0.5, 3))
def test_backward_passes_that_take_longer_keep_the_bubble(stages, micro, name, backward):
    times = schedules.times(schedules.schedule(name, stages, micro), 1.0, backward)
    assert max(e for _, e in times.values()) == pytest.approx((micro + stages - 1) * (1 + backward))


def test_a_plan_that_blocks_is_refused():
    forward, backward = schedules.Task("forward", 0), schedules.Task("backward", 0)
    with pytest.raises(ValueError, match="deadlocks"):
        schedules.in_order([[backward, forward]])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=9), st.integers(1, 4))
def test_balanced_parts_are_the_best(weights, parts):
    import itertools
    parts = min(parts, len(weights))

    def heaviest(begins):
        return max(sum(weights[b:e]) for b, e in zip(begins, [*begins[1:], len(weights)], strict=True))
    best = min(heaviest([0, *cuts]) for cuts in itertools.combinations(range(1, len(weights)), parts - 1))
    begins = balanced(weights, parts)
    assert begins[0] == 0 and len(set(begins)) == parts and heaviest(begins) == best


# -- graphs ----------------------------------------------------------------------------------------------------------
def stage(number, size=6):
    def run(h):
        with tf1.variable_scope(f"stage{number}", reuse=tf1.AUTO_REUSE):
            w = tf1.get_variable("w", [size, size], initializer=tf1.glorot_uniform_initializer(seed=number))
            return tf1.tanh(tf1.matmul(h, w))
    return run


def gradients_of(stages, micro, name, devices=3):
    with tf1.Graph().as_default():
        x, y = tf1.constant(X[:24, :6]), tf1.constant(X[24:, :6])
        pairs, loss = tf1.distribute.experimental.pipelined_gradients(
            stages, lambda o, t: tf1.reduce_mean((o - t) ** 2), x, y, micro, [f"/cpu:{i}" for i in range(len(stages))], name)
        with tf1.Session(config=tf1.ConfigProto(device_count={"CPU": devices})) as sess:
            sess.run(tf1.global_variables_initializer())
            return sess.run([loss, *(tf1.convert_to_tensor(g) for g, _ in pairs)]), [v.name for _, v in pairs]


@pytest.mark.parametrize("name", schedules.SCHEDULES)
@pytest.mark.parametrize("micro", [2, 6])
def test_gradients_are_those_of_the_whole_batch(name, micro):
    stages = [stage(i) for i in range(3)]
    piped, names = gradients_of(stages, micro, name)
    whole, _ = gradients_of([lambda h: stages[2](stages[1](stages[0](h)))], 1, "gpipe")
    assert names == [f"stage{i}/w:0" for i in range(3)]
    for a, b in zip(piped, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_rows_of_embeddings_and_structures_cross_stages():
    """The first stage returns two tensors, of which one goes through the second; its gradient is one of rows."""
    def look_up(ids):
        with tf1.variable_scope("table", reuse=tf1.AUTO_REUSE):
            table = tf1.get_variable("t", [10, 4], initializer=tf1.glorot_uniform_initializer(seed=1))
        return {"rows": tf1.nn.embedding_lookup(table, ids), "ids": ids}

    def head(given):
        with tf1.variable_scope("head", reuse=tf1.AUTO_REUSE):
            w = tf1.get_variable("w", [4, 2], initializer=tf1.glorot_uniform_initializer(seed=2))
        return tf1.matmul(given["rows"], w) * tf1.cast(tf1.expand_dims(given["ids"], 1), tf1.float32)
    found = []
    for stages, micro in (([look_up, head], 3), ([lambda i: head(look_up(i))], 1)):
        with tf1.Graph().as_default():
            ids = tf1.constant([1, 2, 3, 1, 5, 9])
            pairs, loss = tf1.distribute.experimental.pipelined_gradients(
                stages, lambda o, t: tf1.reduce_mean((o - t) ** 2), ids, tf1.ones([6, 2]), micro,
                [f"/cpu:{i}" for i in range(len(stages))])
            assert isinstance(pairs[0][0], tf1.IndexedSlices)
            with tf1.Session(config=tf1.ConfigProto(device_count={"CPU": 2})) as sess:
                sess.run(tf1.global_variables_initializer())
                found.append(sess.run([loss, *(tf1.convert_to_tensor(g) for g, _ in pairs)]))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


# -- Keras -----------------------------------------------------------------------------------------------------------
def start(seed):
    return tf.keras.initializers.GlorotUniform(seed=seed)


def sequential():
    return tf.keras.Sequential([L.Dense(16, activation="relu", kernel_initializer=start(1), kernel_regularizer="l2"),
                                L.Dense(12, activation="tanh", kernel_initializer=start(2)),
                                L.Dense(3, kernel_initializer=start(3))])


def functional():
    i = L.Input((8,))
    a = L.Dense(8, activation="relu", kernel_initializer=start(1))(i)
    c = L.Add()([a, L.Dense(8, kernel_initializer=start(2))(a)])
    return tf.keras.Model(i, L.Dense(3, kernel_initializer=start(3))(L.Concatenate()([c, i])))


@pytest.mark.parametrize("make", [sequential, functional])
@pytest.mark.parametrize("name", schedules.SCHEDULES)
def test_fit_follows_the_model_itself(make, name):
    """The last batch of an epoch does not divide into micro-batches."""
    found = []
    for model in (make(), E.PipelineModel(make(), CPUS, 4, name)):
        model.compile(tf.keras.optimizers.SGD(0.1), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=["accuracy"])
        history = model.fit(X, Y, batch_size=18, epochs=3, shuffle=False, verbose=0,
                            sample_weight=np.linspace(0.5, 1.5, 48).astype(np.float32)).history
        found.append([history["loss"], history["accuracy"], model.evaluate(X, Y, verbose=0), model.predict(X, verbose=0),
                      *model.get_weights()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_stages_are_where_one_cuts_and_mistakes_say_so():
    model = functional()
    names = [layer.name for layer in model.layers]
    cut = E.PipelineModel(model, CPUS[:2], cuts=[names[-1]])
    assert [layer.name for layer in cut.stages[1]] == [names[-1]]
    for wrong, text in [(dict(cuts=["nowhere"]), "nowhere"), (dict(cuts=[names[-1], names[-1]]), "1 layers"),
                        (dict(schedule="zigzag"), "Unknown schedule"), (dict(micro_batches=0), "at least one")]:
        with pytest.raises(ValueError, match=text):
            E.PipelineModel(functional(), CPUS[:2], **wrong)
    with pytest.raises(ValueError, match="cannot be cut into 9"):
        E.PipelineModel(functional(), ["/cpu:0"] * 9)


def test_an_error_in_a_stage_ends_the_step():
    calls = []

    class Breaks(L.Layer):
        def call(self, x):
            def check(v):
                calls.append(1)
                if len(calls) > 8:
                    raise ValueError("the stage broke")
                return v
            y = tf.numpy_function(check, [x], tf.float32)
            y.set_shape(x.shape)
            return y
    model = E.PipelineModel(tf.keras.Sequential([L.Dense(3), Breaks(), L.Dense(3)]), CPUS, 4)
    model.compile("sgd", "mse")
    import threading
    before = threading.active_count()
    with pytest.raises(Exception, match="the stage broke"):
        for _ in range(5):
            model.train_on_batch(X, X[:, :3])
    assert threading.active_count() == before


class Nap(L.Layer):
    """A layer whose passes take a while, and neither a core nor Python's lock."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def call(self, x):
        return napping(x, self.seconds)


@pytest.mark.parametrize("name", schedules.SCHEDULES)
def test_the_bubble_is_as_computed_and_the_timeline_shows_it(name):
    model = E.PipelineModel(tf.keras.Sequential([Nap(0.1) for _ in range(3)]), CPUS, 4, name)
    model.compile("sgd", "mse")
    model.train_on_batch(X[:4], X[:4])
    computed = schedules.bubble(3, 4)
    for _ in range(8):                                      # some try of several, on a machine that does other things
        model.train_on_batch(X[:4], X[:4])
        if abs(model.last_step.bubble() / computed - 1) < 0.2:
            break
    else:
        raise AssertionError(f"{model.last_step.bubble()} is not near {computed}")
    events = [e for e in json.loads(model.last_step.timeline())["traceEvents"] if e["ph"] == "X"]
    assert len(events) == 3 * 4 * 2 and {e["tid"] for e in events} == {0, 1, 2}
    overlap = [a for a in events for b in events if a["tid"] < b["tid"] and a["ts"] < b["ts"] < a["ts"] + a["dur"]]
    assert overlap


# -- layers over devices ---------------------------------------------------------------------------------------------
def test_cut_dense_layers_and_their_gradients_are_those_of_whole_ones():
    column = E.ColumnParallelDense(10, CPUS, activation="relu", gather_output=False)
    row = E.RowParallelDense(4, CPUS)
    one, two = L.Dense(10, activation="relu"), L.Dense(4)
    x = tf.constant(X)
    two(one(x)), row(column(x))
    one.set_weights([np.concatenate(column.get_weights()[:3], 1), np.concatenate(column.get_weights()[3:])])
    two.set_weights([np.concatenate(row.get_weights()[:3]), row.get_weights()[3]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        whole, cut = two(one(x)), row(column(x))
    np.testing.assert_allclose(whole, cut, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tape.gradient(whole, x), tape.gradient(cut, x), rtol=1e-4, atol=1e-6)
    kernel = tape.gradient(whole, two.kernel)
    np.testing.assert_allclose(kernel, np.concatenate(tape.gradient(cut, row.kernels)), rtol=1e-4, atol=1e-5)
    side = E.ColumnParallelDense(5, CPUS[:2], use_bias=False)
    assert side(tf.ones([2, 3, 4])).shape == [2, 3, 5] and [w.shape[1] for w in side.weights] == [3, 2]


def test_a_cut_embedding_is_a_whole_one():
    cut = E.VocabularyParallelEmbedding(10, 4, CPUS)
    ids = tf.constant([[0, 3, 9], [4, 4, 7]])
    with tf.GradientTape() as tape:
        rows = cut(ids)
    table = np.concatenate(cut.get_weights())
    np.testing.assert_allclose(rows, table[ids.numpy()], rtol=1e-6)
    grads = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(rows, cut.kernels)]
    expected = np.zeros((10, 4))
    np.add.at(expected, ids.numpy().ravel(), 1.0)
    np.testing.assert_allclose(np.concatenate(grads), expected, rtol=1e-6)
    again = E.VocabularyParallelEmbedding.from_config(cut.get_config())
    assert again.devices == CPUS and again.input_dim == 10
    with pytest.raises(ValueError, match="cannot be cut"):
        E.VocabularyParallelEmbedding(2, 4, CPUS)(ids)


def test_cut_layers_run_on_devices_of_a_graph():
    with tf1.Graph().as_default():
        devices = ["/cpu:0", "/cpu:1"]
        h = E.ColumnParallelDense(6, devices, activation="relu", gather_output=False)(tf1.constant(X))
        y = E.RowParallelDense(2, devices)(h)
        weights = tf1.trainable_variables()
        assert [w.device[-5:] for w in weights[:6]] == ["CPU:0", "CPU:1"] * 3
        with tf1.Session(config=tf1.ConfigProto(device_count={"CPU": 2})) as sess:
            sess.run(tf1.global_variables_initializer())
            out, *w = sess.run([y, *weights])
        k0, k1, b0, b1, r0, r1, bias = w
        h = np.maximum(X @ np.concatenate([k0, k1], 1) + np.concatenate([b0, b1]), 0)
        np.testing.assert_allclose(out, h @ np.concatenate([r0, r1]) + bias, rtol=1e-4, atol=1e-5)
