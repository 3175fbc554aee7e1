"""contrib.crf against all sequences; contrib.opt: steps by hand, and minima."""
import itertools

import numpy as np
import pytest

import penstock.compat.v1 as tf

RNG = np.random.RandomState(0)


def test_crf_against_all_sequences(run):
    crf = tf.contrib.crf
    scores, transitions = RNG.randn(2, 4, 3).astype(np.float32), RNG.randn(3, 3).astype(np.float32)
    lengths, tags = [2, 4], np.array([[1, 0, 0, 0], [2, 1, 1, 0]])

    def score(row, sequence):
        return sum(scores[row, t, k] for t, k in enumerate(sequence)) + \
            sum(transitions[a, b] for a, b in zip(sequence, sequence[1:]))

    likelihood, _ = crf.crf_log_likelihood(scores, tags, lengths, transitions)
    decoded, best = crf.crf_decode(scores, transitions, lengths)
    _, found, path, top = run(likelihood, decoded, best)
    for row, n in enumerate(lengths):
        everything = {s: score(row, s) for s in itertools.product(range(3), repeat=n)}
        norm = np.log(sum(np.exp(v) for v in everything.values()))
        np.testing.assert_allclose(found[row], score(row, tags[row, :n]) - norm, rtol=1e-4)
        winner = max(everything, key=everything.get)
        assert tuple(path[row, :n]) == winner and (path[row, n:] == 0).all()
        np.testing.assert_allclose(top[row], everything[winner], rtol=1e-5)
        assert tuple(crf.viterbi_decode(scores[row, :n], transitions)[0]) == winner


@pytest.mark.parametrize("time", [1, 3])
def test_crf_with_several_allowed_tags(time, run):
    scores, transitions = RNG.randn(2, time, 3).astype(np.float32), RNG.randn(3, 3).astype(np.float32)
    allowed = np.array([[[1, 1, 0], [0, 1, 1], [1, 1, 1]], [[0, 0, 1], [0, 1, 0], [1, 0, 0]]], bool)[:, :time]
    _, found = run(tf.contrib.crf.crf_multitag_sequence_score(scores, allowed, [time, time], transitions))
    for row in range(2):
        total = sum(np.exp(sum(scores[row, t, k] for t, k in enumerate(s)) + sum(transitions[a, b] for a, b in zip(s, s[1:])))
                    for s in itertools.product(range(3), repeat=time) if all(allowed[row, t, k] for t, k in enumerate(s)))
        np.testing.assert_allclose(found[row], np.log(total), rtol=1e-5, atol=1e-6)


def test_crf_learns_its_transitions():
    scores = tf.zeros([1, 5, 2])
    likelihood, transitions = tf.contrib.crf.crf_log_likelihood(scores, [[0, 1, 0, 1, 0]], [5])
    train = tf.train.GradientDescentOptimizer(0.5).minimize(-tf.reduce_mean(likelihood))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(30):
            session.run(train)
        t = session.run(transitions)
    assert t[0, 1] > t[0, 0] and t[1, 0] > t[1, 1]


OPTIMIZERS = {
    "LazyAdamOptimizer": lambda o: o(0.1), "AdamWOptimizer": lambda o: o(0.001, 0.1), "NadamOptimizer": lambda o: o(0.1),
    "MomentumWOptimizer": lambda o: o(0.001, 0.02, 0.9), "AddSignOptimizer": lambda o: o(0.1),
    "PowerSignOptimizer": lambda o: o(0.05), "LARSOptimizer": lambda o: o(1.0, eeta=0.1),
    "MovingAverageOptimizer": lambda o: o(tf.train.GradientDescentOptimizer(0.1)),
}


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_minimizes(name, resource):
    x = tf.get_variable("x", initializer=np.array([3.0, -2.0], np.float32), use_resource=resource)
    train = OPTIMIZERS[name](getattr(tf.contrib.opt, name)).minimize(tf.reduce_sum(tf.square(x)))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(60):
            session.run(train)
        assert np.abs(session.run(x)).max() < 0.8


def test_lazy_adam_leaves_other_rows_alone():
    x = tf.get_variable("x", initializer=np.ones([3, 2], np.float32))
    optimizer = tf.contrib.opt.LazyAdamOptimizer(0.1)
    one, other = (optimizer.minimize(tf.reduce_sum(tf.gather(x, [i]))) for i in (0, 1))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(one)
        first = session.run(x)
        session.run(other)
        second = session.run(x)
    np.testing.assert_allclose(first[0], 0.9, rtol=1e-4)
    np.testing.assert_array_equal(first[0], second[0])          # plain Adam would move it on
    assert (second[2] == 1).all() and (second[1] < 1).all()


def test_weight_decay_is_decoupled():
    x, y = (tf.get_variable(n, initializer=2.0) for n in "xy")
    optimizer = tf.contrib.opt.extend_with_decoupled_weight_decay(tf.train.GradientDescentOptimizer)(0.1, learning_rate=0.5)
    train = optimizer.minimize(x + y, decay_var_list=[x])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_allclose(session.run([x, y]), [2 * 0.9 - 0.5, 1.5], rtol=1e-6)


def test_moving_averages_are_saved(tmp_path):
    x = tf.get_variable("x", initializer=4.0)
    optimizer = tf.contrib.opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(1.0), average_decay=0.5)
    train = optimizer.minimize(x)
    saver = optimizer.swapping_saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        path = saver.save(session, str(tmp_path / "m"))
        assert session.run(x) == 3.0
    assert tf.train.load_checkpoint(path).get_tensor("x") == 3.5


def test_scipy_minimizes():
    pytest.importorskip("scipy", reason="scipy is the optimizer here, and is not a dependency")
    v = tf.get_variable("v", initializer=np.array([7.0, 7.0], np.float32))
    free = tf.contrib.opt.ScipyOptimizerInterface(tf.reduce_sum(tf.square(v - 1.0)))
    bound = tf.contrib.opt.ScipyOptimizerInterface(tf.reduce_sum(tf.square(v)), equalities=[v[1] - 3.0],
                                                   inequalities=[v[0] - 2.0])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        free.minimize(session)
        np.testing.assert_allclose(session.run(v), [1, 1], atol=1e-3)
        bound.minimize(session)
        np.testing.assert_allclose(session.run(v), [2, 3], atol=1e-2)


def test_names_that_have_moved():
    assert tf.contrib.keras.layers.Dense is tf.keras.layers.Dense and tf.layers.Dense is not tf.keras.layers.Dense
    assert tf.contrib.framework.python.ops.audio_ops.decode_wav is tf.audio.decode_wav


def steps_of(optimizer, value, gradients, indices=None, resource=False):
    var = tf.get_variable("v", initializer=tf.constant(value), use_resource=resource)
    given = tf.placeholder(tf.float32, [None] if indices is None else [len(indices)])
    grad = given if indices is None else tf.IndexedSlices(given, tf.constant(indices), tf.constant([len(value)]))
    train = optimizer.apply_gradients([(grad, var)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for g in gradients:
            session.run(train, {given: g})
        return session.run(var)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("nesterov", [False, True])
def test_lars_keeps_the_rates_of_earlier_steps(nesterov, resource):
    gradients = RNG.randn(4, 3).astype(np.float32)
    w, total = np.array([1.0, -2.0, 0.5]), np.zeros(3)
    for g in gradients:
        size = np.linalg.norm(w)
        rate = 0.5 * 0.1 * size / (np.linalg.norm(g) + 0.01 * size)
        step = rate * (g + 0.01 * w)
        total = 0.9 * total + step
        w = w - (step + 0.9 * total if nesterov else total)
    made = tf.contrib.opt.LARSOptimizer(0.5, 0.9, 0.01, eeta=0.1, use_nesterov=nesterov)
    np.testing.assert_allclose(steps_of(made, [1.0, -2.0, 0.5], gradients, resource=resource), w, rtol=1e-5)


@pytest.mark.parametrize("resource", [False, True])
def test_sparse_rows_of_lars_are_plain_momentum(resource):
    w, total = np.array([1.0, 2.0]), np.zeros(2)
    for g in ([0.5, 1.0], [1.0, -1.0]):
        total = 0.9 * total + g
        w = w - 0.1 * total
    found = steps_of(tf.contrib.opt.LARSOptimizer(0.1), [1.0, 7.0, 2.0], [[0.5, 1.0], [1.0, -1.0]], [0, 2], resource)
    np.testing.assert_allclose(found, [w[0], 7.0, w[1]], rtol=1e-5)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("indices", [None, [0, 2]])
def test_adamax_by_hand(indices, resource):
    gradients = RNG.randn(3, 2).astype(np.float32)
    w, m, v = np.array([1.0, 2.0]), np.zeros(2), np.zeros(2)
    for t, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, np.maximum(0.99 * v, np.abs(g))
        w = w - 0.1 / (1 - 0.9 ** t) * m / (v + 1e-8)
    value, wanted = ([1.0, 2.0], w) if indices is None else ([1.0, 7.0, 2.0], [w[0], 7.0, w[1]])
    found = steps_of(tf.contrib.opt.AdaMaxOptimizer(0.1, beta2=0.99), value, gradients, indices, resource)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
