"""Steps without the interpreter between kernels: the same numbers and errors, and no recording where it would be wrong."""
import threading

import numpy as np
import pytest
import torch

import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.step.compile import recorded
from penstock._src.step.compile.recorded import Recorded
from penstock._src.step.compile.recorder import Recorder, Traced
from penstock._src.step.compile.script import script


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(recorded, "_AFTER", 2)
    monkeypatch.setattr(recorded, "_FEWEST", 1)
    monkeypatch.setattr(recorded, "_LONGEST", 60)


OFF = tf.ConfigProto(graph_options=tf.GraphOptions(optimizer_options=tf.OptimizerOptions(opt_level=-1)))
OPTIMIZERS = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.01),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
    "falling rate": lambda: tf.train.GradientDescentOptimizer(tf.train.exponential_decay(0.1, tf.Variable(2.0), 2, 0.5)),
}


def programs(sess):
    """The programs of a session that may be recorded."""
    found = [p for s in sess._engine._programs.values() for p in (s.runnable, *vars(s.runnable).get("_made", {}).values())]
    return [p for p in found if isinstance(p, Recorded)]


def recordings(sess):
    return [p for p in programs(sess) if p.alone is not None]


class Network:
    """A small classifier in its own session."""

    def __init__(self, optimizer=OPTIMIZERS["descent"], use_resource=True, config=None):
        draw = np.random.RandomState(0)
        with tf.Graph().as_default():
            self.x, self.y = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.int64, [None])
            w, b, v = (tf.Variable(n.astype(np.float32), use_resource=use_resource)
                       for n in (draw.randn(6, 5), np.zeros(5), draw.randn(5, 3)))
            logits = tf.matmul(tf.nn.relu(tf.matmul(self.x, w) + b), v)
            self.loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.y, logits=logits))
            self.train, self.variables = optimizer().minimize(self.loss), [w, b, v]
            self.sess = tf.Session(config=config)
            self.sess.run(tf.global_variables_initializer())

    def step(self, seed, rows=4):
        draw = np.random.RandomState(seed)
        return self.sess.run([self.train, self.loss], {self.x: draw.randn(rows, 6), self.y: draw.randint(0, 3, rows)})[1]

    def values(self):
        return self.sess.run(self.variables)


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_is_the_same(optimizer, use_resource):
    one, other = Network(OPTIMIZERS[optimizer], use_resource), Network(OPTIMIZERS[optimizer], use_resource, OFF)
    np.testing.assert_allclose([one.step(i) for i in range(12)], [other.step(i) for i in range(12)], rtol=1e-5)
    for a, b in zip(one.values(), other.values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert recordings(one.sess) and not programs(other.sess)


def test_another_batch_size_is_not_the_recorded_one():
    one, other = Network(), Network(config=OFF)
    sizes = [4] * 8 + [7, 4, 1, 4, 7]
    np.testing.assert_allclose([one.step(i, n) for i, n in enumerate(sizes)], [other.step(i, n) for i, n in enumerate(sizes)],
                               rtol=1e-5)


def test_a_wrong_label_is_the_same_error_and_changes_nothing():
    net = Network()
    for i in range(8):
        net.step(i)
    before = net.values()
    with pytest.raises(errors.InvalidArgumentError, match=r"label value of 9.*valid range of \[0, 3\)") as found:
        net.sess.run(net.train, {net.x: np.zeros((4, 6)), net.y: [0, 9, 1, 2]})
    assert found.value.op.type == "SparseSoftmaxCrossEntropyWithLogits"
    with pytest.raises(errors.InvalidArgumentError, match="label value of 9"):
        net.sess.run([net.train, net.loss], {net.x: np.zeros((4, 6)), net.y: [0, 9, 1, 2]})
    for a, b in zip(before, net.values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_variable_with_another_shape_is_seen():
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(np.ones(3, np.float32), validate_shape=False, use_resource=True, shape=tf.TensorShape(None))
        new = tf.placeholder(tf.float32, None)
        assign, doubled = v.assign(new, read_value=False), tf.reduce_sum(v * 2.0 + 1.0)
        sess.run(v.initializer)
        for n in (3, 3, 3, 3, 5, 5, 2):
            sess.run(assign, {new: np.ones(n)})
            assert sess.run(doubled) == 3.0 * n


def test_updates_and_reads_keep_their_order():
    def run(config):
        with tf.Graph().as_default(), tf.Session(config=config) as sess:
            v = tf.Variable(1.0, use_resource=True)
            first = v.read_value() * 2.0
            with tf.control_dependencies([first]):
                add = v.assign_add(first)
            with tf.control_dependencies([add]):
                second = v.read_value() + 0.5
            with tf.control_dependencies([second]):
                third = v.assign(second * second, read_value=False)
            sess.run(v.initializer)
            seen = [sess.run([first, second, third])[:2] for _ in range(5)]
            return seen, len(recordings(sess))
    assert run(None) == (run(OFF)[0], 1)


def test_random_numbers_and_values_that_python_looks_at_stay_as_they_are():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [4])
        drawn = tf.reduce_sum(tf.random_uniform([4]) + x)
        where = tf.reduce_sum(tf.cast(tf.where(x > 0.0), tf.float32) * 1.0)
        rows = tf.gather(x * 2.0, tf.argmax(x)) + 1.0
        feeds = [np.random.RandomState(i).randn(4) for i in range(10)]
        assert len({float(sess.run(drawn, {x: f})) for f in feeds}) == 10
        for f in feeds:
            assert sess.run(where, {x: f}) == np.flatnonzero(f > 0).sum()
            assert sess.run(rows, {x: f}) == pytest.approx(f.max() * 2 + 1, rel=1e-6)


def test_fed_numbers_and_shapes_are_not_constants():
    with tf.Graph().as_default(), tf.Session() as sess:
        rate, dims = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [2])
        v = tf.Variable(np.zeros(6, np.float32), use_resource=True)
        down = tf.train.GradientDescentOptimizer(rate).minimize(tf.reduce_sum(v * 3.0))
        shaped = tf.reduce_sum(tf.reshape(tf.range(6.0) + 1.0, dims), 0)
        sess.run(v.initializer)
        for i in range(6):
            sess.run(down, {rate: float(i)})
        np.testing.assert_allclose(sess.run(v), -3.0 * sum(range(6)), rtol=1e-6)
        for d in ([2, 3], [3, 2], [1, 6], [6, 1]) * 2:
            np.testing.assert_array_equal(sess.run(shaped, {dims: d}), (np.arange(6.0) + 1).reshape(d).sum(0))


def test_no_update_of_a_thread_is_lost():
    """A sum of integers: each step of each thread adds exactly one to each element."""
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [8, 4])
        v, b = (tf.Variable(np.zeros(dims, np.float32), use_resource=True) for dims in ((4, 4), 4))
        loss = tf.reduce_sum(tf.matmul(x, v) + b) / 8.0
        train = tf.train.GradientDescentOptimizer(-1.0).minimize(loss)
        sess.run(tf.global_variables_initializer())
        ones = np.ones((8, 4), np.float32)

        def work():
            for _ in range(100):
                sess.run(train, {x: ones})
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)
        assert recordings(sess)
        for found in sess.run([v, b]):
            np.testing.assert_array_equal(found, 400.0)


def test_what_is_added_to_two_variables_is_not_used_up():
    """One gradient for two variables, which is fetched as well, while a read holds both: all see the same numbers."""
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [4, 3])
        v, w = (tf.Variable(np.zeros((4, 3), np.float32), use_resource=True) for _ in range(2))
        step = tf.nn.relu(tf.exp(tf.tanh(x) * 2.0) + tf.sin(x)) * 3.0
        before = [tf.identity(u.read_value()) * 1.0 for u in (v, w)]
        with tf.control_dependencies(before):
            updates = tf.train.GradientDescentOptimizer(-1.0).apply_gradients([(step, v), (step, w)])
        sess.run(tf.global_variables_initializer())
        right = np.zeros((4, 3), np.float32)
        for i in range(60):
            given = np.linspace(-1, i % 5, 12, dtype=np.float32).reshape(4, 3)
            _, fetched = sess.run([updates, step], {x: given})
            expected = np.maximum(np.exp(np.tanh(given) * 2) + np.sin(given), 0) * 3
            np.testing.assert_allclose(fetched, expected, rtol=1e-5)
            right += expected
        assert recordings(sess)
        for found in sess.run([v, w]):
            np.testing.assert_allclose(found, right, rtol=1e-4)


def test_a_value_once_fetched_does_not_change():
    net = Network()
    for i in range(8):
        net.step(i)
    fetched = net.values()
    kept = [f.copy() for f in fetched]
    for i in range(8):
        net.step(i)
    for a, b in zip(fetched, kept, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_recording_can_be_read():
    net = Network()
    for i in range(8):
        net.step(i)
    found = recordings(net.sess)[-1]
    assert ".add_product(" in found.alone.source and ".add_all([" in found.shared.source
    script = next(v for k, v in found.alone.scope.items() if k.startswith("script"))
    assert "aten::addmm" in str(script.graph)


class Table:
    """Rows of a table are looked up, counted and added to; a large elementwise part runs as a kernel in C."""

    def __init__(self, config=None):
        with tf.Graph().as_default():
            self.ids, self.scale = tf.placeholder(tf.int64, [6]), tf.placeholder(tf.float32, [])
            table = tf.Variable(np.arange(30, dtype=np.float32).reshape(10, 3), use_resource=True)
            rows = tf.gather(table, self.ids)
            spread = tf.scatter_nd(self.ids[:, None], rows * self.scale, [10, 3])
            total = tf.math.unsorted_segment_sum(rows, self.ids % 4, 4)
            self.out = [spread, total, tf.where(total > 20.0, total, tf.fill([4, 3], np.inf)), tf.reduce_max(rows - np.inf)]
            self.add = tf.raw_ops.ResourceScatterAdd(resource=table.handle, indices=self.ids, updates=rows * 0.01)
            self.sess = tf.Session(config=config)
            self.sess.run(tf.global_variables_initializer())

    def step(self, ids, scale=2.0):
        return self.sess.run([*self.out, self.add], {self.ids: ids, self.scale: scale})[:4]


def test_indices_are_checked_by_recordings():
    one, other = Table(), Table(OFF)
    for i in range(8):
        ids = np.random.RandomState(i).randint(0, 10, 6)
        for a, b in zip(one.step(ids, float(i)), other.step(ids, float(i)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    assert recordings(one.sess)
    for bad in (10, -1):
        with pytest.raises(errors.InvalidArgumentError, match=rf"= {bad} is not in \[0, 10\)"):
            one.step([0, 1, 2, bad, 3, 4])
    np.testing.assert_allclose(one.step(range(6))[0], other.step(range(6))[0], rtol=1e-6)


def test_kernels_that_look_at_values_are_called_between_scripts(monkeypatch):
    """Sorting out what a kernel in Python reads stays as it is; what is around it is recorded."""
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [4, 4])
        w = tf.Variable(np.eye(4, dtype=np.float32), use_resource=True)
        h = tf.tanh(x @ w)
        parts = tf.raw_ops.DynamicStitch(indices=[[0, 2], [1, 3]], data=[h[:2] + 1.0, h[2:] * 2.0])
        kept = tf.linalg.inv(parts + 10.0 * tf.eye(4))
        loss = tf.reduce_sum(kept * h) + tf.reduce_sum(tf.sigmoid(parts))
        train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        sess.run(tf.global_variables_initializer())
        plain = []
        feeds = [np.random.RandomState(i).randn(4, 4) for i in range(10)]
        found = [sess.run([loss, train], {x: f})[0] for f in feeds]
        assert recordings(sess)
        monkeypatch.setattr(recorded, "_AFTER", 1000)
        sess.run(tf.global_variables_initializer())
        with tf.Session(config=OFF) as other:
            other.run(tf.global_variables_initializer())
            plain = [other.run([loss, train], {x: f})[0] for f in feeds]
    np.testing.assert_allclose(found, plain, rtol=1e-5)


def _random_steps(config, steps=10):
    """Losses of steps that draw from seeded streams, choose a branch, and sample classes; and whether they were recorded."""
    draw = np.random.RandomState(0)
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        x, labels = tf.placeholder(tf.float32, [6, 5]), tf.constant(draw.randint(0, 40, [6, 1]))
        w, classes, bias = (tf.get_variable(n, initializer=draw.randn(*s).astype("f") * 0.3, use_resource=True)
                            for n, s in (("w", (5, 4)), ("classes", (40, 4)), ("bias", (40,))))
        hidden = tf.nn.dropout(tf.tanh(x @ w), keep_prob=0.6, seed=1)
        hidden = tf.cond(tf.random.uniform([], seed=5) < 0.5, lambda: tf.reverse(hidden, [1]) * 2.0, lambda: hidden - 0.5)
        loss = tf.reduce_mean(tf.nn.sampled_softmax_loss(classes, bias, labels, hidden, 7, 40, seed=2))
        loss += 0.1 * tf.reduce_mean(tf.square(hidden + tf.random.normal([6, 4], seed=4)))
        train = tf.train.AdagradOptimizer(0.1).minimize(loss)
        with tf.Session(config=config) as sess:
            sess.run(tf.global_variables_initializer())
            found = [sess.run([loss, train], {x: np.random.RandomState(i).randn(6, 5)})[0] for i in range(steps)]
            return [*found, *sess.run([w, classes, bias])], bool(recordings(sess))


def test_random_numbers_are_drawn_in_every_step_and_in_their_order():
    """A recording consumes no random numbers when it is made: seeded steps are those of a session without recordings."""
    one, was_recorded = _random_steps(None)
    other, was_not = _random_steps(OFF)
    assert was_recorded and not was_not
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_elements_of_a_dataset_are_recorded_with_their_random_numbers():
    import penstock as tf2

    def changed(element):
        moved = tf2.image.random_crop(tf2.cast(element, tf2.float32), [4, 4, 3], seed=1)
        return tf2.image.random_brightness(tf2.image.random_flip_left_right(moved, seed=2), 0.3, seed=3)
    pixels = np.random.RandomState(0).randint(0, 255, [40, 6, 6, 3]).astype("uint8")

    def drawn():
        return np.stack([e.numpy() for e in tf2.data.Dataset.from_tensor_slices(pixels).map(changed)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded, "_FEWEST", 1 << 20)
        tf2.random.set_seed(7)
        plain = drawn()
    tf2.random.set_seed(7)
    np.testing.assert_array_equal(drawn(), plain)
    assert len({e[0, 0, 0] for e in plain}) > 20


def test_reads_of_what_a_step_has_assigned():
    """A rule written out with assignments: later reads see them, also those that are returned."""
    import penstock as tf2
    p, m = (tf2.Variable(np.linspace(-1, 1, 6).astype("f").reshape(2, 3)) for _ in range(2))

    @tf2.function
    def step(g):
        m.assign(0.9 * m + 0.1 * g)
        change = tf2.sqrt(tf2.abs(m)) + 0.01 * p
        p.assign_sub(0.1 * change)
        between = tf2.identity(m)
        m.assign(m * 2.0)
        return between, tf2.identity(m), p + 0.0
    want_p = want_m = np.linspace(-1, 1, 6).reshape(2, 3)
    for i in range(8):
        g = np.random.RandomState(i).randn(2, 3).astype("f")
        found = [t.numpy() for t in step(tf2.constant(g))]
        want_m = 0.9 * want_m + 0.1 * g
        want_p = want_p - 0.1 * (np.sqrt(np.abs(want_m)) + 0.01 * want_p)
        for a, b in zip(found, (want_m, 2 * want_m, want_p), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        want_m = 2 * want_m
    np.testing.assert_allclose(m.numpy(), want_m, rtol=1e-4, atol=1e-5)
    found[0][:] = 0                                           # what was returned is not the variable's memory
    np.testing.assert_allclose(m.numpy(), want_m, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")
@pytest.mark.parametrize("call", [
    lambda a, b: torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], ""),
    lambda a, b: torch.ops.mkldnn._linear_pointwise(a, b, None, "hardtanh", [-1.0, 1.5], ""),
    lambda a, b: torch.ops.aten._unsafe_index(a, [None, torch.ops.aten.argsort(a)[0]])], ids=["empty", "numbers", "none"])
def test_lists_whose_elements_may_be_missing_are_part_of_scripts(call):
    a, b = torch.randn(5, 4), torch.randn(6, 4)
    given = [Traced(a), Traced(b)]
    recorder = Recorder()
    with recorder:
        made = call(*given)
    found, _ = script(recorder.items, {id(t): name for t, name in zip(given, "ab", strict=True)}, [made])([a, b])
    torch.testing.assert_close(found, call(a, b))


def test_a_training_step_of_convolutions_and_pools_is_recorded():
    """Its gradients have results that are None, and its pools return places beside the maxima."""
    def trained(config):
        draw = np.random.RandomState(0)
        with tf.Graph().as_default(), tf.Session(config=config) as sess:
            x = tf.placeholder(tf.float32, [2, 12, 12, 1])
            w = [tf.Variable(draw.randn(*dims).astype("f") * 0.3, use_resource=True) for dims in ((3, 3, 1, 8), (3, 3, 8, 8))]
            h = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, w[0], 1, "SAME")), 2, 2, "VALID")
            h = tf.nn.max_pool2d(tf.nn.conv2d(tf.nn.conv2d(h, w[1], 1, "SAME"), w[1], 1, "SAME"), 2, 2, "VALID")
            loss = tf.reduce_mean(tf.square(h))
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
            sess.run(tf.global_variables_initializer())
            given = draw.randn(2, 12, 12, 1)
            return [sess.run([loss, train], {x: given})[0] for _ in range(8)], recordings(sess)
    found, made = trained(None)
    np.testing.assert_allclose(found, trained(OFF)[0], rtol=1e-4)
    assert made


def test_a_rate_that_is_set_between_steps_is_no_constant(monkeypatch):
    """Each attempt to record with a constant that changes would be in vain: one is enough, and assignments end nothing."""
    monkeypatch.setattr(recorded, "_AFTER", 4)
    made = []
    monkeypatch.setattr(recorded, "Recorder", lambda: made.append(None) or Recorder())
    with tf.Graph().as_default(), tf.Session() as sess:
        x, fed = tf.placeholder(tf.float32, [4, 3]), tf.placeholder(tf.float32, [])
        w, rate, total, count = (tf.Variable(v, use_resource=True) for v in (np.ones((3, 2), "f"), 0.5, 0.0, 0.0))
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.tanh(x), w)))
        learn = tf.assign_sub(w, rate * tf.gradients(loss, w)[0])
        step = tf.group(learn, tf.assign_add(total, loss), tf.assign_add(count, 1.0))
        change = tf.assign(rate, fed)
        sess.run(tf.global_variables_initializer())
        given, expected = np.random.RandomState(0).randn(4, 3).astype("f"), np.ones((3, 2), "f")
        for i in range(12):
            sess.run(change, {fed: 0.5 / (1 + i // 2)})
            sess.run(step, {x: given})
            h = np.tanh(given)
            expected = expected - 0.5 / (1 + i // 2) * 2 * h.T @ (h @ expected) / 8
        np.testing.assert_allclose(sess.run(w), expected, rtol=1e-4)
        assert len(recordings(sess)) == len(made) == 2               # of the step, and of the assignment
