"""The optimizers of DeepRec against numpy, on rows by key, on resource variables and on reference variables."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

KINDS = {"keyed": None, "resource": True, "reference": False}
COUNTS = np.array([[1.0], [2.0]])          # how often the two keys are looked up


def trained(make, kind, steps):
    """Two rows of a table and a dense variable after some steps."""
    with tf.Graph().as_default(), tf.Session() as sess:
        step = tf.train.get_or_create_global_step()
        ones = tf.ones_initializer()
        table = tf.get_embedding_variable("t", 3, initializer=ones) if kind == "keyed" else \
            tf.get_variable("t", [5, 3], initializer=ones, use_resource=KINDS[kind])
        w = tf.get_variable("w", [3], initializer=ones, use_resource=KINDS[kind] is not False)
        rows = tf.nn.embedding_lookup(table, tf.constant([1, 2, 2], tf.int64))
        train = make(step).minimize(tf.reduce_sum(tf.square(rows) * w), step)
        sess.run(tf.global_variables_initializer())
        for _ in range(steps):
            sess.run(train)
        return sess.run([tf.nn.embedding_lookup(table, tf.constant([1, 2], tf.int64)), w])


def expected(update, steps):
    """The same with an update of numpy arrays: (kept state, gradient, step, sparse) -> what is taken off."""
    rows, w, state = np.ones((2, 3)), np.ones(3), {False: {}, True: {}}
    for i in range(steps):
        grads = {True: 2 * rows * w * COUNTS, False: (rows ** 2 * COUNTS).sum(0)}
        rows, w = (x - update(state[sparse], grads[sparse], i, sparse) for x, sparse in ((rows, True), (w, False)))
    return rows, w


def adam(state, grad, i, sparse, rmsprop=False):
    m, v = state.get("m", 0 * grad), state.get("v", 0 * grad)
    v = state["v"] = 0.999 * v + 0.001 * grad ** 2
    if rmsprop and sparse:
        m = state["m"] = 0.9 * m + 0.1 * grad / np.sqrt(v + 1e-8)
        return m
    m = state["m"] = 0.9 * m + 0.1 * grad
    return 0.1 * np.sqrt(1 - 0.999 ** (i + 1)) / (1 - 0.9 ** (i + 1)) * m / (np.sqrt(v) + 1e-8)


def adagrad_decay(state, grad, i, sparse):
    sums, decays = state.get("sums", 0 * grad + 0.1), state.get("decays", 0)
    if (i + 1) // 2 > decays:
        sums, state["decays"] = np.maximum(sums * 0.5, 0.1), decays + 1
    sums = state["sums"] = sums + grad ** 2
    return 0.1 * grad / np.sqrt(sums)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rmsprop", [False, True])
def test_adam_async(kind, rmsprop):
    found = trained(lambda step: tf.train.AdamAsyncOptimizer(0.1, apply_sparse_rmsprop=rmsprop), kind, 4)
    for a, b in zip(found, expected(lambda *given: adam(*given, rmsprop=rmsprop), 4), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_adagrad_decay(kind):
    found = trained(lambda step: tf.train.AdagradDecayOptimizer(0.1, step, accumulator_decay_step=2,
                                                                accumulator_decay_rate=0.5), kind, 6)
    for a, b in zip(found, expected(adagrad_decay, 6), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_weights_of_rows_decay_when_they_have_a_gradient():
    found = trained(lambda step: tf.train.AdamWOptimizer(0.01, 0.1), "keyed", 1)
    for a, b in zip(found, expected(lambda *given: 0.01 + adam(*given), 1), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


def test_arguments_are_checked():
    for wrong in ({"accumulator_decay_step": 0}, {"accumulator_decay_rate": 1.0}, {"initial_accumulator_value": 0.0}):
        with pytest.raises(ValueError, match="must be"):
            tf.train.AdagradDecayOptimizer(0.1, None, **wrong)
