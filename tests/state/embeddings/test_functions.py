"""Gradients of embedding variables through calls of functions, branches and loops, as those of a dense variable."""
import numpy as np
import pytest

import penstock as tf
from penstock.compat import v1

KEYS = {"int64": [7, -3, 7], "string": ["bb", "", "bb"]}
ROWS = [1, 0, 1]                 # the same in a dense variable


def call(read, n, chosen):
    return read(slice(None))


def branch(read, n, chosen):
    return tf.cond(chosen, lambda: 2.0 * read(slice(None)), lambda: tf.ones([3, 2]))


def branches(read, n, chosen):
    return tf.cond(chosen, lambda: 2.0 * read(slice(None)), lambda: read(slice(1)))


def loop(read, n, chosen):
    return tf.while_loop(lambda i, total: i < n, lambda i, total: (i + 1, total * read(slice(i, i + 1))[0]),
                         [tf.constant(0), tf.ones([2])])[1]


def branch_in_a_loop(read, n, chosen):
    def body(i, total):
        return i + 1, tf.cond(i > 0, lambda: total * read(slice(i, i + 1))[0], lambda: total + 1.0)
    return tf.while_loop(lambda i, total: i < n, body, [tf.constant(0), tf.ones([2])])[1]


def gradient(tape, loss, variable):
    """By row."""
    found = tape.gradient(loss, variable)
    return 0 if found is None else tf.convert_to_tensor(found).numpy()


@pytest.mark.parametrize("dtype", KEYS)
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("model", [call, branch, branches, loop, branch_in_a_loop])
def test_gradients_of_functions_are_those_of_a_dense_variable(model, parts, dtype):
    partitioner = tf.compat.v1.fixed_size_partitioner(parts) if parts > 1 else None
    table = v1.get_embedding_variable(f"{model.__name__}{parts}{dtype}", 2, dtype, partitioner=partitioner,
                                      initializer=tf.constant_initializer(0.5))
    dense = tf.Variable(np.full((2, 2), 0.5, np.float32))
    keys, own = tf.constant(KEYS[dtype], dtype), list(table) if parts > 1 else [table]

    @tf.function
    def keyed(n, chosen):
        return model(lambda at: tf.nn.embedding_lookup(table, keys[at]), n, chosen)

    @tf.function
    def plain(n, chosen):
        return model(lambda at: tf.gather(dense, tf.constant(ROWS)[at]), n, chosen)
    for n, chosen in ((2, True), (0, False), (3, True)):
        given = tf.constant(n), tf.constant(chosen)
        with tf.GradientTape(persistent=True) as tape:
            ours, expected = keyed(*given), plain(*given)
            losses = tf.reduce_sum(ours ** 2), tf.reduce_sum(expected ** 2)
        np.testing.assert_allclose(ours, expected, rtol=1e-6)
        found = np.zeros((2, 2), np.float32)
        for slices in tape.gradient(losses[0], own):
            if slices is not None:
                rows = [int(k in (7, b"bb")) for k in slices.indices.numpy().tolist()]
                np.add.at(found, np.array(rows, int), slices.values.numpy())
        np.testing.assert_allclose(found, gradient(tape, losses[1], dense) * np.ones((2, 2)), rtol=1e-5)


def test_a_loop_that_looks_a_table_up_trains():
    """The sum over a sequence of unknown length, as in a decoder, in a step with an open shape."""
    table = v1.get_embedding_variable("decoded", 1, initializer=tf.constant_initializer(1.0))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
    def step(keys):
        with tf.GradientTape() as tape:
            total = tf.zeros([1])
            for key in keys:
                total += tf.nn.embedding_lookup(table, key[None])[0]
        optimizer.apply_gradients([(tape.gradient(total, table), table)])
        return total[0]
    optimizer = tf.keras.optimizers.SGD(0.25)
    assert [float(step(tf.constant(keys, tf.int64))) for keys in ([5, 6, 5], [5], [6, 6])] == [3.0, 0.5, 1.5]


@pytest.mark.parametrize("dtype", KEYS)
def test_gradients_of_conditionals_and_loops_of_1x(dtype):
    """In the branch that is not taken there are no rows; the gradients of all iterations add up."""
    with v1.Graph().as_default(), v1.Session() as sess:
        v1.disable_control_flow_v2()
        table = v1.get_embedding_variable("table", 2, dtype, initializer=v1.constant_initializer(0.5))
        keys, chosen = v1.placeholder(dtype, [None]), v1.placeholder(tf.bool, [])
        branch = v1.cond(chosen, lambda: tf.reduce_sum(v1.nn.embedding_lookup(table, keys), 0), lambda: tf.zeros([2]))
        _, squares = v1.while_loop(lambda i, total: i < tf.size(keys), lambda i, total: (
            i + 1, total + v1.nn.embedding_lookup(table, keys[i:i + 1])[0] ** 2), [0, tf.zeros([2])])
        found, = v1.gradients(tf.reduce_sum(3.0 * branch + squares), [table])
        sess.run(v1.global_variables_initializer())
        for taken in True, False:
            slices = sess.run(found, {keys: KEYS[dtype], chosen: taken})
            sums = {}
            for key, row in zip(slices.indices.tolist(), slices.values, strict=True):
                sums[key] = sums.get(key, 0) + row
            assert len(sums) == 2                  # and no key of a row of zeros
            first, second = (k if isinstance(k, int) else k.encode() for k in KEYS[dtype][:2])
            np.testing.assert_allclose(sums[first], 2 * (3.0 * taken + 1.0) * np.ones(2), rtol=1e-6)
            np.testing.assert_allclose(sums[second], (3.0 * taken + 1.0) * np.ones(2), rtol=1e-6)
